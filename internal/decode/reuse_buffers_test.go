package decode

import (
	"bytes"
	"io"
	"reflect"
	"runtime"
	"strings"
	"testing"
	"unsafe"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	carp "k8s.io/apimachinery/pkg/apis/testapigroup/v1"
)

// The memory that a large object needed is given back, because a Decoder lives as long as its
// source.
func TestWorkingMemoryIsGivenBack(t *testing.T) {
	const n = 1 << 17
	many := func(one string) string { return manyOf(n, one) }
	pairs := func(value string) string { return membersOf(n/4, value) }
	spec := func(spec string) string {
		return `{"kind":"Sink","apiVersion":"v1","metadata":{"name":"a"},"spec":` + spec + `}`
	}
	big := newCarp(1)
	for range n {
		big.Finalizers = append(big.Finalizers, "some finalizer")
	}
	big.Labels["large"] = strings.Repeat("x", 16*n)
	sinks, carps, untyped := reflect.TypeFor[*sink](), reflect.TypeFor[*carp.Carp](), reflect.TypeFor[*unstructured.Unstructured]()
	for name, tt := range map[string]struct {
		typ  reflect.Type
		data string
		wire *carp.Carp
	}{
		"untyped elements": {untyped, spec(`[` + many("0") + `]`), nil}, "untyped members": {untyped, spec(`{` + pairs("{}") + `}`), nil},
		"strings": {sinks, spec(`{"strs":[` + many(`"a"`) + `]}`), nil}, "structs": {sinks, spec(`{"list":[` + many(`{}`)[:3*n/16-1] + `]}`), nil}, "a map": {sinks, spec(`{"m":{` + pairs(`"a"`) + `}}`), nil},
		"a string": {sinks, spec(`{"str":"` + strings.Repeat("xxxxxxxx", n) + `\n"}`), nil}, "no more than a large one": {sinks, spec(`{"unknown":"` + strings.Repeat("xxxxxxxx", n) + `"}`), nil},
		"structs by the thousand": {sinks, spec(`{"list":[` + many(`{}`)[:3*1000-1] + `],"structs":[` + many(`{}`)[:3*1000-1] + `],"self":{"a":{"list":[` + many(`{}`)[:3*1000-1] + `]}}}`), nil},
		"protobuf":                {carps, "", big},
	} {
		if tt.typ == sinks && !validJSON(tt.data) {
			t.Fatalf("%s: the test's own data is no JSON", name)
		}
		for _, live := range []bool{false, true} {
			d := decoderOf(t, tt.typ, Options{Workers: -1})
			small, large, enc := spec(`{"str":"x\n","strs":["a"],"m":{"a":"b"},"list":[{}]}`), tt.data, JSON
			frame := func(data string) io.Reader { return strings.NewReader(`{"type":"ADDED","object":` + data + "}\n") }
			if tt.wire != nil {
				enc, small, large = Protobuf, string(protobufOf(t, newCarp(1))), string(protobufOf(t, tt.wire))
				frame = func(data string) io.Reader { return bytes.NewReader(frameOf(t, "ADDED", []byte(data))) }
			}
			// after is called when data has been read, and while the next event is awaited if live.
			read := func(data string, after func()) {
				rs := []io.Reader{frame(data)}
				if live {
					// The last event comes together with the start of a small one. Both are in one
					// piece of memory.
					rs = append(rs, frame(small), readFunc(func([]byte) (int, error) { after(); return 0, io.EOF }))
				}
				if err := d.Watch(io.MultiReader(rs...), enc, func(Event) error { return nil }); err != nil {
					t.Error(err)
				}
				if !live {
					after()
				}
			}
			var before uint64
			for range 2 {
				read(small, func() {})
			}
			read(small, func() { before = heapNow() })
			read(large, func() {
				if after := heapNow(); after > before+1<<20 {
					t.Errorf("%s, live %v: %d bytes are kept after an object of %d", name, live, after-before, len(large))
				}
			})
			runtime.KeepAlive(d)
			runtime.KeepAlive(large)
		}
	}
}

// The items behind a large one in a list do not keep its bytes alive.
func TestListBufferIsGivenBack(t *testing.T) {
	large := `{"metadata":{"name":"` + strings.Repeat("x", 4<<20) + `"}}`
	list := `{"kind":"SinkList","items":[` + large + `],"metadata":{"resourceVersion":"1"}}`
	d := newDecoder[*sink](t, Options{Workers: -1})
	if _, err := d.List(strings.NewReader(list), JSON, func(Object) error { return nil }); err != nil || d.p.data != nil || d.buf.data != nil {
		t.Errorf("error %v; %d bytes of the parser and %d of the buffer are kept", err, cap(d.p.data), cap(d.buf.data))
	}
}

type readFunc func([]byte) (int, error)

func (f readFunc) Read(p []byte) (int, error) { return f(p) }

func validJSON(s string) bool { p := &parser{}; p.reset([]byte(s), 0); return p.wholeValue() == nil }

const initialEventsEnd = `{"type":"BOOKMARK","object":{"metadata":{"resourceVersion":"5","annotations":{"k8s.io/initial-events-end":"true"}}}}` + "\n"

// kept is the memory that d has while it awaits an event.
func kept(d *Decoder) int {
	const header = int(unsafe.Sizeof(""))
	n := cap(d.buf.data) + cap(d.p.data) + cap(d.p.scratch)
	n += header * (len(d.strings.table) + len(d.boxed.table))
	for _, f := range []*stringField{&d.kinds[0], &d.kinds[1], &d.eventTypes} {
		if f.seen != nil {
			n += int(unsafe.Sizeof(*f.seen))
		}
	}
	n += d.patternBytes + d.templateBytes + 8*cap(d.maps.seen)
	return n + cap(d.pairStack)*int(unsafe.Sizeof(pair{})) + cap(d.stringStack)*header
}

// A decoder of a few untyped objects that awaits the next event keeps little, and nothing that it
// read the list into.
func TestIdleDecoderKeepsLittle(t *testing.T) {
	event := func(name string) string {
		return `{"type":"ADDED","object":{"kind":"Sink","apiVersion":"v1","metadata":{"name":"` + name + `","resourceVersion":"1"},"spec":{"str":"` + strings.Repeat("x", 2000) + `"}}}` + "\n"
	}
	end := initialEventsEnd
	for name, tt := range map[string]struct {
		events string
		watch  func(d *Decoder, r io.Reader, enc Encoding, yield func(Event) error) error
		most   int
	}{
		"a streamed list": {event("a") + end, (*Decoder).WatchList, idleBuffer + 100},
		"of 20 objects":   {strings.Repeat(event("a"), 20) + end, (*Decoder).WatchList, idleBuffer + 100},
		"a watch":         {"", (*Decoder).Watch, idleBuffer + 100},
		"of one event":    {event("a"), (*Decoder).Watch, 8 << 10},
	} {
		d := newDecoder[*unstructured.Unstructured](t, Options{Workers: -1})
		awaited := false
		r := io.MultiReader(strings.NewReader(tt.events), readFunc(func([]byte) (int, error) {
			awaited = true
			if n := kept(d); n > tt.most {
				t.Errorf("%s: %d bytes are kept, %d of them in the buffer and %d in the parser; want at most %d", name, n, cap(d.buf.data), cap(d.p.data), tt.most)
			}
			return 0, io.EOF
		}))
		if err := tt.watch(d, r, JSON, func(Event) error { return nil }); err != nil || !awaited {
			t.Errorf("%s: error %v, awaited %v", name, err, awaited)
		}
	}
}

// A watch that waits has no templates, and the objects that come then make others.
func TestIdleDecoderKeepsNoTemplates(t *testing.T) {
	d := newTemplater[*sink](t, Options{})
	event := append(append([]byte(`{"type":"ADDED","object":`), spec(bigSpec)...), "}\n"...)
	made := func() bool { return d.templates != nil && specOf(t, d).made > 0 }
	r := io.MultiReader(strings.NewReader(strings.Repeat(string(event), 3)+initialEventsEnd), readFunc(func([]byte) (int, error) {
		if d.templates != nil || d.templateBytes != 0 {
			t.Errorf("templates of %d bytes are kept", d.templateBytes)
		}
		return 0, io.EOF
	}))
	n := 0
	if err := d.WatchList(r, JSON, func(ev Event) error {
		if n++; ev.Type == "ADDED" && !made() {
			t.Error("no template is made of initial events")
		}
		return nil
	}); err != nil || n != 4 {
		t.Errorf("%d events, error %v", n, err)
	}
	for range 2 {
		checkSame(t, d, spec(bigSpec))
	}
	if specOf(t, d).credit == 0 {
		t.Error("no template is made again")
	}
}

// The buffer of a watch grows if more comes than it has room for, so that events that come together
// are seen together, and not if events come one by one.
func TestWatchBufferGrows(t *testing.T) {
	event := `{"type":"ADDED","object":` + sinkA + "}\n"
	for _, busy := range []bool{false, true} {
		d := newDecoder[*sink](t, Options{})
		n, want, cut := 0, idleBuffer, cuts["one by one"]
		if busy {
			want, cut = watchBuffer, cuts["all together"]
		}
		ok(t, d.Watch(&piecewise{[]byte(strings.Repeat(event, 1000)), cut}, JSON, func(Event) error {
			if n++; n > 100 && cap(d.buf.data) != want {
				t.Errorf("busy %v: %d bytes of buffer at event %d, want %d", busy, cap(d.buf.data), n, want)
				return io.EOF
			}
			return nil
		}))
	}
}
