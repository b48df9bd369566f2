package decode

import (
	"bytes"
	"encoding/json"
	"fmt"
	"maps"
	"reflect"
	"runtime"
	"slices"
	"strings"
	"testing"
	"weak"

	"github.com/google/go-cmp/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	carp "k8s.io/apimachinery/pkg/apis/testapigroup/v1"
	"pgregory.net/rapid"
)

// A lender lends a decoder the last version of each object, as an informer's store does.
type lender map[string]any

func newLender[T any](t fataler, opts Options) (*Decoder, lender) {
	t.Helper()
	d, l := newDecoder[T](t, opts), lender{}
	d.ReuseFrom(func(namespace, name string) any { return l[namespace+"/"+name] })
	return d, l
}

func (l lender) keep(v any) {
	obj := v.(metav1.Object)
	l[obj.GetNamespace()+"/"+obj.GetName()] = v
}

// newCarpLender returns a decoder and what lends it carp 1, which it has decoded.
func newCarpLender(t fataler, form string, opts Options) (d *Decoder, l lender, old *carp.Carp) {
	t.Helper()
	d, l = newLender[*carp.Carp](t, opts)
	old, _ = decodeCarp(t, d, form, carpForms[form](t, newCarp(1)))
	l.keep(old)
	return d, l, old
}

// carpForms are the forms in which a server may write a carp: the encodings, and JSON with its
// names in alphabetical order, as custom resources have it.
var carpForms = map[string]func(t fataler, c any) []byte{
	"JSON": mustJSON, "alphabetical JSON": alphabetical, "protobuf": func(t fataler, c any) []byte { return mustMarshal(t, c.(*carp.Carp)) },
}

func alphabetical(t fataler, v any) []byte {
	t.Helper()
	var m map[string]any
	ok(t, json.Unmarshal(mustJSON(t, v), &m))
	return mustJSON(t, m)
}

func decodeAs(d *Decoder, form string, data []byte) (any, error) {
	if form == "protobuf" {
		o := messageOf(d, data)
		return o.Value, o.Err
	}
	return decodeOne(d, data)
}

// decodeCarp returns what d and what apimachinery make of data, which is in the given form.
func decodeCarp(t fataler, d *Decoder, form string, data []byte) (got, want *carp.Carp) {
	t.Helper()
	want, wantErr := carpOf(form, data)
	v, err := decodeAs(d, form, data)
	if err != nil || wantErr != nil {
		t.Fatalf("%s: error %v, of apimachinery %v", form, err, wantErr)
	}
	return v.(*carp.Carp), want
}

// Of a part that has not changed the memory of the last version is used, in every form.
func TestPartsAreTaken(t *testing.T) {
	partsOf := func(c *carp.Carp) map[string]any {
		return map[string]any{
			"labels": c.Labels, "finalizers": c.Finalizers, "ownerReferences": c.OwnerReferences,
			"managedFields": c.ManagedFields, "spec": c.Spec.NodeSelector, "status": c.Status.Conditions,
		}
	}
	changes := map[string]func(c *carp.Carp){
		"nothing":         func(*carp.Carp) {},
		"labels":          func(c *carp.Carp) { c.Labels["a"] = "c" },
		"finalizers":      func(c *carp.Carp) { c.Finalizers = append(c.Finalizers, "more") },
		"ownerReferences": func(c *carp.Carp) { c.OwnerReferences = c.OwnerReferences[:1] },
		"managedFields":   func(c *carp.Carp) { c.ManagedFields = append(c.ManagedFields, c.ManagedFields[0]) },
		"spec":            func(c *carp.Carp) { c.Spec.NodeName = "another" },
		"status":          func(c *carp.Carp) { c.Status.Phase = "Failed" },
	}
	for form, encode := range carpForms {
		for changed, change := range changes {
			for _, share := range []bool{false, true} {
				d, _, old := newCarpLender(t, form, Options{Share: share})
				c := newCarp(1)
				c.ResourceVersion = "200"
				change(c)
				got, want := decodeCarp(t, d, form, encode(t, c))
				checkDiff(t, fmt.Sprintf("%s, %s", form, changed), want, got)
				if n, c := len(got.Finalizers), cap(got.Finalizers); n != c {
					t.Errorf("%s, changed %s: an append would write into memory of another version: %d of %d", form, changed, n, c)
				}
				is := partsOf(got)
				for part, was := range partsOf(old) {
					same := reflect.ValueOf(was).Pointer() == reflect.ValueOf(is[part]).Pointer()
					if !share && same == (part == changed) {
						t.Errorf("%s, changed %s: the memory of %s is that of the last version: %v", form, changed, part, same)
					}
				}
			}
		}
	}
}

// A part that comes twice is merged into memory of its own, not into that of the last version.
func TestPartsTwice(t *testing.T) {
	for form, encode := range carpForms {
		d, _, old := newCarpLender(t, form, Options{})
		was := old.DeepCopy()
		more := newCarp(1)
		more.Labels["more"], more.Spec.NodeSelector["more"] = "a", "b"
		got, want := decodeCarp(t, d, form, joined(form, encode(t, newCarp(1)), encode(t, more)))
		checkDiff(t, form, want, got)
		if diff := cmp.Diff(was, old); diff != "" {
			t.Errorf("%s: the last version was changed (-was +is):\n%s", form, diff)
		}
	}
}

// Each version of an object is what apimachinery decodes, and no later one changes it.
func TestPartsModel(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		opts := Options{Share: rapid.Bool().Draw(t, "share")}
		var keep func(*carp.Carp)
		if rapid.Bool().Draw(t, "drop") {
			opts.Drop = []string{"metadata.managedFields", "spec.nodeSelector", "status.conditions.message"}
			keep = func(c *carp.Carp) {
				c.ManagedFields, c.Spec.NodeSelector = nil, nil
				for i := range c.Status.Conditions {
					c.Status.Conditions[i].Message = ""
				}
			}
		}
		d, store := newLender[*carp.Carp](t, opts)
		next := drawCarps(t)
		checkVersions(t, d, 12, store.keep, func() (string, []byte, any) {
			c, form := next(), rapid.SampledFrom(slices.Sorted(maps.Keys(carpForms))).Draw(t, "form")
			data := carpForms[form](t, c)
			if rapid.IntRange(0, 3).Draw(t, "twice") == 0 {
				// What comes twice is merged.
				other := c.DeepCopy()
				changeCarp(t, other)
				data = joined(form, data, carpForms[form](t, other))
			}
			want, err := carpOf(form, data)
			ok(t, err)
			if keep != nil {
				keep(want)
			}
			return form, data, want
		})
	})
}

// drawCarps returns a function that draws the next version of one of two carps.
func drawCarps(t *rapid.T) func() *carp.Carp {
	now, version := []*carp.Carp{newCarp(0), newCarp(1)}, 1000
	return func() *carp.Carp {
		c := now[rapid.IntRange(0, 1).Draw(t, "object")]
		c.ResourceVersion = fmt.Sprint(version)
		version++
		for range rapid.IntRange(0, 3).Draw(t, "changes") {
			changeCarp(t, c)
		}
		return c
	}
}

func joined(form string, a, b []byte) []byte {
	if form == "protobuf" {
		return append(slices.Clone(a), b...)
	}
	return append(append(bytes.TrimSuffix(slices.Clone(a), []byte("}")), ','), bytes.TrimPrefix(b, []byte("{"))...)
}

func changeCarp(t *rapid.T, c *carp.Carp) {
	n := fmt.Sprint(rapid.IntRange(0, 2).Draw(t, "value"))
	switch rapid.SampledFrom([]string{"label", "no labels", "finalizer", "owner", "managed", "unmanaged", "spec", "phase", "condition", "info"}).Draw(t, "what") {
	case "label":
		if c.Labels == nil {
			c.Labels = map[string]string{}
		}
		c.Labels["l"+n] = n
	case "no labels":
		c.Labels = nil
	case "finalizer":
		c.Finalizers = append(c.Finalizers, "f"+n)
	case "owner":
		c.OwnerReferences = append(c.OwnerReferences, metav1.OwnerReference{Name: n})
	case "managed":
		c.ManagedFields = append(c.ManagedFields, metav1.ManagedFieldsEntry{Manager: n, FieldsV1: metav1.NewFieldsV1(`{"f:a":{}}`)})
	case "unmanaged":
		c.ManagedFields = c.ManagedFields[:len(c.ManagedFields)/2]
	case "spec":
		c.Spec.NodeSelector = map[string]string{"n": n}
	case "phase":
		c.Status.Phase = carp.CarpPhase(n)
	case "condition":
		c.Status.Conditions = append(c.Status.Conditions, carp.CarpCondition{Message: n})
	case "info":
		c.Status.Infos = append(c.Status.Infos, carp.CarpInfo{B: n})
	}
}

// An item of a list that is as it was is the object of the store. One that differs is not.
func TestUnchangedItem(t *testing.T) {
	for form, encode := range carpForms {
		d, _, old := newCarpLender(t, form, Options{})
		d.listing = true
		c := newCarp(1)
		if again, _ := decodeCarp(t, d, form, encode(t, c)); again != old {
			t.Errorf("%s: an equal object is another one", form)
		}
		for what, change := range map[string]func(c *carp.Carp){
			"version":    func(c *carp.Carp) { c.ResourceVersion = "x" },
			"UID":        func(c *carp.Carp) { c.UID = "another" },
			"generation": func(c *carp.Carp) { c.Generation++ },
			"deletion":   func(c *carp.Carp) { c.DeletionTimestamp = nil },
			"labels":     func(c *carp.Carp) { c.Labels = nil },
			"status":     func(c *carp.Carp) { c.Status.Phase = "" },
		} {
			changed := newCarp(1)
			change(changed)
			got, want := decodeCarp(t, d, form, encode(t, changed))
			if diff := cmp.Diff(want, got); diff != "" || got == old {
				t.Errorf("%s, another %s: the same object: %v (-want +got):\n%s", form, what, got == old, diff)
			}
		}
		d.listing = false
		if again, _ := decodeCarp(t, d, form, encode(t, c)); again == old {
			t.Errorf("%s: an event has the object of the store", form)
		}
	}
}

// Nothing keeps the last version alive: not the decoder, and not the version that took parts of it.
func TestPartsKeepNothing(t *testing.T) {
	for form, encode := range carpForms {
		d, store, old := newCarpLender(t, form, Options{})
		gone := weak.Make(old)
		old = nil
		c := newCarp(1)
		c.ResourceVersion = "200"
		got, _ := decodeCarp(t, d, form, encode(t, c))
		store.keep(got)
		runtime.GC()
		if gone.Value() != nil {
			t.Errorf("%s: the last version is still in memory", form)
		}
		clear(store)
		last := weak.Make(got)
		got = nil
		runtime.GC()
		if last.Value() != nil {
			t.Errorf("%s: an object that the store has deleted is still in memory", form)
		}
		runtime.KeepAlive(d)
	}
}

// A type without an ObjectMeta, one that is not lent, and one of another type have no parts.
func TestWithoutParts(t *testing.T) {
	type bare struct {
		Metadata struct{ Name string } `json:"metadata"`
		Spec     map[string]string     `json:"spec"`
	}
	d := newDecoder[*bare](t, Options{})
	d.ReuseFrom(func(string, string) any { return &bare{} })
	if got := mustDecode[*bare](t, d, []byte(`{"metadata":{"name":"a"},"spec":{"a":"b"}}`)); got.Spec["a"] != "b" {
		t.Errorf("got %+v", got)
	}
	carps := newDecoder[*carp.Carp](t, Options{})
	carps.ReuseFrom(func(string, string) any { return &metav1.ObjectMeta{Labels: map[string]string{"a": "b"}} })
	got, want := decodeCarp(t, carps, "JSON", mustJSON(t, newCarp(1)))
	checkDiff(t, "what is decoded", want, got)
}

// The notes take at most 100 bytes an object.
func TestNotesAreSmall(t *testing.T) {
	l := newPartLayout(reflect.TypeFor[carp.Carp](), mask{}, false)
	if size := l.noted.Size() - reflect.TypeFor[carp.Carp]().Size(); size > 100 {
		t.Errorf("%d bytes", size)
	}
	if got, want := partsOf(l), "labels annotations ownerReferences finalizers managedFields spec status"; got != want {
		t.Errorf("the parts are %s, want %s", got, want)
	}
}

func partsOf(l *partLayout) string {
	var names []string
	if l != nil {
		for _, f := range l.parts {
			names = append(names, f.name)
		}
	}
	return strings.Join(names, " ")
}
