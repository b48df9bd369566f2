package shape

import (
	"reflect"
	"strings"
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

// A list is one without an order if a patch merges it, by its key if it has one. What a type has of
// itself is known once, and what has no such list has no Shape.
func TestOf(t *testing.T) {
	type item struct {
		Name string   `json:"name"`
		Set  []string `json:"set" patchStrategy:"merge"`
	}
	type again struct {
		Again []again  `json:"again"`
		Set   []string `json:"set" patchStrategy:"replace,merge"`
	}
	set := &Shape{Set: true}
	of := &Shape{Fields: map[string]*Shape{"set": set}}
	for name, tt := range map[string]struct {
		v    any
		want *Shape
	}{
		"nothing":     {1, nil},
		"no list":     {struct{ Name string }{}, nil},
		"a pointer":   {&item{}, of},
		"items":       {[]item{}, &Shape{Elem: of}},
		"an array":    {[2]**item{}, &Shape{Elem: of}},
		"a map":       {map[string]item{}, &Shape{Elem: of}},
		"plain items": {[]int{}, nil},
		"itself":      {again{}, of},
		"fields": {struct {
			Keyed   []item `json:"keyed,omitempty" patchStrategy:"merge" patchMergeKey:"name"`
			Plain   []item `json:"plain" patchMergeKey:"name"`
			Merged  item   `json:"merged" patchStrategy:"merge"`
			Hidden  []item `json:"-" patchStrategy:"merge"`
			Unnamed []item `patchStrategy:"merge"`
			Text    string `json:"text"`
		}{}, &Shape{Fields: map[string]*Shape{
			"keyed":  {Elem: of, Set: true, Keys: []string{"name"}},
			"plain":  {Elem: of},
			"merged": of,
		}}},
	} {
		if diff := cmp.Diff(tt.want, Of(reflect.TypeOf(tt.v))); diff != "" {
			t.Errorf("%s: (-want +got)\n%s", name, diff)
		}
	}
}

// An item of a list without an order goes by its keys, or by all of it, as text has them. Those of
// one key are numbered in an order that does not depend on theirs.
func TestSets(t *testing.T) {
	s := &Shape{Fields: map[string]*Shape{
		"keyed": {Set: true, Keys: []string{"a", "b"}, Elem: &Shape{Fields: map[string]*Shape{"deep": {Set: true}}}},
		"set":   {Set: true}, "list": {Elem: &Shape{Set: true}}, "map": {Elem: &Shape{Set: true}},
	}}
	item := func(a, b, c string) any { return map[string]any{"a": a, "b": b, "c": c} }
	got := s.Flatten(map[string]any{
		"keyed": []any{item("y", "1", "x"), item("x", "2", "z"), item("y", "1", "a"),
			map[string]any{"a": "w", "b": "w", "deep": []any{"q", "p"}}},
		"set":  []any{"n", "m", 3.0, map[string]any{"k": "v"}, "m"},
		"list": []any{[]any{"c", "b"}}, "map": map[string]any{"of": []any{"d"}}, "plain": []any{"g", "f"},
	}, func(path, value string) string { return strings.ReplaceAll(value, "m", strings.ToUpper(path[:1])) })
	want := map[string]string{
		"keyed[w w].a": "w", "keyed[w w].b": "w", "keyed[w w].deep[p]": "p", "keyed[w w].deep[q]": "q",
		"keyed[x 2].a": "x", "keyed[x 2].b": "2", "keyed[x 2].c": "z",
		"keyed[y 1].a": "y", "keyed[y 1].b": "1", "keyed[y 1].c": "a",
		"keyed[y 1]#3.a": "y", "keyed[y 1]#3.b": "1", "keyed[y 1]#3.c": "x",
		"set[S]": "S", "set[S]#2": "S", "set[3]": "3", "set[n]": "n", `set[{"k":"v"}].k`: "v",
		"list[0][b]": "b", "list[0][c]": "c", "map.of[d]": "d", "plain[0]": "g", "plain[1]": "f",
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("(-want +got)\n%s", diff)
	}
}

// Of the metadata that counts which a user sets. Owners go by their kinds and names.
func TestMetadata(t *testing.T) {
	text := func(_, value string) string { return value }
	got := (&Shape{Fields: map[string]*Shape{"metadata": {Set: true}}}).Flatten(map[string]any{"metadata": map[string]any{
		"name": "a", "uid": "1", "resourceVersion": "2", "generation": 3, "creationTimestamp": "4", "managedFields": []any{"5"},
		"selfLink": "6", "deletionGracePeriodSeconds": 7, "generateName": "a-", "deletionTimestamp": "8",
		"finalizers": []any{"y", "x"}, "ownerReferences": []any{map[string]any{"kind": "K", "name": "n", "uid": "9"}},
	}}, text)
	want := map[string]string{"metadata.name": "a", "metadata.deletionTimestamp": "8", "metadata.finalizers[x]": "x",
		"metadata.finalizers[y]": "y", "metadata.ownerReferences[K n].kind": "K", "metadata.ownerReferences[K n].name": "n",
		"metadata.ownerReferences[K n].uid": "9"}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("(-want +got)\n%s", diff)
	}
	got = (*Shape)(nil).Flatten(map[string]any{"metadata": "none", "other": map[string]any{"uid": "1"}}, text)
	if diff := cmp.Diff(map[string]string{"metadata": "none", "other.uid": "1"}, got); diff != "" {
		t.Errorf("what is no metadata: (-want +got)\n%s", diff)
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
