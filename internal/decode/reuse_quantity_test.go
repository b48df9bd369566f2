package decode

import (
	"testing"

	"k8s.io/apimachinery/pkg/api/resource"
)

// A quantity that was decoded before is equal to the first one, and shares no memory with it.
func TestQuantityTwice(t *testing.T) {
	one := resource.MustParse("1")
	for _, in := range []string{`"250m"`, `"1Gi"`, `2`, `null`, `" 3 "`, `""`, `"x"`, `"123456789012345678901234567890"`, `"0.5"`} {
		var q quantityPool
		for i := range 3 {
			var got, want resource.Quantity
			err := q.decode([]byte(in), pointerTo(&got), (*resource.Quantity).UnmarshalJSON)
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
