package lw

import (
	"slices"
	"time"

	"github.com/go-lw/lw/internal/equal"
)

// A netChange is the net effect of a run of deltas: for each key that changed, the object before
// the run and the object after it. What was between is forgotten. Its size depends on the number of
// keys that changed, not on the number of deltas; that is what bounds the memory of a consumer that
// is blocked.
//
// Its life has three stages: add is called for each delta, then freeze once, then drain until it is
// empty. The mutex of the cursor that has it guards it.
type netChange[T Identified] struct {
	// entries has one delta for each key that changed, from the object before the run (Old) to the
	// object after it (New). They are in the order of each key's latest change: the object that
	// changed last comes last. That is as near to the order of the log as one change for each
	// object can come.
	//
	// When a key changes again, its entry moves to the end: its old place becomes the zero Delta,
	// and a new entry is appended. That costs the same for every change, while closing the gap
	// would move all entries after it. compact removes the empty places when there are too many.
	//
	// The Type of an entry is that of the last delta, not of the net change. drain computes the
	// type from Old and New.
	entries []Delta[T]
	// places has the index in entries of each key's entry. It is nil once the run is frozen.
	places map[Key]int
	// arrivals has when the first timed change of a key came, for each key that has one. It is nil
	// once the run is frozen.
	arrivals map[Key]time.Duration
	// timed has the arrivals once the run is frozen, by their indexes in entries as it was then.
	// drained is how many of these entries are gone.
	timed   []timedDelta
	drained int
	// live is the number of entries that are not empty.
	live int
}

func newNetChange[T Identified]() *netChange[T] { return &netChange[T]{places: map[Key]int{}} }

// len returns the number of keys that have a net change. A nil netChange has none.
func (n *netChange[T]) len() int {
	if n == nil {
		return 0
	}
	return n.live
}

// add appends d to the run. If its key has an entry, Old of that entry stays, because it is the
// object before the run, and New becomes that of d. If both are the same then, usually zero, the
// key has no net change and loses its entry.
func (n *netChange[T]) add(d Delta[T]) {
	key := d.Key()
	place, again := n.places[key]
	if again {
		before := n.entries[place]
		// Initial belongs to the Added that stored the object, and an Updated does not take it
		// away. An Added has its own, and a Deleted has none.
		if d.Type == Updated {
			d.Initial = before.Initial
		}
		if d.Cause == CauseTold { // the rest is news for one who has told it
			d.Cause = before.Cause
		}
		d.Old = before.Old
		n.entries[place] = Delta[T]{} // empty for now; filled again below if it is the last place
		n.live--
	}
	if equal.Same(d.Old, d.New) {
		if again {
			delete(n.places, key)
			delete(n.arrivals, key)
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
	// There may be chunkSize more empty places than entries in use: fewer are not worth the work.
	// So memory follows the number of keys.
	if len(n.entries) > 2*n.live+chunkSize {
		n.compact()
	}
}

// compact removes the empty places. Since the last time, add was called at least as often as
// compact moves entries now. So the cost for each delta is constant.
func (n *netChange[T]) compact() {
	n.entries = slices.DeleteFunc(n.entries, func(d Delta[T]) bool { return equal.IsZero(d.Old) && equal.IsZero(d.New) })
	if cap(n.entries) > 8*(len(n.entries)+chunkSize) {
		n.entries = slices.Clone(n.entries) // gives back memory after a burst
	}
	for i, d := range n.entries {
		n.places[d.Key()] = i
	}
}

// came notes when a change of key came, which was added just now.
func (n *netChange[T]) came(key Key, arrival time.Duration) {
	if _, known := n.arrivals[key]; known {
		return
	}
	if n.arrivals == nil {
		n.arrivals = map[Key]time.Duration{}
	}
	n.arrivals[key] = arrival
}

// freeze ends the run: no delta is added any more. It releases the maps, which only add needs.
func (n *netChange[T]) freeze() {
	for key, arrival := range n.arrivals {
		if place, ok := n.places[key]; ok {
			n.timed = append(n.timed, timedDelta{place, arrival})
		}
	}
	slices.SortFunc(n.timed, func(a, b timedDelta) int { return a.index - b.index })
	n.places, n.arrivals = nil, nil
}

// drain appends to buf the deltas of the first entries, as many as fit without growing buf, and
// removes these entries. buf needs room for two deltas: an entry makes two, a Deleted and an Added,
// if its objects have different UIDs. To timed it appends the arrivals of those in buf.
func (n *netChange[T]) drain(buf []Delta[T], timed []timedDelta) ([]Delta[T], []timedDelta) {
	drained := 0
	for ; drained < len(n.entries) && len(buf) < cap(buf)-1; drained++ {
		d := n.entries[drained]
		var at *timedDelta
		if len(n.timed) > 0 && n.timed[0].index == n.drained+drained {
			at, n.timed = &n.timed[0], n.timed[1:]
		}
		if equal.Same(d.Old, d.New) {
			continue
		}
		n.live--
		emit(d, func(d Delta[T]) { buf = append(buf, d) })
		if at != nil {
			timed = append(timed, timedDelta{len(buf) - 1, at.arrival})
		}
	}
	clear(n.entries[:drained]) // so that their objects can be freed
	n.entries = n.entries[drained:]
	n.drained += drained
	return buf, timed
}
