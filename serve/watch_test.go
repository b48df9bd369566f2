package serve

import (
	"bytes"
	"compress/gzip"
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/go-lw/lw"
	"github.com/go-lw/lw/internal/listopts"
	"github.com/go-lw/lw/internal/verify/rig"
	"github.com/go-lw/lw/internal/wire"
	"github.com/go-lw/lw/serve/internal/order"
)

// testWatcher returns a watch of a collection without objects, and its stream, which takes all.
func testWatcher(t *testing.T, bookmarkEvery time.Duration) (*collection, *watcher, *stream) {
	t.Helper()
	r := &resource{name: "things", kind: "Thing", version: "v1"}
	c := newCollection(New(&Options{BookmarkEvery: bookmarkEvery}), r, HistoryLimits{})
	c.history.begin(order.List[*item]{}, 1, false)
	now := time.Now()
	w := &watcher{
		collection: c, format: format{codec: c.encoder.codecs[0]}, bookmarks: true, deadline: now.Add(time.Hour),
		filter: filterOf(t, r, "", metav1.ListOptions{}), place: opened(t, c.history, 1),
	}
	w.bookmark = w.nextBookmark(now)
	return c, w, &stream{collection: c, format: w.format, put: func(frame) error { return nil }}
}

// events collects the events that a stream gets.
func (s *stream) events() *[]string {
	sent := new([]string)
	s.put = func(f frame) error { *sent = append(*sent, string(f.event())); return nil }
	return sent
}

// step has a watch send what there is.
func (w *watcher) stepped(t *testing.T, out *stream) reading {
	t.Helper()
	return rig.Must[reading](t)(w.step(out, nil))
}

// A watch that must end, because the history has begun anew, sleeps until then, also if a bookmark
// is due before. It used to be awake until it ended.
func TestStaleWatchSleeps(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		for range 20 { // each ends at another time, most of them after their bookmark is due
			c, w, out := testWatcher(t, time.Second)
			c.history.begin(order.List[*item]{}, 5, false)
			for r, err := w.step(out, nil); err == nil; r, err = w.step(out, nil) {
				sleep := time.Until(w.wake())
				if !r.stale || sleep <= 0 {
					t.Fatalf("it does not end, and is to wake up in %v: %+v", sleep, r)
				}
				time.Sleep(sleep)
			}
		}
	})
}

// A watch that must end, because the history has begun anew, does not hold up the end of its
// server: it is told of a 410 as soon as the others end. It used to wait for its turn, up to five
// seconds.
func TestStaleWatchEndsWithItsServer(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		for range 20 { // each would end at another time
			for _, within := range []time.Duration{0, time.Second} {
				c, w, out := testWatcher(t, time.Hour)
				c.history.begin(order.List[*item]{}, 5, false)
				w.stepped(t, out)
				c.history.close(within)
				closed := time.Now()
				_, err := w.step(out, nil)
				for err == nil {
					time.Sleep(time.Until(w.wake()))
					_, err = w.step(out, nil)
				}
				if took := time.Since(closed); took > within || !apierrors.IsResourceExpired(err) {
					t.Errorf("it has ended %v after its server, want %v at most: %v", took, within, err)
				}
			}
		}
	})
}

func testItem(path string, version uint64) *item {
	return &item{path: path, version: version, obj: &Object{data: []byte(`{"metadata":{}}`)}}
}

// commitItems commits items at one version.
func commitItems(c *collection, version uint64, paths ...string) {
	var events []*event
	for _, path := range paths {
		events = append(events, &event{version: version, new: testItem(path, version)})
	}
	c.history.commit(events, version)
}

// A bookmark follows the events that it is after, also if it is due before they are sent.
func TestBookmarkFollowsEvents(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c, w, out := testWatcher(t, time.Second)
		sent := out.events()
		time.Sleep(time.Second)
		var paths []string
		for i := range maxRead + 1 { // more than a step sends
			paths = append(paths, fmt.Sprintf("n/%d", i))
		}
		commitItems(c, 2, paths...)
		for w.stepped(t, out).wait == nil {
		}
		rig.Same(t, "events that were sent, and a bookmark", len(paths)+1, len(*sent))
		for i, ev := range *sent {
			if strings.Contains(ev, "BOOKMARK") != (i == len(paths)) {
				t.Errorf("event %d is %s", i, ev)
			}
		}
	})
}

// filterOf is the filter of a watch.
func filterOf(t *testing.T, r *resource, namespace string, opts metav1.ListOptions) *filter {
	t.Helper()
	return &filter{rig.Must[*listopts.Filter](t)(listopts.NewFilter(namespace, opts, r.knows)), r, nil}
}

// The history drops the events of one version together: a watch cannot begin among them.
func TestTrimKeepsVersionsWhole(t *testing.T) {
	h := begun(HistoryLimits{Events: 2}, 1)
	h.commit([]*event{{version: 2, new: testItem("a", 2)}, {version: 2, new: testItem("b", 2)}}, 2)
	h.commit([]*event{{version: 3, new: testItem("c", 3)}}, 3)
	if len(h.events) != 1 || h.events[0].version != 3 || h.oldest != 2 {
		t.Errorf("%d events after %d are left, want 1 after 2", len(h.events), h.oldest)
	}
}

// What lies behind a version that an object is missing from is not passed on.
func TestFeedHoldsBack(t *testing.T) {
	h := begun(HistoryLimits{}, 1)
	f := &feed[*Object]{resource: &resource{name: "things"}, history: h, rawProto: new(atomic.Bool)}
	add := func(name, version string) {
		o := &Object{Meta: lw.Meta{Namespace: "n", Name: name, ResourceVersion: version}}
		f.Change(lw.Delta[*Object]{Type: lw.Added, New: o, ResourceVersion: version})
	}
	add("a", "2")
	add("c", "4") // n/b at 3 cannot be read
	f.Progress("2")
	before := []int{len(h.events), int(h.here)}
	f.Progress("4")
	rig.Same(t, "events and the version, before and after", [][]int{{1, 2}, {2, 4}},
		[][]int{before, {len(h.events), int(h.here)}})
}

// A watch leaves its sweeper before it goes on: it may be parked again at once, which must last.
func TestRemoveBeforeGoingOn(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := &directWatch{}
		sw := &sweeper{collection: newCollection(New(nil), &resource{name: "things"}, HistoryLimits{}),
			parked: []*directWatch{w}}
		sw.remove([]handoff{{w, func() {
			sw.mu.Lock()
			defer sw.mu.Unlock()
			sw.parked = append(sw.parked, w)
		}}})
		synctest.Wait()
		rig.Same(t, "parked watches", 1, len(sw.parked))
	})
}

// Of a frame that a socket took in part, the rest is left; of one that it took whole, nothing.
func TestFrameBatchCut(t *testing.T) {
	w := &directWatch{}
	b := newFrameBatch(nil)
	b.begin(w)
	for i, chunk := range []string{"abc", "de", "fgh"} {
		w.place.position = uint64(i + 1)
		rig.OK(t, b.put(frame{chunk: []byte(chunk)}))
	}
	for n, want := range map[int]string{1: "1 bc", 2: "1 c", 3: "1 ", 4: "2 e", 5: "2 ", 6: "3 gh", 8: "3 "} {
		p, rest := b.cut(n)
		rig.Same(t, fmt.Sprintf("after %d bytes", n), want, fmt.Sprint(p.position, " ", string(rest)))
	}
}

// For a selector an object that stops to match is deleted, at the version of the change.
func TestStopsToMatch(t *testing.T) {
	c, w, out := testWatcher(t, time.Hour)
	w.filter = filterOf(t, &resource{}, "", metav1.ListOptions{LabelSelector: "on=yes"})
	sent := out.events()
	old, now := testItem("n/a", 2), testItem("n/a", 3)
	old.labels = map[string]string{"on": "yes"}
	old.obj = &Object{data: []byte(`{"metadata":{"resourceVersion":"2"}}`)}
	c.history.commit([]*event{{version: 3, old: old, new: now}}, 3)
	w.stepped(t, out)
	if len(*sent) != 1 || !strings.Contains((*sent)[0], `"DELETED"`) ||
		!strings.Contains((*sent)[0], `"resourceVersion":"3"`) {
		t.Errorf("sent %q, want a deletion at 3", *sent)
	}
}

// A list that is compressed is shared by those who ask for one state: after a new beginning the
// same version may be another one's.
func TestCompressedOfOneEra(t *testing.T) {
	c := newCollection(New(nil), &resource{name: "widgets"}, HistoryLimits{})
	f := format{codec: c.encoder.codecs[0]}
	p := &page{whole: true, era: 1}
	p.meta.ResourceVersion = "7"
	later := *p
	later.era = 2
	text := func(text string) func(io.Writer) error {
		return func(w io.Writer) error {
			_, err := io.WriteString(w, text)
			return err
		}
	}
	begun, other := make(chan struct{}), make(chan []byte)
	go func() {
		body, err := c.compressed(p, f, 10, func(w io.Writer) error {
			close(begun)
			got, err := c.compressed(&later, f, 10, text("later"))
			if err != nil {
				return err
			}
			other <- got
			return text("first")(w)
		})
		if err != nil {
			t.Error(err)
		}
		other <- body
	}()
	<-begun
	for _, want := range []string{"later", "first"} {
		z, err := gzip.NewReader(bytes.NewReader(<-other))
		rig.OK(t, err)
		if got, err := io.ReadAll(z); string(got) != want || err != nil {
			t.Errorf("%s, want %s (%v)", got, want, err)
		}
	}
}

// A connection sends first what it has kept: TLS may write while nobody expects it.
func TestKeptComesFirst(t *testing.T) {
	under, other := net.Pipe()
	got := make(chan []byte, 1)
	go func() {
		data, _ := io.ReadAll(other)
		got <- data
	}()
	c := &conn{Conn: under, try: func(data []byte) (int, error) { return under.Write(data[:min(1, len(data))]) }}
	d := &direct{conn: c}
	c.block(false)
	for _, text := range []string{"abc", "d"} {
		if n, err := c.Write([]byte(text)); n != len(text) || err != nil {
			t.Fatal(n, err)
		}
	}
	if !c.kept() {
		t.Error("nothing is kept of what the socket did not take")
	}
	if _, more, _ := (&direct{conn: c, tls: tls.Server(c, nil)}).offer(nil); !more {
		t.Error("what is kept of what TLS has encrypted would wait for the next event")
	}
	rig.OK(t, d.send([]byte("ef"), time.Minute))
	if c.kept() || !c.trying {
		t.Errorf("after a send: kept %v, trying %v", c.kept(), c.trying)
	}
	d.abort()
	rig.Same(t, "what was sent", "abcdef", string(<-got))
}

// An object without labels to be had is in the way of those alone who may have asked for it.
func TestLabelsPanic(t *testing.T) {
	r := &resource{
		name: "things", fieldNames: []string{"size"}, fields: []func(any) string{func(any) string { return "1" }},
		labels: func(any) map[string]string { panic("no labels") },
	}
	c := newCollection(New(nil), r, HistoryLimits{})
	// That its fields cannot be had either makes no difference.
	both := *r
	both.fields = []func(any) string{func(any) string { panic("no fields") }}
	j := both.item(&Object{data: []byte("{}")}, lw.Key{Namespace: "n", Name: "a"}, "", 5)
	i := r.item(&Object{data: []byte("{}")}, lw.Key{Namespace: "n", Name: "a"}, "", 5)
	if _, err := c.encoder.body(i.as(6), wire.Format{}); err == nil || !strings.Contains(err.Error(), "no labels") {
		t.Errorf("its encoding: %v", err)
	}
	for _, tt := range []struct {
		namespace, labels, fields string
		want                      bool
	}{
		{"", "", "", true}, {"n", "", "", true}, {"o", "", "", false}, {"o", "a=b", "", false},
		{"", "a=b", "", true}, {"n", "!a", "size=1", true}, {"n", "", "size=1", true},
	} {
		opts := metav1.ListOptions{LabelSelector: tt.labels, FieldSelector: tt.fields}
		a, b := filterOf(t, r, tt.namespace, opts).matches(i), filterOf(t, &both, tt.namespace, opts).matches(j)
		if a != tt.want || b != tt.want {
			t.Errorf("%+v: %v, without fields %v", tt, a, b)
		}
	}
}

// What a feed has passed on it does not keep: the history forgets it some time.
func TestFeedForgets(t *testing.T) {
	h := newHistory(HistoryLimits{})
	f := &feed[*Object]{resource: &resource{name: "things"}, history: h}
	h.begin(order.List[*item]{}, 1, false)
	all := []*event{{version: 2, new: &item{path: "a", version: 2}}, {version: 3, new: &item{path: "b", version: 3}}}
	f.pending = all
	if f.Progress("2"); len(f.pending) != 1 || &f.pending[0] == &all[1] {
		t.Errorf("%d events are left, in the array that has what was passed on", len(f.pending))
	}
	f.Progress("3")
	rig.Same(t, "events that are kept", 0, cap(f.pending))
}

// A client is known while it has lists; those refused or given up hold no turn.
func TestListsLeaveNothing(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l, limits := &limiter{lists: make(chan struct{}, 1)}, &Limits{ListsPerClient: 1}
		gone, leave := context.WithCancel(t.Context())
		leave()
		for range 2 {
			done, err := l.beginList(t.Context(), "a", limits)
			rig.OK(t, err)
			for _, client := range []string{"a", "b"} { // the turn of its own, and that of all
				if _, err := l.beginList(t.Context(), client, limits); !apierrors.IsTooManyRequests(err) {
					t.Errorf("%s: %v", client, err)
				}
				if _, err := l.beginList(gone, client, limits); !errors.Is(err, context.Canceled) {
					t.Errorf("%s has gone: %v", client, err)
				}
			}
			if len(l.listsOf) != 1 || l.listsOf["a"] == nil || len(l.listsOf["a"].taken) != 1 {
				t.Errorf("beside one list: %v", l.listsOf)
			}
			if done(); len(l.listsOf) != 0 || len(l.lists) != 0 {
				t.Errorf("after it: %v, %d in progress", l.listsOf, len(l.lists))
			}
		}
	})
}

// A deadlines is a ResponseWriter that counts the deadlines that it is given.
type deadlines struct {
	http.ResponseWriter
	set int
}

func (d *deadlines) SetWriteDeadline(time.Time) error { d.set++; return nil }

// A guard cuts off a client whose write takes too long, and does nothing before the first write,
// between two, or after the request, when the ResponseWriter is somebody else's.
func TestGuard(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d := &deadlines{}
		g := newGuard(http.NewResponseController(d), time.Second)
		step := func(what string, want int, do func()) {
			t.Helper()
			do()
			time.Sleep(2 * time.Second)
			synctest.Wait()
			rig.Same(t, "deadlines "+what, want, d.set)
		}
		step("before the first write", 0, func() {})
		step("between two", 0, func() { g.begin(); g.rest() })
		step("a write", 1, g.begin)
		step("the end of all", 2, g.cut)
		step("after the request", 2, func() { g.begin(); g.close(); g.cut() })
	})
}

// Who asks for the metadata of a protobuf message gets that alone.
func TestMetadataAlone(t *testing.T) {
	message := "\x0a\x03\x0a\x01a\x12\x06secret"
	r := &resource{name: "things", raw: true}
	c := newCollection(New(nil), r, HistoryLimits{})
	i := r.item(&Object{data: []byte(message), proto: true}, lw.Key{Name: "a"}, "", 5)
	data, err := c.encoder.body(i, wire.Format{Encoding: wire.Protobuf, Shape: wire.Partial})
	if err != nil || string(data) != message[:5] {
		t.Errorf("%q, %v", data, err)
	}
}
