package decode

import (
	"bytes"
	"fmt"
	"reflect"
	"strconv"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	carp "k8s.io/apimachinery/pkg/apis/testapigroup/v1"
	"pgregory.net/rapid"
)

func TestShare(t *testing.T) {
	for _, share := range []bool{false, true} {
		d := newDecoder[*pod](t, Options{Share: share})
		var pods []*pod
		for i := range 5 {
			pods = append(pods, mustDecode[*pod](t, d, podJSON(i))) // of one Deployment
		}
		a, b := pods[3], pods[4]
		got := map[string]bool{
			"probes":       a.Spec.Containers[0].LivenessProbe == b.Spec.Containers[0].LivenessProbe,
			"tolerations":  &a.Spec.Tolerations[0] == &b.Spec.Tolerations[0],
			"labels":       reflect.ValueOf(a.Labels).Pointer() == reflect.ValueOf(b.Labels).Pointer(),
			"what differs": a.Status.PodIPs[0] == b.Status.PodIPs[0] || a == b,
		}
		want := map[string]bool{"probes": share, "tolerations": share, "labels": share, "what differs": false}
		checkDiff(t, fmt.Sprintf("what is shared with share %v", share), want, got)
	}
}

// A message within values that differ is shared too: managed fields of another time.
func TestShareMessages(t *testing.T) {
	d := newDecoder[*carp.Carp](t, Options{Share: true})
	var fields []*metav1.FieldsV1
	for i := range 4 {
		got, want := decodeCarp(t, d, "protobuf", mustMarshal(t, newCarp(i)))
		checkDiff(t, "what is decoded", want, got)
		fields = append(fields, got.ManagedFields[0].FieldsV1)
	}
	if fields[2] != fields[3] {
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
		if err := f.decode([]byte(raw), 0, pointerTo(&v),
			func() error { calls++; v = []string{raw}; return nil }); err != nil || v[0] != raw {
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
		if err := f.decode([]byte(raw), 0, pointerTo(&v), func() error { v = []string{raw}; return nil }); err != nil ||
			v[0] != raw {
			t.Fatalf("got %q, error %v", v, err)
		}
		if len(f.kept) > sharedValues || f.size > sharedBytes {
			t.Fatalf("%d values of %d bytes are kept", len(f.kept), f.size)
		}
	}
}

// A shared value is guessed from the one before it in its field.
func TestGuessShared(t *testing.T) {
	d := newDecoder[*sink](t, Options{Share: true})
	long := `{"refKind":"a kind of some length","refName":"x"}`
	raw := []string{`[` + long + `]`, `[` + long + `,` + long + `]`, `[` + long + ` ]`, `[` + long, `[` + long + `]]`,
		`[]`, `null`,
		strings.Repeat("1", 30), `"` + strings.Repeat("x", 40) + `"`, `[` + strings.Replace(long, "x", "y", 1) + `]`}
	for s := range inTurn(raw, "aabbaba") {
		checkSame(t, d, []byte(`{"metadata":{"name":"a"},"spec":{"structs":`+s+`,"strs":["`+strings.Repeat("z", 30)+`"]}}`))
	}
}

// A message that comes twice is merged as it is without Share, and the objects that share values
// with it do not change: elements that come later are added to no other object's map or slice.
func TestShareMerges(t *testing.T) {
	var first, second carp.Carp
	grace, yes := int64(30), true
	first.ManagedFields = []metav1.ManagedFieldsEntry{{Manager: "m",
		FieldsV1: metav1.NewFieldsV1(`{"f:metadata":{"f:labels":{"f:app":{}}}}`)}}
	first.Labels, first.Finalizers = map[string]string{"app": "a label to share", "a": "b"},
		[]string{"example.com/first", "example.com/second"}
	first.OwnerReferences = []metav1.OwnerReference{{APIVersion: "apps/v1", Kind: "ReplicaSet", Name: "some-name",
		Controller: &yes}}
	first.Spec = carp.CarpSpec{NodeSelector: map[string]string{"kubernetes.io/os": "linux"},
		TerminationGracePeriodSeconds: &grace}
	second.Labels, second.Finalizers = map[string]string{"app": "b", "c": "d"}, []string{"example.com/third"}
	second.ManagedFields, second.OwnerReferences = []metav1.ManagedFieldsEntry{{Manager: "n"}},
		[]metav1.OwnerReference{{Kind: "Node"}}
	second.Spec = carp.CarpSpec{NodeSelector: map[string]string{"arch": "amd64"}, HostPID: true}
	a, b := mustMarshal(t, &first), mustMarshal(t, &second)
	d := newDecoder[*carp.Carp](t, Options{Share: true})
	var all, wants []*carp.Carp
	for _, data := range [][]byte{a, a, a, append(bytes.Clone(a), b...), append(bytes.Clone(a), b...), a,
		append(bytes.Clone(b), a...), append(bytes.Clone(a), a...), a, b, a} {
		got, want := decodeCarp(t, d, "protobuf", data)
		all, wants = append(all, got), append(wants, want)
		checkDiff(t, fmt.Sprintf("%d objects", len(all)), wants, all)
	}
	one, other := all[2].ObjectMeta, all[len(all)-1].ObjectMeta
	if reflect.ValueOf(one.Labels).Pointer() != reflect.ValueOf(other.Labels).Pointer() ||
		&one.Finalizers[0] != &other.Finalizers[0] {
		t.Error("equal labels and finalizers are not shared")
	}
}

// Of a message behind a pointer that comes twice the last value of a field wins, with Share too.
func TestMessageTwice(t *testing.T) {
	meta := func(num byte, s string) []byte { return fieldOfBytes(2, fieldOfBytes(1, fieldOfBytes(num, []byte(s)))) }
	data := append(append(meta(1, "a name of some length, to be shared"), meta(3, "a namespace of some length")...),
		meta(3, "b")...)
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

// gadget is an untyped object. Its status is its own, and all else is that of its batch.
func gadget(batch, i int) []byte {
	return fmt.Appendf(nil, `{"kind":"Gadget","apiVersion":"v1","metadata":{"labels":{"app":"web","team":"platform-%[1]d"},"name":"gadget-%[2]d",`+
		`"managedFields":[{"manager":"kubectl","time":"2026-03-05T11:%02[2]d:33Z","fieldsV1":{"f:spec":{".":{},"f:replicas":{},"f:image-%[1]d":{}}}}]},`+
		`"spec":{"image":"registry.example.com/web:v%[1]d","ports":[8080,9090]},"status":{"address":"10.96.12.%[2]d:5432","ready":true}}`, batch, i)
}

// checkTaken checks at which paths two objects have the same memory.
func checkTaken(t fataler, what string, a, b *unstructured.Unstructured, want map[string]bool) {
	t.Helper()
	got := map[string]bool{}
	for path := range want {
		got[path] = addressOf(a, path) == addressOf(b, path)
	}
	checkDiff(t, what, want, got)
}

// addressOf returns where the map or slice is to which a path of names and numbers leads.
func addressOf(u *unstructured.Unstructured, path string) uintptr {
	var v any = u.Object
	for _, step := range strings.Fields(path) {
		if s, ok := v.([]any); ok {
			i, _ := strconv.Atoi(step)
			v = s[i]
		} else {
			v = v.(map[string]any)[step]
		}
	}
	return reflect.ValueOf(v).Pointer()
}

// With Share, the equal objects and arrays of untyped objects are one map or slice from the third
// object on, and without it none are. Two values whose hashes share a place are not: so one batch
// of several, each of values of its own, must share each.
func TestShareUntyped(t *testing.T) {
	shared := map[string]bool{}
	for n := range 16 {
		share := n%2 == 0
		d := newDecoder[*unstructured.Unstructured](t, Options{Share: share})
		var all []*unstructured.Unstructured
		for i := range 4 {
			got := mustDecode[*unstructured.Unstructured](t, d, gadget(n, i))
			checkDiff(t, fmt.Sprintf("share %v, object %d", share, i), untypedOf(t, gadget(n, i)), got)
			all = append(all, got)
		}
		for _, path := range []string{"spec", "metadata labels", "metadata managedFields 0 fieldsV1", "metadata",
			"metadata managedFields", "status"} {
			if addressOf(all[2], path) == addressOf(all[3], path) {
				if shared[path] = true; !share {
					t.Errorf("%s is shared without Share", path)
				}
			}
		}
	}
	want := map[string]bool{"spec": true, "metadata labels": true, "metadata managedFields 0 fieldsV1": true}
	checkDiff(t, "what is shared", want, shared)
}

// A value whose bytes mean something else, since a part of it is dropped, is not taken from the
// memory of one of which nothing is, nor the other way round.
func TestShareUntypedAndDrop(t *testing.T) {
	d := newDecoder[*unstructured.Unstructured](t, Options{Share: true, Drop: []string{"spec.secret"}})
	data := []byte(`{"kind":"Gadget","copy":{"public":"one and all","secret":2},"metadata":{"name":"n"},"spec":{"public":"one and all","secret":2}}`)
	want := untypedOf(t, data)
	unstructured.RemoveNestedField(want.Object, "spec", "secret")
	for range 5 {
		checkDiff(t, "what is decoded", want, mustDecode[*unstructured.Unstructured](t, d, data))
	}
}

// Whatever repeats, each object is what apimachinery decodes, and stays so when others have come.
func TestShareUntypedModel(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		d := newDecoder[*unstructured.Unstructured](t, Options{Share: true})
		var draw func(depth int) string
		draw = func(depth int) string {
			scalars := []string{`"a string of some length"`, `"aé\n"`, "12", "1.5", "true", "null", "{}", "[]"}
			if depth == 0 {
				return rapid.SampledFrom(scalars).Draw(t, "scalar")
			}
			values := make([]string, rapid.IntRange(0, 3).Draw(t, "members"))
			for i := range values {
				values[i] = draw(rapid.IntRange(0, depth-1).Draw(t, "depth"))
			}
			if rapid.Bool().Draw(t, "array") {
				return "[" + strings.Join(values, ", ") + "]"
			}
			for i, v := range values {
				values[i] = rapid.SampledFrom([]string{`"a":`, `"b" : `, `"metadata":`}).Draw(t, "name") + v
			}
			return "{" + strings.Join(values, ",") + "}"
		}
		pieces := []string{draw(1), draw(2), draw(3)}
		checkVersions(t, d, 12, func(any) {}, func() (string, []byte, any) {
			piece := func() string { return rapid.SampledFrom(pieces).Draw(t, "piece") }
			data := fmt.Appendf(nil, `{"kind":"K","metadata":{"name":"n","labels":{"a":"b"}},"a":%s,"spec":{"a":[%s],"b":%s}}`,
				piece(), piece(), piece())
			return "JSON", data, untypedOf(t, data)
		})
	})
}

// Neither many names nor many values take much memory, and names that never repeat take no time.
func TestShareUntypedIsBounded(t *testing.T) {
	d := newDecoder[*unstructured.Unstructured](t, Options{Share: true})
	value := strings.Repeat("x", 1000)
	for i := range 4 * sharedMaps {
		data := fmt.Sprintf(`{"kind":"K","metadata":{"name":"n"},"f:%d":{"value":"%s"},"spec":{"value":"%d %[2]s"},"status":{"only":"%[1]d %[2]s"}}`, i, value, i/2)
		mustDecode[*unstructured.Unstructured](t, d, []byte(data))
		if n := len(d.maps.rates); n > maxRates {
			t.Fatalf("%d names", n)
		}
		if n := len(d.maps.kept); n > sharedMaps || d.maps.size > sharedMapBytes {
			t.Fatalf("%d values of %d bytes", n, d.maps.size)
		}
	}
	if !d.maps.rates["status"].gaveUp {
		t.Error("status has not been given up")
	}
}

// A value that is valid JSON here may nest too deep elsewhere.
func TestShareUntypedDepth(t *testing.T) {
	d := newDecoder[*unstructured.Unstructured](t, Options{Share: true})
	deep := strings.Repeat("[", 5000) + strings.Repeat("]", 5000)
	for range 4 {
		mustDecode[*unstructured.Unstructured](t, d, []byte(`{"kind":"K","metadata":{"name":"n"},"a":`+deep+`}`))
	}
	if len(d.maps.kept) != 1 {
		t.Fatalf("%d values are kept, want 1", len(d.maps.kept))
	}
	data := `{"kind":"K","metadata":{"name":"n"},"b":` + strings.Repeat(`[`, 6000) + `{"a":` + deep + "}" +
		strings.Repeat("]", 6000) + `}`
	if got, err := decodeOne(d, []byte(data)); err == nil {
		t.Errorf("a value %d deep is %T", 11000, got)
	}
}
