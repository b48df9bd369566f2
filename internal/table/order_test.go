package table

import (
	"cmp"
	"fmt"
	"maps"
	"math"
	"math/rand/v2"
	"slices"
	"strconv"
	"sync"
	"testing"

	gocmp "github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"
)

// byRank gives many objects the same value, and one in eleven none.
func byRank(o *obj) float64 {
	if o.version%11 == 0 {
		return math.NaN()
	}
	return float64(len(o.one+o.many0()) * (o.version % 5))
}

func (o *obj) many0() string {
	if len(o.many) == 0 {
		return ""
	}
	return o.many[0]
}

// checkOrder fails the test if a node of the index has another form than it should, or if the marks
// of the objects differ from those in the tree.
func checkOrder(t tb, s *Store[*obj], o *Order[float64, *obj]) {
	t.Helper()
	if o.staging || o.shown || o.next.root != nil {
		t.Fatal("still staging")
	}
	n := 0
	for i := range s.shards {
		if got, want := len(o.marks[i]), s.tables.Load()[i].Load().room(); got != want {
			t.Fatalf("shard %d: %d marks, want %d", i, got, want)
		}
		for p, m := range o.marks[i] {
			if !m.ok {
				continue
			}
			n++
			if at := s.shards[i].objs.At(p); at == nil || at.key != m.key {
				t.Fatalf("shard %d, position %d: the mark %v of %v", i, p, m.mark, at)
			}
		}
	}
	if n != o.all.len() {
		t.Fatalf("%d marks, and %d objects", n, o.all.len())
	}
	if o.all.root != nil {
		checkNode(t, o.all.root, o.all.era)
	}
}

func checkNode[T any](t tb, nd *bnode[float64, T], era uint64) (depth int) {
	t.Helper()
	if nd.era > era {
		t.Fatalf("a node of era %d, and now is %d", nd.era, era)
	}
	if len(nd.objs) > width || len(nd.kids) > width || len(nd.kids) != len(nd.lows) || nd.n == 0 {
		t.Fatalf("a node of %d objects, with %d objects, %d nodes and %d lows", nd.n, len(nd.objs), len(nd.kids),
			len(nd.lows))
	}
	if nd.kids == nil {
		if nd.n != len(nd.objs) {
			t.Fatalf("%d objects, want %d", nd.n, len(nd.objs))
		}
		return 0
	}
	n := 0
	for i, kid := range nd.kids {
		below := checkNode(t, kid, nd.era)
		if i > 0 && below != depth {
			t.Fatalf("leaves %d and %d below one node", below, depth)
		}
		depth = below
		n += kid.n
		if i == 0 {
			continue
		}
		kid.up(0, 1, func(first marked[float64, T]) bool {
			if first.compare(nd.lows[i]) < 0 {
				t.Fatalf("%v is below %v", first.mark, nd.lows[i])
			}
			return true
		})
		before := nd.kids[i-1]
		before.down(before.n-1, before.n, func(last marked[float64, T]) bool {
			if last.compare(nd.lows[i]) >= 0 {
				t.Fatalf("%v is not below %v", last.mark, nd.lows[i])
			}
			return true
		})
	}
	if n != nd.n {
		t.Fatalf("%d objects below a node of %d", n, nd.n)
	}
	return depth + 1
}

// checkOrdered compares all that can be asked with the objects of want, sorted.
func checkOrdered(t tb, got Ordered[float64, *obj], want map[Key]*obj) {
	t.Helper()
	var all []*obj
	for _, o := range want {
		if r := byRank(o); r == r {
			all = append(all, o)
		}
	}
	slices.SortFunc(all, func(a, b *obj) int {
		return cmp.Or(cmp.Compare(byRank(a), byRank(b)), cmp.Compare(a.key.Namespace, b.key.Namespace),
			cmp.Compare(a.key.Name, b.key.Name))
	})
	if got.Len() != len(all) {
		t.Fatalf("Len() = %d, want %d", got.Len(), len(all))
	}
	n := len(all)
	for _, r := range [][2]int{{0, n}, {-3, n + 3}, {n / 3, n / 2}, {n - 1, n}, {0, 1}, {n / 2, n / 2},
		{n, n + 1}, {2, 1}} {
		part := all[min(max(r[0], 0), n):max(min(max(r[1], 0), n), min(max(r[0], 0), n))]
		up, down := slices.Collect(got.Up(r[0], r[1])), slices.Collect(got.Down(r[0], r[1]))
		if slices.Reverse(down); !slices.Equal(up, part) || !slices.Equal(down, part) {
			t.Fatalf("%v: %v upwards, and the reverse of %v, want %v", r, up, down, part)
		}
	}
	for _, value := range []float64{-1, 0, 1, 2, 2.5, 8, 100} {
		place, _ := slices.BinarySearchFunc(all, value, func(o *obj, v float64) int { return cmp.Compare(byRank(o), v) })
		if p := got.Place(value); p != place {
			t.Fatalf("Place(%v) = %d, want %d", value, p, place)
		}
	}
	for range got.Up(0, n) {
		break // the loop ends when its body does
	}
}

// TestBtree makes random changes of a tree of up to thousands of objects, and compares it and what
// was captured with sorted slices.
func TestBtree(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		var tree btree[float64, int]
		want := map[mark[float64]]int{}
		type then struct {
			root *bnode[float64, int]
			want []marked[float64, int]
		}
		var held []then
		sorted := func(of map[mark[float64]]int) []marked[float64, int] {
			all := make([]marked[float64, int], 0, len(of))
			for m, v := range of {
				all = append(all, marked[float64, int]{m, v})
			}
			slices.SortFunc(all, func(a, b marked[float64, int]) int { return a.compare(b.mark) })
			return all
		}
		list := func() []marked[float64, int] { return sorted(want) }
		read := func(root *bnode[float64, int]) []marked[float64, int] {
			all := []marked[float64, int]{}
			if root != nil {
				root.up(0, root.n, func(one marked[float64, int]) bool { all = append(all, one); return true })
			}
			return all
		}
		rnd := rand.New(rand.NewPCG(rapid.Uint64().Draw(rt, "seed"), 1))
		values := rapid.SampledFrom([]int{1, 40, 5000}).Draw(rt, "values")
		next := 0
		at := func() mark[float64] {
			next++
			return mark[float64]{float64(rnd.IntN(values)), Key{Name: strconv.Itoa(rnd.IntN(200))}}
		}
		rt.Repeat(map[string]func(*rapid.T){
			"": func(rt *rapid.T) {
				if tree.root != nil {
					checkNode(rt, tree.root, tree.era)
				}
				if got := read(tree.root); !slices.Equal(got, list()) {
					rt.Fatalf("(-want +got):\n%s", gocmp.Diff(fmt.Sprint(list()), fmt.Sprint(got)))
				}
			},
			"put": func(rt *rapid.T) {
				for range rapid.SampledFrom([]int{1, 20, 500}).Draw(rt, "n") {
					m := at()
					want[m] = next
					tree.put(marked[float64, int]{m, next})
				}
			},
			"rising": func(rt *rapid.T) {
				for range rapid.IntRange(1, 200).Draw(rt, "n") {
					next++
					m := mark[float64]{float64(10_000 + next), Key{}}
					want[m] = next
					tree.put(marked[float64, int]{m, next})
				}
			},
			"remove": func(rt *rapid.T) {
				all := list()
				part := rapid.SampledFrom([]int{1, 2, 10, 100}).Draw(rt, "part")
				run := rapid.Bool().Draw(rt, "side by side")
				for i, one := range all {
					if !run && rnd.IntN(part) == 0 || run && i%100 < 100/part {
						delete(want, one.mark)
						tree.remove(one.mark)
					}
				}
			},
			"merge": func(rt *rapid.T) {
				var over []mark[float64]
				for _, one := range list() {
					if rnd.IntN(3) == 0 {
						delete(want, one.mark)
						over = append(over, one.mark)
					}
				}
				fresh := map[mark[float64]]int{}
				for range rapid.IntRange(0, 300).Draw(rt, "n") {
					if m := at(); want[m] == 0 {
						fresh[m] = next
					}
				}
				maps.Copy(want, fresh)
				tree.merge(over, sorted(fresh))
			},
			"capture": func(rt *rapid.T) { held = append(held, then{tree.capture(), list()}) },
		})
		for _, h := range held {
			if got := read(h.root); !slices.Equal(got, h.want) {
				rt.Fatalf("captured (-want +got):\n%s", gocmp.Diff(fmt.Sprint(h.want), fmt.Sprint(got)))
			}
		}
	})
}

// TestOrderIsShallow checks that a tree does not degenerate: when most objects of a large one are
// gone, its nodes are joined, and none is empty.
func TestOrderIsShallow(t *testing.T) {
	var tree btree[float64, int]
	const n = 100_000
	at := func(i int) mark[float64] { return mark[float64]{value: float64(i * 7919 % n)} }
	for i := range n {
		tree.put(marked[float64, int]{at(i), i})
	}
	if d := checkNode(t, tree.root, tree.era); d > 4 {
		t.Errorf("%d levels above the leaves of %d objects", d, n)
	}
	for i := range n - 100 {
		tree.remove(at(i))
	}
	nodes := 0
	var count func(nd *bnode[float64, int])
	count = func(nd *bnode[float64, int]) {
		nodes++
		for _, kid := range nd.kids {
			count(kid)
		}
	}
	count(tree.root)
	if nodes > 50 {
		t.Errorf("%d nodes for 100 objects", nodes)
	}
	// Values that rise leave full nodes, with which no other can be joined. One between two of them
	// becomes empty all the same.
	rising := func() (tree btree[float64, int]) {
		for i := range 4 * width * width {
			tree.put(marked[float64, int]{mark[float64]{value: float64(i)}, i})
		}
		return tree
	}
	tree = rising()
	remove := func(from, to int) {
		for i := from; i < to; i++ {
			tree.remove(mark[float64]{value: float64(i)})
			checkNode(t, tree.root, tree.era)
		}
	}
	remove(width*width, 2*width*width)
	// A node whose first two leaves have gone gets an object from before its new first leaf. Then it
	// is joined with the node on its left, which has one leaf.
	tree = rising()
	remove(width*width, width*width+2*width)
	tree.put(marked[float64, int]{mark[float64]{value: width*width + 1}, 1})
	remove(width, width*width)
	if got := tree.root.place(mark[float64]{value: width*width + 2}); got != width+1 {
		t.Errorf("%d objects before the one that was added, want %d", got, width+1)
	}
}

// TestOrderOfABatch commits batches apart and not, and looks at the index before ShowLocked, after
// it, and after SettleLocked.
func TestOrderOfABatch(t *testing.T) {
	var owner sync.Mutex
	s := NewOwned(keyOf, versionIDOf, &owner)
	o := NewOrder(keyOf, byRank)
	s.Add(o)
	want := map[Key]*obj{}
	version := 0
	for step, apart := range []bool{false, true, true, false, true} {
		before := maps.Clone(want)
		b := s.NewBatch()
		for i := range 60 {
			version++
			key := numbered((step*31 + i) % 90)
			if i%5 == 4 {
				b.Put(key, nil)
				delete(want, key)
				continue
			}
			one := &obj{key: key, version: version, one: "aaa"[:i%3]}
			b.Put(key, one)
			want[key] = one
		}
		b.Compute()
		owner.Lock()
		if !b.ReadyLocked() {
			t.Fatal("not ready")
		}
		b.CommitLocked(apart)
		if apart {
			checkOrdered(t, o.Ordered(), before)
		}
		b.ShowLocked()
		checkOrdered(t, o.Ordered(), want)
		b.SettleLocked()
		owner.Unlock()
		b.Release()
		checkOrder(t, s, o)
		checkOrdered(t, o.Ordered(), want)
	}
}

// TestSnapshotOfANewOrder asks a Snapshot for an index that was added when the present state had a
// Snapshot already. No object is sorted for it. An older Snapshot does not know the index, and has
// its objects sorted.
func TestSnapshotOfANewOrder(t *testing.T) {
	s := NewStore(keyOf)
	s.Set(&obj{key: numbered(1), version: 1, one: "a"}, "")
	old := s.Snapshot()
	calls := 0
	o := NewOrder(keyOf, func(o *obj) float64 { calls++; return byRank(o) })
	s.Add(o)
	calls = 0
	if got := o.In(s.Snapshot()).Len(); got != 1 || calls != 0 {
		t.Errorf("the present state has %d objects after %d calls, want 1 after none", got, calls)
	}
	s.Set(&obj{key: numbered(2), version: 2, one: "a"}, "")
	calls = 0
	if got := o.In(old).Len(); got != 1 || calls != 1 {
		t.Errorf("the state before has %d objects after %d calls, want 1 after 1", got, calls)
	}
}

// TestOrderOfAPanic commits a batch with an object at which the function panics. The object is in
// the store, and not in the index any more.
func TestOrderOfAPanic(t *testing.T) {
	var owner sync.Mutex
	s := NewOwned(keyOf, versionIDOf, &owner)
	o := NewOrder(keyOf, func(o *obj) float64 {
		if o.version == 3 {
			panic("three")
		}
		return byRank(o)
	})
	s.Add(o)
	s.Set(&obj{key: numbered(1), version: 1, one: "a"}, "")
	s.Set(&obj{key: numbered(2), version: 2, one: "a"}, "")
	b := s.NewBatch()
	var panicked []Key
	b.Recover = func(key Key, _ any) bool { panicked = append(panicked, key); return false }
	b.Put(numbered(1), &obj{key: numbered(1), version: 3, one: "a"})
	commit(b, &owner, false)
	if got := slices.Collect(o.Ordered().Up(0, 9)); len(got) != 1 || got[0].version != 2 || s.Len() != 2 {
		t.Errorf("the index has %v, and the store %d objects", got, s.Len())
	}
	same(t, "panicked", []Key{numbered(1)}, panicked)
	checkOrder(t, s, o)
}
