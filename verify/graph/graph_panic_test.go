package graph_test

import (
	"errors"
	"fmt"
	"iter"
	"slices"
	"strings"
	"testing"
	"testing/synctest"

	"github.com/go-lw/lw"
	"github.com/go-lw/lw/internal/verify/rig"
)

// evil is the size at which the functions of these tests panic.
const evil = 13

var errEvil = errors.New("evil")

func mind(size int) {
	if size == evil {
		panic(errEvil)
	}
}

// panicking are collections of left and right, each of which has one function that panics at an
// evil widget. They show the size of each left widget under its name.
func panicking(b *graphBench) map[string]*lw.Derived[*rig.Sum] {
	on := func(left, right, where bool) lw.On[string, *rig.Widget, *rig.Widget] {
		key := func(mindful bool) func(*rig.Widget) iter.Seq[string] {
			return func(w *rig.Widget) iter.Seq[string] {
				return func(yield func(string) bool) {
					if mindful {
						mind(w.Size)
					}
					yield(w.Name)
				}
			}
		}
		on := lw.On[string, *rig.Widget, *rig.Widget]{Left: key(left), Right: key(right)}
		if where {
			on.Where = func(l, r *rig.Widget) bool { mind(l.Size); return true }
		}
		return on
	}
	gathered := func(l *rig.Widget, _ []*rig.Widget) *rig.Sum { return rig.SumOf(l) }
	tally := func(name string, mindful string) *lw.Derived[*rig.Sum] {
		mindAt := func(what string, size int) {
			if what == mindful {
				mind(size)
			}
		}
		return lw.GroupBy(b.g, b.l, func(w *rig.Widget) lw.Key { mindAt("key", w.Size); return lw.KeyOf(w) }, lw.Aggregate[*rig.Widget, int]{
			Add:    func(n int, w *rig.Widget) int { mindAt("add", w.Size); return n + w.Size },
			Remove: summedUp.Remove,
		}, func(key lw.Key, n int) *rig.Sum {
			mindAt("function", n)
			return rig.TotalOf(key, n)
		}, name)
	}
	return map[string]*lw.Derived[*rig.Sum]{
		"derive": lw.Derive(b.g, b.l, func(w *rig.Widget) *rig.Sum { mind(w.Size); return rig.SumOf(w) }, "derive"),
		"many": lw.DeriveMany(b.g, b.l, func(w *rig.Widget) iter.Seq[*rig.Sum] {
			return func(yield func(*rig.Sum) bool) {
				if yield(rig.SumOf(w)) {
					mind(w.Size)
				}
			}
		}, "many"),
		"many at once":   lw.DeriveMany(b.g, b.l, func(w *rig.Widget) iter.Seq[*rig.Sum] { mind(w.Size); return slices.Values([]*rig.Sum{rig.SumOf(w)}) }, "many at once"),
		"join":           lw.Join(b.g, b.l, b.r, on(false, false, false), func(l, _ *rig.Widget) *rig.Sum { mind(l.Size); return rig.SumOf(l) }, "join"),
		"join left":      lw.Join(b.g, b.l, b.r, on(true, false, false), leftOf[*rig.Widget], "join left"),
		"join where":     lw.Join(b.g, b.l, b.r, on(false, false, true), leftOf[*rig.Widget], "join where"),
		"leftjoin":       lw.LeftJoin(b.g, b.l, b.r, on(false, false, false), func(l *rig.Widget, _ []*rig.Widget) *rig.Sum { mind(l.Size); return rig.SumOf(l) }, "leftjoin"),
		"leftjoin left":  lw.LeftJoin(b.g, b.l, b.r, on(true, false, false), gathered, "leftjoin left"),
		"leftjoin where": lw.LeftJoin(b.g, b.l, b.r, on(false, false, true), gathered, "leftjoin where"),
		"groupby":        tally("groupby", "function"),
		"groupby key":    tally("groupby key", "key"),
		"groupby add":    tally("groupby add", "add"),
		"group":          lw.GroupAll(b.g, b.l, lw.KeyOf, func(_ lw.Key, all []*rig.Widget) *rig.Sum { mind(all[0].Size); return rig.SumOf(all[0]) }, "group"),
		"group key":      lw.GroupAll(b.g, b.l, func(w *rig.Widget) lw.Key { mind(w.Size); return lw.KeyOf(w) }, func(_ lw.Key, all []*rig.Widget) *rig.Sum { return rig.SumOf(all[0]) }, "group key"),
	}
}

// A function that panics at a widget leaves what the widget has made as it was, until its next
// version, and touches nothing else.
func TestGraphPanics(t *testing.T) {
	panics := map[string][]string{}
	note := func(p *lw.Panic) {
		if !errors.Is(p, errEvil) || len(p.Stack) == 0 || p.Handler == "" {
			t.Errorf("OnPanic got %+v", p)
		}
		panics[p.Informer] = append(panics[p.Informer], p.Key.Name)
	}
	inGraph(t, &lw.GraphOptions{OnPanic: note}, "a1 b1 c1", "a1 b1 c1", func(t *testing.T, b *graphBench) {
		all := panicking(b)
		stories := map[string]*sumStory{}
		for name, d := range all {
			stories[name] = newSumStory(t)
			d.AddHandler(stories[name].handler())
		}
		b.start()
		check := func(what string, want map[string]int, aside ...string) {
			t.Helper()
			for name, d := range all {
				mustShow(t, d, what+": "+name, want)
				stories[name].mustShow(t, d)
			}
			if at := b.g.Snapshot().ResourceVersion(b.l); at != b.left.ResourceVersion() {
				t.Errorf("%s: the graph is at %s, want %s", what, at, b.left.ResourceVersion())
			}
			b.mustSetAside(what, aside...)
			for _, c := range b.g.Status().Collections {
				for key, err := range c.SetAside {
					if !errors.Is(err, errEvil) {
						t.Errorf("%s: %s is set aside for %v", what, key, err)
					}
				}
			}
		}
		check("at first", map[string]int{"a": 1, "b": 1, "c": 1})
		rig.Update(t, b.left, "a", evil)
		check("an evil version", map[string]int{"a": 1, "b": 1, "c": 1}, "a")
		for name := range all {
			if got := panics["graph/"+name]; !slices.Contains(got, "a") || len(got) > 2 {
				t.Errorf("%s: OnPanic was called for %v, want a", name, got)
			}
		}
		rig.Update(t, b.left, "b", 2)
		check("another widget", map[string]int{"a": 1, "b": 2, "c": 1}, "a")
		rig.Create(t, b.right, "d", 1)
		synctest.Wait() // Where is asked of pairs only
		rig.Create(t, b.left, "d", evil)
		check("a new evil one", map[string]int{"a": 1, "b": 2, "c": 1}, "a", "d")
		rig.Update(t, b.left, "a", 3)
		check("the next version", map[string]int{"a": 3, "b": 2, "c": 1}, "d")
		rig.Update(t, b.left, "d", 4)
		check("the next version of the new one", map[string]int{"a": 3, "b": 2, "c": 1, "d": 4})
		rig.Update(t, b.left, "a", evil)
		rig.Update(t, b.left, "d", evil)
		check("both again", map[string]int{"a": 3, "b": 2, "c": 1, "d": 4}, "a", "d")
		rig.Remove(t, b.left, "a")
		check("the evil one goes", map[string]int{"b": 2, "c": 1, "d": 4}, "d")
		rig.Remove(t, b.left, "d")
		rig.Create(t, b.left, "d", 5)
		check("the other is created again", map[string]int{"b": 2, "c": 1, "d": 5})
	})
}

// A function may panic in two steps in a row, at two objects. What they have made stays, also while
// GroupBy counts all groups anew, as it does in the second step.
func TestGraphPanicsInTwoSteps(t *testing.T) {
	for _, what := range []string{"derive", "many", "join", "join left", "join where", "leftjoin", "leftjoin left", "leftjoin where",
		"groupby", "groupby key", "groupby add", "group", "group key"} {
		var during func(p *lw.Panic)
		inGraph(t, &lw.GraphOptions{OnPanic: func(p *lw.Panic) { during(p) }}, "a1 b2 d4", "a1 b1 d1", func(t *testing.T, b *graphBench) {
			amid := false
			during = func(p *lw.Panic) {
				if amid || p.Key.Name != "a" {
					return
				}
				amid = true // the step after this one gets the change of d
				rig.Update(t, b.left, "d", evil)
				rig.OK(t, b.l.WaitForResourceVersion(t.Context(), b.left.ResourceVersion()))
			}
			all := panicking(b)
			for name, d := range all {
				if name != what {
					d.Close()
				}
			}
			var gone []string
			all[what].AddHandler(lw.Handler[*rig.Sum]{Delete: func(o *rig.Sum) { gone = append(gone, o.Name) }})
			b.start()
			rig.Update(t, b.left, "a", evil)
			mustShow(t, all[what], what, map[string]int{"a": 1, "b": 2, "d": 4})
			b.mustSetAside(what, "a", "d")
			rig.Same(t, what+": what went for a moment", []string(nil), gone)
			rig.Update(t, b.left, "d", 5)
			mustShow(t, all[what], what, map[string]int{"a": 1, "b": 2, "d": 5})
		})
	}
}

// Without OnPanic a panic comes out of Run, as any panic of the user's does.
func TestGraphPanicIsPassedOn(t *testing.T) {
	inGraph(t, nil, "a1", "", func(t *testing.T, b *graphBench) {
		lw.Derive(b.g, b.l, func(w *rig.Widget) *rig.Sum { mind(w.Size); return rig.SumOf(w) })
		rig.Start(t, b.l)
		got := make(chan any)
		go func() {
			defer func() { got <- recover() }()
			b.g.Run(t.Context())
		}()
		synctest.Wait()
		rig.Update(t, b.left, "a", evil)
		if v := <-got; v != errEvil {
			t.Errorf("Run panicked with %v", v)
		}
	})
}

// A function of an index, and a handler, that panic are reported, and the graph goes on.
func TestGraphPanicsOfIndexAndHandler(t *testing.T) {
	var panics panicLog
	inGraph(t, &lw.GraphOptions{OnPanic: panics.add}, "a11 b12", "", func(t *testing.T, b *graphBench) {
		d := lw.Derive(b.g, b.l, rig.SumOf, "d")
		byTen := lw.NewIndex(d, func(s *rig.Sum) int { mind(s.Sum); return s.Sum / 10 })
		story := newSumStory(t)
		d.AddHandler(story.handler())
		d.AddHandler(lw.Handler[*rig.Sum]{Update: func(_, s *rig.Sum) { mind(s.Sum) }})
		b.start()
		b.update(b.left, "a", evil)
		b.update(b.left, "b", 14)
		mustShow(t, d, "after the panics", map[string]int{"a": evil, "b": 14})
		rig.Same(t, "objects in the index", 1, byTen.Len(1))
		story.mustShow(t, d)
		got := panics.take(func(p *lw.Panic) string { return fmt.Sprint(p.Informer, " ", p.Key.Name) })
		rig.Same(t, "panics", []string{"graph/d a", "graph/d a"}, got)
		b.update(b.left, "a", 15)
		rig.Same(t, "objects in the index after the next version", 2, byTen.Len(1))
	})
}

// inPlace is an Aggregate of the sizes of widgets by their names. It changes the accumulator, and
// its Add panics at an evil widget.
var inPlace = lw.Aggregate[*rig.Widget, map[string]int]{
	Add: func(acc map[string]int, w *rig.Widget) map[string]int {
		mind(w.Size)
		if acc == nil {
			acc = map[string]int{}
		}
		acc[w.Name] += w.Size
		return acc
	},
	Remove: func(acc map[string]int, w *rig.Widget) map[string]int { acc[w.Name] -= w.Size; return acc },
}

func totalOfAll(key lw.Key, acc map[string]int) *rig.Sum {
	total := 0
	for _, n := range acc {
		total += n
	}
	return rig.TotalOf(key, total)
}

// An aggregate whose functions change the accumulator in place counts each widget once, also after
// one of them has panicked: at an evil size Add panics, and at a stuck one Remove does.
func TestGraphPanicsOfAggregate(t *testing.T) {
	const stuck = 17
	inGraph(t, &lw.GraphOptions{OnPanic: func(*lw.Panic) {}}, "a1 b2", "", func(t *testing.T, b *graphBench) {
		released := false
		even := func(w *rig.Widget) lw.Key {
			return lw.Key{Name: map[bool]string{true: "even", false: "odd"}[w.Size%2 == 0]}
		}
		sums := lw.GroupBy(b.g, b.l, even, lw.Aggregate[*rig.Widget, map[string]int]{
			Add: inPlace.Add,
			Remove: func(acc map[string]int, w *rig.Widget) map[string]int {
				if w.Size == stuck && !released {
					panic(errEvil)
				}
				return inPlace.Remove(acc, w)
			},
		}, totalOfAll)
		check := func(what string, want map[string]int) {
			t.Helper()
			mustShow(t, sums, what, want)
		}
		b.start()
		check("at first", map[string]int{"odd": 1, "even": 2})
		rig.Update(t, b.left, "a", evil)
		check("an evil version in the same group", map[string]int{"odd": 1, "even": 2})
		rig.Update(t, b.left, "a", 3)
		check("the next version", map[string]int{"odd": 3, "even": 2})
		rig.Update(t, b.left, "b", evil)
		check("an evil version in another group", map[string]int{"odd": 3, "even": 2})
		rig.Update(t, b.left, "b", stuck)
		check("the next version of that", map[string]int{"odd": 20})
		rig.Update(t, b.left, "b", 4)
		check("a version that cannot be removed", map[string]int{"odd": 3, "even": 4})
		rig.Update(t, b.left, "b", stuck)
		check("it comes again", map[string]int{"odd": 20})
		rig.Remove(t, b.left, "b")
		check("it cannot be removed at its end", map[string]int{"odd": 3})
		rig.Create(t, b.left, "b", stuck)
		check("it is created again", map[string]int{"odd": 20})
		rig.Update(t, b.left, "b", evil)
		check("neither can be counted", map[string]int{"odd": 20})
		rig.Update(t, b.left, "a", 5)
		check("another one of its group", map[string]int{"odd": 22})
		b.mustSetAside("another one of its group", "b")
		released = true
		rig.Update(t, b.left, "b", 6)
		check("it can be removed", map[string]int{"odd": 5, "even": 6})
		b.mustSetAside("at the end")
	})
}

// A widget at which Add panics after its Remove counts as before, also in the step of the panic: a
// result that this step shows because of another widget of the group has it.
func TestGraphPanicsOfAggregateBesideAnotherChange(t *testing.T) {
	inGraph(t, &lw.GraphOptions{OnPanic: func(*lw.Panic) {}}, "a1 b2", "", func(t *testing.T, b *graphBench) {
		_, held := b.hold(b.l) // so that the next step has two changes
		sums := lw.GroupBy(b.g, b.l, func(*rig.Widget) lw.Key { return lw.Key{Name: "all"} }, inPlace, totalOfAll)
		b.start()
		var shown []int
		sums.AddHandler(lw.Handler[*rig.Sum]{EveryUpdate: true, Update: func(_, now *rig.Sum) { shown = append(shown, now.Sum) }})
		b.create(b.left, "c", slow)
		rig.Update(t, b.left, "a", evil)
		b.update(b.left, "b", 20)
		close(held)
		synctest.Wait()
		rig.Same(t, "sums", []int{slow + 1 + 2, slow + 1 + 20}, shown)
	})
}

// A fuse makes a key function panic once, at its call number calls for one version of a widget.
type fuse struct {
	what, name  string
	size, calls int
}

func (f *fuse) mind(what string, w *rig.Widget) {
	if f.what == what && f.name == w.Name && f.size == w.Size {
		if f.calls--; f.calls == 0 {
			panic(errEvil)
		}
	}
}

// A function that says where an object belongs may panic when it is called for what the object was,
// or for the second time. The object moves, or goes, all the same, and nothing is set aside.
func TestGraphPanicsOfKeysBefore(t *testing.T) {
	var panics []string
	note := func(p *lw.Panic) { panics = append(panics, p.Handler+" "+p.Key.Name) }
	inGraph(t, &lw.GraphOptions{OnPanic: note}, "a10 b20 c30", "a10 b20 c30", func(t *testing.T, b *graphBench) {
		var burning fuse
		tens := func(what string) func(*rig.Widget) int {
			return func(w *rig.Widget) int {
				burning.mind(what, w)
				return w.Size / 10
			}
		}
		on := func(what string) lw.On[float64, *rig.Widget, *rig.Widget] {
			return by(tens(what+" left"), tens(what+" right"))
		}
		group := func(what string) func(*rig.Widget) lw.Key {
			of := tens(what)
			return func(w *rig.Widget) lw.Key { return lw.Key{Name: fmt.Sprint(of(w))} }
		}
		pairs := lw.Join(b.g, b.l, b.r, on("join"), pairOf)
		counts := lw.LeftJoin(b.g, b.l, b.r, on("leftjoin"), countOf[*rig.Widget])
		all := lw.GroupAll(b.g, b.l, group("groupall"), func(key lw.Key, all []*rig.Widget) *rig.Sum { return rig.TotalOf(key, len(all)) })
		sums := lw.GroupBy(b.g, b.l, group("groupby"), lw.Aggregate[*rig.Widget, int]{
			Add:    summedUp.Add,
			Remove: func(n int, w *rig.Widget) int { burning.mind("remove", w); return n - w.Size },
		}, rig.TotalOf)
		b.start()
		check := func(what string) {
			t.Helper()
			synctest.Wait()
			want := []map[string]int{{}, {}, {}, {}}
			for l := range b.l.Store().All() {
				want[1][l.Name] = 0
				want[2][fmt.Sprint(l.Size/10)]++
				want[3][fmt.Sprint(l.Size/10)] += l.Size
				for r := range b.r.Store().All() {
					if l.Size/10 == r.Size/10 {
						want[0][l.Name+r.Name] = l.Size + r.Size
						want[1][l.Name]++
					}
				}
			}
			for i, d := range []*lw.Derived[*rig.Sum]{pairs, counts, all, sums} {
				mustShow(t, d, fmt.Sprint(what, ": collection ", i), want[i])
			}
			b.mustSetAside(what)
		}
		check("at first")
		for _, tt := range []struct {
			what  string
			left  bool
			calls int // of which the last one panics, when a widget of size 10 becomes one of size 20
			size  int // at which it panics
		}{
			{"join left", true, 1, 10}, {"join left", true, 2, 20}, {"join right", false, 1, 10},
			{"leftjoin left", true, 1, 10}, {"leftjoin left", true, 2, 20}, {"leftjoin right", false, 1, 10},
			{"groupall", true, 1, 10}, {"groupby", true, 1, 10}, {"remove", true, 1, 10},
		} {
			m := map[bool]*lw.Memory[*rig.Widget]{true: b.left, false: b.right}[tt.left]
			for _, gone := range []bool{false, true} {
				if gone && tt.size == 20 {
					continue
				}
				what := fmt.Sprint(tt.what, " at size ", tt.size, ", gone: ", gone)
				rig.Update(t, m, "a", 10)
				check("before " + what)
				panics, burning = nil, fuse{tt.what, "a", tt.size, tt.calls}
				if gone {
					rig.Remove(t, m, "a")
				} else {
					rig.Update(t, m, "a", 20)
				}
				check(what)
				if len(panics) != 1 || !strings.HasSuffix(panics[0], " a") {
					t.Errorf("%s: OnPanic got %q", what, panics)
				}
				// Nothing is left behind of what it was.
				b.set(m, "a", 20)
				rig.Update(t, b.left, "b", 10)
				rig.Update(t, b.right, "b", 10)
				check("others, after " + what)
				rig.Update(t, b.left, "b", 20)
				rig.Update(t, b.right, "b", 20)
				check("others again, after " + what)
			}
		}
	})
}
