//go:build unix

package decode

import (
	"bytes"
	"io"
	"testing"
)

// BenchmarkWorkerPool decodes a list and the initial events of a stream, of 2000 pods each: by one
// Decoder, and by worker pools of several sizes. An operation is all 2000. The CPU time says what a
// pool costs. The wall time says what it gains, if there are idle cores for all workers and the
// reader.
func BenchmarkWorkerPool(b *testing.B) {
	const n = 2000
	list := []byte(`{"kind":"PodList","apiVersion":"v1","metadata":{"resourceVersion":"1"},"items":[`)
	var stream []byte
	for i := range n {
		if i > 0 {
			list = append(list, ',')
		}
		pod := podJSON(i)
		list = append(list, pod...)
		stream = append(append(append(stream, `{"type":"ADDED","object":`...), pod...), "}\n"...)
	}
	list = append(list, "]}"...)
	for _, bm := range []struct {
		name    string
		workers int
	}{{"alone", -1}, {"1", 1}, {"2", 2}, {"3", 3}} {
		run := func(what string, data []byte, read func(d *Decoder, r io.Reader) error) {
			b.Run(what+"/"+bm.name, func(b *testing.B) {
				d := newDecoder[*pod](b, Options{Workers: bm.workers})
				b.ReportAllocs()
				b.SetBytes(int64(len(data)))
				defer cpuTime(b)()
				for b.Loop() {
					if err := read(d, io.NopCloser(bytes.NewReader(data))); err != nil {
						b.Fatal(err)
					}
				}
			})
		}
		run("list", list, func(d *Decoder, r io.Reader) error {
			_, err := d.List(r, JSON, func(o Object) error { return o.Err })
			return err
		})
		run("stream", stream, func(d *Decoder, r io.Reader) error {
			return d.WatchList(r, JSON, func(ev Event) error { return ev.Object.Err })
		})
	}
}
