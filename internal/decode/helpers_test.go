package decode

import (
	"fmt"
	"reflect"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
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

func newDecoder[T any](t testing.TB, opts Options) *Decoder {
	t.Helper()
	d, err := New(reflect.TypeFor[T](), opts)
	if err != nil {
		t.Fatal(err)
	}
	return d
}

// checkSame checks that d decodes data as apimachinery does, or refuses it as apimachinery does.
func checkSame(t interface {
	Helper()
	Fatalf(string, ...any)
}, d *Decoder, data []byte) {

	t.Helper()
	want := &sink{}
	wantErr := unmarshal(data, want)
	want.TypeMeta = metav1.TypeMeta{}
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
