package decode

import (
	"errors"
	"fmt"
	"io"
	"reflect"
	"runtime"
	"strings"
	"sync/atomic"
	"testing"
	"testing/iotest"
	"testing/synctest"
)

// An error of yield ends everything, even a Read that would wait. The bubble finds what is left.
func TestWorkerPoolEndsWithYield(t *testing.T) {
	enough := errors.New("enough")
	for _, batch := range []int{1, 500, batchBytes} {
		for _, stop := range []int{1, 2, 40, 100} {
			for name, give := range map[string]func() error{
				"error": func() error { return enough }, "EOF": func() error { return io.EOF },
				"panic":  func() error { panic(enough) },
				"goexit": func() error { runtime.Goexit(); return nil },
			} {
				synctest.Test(t, func(t *testing.T) {
					data := stonesOf(100, false, asIs)
					r, w := io.Pipe()
					// After these bytes nothing comes any more.
					go func() { _, _ = io.WriteString(w, data[:strings.LastIndex(data, "]")]) }()
					d := newDecoder[*stone](t, Options{Workers: 2})
					d.batch = batch
					got := record(func(yield func(any) error) error {
						n := 0
						_, err := d.List(r, JSON, func(o Object) error {
							_ = yield(o)
							if n++; n == stop {
								return give()
							}
							return nil
						})
						return err
					})
					want := map[string]story{
						"error": {end: fmt.Sprintf("%T enough", enough)}, "EOF": {end: fmt.Sprintf("%T EOF", io.EOF)},
						"panic": {panic: enough, gone: true}, "goexit": {gone: true},
					}[name]
					if n := len(got.yielded); n != stop || got.end != want.end || got.panic != want.panic || got.gone != want.gone {
						t.Errorf("batches of %d, %s: %d items, then %q, panic %v, gone %v", batch, name, n, got.end, got.panic, got.gone)
					}
				})
			}
		}
	}
}

// A Read that panics does so in the caller's goroutine. The error of a Read comes after the objects
// that were read before it.
func TestWorkerPoolReadFails(t *testing.T) {
	data := stonesOf(100, false, asIs)
	broken := errors.New("broken")
	for name, last := range map[string]io.Reader{"error": iotest.ErrReader(broken), "panic": panicReader{broken}} {
		d := newDecoder[*stone](t, Options{Workers: 2})
		got := record(func(yield func(any) error) error {
			_, err := d.List(io.NopCloser(io.MultiReader(strings.NewReader(data[:strings.LastIndex(data, "]")]), last)), JSON,
				func(o Object) error { return yield(o) })
			return err
		})
		if failed := strings.HasSuffix(got.end, ": broken") && len(got.yielded) == 100; name == "error" && !failed ||
			name == "panic" && got.panic != broken {
			t.Errorf("%s: %d items, then %s, panic %v", name, len(got.yielded), got.end, got.panic)
		}
	}
}

type panicReader struct{ v any }

func (r panicReader) Read([]byte) (int, error) { panic(r.v) }

// An endsOnce is a reader whose end must not be read twice.
type endsOnce struct {
	r     io.Reader
	ended bool
	io.Closer
}

func (e *endsOnce) Read(p []byte) (int, error) {
	if e.ended {
		return 0, errors.New("read behind the end")
	}
	n, err := e.r.Read(p)
	e.ended = err != nil
	return n, err
}

// Objects are yielded while the stream waits. After the initial events there is no pool any more.
func TestWorkerPoolHoldsNothingBack(t *testing.T) {
	const n, end = 20, 10
	for _, watch := range []bool{false, true} {
		for way := range 4 {
			closes, lines := way&1 > 0, way&2 > 0
			// Each part ends with an object.
			var parts []string
			data := stonesOf(n, watch, func(i int, item string) string {
				if lines {
					item = strings.ReplaceAll(item, ":{", ":\n{")
				}
				if i == end && watch {
					item = strings.TrimSuffix(initialEventsEnd, "\n")
				}
				parts = append(parts, item)
				return item
			})
			synctest.Test(t, func(t *testing.T) {
				r, w := io.Pipe()
				yielded := 0
				go func() {
					defer w.Close()
					for i, part := range parts {
						cut := strings.Index(data, part) + len(part)
						_, _ = io.WriteString(w, data[:cut/2])
						_, _ = io.WriteString(w, data[cut/2:cut])
						data = data[cut:]
						if synctest.Wait(); yielded != i+1 {
							t.Errorf("watch %v: %d of %d were yielded", watch, yielded, i+1)
						}
					}
					_, _ = io.WriteString(w, data)
				}()
				var from io.Reader = struct{ io.Reader }{r}
				if closes {
					from = r
				}
				d := newDecoder[*stone](t, Options{Workers: 2})
				var err error
				if watch {
					err = d.WatchList(from, JSON, func(ev Event) error {
						yielded++
						if _, pooled := d.buf.r.(*workerPool); yielded > end+2 && (pooled || cap(d.buf.data) > watchBuffer) {
							t.Errorf("event %d: a pool is there: %v, with %d bytes", yielded, pooled, cap(d.buf.data))
						}
						return nil
					})
				} else {
					_, err = d.List(from, JSON, func(Object) error { yielded++; return nil })
				}
				if yielded != n || err != nil {
					t.Errorf("%d were yielded, error %v", yielded, err)
				}
			})
		}
	}
}

// After a wrong guess the pool reads on alone. What the Read that waits returns comes last.
func TestWorkerPoolGuessesWrong(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r, w := io.Pipe()
		go func() {
			_, _ = io.WriteString(w, strings.ReplaceAll(stonesOf(20, true, asIs), ":{", ":\n{"))
			synctest.Wait()
			w.Close()
		}()
		g := readWatch(newDecoder[*stone](t, Options{Workers: 2}), &endsOnce{r: r, Closer: r}, JSON)
		if len(g.objects) != 20 || g.end != "<nil>" {
			t.Errorf("%d were yielded, then %s", len(g.objects), g.end)
		}
	})
}

// A worker that is lost in what it decodes is replaced.
func TestWorkerPoolLosesHelper(t *testing.T) {
	var left atomic.Bool
	pebbles["leaves once"] = func() {
		if left.CompareAndSwap(false, true) {
			runtime.Goexit()
		}
	}
	defer clear(pebbles)
	data := stonesOf(100, false,
		at(98, func(item string) string { return strings.Replace(item, "stone-98", "leaves once", 1) }))
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

// A pool has workers if there are cores and the list is long. The list's next pages use them again.
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
	for n, more := range map[int]bool{2000: false, 20000: true} {
		d := newDecoder[*stone](t, Options{})
		page := stonesOf(n, false, asIs)
		for _, token := range []string{"x", "y", ""} {
			page := strings.Replace(page, `"items"`, `"metadata":{"continue":"`+token+`"},"items"`, 1)
			g := readList(d, strings.NewReader(page), JSON)
			if kept := len(d.workers) > 0; len(g.objects) != n || g.end != "<nil>" || kept != (more && token != "") {
				t.Errorf("%d bytes, token %q: %d objects, %s; kept: %v", len(page), token, len(g.objects), g.end, kept)
			}
		}
	}
}
