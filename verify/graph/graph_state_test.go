package graph_test

import (
	"context"
	"fmt"
	"iter"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/go-lw/lw"
	"github.com/go-lw/lw/internal/verify/rig"
	"github.com/go-lw/lw/verify/internal/inside"
)

// listHook is a Memory that calls listed at the end of each list.
type listHook struct {
	*lw.Memory[*rig.Widget]
	listed func()
}

func (l *listHook) List(ctx context.Context, opts metav1.ListOptions,
	yield func(*rig.Widget, error) error) (metav1.ListMeta, error) {
	meta, err := l.Memory.List(ctx, opts, yield)
	if err == nil {
		l.listed()
	}
	return meta, err
}

// Busy is the time that steps take, with the functions of users.
func TestGraphTimes(t *testing.T) {
	inGraph(t, nil, "a1 b2", "", func(t *testing.T, b *graphBench) {
		lw.Derive(b.g, b.l, func(w *rig.Widget) *rig.Sum {
			time.Sleep(time.Duration(w.Size) * time.Second)
			return rig.SumOf(w)
		}, "slow")
		b.run()
		rig.Sleep(time.Minute)
		before := b.g.Status()
		rig.Update(t, b.left, "a", 5)
		rig.Update(t, b.left, "b", 2) // no change, no step
		rig.Sleep(time.Minute)
		if s := b.g.Status(); before.Busy != 3*time.Second || s.Busy != 8*time.Second || s.Steps != before.Steps+1 {
			t.Errorf("busy %v and then %v in %d and %d steps; want 3s and 8s, one step more",
				before.Busy, s.Busy, before.Steps, s.Steps)
		}
	})
}

// Two names for one collection are a mistake, and the second one is not dropped silently.
func TestTwoNames(t *testing.T) {
	g := lw.NewGraph(nil)
	inf := lw.NewInformer(lw.NewMemory[*rig.Widget](), nil)
	on := allPairs()
	group := func(*rig.Widget) lw.Key { return rig.Key("all") }
	for name, f := range map[string]func(){
		"Derive":     func() { lw.Derive(g, inf, rig.SumOf, "a", "b") },
		"DeriveMany": func() { lw.DeriveMany(g, inf, func(*rig.Widget) iter.Seq[*rig.Sum] { return nil }, "a", "b") },
		"Join":       func() { lw.Join(g, inf, inf, on, func(l, _ *rig.Widget) *rig.Widget { return l }, "a", "b") },
		"LeftJoin": func() {
			lw.LeftJoin(g, inf, inf, on, func(l *rig.Widget, _ []*rig.Widget) *rig.Widget { return l }, "a", "b")
		},
		"GroupBy": func() { lw.GroupBy(g, inf, group, counted, rig.TotalOf, "a", "b") },
		"GroupAll": func() {
			lw.GroupAll(g, inf, group, func(k lw.Key, _ []*rig.Widget) *rig.Sum { return rig.TotalOf(k, 0) }, "a", "b")
		},
	} {
		rig.MustPanic(t, "lw: "+name+`: 2 names for one collection: ["a" "b"]`, f)
	}
	if n := len(g.Status().Collections); n != 0 {
		t.Errorf("%d collections of two names", n)
	}
}

// A constructor says at once which function is missing.
func TestConstructorsWithoutFunctions(t *testing.T) {
	g, inf := lw.NewGraph(nil), lw.NewInformer(lw.NewMemory[*rig.Widget](), rig.Quiet())
	sums := lw.Derive(g, inf, rig.SumOf)
	name := lw.SingleKey((*rig.Widget).GetName)
	type on = lw.On[string, *rig.Widget, *rig.Widget]
	both := on{Left: name, Right: name}
	join := func(l, _ *rig.Widget) *rig.Widget { return l }
	leftJoin := func(l *rig.Widget, _ []*rig.Widget) *rig.Widget { return l }
	for want, fs := range map[string][]func(){
		"Derive: nil function":     {func() { lw.Derive[*rig.Widget, *rig.Sum](g, inf, nil) }},
		"DeriveMany: nil function": {func() { lw.DeriveMany[*rig.Widget, *rig.Sum](g, inf, nil) }},
		"Join: nil key function": {
			func() { lw.Join(g, inf, inf, on{Right: name}, join) },
			func() { lw.Join(g, inf, inf, on{Left: name}, join) },
		},
		"Join: nil function": {func() { lw.Join[string, *rig.Widget, *rig.Widget, *rig.Sum](g, inf, inf, both, nil) }},
		"LeftJoin: nil key function": {
			func() { lw.LeftJoin(g, inf, inf, on{Right: name}, leftJoin) },
			func() { lw.LeftJoin(g, inf, inf, on{Left: name}, leftJoin) },
		},
		"LeftJoin: nil function": {
			func() { lw.LeftJoin[string, *rig.Widget, *rig.Widget, *rig.Sum](g, inf, inf, both, nil) },
		},
		"GroupBy: nil function": {
			func() { lw.GroupBy(g, sums, nil, rig.AddedUp, rig.TotalOf) },
			func() { lw.GroupBy[*rig.Sum, lw.Key, int, *rig.Sum](g, sums, allInOne, rig.AddedUp, nil) },
			func() {
				lw.GroupBy(g, sums, allInOne, lw.Aggregate[*rig.Sum, int]{Remove: rig.AddedUp.Remove}, rig.TotalOf)
			},
			func() { lw.GroupBy(g, sums, allInOne, lw.Aggregate[*rig.Sum, int]{Add: rig.AddedUp.Add}, rig.TotalOf) },
		},
		"GroupAll: nil function": {
			func() { lw.GroupAll(g, sums, nil, func(k lw.Key, _ []*rig.Sum) *rig.Sum { return rig.TotalOf(k, 0) }) },
			func() { lw.GroupAll[*rig.Sum, lw.Key, *rig.Sum](g, sums, allInOne, nil) },
		},
	} {
		for _, f := range fs {
			rig.MustPanic(t, "lw: "+want, f)
		}
	}
}

// What a relist has found is one state, however many objects it changes, also while another input
// keeps the graph stepping.
func TestRelistIsOneState(t *testing.T) {
	const objects, relists = 300, 40
	inGraph(t, nil, "", "busy0", func(t *testing.T, b *graphBench) {
		for i := range objects {
			rig.Create(t, b.left, fmt.Sprint("w", i), 0)
		}
		spinning := 0
		b.l = lw.NewInformer[*rig.Widget](&listHook{b.left, func() {
			// The graph makes one step after the other while the informer stores what it has listed.
			if spinning++; spinning > 1 {
				go func() {
					for i := range 2000 {
						rig.Update(t, b.right, "busy", 1+spinning*10000+i)
					}
				}()
			}
		}}, &lw.Options{List: lw.ListWhole, OnError: func(error) {}})
		sums := lw.Derive(b.g, b.l, rig.SumOf, "sums")
		total := lw.GroupBy(b.g, sums, allInOne, rig.AddedUp, rig.TotalOf, "total")
		lw.Derive(b.g, b.r, rig.SumOf, "other")
		steps, states := 0, map[int]bool{}
		inside.AfterStep(b.g, func() {
			steps++
			s := b.g.Snapshot()
			each := map[int]int{}
			for o := range sums.At(s).All() {
				each[o.Sum]++
			}
			if len(each) > 1 {
				t.Errorf("a step shows a mixture of states: %v", each)
			}
			if o, _ := total.At(s).Get(lw.Key{Name: "total"}); o != nil {
				states[o.Sum] = true
			}
		})
		total.AddHandler(lw.Handler[*rig.Sum]{Update: func(old, s *rig.Sum) {
			if s.Sum%objects != 0 {
				t.Errorf("a handler was told of the total %d, which no state has", s.Sum)
			}
		}})
		b.run()
		for round := range relists {
			rig.Relist(b.left, func() {
				for i := range objects {
					rig.Update(t, b.left, fmt.Sprint("w", i), round+1)
				}
			})
			rig.Sleep(time.Minute)
		}
		if len(states) != relists+1 {
			t.Errorf("%d steps showed %d totals, want %d", steps, len(states), relists+1)
		}
	})
}

// Two collections of one input are joined: no reader and no handler meets two versions of it.
func TestDiamond(t *testing.T) {
	moves := 20000
	if testing.Short() {
		moves = 2000
	}
	inGraph(t, nil, "a0 b0", "", func(t *testing.T, b *graphBench) {
		g := b.g
		plus := lw.Derive(g, b.l, rig.SumOf, "plus")
		minus := lw.Derive(g, b.l, func(w *rig.Widget) *rig.Sum {
			s := rig.SumOf(w)
			s.Sum = -s.Sum
			return s
		}, "minus")
		on := byName[*rig.Sum, *rig.Sum]()
		both := lw.Join(g, plus, minus, on, func(l, r *rig.Sum) *rig.Sum {
			return &rig.Sum{Meta: lw.Meta{Name: l.Name}, Sum: l.Sum + r.Sum, Names: fmt.Sprint(l.Sum)}
		}, "both")
		gathered := lw.LeftJoin(g, plus, minus, on, func(l *rig.Sum, rights []*rig.Sum) *rig.Sum {
			return &rig.Sum{Meta: lw.Meta{Name: l.Name}, Sum: l.Sum + rights[0].Sum, Names: fmt.Sprint(l.Sum)}
		}, "gathered")
		again := lw.Derive(g, minus, func(s *rig.Sum) *rig.Sum {
			return &rig.Sum{Meta: lw.Meta{Name: s.Name + "-"}, Sum: s.Sum}
		}, "again")
		total := lw.GroupBy(g, lw.NewUnion[*rig.Sum](g, plus, again), allInOne, rig.AddedUp,
			func(key lw.Key, acc int) *rig.Sum {
				if acc != 0 {
					t.Errorf("a function saw the sum %d", acc)
				}
				return rig.TotalOf(key, acc)
			}, "total")
		var told atomic.Int64
		for _, d := range []*lw.Derived[*rig.Sum]{both, gathered, total} {
			tell := func(s *rig.Sum) {
				told.Add(1)
				if s.Sum != 0 {
					t.Errorf("a handler was told of the sum %d", s.Sum)
				}
			}
			d.AddHandler(lw.Handler[*rig.Sum]{Add: tell, Update: func(_, s *rig.Sum) { tell(s) }})
		}
		b.start()
		done := make(chan struct{})
		defer func() { <-done }()
		go func() {
			defer close(done)
			for i := range moves {
				w := rig.Update(t, b.left, []string{"a", "b"}[i%2], i+1)
				if i%4 > 0 {
					continue
				}
				// So that there are many steps, each of a few moves.
				if err := g.WaitForResourceVersion(t.Context(), b.l, w.ResourceVersion); err != nil {
					t.Error(err)
				}
			}
		}()
		reads := 0
		for running := true; running; {
			select {
			case <-done:
				running = false
			default:
			}
			s := g.Snapshot()
			for _, name := range []string{"a", "b"} {
				l, _ := plus.At(s).Get(rig.Key(name))
				r, _ := minus.At(s).Get(rig.Key(name))
				if l.Sum+r.Sum != 0 {
					t.Fatalf("a snapshot has %d and %d", l.Sum, r.Sum)
				}
				for _, d := range []*lw.Derived[*rig.Sum]{both, gathered} {
					if o, _ := d.Store().Get(lw.Key{Name: name}); o.Sum != 0 {
						t.Fatalf("a Get returned the sum %d", o.Sum)
					}
				}
			}
			reads++
		}
		synctest.Wait()
		if o, _ := both.Store().Get(lw.Key{Name: "b"}); o.Names != fmt.Sprint(moves) {
			t.Errorf("at the end the graph shows %s, want %d", o.Names, moves)
		}
		t.Logf("%d reads, %d calls of handlers, %d steps", reads, told.Load(), g.Status().Steps)
	})
}

// A read of one collection and then of another never goes back, though a step writes one before the
// other, and however they are read: while reads go on with the state before, and while they wait.
func TestGetsOfOneState(t *testing.T) {
	t.Run("long commits", func(t *testing.T) { testGetsOfOneState(t, -1) })
	t.Run("brief commits", func(t *testing.T) { testGetsOfOneState(t, 1<<30) })
}

func testGetsOfOneState(t *testing.T, brief int) {
	const collections, objects = 4, 500 // a commit takes a while
	moves := 100
	if testing.Short() {
		moves = 25
	}
	inGraph(t, nil, "a0", "", func(t *testing.T, b *graphBench) {
		g := b.g
		inside.SetBrief(g, brief)
		var names [objects]string
		for j := range names {
			names[j] = fmt.Sprint("a", j)
		}
		names[0] = "a"
		last := 0
		var reads [][]func() int // of each collection, in the order in which a commit writes them
		for i := range collections {
			d := lw.DeriveMany(g, b.l, func(w *rig.Widget) iter.Seq[*rig.Sum] {
				return func(yield func(*rig.Sum) bool) {
					for _, name := range names {
						s := rig.SumOf(w)
						if s.Name = name; !yield(s) {
							return
						}
					}
				}
			}, fmt.Sprint("d", i))
			byName := lw.NewIndex(d, func(s *rig.Sum) string { return s.Name })
			bySum := lw.NewIndex(d, func(s *rig.Sum) int { return s.Sum }) // all objects have one sum
			reads = append(reads, []func() int{func() int {
				s, _ := d.Store().Get(rig.Key("a"))
				return s.Sum
			}, func() int {
				return byName.List("a")[0].Sum
			}, func() int {
				for s := range d.Store().All() {
					return s.Sum
				}
				return -1
			}, func() int {
				s, _ := d.At(g.Snapshot()).Get(rig.Key("a"))
				return s.Sum
			}, func() int {
				for n := range bySum.Keys() {
					return n
				}
				return -1
			}, func() int {
				n := last
				for n <= moves && bySum.Len(n) == 0 {
					n++
				}
				return n
			}})
		}
		b.start()
		done := make(chan struct{})
		defer func() { <-done }()
		go func() {
			defer close(done)
			for i := range moves {
				// Each move is a step of its own.
				w := rig.Update(t, b.left, "a", i+1)
				if err := g.WaitForResourceVersion(t.Context(), b.l, w.ResourceVersion); err != nil {
					t.Error(err)
				}
			}
		}()
		for i := 0; last < moves; i++ {
			// Many ways to read come in turn. The second collection is written after the first.
			how := []int{i % 6, i / 6 % 6, i / 36 % 6}
			if i%2 == 0 {
				how = []int{0, 0, 0} // Get is the one that takes no lock
			}
			for j, d := range []int{0, collections - 1, i % collections} {
				now := reads[d][how[j]]()
				if now < last {
					t.Fatalf("%d after %d: collection %d, read in the way %d after the way %d", now, last, d, how[j], how[max(0, j-1)])
				}
				last = now
			}
		}
	})
}
