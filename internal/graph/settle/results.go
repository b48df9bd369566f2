package settle

import (
	"github.com/go-lw/lw/internal/equal"
)

// Rules say how [Results] of one collection behave.
type Rules[O comparable, T any] struct {
	// Compare orders the origins. Of several that claim a key the smallest is shown.
	Compare func(a, b O) int
	// Same reports whether two objects of a key do not differ. If they do not, the earlier one stays.
	Same func(old, obj T) bool
	// Shown returns the object that key showed before this step.
	Shown func(key Key) (T, bool)
	// Home returns the origin that mostly claims key. Such a claim takes no memory. nil: none does.
	Home func(key Key) O
	// Rivals is called by Decide for a key that several origins claim, if one of them is new or has
	// gone in this step. It is also called once for a key that is no longer contested. rival is the
	// smallest of those that are not shown. Rivals may be nil.
	Rivals func(key Key, shown, rival O, several bool)
}

// Results are the claims of all origins, and what they amount to. They are used by one goroutine at
// a time.
//
// Nothing is kept of a claim that is shown and whose origin is at home: the object is the
// collection's. So the results of a collection that keeps the keys of its input take no memory
// here.
type Results[O comparable, T any] struct {
	rules Rules[O, T]
	net   Net[T]
	// owners has the origin of what each key shows, unless that is its Home.
	owners map[Key]O
	// rivals has the claims of each key that are not shown. None of them is empty.
	rivals map[Key]*queue[O, T]
	// contested has the keys whose claims have changed in this step while they had rivals, and
	// whether they had some before it. A conflict that begins and ends within one step is not
	// reported.
	contested map[Key]bool
}

// NewResults returns results without a claim.
func NewResults[O comparable, T any](rules Rules[O, T]) *Results[O, T] {
	return &Results[O, T]{rules: rules, owners: map[Key]O{}, rivals: map[Key]*queue[O, T]{}, contested: map[Key]bool{}}
}

// Put makes obj the object that origin claims for key. It reports whether obj is the same as the
// one that origin claimed before.
func (r *Results[O, T]) Put(origin O, key Key, obj T) (same bool) {
	now, ok := r.now(key)
	if !ok {
		r.own(key, origin)
		r.show(key, now, obj)
		return false
	}
	owner := r.owner(key)
	if owner == origin {
		if r.rules.Same(now, obj) {
			return true
		}
		r.net.Set(key, now, obj)
		return false
	}
	waiting := r.rivals[key]
	if c := waiting.find(origin); c != nil {
		same = r.rules.Same(c.obj, obj)
		c.obj = obj
		return same
	}
	r.contest(key)
	if waiting == nil {
		waiting = &queue[O, T]{compare: r.rules.Compare}
		r.rivals[key] = waiting
	}
	if r.rules.Compare(origin, owner) < 0 { // origin comes first from now on
		waiting.add(owner, now)
		r.own(key, origin)
		r.show(key, now, obj)
	} else {
		waiting.add(origin, obj)
	}
	return false
}

// contest notes that the claims of key are about to change.
func (r *Results[O, T]) contest(key Key) {
	if _, noted := r.contested[key]; !noted {
		r.contested[key] = r.rivals[key] != nil
	}
}

// Drop ends the claim of origin for key. It does nothing if there is none.
func (r *Results[O, T]) Drop(origin O, key Key) {
	now, ok := r.now(key)
	if !ok {
		return
	}
	waiting := r.rivals[key]
	if r.owner(key) != origin {
		if c := waiting.find(origin); c != nil {
			r.leave(key, c)
		}
		return
	}
	if waiting == nil {
		var none T
		delete(r.owners, key)
		r.net.Set(key, now, none)
		return
	}
	next := waiting.first()
	r.own(key, next.origin)
	r.show(key, now, next.obj)
	r.leave(key, next)
}

// leave ends the waiting of c, a claim of key.
func (r *Results[O, T]) leave(key Key, c *claim[O, T]) {
	r.contest(key)
	waiting := r.rivals[key]
	if waiting.remove(c); waiting.Len() == 0 {
		delete(r.rivals, key)
	}
}

// Decide ends the claims of a step. It drops the changes of keys that show the same as before, and
// calls Rivals.
func (r *Results[O, T]) Decide() {
	r.net.Drop(r.rules.Same)
	for key, had := range r.contested {
		waiting := r.rivals[key]
		switch {
		case r.rules.Rivals == nil:
		case waiting != nil:
			r.rules.Rivals(key, r.owner(key), waiting.first().origin, true)
		case had:
			var none O
			r.rules.Rivals(key, none, none, false)
		}
	}
	clear(r.contested)
}

// Changes returns the net changes that Decide has left. They are valid until the next Put, Drop or
// Reset.
func (r *Results[O, T]) Changes() []Change[T] { return r.net.Changes() }

// Changed reports whether a change of key is among them.
func (r *Results[O, T]) Changed(key Key) bool { return r.net.find(key) >= 0 }

// Reset begins a new step: Shown returns what the changes have led to.
func (r *Results[O, T]) Reset() { r.net.Reset() }

// now returns what key shows.
func (r *Results[O, T]) now(key Key) (obj T, ok bool) {
	if obj, ok = r.net.Get(key); ok {
		return obj, !equal.IsZero(obj)
	}
	return r.rules.Shown(key)
}

// show makes obj what key shows instead of now, unless they are the same.
func (r *Results[O, T]) show(key Key, now, obj T) {
	if equal.IsZero(now) || !r.rules.Same(now, obj) {
		r.net.Set(key, now, obj)
	}
}

// owner returns the origin of what key shows.
func (r *Results[O, T]) owner(key Key) O {
	if o, ok := r.owners[key]; ok || r.rules.Home == nil {
		return o
	}
	return r.rules.Home(key)
}

func (r *Results[O, T]) own(key Key, origin O) {
	if r.rules.Home != nil && r.rules.Home(key) == origin {
		delete(r.owners, key)
		return
	}
	r.owners[key] = origin
}
