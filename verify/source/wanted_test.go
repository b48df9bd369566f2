package source_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/go-lw/lw"
	"github.com/go-lw/lw/internal/verify/rig"
)

// TestWanted has a row for each order in which a key can become wanted and not be wanted any more.
func TestWanted(t *testing.T) {
	type world struct {
		t    *testing.T
		src  *distant
		keys *lw.KeySet
		inf  *lw.Informer[*rig.Widget]
		errs *rig.Errors
	}
	want := func(w *world, names ...string) {
		var keys []lw.Key
		for _, name := range names {
			keys = append(keys, rig.Key(name))
		}
		w.keys.Set("test", keys...)
		synctest.Wait()
	}
	is := func(w *world, want string) {
		w.t.Helper()
		synctest.Wait()
		rig.Same(w.t, "", want, shown(w.inf, "a", "b", "c"))
	}
	run := func(w *world) {
		rig.Start(w.t, w.inf)
		synctest.Wait()
	}
	for _, tt := range []struct {
		name  string
		do    func(w *world)
		calls []string // the changes that handlers learn of
		parts int      // reads
		lists int
	}{
		{"before the first list", func(w *world) {
			want(w, "a", "c")
			is(w, "a:coming b:unwanted c:coming")
			run(w)
			is(w, "a:there=1 b:unwanted c:absent")
			rig.Create(w.t, w.src.Memory, "c", 5)
			rig.Update(w.t, w.src.Memory, "b", 9)
			is(w, "a:there=1 b:unwanted c:there=5")
		}, []string{"added a initial", "added c watch"}, 0, 1},
		{"told before the first list", func(w *world) {
			want(w, "a")
			rig.OK(w.t, errors.Join(w.inf.Tell(rig.Stamped("a", 5, "100")), w.inf.Tell(rig.Stamped("b", 5, "100"))))
			run(w)
			is(w, "a:there=5 b:unwanted c:unwanted")
		}, []string{"added a initial"}, 0, 1},
		{"during the first list", func(w *world) {
			w.src.before = time.Second
			run(w)
			want(w, "a")
			rig.OK(w.t, w.inf.Tell(rig.Stamped("a", 5, "100"))) // which the read will know
			is(w, "a:coming b:unwanted c:unwanted")
			rig.Sleep(1500 * time.Millisecond)
			is(w, "a:coming b:unwanted c:unwanted")
			rig.Sleep(time.Second)
			is(w, "a:there=1 b:unwanted c:unwanted")
		}, []string{"added a wanted"}, 1, 1},
		{"let go during the first list", func(w *world) {
			w.src.before = time.Second
			run(w)
			want(w, "a")
			waited := make(chan error, 1)
			go func() { waited <- w.inf.WaitForKey(w.t.Context(), rig.Key("a")) }()
			synctest.Wait()
			want(w)
			synctest.Wait()
			select {
			case err := <-waited:
				if !errors.Is(err, lw.ErrUnwanted) {
					w.t.Errorf("WaitForKey: %v", err)
				}
			default:
				w.t.Error("WaitForKey waits for what nobody wants")
			}
			rig.Sleep(time.Minute)
			is(w, "a:unwanted b:unwanted c:unwanted")
		}, nil, 0, 1},
		{"after it", func(w *world) {
			run(w)
			want(w, "a", "c")
			is(w, "a:there=1 b:unwanted c:absent")
			want(w)
			is(w, "a:unwanted b:unwanted c:unwanted")
		}, []string{"added a wanted", "deleted a wanted"}, 2, 1},
		{"an event during the read", func(w *world) {
			run(w)
			w.src.after = time.Second
			want(w, "a", "b", "c")
			rig.Update(w.t, w.src.Memory, "a", 2)
			rig.Remove(w.t, w.src.Memory, "b")
			rig.Create(w.t, w.src.Memory, "c", 3)
			is(w, "a:coming b:coming c:coming")
			rig.Sleep(time.Second)
			is(w, "a:there=2 b:absent c:there=3")
		}, []string{"added a wanted", "added c wanted"}, 3, 1},
		{"a late watch", func(w *world) {
			run(w)
			w.src.lag = time.Second
			rig.Update(w.t, w.src.Memory, "a", 2)
			rig.Remove(w.t, w.src.Memory, "b")
			rig.Create(w.t, w.src.Memory, "c", 3)
			want(w, "a", "b", "c")
			is(w, "a:there=2 b:absent c:there=3")
			rig.Update(w.t, w.src.Memory, "a", 4)
			rig.Sleep(time.Minute)
			is(w, "a:there=4 b:absent c:there=3")
		}, []string{"added a wanted", "added c wanted", "updated a watch"}, 3, 1},
		{"let go and wanted at once", func(w *world) {
			want(w, "a")
			run(w)
			w.keys.Set("test")
			w.keys.Set("other", rig.Key("a"))
			is(w, "a:there=1 b:unwanted c:unwanted")
		}, []string{"added a initial"}, 0, 1},
		{"let go during the read", func(w *world) {
			run(w)
			w.src.after = time.Second
			want(w, "a")
			want(w)
			rig.Sleep(3 * time.Second)
			is(w, "a:unwanted b:unwanted c:unwanted")
		}, nil, 1, 1},
		{"two owners", func(w *world) {
			want(w, "a", "a")
			w.keys.Set("other", rig.Key("a"))
			run(w)
			want(w)
			is(w, "a:there=1 b:unwanted c:unwanted")
			w.keys.Set("other", lw.Key{Namespace: "default"})
			is(w, "a:unwanted b:unwanted c:unwanted")
		}, []string{"added a initial", "deleted a wanted"}, 0, 1},
		{"a relist", func(w *world) {
			want(w, "a")
			run(w)
			w.src.set(func() { w.src.before = time.Second })
			w.src.breakWatch(true)
			rig.Sleep(100 * time.Millisecond)
			rig.Update(w.t, w.src.Memory, "a", 2)
			want(w, "b")
			rig.Sleep(time.Minute)
			is(w, "a:unwanted b:there=1 c:unwanted")
		}, []string{"added a initial", "deleted a wanted", "added b wanted"}, -1, 2},
		{"an older list after the read", func(w *world) {
			run(w)
			w.src.set(func() { w.src.before = 20 * time.Second })
			want(w, "a", "b")
			w.src.set(func() { w.src.before, w.src.after = 0, 40*time.Second })
			w.src.breakWatch(true)
			rig.Sleep(10 * time.Second) // the list has seen both, and the reads after it see no "a"
			rig.Remove(w.t, w.src.Memory, "a")
			rig.Update(w.t, w.src.Memory, "b", 2)
			rig.Sleep(15 * time.Second)
			is(w, "a:absent b:there=2 c:unwanted")
			rig.Sleep(time.Minute)
			is(w, "a:absent b:there=2 c:unwanted")
		}, []string{"added b wanted"}, 2, 2},
		{"an older list after the read and what was told, which is not so", func(w *world) {
			run(w)
			w.src.set(func() { w.src.before = 20 * time.Second })
			want(w, "a", "b", "c")
			w.src.set(func() { w.src.before, w.src.after = 0, 40*time.Second })
			w.src.breakWatch(true)
			rig.Sleep(10 * time.Second) // the list has seen the first b
			rig.Update(w.t, w.src.Memory, "b", 2)
			rig.Sleep(15 * time.Second)
			is(w, "a:there=1 b:there=2 c:absent")
			w.src.set(func() { w.src.lag = 10 * time.Minute })
			at := rig.Update(w.t, w.src.Memory, "b", 3).ResourceVersion
			held, _ := w.inf.Store().Get(rig.Key("a"))
			rig.OK(w.t, errors.Join(w.inf.Tell(rig.Stamped("c", 5, at)), w.inf.TellDeleted(rig.Key("a"), held.UID, at)))
			rig.Sleep(time.Minute)
			is(w, "a:absent b:there=2 c:there=5")
			w.src.set(func() { w.src.lag = 0 })
			rig.Sleep(time.Hour)
			rig.Update(w.t, w.src.Memory, "b", 4)
			is(w, "a:there=1 b:there=4 c:absent")
		}, []string{"added a wanted", "added b wanted", "added c told", "deleted a told", "deleted c watch", "added a watch",
			"updated b watch", "updated b watch"}, 3, 2},
		{"a server that is restored to before the read", func(w *world) {
			run(w)
			rig.Update(w.t, w.src.Memory, "b", 2)
			rig.Update(w.t, w.src.Memory, "b", 3)
			synctest.Wait()
			w.src.set(func() { w.src.lag = time.Hour })
			before := w.inf.Store().ResourceVersion()
			rig.Update(w.t, w.src.Memory, "b", 4)
			rig.Update(w.t, w.src.Memory, "a", 2)
			want(w, "a", "b")
			is(w, "a:there=2 b:there=4 c:unwanted")
			w.src.set(func() { w.src.lag = 0 })
			rig.OK(w.t, w.src.Rewind(before)) // nobody can see that the position is of another history
			rig.Sleep(11 * time.Minute)
			w.src.breakWatch(true)
			rig.Sleep(time.Minute)
			is(w, "a:there=1 b:there=3 c:unwanted")
			rig.Update(w.t, w.src.Memory, "a", 5)
			is(w, "a:there=5 b:there=3 c:unwanted")
			w.src.set(func() { w.src.lag = time.Hour })
			rig.Update(w.t, w.src.Memory, "a", 6)
			want(w, "b")
			want(w, "a", "b")
			is(w, "a:there=6 b:there=3 c:unwanted")
			w.src.set(func() { w.src.lag = 0 })
			rig.OK(w.t, w.src.Rewind("3"))
			w.src.breakWatch(false)
			rig.Sleep(5 * time.Minute)
			is(w, "a:there=1 b:there=1 c:unwanted")
		}, nil, -1, -1},
		{"a read that fails", func(w *world) {
			run(w)
			w.src.fails = 2
			want(w, "a")
			is(w, "a:coming b:unwanted c:unwanted")
			ctx, cancel := context.WithTimeout(w.t.Context(), 100*time.Millisecond)
			defer cancel()
			err := w.inf.WaitForKey(ctx, rig.Key("a"))
			if !errors.Is(err, context.DeadlineExceeded) || !strings.Contains(err.Error(), "broken line") {
				w.t.Errorf("WaitForKey: %v", err)
			}
			rig.Sleep(time.Minute)
			is(w, "a:there=1 b:unwanted c:unwanted")
			if len(w.errs.All()) != 2 {
				w.t.Errorf("errors: %v", w.errs.All())
			}
		}, []string{"added a wanted"}, 3, 1},
		{"told during the read", func(w *world) {
			run(w)
			w.src.after, w.src.lag = time.Second, time.Hour
			want(w, "a", "b")
			rig.OK(w.t, w.inf.Tell(rig.Update(w.t, w.src.Memory, "a", 2)))
			gone := rig.Key("b")
			rig.Remove(w.t, w.src.Memory, "b")
			rig.OK(w.t, w.inf.TellDeleted(gone, "uid", ""))
			rig.Sleep(2 * time.Second)
			is(w, "a:there=2 b:absent c:unwanted")
		}, []string{"added a wanted"}, 4, 1},
		{"told what nobody wants", func(w *world) {
			run(w)
			w.src.lag = time.Hour
			rig.OK(w.t, w.inf.Tell(rig.Update(w.t, w.src.Memory, "a", 2)))
			is(w, "a:unwanted b:unwanted c:unwanted")
			want(w, "a")
			is(w, "a:there=2 b:unwanted c:unwanted")
			rig.OK(w.t, w.inf.Tell(rig.Update(w.t, w.src.Memory, "a", 3)))
			is(w, "a:there=3 b:unwanted c:unwanted")
			want(w)
			is(w, "a:unwanted b:unwanted c:unwanted")
		}, []string{"added a wanted", "updated a told", "deleted a wanted"}, 1, 1},
	} {
		rig.Subtest(t, tt.name, func(t *testing.T) {
			w := &world{t: t, src: newDistant("a", "b"), keys: &lw.KeySet{}, errs: &rig.Errors{}}
			w.inf = lw.NewInformer(lw.Wanted[*rig.Widget](w.src, w.keys), &lw.Options{List: lw.ListWhole, OnError: w.errs.Add})
			var mu sync.Mutex
			var calls []string
			go func() {
				for ev := range w.inf.Events(context.Background()) {
					mu.Lock()
					calls = append(calls, fmt.Sprint(ev.Type, " ", ev.Key().Name, " ", ev.Cause))
					mu.Unlock()
				}
			}()
			tt.do(w)
			synctest.Wait()
			mu.Lock()
			defer mu.Unlock()
			slices.Sort(calls) // reads end in any order
			slices.Sort(tt.calls)
			if diff := cmp.Diff(tt.calls, calls); diff != "" && tt.lists >= 0 {
				t.Errorf("calls (-want +got):\n%s", diff)
			}
			if tt.parts >= 0 && len(w.src.parts) != tt.parts || tt.lists >= 0 && w.src.lists != tt.lists {
				t.Errorf("%d lists and the reads %q, want %d and %d", w.src.lists, w.src.parts, tt.lists, tt.parts)
			}
		})
	}
}

// TestWantedMany: many keys at once are read by one list, here of two pages, and the others 16 at a
// time. If pages bring nothing, the list is asked for in one response.
func TestWantedMany(t *testing.T) {
	empty := func(token string) (metav1.ListMeta, error) {
		return metav1.ListMeta{ResourceVersion: "1001", Continue: token + "x"}, nil
	}
	expired := func(token string) (metav1.ListMeta, error) {
		if token != "" {
			return metav1.ListMeta{}, apierrors.NewResourceExpired("too old")
		}
		return empty(token)
	}
	for _, tt := range []struct {
		n, parts int
		pages    func(string) (metav1.ListMeta, error)
		mode     lw.ListMode // of the first list
	}{
		{16, 16, nil, ""}, {20, 20, nil, ""}, {60, 2, nil, ""}, {501, 2, nil, ""}, {60, 21, empty, ""}, {60, 3, expired, ""},
		{20, 20, nil, lw.ListWhole}, {20, 20, nil, lw.ListPages}, {60, 1, nil, lw.ListWhole},
	} {
		synctest.Test(t, func(t *testing.T) {
			var names []string
			for i := range 1000 {
				names = append(names, fmt.Sprint("w", i))
			}
			src, keys := newDistant(names...), &lw.KeySet{}
			inf := rig.Run(t, lw.Wanted[*rig.Widget](src, keys), &lw.Options{List: tt.mode})
			src.set(func() { src.after, src.pages = time.Second, tt.pages })
			var wanted []lw.Key
			for _, name := range names[:tt.n] {
				wanted = append(wanted, rig.Key(name))
			}
			keys.Set("all", wanted...)
			synctest.Wait()
			src.set(func() {
				within(t, "reads at a time", 0, len(src.parts), 16)
			})
			for _, key := range wanted {
				rig.OK(t, inf.WaitForKey(t.Context(), key))
			}
			src.set(func() {
				rig.Same(t, fmt.Sprint(tt.n, " keys: reads, objects"), []int{tt.parts, tt.n},
					[]int{len(src.parts), inf.Store().Len()})
			})
		})
	}
}

// TestWaitForKey: each end of a wait.
func TestWaitForKey(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		src, keys := newDistant("a"), &lw.KeySet{}
		inf := lw.NewInformer(lw.Wanted[*rig.Widget](src, keys), nil)
		stop := rig.Begin(t, inf)
		wait := func(ctx context.Context) chan error {
			c := make(chan error, 1)
			go func() { c <- inf.WaitForKey(ctx, rig.Key("a")) }()
			synctest.Wait()
			return c
		}
		check := func(c chan error, want error) {
			t.Helper()
			mustEnd(t, "a wait", want, <-c)
		}
		check(wait(t.Context()), lw.ErrUnwanted)
		src.set(func() { src.after = time.Second })
		keys.Set("me", rig.Key("a"))
		check(wait(rig.Canceled(t)), context.Canceled)
		waiting := wait(t.Context())
		keys.Set("me")
		check(waiting, lw.ErrUnwanted)
		keys.Set("me", rig.Key("a"))
		check(wait(t.Context()), nil)
		keys.Set("me")
		synctest.Wait()
		keys.Set("me", rig.Key("a"))
		waiting = wait(t.Context())
		stop()
		check(waiting, lw.ErrStopped)

		plain := rig.Run(t, lw.Source[*rig.Widget](src), nil)
		if err := plain.WaitForKey(t.Context(), rig.Key("b")); err != nil || plain.KeyState(rig.Key("b")) != lw.KeyAbsent {
			t.Errorf("without a Wanted: %v, %v", err, plain.KeyState(rig.Key("b")))
		}
	})
}

type blind struct{}

func (*blind) Begin(*lw.Snapshot[*rig.Widget], bool) {}
func (*blind) Change(lw.Delta[*rig.Widget])          {}
func (*blind) Progress(string)                       {}

// TestWantedUnsupported: what cannot be followed on demand ends at once with an error that says so.
func TestWantedUnsupported(t *testing.T) {
	type hidden struct{ lw.Source[*rig.Widget] }
	of := func(src lw.Source[*rig.Widget]) lw.Source[*rig.Widget] { return lw.Wanted(src, &lw.KeySet{}) }
	synctest.Test(t, func(t *testing.T) {
		ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
		defer cancel()
		for name, src := range map[string]lw.Source[*rig.Widget]{
			"a wrapper": hidden{of(newDistant())}, "no Teller": of(hidden{newDistant()}),
		} {
			err := lw.NewInformer(src, rig.Quiet()).Run(ctx)
			if !errors.Is(err, errors.ErrUnsupported) || !errors.Is(err, lw.ErrPermanent) {
				t.Errorf("%s: %v", name, err)
			}
		}
		err := lw.NewReflector(of(newDistant()), lw.Sink[*rig.Widget](lw.NewIndexer[*rig.Widget]()), rig.Quiet()).Run(ctx)
		mustEnd(t, "a Reflector", errors.ErrUnsupported, err)
		src := of(newDistant())
		first, end := context.WithCancel(ctx)
		ended := make(chan error, 1)
		go func() { ended <- lw.NewInformer(src, rig.Quiet()).Run(first) }()
		synctest.Wait()
		second := lw.NewInformer(src, rig.Quiet()).Run(ctx)
		mustEnd(t, "a second Informer at the same time", errors.ErrUnsupported, second)
		end()
		rig.OK(t, <-ended)
		inf := rig.Run(t, src, rig.Quiet()) // one after the other
		mustEnd(t, "Follow", errors.ErrUnsupported, lw.Follow(ctx, inf, lw.Follower[*rig.Widget](&blind{})))
	})
}

// TestWantedUnreadable: an object that cannot be read when it is wanted is no failed request. Who
// waits for it learns why, and it comes when it can be read.
func TestWantedUnreadable(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		src, keys, errs := newDistant("a", "b"), &lw.KeySet{}, &rig.Errors{}
		bad := errors.New("it is bad")
		inf := rig.Run(t, lw.Wanted(lw.Transform(lw.Source[*rig.Widget](src), func(w *rig.Widget) (*rig.Widget, error) {
			if w.Size == 7 {
				return nil, bad
			}
			return w, nil
		}), keys), &lw.Options{OnError: errs.Add})
		rig.Update(t, src.Memory, "a", 7)
		synctest.Wait()
		keys.Set("me", rig.Key("a"))
		synctest.Wait()
		mustEnd(t, "WaitForKey", bad, inf.WaitForKey(t.Context(), rig.Key("a")))
		if s := inf.Status(); s.Failed != 0 || len(errs.All()) != 1 || !errors.Is(errs.All()[0], bad) {
			t.Errorf("%d requests failed, and reported is %v", s.Failed, errs.All())
		}
		rig.Update(t, src.Memory, "a", 2)
		synctest.Wait()
		rig.OK(t, inf.WaitForKey(t.Context(), rig.Key("a")))
		rig.Same(t, "shown", "a:there=2", shown(inf, "a"))
	})
}

// A Transform, a Shard and options around a Wanted hold for what is read.
func TestWantedThroughWrappers(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		src, keys := newDistant("a", "b"), &lw.KeySet{}
		wanted := lw.WithListOptions(lw.Wanted[*rig.Widget](src, keys), func(*metav1.ListOptions) {})
		inf := rig.Run(t, lw.Shard(lw.Transform(wanted, func(w *rig.Widget) (*rig.Widget, error) {
			if w.Size == 7 {
				return nil, nil
			}
			w.Size *= 10
			return w, nil
		}), 0, 1), nil)
		keys.Set("me", rig.Key("a"))
		synctest.Wait()
		rig.Same(t, "shown", "a:there=10 b:unwanted", shown(inf, "a", "b"))
		rig.Update(t, src.Memory, "a", 7)
		synctest.Wait()
		rig.Same(t, "shown", "a:absent b:unwanted", shown(inf, "a", "b"))
	})
}
