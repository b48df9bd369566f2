package decode

import (
	"errors"
	"fmt"
	"io"
	"runtime"
	"strings"
	"testing"
	"testing/iotest"
	"testing/synctest"
)

// When yield has had enough, all ends: also a Read that would wait forever. The bubble finds what is left.
func TestCrewEndsWithYield(t *testing.T) {
	enough := errors.New("enough")
	for _, batch := range []int{1, 500, batchBytes} {
		for _, stop := range []int{1, 2, 40, 100} {
			for name, give := range map[string]func() error{
				"error": func() error { return enough }, "EOF": func() error { return io.EOF }, "panic": func() error { panic(enough) },
				"goexit": func() error { runtime.Goexit(); return nil },
			} {
				synctest.Test(t, func(t *testing.T) {
					data := stonesOf(100, false, func(_ int, item string) string { return item })
					r, w := io.Pipe()
					go func() { _, _ = io.WriteString(w, data[:strings.LastIndex(data, "]")]) }() // and then no more
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
						"error": {end: fmt.Sprintf("%T enough", enough)}, "EOF": {end: fmt.Sprintf("%T EOF", io.EOF)}, "panic": {panic: enough, gone: true}, "goexit": {gone: true},
					}[name]
					if n := len(got.told); n != stop || got.end != want.end || got.panic != want.panic || got.gone != want.gone {
						t.Errorf("batches of %d, %s: %d items, then %q, panic %v, gone %v", batch, name, n, got.end, got.panic, got.gone)
					}
				})
			}
		}
	}
}

// A Read that panics does so in the caller's goroutine, and one that fails comes after what was read before.
func TestCrewReadFails(t *testing.T) {
	data := stonesOf(100, false, func(_ int, item string) string { return item })
	broken := errors.New("broken")
	for name, last := range map[string]io.Reader{"error": iotest.ErrReader(broken), "panic": panicReader{broken}} {
		d := newDecoder[*stone](t, Options{Workers: 2})
		got := record(func(yield func(any) error) error {
			_, err := d.List(io.NopCloser(io.MultiReader(strings.NewReader(data[:strings.LastIndex(data, "]")]), last)), JSON, func(o Object) error { return yield(o) })
			return err
		})
		if failed := strings.HasSuffix(got.end, ": broken") && len(got.told) == 100; name == "error" && !failed || name == "panic" && got.panic != broken {
			t.Errorf("%s: %d items, then %s, panic %v", name, len(got.told), got.end, got.panic)
		}
	}
}

type panicReader struct{ v any }

func (r panicReader) Read([]byte) (int, error) { panic(r.v) }

// endsOnce has an end that nobody may read again.
type endsOnce struct {
	r     io.Reader
	ended bool
	io.Closer
}

func (r *endsOnce) Read(p []byte) (int, error) {
	if r.ended {
		return 0, errors.New("read behind the end")
	}
	n, err := r.r.Read(p)
	r.ended = err != nil
	return n, err
}

// What has arrived is told while the stream waits, and after the initial events there is no crew.
func TestCrewHoldsNothingBack(t *testing.T) {
	const n, end = 20, 10
	for _, watch := range []bool{false, true} {
		for way := range 4 {
			closes, lines := way&1 > 0, way&2 > 0
			var parts []string // each ends with an object
			data := stonesOf(n, watch, func(i int, item string) string {
				if lines {
					item = strings.ReplaceAll(item, ":{", ":\n{")
				}
				if i == end && watch {
					item = `{"type":"BOOKMARK","object":{"metadata":{"resourceVersion":"5","annotations":{"k8s.io/initial-events-end":"true"}}}}`
				}
				parts = append(parts, item)
				return item
			})
			synctest.Test(t, func(t *testing.T) {
				r, w := io.Pipe()
				told := 0
				go func() {
					defer w.Close()
					for i, part := range parts {
						cut := strings.Index(data, part) + len(part)
						_, _ = io.WriteString(w, data[:cut/2])
						_, _ = io.WriteString(w, data[cut/2:cut])
						data = data[cut:]
						if synctest.Wait(); told != i+1 {
							t.Errorf("watch %v: %d of %d were told", watch, told, i+1)
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
						told++
						if _, pooled := d.buf.r.(*workerPool); told > end+2 && (pooled || cap(d.buf.data) > minBuffer) {
							t.Errorf("event %d: a crew is there: %v, with %d bytes", told, pooled, cap(d.buf.data))
						}
						return nil
					})
				} else {
					_, err = d.List(from, JSON, func(Object) error { told++; return nil })
				}
				if told != n || err != nil {
					t.Errorf("%d were told, error %v", told, err)
				}
			})
		}
	}
}

// What a Read that waits returns in the end follows what is read alone meanwhile.
func TestCrewGuessesWrong(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r, w := io.Pipe()
		told := 0
		go func() {
			data := strings.ReplaceAll(stonesOf(20, true, func(_ int, item string) string { return item }), ":{", ":\n{")
			_, _ = io.WriteString(w, data)
			synctest.Wait()
			w.Close()
		}()
		d := newDecoder[*stone](t, Options{Workers: 2})
		err := d.WatchList(&endsOnce{r: r, Closer: r}, JSON, func(Event) error { told++; return nil })
		if told != 20 || err != nil {
			t.Errorf("%d were told, error %v", told, err)
		}
	})
}
