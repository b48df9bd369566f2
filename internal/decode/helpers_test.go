package decode

import (
	"bytes"
	"encoding/binary"
	"encoding/json"
	"fmt"
	"reflect"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	carp "k8s.io/apimachinery/pkg/apis/testapigroup/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/serializer/cbor/direct"
	"k8s.io/apimachinery/pkg/runtime/serializer/protobuf"

	"github.com/go-lw/lw/internal/verify/leak"
)

func TestMain(m *testing.M) { leak.Main(m) }

// A fataler is a test, a benchmark, the target of a fuzz test, or a property of rapid.
type fataler interface {
	Helper()
	Errorf(string, ...any)
	Fatal(...any)
	Fatalf(string, ...any)
}

// checkDiff compares what a test wants with what it got; what says of what.
func checkDiff[V any](t fataler, what string, want, got V, opts ...cmp.Option) {
	t.Helper()
	if diff := cmp.Diff(want, got, opts...); diff != "" {
		t.Errorf("%s (-want +got):\n%s", what, diff)
	}
}

func ok(t fataler, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

func must[V any](t fataler) func(V, error) V {
	return func(v V, err error) V {
		t.Helper()
		ok(t, err)
		return v
	}
}

func mustDecode[T any](t fataler, d *Decoder, data []byte) T {
	t.Helper()
	return must[any](t)(decodeOne(d, data)).(T)
}
func decodeOne(d *Decoder, data []byte) (any, error) {
	d.p.reset(data, 0)
	o, err := d.decodeObject()
	if err == nil {
		err = d.p.end()
	}
	if err == nil {
		err = o.Err
	}
	return o.Value, err
}

func newDecoder[T any](t fataler, opts Options) *Decoder {
	t.Helper()
	return decoderOf(t, reflect.TypeFor[T](), opts)
}

func decoderOf(t fataler, typ reflect.Type, opts Options) *Decoder {
	t.Helper()
	return must[*Decoder](t)(New(typ, opts))
}

// checkSame checks that d decodes data as a sink as apimachinery does, or refuses it as that does.
func checkSame(t fataler, d *Decoder, data []byte) {
	t.Helper()
	checkSameAs[sink](t, d, data)
}

// checkSameAs is checkSame for another type than a sink.
func checkSameAs[T any](t fataler, d *Decoder, data []byte) {
	t.Helper()
	want := new(T)
	wantErr := unmarshal(data, want)
	if said := reflect.ValueOf(want).Elem().FieldByName("TypeMeta"); said.IsValid() {
		said.SetZero()
	}
	got, err := decodeOne(d, data)
	switch {
	case isNull(data):
		if err == nil {
			t.Fatalf("a null was decoded")
		}
	case (err == nil) != (wantErr == nil):
		t.Fatalf("%s:\n got error %v\nwant error %v", data, err, wantErr)
	case err == nil && !reflect.DeepEqual(want, got):
		t.Fatalf("%s: (-want +got):\n%s", data, cmp.Diff(fmt.Sprintf("%#v", want), fmt.Sprintf("%#v", got)))
	}
}

func isNull(data []byte) bool { return strings.TrimSpace(string(data)) == "null" }

// newCarp returns carp i, with a value in every field.
func newCarp(i int) *carp.Carp {
	one, yes := int64(i), true
	c := "c"
	at := metav1.NewTime(time.Unix(1700000000+int64(i), 0))
	return &carp.Carp{
		TypeMeta: metav1.TypeMeta{Kind: "Carp", APIVersion: "testapigroup.apimachinery.k8s.io/v1"},
		ObjectMeta: metav1.ObjectMeta{
			Namespace: "ns", Name: fmt.Sprintf("carp-%d", i), UID: "u", ResourceVersion: fmt.Sprint(100 + i), Generation: 3,
			CreationTimestamp: at,
			DeletionTimestamp: &at, DeletionGracePeriodSeconds: &one, Labels: map[string]string{"a": "b", "app": "carp"},
			Finalizers:      []string{"x/y", "z"},
			OwnerReferences: []metav1.OwnerReference{{Kind: "Pond", Name: "p", UID: "pu", Controller: &yes}, {Name: "q"}},
			ManagedFields: []metav1.ManagedFieldsEntry{{Manager: "m", Time: &at,
				FieldsV1: metav1.NewFieldsV1(`{"f:metadata":{"f:labels":{"f:app":{}}}}`)}},
		},
		Spec: carp.CarpSpec{
			RestartPolicy: "Always", TerminationGracePeriodSeconds: &one, NodeSelector: map[string]string{"os": "linux"},
			HostPID: true, NodeName: "node",
		},
		Status: carp.CarpStatus{
			Phase: "Running", StartTime: &at, Conditions: []carp.CarpCondition{{Type: "Ready", Status: "True",
				LastProbeTime: at}, {Type: "Other"}, {}},
			Infos: []carp.CarpInfo{{A: -1, B: "b", C: &c, Data: "d"}, {A: 1 << 40}},
		},
	}
}

func protobufOf(t fataler, o runtime.Object) []byte {
	t.Helper()
	scheme := runtime.NewScheme()
	scheme.AddKnownTypes(carpGV, &carp.Carp{}, &carp.CarpList{})
	metav1.AddToGroupVersion(scheme, carpGV)
	var b bytes.Buffer
	ok(t, protobuf.NewSerializer(scheme, scheme).Encode(o, &b))
	return b.Bytes()
}

// frameOf returns a watch event as a server writes it.
func frameOf(t fataler, typ string, object []byte) []byte {
	t.Helper()
	b := mustMarshal(t, &metav1.WatchEvent{Type: typ, Object: runtime.RawExtension{Raw: object}})
	return append(binary.BigEndian.AppendUint32(nil, uint32(len(b))), b...)
}

func carpFrames(t fataler, typ string, n int) (frames []byte) {
	for i := range n {
		frames = append(frames, frameOf(t, typ, protobufOf(t, newCarp(i)))...)
	}
	return frames
}

// carpList returns a list of n carps in protobuf, and carpCBOR in CBOR.
func carpList(t fataler, n int) []byte { return protobufOf(t, carps(n)) }
func carpCBOR(t fataler, n int) []byte { return mustCBOR(t, carps(n)) }

func carps(n int) *carp.CarpList {
	l := &carp.CarpList{TypeMeta: metav1.TypeMeta{Kind: "CarpList", APIVersion: carpGV.String()},
		ListMeta: metav1.ListMeta{ResourceVersion: "77", Continue: "c", RemainingItemCount: new(int64(9))}}
	for i := range n {
		l.Items = append(l.Items, *wantCarp(i))
	}
	return l
}

// wantCarp returns carp i as it comes from a server.
func wantCarp(i int) *carp.Carp {
	c := newCarp(i)
	c.TypeMeta = metav1.TypeMeta{}
	return c
}

// carpOf returns what apimachinery makes of data, which is in the given form.
func carpOf(form string, data []byte) (*carp.Carp, error) {
	decode := (*carp.Carp).Unmarshal
	if form != "protobuf" {
		decode = func(c *carp.Carp, data []byte) error { return unmarshal(data, c) }
	}
	c := &carp.Carp{}
	err := decode(c, data)
	c.TypeMeta = metav1.TypeMeta{}
	return c, err
}

// messageOf decodes the message data. If the decoding is stopped, that is the object's error here.
func messageOf(d *Decoder, data []byte) Object {
	o, err := d.decodeMessage(data)
	if err != nil {
		return Object{Err: err}
	}
	return o
}

func messageFor(t fataler, kind, version string, m interface{ Marshal() ([]byte, error) }) []byte {
	t.Helper()
	u := &runtime.Unknown{TypeMeta: runtime.TypeMeta{Kind: kind, APIVersion: version}, Raw: mustMarshal(t, m)}
	return append([]byte(magic), mustMarshal(t, u)...)
}

func mustMarshal(t fataler, m interface{ Marshal() ([]byte, error) }) []byte {
	t.Helper()
	return must[[]byte](t)(m.Marshal())
}

// mustCBOR returns v as apimachinery's serializer writes it: behind the tag that marks CBOR.
func mustCBOR(t fataler, v any) []byte {
	t.Helper()
	return append([]byte{0xd9, 0xd9, 0xf7}, must[[]byte](t)(direct.Marshal(v))...)
}

func mustJSON(t fataler, v any) []byte {
	t.Helper()
	return must[[]byte](t)(json.Marshal(v))
}

func cborEvent(t fataler, typ string, object any) []byte {
	t.Helper()
	return mustCBOR(t, &metav1.WatchEvent{Type: typ, Object: runtime.RawExtension{Raw: mustCBOR(t, object)}})
}

// sameJSON compares bytes of JSON by what they mean: CBOR does not keep the order of members.
var sameJSON = cmp.Options{
	cmp.Comparer(func(a, b metav1.FieldsV1) bool { return meansSame(a.GetRawBytes(), b.GetRawBytes()) }),
	cmp.Comparer(func(a, b runtime.RawExtension) bool { return meansSame(a.Raw, b.Raw) }),
	cmp.Comparer(func(a, b json.RawMessage) bool { return meansSame(a, b) }),
}

func meansSame(a, b []byte) bool {
	var x, y any
	return bytes.Equal(a, b) || unmarshal(a, &x) == nil && unmarshal(b, &y) == nil && reflect.DeepEqual(x, y)
}

// manyOf returns n times one, with commas between them, and membersOf n members of that value.
func manyOf(n int, one string) string { return strings.TrimSuffix(strings.Repeat(one+",", n), ",") }

func membersOf(n int, value string) string {
	var b strings.Builder
	for i := range n {
		fmt.Fprintf(&b, `"%d":%s,`, i, value)
	}
	return strings.TrimSuffix(b.String(), ",")
}

// visit calls f with v and with the values in it, as far as f returns true: those behind pointers,
// and fields, elements and the values of maps.
func visit(v reflect.Value, f func(reflect.Value) bool) {
	if !f(v) {
		return
	}
	switch v.Kind() {
	case reflect.Pointer, reflect.Interface:
		if !v.IsNil() {
			visit(v.Elem(), f)
		}
	case reflect.Struct:
		for _, field := range v.Fields() {
			visit(field, f)
		}
	case reflect.Map, reflect.Slice, reflect.Array:
		for _, elem := range v.Seq2() {
			visit(elem, f)
		}
	}
}
