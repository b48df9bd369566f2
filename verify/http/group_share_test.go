package http_test

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"regexp"
	"runtime"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/go-lw/lw"
	"github.com/go-lw/lw/internal/verify/rig"
	"github.com/go-lw/lw/lwtest"
)

// counted is a source function that counts its calls.
func counted[T lw.Object](src lw.Source[T]) (source func() lw.Source[T], calls *atomic.Int32) {
	calls = new(atomic.Int32)
	return func() lw.Source[T] { calls.Add(1); return src }, calls
}

// An informer is shared by the type of its objects and the key, from the first user to the last.
func TestShare(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var g lw.Group
		widgets, calls := counted[*rig.Widget](lw.NewMemory(rig.NewWidget("a", 1)))
		gadgets, _ := counted[*rig.Gadget](lw.NewMemory[*rig.Gadget]())
		type name string
		a, releaseA := lw.Share(&g, "x", widgets, &lw.Options{Name: "first"})
		b, releaseB := lw.Share(&g, "x", widgets, &lw.Options{Name: "second"})
		if a != b || calls.Load() != 1 || a.Status().Name != "first" {
			t.Errorf("%p and %p, called %d times, is %q", a, b, calls.Load(), a.Status().Name)
		}
		otherKey, _ := lw.Share(&g, "y", widgets, nil)
		otherKeyType, _ := lw.Share(&g, name("x"), widgets, nil)
		_, releaseGadgets := lw.Share(&g, "x", gadgets, nil)
		if a == otherKey || a == otherKeyType || otherKey == otherKeyType || calls.Load() != 3 {
			t.Error("shared by users of different keys")
		}
		mustKeep(t, &g, 4, 4)
		mustBePhases(t, &g, "first idle Widget[y] idle Widget[x] idle Gadget[x] idle")
		runGroup(t, &g)
		mustBePhases(t, &g, "first watching Widget[y] watching Widget[x] watching Gadget[x] watching")

		releaseA()
		releaseA()
		mustBePhases(t, &g, "first watching Widget[y] watching Widget[x] watching Gadget[x] watching")
		releaseGadgets()
		releaseB()
		rig.Same(t, "phase after the last release", "stopped", a.Status().Phase)
		releaseA()
		releaseB()
		mustBePhases(t, &g, "Widget[y] watching Widget[x] watching")
		mustKeep(t, &g, 2, 2)

		again, _ := lw.Share(&g, "x", widgets, nil)
		if again == a || calls.Load() != 4 {
			t.Errorf("a new user gets the old informer, after %d calls", calls.Load())
		}
		if err := again.WaitForSync(t.Context()); err != nil || again.Store().Len() != 1 {
			t.Errorf("%v, %d objects", err, again.Store().Len())
		}
		mustBePhases(t, &g, "Widget[y] watching Widget[x] watching Widget[x] watching")
	})
}

// The options are copied, so that one value serves many calls.
func TestShareCopiesOptions(t *testing.T) {
	var g lw.Group
	source, _ := counted[*rig.Widget](lw.NewMemory[*rig.Widget]())
	opts := &lw.Options{}
	for _, key := range []int{1, 2} {
		inf, release := lw.Share(&g, key, source, opts)
		rig.Same(t, "name", fmt.Sprintf("Widget[%d]", key), inf.Status().Name)
		release()
	}
}

// The last release waits for a handler's call. Who asks for the key meanwhile gets a new informer.
func TestShareWhileStopping(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var g lw.Group
		runGroup(t, &g)
		source, calls := counted[*rig.Widget](lw.NewMemory(rig.NewWidget("a", 1)))
		first, release := lw.Share(&g, 0, source, nil)
		first.AddHandler(lw.Handler[*rig.Widget]{Add: func(*rig.Widget) { time.Sleep(time.Hour) }})
		synctest.Wait()
		begin := time.Now()
		released := make(chan struct{})
		go func() { release(); close(released) }()
		synctest.Wait()
		if closed(released) || closed(first.Stopped()) && time.Since(begin) > 0 {
			t.Error("release did not wait for the handler")
		}
		second, release2 := lw.Share(&g, 0, source, nil)
		if err := second.WaitForSync(t.Context()); err != nil || second == first || calls.Load() != 2 {
			t.Errorf("%v; the same informer: %t; %d calls", err, second == first, calls.Load())
		}
		mustKeep(t, &g, 1, 1)
		if closed(released) || time.Since(begin) > 0 {
			t.Errorf("a new user had to wait for %v", time.Since(begin))
		}
		release() // a second call waits too
		if took := time.Since(begin); took != time.Hour || !closed(first.Stopped()) {
			t.Errorf("release took %v", took)
		}
		rig.OK(t, second.Status().Healthy())
		release2()
		mustKeep(t, &g, 0, 0)
	})
}

// Informers of Share are stopped in the end, also those that never ran: nobody waits in vain.
func TestShareWithoutRun(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var g lw.Group
		source, _ := counted[*rig.Widget](lw.NewMemory(rig.NewWidget("a", 1)))
		idle, release := lw.Share(&g, 0, source, nil)
		waited := make(chan error)
		go func() { waited <- idle.WaitForSync(context.Background()) }()
		synctest.Wait()
		release()
		if err := <-waited; !errors.Is(err, lw.ErrStopped) {
			t.Errorf("an informer that was released before Run: %v", err)
		}
		_, releaseRunning := lw.Share(&g, 0, source, nil)
		stop := runGroup(t, &g)
		rig.OK(t, stop())
		releaseRunning()
		late, releaseLate := lw.Share(&g, 0, source, nil)
		if err := late.WaitForSync(t.Context()); !errors.Is(err, lw.ErrStopped) {
			t.Errorf("an informer that came after Run: %v", err)
		}
		mustKeep(t, &g, 1, 1)
		releaseLate()
		mustKeep(t, &g, 0, 0)
	})
}

// While the source of the first user is made, others of its key wait, those of other keys do not.
func TestShareWaitsForSource(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var g lw.Group
		runGroup(t, &g)
		var calls atomic.Int32
		slow := func() lw.Source[*rig.Widget] {
			calls.Add(1)
			time.Sleep(time.Minute)
			// The source may use the group, for what it depends on.
			lw.Share(&g, "other", func() lw.Source[*rig.Widget] { return lw.NewMemory[*rig.Widget]() }, nil)
			return lw.NewMemory(rig.NewWidget("a", 1))
		}
		got := make(chan *lw.Informer[*rig.Widget], 10)
		for range cap(got) {
			go func() {
				inf, _ := lw.Share(&g, "slow", slow, nil)
				got <- inf
			}()
		}
		synctest.Wait()
		mustKeep(t, &g, 0, 1)
		before := time.Now()
		lw.Share(&g, "fast", func() lw.Source[*rig.Widget] { return lw.NewMemory[*rig.Widget]() }, nil)
		rig.Same(t, "time that another key has waited", 0, time.Since(before))
		first := <-got
		for range cap(got) - 1 {
			if inf := <-got; inf != first {
				t.Error("two users have two informers")
			}
		}
		if calls.Load() != 1 || time.Since(before) != time.Minute {
			t.Errorf("%d calls, after %v", calls.Load(), time.Since(before))
		}
		mustKeep(t, &g, 3, 3)
	})
}

// If a source panics, or ends its goroutine as a test's Fatal does, the next user's source is
// called, also if it waits already.
func TestShareOfPanickingSource(t *testing.T) {
	for name, fail := range map[string]func(){"panic": func() { panic("no source") }, "Goexit": runtime.Goexit} {
		rig.Subtest(t, name, func(t *testing.T) {
			var g lw.Group
			runGroup(t, &g)
			var failed any
			go func() {
				defer func() { failed = recover() }()
				lw.Share(&g, "a", func() lw.Source[*rig.Widget] {
					time.Sleep(time.Minute)
					fail()
					return nil
				}, nil)
			}()
			synctest.Wait()
			got := make(chan *lw.Informer[*rig.Widget], 2)
			source, calls := counted[*rig.Widget](lw.NewMemory(rig.NewWidget("a", 1)))
			for range cap(got) {
				go func() {
					inf, _ := lw.Share(&g, "a", source, nil)
					got <- inf
				}()
			}
			first, second := <-got, <-got
			if first != second || calls.Load() != 1 || first.WaitForSync(t.Context()) != nil {
				t.Errorf("%p and %p after %d calls", first, second, calls.Load())
			}
			synctest.Wait()
			if name == "panic" && failed != "no source" {
				t.Errorf("the user of that source has met %v", failed)
			}
			mustKeep(t, &g, 1, 1)
		})
	}
}

// A thousand users come and go, one after the other and at the same time. In the end nothing is
// left of their informers: no goroutine, no watch, no request, no entry.
func TestShareLeavesNothing(t *testing.T) {
	const cycles, users, keys = 1000, 10, 3
	for name, at := range map[string]int{"one after the other": 1, "at the same time": users} {
		rig.Subtest(t, name, func(t *testing.T) {
			server := lwtest.NewServer(t, lwtest.Resource{Group: "lw.test", Plural: "gadgets", Kind: "Gadget"})
			gadgets := lwtest.Objects[*rig.Gadget](server, "gadgets")
			var g lw.Group
			runGroup(t, &g)
			before := len(bubbled())

			var made atomic.Int32
			use := func(key int) {
				inf, release := lw.Share(&g, key, func() lw.Source[*rig.Gadget] {
					made.Add(1)
					return gadgets.Source()
				}, nil)
				defer release()
				if rand.N(2) == 0 { // else it is released before it has synced
					if err := inf.WaitForSync(t.Context()); err != nil {
						t.Error(err)
					}
				}
				if closed(inf.Stopped()) {
					t.Error("the informer has stopped before its last release")
				}
			}
			var running sync.WaitGroup
			for range at {
				running.Go(func() {
					for range cycles / at {
						use(rand.N(keys))
					}
				})
			}
			running.Wait()

			mustKeep(t, &g, 0, 0)
			synctest.Wait()
			rig.Same(t, "open watches", 0, server.Cut())
			asked := len(server.Requests())
			server.Client().CloseIdleConnections()
			if left := bubbled(); len(left) != before {
				t.Errorf("%d goroutines, and %d before:\n%s", len(left), before, strings.Join(left, "\n\n"))
			}
			time.Sleep(time.Hour)
			rig.Same(t, "requests an hour later", asked, len(server.Requests()))
			if n := made.Load(); at == 1 && n != cycles || n == 0 || asked == 0 {
				t.Errorf("%d informers made, %d requests", n, asked)
			}
			t.Logf("%d informers made, %d requests", made.Load(), asked)
		})
	}
}

// bubbled returns the stacks of the goroutines of this bubble, when those that can end have ended.
func bubbled() []string {
	synctest.Wait()
	buf := make([]byte, 1<<20)
	all := strings.Split(string(buf[:runtime.Stack(buf, true)]), "\n\n")
	// The first is this goroutine. Its first line says which bubble it is in.
	bubble := regexp.MustCompile(`synctest bubble \d+`).FindString(all[0])
	return slices.DeleteFunc(all, func(stack string) bool {
		first, _, _ := strings.Cut(stack, "\n")
		return !strings.HasSuffix(first, bubble+"]:")
	})
}
