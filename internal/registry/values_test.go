package registry_test

import (
	"context"
	"errors"
	"strings"
	"testing"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/util/validation/field"

	. "github.com/go-lw/lw/internal/registry"
	"github.com/go-lw/lw/internal/registry/values"
	"github.com/go-lw/lw/internal/verify/rig"
)

// shopSchema has each check of a value.
const shopSchema = `
type: object
required: [spec]
properties:
  metadata: {type: object, properties: {name: {type: string, maxLength: 5}}}
  spec:
    type: object
    required: [size]
    properties:
      size: {type: integer, minimum: 1, maximum: 9, multipleOf: 2}
      weight: {type: number, minimum: 0, exclusiveMinimum: true, maximum: 2, exclusiveMaximum: true}
      count: {type: integer, format: int32}
      color: {type: string, enum: [red, blue]}
      code: {type: string, pattern: "^[a-z]+$", minLength: 2, maxLength: 4}
      since: {type: string, format: date-time}
      free: {type: string, format: whatever}
      open: {type: boolean}
      port: {x-kubernetes-int-or-string: true, anyOf: [{type: integer, maximum: 99}, {type: string, pattern: "^[a-z]+$"}]}
      one: {type: object, properties: {a: {type: string}, b: {type: string}}, oneOf: [{required: [a]}, {required: [b]}]}
      not: {type: string, not: {enum: [bad]}}
      note: {type: string, nullable: true}
      tags: {type: array, minItems: 1, maxItems: 2, items: {type: string}, x-kubernetes-list-type: set}
      doors:
        type: array
        x-kubernetes-list-type: map
        x-kubernetes-list-map-keys: [name]
        items: {type: object, required: [name], properties: {name: {type: string}, width: {type: integer, minimum: 1}}}
      labels: {type: object, minProperties: 1, maxProperties: 2, additionalProperties: {type: integer, maximum: 5}}
  status: {type: object, properties: {ready: {type: integer, minimum: 0}}}
`

// A schema checks the values of each write, whatever form it comes in.
func TestValues(t *testing.T) {
	kind := things(t)
	kind.Type, kind.Status = nil, true
	rig.OK(t, kind.SetSchema([]byte(shopSchema)))
	for _, c := range []struct{ spec, want string }{
		{`{"size":2,"weight":1.5,"count":5,"color":"red","code":"abc","since":"2020-01-02T03:04:05Z","free":"?","open":true,"port":80,"one":{"a":"x"},"not":"good","note":null,"tags":["a","b"],"doors":[{"name":"a","width":1}],"labels":{"a":5}}`, ""},
		{`{"size":2,"port":"http","labels":null}`, ""},
		{`{}`, "spec.size: Required value"},
		{`{"size":null}`, "spec.size: Required value"},
		{`{"size":0}`, "spec.size: Invalid value: 0: spec.size in body should be greater than or equal to 1"},
		{`{"size":10}`, "spec.size: Invalid value: 10: spec.size in body should be less than or equal to 9"},
		{`{"size":3}`, "spec.size: Invalid value: 3: spec.size in body should be a multiple of 2"},
		{`{"size":"2"}`, `spec.size: Invalid value: "string": spec.size in body must be of type integer: "string"`},
		{`{"size":2.5}`, `spec.size: Invalid value: "number": spec.size in body must be of type integer: "number"`},
		{`{"size":2,"weight":0}`, "spec.weight: Invalid value: 0: spec.weight in body should be greater than 0"},
		{`{"size":2,"weight":2}`, "spec.weight: Invalid value: 2: spec.weight in body should be less than 2"},
		{`{"size":2,"color":"green"}`, `spec.color: Unsupported value: "green": supported values: "red", "blue"`},
		{`{"size":2,"code":"ABC"}`, `spec.code: Invalid value: "ABC": spec.code in body should match '^[a-z]+$'`},
		{`{"size":2,"code":"a"}`, `spec.code: Invalid value: "a": spec.code in body should be at least 2 chars long`},
		{`{"size":2,"code":"abcde"}`, `spec.code: Too long: may not be more than 4 bytes`},
		{`{"size":2,"since":"today"}`,
			`spec.since: Invalid value: "today": spec.since in body must be of type date-time: "today"`},
		{`{"size":2,"open":1}`, `spec.open: Invalid value: "integer": spec.open in body must be of type boolean: "integer"`},
		{`{"size":2,"port":100}`, "must validate at least one schema"},
		{`{"size":2,"port":true}`, "must be of type integer,string"},
		{`{"size":2,"one":{}}`, "must validate one and only one schema (oneOf)"},
		{`{"size":2,"one":{"a":"","b":""}}`, "must validate one and only one schema (oneOf)"},
		{`{"size":2,"not":"bad"}`, "must not validate the schema (not)"},
		{`{"size":2,"tags":[]}`, "spec.tags in body should have at least 1 items"},
		{`{"size":2,"tags":["a","b","c"]}`, "spec.tags: Too many: 3: must have at most 2 items"},
		{`{"size":2,"tags":["a","a"]}`, `spec.tags[1]: Duplicate value: "a"`},
		{`{"size":2,"tags":["a","b","a","a"]}`, `spec.tags[2]: Duplicate value: "a"]`},
		{`{"size":2,"tags":[1]}`,
			`spec.tags[0]: Invalid value: "integer": spec.tags[0] in body must be of type string: "integer"`},
		{`{"size":2,"tags":{}}`, `spec.tags in body must be of type array: "object"`},
		{`{"size":2,"doors":[{"width":1}]}`, "spec.doors[0].name: Required value"},
		{`{"size":2,"doors":[{"name":"a","width":0}]}`, "spec.doors[0].width: Invalid value: 0"},
		{`{"size":2,"doors":[{"name":"a"},{"name":"a"}]}`, `spec.doors[1]: Duplicate value: {"name":"a"}`},
		{`{"size":2,"labels":{}}`, "should have at least 1 properties"},
		{`{"size":2,"labels":{"a":1,"b":1,"c":1}}`, "spec.labels: Too many: 3: must have at most 2 items"},
		{`{"size":2,"labels":{"a.b":6}}`, "spec.labels.a.b: Invalid value: 6"},
		{`[]`, `spec in body must be of type object: "array"`},
	} {
		for _, verb := range []string{"create", "update", "merge", "apply", "yaml"} {
			m := newMemory(kind)
			req := Request{Verb: Create,
				Body: []byte(`{"kind":"Thing","apiVersion":"example.io/v1","metadata":{"name":"a"},"spec":` + c.spec + `}`)}
			if verb == "yaml" {
				req.ContentType = "application/yaml"
			}
			if verb == "update" || verb == "merge" {
				mustCreate(t, m, `{"metadata":{"name":"a"},"spec":{"size":4}}`)
				req.Verb, req.Key = Update, named("a")
			}
			if verb == "merge" {
				req.Verb, req.ContentType = Patch, "application/merge-patch+json"
				if c.spec == "{}" { // which changes nothing
					continue
				}
			}
			if verb == "apply" {
				req.Verb, req.Key, req.ContentType, req.Query = Patch, named("a"), "application/apply-patch+yaml",
					map[string][]string{"fieldManager": {"m"}}
				if strings.Contains(c.want, "Duplicate") || strings.Contains(c.want, "must be of type") ||
					c.want == "spec.doors[0].name: Required value" {
					continue // an apply that cannot be merged fails earlier
				}
			}
			out, _, err := do(m, req)
			got := said(kind, out, err)
			if ok := strings.HasPrefix(got, "20"); c.want == "" && !ok || c.want != "" && (!strings.HasPrefix(got, "422 ") ||
				!strings.Contains(got, c.want)) {
				t.Errorf("%s %s: %s\nwant %s", verb, c.spec, got, c.want)
			}
		}
	}
	out, _,
		err := do(newMemory(kind), Request{Verb: Create, Body: []byte(`{"metadata":{"name":"abcdef"},"spec":{"size":2}}`)})
	if got := said(kind, out, err); !strings.Contains(got, "metadata.name: Too long") {
		t.Error(got)
	}
}

// What an object has had may stay wrong, and only the status of a write to it is looked at.
func TestValuesThatWereWrong(t *testing.T) {
	free, kind := things(t), things(t)
	free.Type, kind.Type, free.Status, kind.Status = nil, nil, true, true
	rig.OK(t, kind.SetSchema([]byte(shopSchema)))
	const was = `{"size":3,"code":"A","tags":["a","a"],"doors":[{"name":"a","width":0},{"name":"b"}],"labels":{"a":9}}`
	for _, c := range []struct{ sub, patch, want string }{
		{"", `{"metadata":{"labels":{"a":"b"}}}`, ""},
		{"", `{"spec":{"open":true}}`, ""},
		{"", `{"spec":{"size":5}}`, "spec.size"},
		{"", `{"spec":{"labels":{"b":1}}}`, ""},
		{"", `{"spec":{"labels":{"a":8}}}`, "spec.labels.a"},
		{"", `{"spec":{"tags":["b","b"]}}`, ""}, // as on kube-apiserver: the object has had duplicates
		{"", `{"spec":{"doors":[{"name":"b"},{"name":"a","width":0}]}}`, ""},
		{"", `{"spec":{"doors":[{"name":"b","width":0}]}}`, "spec.doors[0].width"},
		{"status", `{"status":{"ready":1}}`, ""},
		{"status", `{"status":{"ready":-1}}`, "status.ready"},
	} {
		m := newMemory(free)
		mustCreate(t, m, `{"metadata":{"name":"a"},"spec":`+was+`}`)
		m.kind = kind
		out, _, err := do(m, Request{Verb: Patch, Key: named("a"), Subresource: c.sub,
			ContentType: "application/merge-patch+json", Body: []byte(c.patch)})
		if got := said(kind, out, err); c.want == "" && err != nil || c.want != "" && !strings.Contains(got, c.want) {
			t.Errorf("%s: %s, want %s", c.patch, got, c.want)
		}
	}
}

// Validate is asked about values that are out of bounds where the schema has rules, and both are said.
func TestValuesAndRules(t *testing.T) {
	const schema = `{"type":"object","properties":{"size":{"type":"integer","maximum":5},
		"code":{"type":"string","pattern":"^a"}}`
	const rules = `,"x-kubernetes-validations":[{"rule":"self.size<9"}]`
	const size = "size: Invalid value: 9: size in body should be less than or equal to 5"
	const code = `code: Invalid value: "b": code in body should match '^a'`
	refused := errors.New("refused")
	for _, c := range []struct {
		rules, body string
		answer      func(wrong field.ErrorList) error
		want        string
	}{
		{"", `"size":9`, func(field.ErrorList) error { return refused }, "422 Thing.example.io \"a\" is invalid: " + size},
		{rules, `"size":9`, func(field.ErrorList) error { return nil }, "422 Thing.example.io \"a\" is invalid: " + size},
		{rules, `"size":9`, func(field.ErrorList) error { return refused }, "422 refused"},
		{rules, `"size":9`, func(field.ErrorList) error { return field.Required(field.NewPath("a"), "") },
			`422 Thing.example.io "a" is invalid: [a: Required value, ` + size + "]"},
		{rules, `"size":9,"code":"b"`, func(wrong field.ErrorList) error {
			return append(wrong, field.Required(field.NewPath("a"), "")).ToAggregate()
		},
			`422 Thing.example.io "a" is invalid: [` + code + ", " + size + ", a: Required value]"},
		{rules, `"size":"9"`, func(field.ErrorList) error { return refused }, "some validation rules were not checked"},
	} {
		kind := things(t)
		kind.Type = nil
		rig.OK(t, kind.SetSchema([]byte(schema+c.rules+"}")))
		kind.Validate = func(ctx context.Context, _, _ *Object) error { return c.answer(values.Wrong(ctx)) }
		out, _, err := do(newMemory(kind), Request{Verb: Create, Body: []byte(`{"metadata":{"name":"a"},` + c.body + `}`)})
		if got := said(kind, out, err); !strings.Contains(got, c.want) {
			t.Errorf("%s %s: %s\nwant %s", c.rules, c.body, got, c.want)
		}
	}
}

// The values of a Go type are checked as well; its null is no value.
func TestValuesOfAType(t *testing.T) {
	type Shelf struct {
		Full
		Books []string `json:"books"`
	}
	kind := things(t)
	kind.Type = typeOf[*Shelf](t)
	rig.OK(t, kind.SetSchema([]byte(`{"type":"object","properties":{"size":{"type":"integer","maximum":5},"books":{"type":"array","maxItems":1,"items":{"type":"string"}}}}`)))
	for body, want := range map[string]string{`"size":5`: "201 ", `"size":6`: "size: Invalid value: 6",
		`"books":["a","b"]`: "books: Too many: 2"} {
		out, _, err := do(newMemory(kind), Request{Verb: Create, Body: []byte(`{"metadata":{"name":"a"},` + body + `}`)})
		if got := said(kind, out, err); !strings.Contains(got, want) {
			t.Errorf("%s: %s, want %s", body, got, want)
		}
	}
}

// A schema that no object could be checked by is refused, and not when an object comes.
func TestValuesRefuse(t *testing.T) {
	for _, bad := range []string{`{"pattern":"("}`, `{"$ref":"#/a"}`, `{"type":"array","items":{"pattern":"("}}`,
		`{"allOf":[{"pattern":"("}]}`, `{"not":{"pattern":"("}}`, `{"additionalProperties":{"pattern":"("}}`} {
		if err := things(t).SetSchema([]byte(`{"type":"object","properties":{"a":` + bad + `}}`)); err == nil {
			t.Error(bad)
		}
	}
}

// What is wrong with the metadata, the values and the scale of an object is said together, and nobody
// else is asked about it. The rules are, unless some of it leaves them nothing to look at.
func TestAllThatIsWrong(t *testing.T) {
	const schema = `{"type":"object","properties":{"size":{"type":"integer","maximum":5},"part":{"type":"object",
		"x-kubernetes-embedded-resource":true}}`
	const rules = `,"x-kubernetes-validations":[{"rule":"self.size<9"}]`
	for _, c := range []struct {
		rules, meta, rest string
		asked             bool
		want              []string
	}{
		{"", `"name":"a"`, `"size":5`, true, nil},
		{"", `"name":"A"`, `"size":6`, false, []string{"metadata.name", "size"}},
		{"", `"name":"a"`, `"size":-1,"part":{}`, false, []string{"part.apiVersion", "part.kind", ".size"}},
		{rules, `"name":"a","labels":{"a b":""}`, `"size":-1`, true, []string{"metadata.labels", ".size"}},
		{rules, `"name":"a"`, `"part":{}`, false, []string{"part.apiVersion", "part.kind", ""}},
		{rules, `"name":"A"`, `"size":"x"`, false, []string{"metadata.name", "size", ".size", ""}},
	} {
		kind := things(t)
		kind.Type, kind.Scale = nil, &Scale{Replicas: ".size"}
		rig.OK(t, kind.SetSchema([]byte(schema+c.rules+"}")))
		asked := false
		kind.Validate = func(context.Context, *Object, *Object) error { asked = true; return nil }
		_, _, err := do(newMemory(kind), Request{Verb: Create, Body: []byte(`{"metadata":{` + c.meta + `},` + c.rest + `}`)})
		var got []string
		if status := apierrors.APIStatus(nil); errors.As(err, &status) {
			for _, cause := range status.Status().Details.Causes {
				got = append(got, strings.TrimPrefix(cause.Field, "<nil>"))
			}
		}
		rig.Same(t, c.meta+c.rest+": what is wrong", c.want, got)
		rig.Same(t, c.meta+c.rest+": asked", c.asked, asked)
	}
}

// The metadata of an object within another has the fields of metadata, whatever the schema says of it.
func TestEmbeddedMetadata(t *testing.T) {
	for _, within := range []string{``, `,"x-kubernetes-preserve-unknown-fields":true`, `,"properties":{"metadata":{"type":"object"}}`} {
		kind := things(t)
		kind.Type = nil
		rig.OK(t, kind.SetSchema([]byte(`{"type":"object","properties":{"part":{"type":"object","x-kubernetes-embedded-resource":true`+within+`}}}`)))
		out, _, err := do(newMemory(kind), Request{Verb: Create, Body: []byte(`{"metadata":{"name":"a"},"part":{"apiVersion":"v1","kind":"Part",
			"metadata":{"name":"b","labels":{"c":"d"},"size":1,"creationTimestamp":null}}}`)})
		rig.OK(t, err)
		const want = `"part":{"apiVersion":"v1","kind":"Part","metadata":{"labels":{"c":"d"},"name":"b"}}`
		if got := said(kind, out, err); !strings.Contains(got, want) {
			t.Errorf("%s: %s, want %s", within, got, want)
		}
	}
}
