package lwtest

import (
	"bytes"
	"encoding/binary"
	"encoding/json"
	"fmt"
	"reflect"
	"testing"

	"github.com/google/go-cmp/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"

	"github.com/go-lw/lw/internal/decode"
)

// Projection checks that P, a type of which [lw.HTTP] decodes a few fields, agrees with T, the type
// of the API:
//
//	lwtest.Projection[*podPlace, *corev1.Pod](t)
//
// P and T are structs or pointers to structs, of objects or of parts of them. Each field of P must be in T with the same name in
// JSON, the same number in protobuf, and a type of the same encoding. A field that differs is an
// error of t that has its path, such as
//
//	spec.nodeName: number 11, the API's is 10
//
// The types may have other names, such as string for corev1.PodPhase, and one of them may be a
// pointer. If P has no protobuf tags, its names and types are compared alone. If it has some, and T
// has the Marshal of generated types, Projection also encodes a T with a value in every field, and
// compares what lw decodes of it into P from protobuf and from JSON.
func Projection[P, T any](t testing.TB) {
	t.Helper()
	p, api := structOf[P](), structOf[T]()
	if p == api {
		t.Errorf("lwtest: Projection: %v is compared with itself", p)
		return
	}
	differences := decode.Compare(p, api)
	for _, d := range differences {
		t.Errorf("lwtest: %v: %s", p, d)
	}
	// A part of an object, such as lw.Meta, is nothing to decode.
	if _, object := api.FieldByName("ObjectMeta"); len(differences) > 0 || !object {
		return
	}
	d, err := decode.New(reflect.PointerTo(p), decode.Options{Workers: -1})
	if err != nil {
		t.Errorf("lwtest: %v", err)
		return
	}
	full := reflect.New(api)
	m, ok := full.Interface().(interface{ Marshal() ([]byte, error) })
	if !ok || !d.Protobuf() {
		return
	}
	(&filler{}).fill(full.Elem())
	message, err := m.Marshal()
	if err != nil {
		t.Errorf("lwtest: Projection: a %v with a value in every field: %v", api, err)
		return
	}
	text, err := json.Marshal(full.Interface())
	if err != nil {
		t.Errorf("lwtest: Projection: a %v with a value in every field: %v", api, err)
		return
	}
	want, wantErr := decoded(d, decode.JSON, []byte(fmt.Sprintf(`{"type":"ADDED","object":%s}`+"\n", text)))
	got, gotErr := decoded(d, decode.Protobuf, frame(message))
	if diff := cmp.Diff(want, got, cmp.Exporter(func(reflect.Type) bool { return true })); diff != "" || wantErr != nil || gotErr != nil {
		t.Errorf("lwtest: %v: JSON (error %v) and protobuf (error %v) differ (-JSON +protobuf):\n%s", p, wantErr, gotErr, diff)
	}
}

// structOf returns the struct that T is, or points to.
func structOf[T any]() reflect.Type {
	t := reflect.TypeFor[T]()
	if t.Kind() == reflect.Pointer {
		t = t.Elem()
	}
	if t.Kind() != reflect.Struct {
		panic(fmt.Sprintf("lwtest: Projection: %v is no struct", reflect.TypeFor[T]()))
	}
	return t
}

// decoded returns the object of the only event in a stream.
func decoded(d *decode.Decoder, enc decode.Encoding, stream []byte) (obj any, err error) {
	err = d.Watch(bytes.NewReader(stream), enc, func(e decode.Event) error {
		obj = e.Object.Value
		return e.Object.Err
	})
	return obj, err
}

// frame returns an event of a watch in protobuf that has the message of an object.
func frame(message []byte) []byte {
	// Neither of these can fail.
	envelope, _ := (&runtime.Unknown{Raw: message}).Marshal()
	event, _ := (&metav1.WatchEvent{Type: "ADDED", Object: runtime.RawExtension{Raw: append([]byte("k8s\x00"), envelope...)}}).Marshal()
	return append(binary.BigEndian.AppendUint32(nil, uint32(len(event))), event...)
}
