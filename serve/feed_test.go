package serve

import (
	"context"
	"log/slog"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/watch"

	"github.com/go-lw/lw"
	"github.com/go-lw/lw/internal/listopts"
	"github.com/go-lw/lw/internal/verify/rig"
	"github.com/go-lw/lw/serve/internal/order"
)

// A listing is a source that lists objects at a version, and has no changes.
type listing struct {
	version string
	objects []*plain
}

func (l listing) List(_ context.Context, _ metav1.ListOptions, yield func(*plain, error) error) (metav1.ListMeta,
	error) {
	for _, o := range l.objects {
		if err := yield(o, nil); err != nil {
			return metav1.ListMeta{}, err
		}
	}
	return metav1.ListMeta{ResourceVersion: l.version}, nil
}

func (l listing) Watch(ctx context.Context, _ metav1.ListOptions, _ func(lw.WatchEvent[*plain]) error) error {
	<-ctx.Done()
	return ctx.Err()
}

// snapshot returns what a collection begins with that has objects at a version.
func snapshot(t *testing.T, version string, objects ...*plain) (snap *lw.Snapshot[*plain]) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		ctx, cancel := context.WithCancel(t.Context())
		inf := lw.NewInformer[*plain](listing{version, objects}, &lw.Options{List: lw.ListWhole,
			Logger: slog.New(slog.DiscardHandler)})
		go func() { _ = inf.Run(ctx) }()
		rig.OK(t, inf.WaitForSync(ctx))
		snap = inf.Store().Snapshot()
		cancel()
	})
	return snap
}

func object(version string) *plain {
	return &plain{Meta: lw.Meta{Name: "a", UID: "u", ResourceVersion: version}}
}

func newFeed(t *testing.T) (*feed[*plain], *history) {
	h := newHistory(HistoryLimits{})
	return &feed[*plain]{
		resource: &resource{name: "things"}, history: h, rawProto: new(atomic.Bool), fail: func(err error) { t.Error(err) },
	}, h
}

// An object of which the collection has told before it told that all before it was passed on has a
// version when the collection begins anew with it, and keeps the one that it has.
func TestFeedStampsWhatBegins(t *testing.T) {
	f, h := newFeed(t)
	h.own = newStamps(1)
	snap := snapshot(t, "5", object("1"))
	o, _ := snap.Get(lw.Key{Name: "a"})
	f.Begin(snapshot(t, "4"), false)
	f.Change(lw.Delta[*plain]{Type: lw.Added, New: o})
	versions := map[uint64]bool{}
	for range 2 {
		f.Begin(snap, false)
		i, ok := h.current(lw.Key{Name: "a"})
		if !ok || i.version == 0 || i.version > h.here || i.obj != any(o) {
			t.Fatalf("the object is %+v, at %d", i, h.here)
		}
		versions[i.version] = true
	}
	rig.Same(t, "versions of the object", 1, len(versions))
}

// Of several beginnings before the history can begin, none that is a break is forgotten.
func TestFeedRemembersABreak(t *testing.T) {
	f, h := newFeed(t)
	f.Begin(snapshot(t, "5"), false)
	at := opened(t, h, 5)
	f.Begin(snapshot(t, "6", object("9")), true)
	if h.extent().synced {
		t.Error("it has begun before its object")
	}
	f.Begin(snapshot(t, "10", object("10")), false)
	if _, err := h.read(at, nil); !h.extent().synced || !apierrors.HasStatusCause(err, listopts.CauseReplaced) {
		t.Errorf("a watch of before: %v", err)
	}
	// The next one breaks with nothing.
	at = opened(t, h, 10)
	f.Begin(snapshot(t, "12", object("12")), false)
	if r, err := h.read(at, nil); err != nil || !r.stale {
		t.Errorf("a watch of before: %v", err)
	}
}

// Clients that compare UIDs and versions do not see that an object is another one with both: they
// must list. They see another UID.
func TestFeedBeginsWithAnEqualVersion(t *testing.T) {
	for uid, replaced := range map[types.UID]bool{"u": true, "v": false} {
		f, h := newFeed(t)
		f.Begin(snapshot(t, "5", object("5")), false)
		at := opened(t, h, 5)
		other := object("5")
		other.UID = uid
		f.Begin(snapshot(t, "6", other), false)
		if r, err := h.read(at, nil); apierrors.HasStatusCause(err, listopts.CauseReplaced) != replaced ||
			r.stale == replaced {
			t.Errorf("%s: a watch of before: stale %t, %v", uid, r.stale, err)
		}
	}
}

// Where the versions are made here, those of before a break are too old, and of no other history.
func TestBreakOfOwnVersions(t *testing.T) {
	f, h := newFeed(t)
	h.own = newStamps(1)
	f.Begin(snapshot(t, "5"), false)
	at, _ := h.openNow()
	f.Begin(snapshot(t, "6"), true)
	if _, err := h.read(at, nil); !apierrors.IsResourceExpired(err) ||
		apierrors.HasStatusCause(err, listopts.CauseReplaced) {
		t.Errorf("a watch of before: %v", err)
	}
}

// A history that has not begun does not begin before what has come since.
func TestFeedWaitsForWhatHasCome(t *testing.T) {
	f, h := newFeed(t)
	f.Begin(snapshot(t, "5", object("9")), false)
	other := object("12")
	other.Name = "b"
	f.Change(lw.Delta[*plain]{Type: lw.Added, New: other, ResourceVersion: "12"})
	f.Progress("8")
	f.Progress("10")
	if h.extent().synced {
		t.Errorf("it has begun at %d, with an object of 12", h.here)
	}
	f.Progress("12")
	if state, version, ok := h.present(); !ok || version != 12 || state.Len() != 2 {
		t.Errorf("begun %v, at %d, with %d objects", ok, version, state.Len())
	}
}

// What nobody has seen is before the beginning, not behind it.
func TestFeedForgetsWhatIsUnseen(t *testing.T) {
	f, h := newFeed(t)
	f.Begin(snapshot(t, "5"), false)
	f.Unseen()
	f.Begin(snapshot(t, "7"), false)
	f.Progress("9")
	for v := uint64(7); v <= 9; v++ {
		opened(t, h, v)
	}
	f.Unseen()
	f.Progress("11")
	if _, err := h.open(10); !apierrors.IsResourceExpired(err) {
		t.Errorf("a watch from what nobody has seen: %v", err)
	}
}

// One object in place of another makes two events, and what the other one keeps counts once.
func TestFeedTellsOfTwoObjects(t *testing.T) {
	f, h := newFeed(t)
	old, now := object("4"), object("6")
	old.Parts, now.UID = []*string{new(strings.Repeat("x", 1000))}, "v"
	f.Begin(snapshot(t, "5", old), false)
	f.Change(lw.Delta[*plain]{Type: lw.Updated, New: now, ResourceVersion: "6"})
	f.Progress("6")
	if len(h.events) != 2 || h.bytes < 1000 || h.bytes > 1500 || h.events[0].new != nil || h.events[1].old != nil {
		t.Errorf("%d events of %d bytes", len(h.events), h.bytes)
	}
}

// A page knows in which era its state was: after a new beginning the same version is another one.
func TestPageOfAnEra(t *testing.T) {
	c := newCollection(New(nil), &resource{name: "things"}, HistoryLimits{})
	f, err := c.filters.parse(c.resource, "", metav1.ListOptions{}, nil)
	rig.OK(t, err)
	q := &request{collection: c}
	for era := 1; era < 4; era++ {
		c.history.begin(order.List[*item]{}, 5, true)
		if p, err := q.page(f, moment{}); err != nil || p.era != era || !p.whole {
			t.Errorf("in era %d: %+v, %v", era, p, err)
		}
	}
}

// Nothing is answered from a history that is suspended, whatever version it has reached before.
func TestSuspended(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := newCollection(New(nil), &resource{name: "things"}, HistoryLimits{})
		c.history.begin(order.List[*item]{}, 10, false)
		rig.OK(t, c.history.waitFor(t.Context(), 5, time.Second))
		c.history.suspend()
		if err := c.history.waitFor(t.Context(), 5, time.Second); !apierrors.IsTimeout(err) {
			t.Errorf("a wait: %v", err)
		}
		if _, _, err := c.stateAt(moment{}); !apierrors.IsTooManyRequests(err) {
			t.Errorf("what is here: %v", err)
		}
		c.history.begin(order.List[*item]{}, 11, false)
		if _, version, err := c.stateAt(moment{}); err != nil || version != 11 {
			t.Errorf("what is here: %d, %v", version, err)
		}
	})
}

// Who waits for the beginning of a history is told of its end.
func TestNoBeginning(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := newHistory(HistoryLimits{})
		ended := make(chan error, 1)
		go func() { ended <- h.waitForBegin(t.Context()) }()
		synctest.Wait()
		h.close(0)
		if err := <-ended; err == nil {
			t.Error("it has begun")
		}
	})
}

// A collection that has forgotten more than what is here: whoever is there goes on.
func TestFloorAhead(t *testing.T) {
	h := newHistory(HistoryLimits{})
	floor := uint64(20)
	h.floor = func() uint64 { return floor }
	h.begin(order.List[*item]{}, 8, false)
	h.commit(nil, 10)
	_, err := h.at(10)
	rig.OK(t, err)
	if r, err := h.read(opened(t, h, 10), nil); err != nil || r.wait == nil {
		t.Errorf("a watch of what is here: %v", err)
	}
	if _, err := h.open(9); !apierrors.IsResourceExpired(err) {
		t.Errorf("a watch of before: %v", err)
	}
}

// What a collection forgets while a watch is behind, the watch is not told any more.
func TestFloorPassesAWatch(t *testing.T) {
	h := begun(HistoryLimits{}, 8)
	floor := uint64(8)
	h.floor = func() uint64 { return floor }
	at := opened(t, h, 8)
	h.commit([]*event{added(9), added(10)}, 10)
	if r, err := h.read(at, nil); err != nil || len(r.events) != 2 {
		t.Errorf("before: %d events, %v", len(r.events), err)
	}
	floor = 9
	if _, err := h.read(at, nil); !apierrors.IsResourceExpired(err) {
		t.Errorf("9 is forgotten: %v", err)
	}
	if r, err := h.read(opened(t, h, 9), nil); err != nil || len(r.events) != 1 {
		t.Errorf("a watch of 9: %d events, %v", len(r.events), err)
	}
}

// An object has its own version in an event, and a deletion that of the event.
func TestVersionInFrames(t *testing.T) {
	c, _, _ := testWatcher(t, time.Hour)
	i := testItem("n/a", 5)
	i.obj = &Object{data: []byte(`{"metadata":{"resourceVersion":"5"}}`)}
	for typ, want := range map[watch.EventType]string{
		watch.Added:    `{"type":"ADDED","object":{"kind":"Thing","apiVersion":"v1","metadata":{"resourceVersion":"5"}}}`,
		watch.Modified: `{"type":"MODIFIED","object":{"kind":"Thing","apiVersion":"v1","metadata":{"resourceVersion":"5"}}}`,
		watch.Deleted:  `{"type":"DELETED","object":{"kind":"Thing","apiVersion":"v1","metadata":{"resourceVersion":"9"}}}`,
	} {
		f, err := c.encoder.frameOf(&event{version: 9, old: i, new: i}, typ, format{codec: c.encoder.codecs[0]})
		rig.OK(t, err)
		rig.Same(t, string(typ), want+"\n", string(f.event()))
	}
}
