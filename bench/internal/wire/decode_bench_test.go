package wire

import (
	"bytes"
	"io"
	"reflect"
	"testing"

	corev1 "k8s.io/api/core/v1"

	"github.com/go-lw/lw/internal/decode"
)

// BenchmarkDecode decodes the initial events of pods of one shape and of mixed ones, in one
// goroutine and without a network. An operation is one pod.
func BenchmarkDecode(b *testing.B) {
	for _, k := range []struct {
		name string
		kind kind
	}{{"one", podKind}, {"mixed", mixedKind}} {
		for name, format := range map[string]Format{"JSON": JSON, "protobuf": Protobuf} {
			const n = 3000
			c, err := newCollection(k.kind, format, n, 0)
			if err != nil {
				b.Fatal(err)
			}
			var stream []byte
			for _, f := range c.frames {
				stream = append(stream, f.bytes...)
			}
			enc := map[Format]decode.Encoding{JSON: decode.JSON, Protobuf: decode.Protobuf}[format]
			b.Run(name+"/"+k.name, func(b *testing.B) {
				d, err := decode.New(reflect.TypeFor[*corev1.Pod](), decode.Options{Workers: -1})
				if err != nil {
					b.Fatal(err)
				}
				d.ReuseFrom(func(string, string) any { return nil })
				b.ReportAllocs()
				b.SetBytes(int64(len(stream) / n))
				for left := b.N; left > 0; {
					if err := d.WatchList(bytes.NewReader(stream), enc, func(decode.Event) error {
						if left--; left == 0 {
							return io.EOF
						}
						return nil
					}); err != nil && err != io.EOF {
						b.Fatal(err)
					}
				}
			})
		}
	}
}
