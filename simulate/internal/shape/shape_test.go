package shape

import (
	"reflect"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// What is embedded is inline, as in JSON, also by a pointer.
func TestEmbedded(t *testing.T) {
	type base struct {
		Items []struct{} `json:"items" patchMergeKey:"name" patchStrategy:"merge"`
	}
	type itself struct {
		*itself
		base
	}
	want := &Shape{Fields: map[string]*Shape{"items": {Set: true, Keys: []string{"name"}}}}
	for name, v := range map[string]any{
		"a struct": struct{ base }{}, "a pointer": struct{ *base }{}, "itself": itself{},
		"an interface": struct {
			any
			base
		}{},
	} {
		if diff := cmp.Diff(want, Of(reflect.TypeOf(v))); diff != "" {
			t.Errorf("%s: (-want +got)\n%s", name, diff)
		}
	}
}

// What is empty counts, and what has something in it by that alone.
func TestEmpty(t *testing.T) {
	got := (*Shape)(nil).Flatten(map[string]any{
		"none": []any{}, "one": []any{"a"}, "nothing": map[string]any{}, "some": map[string]any{"b": "c"},
	}, func(_, value string) string { return value })
	want := map[string]string{"none": "[]", "one[0]": "a", "nothing": "{}", "some.b": "c"}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("(-want +got)\n%s", diff)
	}
}
