package lw_test

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/go-lw/lw"
	"github.com/go-lw/lw/internal/history"
	"github.com/go-lw/lw/internal/verify/leak"
	"github.com/go-lw/lw/internal/verify/rig"
)

func TestMain(m *testing.M) {
	history.FromOne = true // tests name the versions of a Memory
	leak.Main(m)
}

// The other tests of the public API are in verify/. These are what one would ask of an informer
// first.

// A bubble does not end while a goroutine of it is left, so each test of this file also proves that
// Run leaves none.

// A handler may come and go at any time of an informer's life; Done is closed as soon as no call
// can come any more.
func TestHandlerLifetimes(t *testing.T) {
	times := []string{"before Run", "before the sync", "while running", "after the stop"}
	for from := range times {
		for to := from; to < len(times); to++ {
			t.Run(fmt.Sprintf("added %s, removed %s", times[from], times[to]), func(t *testing.T) {
				synctest.Test(t, func(t *testing.T) {
					m := lw.NewMemory(rig.NewWidget("a", 1))
					m.Fail(errors.New("not yet"))
					inf := lw.NewInformer(m, &lw.Options{OnError: func(error) {}})
					ctx, cancel := context.WithCancel(t.Context())
					defer cancel()
					ran := make(chan error, 1)
					got := &rig.Calls{}
					var reg *lw.Registration
					for now := range times {
						switch now {
						case 1:
							go func() { ran <- inf.Run(ctx) }()
						case 2:
							m.Fail(nil)
							time.Sleep(time.Minute)
							synctest.Wait()
						case 3:
							cancel()
							if err := <-ran; err != nil {
								t.Error(err)
							}
						}
						synctest.Wait()
						if now == from {
							reg = inf.AddHandler(got.Handler())
							synctest.Wait()
						}
						if now == to {
							reg.Remove()
							reg.Remove()
							<-reg.Done()
						}
						if reg != nil && now < to && now < 3 {
							select {
							case <-reg.Done():
								t.Errorf("done %s", times[now])
							default:
							}
						}
						if now == 2 {
							rig.Update(t, m, "a", 2)
							synctest.Wait()
						}
					}
					var want []string
					switch {
					case from <= 2 && to == 3:
						want = []string{"add a1", "synced", "update a1 a2"}
					case from <= 2 && to == 2:
						want = []string{"add a1", "synced"}
					}
					got.MustBe(t, want...)
					err := reg.WaitForSync(t.Context())
					if len(want) > 0 != (err == nil) || err != nil && !errors.Is(err, lw.ErrStopped) {
						t.Errorf("WaitForSync: %v", err)
					}
				})
			})
		}
	}
}

// After Remove no call comes; the one that runs is not waited for, and Done says when it has
// returned.
func TestRemoveWhileACallRuns(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := lw.NewMemory(rig.NewWidget("a", 1), rig.NewWidget("b", 1))
		inf := rig.Run(t, m, nil)
		block := make(chan struct{})
		n := 0
		reg := inf.AddHandler(lw.Handler[*rig.Widget]{Add: func(*rig.Widget) { n++; <-block }})
		synctest.Wait()
		before := time.Now()
		reg.Remove()
		if took := time.Since(before); took != 0 {
			t.Errorf("Remove took %v", took)
		}
		select {
		case <-reg.Done():
			t.Error("done while a call runs")
		default:
		}
		if err := reg.WaitForSync(rig.Canceled(t)); !errors.Is(err, context.Canceled) {
			t.Errorf("WaitForSync: %v", err)
		}
		close(block)
		<-reg.Done()
		if err := reg.WaitForSync(t.Context()); !errors.Is(err, lw.ErrStopped) {
			t.Errorf("WaitForSync of a handler that was removed before it had synced: %v", err)
		}
		if n != 1 {
			t.Errorf("%d calls, want the one that was running", n)
		}
		if s := inf.Status(); s.Phase != "watching" {
			t.Errorf("the informer is %v", s.Phase)
		}
	})
}

// One handler's registrations are its own: removing one changes nothing for the other.
func TestTwoRegistrationsOfOneHandler(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := lw.NewMemory[*rig.Widget]()
		inf := rig.Run(t, m, nil)
		got := &rig.Calls{}
		first, second := inf.AddHandler(got.Handler()), inf.AddHandler(got.Handler())
		got.MustBe(t, "synced", "synced")
		rig.Create(t, m, "a", 1)
		got.MustBe(t, "add a1", "add a1")
		first.Remove()
		<-first.Done()
		rig.Update(t, m, "a", 2)
		got.MustBe(t, "update a1 a2")
		second.Remove()
		rig.Remove(t, m, "a")
		got.MustBe(t)
	})
}

// What was synced stays so, and can be read, after the stop.
func TestAfterTheStop(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := lw.NewMemory(rig.NewWidget("a", 1))
		inf := lw.NewInformer(m, nil)
		ctx, cancel := context.WithCancel(t.Context())
		done := make(chan error, 1)
		go func() { done <- inf.Run(ctx) }()
		if err := inf.WaitForSync(t.Context()); err != nil {
			t.Fatal(err)
		}
		version := m.ResourceVersion()
		cancel()
		<-done
		rig.Create(t, m, "b", 1)
		if err := inf.WaitForSync(rig.Canceled(t)); err != nil {
			t.Errorf("WaitForSync: %v", err)
		}
		if err := inf.WaitForResourceVersion(rig.Canceled(t), version); err != nil {
			t.Errorf("WaitForResourceVersion of what is there: %v", err)
		}
		if err := inf.WaitForResourceVersion(t.Context(), m.ResourceVersion()); !errors.Is(err, lw.ErrStopped) {
			t.Errorf("WaitForResourceVersion of what never comes: %v", err)
		}
		if w, there := inf.Store().Get(rig.Key("a")); !there || w.Size != 1 || inf.Store().Len() != 1 {
			t.Errorf("the store has %d objects, and %+v", inf.Store().Len(), w)
		}
		if n := lw.NewIndex(inf, (*rig.Widget).GetNamespace).Len("default"); n != 1 {
			t.Errorf("an index made after the stop holds %d objects", n)
		}
		reg := inf.AddHandler(lw.Handler[*rig.Widget]{Add: func(*rig.Widget) { t.Error("a call after the stop") }})
		reg.Remove()
		<-reg.Done()
		if reg.Pending() != 0 {
			t.Errorf("%d changes pending", reg.Pending())
		}
	})
}

// An index is there from its making on, before the first list and on a live informer.
func TestIndexOfAnInformer(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := lw.NewMemory(rig.NewWidget("a", 1), rig.NewWidget("b", 2))
		inf := lw.NewInformer(m, nil)
		early := lw.NewIndex(inf, func(w *rig.Widget) int { return w.Size })
		if n := early.Len(1); n != 0 {
			t.Errorf("%d objects before Run", n)
		}
		rig.Start(t, inf)
		synctest.Wait()
		rig.Update(t, m, "b", 1)
		synctest.Wait()
		late := lw.NewIndex(inf, func(w *rig.Widget) int { return w.Size })
		for i, ix := range []*lw.Index[int, *rig.Widget]{early, late} {
			if ix.Len(1) != 2 || ix.Len(2) != 0 {
				t.Errorf("index %d: %d of size 1, %d of size 2", i, ix.Len(1), ix.Len(2))
			}
		}
		rig.Remove(t, m, "a")
		synctest.Wait()
		if early.Len(1) != 1 || late.Len(1) != 1 {
			t.Errorf("after a deletion: %d and %d", early.Len(1), late.Len(1))
		}
	})
}

// A slow handler and readers without a pause delay neither the store nor a handler that joins.
func TestNobodyWaitsForASlowHandler(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := lw.NewMemory[*rig.Widget]()
		for i := range 1000 {
			rig.Create(t, m, strconv.Itoa(i), i)
		}
		inf := rig.Run(t, m, nil)
		slow := inf.AddHandler(lw.Handler[*rig.Widget]{Add: func(*rig.Widget) { time.Sleep(time.Hour) }})
		synctest.Wait()
		before := time.Now()
		n := 0
		late := inf.AddHandler(lw.Handler[*rig.Widget]{Add: func(*rig.Widget) { n++ }})
		if err := late.WaitForSync(t.Context()); err != nil {
			t.Error(err)
		}
		w := rig.Update(t, m, "7", -1)
		if err := inf.WaitForResourceVersion(t.Context(), w.ResourceVersion); err != nil {
			t.Error(err)
		}
		if took := time.Since(before); took != 0 || n != 1000 {
			t.Errorf("after %v a late handler was told %d objects", took, n)
		}
		if slow.Pending() != 1001 {
			t.Errorf("the slow handler has %d changes to come", slow.Pending())
		}
		slow.Remove()
	})
}

// lw.WaitForSync joins what each of the syncers that did not sync says.
func TestWaitForSyncOfMany(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var down error = syscall.ECONNREFUSED
		good := rig.Run(t, lw.NewMemory[*rig.Widget](), &lw.Options{Name: "good"})
		failing := lw.NewMemory[*rig.Widget]()
		failing.Fail(down)
		bad := lw.NewInformer(failing, &lw.Options{Name: "bad", OnError: func(error) {}})
		rig.Start(t, bad)
		idle := lw.NewInformer(lw.NewMemory[*rig.Widget](), &lw.Options{Name: "idle"})
		cause := errors.New("enough")
		ctx, cancel := context.WithTimeoutCause(t.Context(), 10*time.Second, cause)
		defer cancel()
		before := time.Now()
		err := lw.WaitForSync(ctx, good, bad, idle)
		if took := time.Since(before); took != 10*time.Second {
			t.Errorf("it took %v", took)
		}
		if !errors.Is(err, down) || !errors.Is(err, cause) {
			t.Errorf("WaitForSync: %v", err)
		}
		want := "lw: bad: not synced (waiting, mode stream): stream (failure 4 in a row): connection refused: enough\n" +
			"lw: idle: not synced, since Run has not been called: enough"
		if got := fmt.Sprint(err); !sameButDigits(want, got) {
			t.Errorf("WaitForSync said\n%s\nwant\n%s", got, want)
		}
		if err := lw.WaitForSync(ctx); err != nil {
			t.Errorf("a wait for nobody: %v", err)
		}
		if err := lw.WaitForSync(ctx, good); err != nil {
			t.Errorf("a wait that is over: %v", err)
		}
	})
}

// sameButDigits compares texts whose numbers are a matter of chance.
func sameButDigits(a, b string) bool {
	mask := func(s string) string {
		out := []rune(s)
		for i, r := range out {
			if r >= '0' && r <= '9' {
				out[i] = '#'
			}
		}
		return string(out)
	}
	return mask(a) == mask(b)
}

// Synced and Stopped are closed when the waits would end, neither sooner.
func TestSyncedAndStopped(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		mem := lw.NewMemory(rig.NewWidget("a", 1), rig.NewWidget("b", 2))
		mem.Fail(errors.New("down"))
		inf := lw.NewInformer(mem, &lw.Options{OnError: func(error) {}})
		release := make(chan struct{})
		slow := inf.AddHandler(lw.Handler[*rig.Widget]{Add: func(*rig.Widget) { <-release }})
		removed := inf.AddHandler(lw.Handler[*rig.Widget]{Add: func(*rig.Widget) { <-release }})
		check := func(when string, synced, handler, stopped bool) {
			t.Helper()
			synctest.Wait()
			want := []bool{synced, handler, stopped}
			got := []bool{isClosed(inf.Synced()), isClosed(slow.Synced()), isClosed(inf.Stopped())}
			if diff := cmp.Diff(want, got); diff != "" {
				t.Errorf("%s: informer synced, handler synced, stopped (-want +got):\n%s", when, diff)
			}
		}
		check("before Run", false, false, false)
		ctx, cancel := context.WithCancel(t.Context())
		ran := make(chan error, 1)
		go func() { ran <- inf.Run(ctx) }()
		check("while the server is down", false, false, false)
		mem.Fail(nil)
		time.Sleep(time.Minute)
		synctest.Wait()
		check("while a handler is slow", true, false, false)
		removed.Remove()
		close(release)
		check("after the handler", true, true, false)
		cancel()
		check("after the stop", true, true, true)
		if isClosed(removed.Synced()) {
			t.Error("a handler that was removed before it synced says that it has")
		}
		<-ran
	})
}

// A fixture fills the store of an informer that does not run, and tells nobody. In one that runs it
// meets the informer's own writes, which neither loses.
func TestFixture(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		mem := lw.NewMemory[*rig.Widget]()
		inf := lw.NewInformer(mem, nil)
		bySize := lw.NewIndex(inf, func(w *rig.Widget) int { return w.Size })
		got := &rig.Calls{}
		inf.AddHandler(got.Handler())
		inf.Fixture().Set(rig.NewWidget("seed", 7))
		if _, ok := inf.Store().Get(rig.Key("seed")); !ok || bySize.Len(7) != 1 || inf.Status().Objects != 1 {
			t.Error("the store does not show what was set")
		}
		inf.Fixture().Delete(rig.Key("seed"))
		if inf.Store().Len() != 0 || bySize.Len(7) != 0 {
			t.Error("the store shows what was deleted")
		}
		rig.Start(t, inf)
		synctest.Wait()
		const n = 200
		done := make(chan struct{})
		go func() {
			defer close(done)
			for i := range n {
				inf.Fixture().Set(rig.NewWidget(fmt.Sprint("seed", i), i))
			}
		}()
		for i := range n {
			rig.Create(t, mem, fmt.Sprint("real", i), i)
		}
		<-done
		synctest.Wait()
		if objects, told := inf.Store().Len(), got.Len(); objects != 2*n || told != n+1 { // with Synced
			t.Errorf("%d objects, %d calls; want %d and %d", objects, told, 2*n, n+1)
		}
	})
}

func isClosed(c <-chan struct{}) bool {
	select {
	case <-c:
		return true
	default:
		return false
	}
}
