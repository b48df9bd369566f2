package decode

import (
	"fmt"
	"reflect"
	"strings"
	"testing"
	"unsafe"

	"github.com/google/go-cmp/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	carp "k8s.io/apimachinery/pkg/apis/testapigroup/v1"
)

// mustDecode decodes data as one object of type T.
func mustDecode[T any](t *testing.T, d *Decoder, data []byte) T {
	t.Helper()
	v, err := decodeOne(d, data)
	if err != nil {
		t.Fatal(err)
	}
	return v.(T)
}

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

// A field whose values do not repeat stops to look for them, and forgets those it has.
func TestShareGivesUp(t *testing.T) {
	f := &shareField{typ: reflect.TypeFor[[]string]()}
	calls := 0
	decode := func(raw string) {
		var v []string
		if !f.wants(len(raw)) {
			return
		}
		if err := f.decode([]byte(raw), 0, addressOf(&v), func() error { calls++; v = []string{raw}; return nil }); err != nil || v[0] != raw {
			t.Fatalf("%q: got %q, error %v", raw, v, err)
		}
	}
	for i := range trial {
		decode(fmt.Sprintf("%0*d", minShare, i))
	}
	if !f.off || f.kept != nil || calls != trial {
		t.Errorf("off %v, %d values kept, %d decoded", f.off, len(f.kept), calls)
	}
}

func TestShareIsBounded(t *testing.T) {
	f := &shareField{typ: reflect.TypeFor[[]string]()}
	for i := range 20000 {
		raw := fmt.Sprintf("%0*d", minShare+i%3*maxShare/4, i/4) // each value four times in a row
		var v []string
		if err := f.decode([]byte(raw), 0, addressOf(&v), func() error { v = []string{raw}; return nil }); err != nil || v[0] != raw {
			t.Fatalf("got %q, error %v", v, err)
		}
		if len(f.kept) > sharedValues || f.size > sharedBytes {
			t.Fatalf("%d values of %d bytes are kept", len(f.kept), f.size)
		}
	}
}

func TestIntern(t *testing.T) {
	d := newDecoder[*pod](t, Options{})
	a, b := mustDecode[*pod](t, d, podJSON(1)), mustDecode[*pod](t, d, podJSON(2))
	// A place of the table holds one string, so by chance two may displace each other.
	shared, all := 0, 0
	for name, value := range a.Labels {
		if all++; sameMemory(value, b.Labels[name]) {
			shared++
		}
	}
	if shared < all/2 {
		t.Errorf("%d of %d equal strings share memory", shared, all)
	}
	long := fmt.Sprintf(`{"metadata":{"name":"%s"}}`, strings.Repeat("x", maxIntern+1))
	if sameMemory(mustDecode[*pod](t, d, []byte(long)).Name, mustDecode[*pod](t, d, []byte(strings.Replace(long, "x", "y", 1))).Name) {
		t.Error("different strings share memory")
	}
}

// No string of an object may stand in the bytes that it was read from, which are overwritten.
func TestNothingAliasesTheInput(t *testing.T) {
	for _, opts := range []Options{{}, {Share: true}} {
		d := newDecoder[*sink](t, opts)
		for _, spec := range specs {
			data := []byte(`{"metadata":{"name":"a"},"spec":` + spec + `}`)
			got, err := decodeOne(d, data)
			if err != nil {
				continue
			}
			want, _ := decodeOne(newDecoder[*sink](t, Options{}), []byte(string(data)))
			for i := range data {
				data[i] = '#'
			}
			clear(d.p.scratch[:cap(d.p.scratch)])
			if !reflect.DeepEqual(want, got) {
				t.Errorf("share %v: %s changed with its input", opts.Share, spec)
			}
		}
	}
}

func TestDrop(t *testing.T) {
	d := newDecoder[*pod](t, Options{Drop: []string{
		"metadata.managedFields", "metadata.labels.app.example/label-1", "spec.containers.env", "status.containerStatuses.state.running", "spec.volumes",
	}})
	got := mustDecode[*pod](t, d, podJSON(1))
	want := &pod{}
	if err := unmarshal(podJSON(1), want); err != nil {
		t.Fatal(err)
	}
	want.TypeMeta = metav1.TypeMeta{}
	want.ManagedFields, want.Spec.Volumes = nil, nil
	delete(want.Labels, "app.example/label-1")
	for i := range want.Spec.Containers {
		want.Spec.Containers[i].Env = nil
	}
	for i := range want.Status.ContainerStatuses {
		want.Status.ContainerStatuses[i].State.Running = nil
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
	for _, path := range []string{"spec.containerz", "spec.nodeName.x", "x", "metadata.creationTimestamp.time", ""} {
		if _, err := New(reflect.TypeFor[*pod](), Options{Drop: []string{path}}); err == nil {
			t.Errorf("%q was taken for a field", path)
		}
	}
}

// sameMemory reports whether two strings are one.
func sameMemory(a, b string) bool { return a == b && unsafe.StringData(a) == unsafe.StringData(b) }

// What is added to a shared map or slice later in an object's message is in no other object.
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
