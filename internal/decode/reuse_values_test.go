package decode

import (
	"bytes"
	"fmt"
	"reflect"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	carp "k8s.io/apimachinery/pkg/apis/testapigroup/v1"
)

func TestShare(t *testing.T) {
	for share, want := range map[bool]bool{false: false, true: true} {
		d := newDecoder[*pod](t, Options{Share: share})
		var pods []*pod
		for i := range 5 {
			pods = append(pods, mustDecode[*pod](t, d, podJSON(i))) // of one Deployment
		}
		a, b := pods[3], pods[4]
		if got := a.Spec.Containers[0].LivenessProbe == b.Spec.Containers[0].LivenessProbe; got != want {
			t.Errorf("share %v: the probes are shared: %v", share, got)
		}
		if got := &a.Spec.Tolerations[0] == &b.Spec.Tolerations[0]; got != want {
			t.Errorf("share %v: the tolerations are shared: %v", share, got)
		}
		if got := reflect.ValueOf(a.Labels).Pointer() == reflect.ValueOf(b.Labels).Pointer(); got != want {
			t.Errorf("share %v: the labels are shared: %v", share, got)
		}
		if a.Status.PodIPs[0] == b.Status.PodIPs[0] || a == b {
			t.Errorf("share %v: what differs is shared", share)
		}
	}
}

func TestShareMessages(t *testing.T) {
	d := newDecoder[*carp.Carp](t, Options{Share: true})
	var carps []*carp.Carp
	for i := range 4 {
		c := newCarp(i)
		o := messageOf(d, mustMarshal(t, c))
		c.TypeMeta = metav1.TypeMeta{}
		if diff := cmp.Diff(c, o.Value); o.Err != nil || diff != "" {
			t.Fatalf("error %v (-want +got):\n%s", o.Err, diff)
		}
		carps = append(carps, o.Value.(*carp.Carp))
	}
	if carps[2].ManagedFields[0].FieldsV1 != carps[3].ManagedFields[0].FieldsV1 {
		t.Error("equal fields are not shared")
	}
}

// A field whose values do not repeat stops to look them up, and forgets those that it has.
func TestShareGivesUp(t *testing.T) {
	f := &shareField{typ: reflect.TypeFor[[]string]()}
	calls := 0
	decode := func(raw string) {
		var v []string
		if !f.wants(len(raw)) {
			return
		}
		if err := f.decode([]byte(raw), 0, pointerTo(&v), func() error { calls++; v = []string{raw}; return nil }); err != nil || v[0] != raw {
			t.Fatalf("%q: got %q, error %v", raw, v, err)
		}
	}
	for i := range trialLength {
		decode(fmt.Sprintf("%0*d", minShare, i))
	}
	if !f.gaveUp || f.kept != nil || calls != trialLength {
		t.Errorf("off %v, %d values kept, %d decoded", f.gaveUp, len(f.kept), calls)
	}
}

func TestShareIsBounded(t *testing.T) {
	f := &shareField{typ: reflect.TypeFor[[]string]()}
	for i := range 20000 {
		raw := fmt.Sprintf("%0*d", minShare+i%3*maxShare/4, i/4) // each value four times in a row
		var v []string
		if err := f.decode([]byte(raw), 0, pointerTo(&v), func() error { v = []string{raw}; return nil }); err != nil || v[0] != raw {
			t.Fatalf("got %q, error %v", v, err)
		}
		if len(f.kept) > sharedValues || f.size > sharedBytes {
			t.Fatalf("%d values of %d bytes are kept", len(f.kept), f.size)
		}
	}
}

// Elements that come later in an object's message are added to no other object's map or slice.
func TestSharedRunGoesOn(t *testing.T) {
	base := &carp.Carp{ObjectMeta: metav1.ObjectMeta{
		Labels: map[string]string{"app": "a label to share", "b": "c"}, Finalizers: []string{"example.com/first", "example.com/second"},
	}}
	more := &carp.Carp{ObjectMeta: metav1.ObjectMeta{Labels: map[string]string{"more": "x"}, Finalizers: []string{"example.com/third"}}}
	plain := mustMarshal(t, base)
	longer := append(mustMarshal(t, base), mustMarshal(t, more)...)
	d := newDecoder[*carp.Carp](t, Options{Share: true})
	var all []*carp.Carp
	for i, data := range [][]byte{plain, plain, plain, longer, longer, plain} {
		var want carp.Carp
		if err := want.Unmarshal(data); err != nil {
			t.Fatal(err)
		}
		o := messageOf(d, data)
		if diff := cmp.Diff(&want, o.Value); o.Err != nil || diff != "" {
			t.Errorf("object %d: error %v (-want +got):\n%s", i, o.Err, diff)
		}
		all = append(all, o.Value.(*carp.Carp))
	}
	for _, i := range []int{1, 2, 5} {
		if diff := cmp.Diff(base, all[i]); diff != "" {
			t.Errorf("object %d afterwards (-want +got):\n%s", i, diff)
		}
	}
	a, b := all[2].ObjectMeta, all[5].ObjectMeta
	if reflect.ValueOf(a.Labels).Pointer() != reflect.ValueOf(b.Labels).Pointer() || &a.Finalizers[0] != &b.Finalizers[0] {
		t.Error("equal labels and finalizers are not shared")
	}
}

// A shared value is guessed from the one before it in its field.
func TestGuessShared(t *testing.T) {
	d := newDecoder[*sink](t, Options{Share: true})
	long := `{"refKind":"a kind of some length","refName":"x"}`
	raw := []string{`[` + long + `]`, `[` + long + `,` + long + `]`, `[` + long + ` ]`, `[` + long, `[` + long + `]]`, `[]`, `null`,
		strings.Repeat("1", 30), `"` + strings.Repeat("x", 40) + `"`, `[` + strings.Replace(long, "x", "y", 1) + `]`}
	for _, a := range raw {
		for _, b := range raw {
			for _, s := range []string{a, a, b, b, a, b, a} {
				checkSame(t, d, []byte(`{"metadata":{"name":"a"},"spec":{"structs":`+s+`,"strs":["`+strings.Repeat("z", 30)+`"]}}`))
			}
		}
	}
}

// A message that comes twice is merged as it is without Share, and the objects that share values
// with it do not change.
func TestShareMerges(t *testing.T) {
	var first, second carp.Carp
	grace, yes := int64(30), true
	first.ManagedFields = []metav1.ManagedFieldsEntry{{Manager: "m", FieldsV1: metav1.NewFieldsV1(`{"f:metadata":{"f:labels":{"f:app":{}}}}`)}}
	first.Labels, first.Finalizers = map[string]string{"app": "a label to share", "a": "b"}, []string{"example.com/first", "example.com/second"}
	first.OwnerReferences = []metav1.OwnerReference{{APIVersion: "apps/v1", Kind: "ReplicaSet", Name: "some-name", Controller: &yes}}
	first.Spec = carp.CarpSpec{NodeSelector: map[string]string{"kubernetes.io/os": "linux"}, TerminationGracePeriodSeconds: &grace}
	second.Labels, second.Finalizers = map[string]string{"app": "b", "c": "d"}, []string{"example.com/third"}
	second.ManagedFields, second.OwnerReferences = []metav1.ManagedFieldsEntry{{Manager: "n"}}, []metav1.OwnerReference{{Kind: "Node"}}
	second.Spec = carp.CarpSpec{NodeSelector: map[string]string{"arch": "amd64"}, HostPID: true}
	a, b := mustMarshal(t, &first), mustMarshal(t, &second)
	d := newDecoder[*carp.Carp](t, Options{Share: true})
	for i, data := range [][]byte{a, a, a, append(bytes.Clone(a), b...), a, append(bytes.Clone(b), a...), append(bytes.Clone(a), a...), a, b} {
		var want carp.Carp
		if err := want.Unmarshal(data); err != nil {
			t.Fatal(err)
		}
		if o := messageOf(d, data); o.Err != nil || !reflect.DeepEqual(&want, o.Value) {
			t.Errorf("object %d: error %v (-want +got):\n%s", i, o.Err, cmp.Diff(&want, o.Value))
		}
	}
	o := messageOf(d, a)
	if again := messageOf(d, a); reflect.ValueOf(o.Value.(*carp.Carp).Labels).Pointer() != reflect.ValueOf(again.Value.(*carp.Carp).Labels).Pointer() {
		t.Error("labels are not shared any more")
	}
}

// A message behind a pointer that comes twice is merged as it is without Share: the last value of a
// field wins.
func TestMessageTwice(t *testing.T) {
	meta := func(num byte, s string) []byte { return fieldOfBytes(2, fieldOfBytes(1, fieldOfBytes(num, []byte(s)))) }
	data := append(append(meta(1, "a name of some length, to be shared"), meta(3, "a namespace of some length")...), meta(3, "b")...)
	want := &nest{One: &nest{ObjectMeta: metav1.ObjectMeta{Name: "a name of some length, to be shared", Namespace: "b"}}}
	for _, share := range []bool{false, true} {
		d := newDecoder[*nest](t, Options{Share: share})
		for i := range 4 {
			if o := messageOf(d, data); o.Err != nil || !reflect.DeepEqual(want, o.Value) {
				t.Errorf("share %v, object %d: error %v (-want +got):\n%s", share, i, o.Err, cmp.Diff(want, o.Value))
			}
		}
	}
}
