package decode

import (
	"fmt"
	"io"
	"reflect"
	"strings"
	"testing"
	"unsafe"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
)

// missesOf reads each of the strings once, and returns how many the pool did not have.
func missesOf(p *stringPool, from, to int) (misses int) {
	for i := from; i < to; i++ {
		if _, _, found := p.get(fmt.Appendf(nil, "string %d", i)); !found {
			misses++
		}
	}
	return misses
}

// A pool becomes as large as what comes again needs, and no larger for what never does.
func TestPoolGrows(t *testing.T) {
	for _, tt := range []struct {
		name      string
		again     int // how many strings come again and again
		fresh     int // how many others come between
		most      int // places at most
		misses    int // of those that come again, at most
		newStream bool
	}{
		{"few", 30, 0, 256, 5, true},
		{"few, and new ones between", 30, 6, 512, 10, true},
		{"an object's", 150, 6, 1024, 30, true},
		{"many", 1000, 0, 2048, 120, false},
	} {
		t.Run(tt.name, func(t *testing.T) {
			p, next, misses := &stringPool{}, 1_000_000, 0
			for range 300 {
				if tt.newStream {
					p.places.beginStream()
				}
				misses = missesOf(p, 0, tt.again)
				missesOf(p, next, next+tt.fresh)
				next += tt.fresh
			}
			if len(p.table) > tt.most || misses > tt.misses {
				t.Errorf("%d places and %d misses, want at most %d and %d", len(p.table), misses, tt.most, tt.misses)
			}
		})
	}
	t.Run("none", func(t *testing.T) {
		p := &stringPool{}
		for i := range 2000 {
			p.places.beginStream()
			missesOf(p, 100*i, 100*i+100)
		}
		if n := len(p.table); n != firstWindows*windowSize {
			t.Errorf("%d places for strings that never come again, want %d", n, firstWindows*windowSize)
		}
	})
	t.Run("a busy stream", func(t *testing.T) {
		p := &stringPool{}
		missesOf(p, 0, 30_000)
		if n := len(p.table); n != mostWindows*windowSize {
			t.Errorf("%d places, want %d", n, mostWindows*windowSize)
		}
	})
}

// Strings that come again are not displaced by those that do not.
func TestPoolDisplacesWhatIsNotUsed(t *testing.T) {
	p, misses := &stringPool{}, 0
	for i := range 100 {
		p.places.beginStream()
		if n := missesOf(p, 0, 20); i > 5 {
			misses += n
		}
		missesOf(p, 1000*i+1000, 1000*i+1015)
	}
	if misses > 60 {
		t.Errorf("%d of 1880 strings were not there", misses)
	}
}

// A pool that has been doubled has every string that it had before.
func TestPoolKeepsWhatItHas(t *testing.T) {
	p := &stringPool{}
	missesOf(p, 0, 30)
	had := map[string]bool{}
	for _, s := range p.table {
		had[s] = true
	}
	for len(p.places.windows) < mostWindows {
		p.table = doubled(&p.places, p.table)
		for s := range had {
			if _, _, found := p.get([]byte(s)); s != "" && !found {
				t.Fatalf("with %d places it does not have %q", len(p.table), s)
			}
		}
	}
}

// kept is the memory that d has while it awaits an event.
func kept(d *Decoder) int {
	const header = int(unsafe.Sizeof(""))
	n := cap(d.buf.data) + cap(d.p.data) + cap(d.p.scratch)
	n += header * (len(d.strings.table) + len(d.boxed.table))
	n += int(unsafe.Sizeof(window{})) * (len(d.strings.places.windows) + len(d.boxed.places.windows))
	return n + cap(d.pairStack)*int(unsafe.Sizeof(pair{})) + cap(d.stringStack)*header
}

// A decoder of a few untyped objects that awaits the next event keeps little, and nothing that it
// read the list into.
func TestIdleDecoderKeepsLittle(t *testing.T) {
	event := func(name string) string {
		return `{"type":"ADDED","object":{"kind":"Sink","apiVersion":"v1","metadata":{"name":"` + name + `","resourceVersion":"1"},"spec":{"str":"` + strings.Repeat("x", 2000) + `"}}}` + "\n"
	}
	end := `{"type":"BOOKMARK","object":{"metadata":{"resourceVersion":"5","annotations":{"k8s.io/initial-events-end":"true"}}}}` + "\n"
	for name, tt := range map[string]struct {
		events string
		watch  func(d *Decoder, r io.Reader, enc Encoding, yield func(Event) error) error
		most   int
	}{
		"a streamed list": {event("a") + end, (*Decoder).WatchList, 6 << 10},
		"of 20 objects":   {strings.Repeat(event("a"), 20) + end, (*Decoder).WatchList, 6 << 10},
		"a watch":         {"", (*Decoder).Watch, 3 << 10},
		"of one event":    {event("a"), (*Decoder).Watch, 8 << 10},
	} {
		d, err := New(reflect.TypeFor[*unstructured.Unstructured](), Options{Workers: -1})
		if err != nil {
			t.Fatal(err)
		}
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
