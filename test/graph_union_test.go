package lw_test

import (
	"fmt"
	"testing"
	"testing/synctest"

	"github.com/google/go-cmp/cmp"

	"github.com/go-lw/lw"
)

// mustShow expects that u shows the sizes want.
func mustShow(t *testing.T, u *lw.Union[*sum], what string, want map[string]int) {
	t.Helper()
	synctest.Wait()
	if diff := cmp.Diff(want, contents(u.Store())); diff != "" {
		t.Errorf("%s (-want +got):\n%s", what, diff)
	}
}

// Add does nothing with a collection of the graph that was closed. One of another graph is a member as an informer is.
func TestUnionAddOfOthers(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newGraphBench(t, nil)
		create(t, b.left, "a", 1)
		closed, u := lw.Derive(b.g, b.l, sumOf, "closed"), lw.NewUnion[*sum](b.g)
		other := lw.NewGraph(nil)
		foreign := lw.Derive(other, b.l, sumOf, "foreign")
		b.start()
		start(t, other)
		synctest.Wait()
		closed.Close()
		remove := u.Add(closed)
		mustShow(t, u, "a member that is closed", map[string]int{})
		remove()
		remove = u.Add(foreign)
		mustShow(t, u, "a member of another graph", map[string]int{"a": 1})
		update(t, b.left, "a", 2)
		mustShow(t, u, "after a change", map[string]int{"a": 2})
		remove()
		mustShow(t, u, "without it", map[string]int{})
	})
}

// A member that leaves while the objects of another are taken out is taken out by the next step. Nothing is kept of either.
func TestUnionMembersLeaveOneByOne(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newGraphBench(t, nil)
		for _, name := range []string{"a", "b", "c"} {
			create(t, b.left, name, 1)
		}
		create(t, b.right, "busy", 1)
		only := func(name string) *lw.Derived[*sum] {
			return lw.Derive(b.g, b.l, func(w *Widget) *sum {
				if w.Name != name {
					return nil
				}
				return sumOf(w)
			}, "only "+name)
		}
		u := lw.NewUnion[*sum](b.g)
		hold := make(chan struct{})
		lw.Derive(b.g, b.r, func(w *Widget) *sum {
			if w.Size > 1 {
				<-hold
			}
			return nil
		}, "held")
		b.start()
		first, second, third := u.Add(only("a")), u.Add(only("b")), u.Add(only("c"))
		mustShow(t, u, "all members", map[string]int{"a": 1, "b": 1, "c": 1})
		for i, leave := range []func(){func() {}, first, second} {
			// The step that is held now has begun after the one before has left, and before this one leaves.
			update(t, b.right, "busy", 2+i)
			synctest.Wait()
			leave()
			if i > 0 {
				hold <- struct{}{}
				synctest.Wait()
			}
		}
		hold <- struct{}{}
		mustShow(t, u, "two have left", map[string]int{"c": 1})
		third()
		mustShow(t, u, "all have left", map[string]int{})
		for i := range 3 {
			leave := u.Add(only("a"))
			mustShow(t, u, fmt.Sprint("again ", i), map[string]int{"a": 1})
			leave()
			mustShow(t, u, "and not", map[string]int{})
		}
		if n := joinedMembers(u); n != 0 {
			t.Errorf("%d members are known that have left", n)
		}
	})
}

// Of an object that has gone no collection keeps under which key its result was shown.
func TestGraphForgetsKeys(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newGraphBench(t, nil)
		d := lw.Derive(b.g, b.l, func(w *Widget) *sum {
			if w.Size == 0 {
				return nil
			}
			return &sum{Meta: lw.Meta{Name: "of " + w.Name}, Sum: w.Size}
		})
		b.start()
		for i := range 10 {
			create(t, b.left, fmt.Sprint(i), 1)
		}
		synctest.Wait()
		for i := range 10 {
			if i%2 == 0 {
				remove(t, b.left, fmt.Sprint(i))
			} else {
				update(t, b.left, fmt.Sprint(i), 0)
			}
		}
		synctest.Wait()
		if n := movedResults(d); n != 0 || d.Store().Len() != 0 {
			t.Errorf("%d keys of %d results are kept", n, d.Store().Len())
		}
	})
}

// Members that have one key are in conflict as long as both have it, and the status names both of them. With keys of their own
// both are shown.
func TestUnionOfClusters(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newGraphBench(t, nil)
		create(t, b.left, "a", 1)
		create(t, b.right, "a", 2)
		both := lw.NewUnion[*sum](b.g, lw.Derive(b.g, b.l, sumOf, "east"), lw.Derive(b.g, b.r, sumOf, "west"))
		g, east, west := b.g, b.l, b.r
		of := func(cluster string) func(*Widget) *Widget {
			return func(w *Widget) *Widget {
				named := *w
				named.Namespace, named.Name = cluster, w.Namespace+"/"+w.Name
				return &named
			}
		}
		all := lw.NewUnion[*Widget](g)
		all.Add(lw.Derive(g, east, of("east"), "of east"))
		all.Add(lw.Derive(g, west, of("west"), "of west"))
		b.start()
		synctest.Wait()
		conflicts := func() (all []error) {
			for _, c := range b.g.Status().Collections {
				for _, err := range c.Conflicts {
					all = append(all, err)
				}
			}
			return all
		}
		if all := conflicts(); len(all) != 1 || !containsAll(all[0].Error(), "that of east is shown", "not that of west") {
			t.Errorf("conflicts: %v", all)
		}
		mustShow(t, both, "one key", map[string]int{"a": 1})
		if n := all.Store().Len(); n != 2 {
			t.Errorf("%d objects with keys of their own", n)
		}
		remove(t, b.left, "a")
		mustShow(t, both, "one has gone", map[string]int{"a": 2})
		if all := conflicts(); len(all) != 0 {
			t.Errorf("conflicts that are over: %v", all)
		}
	})
}

// A union that is made with a member that never answers says so, and how to go on without it.
func TestUnionOfAMemberThatHangs(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newGraphBench(t, nil)
		create(t, b.left, "a", 1)
		hangs := lw.NewInformer[*Widget](&script{list: func() reply { return reply{hang: true} }}, &lw.Options{Name: "far", List: lw.ListPages})
		start(t, hangs)
		far, near := lw.Derive(b.g, hangs, sumOf), lw.Derive(b.g, b.l, sumOf)
		waits, goesOn := lw.NewUnion[*sum](b.g, near, far), lw.NewUnion[*sum](b.g, near)
		goesOn.Add(far)
		start(t, b.l)
		start(t, b.g)
		synctest.Wait()
		if err := waits.WaitForSync(canceled(t)); err == nil || !containsAll(err.Error(), "waits for far", "Union.Add") {
			t.Errorf("WaitForSync: %v", err)
		}
		if err := goesOn.WaitForSync(canceled(t)); err != nil {
			t.Errorf("WaitForSync of a union to which it was added: %v", err)
		}
		mustShow(t, goesOn, "without it", map[string]int{"a": 1})
	})
}

// What a member has deleted in the step in which it leaves is gone.
func TestUnionMemberLeavesWithADeletion(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newGraphBench(t, nil)
		create(t, b.left, "a", 1)
		create(t, b.left, "b", 1)
		create(t, b.right, "busy", 1)
		hold := make(chan struct{})
		lw.Derive(b.g, b.r, func(w *Widget) *sum {
			if w.Size > 1 {
				<-hold
			}
			return nil
		}, "held")
		u := lw.NewUnion[*sum](b.g)
		leave := u.Add(lw.Derive(b.g, b.l, sumOf))
		b.start()
		mustShow(t, u, "before", map[string]int{"a": 1, "b": 1})
		update(t, b.right, "busy", 2)
		synctest.Wait()
		remove(t, b.left, "a")
		synctest.Wait()
		leave()
		close(hold)
		mustShow(t, u, "after", map[string]int{})
	})
}
