package values_test

import (
	"encoding/json"
	"testing"

	"github.com/go-lw/lw/internal/registry/values"
	"github.com/go-lw/lw/internal/verify/rig"
)

// All that is wrong is said, in an order that stays. The writes that it refuses are tested in
// package registry.
func TestCheck(t *testing.T) {
	v := rig.Must[*values.Values](t)(values.New([]byte(`
type: object
properties:
  spec:
    type: object
    required: [size]
    properties: {code: {type: string, pattern: "^[a-z]+$"}, color: {type: string, enum: [red]}, size: {type: integer}}`)))
	var object map[string]any
	rig.OK(t, json.Unmarshal([]byte(`{"spec":{"code":"A","color":"x"}}`), &object))
	for range 10 {
		var got []string
		for _, err := range v.Check(object, nil, false) {
			got = append(got, err.Field)
		}
		rig.Same(t, "what is wrong", []string{"spec.code", "spec.color", "spec.size"}, got)
	}
	rig.Same(t, "what was wrong before", 0, len(v.Check(object, object, false)))

	v = rig.Must[*values.Values](t)(values.New([]byte(`
{type: object, properties: {size: {type: integer, maximum: 3, x-kubernetes-validations: [{rule: "self > 1"}]}}}`)))
	for _, c := range []struct {
		size any
		want []string
	}{{int64(4), []string{"size"}}, {"x", []string{"size", "<nil>"}}} {
		var got []string
		all, asked := v.Rules(v.Check(map[string]any{"size": c.size}, nil, false))
		for _, err := range all {
			got = append(got, err.Field)
		}
		rig.Same(t, "rules are asked", len(c.want) == 1, asked)
		rig.Same(t, "rules that are not asked", c.want, got)
	}
}

// What an object had before may stay wrong, also where a list that is a map has another order, and
// where such lists are within one another.
func TestCheckOfAnotherOrder(t *testing.T) {
	v := rig.Must[*values.Values](t)(values.New([]byte(`
type: object
properties:
  spec:
    type: object
    properties:
      ports:
        type: array
        maxItems: 1
        x-kubernetes-list-type: map
        x-kubernetes-list-map-keys: [name]
        items:
          type: object
          properties:
            name: {type: string}
            size: {type: integer}
            paths:
              type: array
              x-kubernetes-list-type: map
              x-kubernetes-list-map-keys: [at]
              items: {type: object, properties: {at: {type: string}}}
      names: {type: array, maxItems: 1, items: {type: string}}`)))
	const old = `{"spec":{"ports":[{"name":"a","size":1,"paths":[{"at":"x"},{"at":"y"}]},{"name":"b","size":2}],"names":["a","b"]}}`
	for object, want := range map[string]int{
		old: 0,
		`{"spec":{"ports":[{"name":"b","size":2},{"name":"a","size":1,"paths":[{"at":"y"},{"at":"x"}]}],"names":["a","b"]}}`: 0,
		`{"spec":{"ports":[{"name":"b","size":3},{"name":"a","size":1,"paths":[{"at":"y"},{"at":"x"}]}],"names":["a","b"]}}`: 1,
		`{"spec":{"ports":[{"name":"b","size":2},{"name":"a","size":1,"paths":[{"at":"y"},{"at":"z"}]}],"names":["a","b"]}}`: 1,
		`{"spec":{"ports":[{"name":"b","size":2},{"name":"b","size":2}],"names":["a","b"]}}`:                                 1,
		`{"spec":{"names":["b","a"]}}`: 1, // a list that is no map has an order
	} {
		var now, was map[string]any
		rig.OK(t, json.Unmarshal([]byte(object), &now))
		rig.OK(t, json.Unmarshal([]byte(old), &was))
		if got := v.Check(now, was, false); len(got) != want {
			t.Errorf("%s: %v, want %d errors", object, got, want)
		}
	}
}
