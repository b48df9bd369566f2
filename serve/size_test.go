package serve

import (
	"context"
	"fmt"
	"runtime"
	"strconv"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"
	"weak"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/go-lw/lw"
	"github.com/go-lw/lw/internal/verify/rig"
	"github.com/go-lw/lw/internal/wire"
	"github.com/go-lw/lw/serve/internal/order"
)

// A plain is an object that says nothing of its size.
type plain struct {
	lw.Meta
	Parts []*string
}

func flags(n int) map[int64]bool {
	all := map[int64]bool{}
	for i := range n {
		all[int64(i)] = true
	}
	return all
}

// What is measured of an object is about what it holds, and what it holds twice counts once.
func TestSizeOf(t *testing.T) {
	const large = 10_000
	text := strings.Repeat("x", large)
	type node struct{ Left, Right *node }
	cycle := &node{}
	cycle.Left, cycle.Right = cycle, cycle
	tree := &node{}
	for range 50 { // a tree of 2^50 leaves, of which each part is there once
		tree = &node{tree, tree}
	}
	shared := []any{text}
	for range 50 {
		shared = []any{shared, shared}
	}
	raw := &Object{}
	rig.OK(t, raw.UnmarshalJSON([]byte(`{"metadata":{"labels":{"a":"`+text+`"}},"b":"`+text+`"}`)))
	type embedded struct{ Text string }
	for name, tt := range map[string]struct {
		obj  any
		want int // so many times large, and a little more
	}{
		"nothing":        {nil, 0},
		"bytes, a label": {raw, 3},
		"protobuf":       {&metav1.PartialObjectMetadata{ObjectMeta: metav1.ObjectMeta{Name: text}}, 1},
		"untyped": {&unstructured.Unstructured{Object: map[string]any{text: []any{text,
			map[string]any{"a": text, "n": int64(1), "f": true}}}}, 3},
		"a string":        {&plain{Meta: lw.Meta{Name: text}}, 1},
		"pointers":        {&plain{Parts: []*string{&text, nil, new(text + "y")}}, 2},
		"a pointer":       {&struct{ A *[large]byte }{new([large]byte)}, 1},
		"one part twice":  {&plain{Parts: []*string{&text, &text}}, 1},
		"a cycle":         {cycle, 0},
		"a tree":          {tree, 0},
		"a tree of lists": {shared, 1},
		"numbers":         {&struct{ N []int64 }{make([]int64, large/8)}, 1},
		"an array":        {&struct{ A [3]string }{[3]string{text, "", text}}, 2},
		"a map":           {&struct{ M map[string]*node }{map[string]*node{text: nil}}, 1},
		"keys of a map":   {&struct{ M map[int64]bool }{flags(large / 8)}, 1},
		"values of a map": {&struct{ M map[int]*string }{map[int]*string{1: &text, 2: new(text + "y")}}, 2},
		"embedded":        {&struct{ embedded }{embedded{text}}, 1},
		"not exported":    {&struct{ a, b any }{text, text}, 0},
		"not encoded": {&struct {
			A *string `json:"-"`
		}{&text}, 0},
		"a time": {&metav1.Time{Time: time.Now()}, 0},
	} {
		got := sizeOf(tt.obj)
		if low := int64(tt.want * large); got < low || got > low+5000 {
			t.Errorf("%s: %d bytes, want %d and a little more", name, got, low)
		}
	}
}

// fill tells a history of versions of one object.
func fill[T lw.Object](h *history, versions int, make func(version string) T) {
	f := &feed[T]{resource: &resource{name: "things"}, history: h, rawProto: new(atomic.Bool)}
	h.begin(order.List[*item]{}, 1, false)
	typ := lw.Added
	for v := 2; v < 2+versions; v++ {
		version := strconv.Itoa(v)
		f.Change(lw.Delta[T]{Type: typ, New: make(version), ResourceVersion: version})
		f.Progress(version)
		typ = lw.Updated
	}
}

// A history that nobody watches holds no more than it may, of whatever the objects are.
func TestHistoryWithoutWatchers(t *testing.T) {
	const limit, size, versions = 1 << 20, 100 << 10, 50
	text := func() string { return strings.Repeat("x", size) }
	for name, fill := range map[string]func(h *history){
		"bytes": func(h *history) {
			fill(h, versions, func(version string) *Object {
				o := &Object{}
				rig.OK(t, o.UnmarshalJSON(fmt.Appendf(nil, `{"metadata":{"name":"a","resourceVersion":%q},"data":%q}`,
					version, text())))
				return o
			})
		},
		"protobuf": func(h *history) {
			fill(h, versions, func(version string) *metav1.PartialObjectMetadata {
				return &metav1.PartialObjectMetadata{ObjectMeta: metav1.ObjectMeta{Name: "a", ResourceVersion: version,
					Annotations: map[string]string{"a": text()}}}
			})
		},
		"a struct": func(h *history) {
			fill(h, versions, func(version string) *plain {
				return &plain{lw.Meta{Name: "a", ResourceVersion: version}, []*string{new(text())}}
			})
		},
	} {
		t.Run(name, func(t *testing.T) {
			h := newHistory(HistoryLimits{Bytes: limit})
			before := rig.Heap()
			fill(h)
			if n := len(h.events); n < limit/size-2 || n > limit/size {
				t.Errorf("%d events of %d bytes", n, size)
			}
			if h.bytes > limit || h.bytes < limit-2*size {
				t.Errorf("%d bytes, the limit is %d", h.bytes, limit)
			}
			if grown := rig.Heap() - before; grown > 2*limit {
				t.Errorf("the history has %.0f bytes, the limit is %d", grown, limit)
			}
			runtime.KeepAlive(h)
		})
	}
}

// What the history counts is what its events, and the items that they have ended, have of
// encodings, whenever these were made; what is dropped counts no more.
func TestHistoryCountsEncodings(t *testing.T) {
	c := newCollection(New(nil), &resource{name: "things", kind: "Thing"}, HistoryLimits{})
	raw := func(version uint64) *item {
		o := &Object{}
		rig.OK(t, o.UnmarshalJSON(fmt.Appendf(nil,
			`{"kind":"Thing","apiVersion":"v1","metadata":{"name":"a","resourceVersion":"%d"}}`, version)))
		return &item{path: "a", version: version, obj: o}
	}
	body := func(i *item, f wire.Format) int64 {
		data, err := c.encoder.body(i, f)
		rig.OK(t, err)
		return int64(len(data))
	}
	want := func(bytes int64) {
		t.Helper()
		rig.Same(t, "bytes", bytes, c.history.bytes)
	}
	partial, cbor := wire.Format{Shape: wire.Partial}, wire.Format{Encoding: wire.CBOR}
	first, second, third := raw(2), raw(3), raw(4)
	var state order.List[*item]
	state.Set("a", first)
	c.history.begin(state, 2, false)
	early := body(first, partial)
	body(first, wire.Format{}) // is what it came as
	want(0)
	one, two := &event{version: 3, old: first, new: second}, &event{version: 4, old: second, new: third, bytes: 7}
	c.history.commit([]*event{one}, 3)
	want(early)
	late := body(first, cbor)
	body(first, cbor)
	body(second, cbor) // is the present one
	want(early + late)
	c.history.commit([]*event{two}, 4)
	want(early + late + body(second, cbor) + 7)
	c.history.grew(two, 11)
	want(early + late + body(second, cbor) + 18)
	c.history.limits.Events = 1
	c.history.commit([]*event{{version: 5, old: third}}, 5)
	want(0)
	body(second, partial)
	want(0)
	c.history.begin(order.List[*item]{}, 6, false)
	body(third, partial)
	want(0)

	// One that is made late may be one too many.
	fourth, fifth := raw(7), raw(8)
	c.history.commit([]*event{{version: 7, new: fourth}}, 7)
	c.history.limits.Events = 10
	c.history.commit([]*event{{version: 8, old: fourth, new: fifth}, {version: 9, old: fifth}}, 9)
	n := body(fourth, cbor)
	c.history.limits.Bytes = 150
	want(n)
	late = body(fifth, partial)
	if len(c.history.events) != 1 || c.history.extent().oldest != 8 {
		t.Errorf("%d events after %d are left", len(c.history.events), c.history.extent().oldest)
	}
	want(late)
}

// A watch that has sent what it read keeps none of it, and reads no more at once than fits.
func TestWatchKeepsNothing(t *testing.T) {
	c, w, _ := testWatcher(t, time.Hour)
	var events []*event
	for v := uint64(3); v < 13; v++ {
		events = append(events, &event{version: v, new: testItem("n/a", v), bytes: maxReadBytes / 4})
	}
	c.history.commit(events, 12)
	r, err := c.history.read(w.place, nil)
	if err != nil || len(r.events) != 4 {
		t.Errorf("%d events at once, want 4: %v", len(r.events), err)
	}
	b := newFrameBatch(c)
	d := &directWatch{watcher: *w}
	if _, err := b.step(d); err != nil || len(b.data()) == 0 {
		t.Fatal(err)
	}
	for _, e := range b.events[:cap(b.events)] {
		if e != nil {
			t.Errorf("the event of version %d is kept", e.version)
		}
	}
	b.buf = make([]byte, 3*maxReadBytes)
	if b.begin(d); b.buf != nil {
		t.Error("a large buffer is kept")
	}
}

// A watch over net/http that waits keeps no event that the history has dropped.
func TestWatchThatWaitsKeepsNothing(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c, w, out := testWatcher(t, time.Hour)
		sent := 0
		out.put = func(frame) error { sent++; return nil }
		out.flush = func() error { return nil }
		ctx, cancel := context.WithCancel(t.Context())
		ended := make(chan error, 1)
		go func() { ended <- w.run(ctx, out, initialEvents{}) }()
		e := &event{version: 3, new: testItem("n/a", 3)}
		kept := weak.Make(e)
		c.history.commit([]*event{e}, 3)
		synctest.Wait()
		c.history.limits.Bytes = 1
		c.history.grew(e, 1) // drops it, and wakes nobody
		runtime.GC()
		if sent == 0 || kept.Value() != nil {
			t.Errorf("%d events are sent, and the first one is kept", sent)
		}
		cancel()
		<-ended
	})
}
