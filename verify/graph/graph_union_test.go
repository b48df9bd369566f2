package graph_test

import (
	"fmt"
	"testing"
	"testing/synctest"

	"github.com/go-lw/lw"
	"github.com/go-lw/lw/internal/verify/rig"
	"github.com/go-lw/lw/verify/internal/inside"
)

// A collection of another graph is a member of a union as an informer is.
func TestUnionAddOfOthers(t *testing.T) {
	inGraph(t, nil, "a1", "", func(t *testing.T, b *graphBench) {
		u := lw.NewUnion[*rig.Sum](b.g)
		other := lw.NewGraph(nil)
		foreign := lw.Derive(other, b.l, rig.SumOf, "foreign")
		b.start()
		rig.Start(t, other)
		remove := u.Add(foreign)
		mustShow(t, u, "a member of another graph", map[string]int{"a": 1})
		rig.Update(t, b.left, "a", 2)
		mustShow(t, u, "after a change", map[string]int{"a": 2})
		remove()
		mustShow(t, u, "without it", map[string]int{})
	})
}

// A member that leaves while the objects of another are taken out is taken out by the next step.
// Nothing is kept of either.
func TestUnionMembersLeaveOneByOne(t *testing.T) {
	inGraph(t, nil, "a1 b1 c1", "busy1", func(t *testing.T, b *graphBench) {
		only := func(name string) *lw.Derived[*rig.Sum] {
			return lw.Derive(b.g, b.l, func(w *rig.Widget) *rig.Sum {
				if w.Name != name {
					return nil
				}
				return rig.SumOf(w)
			}, "only "+name)
		}
		u := lw.NewUnion[*rig.Sum](b.g)
		_, held := b.hold(b.r)
		b.start()
		first, second, third := u.Add(only("a")), u.Add(only("b")), u.Add(only("c"))
		mustShow(t, u, "all members", map[string]int{"a": 1, "b": 1, "c": 1})
		for i, leave := range []func(){func() {}, first, second} {
			// The step that is held now has begun after the one before has left, and before this one leaves.
			b.update(b.right, "busy", slow+i)
			leave()
			if i > 0 {
				held <- struct{}{}
				synctest.Wait()
			}
		}
		held <- struct{}{}
		mustShow(t, u, "two have left", map[string]int{"c": 1})
		third()
		mustShow(t, u, "all have left", map[string]int{})
		for i := range 3 {
			leave := u.Add(only("a"))
			mustShow(t, u, fmt.Sprint("again ", i), map[string]int{"a": 1})
			leave()
			mustShow(t, u, "and not", map[string]int{})
		}
		if n := inside.JoinedMembers(u); n != 0 {
			t.Errorf("%d members are known that have left", n)
		}
	})
}

// Of an object that has gone no collection keeps under which key its result was shown.
func TestGraphForgetsKeys(t *testing.T) {
	inGraph(t, nil, "", "", func(t *testing.T, b *graphBench) {
		d := lw.Derive(b.g, b.l, func(w *rig.Widget) *rig.Sum {
			if w.Size == 0 {
				return nil
			}
			return &rig.Sum{Meta: lw.Meta{Name: "of " + w.Name}, Sum: w.Size}
		})
		b.start()
		for i := range 10 {
			rig.Create(t, b.left, fmt.Sprint(i), 1)
		}
		synctest.Wait()
		for i := range 5 {
			rig.Remove(t, b.left, fmt.Sprint(i))
			rig.Update(t, b.left, fmt.Sprint(i+5), 0)
		}
		synctest.Wait()
		if n := inside.MovedResults(d); n != 0 || d.Store().Len() != 0 {
			t.Errorf("%d keys of %d results are kept", n, d.Store().Len())
		}
	})
}

// Members that have one key are in conflict as long as both have it, and the status names both of
// them. With keys of their own both are shown.
func TestUnionOfClusters(t *testing.T) {
	inGraph(t, nil, "a1", "a2", func(t *testing.T, b *graphBench) {
		both := lw.NewUnion[*rig.Sum](b.g, lw.Derive(b.g, b.l, rig.SumOf, "east"), lw.Derive(b.g, b.r, rig.SumOf, "west"))
		of := func(cluster string) func(*rig.Widget) *rig.Widget {
			return func(w *rig.Widget) *rig.Widget {
				named := *w
				named.Namespace, named.Name = cluster, w.Namespace+"/"+w.Name
				return &named
			}
		}
		all := lw.NewUnion[*rig.Widget](b.g)
		all.Add(lw.Derive(b.g, b.l, of("east"), "of east"))
		all.Add(lw.Derive(b.g, b.r, of("west"), "of west"))
		b.start()
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
		rig.Remove(t, b.left, "a")
		mustShow(t, both, "one has gone", map[string]int{"a": 2})
		if all := conflicts(); len(all) != 0 {
			t.Errorf("conflicts that are over: %v", all)
		}
	})
}

// A union that is made with a member that never answers says so, and how to go on without it.
func TestUnionOfAMemberThatHangs(t *testing.T) {
	inGraph(t, nil, "a1", "", func(t *testing.T, b *graphBench) {
		hangs := lw.NewInformer[*rig.Widget](&rig.Script{OnList: func() rig.Reply { return rig.Reply{Hang: true} }},
			&lw.Options{Name: "far", List: lw.ListPages})
		rig.Start(t, hangs)
		far, near := lw.Derive(b.g, hangs, rig.SumOf), lw.Derive(b.g, b.l, rig.SumOf)
		waits, goesOn := lw.NewUnion[*rig.Sum](b.g, near, far), lw.NewUnion[*rig.Sum](b.g, near)
		goesOn.Add(far)
		b.run()
		mustFail(t, "WaitForSync", waits.WaitForSync(rig.Canceled(t)), nil, "waits for far", "Union.Add")
		rig.OK(t, goesOn.WaitForSync(rig.Canceled(t))) // it was added to this union
		mustShow(t, goesOn, "without it", map[string]int{"a": 1})
	})
}

// A member that leaves during a step takes its objects along, also those that the step deletes, and
// also if something else is closed meanwhile.
func TestUnionMemberLeavesDuringAStep(t *testing.T) {
	for name, tt := range map[string]struct{ derived, deletes, closes bool }{
		"informer":                      {false, false, false},
		"informer, and a deletion":      {false, true, false},
		"informer, and another's end":   {false, false, true},
		"collection":                    {true, false, false},
		"collection, and a deletion":    {true, true, false},
		"collection, and another's end": {true, false, true},
	} {
		t.Run(name, func(t *testing.T) {
			inGraph(t, nil, "a1 b1", "", func(t *testing.T, b *graphBench) {
				other, held := b.hold(b.r)
				u := lw.NewUnion[*rig.Widget](b.g)
				var member lw.Collection[*rig.Widget] = b.l
				if tt.derived {
					member = lw.Derive(b.g, b.l, func(w *rig.Widget) *rig.Widget { return w })
				}
				leave := u.Add(member)
				b.start()
				if n := u.Store().Len(); n != 2 {
					t.Errorf("%d objects before, want 2", n)
				}
				b.create(b.right, "busy", slow)
				if tt.deletes {
					b.remove(b.left, "a")
				}
				leave()
				if tt.closes {
					other.Close()
				}
				close(held)
				synctest.Wait()
				if n := u.Store().Len(); n > 0 {
					t.Errorf("%d objects are left of a member that has gone", n)
				}
				if d, ok := member.(*lw.Derived[*rig.Widget]); ok {
					d.Close()
				}
				b.mustBeRead(0, "after that")
			})
		})
	}
}
