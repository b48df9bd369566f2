package graph_test

import (
	"fmt"
	"iter"
	"maps"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/types"
	"pgregory.net/rapid"

	"github.com/go-lw/lw"
)

// An atom is the object of every collection of the random graphs.
type atom struct {
	lw.Meta
	N    int
	Text string
}

func newAtom(name string, n int) *atom {
	return &atom{Meta: lw.Meta{Namespace: "ns", Name: name}, N: n}
}

// A whole is one state of a collection, without resource versions.
type whole map[lw.Key]atom

func (w whole) put(a *atom) {
	plain := *a
	plain.ResourceVersion = ""
	w[lw.KeyOf(a)] = plain
}

func wholeOf(r lw.Reader[*atom]) whole {
	w := whole{}
	for a := range r.All() {
		w.put(a)
	}
	return w
}

// sorted yields the objects in the order of their keys.
func (w whole) sorted(yield func(*atom) bool) {
	for _, a := range slices.SortedFunc(maps.Values(w),
		func(a, b atom) int { return strings.Compare(origin(&a), origin(&b)) }) {
		if !yield(&a) {
			return
		}
	}
}

// origin returns the key of a as a text whose order is that of the keys.
func origin(a *atom) string { return a.Namespace + "\x00" + a.Name }

// A made is what the model makes of the inputs of a node. rivals has the keys that several origins
// make.
type made struct {
	objs   whole
	rivals map[lw.Key]bool
	owners map[lw.Key]string
}

func newMade() *made {
	return &made{objs: whole{}, rivals: map[lw.Key]bool{}, owners: map[lw.Key]string{}}
}

// claim notes that origin makes a. The smallest origin counts.
func (m *made) claim(origin string, a *atom) {
	if a == nil {
		return
	}
	key := lw.KeyOf(a)
	owner, taken := m.owners[key]
	if taken {
		m.rivals[key] = true
	}
	if !taken || origin < owner {
		m.owners[key] = origin
		m.objs.put(a)
	}
}

// A kit is the functions of one node. a, b and c make them differ from those of other nodes.
// call is called with each call of the node's function, key with each of a key function, and remove
// with each of Aggregate.Remove. They may be nil.
type kit struct {
	a, b, c int
	call    func()
	key     func(what string, from int, x *atom)
	remove  func()
}

func (k kit) keyed(what string, from int, x *atom) {
	if k.key != nil {
		k.key(what, from, x)
	}
}

func (k kit) called() {
	if k.call != nil {
		k.call()
	}
}

func (k kit) name(n int) string { return fmt.Sprint("k", n%3) }

// derive keeps the key, gives another, or gives another UID, as c says.
func (k kit) derive(x *atom) *atom {
	k.called()
	if (x.N+k.a)%4 == 3 {
		return nil
	}
	y := &atom{Meta: x.Meta, N: x.N % (2 + k.b), Text: "derived"}
	switch k.c {
	case 1:
		y.Name = k.name(x.N)
	case 2:
		y.UID = types.UID(fmt.Sprint("u", x.N%2))
	}
	return y
}

// many makes up to three objects, mostly of keys that others make too, and one of them twice.
// Before one of them it yields none.
func (k kit) many(x *atom) iter.Seq[*atom] {
	return func(yield func(*atom) bool) {
		k.called()
		for i := range (x.N + k.a) % 4 {
			y := &atom{Meta: lw.Meta{Namespace: "many", Name: k.name(i * (1 + k.b))}, N: x.N + i, Text: x.Name}
			if k.c == 2 {
				y.Name += x.Name
			}
			if i == 1 && !yield(nil) || !yield(y) {
				return
			}
		}
	}
}

// on has several keys a left, one of them twice, and up to one a right.
func (k kit) on() lw.On[float64, *atom, *atom] {
	keys := func(all ...int) iter.Seq[float64] {
		return func(yield func(float64) bool) {
			for _, n := range all {
				if !yield(float64(n)) {
					return
				}
			}
		}
	}
	on := lw.On[float64, *atom, *atom]{
		Left: func(l *atom) iter.Seq[float64] {
			k.keyed("left", 0, l)
			return keys(l.N%(2+k.a), (l.N+k.b)%4, l.N%(2+k.a))
		},
		Right: func(r *atom) iter.Seq[float64] {
			k.keyed("right", 1, r)
			if r.N%5 == 4 {
				return keys()
			}
			return keys(r.N%(2+k.a), r.N%3)
		},
	}
	if k.c > 0 {
		on.Where = func(l, r *atom) bool { return (l.N+r.N+k.b)%3 != 0 }
	}
	return on
}

// related reports whether l and r belong together, as On says it.
func (k kit) related(l, r *atom) bool {
	on := k.on()
	lefts := slices.Collect(on.Left(l))
	for key := range on.Right(r) {
		if slices.Contains(lefts, key) {
			return on.Where == nil || on.Where(l, r)
		}
	}
	return false
}

func (k kit) pair(l, r *atom) *atom {
	k.called()
	switch {
	case l.N*r.N%5 == 4:
		return nil
	case k.b > 0:
		return &atom{Meta: lw.Meta{Namespace: "pair", Name: k.name(l.N + r.N)}, N: l.N, Text: l.Name + r.Name}
	}
	return &atom{Meta: lw.Meta{Namespace: "pair", Name: l.Name + "-" + r.Name}, N: l.N + r.N}
}

func (k kit) gather(l *atom, rights []*atom) *atom {
	k.called()
	y := &atom{Meta: l.Meta, N: len(rights)}
	for _, r := range rights {
		y.Text += fmt.Sprint(r.Name, r.N, " ")
	}
	if k.c == 2 {
		y.Name = k.name(l.N + len(rights))
	}
	return y
}

func (k kit) groupKey(x *atom) lw.Key { return lw.Key{Namespace: "group", Name: k.name(x.N + k.a)} }

// grouping is groupKey as the key function what, as a K.
func grouping[K comparable](k kit, what string, key func(lw.Key) K) func(x *atom) K {
	return func(x *atom) K {
		k.keyed(what, 0, x)
		return key(k.groupKey(x))
	}
}

// A zone is a key of a group that is neither a lw.Key nor a string.
type zone struct {
	group, name string
	n           int
}

// What turns keys of groups to those of other types and back.

func sameKey(key lw.Key) lw.Key     { return key }
func nameOfKey(key lw.Key) string   { return key.Name }
func keyOfName(name string) lw.Key  { return lw.Key{Namespace: "group", Name: name} }
func zoneOfKey(key lw.Key) zone     { return zone{key.Namespace, key.Name, 7} }
func keyOfZone(z zone) (key lw.Key) { return lw.Key{Namespace: z.group, Name: z.name} }

// grouped is a GroupBy of in, or a GroupAll, whose keys are of the type that k.b says.
func grouped(g *lw.Graph, k kit, name string, in lw.Collection[*atom], all bool) *lw.Derived[*atom] {
	switch k.b {
	case 0:
		return groupedBy(g, k, name, in, all, sameKey, sameKey)
	case 1:
		return groupedBy(g, k, name, in, all, nameOfKey, keyOfName)
	}
	return groupedBy(g, k, name, in, all, zoneOfKey, keyOfZone)
}

func groupedBy[K comparable](g *lw.Graph, k kit, name string, in lw.Collection[*atom], all bool, to func(lw.Key) K,
	from func(K) lw.Key) *lw.Derived[*atom] {
	if all {
		return lw.GroupAll(g, in, grouping(k, "group", to),
			func(key K, objs []*atom) *atom { return k.group(from(key), objs) }, name)
	}
	return lw.GroupBy(g, in, grouping(k, "sum group", to), k.aggregate(),
		func(key K, t tallied) *atom { return k.total(from(key), t) }, name)
}

// A tallied is what the atoms of a group amount to.
type tallied struct{ n, sum int }

func (k kit) aggregate() lw.Aggregate[*atom, tallied] {
	return lw.Aggregate[*atom, tallied]{
		Add: func(t tallied, x *atom) tallied { return tallied{t.n + 1, t.sum + x.N} },
		Remove: func(t tallied, x *atom) tallied {
			if k.remove != nil {
				k.remove()
			}
			return tallied{t.n - 1, t.sum - x.N}
		},
	}
}

func (k kit) total(key lw.Key, t tallied) *atom {
	k.called()
	if t.sum%4 == 3 {
		return nil
	}
	y := &atom{Meta: lw.Meta{Namespace: key.Namespace, Name: key.Name}, N: t.sum, Text: fmt.Sprint(t.n)}
	if k.c == 2 {
		y.Name = k.name(t.sum) // not that of the group
	}
	return y
}

func (k kit) group(key lw.Key, objs []*atom) *atom {
	y := k.total(key, tallied{len(objs), len(objs)})
	for _, x := range objs {
		if y != nil {
			y.Text += fmt.Sprint(" ", x.Name, x.N)
		}
	}
	return y
}

// An operation is how a node is made of its inputs, and how the model computes it from scratch.
type operation struct {
	name  string
	build func(g *lw.Graph, k kit, name string, ins []lw.Collection[*atom]) *lw.Derived[*atom]
	model func(k kit, m *made, ins []whole)
}

const opUnion = "union"

// operationNames are those of operations, in their order.
var operationNames = []string{"derive", "many", "join", "leftjoin", "groupby", "groupall", opUnion}

var operations = []operation{
	{"derive", func(g *lw.Graph, k kit, name string, ins []lw.Collection[*atom]) *lw.Derived[*atom] {
		return lw.Derive(g, ins[0], k.derive, name)
	}, func(k kit, m *made, ins []whole) {
		for x := range ins[0].sorted {
			m.claim(origin(x), k.derive(x))
		}
	}},
	{"many", func(g *lw.Graph, k kit, name string, ins []lw.Collection[*atom]) *lw.Derived[*atom] {
		return lw.DeriveMany(g, ins[0], k.many, name)
	}, func(k kit, m *made, ins []whole) {
		for x := range ins[0].sorted {
			seen := map[lw.Key]bool{}
			for y := range k.many(x) {
				if y != nil && !seen[lw.KeyOf(y)] {
					seen[lw.KeyOf(y)] = true
					m.claim(origin(x), y)
				}
			}
		}
	}},
	{"join", func(g *lw.Graph, k kit, name string, ins []lw.Collection[*atom]) *lw.Derived[*atom] {
		return lw.Join(g, ins[0], ins[1], k.on(), k.pair, name)
	}, func(k kit, m *made, ins []whole) {
		for l := range ins[0].sorted {
			for r := range ins[1].sorted {
				if k.related(l, r) {
					m.claim(origin(l)+"\x00"+origin(r), k.pair(l, r))
				}
			}
		}
	}},
	{"leftjoin", func(g *lw.Graph, k kit, name string, ins []lw.Collection[*atom]) *lw.Derived[*atom] {
		return lw.LeftJoin(g, ins[0], ins[1], k.on(), k.gather, name)
	}, func(k kit, m *made, ins []whole) {
		for l := range ins[0].sorted {
			var rights []*atom
			for r := range ins[1].sorted {
				if k.related(l, r) {
					rights = append(rights, r)
				}
			}
			m.claim(origin(l), k.gather(l, rights))
		}
	}},
	{"groupby", func(g *lw.Graph, k kit, name string, ins []lw.Collection[*atom]) *lw.Derived[*atom] {
		return grouped(g, k, name, ins[0], false)
	}, func(k kit, m *made, ins []whole) {
		for key, objs := range k.groups(ins[0]) {
			t := tallied{n: len(objs)}
			for _, x := range objs {
				t.sum += x.N
			}
			m.claim(key.Namespace+"\x00"+key.Name, k.total(key, t))
		}
	}},
	{"groupall", func(g *lw.Graph, k kit, name string, ins []lw.Collection[*atom]) *lw.Derived[*atom] {
		return grouped(g, k, name, ins[0], true)
	}, func(k kit, m *made, ins []whole) {
		for key, objs := range k.groups(ins[0]) {
			m.claim(key.Namespace+"\x00"+key.Name, k.group(key, objs))
		}
	}},
	{opUnion, nil, func(k kit, m *made, ins []whole) {
		for _, in := range ins {
			for key, a := range in {
				if _, taken := m.objs[key]; !taken {
					m.objs[key] = a
				}
			}
		}
	}},
}

func (k kit) groups(in whole) map[lw.Key][]*atom {
	groups := map[lw.Key][]*atom{}
	for x := range in.sorted {
		groups[k.groupKey(x)] = append(groups[k.groupKey(x)], x)
	}
	return groups
}

func drawKit(t *rapid.T) kit {
	return kit{a: rapid.IntRange(0, 2).Draw(t, "a"), b: rapid.IntRange(0, 2).Draw(t, "b"),
		c: rapid.IntRange(0, 2).Draw(t, "c")}
}
