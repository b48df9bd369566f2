package http_test

import (
	"encoding/json"
	"fmt"
	"reflect"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	carp "k8s.io/apimachinery/pkg/apis/testapigroup/v1"
	"pgregory.net/rapid"

	"github.com/go-lw/lw"
	"github.com/go-lw/lw/internal/decode"
	"github.com/go-lw/lw/internal/verify/rig"
	"github.com/go-lw/lw/lwtest"
)

// keeps reports whether a union with path has nothing that f has not.
func keeps(f lw.Fields, path string) bool {
	return cmp.Equal(f.Union(lw.Fields{}), f.Union(lw.Fields{path}))
}

func TestFieldsKeeps(t *testing.T) {
	for _, tt := range []struct {
		fields lw.Fields
		path   string
		want   bool
	}{
		{nil, "spec", true},
		{lw.Fields{}, "spec", false},
		{lw.Fields{}, "metadata", false},
		{lw.Fields{"spec"}, "spec", true},
		{lw.Fields{"spec"}, "spec.nodeName", true},
		{lw.Fields{"spec"}, "spec.nodeName?", true},
		{lw.Fields{"spec"}, "specs", false},
		{lw.Fields{"spec.nodeName"}, "spec", false},
		{lw.Fields{"spec?"}, "spec", false},
		{lw.Fields{"spec?"}, "spec?", true},
		{lw.Fields{"spec?"}, "spec.nodeName?", false},
		{lw.Fields{"metadata.labels.a/*"}, "metadata.labels.a/b", true},
		{lw.Fields{"metadata.labels.a/*"}, "metadata.labels.a/b*", true},
		{lw.Fields{"metadata.labels.a/*"}, "metadata.labels.a/b?", true},
		{lw.Fields{"metadata.labels.a/b*"}, "metadata.labels.a/*", false},
		{lw.Fields{"metadata.labels.a/*?"}, "metadata.labels.a/b", false},
		{lw.Fields{"metadata.labels.a/*?"}, "metadata.labels.a/b?", true},
		{lw.Fields{"metadata.labels"}, "metadata.labels.a/*", true},
		{lw.Fields{"metadata.labels.*"}, "metadata.labels", false},
		{lw.Fields{"metadata"}, "metadata.labels.a.b", true},
		{lw.Fields{"metadata.labels"}, "metadata.labels.a.b", true},
		{lw.Fields{"metadata.labels.a"}, "metadata.labels.a.b", false},
		{lw.Fields{"metadata.labels.a"}, "metadata.labels.a*", false},
		{lw.Fields{"data.a"}, "data.a.b", false},
		{lw.Fields{"data.a"}, "data.a.b?", false},
		{lw.Fields{"status.conditions"}, "status.conditions.type", false},
		{lw.Fields{"metadata.labels.a/**"}, "metadata.labels.a/*", false},
		{lw.Fields{"metadata.labels.a/*?"}, "metadata.labels.a/b.c?", true},
		{lw.Fields{"data.a*?"}, "data.a.b?", false},
		{lw.Fields{"data.a*"}, "data.a.b", true},
	} {
		rig.Same(t, fmt.Sprintf("%q keeps %q", tt.fields, tt.path), tt.want, keeps(tt.fields, tt.path))
	}
}

// A union keeps what either keeps, each path once.
func TestFieldsUnion(t *testing.T) {
	for _, tt := range []struct{ f, g, want lw.Fields }{
		{nil, lw.Fields{"a"}, nil},
		{lw.Fields{"a"}, nil, nil},
		{lw.Fields{}, lw.Fields{}, lw.Fields{}},
		{lw.Fields{"b", "a.x"}, lw.Fields{"a", "b"}, lw.Fields{"a", "b"}},
		{lw.Fields{"a?"}, lw.Fields{"a"}, lw.Fields{"a"}},
		{lw.Fields{"a?"}, lw.Fields{"a.b"}, lw.Fields{"a.b", "a?"}},
		{lw.Fields{"l.a*"}, lw.Fields{"l.ab", "l.b"}, lw.Fields{"l.a*", "l.b"}},
		{lw.Fields{"l.a*?", "l.ab?"}, lw.Fields{"l.ab*", "l.ac*?", "*?"}, lw.Fields{"*?", "l.a*?", "l.ab*"}},
		{lw.Fields{"l.a*", "l.a*?"}, lw.Fields{"l.a", "l.a?"}, lw.Fields{"l.a*"}},
		{lw.Fields{"metadata.labels"}, lw.Fields{"metadata.labels.a.b", "metadata.name"},
			lw.Fields{"metadata.labels", "metadata.name"}},
		{lw.Fields{"metadata.labels.a"}, lw.Fields{"metadata.labels.a.b"}, lw.Fields{"metadata.labels.a",
			"metadata.labels.a.b"}},
	} {
		rig.Same(t, fmt.Sprintf("%q and %q", tt.f, tt.g), tt.want, tt.f.Union(tt.g))
	}
	paths := rapid.SliceOf(rapid.SampledFrom([]string{"a", "a.b", "a.b?", "a?", "a.*", "a.b*", "a.bc", "a.b*?", "c"}))
	rapid.Check(t, func(t *rapid.T) {
		f, g := lw.Fields(paths.Draw(t, "f")), lw.Fields(paths.Draw(t, "g"))
		if f == nil || g == nil {
			return
		}
		both := f.Union(g)
		if !slices.IsSorted(both) || !cmp.Equal(both, g.Union(f)) || !cmp.Equal(both, both.Union(both)) {
			t.Fatalf("the union of %q and %q is %q, and %q the other way round", f, g, both, g.Union(f))
		}
		for _, path := range slices.Concat(f, g) {
			if !keeps(both, path) {
				t.Fatalf("%q, the union of %q and %q, does not keep %q", both, f, g, path)
			}
		}
	})
}

// A basket has maps in places of every sort.
type basket struct {
	metav1.ObjectMeta `json:"metadata"`
	Data              map[string]string `json:"data"`
	Spec              struct {
		A      string                       `json:"a"`
		Nested map[string]map[string]string `json:"nested"`
		Within struct {
			Strings map[string]string `json:"strings"`
			Any     any               `json:"any"`
		} `json:"within"`
		List []struct {
			Strings map[string]string `json:"strings"`
		} `json:"list"`
	} `json:"spec"`
}

// basketJSON returns the JSON of a basket whose maps have all of the keys.
func basketJSON(t *testing.T, keys []string) string {
	strings, nested := map[string]any{}, map[string]any{}
	for _, key := range keys {
		strings[key], nested[key] = "of "+key, strings
	}
	data, err := json.Marshal(map[string]any{
		"apiVersion": "v1", "kind": "Basket",
		"metadata": map[string]any{"name": "x", "labels": strings, "annotations": strings}, "data": strings,
		"spec": map[string]any{"a": "x", "nested": nested, "within": map[string]any{"strings": strings, "any": nested},
			"list": []any{map[string]any{"strings": strings}, nested}},
	})
	rig.OK(t, err)
	return string(data)
}

// includes reports whether more has all members, elements and non-empty values that are in some.
func includes(more, some any) bool {
	switch some := some.(type) {
	case map[string]any:
		of, ok := more.(map[string]any)
		for name, v := range some {
			if w, there := of[name]; !ok || !there || !includes(w, v) {
				return false
			}
		}
		return ok
	case []any:
		of, ok := more.([]any)
		return ok && slices.EqualFunc(of, some, includes)
	}
	return some == nil || some == "" || some == more
}

// What is decoded with a union is what is decoded with all paths of both, and with what Keeps says
// of a mask that has all that is decoded with the path: of objects with and without a type, whose
// keys have dots.
func TestFieldsOfDecodedObjects(t *testing.T) {
	keys := []string{"a", "a.b", "a.b.c", "ab", "b", "b*"}
	line := `{"type":"ADDED","object":` + basketJSON(t, keys) + "}\n"
	names := slices.Concat(keys, []string{"", "a.b.", "*"})
	maps := []string{"metadata.labels.", "metadata.annotations.", "data.", "spec.nested.", "spec.within.strings.",
		"spec.within.any.", "spec.within.any.a.", "spec.list.strings.", "spec.list.a.", "spec.", ""}
	fields := []string{"spec", "spec?", "data", "data?", "metadata", "metadata.labels", "metadata.labels?", "spec.a",
		"spec.within", "spec.within.any", "spec.within.any?", "spec.list?"}
	path := rapid.Custom(func(t *rapid.T) string {
		if rapid.IntRange(0, 3).Draw(t, "of a field") == 0 {
			return rapid.SampledFrom(fields).Draw(t, "field")
		}
		return rapid.SampledFrom(maps).Draw(t, "map") + rapid.SampledFrom(names).Draw(t, "key") +
			rapid.SampledFrom([]string{"", "", "*", "?", "*?"}).Draw(t, "end")
	})
	for _, typ := range []reflect.Type{reflect.TypeFor[*basket](), reflect.TypeFor[*unstructured.Unstructured]()} {
		decoded := func(t *rapid.T, only lw.Fields) (got any) {
			d, err := decode.New(typ, decode.Options{Only: only, Workers: -1, Kinds: decode.NewKinds(typ, "Basket")})
			if err != nil {
				t.Skip("a path that this type does not have")
			}
			err = d.Watch(strings.NewReader(line), decode.JSON, func(e decode.Event) error {
				data, err := json.Marshal(e.Object.Value)
				if err != nil {
					return err
				}
				return json.Unmarshal(data, &got)
			})
			if err != nil {
				t.Fatal(err)
			}
			return got
		}
		valid := path.Filter(func(path string) bool {
			_, err := decode.New(typ, decode.Options{Only: []string{path}, Workers: -1})
			return err == nil && path != ""
		})
		rapid.Check(t, func(t *rapid.T) {
			f, g := lw.Fields(rapid.SliceOfN(valid, 0, 4).Draw(t, "f")), lw.Fields(rapid.SliceOfN(valid, 0, 4).Draw(t, "g"))
			all := append(slices.Clone(f), g...)
			union := f.Union(g)
			if diff := cmp.Diff(decoded(t, all), decoded(t, union)); diff != "" {
				t.Fatalf("%q with %q is %q (-all paths +union):\n%s", f, g, union, diff)
			}
			if q := valid.Draw(t, "path"); keeps(all, q) && !includes(decoded(t, all), decoded(t, lw.Fields{q})) {
				t.Fatalf("%q keeps %q (-the path alone +all):\n%s", all, q, cmp.Diff(decoded(t, lw.Fields{q}), decoded(t, all)))
			}
			for _, q := range all {
				if !keeps(union, q) {
					t.Fatalf("%q, the union of %q and %q, does not keep %q", union, f, g, q)
				}
			}
		})
	}
}

// The work of a union does not grow with the square of its paths.
func TestFieldsUnionOfMany(t *testing.T) {
	many := func(n int) (f, g lw.Fields) {
		for i := range n {
			f = append(f, fmt.Sprintf("metadata.annotations.example.com/%d", i), fmt.Sprintf("data.%d/*", i))
			g = append(g, fmt.Sprintf("metadata.annotations.example.com/%d?", i), fmt.Sprintf("data.%d/x", i))
		}
		return f, g
	}
	f, g := many(50000)
	union := f.Union(g)
	slices.Sort(f)
	rig.Same(t, "", f, union)
}

// A source yields of each object what lwtest.Prune leaves of it, from lists and from events.
func TestHTTPOnly(t *testing.T) {
	fields := lw.Fields{"metadata.labels", "spec.nodeName", "status.conditions.type"}
	obj := `{"kind":"Carp","apiVersion":"v1","metadata":{"namespace":"n","name":"a","uid":"u","resourceVersion":"5","generation":2,"labels":{"a":"b"},"annotations":{"c":"d"}},` +
		`"spec":{"nodeName":"node","hostname":"h"},"status":{"phase":"Running","conditions":[{"type":"Ready","status":"True"}]}}`
	read := func(only lw.Fields) (got []*carp.Carp) {
		c, _, _ := rig.Answer(200, rig.ContentType("application/json"), `{"kind":"CarpList","apiVersion":"v1","items":[`+obj+
			`]}`)
		src := &lw.HTTP[*carp.Carp]{URL: "http://server/", Client: c, Only: only}
		got = listed(t, src)
		src.Client, _, _ = rig.Answer(200, rig.ContentType("application/json"), `{"type":"MODIFIED","object":`+obj+`}`)
		rig.OK(t, src.Watch(t.Context(), metav1.ListOptions{}, func(ev lw.WatchEvent[*carp.Carp]) error {
			got = append(got, ev.Object)
			return ev.Err
		}))
		return got
	}
	whole := read(nil)
	if len(whole) != 2 || whole[0].Spec.Hostname != "h" {
		t.Fatalf("the whole objects are %+v", whole)
	}
	for _, o := range whole {
		lwtest.Prune(o, fields)
	}
	if diff := cmp.Diff(whole, read(fields)); diff != "" || whole[0].Spec.NodeName == "" || whole[0].Spec.Hostname != "" {
		t.Errorf("%+v (-want +got):\n%s", whole[0], diff)
	}
}
