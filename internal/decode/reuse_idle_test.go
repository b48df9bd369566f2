package decode

import (
	"io"
	"strings"
	"testing"
	"unsafe"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
)

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
		left := strings.Repeat(event, 1000)
		r := readFunc(func(p []byte) (int, error) {
			if left == "" {
				return 0, io.EOF
			}
			if !busy {
				p = p[:len(event)]
			}
			n := copy(p, left)
			left = left[n:]
			return n, nil
		})
		n, want := 0, idleBuffer
		if busy {
			want = watchBuffer
		}
		err := d.Watch(r, JSON, func(Event) error {
			if n++; n > 100 && cap(d.buf.data) != want {
				t.Errorf("busy %v: %d bytes of buffer at event %d, want %d", busy, cap(d.buf.data), n, want)
				return io.EOF
			}
			return nil
		})
		if err != nil {
			t.Error(err)
		}
	}
}
