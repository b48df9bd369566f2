package decode

import (
	"fmt"
	"io"
	"reflect"
	"runtime"
	"strings"
	"sync/atomic"
	"testing"
)

// A worker that is lost in what it decodes is replaced.
func TestWorkerPoolLosesHelper(t *testing.T) {
	var left atomic.Bool
	pebbles["leaves once"] = func() {
		if left.CompareAndSwap(false, true) {
			runtime.Goexit()
		}
	}
	defer clear(pebbles)
	data := stonesOf(100, false, at(98, func(item string) string { return strings.Replace(item, "stone-98", "leaves once", 1) }))
	d := newDecoder[*stone](t, Options{Workers: 1})
	d.batch = 1
	if got := readList(d, strings.NewReader(data), JSON); len(got.objects) != 100 || got.end != "<nil>" || !left.Load() {
		t.Errorf("%d objects, then %s", len(got.objects), got.end)
	}
}

// However slow yield is, the pool reads a bounded part of the stream ahead of it.
func TestWorkerPoolIsBounded(t *testing.T) {
	const workers, size = 4, 1000
	for _, tt := range []struct{ n, item, most int }{
		{2000, 600, (2*workers+2)*(size+600) + 2*listBuffer},
		// The buffer is twice as large as an item.
		{20, 2 << 20, maxAhead + 8<<20},
	} {
		r := &countingReader{r: strings.NewReader(stonesOf(tt.n, false, func(_ int, item string) string {
			return strings.Replace(item, "stone", strings.Repeat("y", tt.item-len(item)), 1)
		}))}
		d := newDecoder[*stone](t, Options{Workers: workers})
		d.batch = size
		yielded := 0
		_, err := d.List(io.NopCloser(r), JSON, func(o Object) error {
			yielded += o.Value.(*stone).Size + len(",")
			if ahead := int(r.n.Load()) - yielded; ahead > tt.most {
				return fmt.Errorf("%d bytes are read ahead, want at most %d", ahead, tt.most)
			}
			return nil
		})
		if err != nil {
			t.Error(err)
		}
	}
}

// A piece that is larger than all that may be queued is decoded when its turn comes.
func TestWorkerPoolLargePiece(t *testing.T) {
	large := func(item string) string { return strings.Replace(item, "stone", strings.Repeat("y", maxAhead), 1) }
	data := stonesOf(100, false, at(50, large))
	alone := readList(newDecoder[*stone](t, Options{Workers: -1}), strings.NewReader(data), JSON)
	pooled := readList(newDecoder[*stone](t, Options{Workers: 2}), strings.NewReader(data), JSON)
	if !reflect.DeepEqual(alone, pooled) || len(pooled.objects) != 100 {
		t.Errorf("%d objects, then %s; alone %d, then %s", len(pooled.objects), pooled.end, len(alone.objects), alone.end)
	}
}

type countingReader struct {
	r io.Reader
	n atomic.Int64
}

func (r *countingReader) Read(p []byte) (int, error) {
	n, err := r.r.Read(p)
	r.n.Add(int64(n))
	return n, err
}

// A pool has workers if there are cores for them and the list is long. The list's next pages use
// them again.
func TestWorkerPoolSize(t *testing.T) {
	defer runtime.GOMAXPROCS(runtime.GOMAXPROCS(0))
	for procs, want := range map[int]int{1: 0, 2: 0, 3: 0, 4: 2, 6: 3, 8: 4, 64: 4} {
		runtime.GOMAXPROCS(procs)
		d := newDecoder[*stone](t, Options{})
		got := 0
		if c := newWorkerPool(d); c != nil {
			got = cap(c.idle)
		}
		if got != want {
			t.Errorf("%d cores: %d helpers, want %d", procs, got, want)
		}
	}
	runtime.GOMAXPROCS(8)
	same := func(_ int, item string) string { return item }
	for n, more := range map[int]bool{2000: false, 20000: true} {
		d := newDecoder[*stone](t, Options{})
		page := stonesOf(n, false, same)
		for _, token := range []string{"x", "y", ""} {
			page := strings.Replace(page, `"items"`, `"metadata":{"continue":"`+token+`"},"items"`, 1)
			yielded := 0
			_, err := d.List(strings.NewReader(page), JSON, func(Object) error { yielded++; return nil })
			if kept := len(d.workers) > 0; yielded != n || err != nil || kept != (more && token != "") {
				t.Errorf("%d bytes, token %q: %d objects, error %v, %d workers are kept", len(page), token, yielded, err, len(d.workers))
			}
		}
	}
}
