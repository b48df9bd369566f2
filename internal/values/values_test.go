package values_test

import (
	"encoding/json"
	"testing"

	"github.com/go-lw/lw/internal/rig"
	"github.com/go-lw/lw/internal/values"
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
}
