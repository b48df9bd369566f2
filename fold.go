package lw

import "slices"

// A netChange is what a run of deltas amounts to: for each key the object before the run, the object after it, and nothing of
// what was between. It is added to, then frozen, then drained.
type netChange[T Object] struct {
	// entries are in the order of each key's latest change. A key that changes again leaves its place empty (the zero Delta)
	// and takes a new one at the end, which is cheaper than moving the others; compact removes the empty places.
	entries []Delta[T]
	places  map[Key]int // into entries; nil once frozen
	live    int         // entries that are not empty
}

func newNetChange[T Object]() *netChange[T] {
	return &netChange[T]{places: map[Key]int{}}
}

// len returns how many keys have changed.
func (n *netChange[T]) len() int {
	if n == nil {
		return 0
	}
	return n.live
}

// add appends d to the run.
func (n *netChange[T]) add(d Delta[T]) {
	key := d.Key()
	place, again := n.places[key]
	if again {
		before := n.entries[place]
		// An Added tells itself whether it is initial, and what is deleted is not any more.
		if d.Type == Updated {
			d.Initial = before.Initial
		}
		d.Old = before.Old
		n.entries[place] = Delta[T]{}
		n.live--
	}
	if d.Old == d.New {
		if again {
			delete(n.places, key)
		}
		return
	}
	if again && place == len(n.entries)-1 {
		n.entries[place] = d
	} else {
		n.places[key] = len(n.entries)
		n.entries = append(n.entries, d)
	}
	n.live++
	if len(n.entries) > 2*n.live+chunkSize {
		n.compact()
	}
}

// compact removes the empty places. At least as many changes have gone by as it moves entries.
func (n *netChange[T]) compact() {
	var zero T
	n.entries = slices.DeleteFunc(n.entries, func(d Delta[T]) bool { return d.Old == zero && d.New == zero })
	if cap(n.entries) > 8*(len(n.entries)+chunkSize) {
		n.entries = slices.Clone(n.entries)
	}
	for i, d := range n.entries {
		n.places[d.Key()] = i
	}
}

// freeze ends the run. What it kept to find keys is released.
func (n *netChange[T]) freeze() { n.places = nil }

// drain appends to buf the deltas of the first entries that are left, until buf is full, and forgets them. There is room in buf
// for two.
func (n *netChange[T]) drain(buf []Delta[T]) []Delta[T] {
	drained := 0
	for ; drained < len(n.entries) && len(buf) < cap(buf)-1; drained++ {
		d := n.entries[drained]
		if d.Old == d.New {
			continue
		}
		n.live--
		emit(d, func(d Delta[T]) { buf = append(buf, d) })
	}
	clear(n.entries[:drained])
	n.entries = n.entries[drained:]
	return buf
}
