package graph_test

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/go-lw/lw"
	"github.com/go-lw/lw/internal/verify/rig"
	"github.com/go-lw/lw/verify/internal/inside"
)

// The errors of waits say what a derived collection does, and what it waits for.
func TestGraphErrors(t *testing.T) {
	inGraph(t, nil, "a1", "", func(t *testing.T, b *graphBench) {
		b.right.Fail(refused)
		good := lw.Derive(b.g, b.l, rig.SumOf, "good")
		bad := lw.Derive(b.g, b.r, rig.SumOf, "bad")
		behind := lw.Derive(b.g, bad, same, "behind")
		busy := good.AddHandler(lw.Handler[*rig.Sum]{Add: func(*rig.Sum) { time.Sleep(time.Hour) }})
		enough, cancel := context.WithCancelCause(t.Context())
		cancel(errors.New("out of patience"))

		var got []string
		say := func(err error) { got = append(got, err.Error()) }
		say(behind.WaitForSync(enough))
		rig.Start(t, b.l)
		rig.Start(t, b.r)
		stop := rig.Begin(t, b.g)
		unmet := func(ctx context.Context) error {
			_, err := lw.WaitFor(ctx, good, rig.Key("b"), func(s *rig.Sum) bool { return s != nil })
			return err
		}
		say(unmet(enough))
		say(behind.WaitForSync(enough))
		say(busy.WaitForSync(enough))
		stop()
		say(unmet(t.Context()))
		want := []string{
			"lw: graph/behind: not synced, since the Run of the graph has not been called: right: not synced, since Run has not been called: out of patience",
			"lw: graph/good: waiting for a condition of default/b, which does not exist at 1 (watching): out of patience",
			"lw: graph/behind: not synced, since it waits for right: right: not synced (waiting, mode pages): list: widgets is forbidden: not for you: out of patience",
			"lw: graph/good: handler not synced (1 changes pending): out of patience",
			"lw: graph/good: waiting for a condition of default/b, which does not exist at 1 (stopped): stopped",
		}
		rig.Same(t, "errors", want, got)
	})
}

// A wait during the first step, when all inputs have synced, says which function the step is in.
func TestGraphErrorInFirstStep(t *testing.T) {
	inGraph(t, nil, "a1", "", func(t *testing.T, b *graphBench) {
		held := make(chan struct{})
		defer close(held)
		slow := lw.Derive(b.g, b.l, heldAt(1, held), "slow")
		b.run()
		ctx, cancel := context.WithTimeoutCause(t.Context(), time.Minute, errors.New("out of patience"))
		defer cancel()
		want := "lw: graph/slow: not synced, the step of the graph is in function of slow at default/a, and began 1m0s ago: out of patience"
		rig.Same(t, "the error", want, slow.WaitForSync(ctx).Error())
	})
}

// A result without a name is an error of its input, whatever made it, until it has one.
func TestNamelessResults(t *testing.T) {
	var errs rig.Errors
	inGraph(t, &lw.GraphOptions{OnError: errs.Add}, "a1 b11", "a1 b1", func(t *testing.T, b *graphBench) {
		all := byEachOperator(b, func(w *rig.Widget) *rig.Sum {
			s := rig.SumOf(w)
			if w.Size == 2 {
				s.Name = ""
			}
			return s
		})
		b.start()
		b.update(b.left, "a", 2)
		b.update(b.left, "b", 12)
		for _, d := range all {
			mustShow(t, d, "after a result without a name", map[string]int{"a": 1, "b": 12})
		}
		got := errs.TakeSorted()
		if len(got) != len(all) {
			t.Errorf("%d reports, want one of each collection: %q", len(got), got)
		}
		for _, text := range got {
			if !containsAll(text, "the result has no name", "default/a") {
				t.Errorf("reported: %q", text)
			}
		}
		b.mustSetAside("after a result without a name", "a")
		b.update(b.left, "a", 3)
		for _, d := range all {
			mustShow(t, d, "after a result with a name", map[string]int{"a": 3, "b": 12})
		}
		b.mustSetAside("after a result with a name")
	})
}

// Of several inputs that make one key the smallest is shown, the next one takes over, and the
// status names them.
func TestConflicts(t *testing.T) {
	errs := &rig.Errors{}
	inGraph(t, &lw.GraphOptions{OnError: errs.Add}, "", "", func(t *testing.T, b *graphBench) {
		d := lw.Derive(b.g, b.l, rig.BySize, "bySize")
		story := newSumStory(t)
		d.AddHandler(story.handler())
		b.start()
		check := func(what string, shown string, rivals string, reports int) {
			t.Helper()
			synctest.Wait()
			s, _ := d.Store().Get(rig.Key("size1"))
			if s == nil && shown != "" || s != nil && s.Names != shown {
				t.Errorf("%s: %+v is shown, want that of %q", what, s, shown)
			}
			status := b.g.Status().Collections[0]
			if (rivals == "") != (status.Conflicts == nil) {
				t.Errorf("%s: the conflicts are %v", what, status.Conflicts)
			}
			if err := status.Conflicts[rig.Key("size1")]; rivals != "" && (err == nil || !containsAll(err.Error(), strings.Fields(rivals)...)) {
				t.Errorf("%s: the conflict is %q, want it to name %s", what, err, rivals)
			}
			if got := errs.All(); len(got) != reports {
				t.Errorf("%s: %d reports, want %d: %v", what, len(got), reports, got)
			}
			for _, err := range errs.All() {
				var e *lw.Error
				if !errors.As(err, &e) || e.Op != "derive" || e.Key != rig.Key("size1") || !strings.Contains(e.Informer, "bySize") {
					t.Errorf("%s: the report %v has not the collection and the key", what, err)
				}
			}
			errs.TakeSorted()
			story.mustShow(t, d)
		}
		rig.Create(t, b.left, "m", 1)
		check("one input", "m", "", 0)
		rig.Create(t, b.left, "z", 1)
		check("a larger one", "m", "default/m default/z", 1)
		rig.Create(t, b.left, "a", 1)
		check("a smaller one", "a", "default/a", 0)
		rig.Update(t, b.left, "a", 2)
		check("the smallest makes another key", "m", "default/m default/z", 0)
		rig.Remove(t, b.left, "m")
		check("the others go", "z", "", 0)
		rig.Update(t, b.left, "a", 1)
		check("a new conflict", "a", "default/a default/z", 1)
		rig.Update(t, b.left, "a", 0)
		check("the smallest makes nothing", "z", "", 0)
		rig.Remove(t, b.left, "z")
		check("nobody", "", "", 0)
	})
}

// A conflict that is only between two changes of one step, or is there before and after it, is not
// reported.
func TestConflictsOfStates(t *testing.T) {
	errs := &rig.Errors{}
	inGraph(t, &lw.GraphOptions{OnError: errs.Add}, "a1 b2 c3 d3", "", func(t *testing.T, b *graphBench) {
		gate := make(chan struct{}, 1)
		inside.AfterStep(b.g, func() { gate <- struct{}{}; <-gate })
		d := lw.Derive(b.g, b.l, rig.BySize, "bySize")
		lw.Derive(b.g, b.r, rig.SumOf, "busy")
		b.start()
		if got := errs.TakeSorted(); len(got) != 1 {
			t.Errorf("at first there is one conflict, and %q are reported", got)
		}
		// together has one step take all changes of f: the step before it waits for f.
		busy := 0
		together := func(f func()) {
			gate <- struct{}{}
			busy++
			b.set(b.right, "busy", busy)
			synctest.Wait()
			f()
			synctest.Wait()
			<-gate
			synctest.Wait()
		}
		together(func() { rig.Update(t, b.left, "a", 2); rig.Update(t, b.left, "b", 1) })
		together(func() { rig.Update(t, b.left, "b", 2); rig.Update(t, b.left, "a", 1) })
		together(func() { rig.Update(t, b.left, "c", 4); rig.Update(t, b.left, "c", 3) })
		if got := errs.TakeSorted(); len(got) != 0 {
			t.Errorf("no step has a new conflict, and %q are reported", got)
		}
		if d.Store().Len() != 3 || len(b.g.Status().Collections[0].Conflicts) != 1 {
			t.Errorf("%d objects, conflicts %v", d.Store().Len(), b.g.Status().Collections[0].Conflicts)
		}
	})
}

// Verify reports functions that break their promises, and nothing else.
func TestVerify(t *testing.T) {
	calls := 0
	byName := byName[*rig.Widget, *rig.Widget]()
	changing := func() string { calls++; return fmt.Sprint(calls) }
	tests := []struct {
		name  string
		build func(b *graphBench)
		want  string // in each error; "": there is none
	}{
		{"a good derive", func(b *graphBench) { lw.Derive(b.g, b.l, rig.SumOf, "it") }, ""},
		{"a good join", func(b *graphBench) {
			lw.Join(b.g, b.l, b.r, byName, func(l, r *rig.Widget) *rig.Sum { return &rig.Sum{Meta: lw.MetaOf(l), Sum: l.Size + r.Size} }, "it")
		}, ""},
		{"conflicts", func(b *graphBench) { lw.Derive(b.g, b.l, rig.BySize, "it") }, "several inputs"},
		{"a good aggregate", func(b *graphBench) {
			lw.GroupBy(b.g, lw.Derive(b.g, b.l, rig.SumOf), allInOne, rig.AddedUp, rig.TotalOf, "it")
		}, ""},
		{"resource versions do not count", func(b *graphBench) {
			lw.Derive(b.g, b.l, func(w *rig.Widget) *rig.Sum {
				return &rig.Sum{Meta: lw.Meta{Name: w.Name, ResourceVersion: changing()}}
			}, "it")
		}, ""},
		{"a derive that counts", func(b *graphBench) {
			lw.Derive(b.g, b.l, func(w *rig.Widget) *rig.Sum { return &rig.Sum{Meta: lw.Meta{Name: w.Name}, Names: changing()} }, "it")
		}, "Names"},
		{"a derive whose keys change", func(b *graphBench) {
			lw.Derive(b.g, b.l, func(w *rig.Widget) *rig.Sum { return &rig.Sum{Meta: lw.Meta{Name: changing()}} }, "it")
		}, "new computation"},
		{"a many that counts", func(b *graphBench) {
			lw.DeriveMany(b.g, b.l, func(w *rig.Widget) iter.Seq[*rig.Sum] {
				return slices.Values([]*rig.Sum{{Meta: lw.Meta{Name: w.Name}, Names: changing()}})
			}, "it")
		}, "Names"},
		{"a where that changes its mind", func(b *graphBench) {
			on, asked := byName, 0
			on.Where = func(l, r *rig.Widget) bool { asked++; return asked <= 2 }
			lw.Join(b.g, b.l, b.r, on, func(l, r *rig.Widget) *rig.Sum { return rig.SumOf(l) }, "it")
		}, "new computation"},
		{"an aggregate that cannot remove", func(b *graphBench) {
			lw.GroupBy(b.g, b.l, func(*rig.Widget) lw.Key { return lw.Key{Name: "most"} }, most, rig.TotalOf, "it")
		}, "Sum"},
		{"a collection that changes what it has got", func(b *graphBench) {
			d := lw.Derive(b.g, b.l, rig.SumOf, "it")
			lw.Derive(b.g, d, func(s *rig.Sum) *rig.Sum { s.Sum++; return s }, "behind")
		}, "Sum"},
	}
	for _, tt := range tests {
		rig.Subtest(t, tt.name, func(t *testing.T) {
			errs := &rig.Errors{}
			b := newGraphBench(t, &lw.GraphOptions{Verify: true, OnError: errs.Add})
			tt.build(b)
			b.have("a5 b5", "a5 b5")
			b.start()
			b.update(b.left, "a", 9)
			b.update(b.left, "a", 3)
			b.remove(b.left, "b")
			b.update(b.left, "a", 2)
			got := errs.All()
			if (len(got) > 0) != (tt.want != "") {
				t.Fatalf("reported are %v, want %q", got, tt.want)
			}
			for _, err := range got {
				var e *lw.Error
				if !errors.As(err, &e) || e.Op != "derive" || !strings.Contains(e.Informer, "it") && !strings.Contains(e.Informer, "behind") || !strings.Contains(err.Error(), tt.want) {
					t.Errorf("reported is %v, want the collection and %q", err, tt.want)
				}
			}
		})
	}
}
