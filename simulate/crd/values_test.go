package crd_test

import (
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"k8s.io/apiextensions-apiserver/pkg/apis/apiextensions"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	structural "k8s.io/apiextensions-apiserver/pkg/apiserver/schema"
	"k8s.io/apiextensions-apiserver/pkg/apiserver/schema/cel/model"
	"k8s.io/apiextensions-apiserver/pkg/apiserver/schema/listtype"
	"k8s.io/apiextensions-apiserver/pkg/apiserver/schema/objectmeta"
	"k8s.io/apiextensions-apiserver/pkg/apiserver/validation"
	"k8s.io/apimachinery/pkg/util/validation/field"
	"k8s.io/apiserver/pkg/cel/common"
	"sigs.k8s.io/yaml"

	"github.com/go-lw/lw/internal/registry/values"
	"github.com/go-lw/lw/internal/verify/rig"
)

const shop = `
type: object
required: [spec]
properties:
  spec:
    type: object
    required: [size]
    properties:
      size: {type: integer, minimum: 1, maximum: 9, multipleOf: 2}
      weight: {type: number, minimum: 0, exclusiveMinimum: true, maximum: 2}
      color: {type: string, enum: [red, blue]}
      code: {type: string, pattern: "^[a-z]+$", minLength: 2, maxLength: 4}
      since: {type: string, format: date-time}
      address: {type: string, format: ipv4}
      port: {x-kubernetes-int-or-string: true, anyOf: [{type: integer}, {type: string}]}
      one: {type: object, properties: {a: {type: string}, b: {type: string}}, oneOf: [{required: [a]}, {required: [b]}]}
      note: {type: string, nullable: true}
      tags: {type: array, minItems: 1, maxItems: 2, items: {type: string}, x-kubernetes-list-type: set}
      steps: {type: array, items: {type: object, required: [name], properties: {name: {type: string}, width: {type: integer, minimum: 1}}}}
      doors:
        type: array
        x-kubernetes-list-type: map
        x-kubernetes-list-map-keys: [name]
        items: {type: object, required: [name], properties: {name: {type: string}, width: {type: integer, minimum: 1}}}
      labels: {type: object, minProperties: 1, maxProperties: 2, additionalProperties: {type: integer, maximum: 5}}
      parts: {type: array, items: {type: object, x-kubernetes-embedded-resource: true, x-kubernetes-preserve-unknown-fields: true}}
  status:
    type: object
    required: [ready]
    properties:
      ready: {type: integer, minimum: 0}
      part: {type: object, x-kubernetes-embedded-resource: true, x-kubernetes-preserve-unknown-fields: true}
`

// choices are values of each field of a shop, good and bad ones.
var choices = map[string][]string{
	"size": {`2`, `4`, `0`, `3`, `12`, `"2"`, `2.5`}, "weight": {`1`, `1.5`, `0`, `3`, `"x"`},
	"color": {`"red"`, `"green"`, `1`}, "code": {`"abc"`, `"A"`, `"abcde"`, `"é"`},
	"since": {`"2020-01-02T03:04:05Z"`, `"today"`}, "address": {`"10.0.0.1"`, `"10"`}, "port": {`80`, `"http"`, `true`},
	"one": {`{"a":"x"}`, `{}`, `{"a":"x","b":"y"}`, `{"a":1}`}, "note": {`null`, `"x"`, `1`},
	"tags": {`["a"]`, `["a","b"]`, `["a","a"]`, `[]`, `["a","b","c"]`, `["a","a","a"]`, `[1]`},
	"steps": {`[{"name":"a"}]`, `[{"name":"a","width":0},{"name":"b"}]`, `[{"name":"b"},{"name":"a","width":0}]`,
		`[{"width":1}]`},
	"doors": {`[{"name":"a"}]`, `[{"name":"a","width":0},{"name":"b"}]`, `[{"name":"b"},{"name":"a","width":0}]`,
		`[{"name":"b","width":0}]`, `[{"name":"a"},{"name":"a"}]`, `[]`},
	"parts": {`[{"apiVersion":"v1","kind":"Part"}]`, `[{},{"apiVersion":"a/b/c","kind":"a b"}]`, `[{"apiVersion":"","kind":""}]`,
		`[{"apiVersion":1,"kind":2,"metadata":{"name":"a/b","namespace":"A"}}]`,
		`[{"apiVersion":"v1","kind":"Part","metadata":{"generateName":"a%","labels":{"a b":"c"}}}]`},
	"labels": {`{"a":1}`, `{"a":9}`, `{}`, `{"a":9,"b":1}`, `{"a":1,"b":2,"c":3}`},
}

// What lw says of values is what the packages of kube-apiserver say of them.
func TestValues(t *testing.T) {
	props := &apiextensionsv1.JSONSchemaProps{}
	rig.OK(t, yaml.Unmarshal([]byte(shop), props))
	internal := &apiextensions.JSONSchemaProps{}
	rig.OK(t, apiextensionsv1.Convert_v1_JSONSchemaProps_To_apiextensions_JSONSchemaProps(props, internal, nil))
	schema := rig.Must[*structural.Structural](t)(structural.NewStructural(internal))
	theirs, _, err := validation.NewSchemaValidator(internal)
	rig.OK(t, err)
	status := internal.Properties["status"]
	theirStatus, _, err := validation.NewSchemaValidator(&status)
	rig.OK(t, err)
	ours := rig.Must[*values.Values](t)(values.New([]byte(shop)))

	random := rand.New(rand.NewPCG(1, 1))
	object := func() (object map[string]any) {
		var fields []string
		for name, all := range choices {
			if name == "size" && random.IntN(10) > 0 || random.IntN(3) == 0 {
				fields = append(fields, fmt.Sprintf("%q:%s", name, all[random.IntN(len(all))]))
			}
		}
		text := `{"apiVersion":"example.com/v1","kind":"Shop","metadata":{"name":"a"}`
		if random.IntN(10) > 0 {
			text += `,"spec":{` + strings.Join(fields, ",") + `}`
		}
		text += []string{``, `,"status":{}`, `,"status":{"ready":1}`, `,"status":{"ready":-1,"part":{}}`,
			`,"status":{"ready":"x"}`}[random.IntN(5)] + `}`
		rig.OK(t, yaml.Unmarshal([]byte(text), &object))
		return integers(object).(map[string]any)
	}
	said := func(errs field.ErrorList, reworded map[string]bool) (all []string) {
		for _, err := range errs {
			if reworded[err.Field] {
				all = append(all, err.Field)
			} else {
				all = append(all, err.Error())
			}
		}
		slices.Sort(all)
		return all
	}
	differ := func(theirs, ours field.ErrorList) string {
		reworded := map[string]bool{} // what 1.38 says in other words: lw answers as 1.36
		for _, err := range theirs {
			if err.Type == "FieldValueTooShort" || err.Type == "FieldValueTooFew" {
				reworded[err.Field] = true
			}
		}
		return cmp.Diff(said(theirs, reworded), said(ours, reworded))
	}
	for range 1000 {
		obj, old := object(), map[string]any(nil)
		var want, wantStatus field.ErrorList
		if s, ok := obj["status"]; ok {
			wantStatus = validation.ValidateCustomResource(field.NewPath("status"), s, theirStatus)
		}
		if random.IntN(2) == 0 {
			if old = object(); cmp.Equal(obj, old) {
				continue // a write that changes nothing is none
			}
			correlated := common.NewCorrelatedObject(obj, old, &model.Structural{Structural: schema})
			want = validation.ValidateCustomResourceUpdate(nil, obj, old, theirs, validation.WithRatcheting(correlated))
		} else {
			want = validation.ValidateCustomResource(nil, obj, theirs)
		}
		want = append(want, objectmeta.Validate(t.Context(), nil, obj, schema, false)...)
		if old == nil || len(listtype.ValidateListSetsAndMaps(nil, schema, old)) == 0 {
			want = append(want, listtype.ValidateListSetsAndMaps(nil, schema, obj)...)
		}
		text := func() string { return string(rig.Must[[]byte](t)(json.Marshal([]any{old, obj}))) }
		if diff := differ(want, ours.Check(obj, old, false)); diff != "" {
			t.Fatalf("%s (-theirs +ours)\n%s", text(), diff)
		}
		if diff := differ(wantStatus, ours.Check(obj, nil, true)); diff != "" {
			t.Fatalf("the status of %s (-theirs +ours)\n%s", text(), diff)
		}
	}
}

// integers returns a value with whole numbers as servers decode them.
func integers(v any) any {
	switch v := v.(type) {
	case float64:
		if v == float64(int64(v)) {
			return int64(v)
		}
	case []any:
		for i := range v {
			v[i] = integers(v[i])
		}
	case map[string]any:
		for name := range v {
			v[name] = integers(v[name])
		}
	}
	return v
}
