package http_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/go-lw/lw"
	"github.com/go-lw/lw/internal/verify/rig"
	"github.com/go-lw/lw/lwtest"
	"github.com/go-lw/lw/verify/internal/inside"
)

// runGroup runs g until stop is called, or the test ends. stop returns what Run has returned.
func runGroup(t *testing.T, g *lw.Group) (stop func() error) {
	ctx, cancel := context.WithCancel(context.Background())
	result, done := error(nil), make(chan struct{})
	go func() { result = g.Run(ctx); close(done) }()
	stop = func() error { cancel(); <-done; return result }
	t.Cleanup(func() { _ = stop() }) // the test has looked at the error, if it wants to
	synctest.Wait()
	return stop
}

func mustKeep(t *testing.T, g *lw.Group, wantMembers, wantKeys int) {
	t.Helper()
	if members, keys := inside.Kept(g); members != wantMembers || keys != wantKeys {
		t.Errorf("the group has %d informers and %d keys, want %d and %d", members, keys, wantMembers, wantKeys)
	}
}

// phases says what the group's informers are doing: "a idle b watching".
func phases(g *lw.Group) string {
	var all []string
	for _, s := range g.Status() {
		all = append(all, s.Name+" "+s.Phase)
	}
	return strings.Join(all, " ")
}

func mustBePhases(t *testing.T, g *lw.Group, want string) {
	t.Helper()
	synctest.Wait()
	if got := phases(g); got != want {
		t.Errorf("the informers are %q, want %q", got, want)
	}
}

func named(name string) *lw.Options {
	return &lw.Options{Name: name, OnError: func(error) {}}
}

// refused is a server that cannot be reached.
func refused() *lw.Memory[*rig.Widget] {
	m := lw.NewMemory[*rig.Widget]()
	m.Fail(syscall.ECONNREFUSED)
	return m
}

// permanent is a source that no retry can mend.
func permanent() lw.Source[*rig.Widget] { return &lw.HTTP[*rig.Widget]{URL: "ftp://server"} }

// The informers of a group start and stop with it. Those that are added meanwhile start at once,
// and those that come too late stop.
func TestGroupRun(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var g lw.Group
		if err := g.WaitForSync(t.Context()); err != nil || len(g.Status()) != 0 {
			t.Errorf("an empty group: %v, %v", err, g.Status())
		}
		early := lw.NewInformer(lw.NewMemory(rig.NewWidget("a", 1)), named("early"))
		g.Add(early)
		mustBePhases(t, &g, "early idle")
		stop := runGroup(t, &g)
		late := lw.NewInformer(lw.NewMemory(rig.NewWidget("a", 1)), named("late"))
		removeLate := g.Add(late)
		patience, cancel := context.WithTimeout(t.Context(), time.Hour)
		defer cancel()
		rig.OK(t, g.WaitForSync(patience))
		mustBePhases(t, &g, "early watching late watching")
		if err := g.Run(t.Context()); err != lw.ErrStarted {
			t.Errorf("a second Run: %v", err)
		}
		removeLate()
		rig.Same(t, "phase of an informer that was removed", "stopped", late.Status().Phase)
		mustBePhases(t, &g, "early watching")
		rig.OK(t, stop())
		mustBePhases(t, &g, "early stopped")
		if err := g.Run(t.Context()); err != lw.ErrStarted {
			t.Errorf("a second Run: %v", err)
		}
		tooLate := lw.NewInformer(lw.NewMemory[*rig.Widget](), named("too late"))
		remove := g.Add(tooLate)
		if !closed(tooLate.Stopped()) {
			t.Errorf("an informer that came too late is %s", tooLate.Status().Phase)
		}
		mustBePhases(t, &g, "early stopped too late stopped")
		remove()
		remove()
		removeLate()
		mustKeep(t, &g, 1, 0)
	})
}

// Both remove and Run wait for the informer to end: for a call of a handler that is running.
func TestGroupWaits(t *testing.T) {
	for what, ends := range map[string]func(remove func(), stop func() error) error{
		"remove": func(remove func(), _ func() error) error {
			go remove() // the second call waits too
			remove()
			return nil
		},
		"Run": func(_ func(), stop func() error) error { return stop() },
	} {
		rig.Subtest(t, what, func(t *testing.T) {
			var g lw.Group
			stop := runGroup(t, &g)
			inf := lw.NewInformer(lw.NewMemory(rig.NewWidget("a", 1)), nil)
			inf.AddHandler(lw.Handler[*rig.Widget]{Add: func(*rig.Widget) { time.Sleep(time.Minute) }})
			remove := g.Add(inf)
			synctest.Wait()
			before := time.Now()
			if err := ends(remove, stop); err != nil || time.Since(before) != time.Minute || !closed(inf.Stopped()) {
				t.Errorf("it took %v: %v, and the informer is %s", time.Since(before), err, inf.Status().Phase)
			}
			if what == "remove" {
				mustKeep(t, &g, 0, 0)
			}
		})
	}
}

func closed(c <-chan struct{}) bool {
	select {
	case <-c:
		return true
	default:
		return false
	}
}

// An informer that a group has not started is the caller's again when it was removed.
func TestGroupRemoveIdle(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var g lw.Group
		inf := lw.NewInformer(lw.NewMemory(rig.NewWidget("a", 1)), nil)
		g.Add(inf)()
		runGroup(t, &g)
		mustKeep(t, &g, 0, 0)
		rig.Start(t, inf)
		rig.OK(t, inf.WaitForSync(t.Context()))
	})
}

// An informer that ends early, with an error, is shown at once, and does not end the others. Run's
// error names it in the end.
func TestGroupWithPermanentError(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var g lw.Group
		g.Add(lw.NewInformer(lw.NewMemory(rig.NewWidget("a", 1)), named("good")))
		g.Add(lw.NewInformer(permanent(), named("bad")))
		mine := lw.NewInformer(lw.NewMemory(rig.NewWidget("a", 1)), named("mine"))
		rig.Start(t, mine)
		synctest.Wait()
		g.Add(mine)
		removed := g.Add(lw.NewInformer(permanent(), named("removed")))
		stop := runGroup(t, &g)
		removed()
		mustBePhases(t, &g, "good watching bad stopped mine watching")

		before := time.Now()
		err := g.WaitForSync(t.Context())
		if err == nil || !strings.HasPrefix(err.Error(), "lw: bad: ") || strings.Contains(err.Error(), "\n") || time.Since(before) > 0 {
			t.Errorf("WaitForSync: %v after %v", err, time.Since(before))
		}
		if !errors.Is(err, lw.ErrPermanent) || !errors.Is(err, lw.ErrStopped) {
			t.Errorf("WaitForSync: %v", err)
		}
		time.Sleep(time.Hour)
		mustBePhases(t, &g, "good watching bad stopped mine watching")
		err = stop()
		want := "lw: bad: stream: HTTP: URL \"ftp://server\": want http://host/… or https://host/… (no retry can help, so Run has ended)\nlw: mine: already started"
		if fmt.Sprint(err) != want || !errors.Is(err, lw.ErrPermanent) || !errors.Is(err, lw.ErrStarted) {
			t.Errorf("Run said\n%v\nwant\n%s", err, want)
		}
	})
}

// A wait for a group says of each informer that has not synced which it is, and why.
func TestWaitForSyncOfSeveral(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		failing := refused()
		var g lw.Group
		good := lw.NewInformer(lw.NewMemory[*rig.Widget](), named("good"))
		bad := lw.NewInformer(failing, named("bad"))
		worse := lw.NewInformer(failing, named("worse"))
		reg := worse.AddHandler(lw.Handler[*rig.Widget]{Add: func(*rig.Widget) {}})
		g.Add(good)
		g.Add(bad)
		g.Add(worse)
		runGroup(t, &g)
		errForeign := errors.New("foreign")
		foreign := syncerFunc(func(context.Context) error { return errForeign })
		cause := errors.New("enough")
		ctx, cancel := context.WithTimeoutCause(t.Context(), time.Minute, cause)
		defer cancel()

		err := fmt.Errorf("start: %w", lw.WaitForSync(ctx, good, reg, &g, foreign))
		var lines []string
		for _, s := range []lw.Syncer{reg, bad, worse, foreign} {
			lines = append(lines, s.WaitForSync(ctx).Error())
		}
		rig.Same(t, "not synced", "start: "+strings.Join(lines, "\n"), err.Error())
		if !errors.Is(err, cause) || !errors.Is(err, syscall.ECONNREFUSED) || !errors.Is(err, errForeign) {
			t.Errorf("it wraps too little: %v", err)
		}
	})
}

type syncerFunc func(context.Context) error

func (f syncerFunc) WaitForSync(ctx context.Context) error { return f(ctx) }

// A wait does not wait for an informer that was removed meanwhile, whether it ran or not.
func TestGroupWaitForRemoved(t *testing.T) {
	for _, runs := range []bool{true, false} {
		rig.Subtest(t, fmt.Sprint("runs ", runs), func(t *testing.T) {
			failing := refused()
			var g lw.Group
			remove := g.Add(lw.NewInformer(failing, named("bad")))
			if runs {
				runGroup(t, &g)
			}
			time.AfterFunc(time.Hour, remove)
			before := time.Now()
			if err := g.WaitForSync(t.Context()); err != nil || time.Since(before) != time.Hour {
				t.Errorf("after %v: %v", time.Since(before), err)
			}
		})
	}
}

// A wait goes on with those that are in the group behind one that leaves meanwhile.
func TestGroupWaitGoesOn(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		failing, late := refused(), refused()
		var g lw.Group
		remove := g.Add(lw.NewInformer(failing, named("bad")))
		second := lw.NewInformer(late, named("late"))
		g.Add(second)
		third := lw.NewInformer(lw.NewMemory[*rig.Widget](), named("good"))
		g.Add(third)
		runGroup(t, &g)
		time.AfterFunc(time.Hour, remove)
		time.AfterFunc(2*time.Hour, func() { late.Fail(nil) })
		before := time.Now()
		if err := g.WaitForSync(t.Context()); err != nil || time.Since(before) < 2*time.Hour || !second.Status().Synced || !third.Status().Synced {
			t.Errorf("after %v: %v", time.Since(before), err)
		}
	})
}

// A kind that comes and goes, such as that of a CustomResourceDefinition: its informer is removed,
// and no request for it is made any more. When the kind has come back, a new informer follows it.
func TestGroupWithKindThatGoes(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		server := lwtest.NewServer(t,
			lwtest.Resource{Group: "lw.test", Plural: "gadgets", Kind: "Gadget"}, lwtest.Resource{Group: "lw.test", Plural: "gears", Kind: "Gear"})
		gadgets, gears := lwtest.Objects[*rig.Gadget](server, "gadgets"), lwtest.Objects[*rig.Gadget](server, "gears")
		rig.Must[*rig.Gadget](t)(gears.Create(&rig.Gadget{ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: "a"}}))
		var g lw.Group
		runGroup(t, &g)
		g.Add(lw.NewInformer(gadgets.Source(), named("gadgets")))
		requests := func() (n int) {
			for _, r := range server.Requests() {
				if r.Plural == "gears" {
					n++
				}
			}
			return n
		}
		var before int
		for range 3 {
			follow := lw.NewInformer(gears.Source(), named("gears"))
			remove := g.Add(follow)
			if err := g.WaitForSync(t.Context()); err != nil || follow.Store().Len() != 1 {
				t.Fatalf("%v, %d objects", err, follow.Store().Len())
			}
			if before == requests() {
				t.Error("no request was made")
			}
			remove()
			before = requests()
			time.Sleep(time.Hour)
			rig.Same(t, "requests after the informer was removed", before, requests())
		}
		mustBePhases(t, &g, "gadgets watching")
	})
}

// No code of the user runs under the lock of a group: it may call the group's methods.
func TestGroupCallsItself(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var g lw.Group
		var calls atomic.Int32
		use := func() {
			calls.Add(1)
			g.Status()
			inside.Kept(&g)
			g.Add(&selfish{})()
		}
		inf, release := lw.Share(&g, "a", func() lw.Source[*rig.Widget] {
			use()
			return lw.Transform(lw.NewMemory(rig.NewWidget("a", 1)), func(w *rig.Widget) (*rig.Widget, error) { use(); return w, nil })
		}, nil)
		inf.AddHandler(lw.Handler[*rig.Widget]{Add: func(*rig.Widget) { use() }})
		g.Add(&selfish{use: use})
		stop := runGroup(t, &g)
		rig.OK(t, g.WaitForSync(t.Context()))
		release()
		rig.OK(t, stop())
		rig.Same(t, "calls: of the source, its Transform, the handler, and of three methods", 6, calls.Load())
	})
}

// selfish is an informer of another package. Each of its methods calls use the first time.
type selfish struct {
	use                 func()
	ran, waited, looked atomic.Bool
}

func (s *selfish) call(before *atomic.Bool) {
	if s.use != nil && !before.Swap(true) {
		s.use()
	}
}

func (s *selfish) Run(ctx context.Context) error {
	s.call(&s.ran)
	<-ctx.Done()
	return nil
}

func (s *selfish) WaitForSync(context.Context) error {
	s.call(&s.waited)
	return nil
}

func (s *selfish) WaitForResourceVersion(context.Context, string) error { return nil }

func (s *selfish) Status() lw.Status {
	s.call(&s.looked)
	return lw.Status{StoreStatus: lw.StoreStatus{Name: "selfish"}}
}

func TestGroupPanics(t *testing.T) {
	var g lw.Group
	var none *lw.Informer[*rig.Widget]
	source := func() lw.Source[*rig.Widget] { return lw.NewMemory[*rig.Widget]() }
	rig.MustPanic(t, "lw: Group.Add: nil Runner", func() { g.Add(none) })
	rig.MustPanic(t, "lw: Group.Add: nil Runner", func() { g.Add(nil) })
	rig.MustPanic(t, "lw: Share: nil group", func() { lw.Share(nil, "a", source, nil) })
	rig.MustPanic(t, "lw: Share: nil function", func() { lw.Share[*rig.Widget](&g, "a", nil, nil) })
	rig.MustPanic(t, "lw: Share: nil source", func() { lw.Share(&g, "a", func() lw.Source[*rig.Widget] { return nil }, nil) })
	nan := 0.0
	nan /= nan
	rig.MustPanic(t, "lw: Share: key NaN is not equal to itself", func() { lw.Share(&g, nan, source, nil) })
	rig.MustPanic(t, "comparing uncomparable type []int", func() { lw.Share[*rig.Widget, any](&g, []int{1}, source, nil) })
	mustKeep(t, &g, 0, 0)
}
