package graph_test

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"

	"github.com/go-lw/lw"
	"github.com/go-lw/lw/internal/verify/rig"
	"github.com/go-lw/lw/lwdebug"
	"github.com/go-lw/lw/verify/internal/inside"
)

// Synced means that every input had synced. What an input refuses shows in the error, and blocks
// only what is derived from it.
func TestGraphSync(t *testing.T) {
	inGraph(t, nil, "a1", "a1", func(t *testing.T, b *graphBench) {
		b.right.Fail(refused)
		good := lw.Derive(b.g, b.l, rig.SumOf, "good")
		bad := lw.Derive(b.g, b.r, rig.SumOf, "bad")
		both := lw.LeftJoin(b.g, b.l, bad, byName[*rig.Widget, *rig.Sum](), func(w *rig.Widget, rights []*rig.Sum) *rig.Sum {
			return &rig.Sum{Meta: lw.MetaOf(w), Sum: len(rights)}
		}, "both")
		all := lw.NewUnion[*rig.Sum](b.g, good, bad)
		total := lw.GroupBy(b.g, all, allInOne, rig.AddedUp, rig.TotalOf, "total")
		story := newSumStory(t)
		reg := both.AddHandler(story.handler())
		events := 0
		go func() {
			for range total.Events(t.Context()) {
				events++
			}
		}()

		mustFail(t, "before Run", b.g.WaitForSync(rig.Canceled(t)), nil, "Run")
		b.run()
		rig.OK(t, good.WaitForSync(within(t, time.Minute))) // it is not derived from the input that fails
		for name, syncer := range map[string]lw.Syncer{"graph": b.g, "bad": bad, "both": both, "union": all, "total": total,
			"handler": reg} {
			began := time.Now()
			err := syncer.WaitForSync(within(t, time.Minute))
			mustFail(t, name, err, context.DeadlineExceeded, "right")
			if !apierrors.IsForbidden(err) || time.Since(began) != time.Minute {
				t.Errorf("%s: %v after %v; want an error that unwraps to that of the API", name, err, time.Since(began))
			}
		}
		for i := range 5 {
			b.update(b.left, "a", 2+i)
		}
		mustShow(t, good, "beside an input that fails", map[string]int{"a": 6})
		if both.Store().Len()+all.Store().Len()+total.Store().Len()+events+story.calls > 0 {
			t.Error("a collection shows something before its inputs have synced")
		}
		if s := b.g.Status(); s.Synced || !s.Collections[0].Synced || s.Collections[1].Synced ||
			b.g.Snapshot().ResourceVersion(b.r) != "" {
			t.Errorf("the status is %+v", s)
		}
		b.right.Fail(nil)
		rig.OK(t, b.g.WaitForSync(within(t, 10*time.Minute)))
		mustShow(t, total, "after all have synced", map[string]int{"total": 6})
		if events != 1 || story.calls != 1 || !b.g.Status().Synced {
			t.Errorf("after all have synced: %d events, %d calls", events, story.calls)
		}
		story.mustShow(t, both)
		rig.OK(t, lw.WaitForSync(rig.Canceled(t), b.g, good, bad, reg)) // what has synced stays so
	})
}

// A union syncs with the members that it was made of. One that was added and never syncs blocks
// nothing.
func TestGraphSyncOfUnion(t *testing.T) {
	for _, late := range []bool{false, true} {
		inGraph(t, nil, "a1", "b1", func(t *testing.T, b *graphBench) {
			b.right.Fail(refused)
			all := lw.NewUnion[*rig.Widget](b.g, b.l)
			if !late {
				all.Add(b.r)
			}
			b.run()
			if late {
				all.Add(b.r)
			}
			rig.OK(t, all.WaitForSync(within(t, time.Hour)))
			synctest.Wait()
			rig.Same(t, fmt.Sprint("of the member that has synced, late: ", late), map[string]int{"a": 1}, sizes(all.Store()))
			b.right.Fail(nil)
			rig.Sleep(time.Hour)
			rig.Same(t, fmt.Sprint("of both, late: ", late), map[string]int{"a": 1, "b": 1}, sizes(all.Store()))
		})
	}
}

// After a wait for the version of a write, every read shows it.
func TestGraphReadYourWrites(t *testing.T) {
	inGraph(t, nil, "a0", "", func(t *testing.T, b *graphBench) {
		d := lw.Derive(b.g, b.l, func(w *rig.Widget) *rig.Sum {
			if w.Size%100 == 1 {
				time.Sleep(time.Second) // a step that is not over by chance when the informer has the version
			}
			return rig.SumOf(w)
		})
		total := lw.GroupBy(b.g, d, allInOne, rig.AddedUp, rig.TotalOf)
		other := lw.Derive(b.g, b.r, rig.SumOf, "other")
		story := newSumStory(t)
		total.AddHandler(story.handler())
		b.start()
		for i := range 500 {
			w := rig.Update(t, b.left, "a", i+1)
			rig.OK(t, b.g.WaitForResourceVersion(t.Context(), b.l, w.ResourceVersion))
			if i%3 == 0 {
				other.Store().Len()
			}
			s, _ := d.Store().Get(rig.Key("a"))
			all, _ := total.Store().Get(lw.Key{Name: "total"})
			if s.Sum != i+1 || all.Sum != i+1 || b.g.Snapshot().ResourceVersion(b.l) != w.ResourceVersion {
				t.Fatalf("after write %d the graph shows %d and %d", i+1, s.Sum, all.Sum)
			}
		}
		synctest.Wait()
		story.mustShow(t, total)

		err := b.g.WaitForResourceVersion(within(t, time.Minute), b.l, "99999")
		mustFail(t, "a version that does not come", err, context.DeadlineExceeded)
		mustFail(t, "a version that has no order", b.g.WaitForResourceVersion(t.Context(), b.l, "x"), nil)
		unread := lw.NewInformer(b.left, &lw.Options{Name: "unread"})
		err = b.g.WaitForResourceVersion(t.Context(), unread, "1")
		mustFail(t, "an informer that the graph does not read", err, nil, "unread")
		// A new epoch ends the wait.
		waited := b.shown("99999")
		rig.OK(t, b.left.Rewind("100"))
		mustFail(t, "a wait over an epoch", <-waited, lw.ErrRewound)
		synctest.Wait()
		rig.Same(t, "the version after the way back", "100", b.g.Snapshot().ResourceVersion(b.l))
	})
}

// A wait that goes on while the graph is busy or stops.
func TestGraphWaitEnds(t *testing.T) {
	inGraph(t, nil, "a0", "", func(t *testing.T, b *graphBench) {
		block := make(chan struct{})
		lw.Derive(b.g, b.l, heldAt(1, block))
		rig.Start(t, b.l)
		err := b.g.WaitForResourceVersion(within(t, time.Second), b.l, b.left.ResourceVersion())
		mustFail(t, "before Run", err, context.DeadlineExceeded, "Run")
		ctx, cancel := context.WithCancel(t.Context())
		ran := make(chan error)
		go func() { ran <- b.g.Run(ctx) }()
		synctest.Wait()
		w := rig.Update(t, b.left, "a", 1)
		err = b.g.WaitForResourceVersion(within(t, time.Second), b.l, w.ResourceVersion)
		mustFail(t, "while a function is blocked", err, context.DeadlineExceeded)
		waited := b.shown(w.ResourceVersion)
		cancel()
		synctest.Wait()
		close(block)
		rig.OK(t, <-ran)
		if err := <-waited; err != nil && !errors.Is(err, lw.ErrStopped) {
			t.Errorf("while the graph stops: %v", err)
		}
		err = b.g.WaitForResourceVersion(t.Context(), b.l, w.ResourceVersion)
		mustFail(t, "after the graph has stopped", err, lw.ErrStopped)
	})
}

// A server that goes back gives one step to the older state, and the stories of handlers go on.
func TestGraphEpoch(t *testing.T) {
	errs := &rig.Errors{}
	inGraph(t, &lw.GraphOptions{Verify: true}, "", "", func(t *testing.T, b *graphBench) {
		b.l = lw.NewInformer(b.left, &lw.Options{Name: "left", OnError: errs.Add})
		for i := range 10 {
			rig.Create(t, b.left, fmt.Sprint("w", i), i)
		}
		before := b.left.ResourceVersion()
		d := lw.Derive(b.g, b.l, rig.SumOf, "d")
		total := lw.GroupBy(b.g, d, allInOne, rig.AddedUp, rig.TotalOf, "total")
		stories := []*sumStory{newSumStory(t), newSumStory(t)}
		d.AddHandler(stories[0].handler())
		total.AddHandler(stories[1].handler())
		var vector []string
		inside.AfterStep(b.g, func() {
			s := b.g.Snapshot()
			if at := s.ResourceVersion(b.l); len(vector) == 0 || vector[len(vector)-1] != at {
				vector = append(vector, at)
			}
			if all, _ := total.At(s).Get(lw.Key{Name: "total"}); s.ResourceVersion(b.l) == before && all.Sum != 45 {
				t.Errorf("at %s the total is %d", before, all.Sum)
			}
		})
		b.start()
		for i := range 10 {
			rig.Update(t, b.left, fmt.Sprint("w", i), 100)
		}
		rig.Remove(t, b.left, "w3")
		rig.Create(t, b.left, "new", 7)
		rig.Sleep(time.Hour)
		at := b.left.ResourceVersion()
		rig.OK(t, b.left.Rewind(before))
		rig.Sleep(time.Hour)
		b.update(b.left, "w5", 50)
		errs.MustBe(t, lw.ErrRewound)
		falls := 0
		for i := 1; i < len(vector); i++ {
			if vector[i-1] == at && vector[i] == before {
				falls++
			} else if len(vector[i-1]) > len(vector[i]) || len(vector[i-1]) == len(vector[i]) && vector[i-1] >= vector[i] {
				t.Errorf("from %s to %s", vector[i-1], vector[i])
			}
		}
		if falls != 1 {
			t.Errorf("the vector fell %d times from %s to %s: %v", falls, at, before, vector)
		}
		if all, _ := total.Store().Get(lw.Key{Name: "total"}); all.Sum != 90 || d.Store().Len() != 10 {
			t.Errorf("after the way back the total of %d objects is %d, want 90 of 10", d.Store().Len(), all.Sum)
		}
		stories[0].mustShow(t, d)
		stories[1].mustShow(t, total)
	})
}

// An informer that has stopped before its first list ends the waits for all that is derived from
// it, also in another graph, and with its own error. The others sync.
func TestGraphSyncOfStoppedInformer(t *testing.T) {
	inGraph(t, nil, "a1", "", func(t *testing.T, b *graphBench) {
		broken := lw.NewInformer[*rig.Widget](&lw.HTTP[*rig.Widget]{URL: "::"},
			&lw.Options{Name: "broken", OnError: func(error) {}})
		good := lw.Derive(b.g, b.l, rig.SumOf, "good")
		bad := lw.Derive(b.g, broken, rig.SumOf, "bad")
		both := lw.Join(b.g, good, bad, byName[*rig.Sum, *rig.Sum](), func(l, _ *rig.Sum) *rig.Sum { return l }, "both")
		reg := both.AddHandler(lw.Handler[*rig.Sum]{Add: func(*rig.Sum) {}})
		next := lw.NewGraph(&lw.GraphOptions{Name: "next"})
		behind := lw.Derive(next, both, same, "behind")
		rig.Start(t, b.l)
		rig.Start(t, b.g)
		rig.Start(t, next)
		syncers := map[string]lw.Syncer{"graph": b.g, "bad": bad, "both": both, "handler": reg, "next graph": next,
			"behind": behind}
		waited := make(chan struct{}, len(syncers))
		for name, s := range syncers {
			go func() {
				err := s.WaitForSync(t.Context())
				mustFail(t, name, err, lw.ErrStopped)
				mustFail(t, name, err, lw.ErrPermanent, "broken")
				waited <- struct{}{}
			}()
		}
		synctest.Wait()
		if len(waited) > 0 {
			t.Fatalf("%d waits have ended before the informer was run", len(waited))
		}
		mustFail(t, "Run", broken.Run(t.Context()), lw.ErrPermanent)
		synctest.Wait()
		if len(waited) != len(syncers) {
			t.Fatalf("%d of %d waits have ended", len(waited), len(syncers))
		}
		rig.OK(t, good.WaitForSync(t.Context())) // it is not derived from the informer
	})
}

// An informer that stops after it has synced leaves what is derived from it as it is, and nobody
// waits for it.
func TestGraphOfStoppedInformer(t *testing.T) {
	inGraph(t, nil, "a1", "b1", func(t *testing.T, b *graphBench) {
		first := lw.Derive(b.g, b.l, rig.SumOf, "first")
		u := lw.NewUnion[*rig.Sum](b.g, first)
		stop := rig.Begin(t, b.l)
		rig.Start(t, b.r)
		rig.Start(t, b.g)
		synctest.Wait()
		b.update(b.left, "a", 2)
		stop()
		rig.Update(t, b.left, "a", 3)
		late := lw.Derive(b.g, b.l, rig.SumOf, "late")
		u.Add(lw.Derive(b.g, b.r, rig.SumOf, "other"))
		rig.OK(t, lw.WaitForSync(t.Context(), b.g, late, u))
		mustShow(t, u, "the union", map[string]int{"a": 2, "b": 1})
		mustShow(t, late, "a collection that was made after the informer's end", map[string]int{"a": 2})
		err := b.g.WaitForResourceVersion(t.Context(), b.l, b.left.ResourceVersion())
		mustFail(t, "a wait for a version that cannot come", err, lw.ErrStopped)
		u.Close()
		first.Close()
		late.Close()
		synctest.Wait()
		rig.Same(t, "the version of an informer that nobody reads", "", b.g.Snapshot().ResourceVersion(b.l))
	})
}

// Informers of one name are told apart.
func TestGraphVersionsOfOneName(t *testing.T) {
	inGraph(t, nil, "a1", "b1 c1", func(t *testing.T, b *graphBench) {
		b.l = lw.NewInformer(b.left, &lw.Options{Name: "Pod", OnError: func(error) {}})
		b.r = lw.NewInformer(b.right, &lw.Options{Name: "Pod", OnError: func(error) {}})
		first := lw.NewUnion(b.g, b.l, b.r)
		b.right.Fail(refused)
		err := first.WaitForSync(rig.Canceled(t))
		if err == nil || strings.Count(err.Error(), "Pod: not synced") != 2 {
			t.Errorf("the union waits for both informers, and says: %v", err)
		}
		b.right.Fail(nil)
		b.start()
		want := map[string]string{"Pod": b.left.ResourceVersion(), "Pod#2": b.right.ResourceVersion()}
		rig.Same(t, "versions", want, b.g.Status().Versions)
		rig.Same(t, "from", []string{"Pod", "Pod#2"}, b.g.Status().Collections[0].From)
		lw.Derive(b.g, b.r, rig.SumOf, "second")
		first.Close()
		synctest.Wait()
		lw.Derive(b.g, b.l, rig.SumOf, "third")
		synctest.Wait()
		rig.Same(t, "versions of others", want, b.g.Status().Versions)
	})
}

// A foreign informer has the methods of an Informer, and is none.
type foreign struct{ lw.AnyInformer }

// A graph shows versions of what it reads. Of an AnyInformer of another type it has none, and says
// so.
func TestGraphVersionOfAForeignInformer(t *testing.T) {
	inf := lw.NewInformer(lw.NewMemory[*rig.Widget](), nil)
	g := lw.NewGraph(&lw.GraphOptions{Name: "sums"})
	lw.Derive(g, inf, rig.SumOf)
	want := "lw: sums: cannot wait for resource version 7 of a graph_test.foreign, which is no Informer"
	rig.Same(t, "the wait", want, fmt.Sprint(g.WaitForResourceVersion(t.Context(), foreign{inf}, "7")))
	rig.Same(t, "the version of the snapshot", "", g.Snapshot().ResourceVersion(foreign{inf}))
}

// A group runs graphs beside their informers, and a group of a group. Its readiness is that of all
// of them, and the handler of a probe answers it.
func TestGroupOfGraphs(t *testing.T) {
	inGraph(t, &lw.GraphOptions{Name: "sums"}, "a1", "", func(t *testing.T, b *graphBench) {
		var group, inner lw.Group
		hold := make(chan struct{})
		sums := lw.Derive(b.g, b.l, heldAt(7, hold))
		inner.Add(b.l)
		group.Add(&inner)
		remove := group.Add(b.g)
		probe := lwdebug.Healthy(&group, time.Minute)
		ready := func(when string, code int, texts ...string) {
			t.Helper()
			synctest.Wait()
			answer := httptest.NewRecorder()
			probe.ServeHTTP(answer, httptest.NewRequest(http.MethodGet, "/readyz", nil))
			if answer.Code != code || !containsAll(answer.Body.String(), texts...) {
				t.Errorf("%s: %d %s, want %d with %q", when, answer.Code, answer.Body, code, texts)
			}
		}
		ready("before Run", http.StatusServiceUnavailable, "left", "graph sums: not synced")
		ctx, cancel := context.WithCancel(t.Context())
		ran := make(chan error)
		go func() { ran <- group.Run(ctx) }()
		rig.OK(t, group.WaitForSync(ctx))
		mustShow(t, sums, "all has synced", map[string]int{"a": 1})
		ready("when all has synced", http.StatusOK, "ok")

		b.update(b.left, "a", 7)
		time.Sleep(59 * time.Second)
		ready("in a function that hangs", http.StatusOK)
		time.Sleep(2 * time.Second)
		ready("in a function that hangs for a minute", http.StatusServiceUnavailable, "graph sums: in a step since", "sum")
		close(hold)
		ready("after it", http.StatusOK)

		b.left.Fail(errors.New("the server is down"))
		b.left.Disconnect()
		time.Sleep(30 * time.Second)
		ready("shortly without a server", http.StatusOK)
		mustFail(t, "with a grace of 10 s", group.Healthy(10*time.Second), nil, "the server is down")
		time.Sleep(time.Minute)
		ready("without a server", http.StatusServiceUnavailable, "the server is down")
		b.left.Fail(nil)
		time.Sleep(time.Minute)
		ready("with the server again", http.StatusOK)

		remove()
		rig.Update(t, b.left, "a", 3)
		mustShow(t, sums, "a graph that was removed", map[string]int{"a": 7})
		ready("without the graph", http.StatusOK)
		group.Add(b.g)
		ready("with a graph that has stopped", http.StatusServiceUnavailable, "graph sums: "+lw.ErrStopped.Error())
		cancel()
		mustFail(t, "Run, a second one of the graph", <-ran, lw.ErrStarted)
		ready("after Run", http.StatusServiceUnavailable, "left")
	})
}

// A member that has not synced is named, whatever it is.
func TestGroupSyncNamesGraphs(t *testing.T) {
	inGraph(t, nil, "", "", func(t *testing.T, b *graphBench) {
		var group lw.Group
		lw.Derive(b.g, b.l, rig.SumOf)
		group.Add(b.g)
		ctx := within(t, time.Second)
		go group.Run(ctx)
		mustFail(t, "WaitForSync", group.WaitForSync(ctx), context.DeadlineExceeded, "left")
	})
}
