package standard_test

import (
	"bytes"
	"fmt"
	"slices"
	"testing"

	"github.com/go-lw/lw/internal/decode"
	"github.com/go-lw/lw/internal/decode/standard"
	"github.com/go-lw/lw/internal/verify/rig"
)

// BenchmarkEvent decodes an event of 1.6 KiB of JSON, whose status changes, by either decoder. Row 50
// of bench measures the same with pods, from a socket on.
func BenchmarkEvent(b *testing.B) {
	for form, enc := range encodings {
		var stream []byte
		for n := range 100 {
			c := newCarp("a", fmt.Sprint(n+1))
			c.Status.Message = fmt.Sprint(n)
			stream = slices.Concat(stream, object(b, c, nil).event(b, "MODIFIED")[enc])
		}
		for _, own := range []bool{true, false} {
			b.Run(fmt.Sprintf("%s/lw=%v", form, own), func(b *testing.B) {
				d := rig.Must[standard.Decoder](b)(standard.New(carps, decode.Options{}, !own))
				var last any
				d.ReuseFrom(func(string, string) any { return last })
				b.ReportAllocs()
				for n := 0; n < b.N; n += 100 {
					rig.OK(b, d.Watch(bytes.NewReader(stream), enc, func(ev decode.Event) error {
						last = ev.Object.Value
						return ev.Object.Err
					}))
				}
			})
		}
	}
}
