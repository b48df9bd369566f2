package handlers_test

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"pgregory.net/rapid"

	"github.com/go-lw/lw"
	"github.com/go-lw/lw/internal/verify/rig"
)

// An endpoint is a collection outside Kubernetes: its objects have no versions.
type endpoint struct {
	mu      sync.Mutex
	sizes   map[string]int
	twice   string // this one is listed twice
	err     error
	none    bool // it answers nil
	calls   int
	changed chan struct{} // closed at the next change
	past    []was
}

// was is a state, and when it began.
type was struct {
	at    time.Time
	sizes map[lw.Key]int
}

func newEndpoint(names ...string) *endpoint {
	e := &endpoint{sizes: map[string]int{}, changed: make(chan struct{})}
	for _, name := range names {
		e.sizes[name] = 1
	}
	e.set(func() {})
	return e
}

// set changes the endpoint.
func (e *endpoint) set(change func()) {
	e.mu.Lock()
	defer e.mu.Unlock()
	change()
	state := map[lw.Key]int{}
	for name, size := range e.sizes {
		state[rig.Key(name)] = size
	}
	e.past = append(e.past, was{time.Now(), state})
	close(e.changed)
	e.changed = make(chan struct{})
}

func (e *endpoint) list(ctx context.Context) ([]*rig.Widget, error) {
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.calls++; e.err != nil || e.none {
		return nil, e.err
	}
	objs := []*rig.Widget{}
	for _, name := range slices.Sorted(maps.Keys(e.sizes)) {
		objs = append(objs, rig.NewWidget(name, e.sizes[name]))
		if name == e.twice {
			objs = append(objs, rig.NewWidget(name, e.sizes[name]+100))
		}
	}
	return objs, ctx.Err()
}

// feed is the function of a Feed: it sends what has changed since.
func (e *endpoint) feed(ctx context.Context, to *lw.Feeder[*rig.Widget]) error {
	objs, err := e.list(ctx)
	if err != nil {
		return err
	}
	if err := to.Snapshot(objs); err != nil {
		return err
	}
	known := map[string]int{}
	for _, w := range objs {
		known[w.Name] = w.Size
	}
	for {
		e.mu.Lock()
		now, changed, err := maps.Clone(e.sizes), e.changed, e.err
		e.mu.Unlock()
		if err != nil {
			return err
		}
		var puts []*rig.Widget
		var gone []lw.Key
		for name, size := range now {
			if was, ok := known[name]; !ok || was != size {
				puts = append(puts, rig.NewWidget(name, size))
			}
		}
		for name := range known {
			if _, ok := now[name]; !ok {
				gone = append(gone, rig.Key(name))
			}
		}
		if err := to.Change(puts, gone...); err != nil {
			return err
		}
		known = now
		select {
		case <-changed:
		case <-ctx.Done():
			return ctx.Err()
		}
	}
}

// The programs of a newcomer, which poll at these intervals, are never staler than one of them,
// show only states that the endpoint had, and tell handlers of each object what has become of it.
func TestPollModel(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		synctest.Test(t, func(t *testing.T) {
			every := rapid.SampledFrom([]time.Duration{200 * time.Millisecond, 1500 * time.Millisecond,
				5 * time.Second}).Draw(rt, "every")
			e := newEndpoint("a")
			src := lw.Poll(e.list, every)
			if rapid.Bool().Draw(rt, "feed") {
				src, every = lw.Feed(e.feed), time.Millisecond
			}
			if rapid.Bool().Draw(rt, "changed in place") {
				src = lw.Transform(src, func(w *rig.Widget) (*rig.Widget, error) {
					w.Namespace += ""
					w.Meta.UID = "made here"
					return w, nil
				})
			}
			errs := new(rig.Errors)
			mode := rapid.SampledFrom([]lw.ListMode{lw.ListAuto, lw.ListStream, lw.ListPages, lw.ListWhole}).Draw(rt, "mode")
			inf := lw.NewInformer(src, &lw.Options{OnError: errs.Add, List: mode})
			story := rig.NewStory(t)
			inf.AddHandler(story.Handler())
			rig.Start(t, inf)
			rig.OK(t, inf.WaitForSync(t.Context()))
			look := func() {
				t.Helper()
				synctest.Wait()
				got := rig.Sizes(inf.Store().Snapshot())
				oldest := time.Now().Add(-every)
				for i, w := range slices.Backward(e.past) {
					if maps.Equal(w.sizes, got) {
						return
					}
					if w.at.Before(oldest) && i < len(e.past)-1 {
						break
					}
				}
				t.Errorf("after %v the store has %v, want what was there within %v: %v", time.Since(e.past[0].at), got,
					every, e.past)
			}
			for range rapid.IntRange(1, 20).Draw(rt, "steps") {
				name := rapid.SampledFrom([]string{"a", "b", "c", "d"}).Draw(rt, "name")
				size := rapid.IntRange(0, 3).Draw(rt, "size")
				switch rapid.IntRange(0, 5).Draw(rt, "what") {
				case 0:
					e.set(func() { clear(e.sizes) })
				case 1:
					e.set(func() { delete(e.sizes, name) })
				default:
					e.set(func() { e.sizes[name] = size })
				}
				time.Sleep(time.Duration(rapid.IntRange(0, 7000).Draw(rt, "for")) * time.Millisecond)
				look()
			}
			errs.MustBeNone(t)
			// The endpoint is away, and then answers what cannot be told from nothing.
			time.Sleep(every)
			synctest.Wait()
			before := rig.Sizes(inf.Store())
			e.set(func() { e.err = errors.New("down") })
			e.past = e.past[:len(e.past)-1]
			rig.Sleep(time.Minute)
			e.mu.Lock()
			e.err, e.none = nil, true
			e.mu.Unlock()
			rig.Sleep(3 * time.Minute)
			rig.Same(t, "the content while the endpoint fails", before, rig.Sizes(inf.Store()))
			if err := inf.Status().Healthy(); err == nil {
				t.Error("it is healthy while the endpoint fails")
			}
			errs.MustHave(t, "down")
			errs.MustHave(t, "an empty collection is a slice that is not nil")
			e.set(func() { e.none, e.sizes = false, map[string]int{"z": 26} })
			rig.Sleep(2 * time.Minute)
			look()
			rig.OK(t, inf.Status().Healthy())
			rig.MustAddUp(t, story, map[lw.Key]int{rig.Key("z"): 26})
			if n := len(errs.All()); n > 60 {
				t.Errorf("%d errors in four minutes", n)
			}
		})
	})
}

// What a Poll has beside its objects.
func TestPoll(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		e := newEndpoint("a", "b")
		errs := new(rig.Errors)
		inf := rig.Run(t, lw.Poll(e.list, 10*time.Second), &lw.Options{OnError: errs.Add})
		got := new(rig.Calls)
		inf.AddHandler(got.Handler())
		got.Sorted(t, "add a1", "add b1", "synced")
		began := time.Now()
		if version := fmt.Sprint(began.UnixMilli()); inf.Store().ResourceVersion() != version || e.calls != 1 ||
			!inf.Status().LastList.Equal(began) {
			t.Errorf("version %s after %d calls, want %s; the last list was at %v", inf.Store().ResourceVersion(), e.calls,
				version, inf.Status().LastList)
		}
		// All differences of a poll are shown together.
		var shown []map[lw.Key]int
		ctx, cancel := context.WithCancel(t.Context())
		defer cancel()
		go func() {
			for any := inf.Changed(ctx); ctx.Err() == nil; any = inf.Changed(ctx) {
				shown = append(shown, rig.Sizes(inf.Store()))
				select {
				case <-any:
				case <-ctx.Done():
				}
			}
		}()
		synctest.Wait()
		e.set(func() { delete(e.sizes, "a"); e.sizes["b"] = 2; e.sizes["c"] = 3 })
		rig.Sleep(10 * time.Second)
		got.MustBe(t, "update b1 b2", "add c3", "delete a1")
		want := []map[lw.Key]int{{rig.Key("a"): 1, rig.Key("b"): 1}, {rig.Key("b"): 2, rig.Key("c"): 3}}
		// A channel that is taken between two signals of one poll is closed by the second.
		rig.Same(t, "shown", want, slices.CompactFunc(shown, maps.Equal))
		// Status knows of each poll.
		rig.Sleep(25 * time.Second)
		if s := inf.Status(); time.Since(s.LastList) != 5*time.Second || !s.NeedsListSince.IsZero() ||
			s.Requests["list"].Started != 1 {
			t.Errorf("the last list was %v ago, due %v", time.Since(s.LastList), s.NeedsListSince)
		}
		// CatchUp has it called, once for all callers.
		e.set(func() { e.sizes["d"] = 4 })
		before, asked := e.calls, time.Now()
		var callers sync.WaitGroup
		for range 10 {
			callers.Go(func() {
				if _, err := inf.CatchUp(t.Context()); err != nil || inf.Store().Len() != 3 {
					t.Errorf("CatchUp: %v, and %d objects", err, inf.Store().Len())
				}
			})
		}
		callers.Wait()
		if took, calls := time.Since(asked), e.calls-before; took > time.Second || calls > 2 {
			t.Errorf("CatchUp took %v, and ten callers had it polled %d times", took, calls)
		}
		got.MustBe(t, "add d4")
		// A key that comes twice stays as it was, and is told once.
		e.set(func() { e.twice = "b"; e.sizes["b"], e.sizes["d"] = 7, 7 })
		rig.Sleep(time.Minute)
		got.MustBe(t, "update d4 d7")
		if n := len(errs.All()); n != 1 || len(inf.Status().SetAside) != 1 {
			t.Errorf("%d errors, and set aside is %v", n, inf.Status().SetAside)
		}
		errs.MustHave(t, "default/b: several objects have this key")
		e.set(func() { e.twice = ""; delete(e.sizes, "d") })
		rig.Sleep(time.Minute)
		got.MustBe(t, "update b2 b7", "delete d7")
		if s := inf.Status(); len(s.SetAside) > 0 || rig.Relists(s) > 0 || len(errs.All()) != 1 {
			t.Errorf("in the end: %v, %d relists, %v", s.SetAside, rig.Relists(s), errs.All())
		}
	})
}

// A function that hangs is not waited for without end, and Healthy says since when.
func TestPollHangs(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		e, hang := newEndpoint("a"), new(atomic.Bool)
		errs := new(rig.Errors)
		inf := rig.Run(t, lw.Poll(func(ctx context.Context) ([]*rig.Widget, error) {
			if hang.Load() {
				<-ctx.Done()
				return nil, ctx.Err()
			}
			return e.list(ctx)
		}, time.Second), &lw.Options{OnError: errs.Add})
		hang.Store(true)
		rig.Sleep(70 * time.Second)
		if err := inf.Status().Healthy(); err == nil || !strings.Contains(err.Error(), "out of date since") {
			t.Errorf("Healthy: %v", err)
		}
		rig.Sleep(30 * time.Second)
		errs.MustHave(t, "has not returned after 1m30s")
		hang.Store(false)
		rig.Sleep(3 * time.Minute)
		rig.OK(t, inf.Status().Healthy())
	})
}

// Nothing is synced as empty unless the source has said so.
func TestEmptyFirstAnswer(t *testing.T) {
	for name, c := range map[string]struct {
		polled []*rig.Widget
		feed   func(to *lw.Feeder[*rig.Widget]) error // nil: it is a Poll
		synced bool
		text   string
	}{
		"Poll of nil":     {text: "is a slice that is not nil"},
		"Poll of nothing": {polled: []*rig.Widget{}, synced: true},
		"Feed of nil": {feed: func(to *lw.Feeder[*rig.Widget]) error { return to.Snapshot(nil) },
			text: "is a slice that is not nil"},
		"Feed that ends": {feed: func(*lw.Feeder[*rig.Widget]) error { return nil }, text: "without a snapshot"},
		"Feed of a change": {feed: func(to *lw.Feeder[*rig.Widget]) error { return to.Change(rig.Widgets("a1")) },
			text: "a change before the snapshot"},
		"nil object": {polled: []*rig.Widget{rig.NewWidget("a", 1), nil}, text: "Poll: object 2 of 2 is nil"},
		"no name":    {polled: []*rig.Widget{{}}, text: "Poll: object 1 of 1 has no name"},
	} {
		rig.Subtest(t, name, func(t *testing.T) {
			src := lw.Poll(func(context.Context) ([]*rig.Widget, error) { return c.polled, nil }, time.Second)
			if c.feed != nil {
				src = lw.Feed(func(_ context.Context, to *lw.Feeder[*rig.Widget]) error { return c.feed(to) })
			}
			errs := new(rig.Errors)
			inf := rig.RunFor(t, src, &lw.Options{OnError: errs.Add}, time.Minute)
			rig.Same(t, "synced", c.synced, inf.Status().Synced)
			if c.text != "" {
				errs.MustHave(t, c.text)
			}
		})
	}
}

// Only the polls of a watch keep the interval. A list is wanted now.
func TestPollListsAtOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		src, began := lw.Poll(newEndpoint("a").list, time.Hour), time.Now()
		for range 2 {
			if versionOf(t, src); time.Since(began) != 0 {
				t.Errorf("a list after %v", time.Since(began))
			}
		}
	})
}

// What cannot be had is refused at once, and misuse panics.
func TestPollRefuses(t *testing.T) {
	e := newEndpoint("a")
	src := lw.WithListOptions(lw.Poll(e.list, time.Second), func(o *metav1.ListOptions) { o.LabelSelector = "a=b" })
	if err := lw.NewInformer(src, &lw.Options{OnError: func(error) {}}).Run(t.Context()); !errors.Is(err,
		lw.ErrPermanent) || !strings.Contains(err.Error(), "Transform") {
		t.Errorf("a selector: %v", err)
	}
	rig.MustPanic(t, "lw: Poll", func() { lw.Poll[*rig.Widget](nil, time.Second) })
	rig.MustPanic(t, "lw: Poll", func() { lw.Poll(e.list, 0) })
	rig.MustPanic(t, "lw: Feed", func() { lw.Feed[*rig.Widget](nil) })
}

// idle is a feed of one widget without changes. It says that it is alive once a minute, or never.
func idle(alive bool, runs *int) lw.Source[*rig.Widget] {
	return lw.Feed(func(ctx context.Context, to *lw.Feeder[*rig.Widget]) error {
		*runs++
		err := to.Snapshot([]*rig.Widget{rig.NewWidget("a", 1)})
		for err == nil {
			select {
			case <-time.After(time.Minute):
				if alive {
					err = to.Change(nil)
				}
			case <-ctx.Done():
				return nil
			}
		}
		return err
	})
}

// versionOf lists src, and returns the version of the list.
func versionOf(t *testing.T, src lw.Source[*rig.Widget]) string {
	t.Helper()
	_, list, err := rig.ListAll(t.Context(), src, metav1.ListOptions{})
	rig.OK(t, err)
	return list.ResourceVersion
}

// A feed that says nothing for long is connected anew, without an error; one that says that it is
// alive is not.
func TestFeedIsIdle(t *testing.T) {
	for _, alive := range []bool{false, true} {
		synctest.Test(t, func(t *testing.T) {
			runs := 0
			errs := new(rig.Errors)
			inf := rig.Run(t, idle(alive, &runs), &lw.Options{OnError: errs.Add})
			rig.Sleep(30 * time.Minute)
			if n := len(errs.All()); n > 0 || alive && runs != 1 || !alive && (runs < 3 || runs > 7) {
				t.Errorf("alive %v: %d runs, errors: %v", alive, runs, errs.All())
			}
			mustBeWell(t, inf)
		})
	}
}
