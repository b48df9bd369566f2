package lw_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/watch"

	"github.com/go-lw/lw"
)

// The tests of this file prove the contract in doc.go, point by point.

// Point 1: every read is one state of the server, and says which. Writers keep two objects equal in one version each; no
// snapshot ever shows them apart from what the server had at the snapshot's version.
func TestOneSnapshot(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		truth := map[string]map[lw.Key]int{}
		m := lw.NewMemory(widget("a", 0), widget("b", 0))
		note := func() {
			state := map[lw.Key]int{}
			for w := range m.All() {
				state[lw.KeyOf(w)] = w.Size
			}
			truth[m.ResourceVersion()] = state
		}
		note()
		inf := run(t, m, nil)
		bySize := lw.NewIndex(inf, func(w *Widget) int { return w.Size % 2 })
		for i := 1; i <= 200; i++ {
			name := []string{"a", "b"}[i%2]
			update(t, m, name, i)
			note()
			if i%50 == 0 {
				m.Compact()
				m.Disconnect()
			}
			if i%3 == 0 {
				synctest.Wait()
			}
			snap := inf.Store().Snapshot()
			want, ok := truth[snap.ResourceVersion()]
			if !ok {
				t.Fatalf("the server never had version %q", snap.ResourceVersion())
			}
			if diff := cmp.Diff(want, sizes(snap)); diff != "" {
				t.Fatalf("snapshot at %s (-server +store):\n%s", snap.ResourceVersion(), diff)
			}
		}
		time.Sleep(time.Minute)
		for parity := range 2 {
			for _, w := range bySize.List(parity) {
				if w.Size%2 != parity {
					t.Errorf("index %d holds size %d", parity, w.Size)
				}
			}
		}
		if diff := cmp.Diff(truth[m.ResourceVersion()], sizes(inf.Store())); diff != "" {
			t.Errorf("store (-server +store):\n%s", diff)
		}
	})
}

// Point 2: an older list is refused, until it proves to be the truth; then it is a new epoch, which is reported.
func TestNeverBack(t *testing.T) {
	t.Run("lagging replica", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			old := list("10", stamped("a", 1, "9"))
			now := list("20", stamped("a", 2, "19"))
			src := &script{lists: []reply{now, old, old, now}, watches: []stream{expired(), forever()}}
			errs := &errorLog{}
			inf := lw.NewInformer[*Widget](src, &lw.Options{List: lw.ListWhole, OnError: errs.add})
			start(t, inf)
			seen := ""
			for range 300 {
				time.Sleep(100 * time.Millisecond)
				rv := inf.Store().ResourceVersion()
				if rv != "" && rv != "20" || rv < seen {
					t.Fatalf("the store went from version %q to %q", seen, rv)
				}
				seen = rv
			}
			if got := src.listed(); got != 4 {
				t.Errorf("%d lists, want 4: two older ones refused", got)
			}
			if inf.Status().Epoch != 0 {
				t.Errorf("a lagging replica made an epoch")
			}
			errs.mustHave(t, "older than 20")
		})
	})
	t.Run("restored backup", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			m := lw.NewMemory(widget("a", 1))
			errs := &errorLog{}
			inf := run(t, m, &lw.Options{OnError: errs.add})
			before := m.ResourceVersion()
			update(t, m, "a", 2)
			create(t, m, "b", 2)
			synctest.Wait()
			after := m.ResourceVersion()
			pending := make(chan error, 1)
			go func() { pending <- inf.WaitForResourceVersion(t.Context(), "1000000") }()
			if err := m.Rewind(before); err != nil {
				t.Fatal(err)
			}
			time.Sleep(2 * time.Minute)
			if diff := cmp.Diff(map[lw.Key]int{key("a"): 1}, sizes(inf.Store())); diff != "" {
				t.Errorf("store (-server +store):\n%s", diff)
			}
			if rv := inf.Store().ResourceVersion(); rv == after {
				t.Errorf("the store still says version %s", rv)
			}
			if got := inf.Status().Epoch; got != 1 {
				t.Errorf("epoch %d, want 1", got)
			}
			errs.mustBe(t, lw.ErrRewound)
			if err := <-pending; !errors.Is(err, lw.ErrRewound) {
				t.Errorf("wait ended with %v, want ErrRewound", err)
			}
		})
	})
}

// Point 3: one call at a time, and store and indexes show the change when it comes.
func TestStoreBeforeHandler(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := lw.NewMemory(widget("a", 1))
		inf := lw.NewInformer(m, nil)
		bySize := lw.NewIndex(inf, func(w *Widget) int { return w.Size })
		var running atomic.Int32
		calls := 0
		seen := func(w *Widget, there bool) {
			if running.Add(1) != 1 {
				t.Error("two calls at once")
			}
			defer running.Add(-1)
			calls++
			got, ok := inf.Store().Get(lw.KeyOf(w))
			if ok != there || ok && got != w {
				t.Errorf("in the call for %s the store holds %v, %v", w.Name, got, ok)
			}
			if got := slices.Contains(bySize.List(w.Size), w); got != there {
				t.Errorf("in the call for %s the index says %v", w.Name, got)
			}
			time.Sleep(time.Millisecond)
		}
		inf.AddHandler(lw.Handler[*Widget]{
			Add:    func(w *Widget) { seen(w, true) },
			Update: func(_, w *Widget) { seen(w, true) },
			Delete: func(w *Widget) { seen(w, false) },
		})
		start(t, inf)
		for i := range 20 {
			create(t, m, "b", i)
			time.Sleep(time.Second)
			update(t, m, "b", 100+i)
			time.Sleep(time.Second)
			remove(t, m, "b")
			time.Sleep(time.Second)
		}
		if calls != 61 {
			t.Errorf("%d calls, want 61", calls)
		}
	})
}

// Point 4: per handler and object (Add Update* Delete)*, old is the object of the call before, versions rise; also over
// relists, for a handler that is folded, one that filters, and a late one.
func TestOneStoryPerObject(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := lw.NewMemory[*Widget]()
		inf := lw.NewInformer(m, nil)
		stories := []*story{newStory(t), newStory(t), newStory(t)}
		slow := stories[1].handler()
		add := slow.Add
		slow.Add = func(w *Widget) { time.Sleep(time.Second); add(w) }
		filtered := stories[2].handler()
		filtered.Filter = func(w *Widget) bool { return w.Size%3 != 0 }
		inf.AddHandler(stories[0].handler())
		inf.AddHandler(slow)
		inf.AddHandler(filtered)
		start(t, inf)
		for i := range 5000 {
			name := strconv.Itoa(i * 7 % 11)
			switch _, exists := m.Get(key(name)); {
			case !exists:
				create(t, m, name, i)
			case i%5 == 0:
				remove(t, m, name)
				create(t, m, name, i)
			case i%7 == 0:
				remove(t, m, name)
			default:
				update(t, m, name, i)
			}
			if i%1000 == 999 {
				m.Compact()
				m.Disconnect()
				late := newStory(t)
				stories = append(stories, late)
				inf.AddHandler(late.handler())
			}
			if i%100 == 0 {
				time.Sleep(10 * time.Millisecond)
			}
		}
		time.Sleep(time.Hour)
		want := sizes(inf.Store())
		for i, s := range stories {
			if i == 2 {
				want := map[lw.Key]int{}
				for k, size := range sizes(inf.Store()) {
					if size%3 != 0 {
						want[k] = size
					}
				}
				s.mustEqual(want)
				continue
			}
			s.mustEqual(want)
		}
	})
}

// Point 5: an object that was deleted and created again is Delete, then Add, in the watch and across a gap; no reader sees it
// missing across the gap.
func TestIdentityIsTheUID(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		src := &script{
			lists:   []reply{list("10", uid("a", "u1", "9")), list("20", uid("a", "u2", "19"))},
			watches: []stream{expiredAfter(time.Second), forever()},
		}
		inf := lw.NewInformer[*Widget](src, &lw.Options{List: lw.ListWhole, OnError: func(error) {}})
		var got []string
		inf.AddHandler(lw.Handler[*Widget]{
			Add: func(w *Widget) { got = append(got, "add "+string(w.UID)) },
			Delete: func(w *Widget) {
				got = append(got, "delete "+string(w.UID))
				if now, ok := inf.Store().Get(key("a")); !ok || now.UID != "u2" {
					t.Errorf("while u1's deletion is told the store holds %v, %v", now, ok)
				}
			},
			Update: func(old, new *Widget) { got = append(got, "update") },
		})
		start(t, inf)
		time.Sleep(time.Minute)
		if diff := cmp.Diff([]string{"add u1", "delete u1", "add u2"}, got); diff != "" {
			t.Errorf("calls (-want +got):\n%s", diff)
		}
	})
}

// Point 6: a relist says nothing of what did not change, and keeps the object; resync is for those who ask.
func TestNoNoise(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := lw.NewMemory(widget("a", 1), widget("b", 1))
		inf := lw.NewInformer(m, &lw.Options{OnError: func(error) {}})
		var plain, resynced []string
		inf.AddHandler(lw.Handler[*Widget]{Update: func(old, new *Widget) { plain = append(plain, new.Name) }})
		inf.AddHandler(lw.Handler[*Widget]{
			Resync: time.Hour,
			Update: func(old, new *Widget) {
				if old == new {
					resynced = append(resynced, new.Name)
				}
			},
		})
		start(t, inf)
		time.Sleep(time.Second)
		before, _ := inf.Store().Get(key("a"))
		update(t, m, "b", 2)
		m.Disconnect()
		m.Compact()
		time.Sleep(time.Minute)
		update(t, m, "b", 3)
		m.Disconnect()
		m.Compact()
		time.Sleep(time.Minute)
		if after, _ := inf.Store().Get(key("a")); after != before {
			t.Error("a relist replaced an object that did not change")
		}
		for _, name := range plain {
			if name == "a" {
				t.Error("a relist told of an object that did not change")
			}
		}
		if len(resynced) != 0 {
			t.Errorf("resync after two minutes: %v", resynced)
		}
		time.Sleep(time.Hour)
		slices.Sort(resynced)
		if diff := cmp.Diff([]string{"a", "b"}, resynced); diff != "" {
			t.Errorf("resync (-want +got):\n%s", diff)
		}
		if len(plain) > 2 {
			t.Errorf("a handler without resync was told %v", plain)
		}
	})
}

// Point 7: a deletion carries the last object that the handler was told of, also one that no watch has seen.
func TestNoTombstones(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := lw.NewMemory(widget("seen", 1), widget("unseen", 1))
		inf := lw.NewInformer(m, &lw.Options{OnError: func(error) {}})
		told := map[string]*Widget{}
		var deleted []string
		inf.AddHandler(lw.Handler[*Widget]{
			Add:    func(w *Widget) { told[w.Name] = w },
			Update: func(_, w *Widget) { told[w.Name] = w },
			Delete: func(w *Widget) {
				if told[w.Name] != w {
					t.Errorf("%s was deleted as %v, was told as %v", w.Name, w, told[w.Name])
				}
				deleted = append(deleted, w.Name)
			},
		})
		start(t, inf)
		time.Sleep(time.Second)
		remove(t, m, "seen")
		time.Sleep(time.Second)
		m.Fail(errors.New("down"))
		remove(t, m, "unseen")
		m.Compact()
		m.Fail(nil)
		time.Sleep(time.Minute)
		if diff := cmp.Diff([]string{"seen", "unseen"}, deleted); diff != "" {
			t.Errorf("deleted (-want +got):\n%s", diff)
		}
	})
}

// Point 8: a blocked handler delays neither the store nor others; it is told every change up to 1024 behind, and the net
// change beyond; EveryUpdate opts out.
func TestSlowHandlersHurtNobody(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := lw.NewMemory(widget("a", 0))
		inf := lw.NewInformer(m, nil)
		block := make(chan struct{})
		var calls, every, fast int
		inf.AddHandler(lw.Handler[*Widget]{
			Add:    func(*Widget) { <-block },
			Update: func(_, _ *Widget) { calls++ },
		})
		inf.AddHandler(lw.Handler[*Widget]{
			EveryUpdate: true,
			Add:         func(*Widget) { <-block },
			Update:      func(_, _ *Widget) { every++ },
		})
		inf.AddHandler(lw.Handler[*Widget]{Update: func(_, _ *Widget) { fast++ }})
		start(t, inf)
		time.Sleep(time.Second)
		const updates = 5000
		for i := range updates {
			update(t, m, "a", i+1)
			if i == 999 {
				synctest.Wait()
				if got := inf.Status().Pending; got != 1001 {
					t.Errorf("%d changes pending, want 1001", got)
				}
			}
			if i%100 == 0 {
				synctest.Wait()
			}
		}
		synctest.Wait()
		if w, _ := inf.Store().Get(key("a")); w.Size != updates {
			t.Errorf("the store is at %d, want %d", w.Size, updates)
		}
		if fast != updates {
			t.Errorf("the other handler was told %d updates, want %d", fast, updates)
		}
		close(block)
		synctest.Wait()
		if calls > 1024+256 {
			t.Errorf("the blocked handler was told %d updates of one object", calls)
		}
		if every != updates {
			t.Errorf("with EveryUpdate it was told %d updates, want %d", every, updates)
		}
	})
	t.Run("up to 1024", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			m := lw.NewMemory(widget("a", 0))
			inf := lw.NewInformer(m, nil)
			block := make(chan struct{})
			calls := 0
			inf.AddHandler(lw.Handler[*Widget]{Add: func(*Widget) { <-block }, Update: func(_, _ *Widget) { calls++ }})
			start(t, inf)
			time.Sleep(time.Second)
			for i := range 1024 {
				update(t, m, "a", i+1)
			}
			synctest.Wait()
			close(block)
			synctest.Wait()
			if calls != 1024 {
				t.Errorf("told %d updates, want 1024", calls)
			}
		})
	})
}

// Point 9: a late handler gets one snapshot as Adds, is synced, then gets what changes after it; and nobody waits for it.
func TestLateHandlers(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := lw.NewMemory(widget("a", 1), widget("b", 1))
		inf := run(t, m, nil)
		update(t, m, "a", 2)
		synctest.Wait()
		var got []string
		reg := inf.AddHandler(lw.Handler[*Widget]{
			Add:    func(w *Widget) { got = append(got, fmt.Sprint("add ", w.Name, w.Size)) },
			Update: func(old, new *Widget) { got = append(got, fmt.Sprint("update ", new.Name, old.Size, new.Size)) },
			Delete: func(w *Widget) { got = append(got, fmt.Sprint("delete ", w.Name, w.Size)) },
			Synced: func() { got = append(got, "synced") },
		})
		update(t, m, "a", 3)
		remove(t, m, "b")
		synctest.Wait()
		if err := reg.WaitForSync(t.Context()); err != nil {
			t.Error(err)
		}
		slices.Sort(got[:2])
		if diff := cmp.Diff([]string{"add a2", "add b1", "synced", "update a2 3", "delete b1"}, got); diff != "" {
			t.Errorf("calls (-want +got):\n%s", diff)
		}
		type change struct {
			Type    lw.EventType
			Name    string
			Initial bool
			Cause   lw.Cause
		}
		var changes []change
		ctx, cancel := context.WithCancel(t.Context())
		defer cancel()
		for ev := range inf.Events(ctx) {
			changes = append(changes, change{ev.Type, ev.Key().Name, ev.Initial, ev.Cause})
			switch len(changes) {
			case 1:
				create(t, m, "c", 1)
			case 2:
				cancel()
			}
		}
		want := []change{{lw.Added, "a", true, lw.Initial}, {lw.Added, "c", false, lw.Watch}}
		if diff := cmp.Diff(want, changes); diff != "" {
			t.Errorf("events (-want +got):\n%s", diff)
		}
	})
}

// Point 10: a wait for sync that fails says what the informer was doing, and unwraps to the API's error and the context's.
func TestSyncTellsTheTruth(t *testing.T) {
	pods := schema.GroupResource{Resource: "widgets"}
	for name, tc := range map[string]struct {
		err error
		is  func(error) bool
	}{
		"unauthorized": {apierrors.NewUnauthorized("no token"), apierrors.IsUnauthorized},
		"forbidden":    {apierrors.NewForbidden(pods, "", errors.New("no role")), apierrors.IsForbidden},
		"not found":    {apierrors.NewNotFound(pods, ""), apierrors.IsNotFound},
		"expired":      {apierrors.NewResourceExpired("too old"), apierrors.IsResourceExpired},
		"throttled":    {apierrors.NewTooManyRequests("later", 1), apierrors.IsTooManyRequests},
		"internal":     {apierrors.NewInternalError(errors.New("etcd")), apierrors.IsInternalError},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				m := lw.NewMemory[*Widget]()
				m.Fail(tc.err)
				inf := lw.NewInformer(m, &lw.Options{Name: "widgets", OnError: func(error) {}})
				reg := inf.AddHandler(lw.Handler[*Widget]{Add: func(*Widget) {}})
				start(t, inf)
				cause := errors.New("out of patience")
				ctx, cancel := context.WithTimeoutCause(t.Context(), 20*time.Second, cause)
				defer cancel()
				err := lw.WaitForSync(ctx, inf, reg)
				var e *lw.Error
				if !tc.is(err) && !as(err, tc.is) || !errors.Is(err, cause) || !errors.As(err, &e) || e.Informer != "widgets" || e.Failures == 0 {
					t.Errorf("WaitForSync: %v", err)
				}
				m.Fail(nil)
				if err := lw.WaitForSync(t.Context(), inf, reg); err != nil {
					t.Errorf("after the recovery: %v", err)
				}
			})
		})
	}
	t.Run("never run", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			inf := lw.NewInformer(lw.NewMemory[*Widget](), nil)
			ctx, cancel := context.WithTimeout(t.Context(), time.Second)
			defer cancel()
			if err := inf.WaitForSync(ctx); !errors.Is(err, context.DeadlineExceeded) {
				t.Errorf("WaitForSync: %v", err)
			}
		})
	})
	t.Run("stopped", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			m := lw.NewMemory[*Widget]()
			m.Fail(errors.New("down"))
			inf := lw.NewInformer(m, &lw.Options{OnError: func(error) {}})
			ctx, cancel := context.WithCancel(t.Context())
			go inf.Run(ctx)
			time.AfterFunc(time.Second, cancel)
			if err := inf.WaitForSync(t.Context()); !errors.Is(err, lw.ErrStopped) {
				t.Errorf("WaitForSync: %v", err)
			}
		})
	})
}

// Point 11: every failure reaches OnError once; one bad object hides no other; the version that is reported does not pass it.
func TestNothingIsSwallowed(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := lw.NewMemory(widget("a", 1), widget("bad", -1))
		src := lw.Transform(m, func(w *Widget) (*Widget, error) {
			if w.Size < 0 {
				return nil, errors.New("negative")
			}
			return w, nil
		})
		errs := &errorLog{}
		inf := run(t, src, &lw.Options{OnError: errs.add})
		status := inf.Status()
		if !status.Synced || status.SetAside[key("bad")] == nil || len(status.SetAside) != 1 {
			t.Fatalf("after a list with a bad object: %+v", status)
		}
		if diff := cmp.Diff(map[lw.Key]int{key("a"): 1}, sizes(inf.Store())); diff != "" {
			t.Errorf("store (-want +got):\n%s", diff)
		}
		update(t, m, "bad", 2)
		synctest.Wait()
		if got := inf.Status().SetAside; len(got) != 0 {
			t.Errorf("after a good version: %v", got)
		}
		before := inf.Store().ResourceVersion()
		update(t, m, "bad", -2)
		update(t, m, "a", 3)
		synctest.Wait()
		if diff := cmp.Diff(map[lw.Key]int{key("a"): 3, key("bad"): 2}, sizes(inf.Store())); diff != "" {
			t.Errorf("store after a bad event (-want +got):\n%s", diff)
		}
		if got := inf.Store().ResourceVersion(); got != before {
			t.Errorf("version %s passed the event that was not applied, want %s", got, before)
		}
		err := inf.WaitForResourceVersion(t.Context(), m.ResourceVersion())
		var e *lw.Error
		if !errors.As(err, &e) || e.Key != key("bad") || e.Op != "transform" {
			t.Errorf("WaitForResourceVersion: %v", err)
		}
		// A relist that brings the same bad version changes nothing, and does not report it again.
		n := len(errs.all())
		m.Disconnect()
		m.Compact()
		time.Sleep(time.Minute)
		if diff := cmp.Diff(map[lw.Key]int{key("a"): 3, key("bad"): 2}, sizes(inf.Store())); diff != "" {
			t.Errorf("store after a relist (-want +got):\n%s", diff)
		}
		for _, err := range errs.all()[n:] {
			if errors.As(err, &e) && e.Op == "transform" {
				t.Errorf("reported again: %v", err)
			}
		}
		update(t, m, "bad", 4)
		time.Sleep(time.Minute)
		if err := inf.WaitForResourceVersion(t.Context(), m.ResourceVersion()); err != nil {
			t.Error(err)
		}
		if got := inf.Store().ResourceVersion(); got != m.ResourceVersion() {
			t.Errorf("version %s, want %s", got, m.ResourceVersion())
		}
	})
	t.Run("failed requests", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			down := errors.New("connection refused")
			src := &script{
				lists:   []reply{{err: down}, list("10", stamped("a", 1, "9"))},
				watches: []stream{{err: down}, {err: apierrors.NewInternalError(errors.New("etcd"))}, {events: []lw.WatchEvent[*Widget]{{Type: "WEIRD"}}}, forever()},
			}
			errs := &errorLog{}
			inf := lw.NewInformer[*Widget](src, &lw.Options{List: lw.ListPages, OnError: errs.add})
			start(t, inf)
			time.Sleep(5 * time.Minute)
			var ops []string
			for _, err := range errs.all() {
				var e *lw.Error
				if !errors.As(err, &e) {
					t.Fatalf("%v is not an *Error", err)
				}
				ops = append(ops, e.Op)
			}
			if diff := cmp.Diff([]string{"list", "watch", "watch", "watch"}, ops); diff != "" {
				t.Errorf("reported (-want +got):\n%s", diff)
			}
			if s := inf.Status(); s.Failures != 0 || s.Err != nil {
				t.Errorf("a healthy informer says %d failures, %v", s.Failures, s.Err)
			}
		})
	})
}

// Point 12: exactly once per version, whatever the way it came in.
func TestTransformExactlyOnce(t *testing.T) {
	for _, mode := range []lw.ListMode{lw.ListStream, lw.ListPages, lw.ListWhole} {
		t.Run(mode.String(), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				m := lw.NewMemory(widget("a", 1), widget("b", 1), widget("c", 1))
				calls := map[string]int{}
				src := lw.Transform(m, func(w *Widget) (*Widget, error) {
					calls[w.Name+"@"+w.ResourceVersion]++
					return w, nil
				})
				inf := lw.NewInformer(src, &lw.Options{List: mode, PageSize: 2})
				inf.AddHandler(lw.Handler[*Widget]{Update: func(_, _ *Widget) {}, Resync: time.Second})
				start(t, inf)
				time.Sleep(10 * time.Second)
				update(t, m, "a", 2)
				remove(t, m, "b")
				time.Sleep(10 * time.Second)
				inf.AddHandler(lw.Handler[*Widget]{Add: func(*Widget) {}})
				time.Sleep(10 * time.Second)
				if len(calls) != 4 {
					t.Errorf("transformed %v, want 4 versions", calls)
				}
				for version, n := range calls {
					if n != 1 {
						t.Errorf("%s was transformed %d times", version, n)
					}
				}
			})
		})
	}
}

// Point 13: Run returns at once when it is cancelled, from any state, with nothing left running.
func TestStopIsPromptAndComplete(t *testing.T) {
	hang := stream{open: true}
	for name, src := range map[string]*script{
		"list hangs":     {lists: []reply{{hang: true}}},
		"between pages":  {lists: []reply{{obj: list("10", stamped("a", 1, "9")).obj, meta: metav1.ListMeta{ResourceVersion: "10", Continue: "x"}}, {hang: true}}},
		"backing off":    {lists: []reply{{err: apierrors.NewTooManyRequests("later", 60)}}},
		"watch is quiet": {lists: []reply{list("10", stamped("a", 1, "9"))}, watches: []stream{hang}},
		"watch fails":    {lists: []reply{list("10", stamped("a", 1, "9"))}, watches: []stream{{err: errors.New("refused")}}},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				inf := lw.NewInformer[*Widget](src, &lw.Options{List: lw.ListPages, OnError: func(error) {}})
				calls := 0
				inf.AddHandler(lw.Handler[*Widget]{Add: func(*Widget) { calls++ }, Resync: time.Millisecond, Update: func(_, _ *Widget) { calls++ }})
				ctx, cancel := context.WithCancel(t.Context())
				done := make(chan error, 1)
				go func() { done <- inf.Run(ctx) }()
				time.Sleep(1500 * time.Millisecond)
				cancel()
				before := time.Now()
				if err := <-done; err != nil {
					t.Errorf("Run: %v", err)
				}
				if took := time.Since(before); took > 0 {
					t.Errorf("Run returned after %v", took)
				}
				n := calls
				time.Sleep(time.Minute)
				if calls != n {
					t.Error("a call came after Run had returned")
				}
				if err := inf.Run(t.Context()); err != lw.ErrStarted {
					t.Errorf("a second Run: %v", err)
				}
				reg := inf.AddHandler(lw.Handler[*Widget]{Add: func(*Widget) { t.Error("a call after the stop") }})
				<-reg.Done()
				if err := reg.WaitForSync(t.Context()); !errors.Is(err, lw.ErrStopped) {
					t.Errorf("a handler of a stopped informer: %v", err)
				}
			})
		})
	}
	t.Run("remove", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			m := lw.NewMemory(widget("a", 1))
			inf := run(t, m, nil)
			calls := 0
			var reg *lw.Registration
			var mu sync.Mutex
			mu.Lock()
			reg = inf.AddHandler(lw.Handler[*Widget]{
				Add:    func(*Widget) { calls++ },
				Update: func(_, _ *Widget) { calls++; mu.Lock(); reg.Remove(); mu.Unlock() },
			})
			mu.Unlock()
			synctest.Wait()
			update(t, m, "a", 2)
			update(t, m, "a", 3)
			<-reg.Done()
			update(t, m, "a", 4)
			synctest.Wait()
			if calls != 2 {
				t.Errorf("%d calls, want an Add and the Update that removed the handler", calls)
			}
			reg.Remove()

			early := lw.NewInformer(m, nil)
			reg = early.AddHandler(lw.Handler[*Widget]{Add: func(*Widget) { t.Error("a call after Remove") }})
			reg.Remove()
			<-reg.Done()
			start(t, early)
			time.Sleep(time.Second)
		})
	})
}

// Point 14: whatever the server does, requests are few: at most 10 in any second and 60 in any minute, and the pauses grow.
func TestBoundedRetries(t *testing.T) {
	full := list("10", stamped("a", 1, "9"))
	bookmark := func(rv string) lw.WatchEvent[*Widget] {
		return lw.WatchEvent[*Widget]{Type: watch.Bookmark, ResourceVersion: rv}
	}
	n := 10
	for name, tc := range map[string]struct {
		src  *script
		most int // requests in an hour
	}{
		"lists fail":         {&script{list: func() reply { return reply{err: errors.New("refused")} }}, 150},
		"watches fail":       {&script{list: func() reply { return full }, watch: func() stream { return stream{err: errors.New("refused")} }}, 200},
		"watches end empty":  {&script{list: func() reply { return full }, watch: func() stream { return stream{} }}, 200},
		"endless 410":        {&script{list: func() reply { return full }, watch: expired}, 400},
		"410 in the stream":  {&script{list: func() reply { return full }, watch: func() stream { return expiredAfter(0) }}, 400},
		"a bookmark and out": {&script{list: func() reply { return full }, watch: func() stream { n++; return stream{events: []lw.WatchEvent[*Widget]{bookmark(strconv.Itoa(n))}} }}, 3600},
		"no end bookmark":    {&script{list: func() reply { return full }, stream: func() stream { return stream{events: []lw.WatchEvent[*Widget]{added("a", "9")}, open: true} }}, 100},
		"streams are cut":    {&script{list: func() reply { return full }, stream: func() stream { return stream{events: []lw.WatchEvent[*Widget]{added("a", "9")}} }}, 100},
		"streams break": {&script{list: func() reply { return full }, stream: func() stream {
			return stream{events: []lw.WatchEvent[*Widget]{added("a", "9")}, err: errors.New("reset")}
		}}, 100},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				mode := lw.ListWhole
				if tc.src.stream != nil {
					mode = lw.ListAuto
				}
				inf := lw.NewInformer[*Widget](tc.src, &lw.Options{List: mode, OnError: func(error) {}})
				start(t, inf)
				time.Sleep(time.Hour)
				at := tc.src.requests()
				if len(at) > tc.most {
					t.Errorf("%d requests in an hour, want at most %d", len(at), tc.most)
				}
				for i := range at {
					if i >= 10 && at[i].Sub(at[i-10]) < time.Second {
						t.Fatalf("more than 10 requests in a second at %d", i)
					}
					if i >= 60 && at[i].Sub(at[i-60]) < time.Minute {
						t.Fatalf("more than 60 requests in a minute at %d", i)
					}
				}
				if tc.src.stream != nil && !inf.Status().Synced {
					t.Error("not synced, though the server lists")
				}
			})
		})
	}
	t.Run("Retry-After", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			src := &script{list: func() reply { return reply{err: apierrors.NewTooManyRequests("later", 45)} }}
			start(t, lw.NewInformer[*Widget](src, &lw.Options{List: lw.ListPages, OnError: func(error) {}}))
			time.Sleep(10 * time.Minute)
			at := src.requests()
			if len(at) < 5 {
				t.Fatalf("%d requests in ten minutes", len(at))
			}
			for i := range at[1:] {
				if pause := at[i+1].Sub(at[i]); pause < 45*time.Second || pause > time.Minute {
					t.Errorf("pause %d was %v", i, pause)
				}
			}
		})
	})
	t.Run("grows", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			src := &script{list: func() reply { return reply{err: errors.New("refused")} }}
			inf := lw.NewInformer[*Widget](src, &lw.Options{
				List: lw.ListPages, OnError: func(error) {},
				Backoff: func(failures int) time.Duration { return time.Duration(failures) * time.Minute },
			})
			start(t, inf)
			time.Sleep(20 * time.Hour)
			at := src.requests()
			for i := range at[1:] {
				if pause := at[i+1].Sub(at[i]); pause != time.Duration(i+1)*time.Minute {
					t.Errorf("pause %d was %v", i+1, pause)
				}
			}
			if got := inf.Status().Failures; got != len(at) {
				t.Errorf("%d failures, want %d", got, len(at))
			}
		})
	})
}

// Point 15: after WaitForResourceVersion every read shows at least that version; where versions have no order it says so.
func TestReadYourWrites(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := lw.NewMemory(widget("a", 1))
		inf := run(t, m, nil)
		for i := range 50 {
			w := update(t, m, "a", i)
			if i%10 == 5 {
				m.Disconnect()
				m.Compact()
			}
			if err := inf.WaitForResourceVersion(t.Context(), w.ResourceVersion); err != nil {
				t.Fatal(err)
			}
			if got, _ := inf.Store().Get(key("a")); got.Size != i {
				t.Fatalf("after the wait the store holds %d, want %d", got.Size, i)
			}
		}
		remove(t, m, "a")
		if err := inf.WaitForResourceVersion(t.Context(), m.ResourceVersion()); err != nil {
			t.Fatal(err)
		}
		if _, ok := inf.Store().Get(key("a")); ok {
			t.Error("after the wait for its deletion the object is there")
		}
		for _, version := range []string{"", "0", "abc", "-1", "07"} {
			if err := inf.WaitForResourceVersion(t.Context(), version); err == nil {
				t.Errorf("a wait for version %q ended well", version)
			}
		}
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		if err := inf.WaitForResourceVersion(ctx, "1000000000000000000000000000000"); !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("a wait for the far future: %v", err)
		}
	})
	t.Run("opaque", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			src := &script{list: func() reply { return list("v-one", stamped("a", 1, "v-zero")) }, watch: forever}
			inf := lw.NewInformer[*Widget](src, &lw.Options{List: lw.ListWhole})
			start(t, inf)
			time.Sleep(time.Second)
			if err := inf.WaitForResourceVersion(t.Context(), "5"); err == nil {
				t.Error("a wait on versions without an order ended well")
			}
		})
	})
}

func as(err error, is func(error) bool) bool {
	var status apierrors.APIStatus
	if !errors.As(err, &status) {
		return false
	}
	e, ok := status.(error)
	return ok && is(e)
}

func uid(name string, id types.UID, rv string) *Widget {
	w := stamped(name, 1, rv)
	w.UID = id
	return w
}
