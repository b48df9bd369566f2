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
// P and T are structs or pointers to structs, of objects or of parts of them. Each field of P must
// be in T with the same name in JSON, the same number in protobuf, and a type of the same encoding.
// A field that differs is an error of t that has its path, such as
//
//	spec.nodeName: number 11, the API's is 10
//
// The types may have other names, such as string for corev1.PodPhase, and a pointer of T may be a
// value in P. If P has no protobuf tags, its names and types are compared alone. If it has some,
// and T has the Marshal of generated types, Projection also encodes a T with a value in every
// field, and one with an empty value, and compares what lw decodes of them into P from protobuf and
// from JSON.
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
	if _, ok := reflect.New(api).Interface().(marshaler); !ok || !d.Protobuf() {
		return
	}
	// An object of empty values shows where JSON leaves out what protobuf has.
	for _, f := range []*filler{{}, {empty: true}} {
		full := reflect.New(api)
		f.fill(full.Elem())
		if err := same(d, full.Interface().(marshaler)); err != nil {
			what := "a value"
			if f.empty {
				what = "an empty value"
			}
			t.Errorf("lwtest: %v: with %s in every field: %v", p, what, err)
		}
	}
}

// A marshaler is an object of a generated type.
type marshaler interface{ Marshal() ([]byte, error) }

// same returns an error unless d decodes the same from the protobuf of obj as from its JSON.
func same(d *decode.Decoder, obj marshaler) error {
	message, err := obj.Marshal()
	if err != nil {
		return err
	}
	text, err := json.Marshal(obj)
	if err != nil {
		return err
	}
	want, err := decoded(d, decode.JSON, []byte(fmt.Sprintf(`{"type":"ADDED","object":%s}`+"\n", text)))
	if err != nil {
		return fmt.Errorf("its JSON: %w", err)
	}
	got, err := decoded(d, decode.Protobuf, frame(message))
	if err != nil {
		return fmt.Errorf("its protobuf: %w", err)
	}
	if diff := cmp.Diff(want, got, cmp.Exporter(func(reflect.Type) bool { return true })); diff != "" {
		return fmt.Errorf("JSON and protobuf differ (-JSON +protobuf):\n%s", diff)
	}
	return nil
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
