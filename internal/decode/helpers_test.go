package decode

import (
	"fmt"
	"reflect"
	"strings"

	"github.com/google/go-cmp/cmp"
)

// A fataler is a test, a benchmark, the target of a fuzz test, or a property of rapid.
type fataler interface {
	Helper()
	Fatal(...any)
	Fatalf(string, ...any)
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

// checkSame checks that d decodes data as a sink as apimachinery does, or refuses it as apimachinery
// does.
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
