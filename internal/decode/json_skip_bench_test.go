//go:build unix

package decode

import "testing"

// BenchmarkSkip checks the syntax of pods of which nothing is decoded: by the parser of any value,
// by the one for what servers write, and with the pod before as the pattern.
func BenchmarkSkip(b *testing.B) {
	var pods [][]byte
	size := 0
	for i := range 500 {
		pods = append(pods, podJSON(i))
		size += len(pods[i])
	}
	run := func(name string, skip func(*Decoder) error) {
		b.Run(name, func(b *testing.B) {
			b.SetBytes(int64(size / len(pods)))
			defer cpuTime(b)()
			var d Decoder
			for i := 0; b.Loop(); i++ {
				d.p.reset(pods[i%len(pods)], 0)
				if err := skip(&d); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
	run("any", func(d *Decoder) error { return d.p.skipAny() })
	run("compact", func(d *Decoder) error { return d.p.skip() })
	var s skipPattern
	run("pattern", func(d *Decoder) error { return d.skipLike(&s) })
}
