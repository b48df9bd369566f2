package graph_test

import (
	"fmt"
	"iter"
	"runtime"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"github.com/go-lw/lw"
	"github.com/go-lw/lw/internal/verify/rig"
	"github.com/go-lw/lw/verify/internal/inside"
)

// onTens joins the widgets whose sizes have the same tens. Sizes from 900 on have no key.
func (b *graphBench) onTens() lw.On[float64, *rig.Widget, *rig.Widget] {
	tens := func(what string) func(*rig.Widget) iter.Seq[float64] {
		return func(w *rig.Widget) iter.Seq[float64] {
			b.calls[what]++
			if w.Size >= 900 {
				return slices.Values([]float64(nil))
			}
			return slices.Values([]float64{float64(w.Size / 10)})
		}
	}
	return lw.On[float64, *rig.Widget, *rig.Widget]{
		Left: tens("left key"), Right: tens("right key"),
		Where: func(l, r *rig.Widget) bool { b.calls["where"]++; return (l.Size+r.Size)%2 == 0 },
	}
}

// A change costs what shares a key with it. This counts calls, so it measures nothing else.
func TestGraphCost(t *testing.T) {
	const objects = 100 // on either side, ten with each key
	inGraph(t, nil, "", "", func(t *testing.T, b *graphBench) {
		b.fill(objects)
		lw.Join(b.g, b.l, b.r, b.onTens(), func(l, r *rig.Widget) *rig.Sum {
			b.calls["join"]++
			return pairOf(l, r)
		}, "join")
		b.start()
		// Where and f are called once for each pair at most; keys may be computed twice.
		first := b.calls.take()
		if first["where"] > 1000 || first["join"] != 500 || first["left key"] > 200 || first["right key"] > 200 {
			t.Errorf("the first step has called %v", first)
		}
		b.step("a right of ten lefts", func() { rig.Update(t, b.right, "r7", 5) }, costs{"left key": 0, "right key": 1,
			"where": 10, "join": 5})
		b.step("a left of ten rights", func() { rig.Update(t, b.left, "l7", 5) }, costs{"left key": 2, "right key": 0,
			"where": 10, "join": 5})
		b.step("a right that gets another key", func() { rig.Update(t, b.right, "r7", 15) },
			costs{"left key": 0, "right key": 2, "where": 10, "join": 5})
		b.step("a right that leaves all keys", func() { rig.Update(t, b.right, "r7", 999) },
			costs{"left key": 0, "right key": 2, "where": 0, "join": 0})
		b.step("a right that no key reaches", func() { rig.Update(t, b.right, "r7", 998) },
			costs{"left key": 0, "right key": 1, "where": 0, "join": 0})
		b.step("a right that goes", func() { rig.Remove(t, b.right, "r7") }, costs{"left key": 0, "right key": 1, "where": 0,
			"join": 0})
		b.step("a right that goes from ten lefts", func() { rig.Remove(t, b.right, "r17") },
			costs{"left key": 0, "right key": 1, "where": 0, "join": 0})
		b.step("a left that goes", func() { rig.Remove(t, b.left, "l17") }, costs{"left key": 1, "right key": 0, "where": 0,
			"join": 0})
	})
}

// step makes a change, and checks that it costs the function's calls exactly, and of keys and Where
// no more than wanted. A key function may be called once more for what an object was before.
func (b *graphBench) step(what string, change func(), want costs) {
	b.t.Helper()
	b.calls.take()
	change()
	synctest.Wait()
	got := b.calls.take()
	for name, n := range want {
		if exact := name != "where" && name != "left key" && name != "right key"; exact && got[name] != n || got[name] > n {
			b.t.Errorf("%s: %d calls of %s, want %d", what, got[name], name, n)
		}
	}
}

func TestGraphCostOfLeftJoin(t *testing.T) {
	const objects = 100
	inGraph(t, nil, "", "", func(t *testing.T, b *graphBench) {
		b.fill(objects)
		d := lw.LeftJoin(b.g, b.l, b.r, b.onTens(), func(l *rig.Widget, rights []*rig.Widget) *rig.Sum {
			b.calls["leftjoin"]++
			return &rig.Sum{Meta: lw.MetaOf(l), Sum: len(rights)}
		})
		// An input change whose result is equal reaches no collection behind it.
		lw.Derive(b.g, d, func(s *rig.Sum) *rig.Sum { b.calls["behind"]++; return s })
		b.start()
		if first := b.calls.take(); first["leftjoin"] != objects || first["behind"] != objects ||
			first["where"] > 2*objects*10 {
			t.Errorf("the first step has called %v", first)
		}
		// The right belonged to the five odd lefts of its ten, and belongs to them still.
		b.step("a right of ten lefts", func() { rig.Update(t, b.right, "r7", 5) }, costs{"left key": 0, "right key": 1,
			"where": 20, "leftjoin": 5, "behind": 0})
		b.step("a right of other lefts", func() { rig.Update(t, b.right, "r7", 6) }, costs{"left key": 0, "right key": 1,
			"where": 20, "leftjoin": 10, "behind": 10})
		b.step("a right that gets another key", func() { rig.Update(t, b.right, "r7", 16) },
			costs{"left key": 0, "right key": 2, "where": 20, "leftjoin": 10, "behind": 10})
		b.step("a left", func() { rig.Update(t, b.left, "l1", 3) }, costs{"left key": 3, "right key": 0, "where": 10,
			"leftjoin": 1, "behind": 0})
		b.step("a right that leaves all keys", func() { rig.Update(t, b.right, "r7", 999) },
			costs{"left key": 0, "right key": 2, "where": 10, "leftjoin": 5, "behind": 5})
		b.step("a right that no key reaches", func() { rig.Update(t, b.right, "r7", 998) },
			costs{"left key": 0, "right key": 1, "where": 0, "leftjoin": 0, "behind": 0})
	})
}

func TestGraphCostOfGroups(t *testing.T) {
	const objects = 1000
	inGraph(t, nil, "", "", func(t *testing.T, b *graphBench) {
		for i := range objects {
			rig.Create(t, b.left, fmt.Sprint("l", i), i%2)
		}
		odd := func(s *rig.Sum) lw.Key { b.calls["key"]++; return lw.Key{Name: fmt.Sprint(s.Sum % 2)} }
		sums := lw.Derive(b.g, b.l, func(w *rig.Widget) *rig.Sum { b.calls["derive"]++; return rig.SumOf(w) })
		lw.GroupBy(b.g, sums, odd, lw.Aggregate[*rig.Sum, int]{
			Add:    func(acc int, s *rig.Sum) int { b.calls["add"]++; return acc + s.Sum },
			Remove: func(acc int, s *rig.Sum) int { b.calls["remove"]++; return acc - s.Sum },
		}, func(key lw.Key, acc int) *rig.Sum { b.calls["groupby"]++; return rig.TotalOf(key, acc) })
		lw.GroupAll(b.g, sums, odd, func(key lw.Key, all []*rig.Sum) *rig.Sum {
			b.calls["groupall"]++
			return rig.TotalOf(key, len(all))
		})
		b.start()
		if first := b.calls.take(); first["groupby"] != 2 || first["groupall"] != 2 || first["add"] != objects ||
			first["remove"] != 0 || first["derive"] != objects {
			t.Errorf("the first step has called %v", first)
		}
		b.step("within a group", func() { rig.Update(t, b.left, "l7", 3) },
			costs{"derive": 1, "add": 1, "remove": 1, "groupby": 1, "groupall": 1})
		b.step("to another group", func() { rig.Update(t, b.left, "l7", 4) },
			costs{"derive": 1, "add": 1, "remove": 1, "groupby": 2, "groupall": 2})
		b.step("of a new group member", func() { rig.Create(t, b.left, "new", 4) },
			costs{"derive": 1, "add": 1, "remove": 0, "groupby": 1, "groupall": 1})
		b.step("of one that goes", func() { rig.Remove(t, b.left, "new") },
			costs{"derive": 0, "add": 0, "remove": 1, "groupby": 1, "groupall": 1})
		// A relist that finds nothing new costs nothing.
		b.step("nothing", func() { b.left.Compact(); b.left.Disconnect(); rig.Sleep(1e12) },
			costs{"derive": 0, "add": 0, "remove": 0, "groupby": 0, "groupall": 0})
		c := b.g.Status().Collections[0]
		if c.Computed != objects+3 || c.Unchanged != 0 {
			t.Errorf("the status counts %d calls and %d equal results, want %d and 0", c.Computed, c.Unchanged, objects+3)
		}
	})
}

// A result that is equal to the one before is not told, and stays the same object.
func TestGraphIsQuiet(t *testing.T) {
	inGraph(t, nil, "a1", "", func(t *testing.T, b *graphBench) {
		halves := lw.Derive(b.g, b.l, func(w *rig.Widget) *rig.Sum {
			return &rig.Sum{Meta: lw.MetaOf(w), Sum: w.Size / 10} // the resource version does not count
		})
		equals := lw.Derive(b.g, b.l, func(w *rig.Widget) *alike { return &alike{Meta: lw.MetaOf(w), size: w.Size} })
		lw.DeriveMany(b.g, b.l, func(w *rig.Widget) iter.Seq[*rig.Sum] {
			return slices.Values([]*rig.Sum{{Meta: lw.MetaOf(w), Sum: w.Size / 10}, {Meta: lw.Meta{Name: "another"}}})
		})
		lw.Join(b.g, b.l, b.l, byName[*rig.Widget, *rig.Widget](),
			func(l, _ *rig.Widget) *rig.Sum { return &rig.Sum{Meta: lw.MetaOf(l), Sum: l.Size / 10} })
		story := newSumStory(t)
		halves.AddHandler(story.handler())
		told, added := 0, 0
		equals.AddHandler(lw.Handler[*alike]{Add: func(*alike) { added++ }, Update: func(_, _ *alike) { told++ }})
		b.start()
		before, _ := halves.Store().Get(rig.Key("a"))
		for i := range 5 {
			b.update(b.left, "a", 2+i)
		}
		after, _ := halves.Store().Get(rig.Key("a"))
		if story.calls != 1 || told != 0 || before != after || b.g.Status().Steps != 1 {
			t.Errorf("told %d times and %d; another object: %t; %d steps", story.calls, told, before != after,
				b.g.Status().Steps)
		}
		for i, unchanged := range map[int]uint64{0: 5, 2: 10, 3: 5} { // the second of three makes two of each
			if s := b.g.Status().Collections[i]; s.Computed != 6 || s.Unchanged != unchanged {
				t.Errorf("collection %d: %d computed, %d unchanged, want 6 and %d", i, s.Computed, s.Unchanged, unchanged)
			}
		}
		b.update(b.left, "a", 105)
		if story.updates != 1 || told != 1 {
			t.Errorf("told of %d updates and %d, want 1 each", story.updates, told)
		}
		// Another UID is another object, however equal.
		rig.Remove(t, b.left, "a")
		b.create(b.left, "a", 105)
		if story.updates != 1 || story.calls != 4 || added != 2 {
			t.Errorf("%d calls, %d of them updates, want 4 and 1; %d objects were added, want 2", story.calls,
				story.updates, added)
		}
		story.mustShow(t, halves)
	})
}

// alike has an Equal of its own.
type alike struct {
	lw.Meta
	size int
}

func (a *alike) Equal(b *alike) bool { return a.size/100 == b.size/100 }

// Diamonds in a row: each level is a join of the level before with itself. What asks for the ways
// through them looks at each input once or twice, and not at each way.
func TestDiamondsInARow(t *testing.T) {
	for _, depth := range []int{10, 24, 1000} {
		inGraph(t, nil, "a1", "", func(t *testing.T, b *graphBench) {
			b.left.Fail(refused)
			first := lw.Derive(b.g, b.l, rig.SumOf, "first")
			last := first
			for i := range depth {
				last = lw.Join(b.g, last, last, byName[*rig.Sum, *rig.Sum](), func(l, _ *rig.Sum) *rig.Sum { return l },
					fmt.Sprint("level ", i))
			}
			u := lw.NewUnion[*rig.Sum](b.g, last)
			visited := func(what string, most int, f func()) {
				t.Helper()
				before := inside.Visits(b.g)
				f()
				if n := inside.Visits(b.g) - before; n > most {
					t.Fatalf("%s: %d looks at an input of %d levels, want at most %d", what, n, depth, most)
				}
			}
			mustFail(t, "before Run", last.WaitForSync(rig.Canceled(t)), nil)
			b.run()
			b.left.Fail(nil)
			rig.OK(t, u.WaitForSync(within(t, time.Hour)))
			mustShow(t, u, fmt.Sprint("the end of levels: ", depth), map[string]int{"a": 1})
			visited("WaitForResourceVersion", 2*depth+2, func() {
				rig.OK(t, b.g.WaitForResourceVersion(t.Context(), b.l, b.left.ResourceVersion()))
			})
			visited("Union.Add", 4*depth+8, func() { u.Add(last); synctest.Wait() })
			visited("Close", 2*depth+4, func() {
				if behind := first.Close(); len(behind) != depth+1 {
					t.Errorf("Close has closed %d collections behind, want %d", len(behind), depth+1)
				}
			})
		})
	}
}

// memberKinds make a member of a union of g: a collection outside of it, or one of its own.
var memberKinds = map[string]func(g *lw.Graph, inf *lw.Informer[*rig.Widget]) lw.Collection[*rig.Widget]{
	"informers": func(_ *lw.Graph, inf *lw.Informer[*rig.Widget]) lw.Collection[*rig.Widget] { return inf },
	"collections": func(g *lw.Graph, inf *lw.Informer[*rig.Widget]) lw.Collection[*rig.Widget] {
		return lw.Derive(g, inf, func(w *rig.Widget) *rig.Widget { return w })
	},
}

// comeAndGo adds n members of that kind to a union, and takes them out.
func comeAndGo(kind string, n int) *lw.Graph {
	g, memory := lw.NewGraph(nil), lw.NewMemory[*rig.Widget]()
	u, leaves := lw.NewUnion[*rig.Widget](g), make([]func(), n)
	for i := range n {
		leaves[i] = u.Add(memberKinds[kind](g, lw.NewInformer(memory, rig.Quiet())))
	}
	for _, leave := range leaves {
		leave()
	}
	return g
}

// A union takes a member and lets it go at a cost that does not depend on how many there are. This
// counts bytes and looks at inputs. A copy of all members for each took 80 KB and more.
func TestUnionMembersCost(t *testing.T) {
	for kind := range memberKinds {
		const n = 10_000
		var before, after runtime.MemStats
		runtime.ReadMemStats(&before)
		g := comeAndGo(kind, n)
		runtime.ReadMemStats(&after)
		if each := (after.TotalAlloc - before.TotalAlloc) / n; each > 30_000 {
			t.Errorf("%s: a member of %d has taken %d bytes to come and go", kind, n, each)
		}
		if looks := inside.Visits(g); looks > 2*n {
			t.Errorf("%s: %d looks at inputs for %d members", kind, looks, n)
		}
	}
}

// BenchmarkUnionMembers measures how long a member takes to come and go, among so many.
func BenchmarkUnionMembers(b *testing.B) {
	for _, n := range []int{10, 1000, 100_000} {
		for kind := range memberKinds {
			b.Run(fmt.Sprint(kind, "/", n), func(b *testing.B) {
				for b.Loop() {
					comeAndGo(kind, n)
				}
				b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(n*b.N), "ns/member")
			})
		}
	}
}
