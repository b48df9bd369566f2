package decode

import (
	"testing"

	"github.com/google/go-cmp/cmp"
	"k8s.io/apimachinery/pkg/api/resource"
	"k8s.io/apimachinery/pkg/util/intstr"
)

// A quantity that was decoded before is equal to the first one and shares no memory with it.
func TestQuantityTwice(t *testing.T) {
	one := resource.MustParse("1")
	for _, in := range []string{`"250m"`, `"1Gi"`, `2`, `null`, `" 3 "`, `""`, `"x"`, `"123456789012345678901234567890"`, `"0.5"`} {
		var q quantityPool
		for i := range 3 {
			var got, want resource.Quantity
			err := q.decode([]byte(in), addressOf(&got), (*resource.Quantity).UnmarshalJSON)
			if wantErr := want.UnmarshalJSON([]byte(in)); (err == nil) != (wantErr == nil) {
				t.Fatalf("%s: error %v, want %v", in, err, wantErr)
			}
			if got.Cmp(want) != 0 || got.String() != want.String() || got.Format != want.Format {
				t.Errorf("%s, try %d: %v, want %v", in, i, &got, &want)
			}
			got.Add(one)
		}
	}
}

func TestIntOrString(t *testing.T) {
	type object struct {
		V intstr.IntOrString  `json:"v"`
		P *intstr.IntOrString `json:"p"`
	}
	d := newDecoder[*object](t, Options{})
	for _, v := range []string{`1`, `"http"`, `""`, `null`, `-0`, `2147483648`, `1.5`, `1e2`, `true`, `{}`, `"a\u00e9\ud800"`} {
		data := []byte(`{"v":` + v + `,"p":` + v + `}`)
		var want object
		wantErr := unmarshal(data, &want)
		got, err := decodeOne(d, data)
		if (err == nil) != (wantErr == nil) {
			t.Errorf("%s: error %v, want %v", v, err, wantErr)
		} else if err == nil {
			if diff := cmp.Diff(&want, got); diff != "" {
				t.Errorf("%s (-want +got):\n%s", v, diff)
			}
		}
	}
}
