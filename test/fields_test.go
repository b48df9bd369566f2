package lw_test

import (
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	carp "k8s.io/apimachinery/pkg/apis/testapigroup/v1"
	"pgregory.net/rapid"

	"github.com/go-lw/lw"
	"github.com/go-lw/lw/lwtest"
)

func TestFieldsKeeps(t *testing.T) {
	for _, tt := range []struct {
		fields lw.Fields
		path   string
		want   bool
	}{
		{nil, "spec", true},
		{lw.Fields{}, "spec", false},
		{lw.Fields{}, "metadata.uid", true},
		{lw.Fields{}, "metadata.name?", true},
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
	} {
		if got := tt.fields.Keeps(tt.path); got != tt.want {
			t.Errorf("%q keeps %q: %v", tt.fields, tt.path, got)
		}
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
	} {
		if diff := cmp.Diff(tt.want, tt.f.Union(tt.g)); diff != "" {
			t.Errorf("%q and %q (-want +got):\n%s", tt.f, tt.g, diff)
		}
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
			if !both.Keeps(path) {
				t.Fatalf("%q, the union of %q and %q, does not keep %q", both, f, g, path)
			}
		}
	})
}

// A source yields of each object what lwtest.Prune leaves of it, from lists and from events.
func TestHTTPOnly(t *testing.T) {
	fields := lw.Fields{"metadata.labels", "spec.nodeName", "status.conditions.type"}
	obj := `{"kind":"Carp","apiVersion":"v1","metadata":{"namespace":"n","name":"a","uid":"u","resourceVersion":"5","generation":2,"labels":{"a":"b"},"annotations":{"c":"d"}},` +
		`"spec":{"nodeName":"node","hostname":"h"},"status":{"phase":"Running","conditions":[{"type":"Ready","status":"True"}]}}`
	read := func(only lw.Fields) (got []*carp.Carp) {
		c, _, _ := answer(200, contentType("application/json"), `{"kind":"CarpList","apiVersion":"v1","items":[`+obj+`]}`)
		src := &lw.HTTP[*carp.Carp]{URL: "http://server/", Client: c, Only: only}
		_, err := src.List(t.Context(), metav1.ListOptions{}, func(o *carp.Carp, err error) error {
			got = append(got, o)
			return err
		})
		if err != nil {
			t.Fatal(err)
		}
		src.Client, _, _ = answer(200, contentType("application/json"), `{"type":"MODIFIED","object":`+obj+`}`)
		if err := src.Watch(t.Context(), metav1.ListOptions{}, func(ev lw.WatchEvent[*carp.Carp]) error {
			got = append(got, ev.Object)
			return ev.Err
		}); err != nil {
			t.Fatal(err)
		}
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
