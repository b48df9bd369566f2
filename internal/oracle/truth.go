package oracle

import (
	"maps"
	"slices"
	"sort"
)

// truth is everything that the server ever had. Each time that it went back in time a new epoch begins, in which its versions
// mean something else.
type truth struct {
	epochs []*epoch
	marks  []mark
}

// A point is one state of the server.
type point struct {
	epoch   int
	version uint64
}

func (p point) before(q point) bool {
	return p.epoch < q.epoch || p.epoch == q.epoch && p.version < q.version
}

// A mark says where the server stood from a moment on.
type mark struct {
	seq int
	at  point
}

type epoch struct {
	seq   int // when it began
	top   uint64
	cells map[Key][]cell // rising versions
	bad   []uint64       // versions that wrote a bad object, rising
}

// A cell is what a key held from a version on.
type cell struct {
	version uint64
	item    *Item
	bad     bool
}

func newTruth() truth {
	return truth{
		epochs: []*epoch{{top: 1, cells: map[Key][]cell{}}},
		marks:  []mark{{0, point{0, 1}}},
	}
}

func (t *truth) now() point { return t.marks[len(t.marks)-1].at }

func (t *truth) last() *epoch { return t.epochs[len(t.epochs)-1] }

func (t *truth) write(seq int, w Write) {
	e := t.last()
	e.cells[w.Key] = append(e.cells[w.Key], cell{w.Version, w.Item, w.Bad})
	if w.Bad {
		e.bad = append(e.bad, w.Version)
	}
	t.move(seq, w.Version)
}

func (t *truth) move(seq int, version uint64) {
	t.last().top = version
	t.marks = append(t.marks, mark{seq, point{len(t.epochs) - 1, version}})
}

func (t *truth) rewind(seq int, version uint64) {
	old := t.last()
	e := &epoch{seq: seq, top: version, cells: make(map[Key][]cell, len(old.cells))}
	for key, cells := range old.cells {
		n := sort.Search(len(cells), func(i int) bool { return cells[i].version > version })
		e.cells[key] = slices.Clone(cells[:n])
	}
	for _, v := range old.bad {
		if v <= version {
			e.bad = append(e.bad, v)
		}
	}
	t.epochs = append(t.epochs, e)
	t.move(seq, version)
}

// at returns where the server stood at a moment.
func (t *truth) at(seq int) point {
	n := sort.Search(len(t.marks), func(i int) bool { return t.marks[i].seq > seq })
	return t.marks[n-1].at
}

// reached reports whether the server had been at p by a moment.
func (t *truth) reached(p point, seq int) bool {
	top := t.at(seq)
	return p.epoch < top.epoch && p.version <= t.epochs[p.epoch].top || p.epoch == top.epoch && p.version <= top.version
}

// cell returns what key held at p.
func (t *truth) cell(p point, key Key) cell {
	cells := t.epochs[p.epoch].cells[key]
	n := sort.Search(len(cells), func(i int) bool { return cells[i].version > p.version })
	if n == 0 {
		return cell{}
	}
	return cells[n-1]
}

// state returns the objects of p, and the keys of which the object is bad.
func (t *truth) state(p point) (items map[Key]Item, bad map[Key]bool) {
	items, bad = map[Key]Item{}, map[Key]bool{}
	for key := range t.epochs[p.epoch].cells {
		switch c := t.cell(p, key); {
		case c.bad:
			bad[key] = true
		case c.item != nil:
			items[key] = *c.item
		}
	}
	return items, bad
}

// had reports whether item is a version that the server wrote, in any epoch.
func (t *truth) had(item Item) bool {
	for i := range t.epochs {
		if c := t.cell(point{i, item.Version}, item.Key); c.item != nil && c.version == item.Version && c.item.is(item) {
			return true
		}
	}
	return false
}

// clouded reports whether p, or a state between p and the moment, has an object that is bad, so that a copy may hold back its
// version.
func (t *truth) clouded(p point, seq int) bool {
	_, bad := t.state(p)
	if len(bad) > 0 {
		return true
	}
	top := t.at(seq)
	for i := p.epoch; i <= top.epoch; i++ {
		for _, v := range t.epochs[i].bad {
			if q := (point{i, v}); p.before(q) && t.reached(q, seq) {
				return true
			}
		}
	}
	return false
}

// changes returns the versions in (from, until] of an epoch that wrote something, rising.
func (t *truth) changes(epoch int, from, until uint64) []uint64 {
	seen := map[uint64]bool{}
	for _, cells := range t.epochs[epoch].cells {
		for i := len(cells) - 1; i >= 0 && cells[i].version > from; i-- {
			if cells[i].version <= until {
				seen[cells[i].version] = true
			}
		}
	}
	return slices.Sorted(maps.Keys(seen))
}
