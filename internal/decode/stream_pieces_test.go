package decode

import (
	"bytes"
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"reflect"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"testing/iotest"
	"time"

	"github.com/google/go-cmp/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	carp "k8s.io/apimachinery/pkg/apis/testapigroup/v1"
	"k8s.io/apimachinery/pkg/runtime"

	"github.com/go-lw/lw/internal/verify/leak"
)

// A piecewise is a stream in pieces: cut says how many of the bytes that are left come next.
type piecewise struct {
	data []byte
	cut  func(data []byte) int
}

func (pw *piecewise) Read(p []byte) (int, error) {
	if len(pw.data) == 0 {
		return 0, io.EOF
	}
	n := copy(p, pw.data[:min(len(pw.data), pw.cut(pw.data))])
	pw.data = pw.data[n:]
	return n, nil
}

// Close lets a workerPool yield while a Read waits.
func (pw *piecewise) Close() error { return nil }

// inPieces returns a stream that comes in these pieces.
func inPieces(pieces ...string) io.Reader {
	var all []io.Reader
	for _, piece := range pieces {
		all = append(all, strings.NewReader(piece))
	}
	return io.MultiReader(all...)
}

// before cuts before the next occurrence of s, or behind it if it is next.
func before(s string) func(data []byte) int {
	return func(data []byte) int {
		if n := bytes.Index(data, []byte(s)); n > 0 {
			return n
		}
		return len(s)
	}
}

// behind cuts behind the next occurrence of s.
func behind(s string) func(data []byte) int {
	return func(data []byte) int {
		if n := bytes.Index(data, []byte(s)); n >= 0 {
			return n + len(s)
		}
		return len(data)
	}
}

// cuts are ways in which a server, HTTP, TLS, TCP or a full buffer may have events come in pieces.
var cuts = map[string]func(data []byte) int{
	"all together":              func(data []byte) int { return len(data) },
	"one by one":                behind("\n"),
	"in two, the object first":  before("}\n"),
	"in two, the line first":    before("\n"),
	"in two, the type first":    before(`{"kind"`),
	"in pieces of 100 bytes":    func([]byte) int { return 100 },
	"in pieces of 1 KiB":        func([]byte) int { return 1 << 10 },
	"in pieces of 16 KiB":       func([]byte) int { return 16 << 10 },
	"cut behind each brace":     behind("}"),
	"cut behind two braces":     behind("}}"),
	"cut behind each space":     behind(" "),
	"cut behind each character": func([]byte) int { return 1 },
}

// Parts that may be shared are the same in whatever pieces an event comes.
func TestSharedInPieces(t *testing.T) {
	frames := podFrames(10)
	read := func(cut func([]byte) int) (got []any) {
		d := newDecoder[*pod](t, Options{Share: true})
		ok(t, d.Watch(&piecewise{frames, cut}, JSON, func(e Event) error {
			got = append(got, e.Object.Value)
			return e.Object.Err
		}))
		return got
	}
	want := read(cuts["all together"])
	for how, cut := range cuts {
		checkDiff(t, how, want, read(cut))
	}
}

// Each byte of an event is parsed once, in whatever pieces the event comes, and a second time to
// find its end if a pool decodes it and no line break shows that. What parsers do is counted by
// their ticks: one for each bracket, element and member. A decoder that has seen no event before
// has no guess that would save any.
func TestEventsAreParsedOnce(t *testing.T) {
	frames := podFrames(20)
	for name, newDecoder := range map[string]func(fataler, Options) *Decoder{
		"all": newDecoder[*pod], "a projection": newDecoder[*podPlace], "untyped": newDecoder[*unstructured.Unstructured],
	} {
		var once float64
		for frame := range bytes.Lines(frames) {
			d := newDecoder(t, Options{})
			must[Event](t)(d.decodeLine(frame, 0))
			once += float64(d.p.ticks)
		}
		for _, read := range watches {
			for _, workers := range []int{-1, 2} {
				limit := 1.2 * once
				if workers > 0 {
					limit += once
				}
				var want []any
				for _, how := range slices.Sorted(maps.Keys(cuts)) {
					d := newDecoder(t, Options{Workers: workers})
					// A parser asks at each tickEvery ticks whether to stop.
					var asked atomic.Int64
					d.StopWhen(func() error { asked.Add(1); return nil })
					var got []any
					ok(t, read(d, &piecewise{frames, cuts[how]}, JSON, func(e Event) error {
						got = append(got, e.Object.Value)
						return e.Object.Err
					}))
					if ticks := float64(asked.Load()) * tickEvery; ticks > limit {
						t.Errorf("%s, %d workers, %s: each byte is parsed %.2f times", name, workers, how, ticks/once)
					}
					if want == nil {
						want = got
					}
					if !reflect.DeepEqual(want, got) {
						t.Errorf("%s, %d workers, %s (-want +got):\n%s", name, workers, how, cmp.Diff(want, got))
					}
				}
			}
		}
	}
}

// A podPlace is what a projection takes of a pod.
type podPlace struct {
	Metadata struct {
		Namespace       string `json:"namespace"`
		Name            string `json:"name"`
		UID             string `json:"uid"`
		ResourceVersion string `json:"resourceVersion"`
	} `json:"metadata"`
	Spec struct {
		NodeName string `json:"nodeName"`
	} `json:"spec"`
	Status struct {
		PodIP string `json:"podIP"`
		Phase string `json:"phase"`
	} `json:"status"`
}

func TestLimit(t *testing.T) {
	big := `{"metadata":{"name":"` + strings.Repeat("x", 3000) + `"}}`
	d := newDecoder[*sink](t, Options{Limit: 2000})
	for name, g := range map[string]reading{
		"an item": readList(d, strings.NewReader(`{"kind":"SinkList","items":[`+sinkA+`,`+big+`]}`), JSON),
		"an event": readWatch(d, strings.NewReader(`{"type":"ADDED","object":`+sinkA+`}{"type":"ADDED","object":`+big+`}`),
			JSON),
	} {
		if len(g.objects) != 1 || !strings.HasPrefix(g.end, "more than 2000 bytes in one piece at byte") {
			t.Errorf("%s: %d objects, error %s", name, len(g.objects), g.end)
		}
	}
	many := `{"kind":"SinkList","items":[` + strings.Repeat(sinkA+",", 99) + sinkA + `]}`
	if g := readList(d, strings.NewReader(many), JSON); len(g.objects) != 100 || g.end != "<nil>" {
		t.Errorf("%d small objects, error %s", len(g.objects), g.end)
	}
}

func TestBufferShrinks(t *testing.T) {
	event := func(n int) string {
		return `{"type":"ADDED","object":{"metadata":{"name":"a"},"spec":{"str":"` + strings.Repeat("x", n) + `"}}}`
	}
	d := newDecoder[*sink](t, Options{})
	var caps []int
	err := d.Watch(inPieces(event(4<<20), event(10), event(10)), JSON, func(Event) error {
		caps = append(caps, cap(d.buf.data))
		return nil
	})
	if err != nil || len(caps) != 3 || caps[0] < 4<<20 || caps[2] > maxKeptBuffer {
		t.Errorf("error %v, capacities %v", err, caps)
	}
}

func TestReadErrors(t *testing.T) {
	d := newDecoder[*sink](t, Options{})
	broken := errors.New("broken")
	for n := range len(sinkA) {
		data := `{"kind":"SinkList","items":[` + sinkA[:n]
		_, err := d.List(io.MultiReader(strings.NewReader(data), iotest.ErrReader(broken)), JSON,
			func(Object) error { return nil })
		if want := fmt.Sprintf("cut off at byte %d: broken", len(data)); !errors.Is(err, broken) || err.Error() != want {
			t.Fatalf("got %v, want %s", err, want)
		}
	}
	if g := readWatch(d, strings.NewReader(strings.Repeat(" ", 100)), JSON); g.end != "<nil>" {
		t.Errorf("white space alone: %s", g.end)
	}
	nothing := readFunc(func([]byte) (int, error) { return 0, nil })
	if err := d.Watch(nothing, JSON, func(Event) error { return nil }); !errors.Is(err, io.ErrNoProgress) {
		t.Errorf("a reader that reads nothing: %v", err)
	}
}

// A reading is the outcome of a stream.
type reading struct {
	objects []any
	errs    []string
	end     string
	meta    metav1.ListMeta
}

type reader func(*Decoder, io.Reader, Encoding) reading

func (r *reading) add(o Object) error {
	if o.Err != nil {
		r.errs = append(r.errs, o.Err.Error())
	} else {
		r.objects = append(r.objects, o.Value)
	}
	return nil
}

func readWatch(d *Decoder, r io.Reader, enc Encoding) (g reading) {
	g.end = fmt.Sprint(d.WatchList(r, enc, func(e Event) error {
		if e.Type == "BOOKMARK" {
			return g.add(Object{Value: e.ResourceVersion})
		}
		return g.add(e.Object)
	}))
	return g
}

func readList(d *Decoder, r io.Reader, enc Encoding) (g reading) {
	var err error
	g.meta, err = d.List(r, enc, g.add)
	g.end = fmt.Sprint(err)
	return g
}

// checkPieces checks that the outcome does not depend on the pieces in which data comes, nor on who
// decodes them.
func checkPieces(t *testing.T, d *Decoder, helpers []*Decoder, data []byte, enc Encoding, read reader) reading {
	t.Helper()
	d.opts.Workers = -1
	first := func(r io.Reader) reading {
		// A new source: what the last one has read would matter.
		d.opts.Kinds, d.lastKind = NewKinds(d.root.typ, ""), ""
		return read(d, r, enc)
	}
	whole := first(bytes.NewReader(data))
	check := func(name string, r io.Reader) {
		t.Helper()
		if got := first(r); !reflect.DeepEqual(whole, got) {
			t.Fatalf("%q %s:\n got %v\nwant %v", data, name, got, whole)
		}
	}
	bytewise := func() io.Reader { return iotest.OneByteReader(bytes.NewReader(data)) }
	check("byte by byte", bytewise())
	check("with its end", iotest.DataErrReader(bytes.NewReader(data)))
	d.opts.Workers, d.batch = len(helpers), 1
	for name, r := range map[string]io.Reader{"whole": bytes.NewReader(data), "byte by byte": bytewise(),
		"byte by byte, to be closed": io.NopCloser(bytewise())} {
		d.workers = slices.Clone(helpers)
		check("by a pool, "+name, r)
	}
	return whole
}

// workersOf returns decoders for a pool of d, which would otherwise be made anew for each list.
func workersOf(t fataler, d *Decoder) []*Decoder {
	return []*Decoder{decoderOf(t, d.root.typ, d.opts), decoderOf(t, d.root.typ, d.opts)}
}

// fuzzPieces runs checkPieces; check compares its outcome with what apimachinery decodes.
func fuzzPieces[T any](f *testing.F, enc Encoding, read reader, check func(*testing.T, []byte, reading)) {
	d := newDecoder[T](f, Options{})
	helpers := workersOf(f, d)
	f.Fuzz(func(t *testing.T, data []byte) { check(t, data, checkPieces(t, d, helpers, data, enc, read)) })
}

func unchecked(*testing.T, []byte, reading) {}

const sinkA = `{"kind":"Sink","apiVersion":"v1","metadata":{"name":"a","resourceVersion":"1"},"spec":{"str":"\"\\ é","strs":["[","{"]}}`

func FuzzWatchJSON(f *testing.F) {
	leak.Collect(f, time.Millisecond)
	f.Add([]byte(`{"type":"ADDED","object":` + sinkA + "}\n" + `{"object":` + sinkA + `,"type":"DELETED"}` +
		`{"type":"BOOKMARK","object":{"metadata":{"resourceVersion":"5"}}}`))
	f.Add([]byte(`{"type":"ADDED","object":{"metadata":{"name":1}}}{"type":"ERROR","object":{"kind":"Status","status":"Failure","message":"m"}}`))
	f.Add([]byte(`{"type":"ADDED","object":{"spec":{"i8":300}},"object":` + sinkA + `}{"type":"X"}`))
	f.Add([]byte(` {"type" : "ADDED" , "object" : {} } {"type":"ADDED","object":{"a":"` + "\xff" + `"}}[]`))
	f.Add([]byte("{\"type\":0\" \n"))
	fuzzPieces[*sink](f, JSON, readWatch, func(t *testing.T, data []byte, got reading) {
		// apimachinery decodes every event that was decoded here, to the same object.
		frames := json.NewDecoder(bytes.NewReader(data))
		for _, obj := range got.objects {
			want := &sink{}
			for {
				var raw json.RawMessage
				if err := frames.Decode(&raw); err != nil {
					t.Fatalf("%q: apimachinery has no frame for %+v: %v", data, obj, err)
				}
				var e metav1.WatchEvent
				if err := unmarshal(raw, &e); err != nil {
					t.Fatalf("%q: %v", data, err)
				}
				if e.Type == "BOOKMARK" {
					break
				}
				*want = sink{}
				if e.Object.Raw != nil && unmarshal(e.Object.Raw, want) == nil {
					break
				}
			}
			want.TypeMeta = metav1.TypeMeta{}
			if _, bookmark := obj.(string); !bookmark && !reflect.DeepEqual(want, obj) {
				t.Fatalf("%q (-want +got):\n%s", data, cmp.Diff(fmt.Sprintf("%+v", want), fmt.Sprintf("%+v", obj)))
			}
		}
	})
}

func FuzzListJSON(f *testing.F) {
	leak.Collect(f, time.Millisecond)
	f.Add([]byte(`{"kind":"SinkList","apiVersion":"v1","metadata":{"resourceVersion":"1"},"items":[` + sinkA + `, ` +
		sinkA + `]}`))
	f.Add([]byte(`{"items":[{"spec":1},null,` + sinkA + `],"more":{"a":[1,2]},"kind":"SinkList"} `))
	f.Add([]byte(`{"kind":"Status","message":"m","code":5}`))
	f.Add([]byte(`{"kind":"SinkList","items":null}`))
	f.Add([]byte(`{"kind":"SinkList","items":[1 2]}`))
	fuzzPieces[*sink](f, JSON, readList, func(t *testing.T, data []byte, got reading) {
		if got.end != "<nil>" {
			return
		}
		// apimachinery accepts a list that was read to its end here, with the same objects.
		var want struct {
			Metadata metav1.ListMeta   `json:"metadata"`
			Items    []json.RawMessage `json:"items"`
		}
		if err := unmarshal(data, &want); err != nil {
			t.Fatalf("%q: %v", data, err)
		}
		if len(want.Items) != len(got.objects)+len(got.errs) || !reflect.DeepEqual(want.Metadata, got.meta) {
			t.Fatalf("%q: %d objects and %d errors of %d items, metadata %v, want %v", data, len(got.objects), len(got.errs),
				len(want.Items), got.meta, want.Metadata)
		}
		next := 0
		for _, raw := range want.Items {
			obj := &sink{}
			if string(raw) == "null" || unmarshal(raw, obj) != nil {
				continue
			}
			obj.TypeMeta = metav1.TypeMeta{}
			if !reflect.DeepEqual(obj, got.objects[next]) {
				t.Fatalf("%q, item %d (-want +got):\n%s", data, next, cmp.Diff(fmt.Sprintf("%+v", obj),
					fmt.Sprintf("%+v", got.objects[next])))
			}
			next++
		}
	})
}

func FuzzWatchProtobuf(f *testing.F) {
	leak.Collect(f, time.Millisecond)
	f.Add(append(frameOf(f, "ADDED", protobufOf(f, newCarp(1))), frameOf(f, "BOOKMARK", protobufOf(f, newCarp(2)))...))
	f.Add([]byte{0, 0, 0, 2, 0x0a, 0, 0xff, 0xff, 0xff, 0xff})
	fuzzPieces[*carp.Carp](f, Protobuf, readWatch, func(t *testing.T, data []byte, got reading) {
		if len(got.errs) > 0 {
			// Nobody knows which frames they are from.
			return
		}
		for _, obj := range got.objects {
			n := 4 + int(binary.BigEndian.Uint32(data))
			var e metav1.WatchEvent
			var u runtime.Unknown
			want := &carp.Carp{}
			if err := errors.Join(e.Unmarshal(data[4:n]), u.Unmarshal(e.Object.Raw[4:]), want.Unmarshal(u.Raw)); err != nil &&
				e.Type != "BOOKMARK" {
				t.Fatalf("%q: %v", data, err)
			}
			if _, bookmark := obj.(string); bookmark != (e.Type == "BOOKMARK") || !bookmark && !reflect.DeepEqual(want, obj) {
				t.Fatalf("%q (-want +got):\n%s", data, cmp.Diff(want, obj))
			}
			data = data[n:]
		}
	})
}

func FuzzListProtobuf(f *testing.F) {
	leak.Collect(f, time.Millisecond)
	f.Add(carpList(f, 2))
	f.Add(carpList(f, 0))
	f.Add([]byte("k8s\x00\x0a\x00\x12\xff\xff\xff\xff\xff\xff\xff\xff\x7f"))
	fuzzPieces[*carp.Carp](f, Protobuf, readList, unchecked)
}
