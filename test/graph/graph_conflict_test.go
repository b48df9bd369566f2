package graph_test

import (
	"errors"
	"iter"
	"slices"
	"strings"
	"testing"
	"testing/synctest"

	"github.com/google/go-cmp/cmp"

	"github.com/go-lw/lw"
	"github.com/go-lw/lw/internal/rig"
	"github.com/go-lw/lw/test/internal/inside"
)

// Of several inputs that make one key the smallest is shown, the next one takes over, and the status
// names them.
func TestConflicts(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		errs := &rig.Errors{}
		b := newGraphBench(t, &lw.GraphOptions{OnError: errs.Add})
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
	synctest.Test(t, func(t *testing.T) {
		errs := &rig.Errors{}
		b := newGraphBench(t, &lw.GraphOptions{OnError: errs.Add})
		b.have("a1 b2 c3 d3", "")
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

// All operators decide conflicts by the key of the input; two of a join by that of the left first.
func TestConflictsOfOperators(t *testing.T) {
	inGraph(t, &lw.GraphOptions{OnError: func(error) {}}, func(t *testing.T, b *graphBench) {
		same := func(names ...string) *rig.Sum {
			return &rig.Sum{Meta: lw.Meta{Name: "same"}, Names: strings.Join(names, " ")}
		}
		byName := func(w *rig.Widget) lw.Key { return lw.Key{Name: "group " + w.Name} }
		made := map[string]*lw.Derived[*rig.Sum]{
			"derive":  lw.Derive(b.g, b.l, func(w *rig.Widget) *rig.Sum { return same(w.Name) }),
			"join":    lw.Join(b.g, b.l, b.r, allPairs(), func(l, r *rig.Widget) *rig.Sum { return same(l.Name, r.Name) }),
			"left":    lw.LeftJoin(b.g, b.l, b.r, allPairs(), func(l *rig.Widget, _ []*rig.Widget) *rig.Sum { return same(l.Name) }),
			"group":   lw.GroupAll(b.g, b.l, byName, func(key lw.Key, _ []*rig.Widget) *rig.Sum { return same(key.Name) }),
			"groupby": lw.GroupBy(b.g, b.l, byName, counted, func(key lw.Key, _ int) *rig.Sum { return same(key.Name) }),
			"many": lw.DeriveMany(b.g, b.l, func(w *rig.Widget) iter.Seq[*rig.Sum] {
				return slices.Values([]*rig.Sum{nil, same(w.Name), same("not the first")})
			}),
		}
		b.have("m1", "m1")
		b.start()
		check := func(want map[string]string) {
			t.Helper()
			synctest.Wait()
			got := map[string]string{}
			for name, d := range made {
				if s, _ := d.Store().Get(lw.Key{Name: "same"}); s != nil {
					got[name] = s.Names
				}
			}
			if diff := cmp.Diff(want, got); diff != "" {
				t.Errorf("shown (-want +got):\n%s", diff)
			}
		}
		by := func(l, pair string) map[string]string {
			return map[string]string{"derive": l, "join": pair, "left": l, "group": "group " + l, "groupby": "group " + l, "many": l}
		}
		check(by("m", "m m"))
		rig.Create(t, b.right, "a", 1)
		check(by("m", "m a"))
		rig.Create(t, b.left, "z", 1)
		check(by("m", "m a"))
		rig.Create(t, b.left, "b", 1)
		check(by("b", "b a"))
		rig.Remove(t, b.right, "a")
		check(by("b", "b m"))
		rig.Remove(t, b.left, "b")
		check(by("m", "m m"))
		rig.Remove(t, b.left, "m")
		check(by("z", "z m"))
		rig.Remove(t, b.left, "z")
		check(map[string]string{})
	})
}
