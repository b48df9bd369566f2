package table

import (
	"cmp"
	"slices"
)

// width is the most objects of a leaf, and the most nodes below another. A write after a capture
// copies one node a level: with 32 a few KiB.
const width = 32

// A btree has objects in the order of their marks. It can be captured at any time at the same small
// cost, as a [Vector] can be viewed, and by the same means: it is copied on write, and a node of an
// earlier era may be shared and is never changed. Every node knows how many objects are below it,
// so an object is found by its place as fast as by its mark.
//
// A btree may be used by one goroutine at a time. What was captured may be used by any number, also
// while the btree is changed.
type btree[K cmp.Ordered, T any] struct {
	root *bnode[K, T] // nil: there are no objects
	era  uint64       // the number of captures so far
}

// A mark is where an object belongs: by its value, and among those of one value by its key.
type mark[K cmp.Ordered] struct {
	value K
	key   Key
}

func (m mark[K]) compare(to mark[K]) int {
	if c := cmp.Compare(m.value, to.value); c != 0 {
		return c
	}
	if c := cmp.Compare(m.key.Namespace, to.key.Namespace); c != 0 {
		return c
	}
	return cmp.Compare(m.key.Name, to.key.Name)
}

// A marked is an object with its mark.
type marked[K cmp.Ordered, T any] struct {
	mark[K]
	obj T
}

// A bnode is a leaf, which has objects, or has nodes below it. Below a root there is no node
// without an object.
type bnode[K cmp.Ordered, T any] struct {
	era  uint64 // in which the node was made
	n    int    // the objects of the node and below it
	objs []marked[K, T]
	kids []*bnode[K, T]
	// lows[i] is above every mark of kids[i-1], and none of kids[i] is below it. lows[0] means
	// nothing.
	lows []mark[K]
}

// capture returns the present root, below which nothing changes any more.
func (t *btree[K, T]) capture() *bnode[K, T] {
	t.era++
	return t.root
}

// len returns the number of objects.
func (t *btree[K, T]) len() int { return t.root.len() }

func (nd *bnode[K, T]) len() int {
	if nd == nil {
		return 0
	}
	return nd.n
}

// own returns nd if it is of this era, else a copy that is.
func (t *btree[K, T]) own(nd *bnode[K, T]) *bnode[K, T] {
	if nd.era == t.era {
		return nd
	}
	return &bnode[K, T]{era: t.era, n: nd.n, objs: slices.Clone(nd.objs), kids: slices.Clone(nd.kids), lows: slices.Clone(nd.lows)}
}

// put stores one object at its mark, in the place of the one that is there.
func (t *btree[K, T]) put(one marked[K, T]) {
	if t.root == nil {
		t.root = &bnode[K, T]{era: t.era}
	}
	t.root = t.own(t.root)
	if right, low := t.insert(t.root, one); right != nil {
		t.root = &bnode[K, T]{era: t.era, n: t.root.n + right.n, kids: []*bnode[K, T]{t.root, right}, lows: []mark[K]{{}, low}}
	}
}

// insert stores one in nd or below, which is of this era. If nd has become too wide it keeps its
// lower part, and right is the other one, with marks from low on.
func (t *btree[K, T]) insert(nd *bnode[K, T], one marked[K, T]) (right *bnode[K, T], low mark[K]) {
	if nd.kids == nil {
		i, found := nd.find(one.mark)
		if found {
			nd.objs[i] = one
			return nil, low
		}
		nd.objs = slices.Insert(nd.objs, i, one)
		nd.n++
		if len(nd.objs) <= width {
			return nil, low
		}
		at := middle(i)
		right = &bnode[K, T]{era: t.era, objs: slices.Clone(nd.objs[at:])}
		right.n = len(right.objs)
		nd.objs, nd.n = slices.Delete(nd.objs, at, len(nd.objs)), at
		return right, right.objs[0].mark
	}
	i := nd.below(one.mark)
	kid := t.own(nd.kids[i])
	nd.kids[i] = kid
	was := kid.n
	more, from := t.insert(kid, one)
	nd.n += kid.n + more.len() - was
	if more == nil {
		return nil, low
	}
	nd.kids, nd.lows = slices.Insert(nd.kids, i+1, more), slices.Insert(nd.lows, i+1, from)
	if len(nd.kids) <= width {
		return nil, low
	}
	at := middle(i + 1)
	right = &bnode[K, T]{era: t.era, kids: slices.Clone(nd.kids[at:]), lows: slices.Clone(nd.lows[at:])}
	for _, kid := range right.kids {
		right.n += kid.n
	}
	nd.n -= right.n
	nd.kids, nd.lows = slices.Delete(nd.kids, at, len(nd.kids)), slices.Delete(nd.lows, at, len(nd.lows))
	return right, right.lows[0]
}

// middle returns where to divide a node that something was inserted into at i. Marks that rise,
// such as times, are always inserted at the end. Then the lower part stays full.
func middle(i int) int {
	if i == width {
		return width
	}
	return width / 2
}

// find returns the place of m in the objects of a leaf, and whether there is an object.
func (nd *bnode[K, T]) find(m mark[K]) (i int, found bool) {
	return slices.BinarySearchFunc(nd.objs, m, func(o marked[K, T], m mark[K]) int { return o.compare(m) })
}

// below returns which of the nodes below nd has the marks around m.
func (nd *bnode[K, T]) below(m mark[K]) int {
	i, found := slices.BinarySearchFunc(nd.lows[1:], m, mark[K].compare)
	if found {
		return i + 1
	}
	return i
}

// remove removes the object at m, which is there.
func (t *btree[K, T]) remove(m mark[K]) {
	t.root = t.own(t.root)
	t.delete(t.root, m)
	for len(t.root.kids) == 1 {
		t.root = t.root.kids[0]
	}
	if t.root.n == 0 {
		t.root = nil
	}
}

// delete removes the object at m from nd or below, which is of this era.
func (t *btree[K, T]) delete(nd *bnode[K, T], m mark[K]) {
	nd.n--
	if nd.kids == nil {
		i, _ := nd.find(m)
		nd.objs = slices.Delete(nd.objs, i, i+1)
		return
	}
	i := nd.below(m)
	kid := t.own(nd.kids[i])
	nd.kids[i] = kid
	t.delete(kid, m)
	if kid.n == 0 {
		nd.kids, nd.lows = slices.Delete(nd.kids, i, i+1), slices.Delete(nd.lows, i, i+1)
		return
	}
	// Nodes are joined only when one is nearly empty: then as many writes must come before the
	// result is divided again. Two nodes side by side have more than width together, so on average
	// they are at least half full.
	if len(kid.objs)+len(kid.kids) >= width/4 {
		return
	}
	if i > 0 && t.join(nd, i-1) {
		return
	}
	if i+1 < len(nd.kids) {
		t.join(nd, i)
	}
}

// join makes one node of the nodes i and i+1 below nd, if it is not too wide.
func (t *btree[K, T]) join(nd *bnode[K, T], i int) bool {
	a, b := nd.kids[i], nd.kids[i+1]
	if len(a.objs)+len(b.objs)+len(a.kids)+len(b.kids) > width {
		return false
	}
	a = t.own(a)
	a.n += b.n
	a.objs = append(a.objs, b.objs...)
	if b.kids != nil {
		from := len(a.lows)
		a.kids, a.lows = append(a.kids, b.kids...), append(a.lows, b.lows...)
		a.lows[from] = nd.lows[i+1]
	}
	nd.kids[i] = a
	nd.kids, nd.lows = slices.Delete(nd.kids, i+1, i+2), slices.Delete(nd.lows, i+1, i+2)
	return true
}

// fill makes all the content, which is in order.
func (t *btree[K, T]) fill(all []marked[K, T]) {
	const full = width * 3 / 4 // room for as many writes as come soon
	var level []*bnode[K, T]
	var lows []mark[K]
	for part := range slices.Chunk(all, full) {
		level = append(level, &bnode[K, T]{era: t.era, n: len(part), objs: slices.Clone(part)})
		lows = append(lows, part[0].mark)
	}
	for len(level) > 1 {
		var above []*bnode[K, T]
		var marks []mark[K]
		for from := 0; from < len(level); from += full {
			to := min(from+full, len(level))
			nd := &bnode[K, T]{era: t.era, kids: slices.Clone(level[from:to]), lows: slices.Clone(lows[from:to])}
			for _, kid := range nd.kids {
				nd.n += kid.n
			}
			above, marks = append(above, nd), append(marks, nd.lows[0])
		}
		level, lows = above, marks
	}
	t.root = nil
	if len(level) == 1 {
		t.root = level[0]
	}
}

// merge removes the objects at over, and adds fresh. Both are in order, and all of over is there.
func (t *btree[K, T]) merge(over []mark[K], fresh []marked[K, T]) {
	all := make([]marked[K, T], 0, t.len()-len(over)+len(fresh))
	if t.root != nil {
		t.root.up(0, t.root.n, func(one marked[K, T]) bool {
			if len(over) > 0 && over[0] == one.mark {
				over = over[1:]
				return true
			}
			for len(fresh) > 0 && fresh[0].compare(one.mark) < 0 {
				all, fresh = append(all, fresh[0]), fresh[1:]
			}
			all = append(all, one)
			return true
		})
	}
	t.fill(append(all, fresh...))
}

// place returns how many objects have a mark below m.
func (nd *bnode[K, T]) place(m mark[K]) (n int) {
	for nd != nil {
		if nd.kids == nil {
			i, _ := nd.find(m)
			return n + i
		}
		i := nd.below(m)
		for _, kid := range nd.kids[:i] {
			n += kid.n
		}
		nd = nd.kids[i]
	}
	return n
}

// up yields the objects at the places from, from+1 … to-1.
func (nd *bnode[K, T]) up(from, to int, yield func(marked[K, T]) bool) bool {
	if nd.kids == nil {
		for i := max(from, 0); i < min(to, len(nd.objs)); i++ {
			if !yield(nd.objs[i]) {
				return false
			}
		}
		return true
	}
	for _, kid := range nd.kids {
		if to <= 0 {
			return true
		}
		if from < kid.n && !kid.up(from, to, yield) {
			return false
		}
		from, to = from-kid.n, to-kid.n
	}
	return true
}

// down yields the objects at the places to-1, to-2 … from.
func (nd *bnode[K, T]) down(from, to int, yield func(marked[K, T]) bool) bool {
	if nd.kids == nil {
		for i := min(to, len(nd.objs)) - 1; i >= max(from, 0); i-- {
			if !yield(nd.objs[i]) {
				return false
			}
		}
		return true
	}
	at := nd.n
	for _, kid := range slices.Backward(nd.kids) {
		at -= kid.n
		if at+kid.n <= from {
			return true
		}
		if at < to && !kid.down(from-at, to-at, yield) {
			return false
		}
	}
	return true
}
