package decode

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"reflect"
	"runtime"
	"strings"
	"testing"
	"testing/iotest"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"
	carp "k8s.io/apimachinery/pkg/apis/testapigroup/v1"
)

// A stone is an object whose decoding can go wrong in ways in which no other object's can.
type stone struct {
	Name string
	Size int
}

var pebbles = map[string]func(){}

func (s *stone) UnmarshalJSON(b []byte) error {
	var plain struct{ Name string }
	if err := json.Unmarshal(b, &plain); err != nil {
		return err
	}
	if f := pebbles[plain.Name]; f != nil {
		f()
	}
	s.Name, s.Size = plain.Name, len(b)
	return nil
}

// A story is the outcome of a stream, in order.
type story struct {
	yielded []any
	end     string
	// What yield or the decoding panicked with.
	panic any
	gone  bool
}

// record records what read yields, in a goroutine of its own, which may end in any way.
func record(read func(yield func(any) error) error) (s story) {
	done := make(chan struct{})
	go func() {
		s.gone = true
		defer close(done)
		defer func() { s.panic = recover() }()
		err := read(func(v any) error {
			s.yielded = append(s.yielded, v)
			return nil
		})
		s.end, s.gone = fmt.Sprintf("%T %v", err, err), false
	}()
	<-done
	return s
}

// tail is what follows the items.
const tail = `, "metadata":{"resourceVersion":"7"}}`

// stonesOf returns a list or a stream of n stones, as a server sends it. f may change each.
func stonesOf(n int, watch bool, f func(i int, item string) string) string {
	items := make([]string, n)
	for i := range n {
		item := fmt.Sprintf(`{"kind":"Stone","apiVersion":"v1","metadata":{},"name":"stone-%d","filler":"%s"}`, i, strings.Repeat("x", i*37%100))
		if watch {
			item = `{"type":"ADDED","object":` + item + `}`
		}
		items[i] = f(i, item)
	}
	if watch {
		return strings.Join(items, "\n") + "\n"
	}
	return `{"kind":"StoneList","items":[` + strings.Join(items, ",") + "]" + tail
}

func asIs(_ int, item string) string { return item }

// at returns a function that replaces item i by what f makes of it.
func at(i int, f func(item string) string) func(int, string) string {
	return func(j int, item string) string {
		if i == j {
			return f(item)
		}
		return item
	}
}

func as1(s string) func(string) string { return func(string) string { return s } }

// The outcome with a pool is that of a single Decoder, whatever happens, for every size of a batch
// and however the bytes come.
func TestWorkerPool(t *testing.T) {
	var once int
	pebbles["panics"] = func() { panic("a pebble") }
	pebbles["leaves"] = func() { runtime.Goexit() }
	pebbles["panics once"] = func() {
		if once++; once%2 == 1 {
			panic("once")
		}
	}
	defer clear(pebbles)
	named := func(name string) func(string) string {
		return func(item string) string { return strings.Replace(item, "stone-50", name, 1) }
	}
	same := func(item string) string { return item }
	inner := `{"kind":"Stone","apiVersion":"v1","metadata":{},"name":"inner"}`
	inner = `"a":[` + inner + "," + inner + "  , " + inner + "],"
	for name, f := range map[string]func(string) string{
		"nothing":          same,
		"does not fit":     func(item string) string { return strings.Replace(item, `"name":"stone-50"`, `"name":7`, 1) },
		"no JSON":          func(item string) string { return strings.Replace(item, `"name"`, `"na`+"\n"+`me"`, 1) },
		"brackets differ":  func(item string) string { return strings.TrimSuffix(item, "}") + "]" },
		"no separator":     func(item string) string { return item + " " + item },
		"a separator more": func(item string) string { return item + "," },
		"no object":        as1("7"),
		"null":             as1("null"),
		"nothing at all":   as1(""),
		"large":            func(item string) string { return strings.Replace(item, "stone-50", strings.Repeat("y", 2500), 1) },
		"too large":        func(item string) string { return strings.Replace(item, "stone-50", strings.Repeat("y", 5000), 1) },
		"many lines":       func(item string) string { return strings.ReplaceAll(item, ",", ",\r\n") },
		"a broken string":  func(item string) string { return strings.Replace(item, `"name"`, "\"na \n \n\tme\"", 1) },
		"spaces":           func(item string) string { return "\n  \t" + item + "\r\n  " },
		"looks like items": func(item string) string { return strings.Replace(item, `"filler"`, inner+`"filler"`, 1) },
		"too large in those": func(item string) string {
			return strings.Replace(item, `"filler"`, inner+`"large":"`+strings.Repeat("y", 5000)+`","filler"`, 1)
		},
		"a lone object":   as1(`{"object":{"name":"x"}}`),
		"an error":        as1(`{"type":"ERROR","object":{"kind":"Status","status":"Failure","code":410,"message":"too old"}}`),
		"a bare status":   as1(`{"kind":"Status","status":"Failure","code":500,"message":"internal"}`),
		"a bookmark":      as1(`{"type":"BOOKMARK","object":{"metadata":{"resourceVersion":"5"}}}`),
		"the end":         as1(`{"type":"BOOKMARK","object":{"metadata":{"resourceVersion":"5","annotations":{"k8s.io/initial-events-end":"true"}}}}`),
		"an unknown type": as1(`{"type":"X","object":{}}`),
		"panic":           named("panics"),
		"goexit":          named("leaves"),
		"panic once":      named("panics once"),
	} {
		for way := range 6 {
			watch, cut, batches := way&1 > 0, []int{0, 1, len(tail)}[way/2], []int{1}
			switch {
			case cut == 0:
				batches = []int{1, 1000, batchBytes}
			case !strings.HasPrefix(name, "looks"):
				// The end is far from the piece that differs.
				continue
			}
			data := strings.TrimSpace(stonesOf(100, watch, at(50, f)))
			data = data[:len(data)-cut]
			read := func(workers, batch int, r io.Reader) story {
				d := newDecoder[*stone](t, Options{Workers: workers, Limit: 4000})
				d.batch = batch
				once = 0
				return record(func(yield func(any) error) error {
					if watch {
						return d.WatchList(r, JSON, func(ev Event) error {
							// More depends on what has been read.
							ev.More = false
							return yield(ev)
						})
					}
					meta, err := d.List(r, JSON, func(o Object) error { return yield(o) })
					if err == nil {
						err = yield(meta)
					}
					return err
				})
			}
			want := read(-1, 0, strings.NewReader(data))
			for _, batch := range batches {
				for how, r := range map[string]io.Reader{
					"whole": strings.NewReader(data), "half": iotest.HalfReader(strings.NewReader(data)), "once": struct{ io.Reader }{&endsOnce{r: strings.NewReader(data)}},
					"bytes":  io.NopCloser(iotest.OneByteReader(strings.NewReader(data))),
					"closed": io.NopCloser(iotest.HalfReader(strings.NewReader(data))),
					"ended":  io.NopCloser(&endsOnce{r: iotest.DataErrReader(strings.NewReader(data))}),
				} {
					if got := read(3, batch, r); !reflect.DeepEqual(want, got) {
						t.Errorf("%s, watch %v, cut by %d, batches of %d, %s:\n got %d things, then %s, panic %v, gone %v\nwant %d, then %s, panic %v, gone %v",
							name, watch, cut, batch, how, len(got.yielded), got.end, got.panic, got.gone, len(want.yielded), want.end, want.panic, want.gone)
					}
				}
			}
		}
	}
}

func TestWorkerPoolProtobuf(t *testing.T) {
	const n = 100
	frames := carpFrames(t, "ADDED", n)
	list, other := carpList(t, n), frameOf(t, "ADDED", protobufOf(t, &carp.CarpList{}))
	for name, tt := range map[string]struct {
		read  reader
		data  []byte
		least int
	}{
		"a list":       {readList, list, n / 3},
		"cut":          {readList, list[:len(list)/2], n / 3},
		"a stream":     {readWatch, frames, n - 1},
		"cut off":      {readWatch, frames[:len(frames)-9], n - 1},
		"another kind": {readWatch, append(bytes.Clone(frames), other...), n - 1},
	} {
		alone := tt.read(newDecoder[*carp.Carp](t, Options{Workers: -1}), bytes.NewReader(tt.data), Protobuf)
		pooled := tt.read(newDecoder[*carp.Carp](t, Options{Workers: 3}), bytes.NewReader(tt.data), Protobuf)
		if !reflect.DeepEqual(alone, pooled) || len(pooled.objects) < tt.least {
			t.Errorf("%s: %s", name, cmp.Diff(alone, pooled, cmp.AllowUnexported(reading{})))
		}
	}
}

// The first event after the end of the initial ones is yielded behind all of those.
func TestWorkerPoolInOrderAfterTheEnd(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		pebbles["slow"] = func() { time.Sleep(time.Second) }
		defer clear(pebbles)
		r, w := io.Pipe()
		go func() {
			defer w.Close()
			_, _ = io.WriteString(w, `{"type":"ADDED","object":{"name":"a"}}
{"type":"BOOKMARK","object":{"metadata":{"resourceVersion":"5","annotations":{"k8s.io/initial-events-end":"true"}}}}
{"type":"ADDED","object":{"name":"slow"}}
`)
			synctest.Wait()
			_, _ = io.WriteString(w, `{"type":"ADDED","object":{"name":"b"}}`)
		}()
		d := newDecoder[*stone](t, Options{Workers: 2})
		d.batch = 1
		var yielded []string
		err := d.WatchList(r, JSON, func(ev Event) error {
			if ev.Type != "BOOKMARK" {
				yielded = append(yielded, ev.Object.Value.(*stone).Name)
			}
			return nil
		})
		if diff := cmp.Diff([]string{"a", "slow", "b"}, yielded); err != nil || diff != "" {
			t.Errorf("error %v (-want +got):\n%s", err, diff)
		}
	})
}
