package oracle

import (
	"maps"
	"slices"
	"sort"
)

// truth is everything that the server ever had. A new epoch begins each time that the server goes
// back in time, because from then on the same version numbers stand for other states.
type truth struct {
	epochs    []*epoch
	positions []position
}

// A point names one state of the server.
type point struct {
	epoch   int
	version uint64
}

func (p point) before(q point) bool {
	return p.epoch < q.epoch || p.epoch == q.epoch && p.version < q.version
}

// A position says at which point the server was from moment seq on.
type position struct {
	seq int
	at  point
}

type epoch struct {
	seq       int                // when it began
	top       uint64             // its newest version
	revisions map[Key][]revision // rising versions
	bad       []uint64           // versions that wrote a bad object, rising
}

// A revision is the content of a key from a version on.
type revision struct {
	version uint64
	item    *Item // nil: the object does not exist, or is bad
	bad     bool
}

func newTruth() truth {
	return truth{
		epochs:    []*epoch{{top: 1, revisions: map[Key][]revision{}}},
		positions: []position{{0, point{0, 1}}},
	}
}

// now returns the server's current point.
func (t *truth) now() point { return t.positions[len(t.positions)-1].at }

// last returns the current epoch.
func (t *truth) last() *epoch { return t.epochs[len(t.epochs)-1] }

// write adds a revision at moment seq.
func (t *truth) write(seq int, w Write) {
	e := t.last()
	e.revisions[w.Key] = append(e.revisions[w.Key], revision{w.Version, w.Item, w.Bad})
	if w.Bad {
		e.bad = append(e.bad, w.Version)
	}
	t.move(seq, w.Version)
}

// move sets the server's version at moment seq.
func (t *truth) move(seq int, version uint64) {
	t.last().top = version
	t.positions = append(t.positions, position{seq, point{len(t.epochs) - 1, version}})
}

// rewind begins a new epoch with the revisions of the current one up to version.
func (t *truth) rewind(seq int, version uint64) {
	old := t.last()
	e := &epoch{seq: seq, top: version, revisions: make(map[Key][]revision, len(old.revisions))}
	for key, revisions := range old.revisions {
		n := sort.Search(len(revisions), func(i int) bool { return revisions[i].version > version })
		e.revisions[key] = slices.Clone(revisions[:n])
	}
	for _, v := range old.bad {
		if v <= version {
			e.bad = append(e.bad, v)
		}
	}
	t.epochs = append(t.epochs, e)
	t.move(seq, version)
}

// at returns the server's point at a moment.
func (t *truth) at(seq int) point {
	n := sort.Search(len(t.positions), func(i int) bool { return t.positions[i].seq > seq })
	return t.positions[n-1].at
}

// reached reports whether the server was at p at that moment or before.
func (t *truth) reached(p point, seq int) bool {
	top := t.at(seq)
	return p.epoch < top.epoch && p.version <= t.epochs[p.epoch].top || p.epoch == top.epoch && p.version <= top.version
}

// revisionAt returns the content of key at p. It is the zero revision if key was never written.
func (t *truth) revisionAt(p point, key Key) revision {
	revisions := t.epochs[p.epoch].revisions[key]
	n := sort.Search(len(revisions), func(i int) bool { return revisions[i].version > p.version })
	if n == 0 {
		return revision{}
	}
	return revisions[n-1]
}

// state returns the objects that exist at p, and the keys whose object is bad.
func (t *truth) state(p point) (items map[Key]Item, bad map[Key]bool) {
	items, bad = map[Key]Item{}, map[Key]bool{}
	for key := range t.epochs[p.epoch].revisions {
		switch c := t.revisionAt(p, key); {
		case c.bad:
			bad[key] = true
		case c.item != nil:
			items[key] = *c.item
		}
	}
	return items, bad
}

// wrote reports whether the server wrote exactly item, in any epoch.
func (t *truth) wrote(item Item) bool {
	for i := range t.epochs {
		if c := t.revisionAt(point{i, item.Version}, item.Key); c.item != nil && c.version == item.Version &&
			c.item.is(item) {
			return true
		}
	}
	return false
}

// together reports whether several objects were written at version, in the first epoch.
func (t *truth) together(version uint64) bool {
	n := 0
	for key := range t.epochs[0].revisions {
		if t.revisionAt(point{0, version}, key).version == version {
			n++
		}
	}
	return n > 1
}

// badSince reports whether an object is bad at p or at a point between p and the moment. If so, a
// copy may have held back the version that it reports.
func (t *truth) badSince(p point, seq int) bool {
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

// changes returns the versions in (from, until] of an epoch that wrote an object, in rising order.
func (t *truth) changes(epoch int, from, until uint64) []uint64 {
	seen := map[uint64]bool{}
	for _, revisions := range t.epochs[epoch].revisions {
		for i := len(revisions) - 1; i >= 0 && revisions[i].version > from; i-- {
			if revisions[i].version <= until {
				seen[revisions[i].version] = true
			}
		}
	}
	return slices.Sorted(maps.Keys(seen))
}
