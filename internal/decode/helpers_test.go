package decode

import (
	"bytes"
	"encoding/binary"
	"encoding/json"
	"fmt"
	"reflect"
	"strings"
	"time"

	"github.com/google/go-cmp/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	carp "k8s.io/apimachinery/pkg/apis/testapigroup/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/serializer/cbor/direct"
	"k8s.io/apimachinery/pkg/runtime/serializer/protobuf"
)

// A fataler is a test, a benchmark, the target of a fuzz test, or a property of rapid.
type fataler interface {
	Helper()
	Fatal(...any)
	Fatalf(string, ...any)
}

// checkDiff compares what a test wants with what it got; what says of what.
func checkDiff[V any](t interface {
	Helper()
	Errorf(string, ...any)
}, what string, want, got V, opts ...cmp.Option,
) {
	t.Helper()
	if diff := cmp.Diff(want, got, opts...); diff != "" {
		t.Errorf("%s (-want +got):\n%s", what, diff)
	}
}

// ok ends the test at an error.
func ok(t fataler, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// mustDecode decodes data as one object of type T.
func mustDecode[T any](t fataler, d *Decoder, data []byte) T {
	t.Helper()
	v, err := decodeOne(d, data)
	if err != nil {
		t.Fatal(err)
	}
	return v.(T)
}

// decodeOne decodes data as one object.
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
	d, err := New(typ, opts)
	if err != nil {
		t.Fatal(err)
	}
	return d
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
			Namespace: "ns", Name: fmt.Sprintf("carp-%d", i), UID: "u", ResourceVersion: fmt.Sprint(100 + i), Generation: 3, CreationTimestamp: at,
			DeletionTimestamp: &at, DeletionGracePeriodSeconds: &one, Labels: map[string]string{"a": "b", "app": "carp"}, Finalizers: []string{"x/y", "z"},
			OwnerReferences: []metav1.OwnerReference{{Kind: "Pond", Name: "p", UID: "pu", Controller: &yes}, {Name: "q"}},
			ManagedFields:   []metav1.ManagedFieldsEntry{{Manager: "m", Time: &at, FieldsV1: metav1.NewFieldsV1(`{"f:metadata":{"f:labels":{"f:app":{}}}}`)}},
		},
		Spec: carp.CarpSpec{
			RestartPolicy: "Always", TerminationGracePeriodSeconds: &one, NodeSelector: map[string]string{"os": "linux"}, HostPID: true, NodeName: "node",
		},
		Status: carp.CarpStatus{
			Phase: "Running", StartTime: &at, Conditions: []carp.CarpCondition{{Type: "Ready", Status: "True", LastProbeTime: at}, {Type: "Other"}, {}},
			Infos: []carp.CarpInfo{{A: -1, B: "b", C: &c, Data: "d"}, {A: 1 << 40}},
		},
	}
}

// protobufOf returns o as a server writes it.
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

// carpList returns a list of n carps in protobuf, and carpCBOR in CBOR.
func carpList(t fataler, n int) []byte { return protobufOf(t, carps(n)) }
func carpCBOR(t fataler, n int) []byte { return mustCBOR(t, carps(n)) }

func carps(n int) *carp.CarpList {
	l := &carp.CarpList{TypeMeta: metav1.TypeMeta{Kind: "CarpList", APIVersion: carpGV.String()}, ListMeta: metav1.ListMeta{ResourceVersion: "77", Continue: "c", RemainingItemCount: new(int64(9))}}
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

// messageOf decodes the message data. If the decoding is stopped, that is the object's error here.
func messageOf(d *Decoder, data []byte) Object {
	o, err := d.decodeMessage(data)
	if err != nil {
		return Object{Err: err}
	}
	return o
}

// messageFor returns m, a message of that kind, as a server writes it.
func messageFor(t fataler, kind, version string, m interface{ Marshal() ([]byte, error) }) []byte {
	t.Helper()
	u := &runtime.Unknown{TypeMeta: runtime.TypeMeta{Kind: kind, APIVersion: version}, Raw: mustMarshal(t, m)}
	return append([]byte(magic), mustMarshal(t, u)...)
}

func mustMarshal(t fataler, m interface{ Marshal() ([]byte, error) }) []byte {
	t.Helper()
	b, err := m.Marshal()
	if err != nil {
		t.Fatal(err)
	}
	return b
}

// mustCBOR returns v as apimachinery's serializer writes it: behind the tag that marks CBOR.
func mustCBOR(t fataler, v any) []byte {
	t.Helper()
	data, err := direct.Marshal(v)
	if err != nil {
		t.Fatal(err)
	}
	return append([]byte{0xd9, 0xd9, 0xf7}, data...)
}

// cborEvent returns a watch event as a server writes it.
func cborEvent(t fataler, typ string, object any) []byte {
	t.Helper()
	return mustCBOR(t, &metav1.WatchEvent{Type: typ, Object: runtime.RawExtension{Raw: mustCBOR(t, object)}})
}

// sameJSON compares what keeps JSON as its bytes by what those mean: CBOR does not keep the order
// of members.
var sameJSON = cmp.Options{
	cmp.Comparer(func(a, b metav1.FieldsV1) bool { return meansSame(a.GetRawBytes(), b.GetRawBytes()) }),
	cmp.Comparer(func(a, b runtime.RawExtension) bool { return meansSame(a.Raw, b.Raw) }),
	cmp.Comparer(func(a, b json.RawMessage) bool { return meansSame(a, b) }),
}

func meansSame(a, b []byte) bool {
	var x, y any
	if bytes.Equal(a, b) {
		return true
	}
	return unmarshal(a, &x) == nil && unmarshal(b, &y) == nil && reflect.DeepEqual(x, y)
}
