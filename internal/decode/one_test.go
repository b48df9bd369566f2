package decode_test

import (
	"reflect"
	"testing"

	"github.com/google/go-cmp/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"

	"github.com/go-lw/lw/internal/decode"
)

// TestOne decodes single objects, in each encoding, one after another with one decoder, from memory
// that is overwritten then.
func TestOne(t *testing.T) {
	want := &metav1.PartialObjectMetadata{ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: "a", Labels: map[string]string{"k": "v"}}}
	raw, err := want.Marshal()
	if err != nil {
		t.Fatal(err)
	}
	envelope, err := (&runtime.Unknown{TypeMeta: runtime.TypeMeta{APIVersion: "v1", Kind: "Thing"}, Raw: raw}).Marshal()
	if err != nil {
		t.Fatal(err)
	}
	const asJSON = `{"kind":"Thing","apiVersion":"v1","metadata":{"namespace":"ns","name":"a","labels":{"k":"v"}}}`
	d, err := decode.New(reflect.TypeFor[*metav1.PartialObjectMetadata](), decode.Options{})
	if err != nil {
		t.Fatal(err)
	}
	for range 2 {
		for name, in := range map[string]struct {
			data string
			enc  decode.Encoding
		}{
			"JSON":     {" " + asJSON + "\n", decode.JSON},
			"protobuf": {"k8s\x00" + string(envelope), decode.Protobuf},
		} {
			data := []byte(in.data)
			got := d.One(data, in.enc)
			for i := range data {
				data[i] = 'x'
			}
			if got.Err != nil || got.Ident.Kind != "Thing" || got.Ident.APIVersion != "v1" {
				t.Fatalf("%s: %v, %v", name, got.Ident, got.Err)
			}
			if diff := cmp.Diff(want, got.Value); diff != "" {
				t.Errorf("%s (-want +got):\n%s", name, diff)
			}
		}
		for _, bad := range []struct {
			data string
			enc  decode.Encoding
		}{
			{"", decode.JSON}, {"{", decode.JSON}, {asJSON + "{}", decode.JSON}, {"null x", decode.JSON}, {`{"metadata":{"name":1}}`, decode.JSON},
			{"", decode.Protobuf}, {asJSON, decode.Protobuf}, {"k8s\x00\xff", decode.Protobuf}, {"k8s\x00" + string(envelope[:len(envelope)-1]), decode.Protobuf},
		} {
			if got := d.One([]byte(bad.data), bad.enc); got.Err == nil || got.Value != nil {
				t.Errorf("%q: %v", bad.data, got)
			}
		}
	}
}
