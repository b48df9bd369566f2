package demand

import (
	"context"
	"sync"

	"github.com/go-lw/lw/internal/table/signal"
)

// A Demand is what one source does for a Set: what it lets through, and how far each unit has come.
// A unit is what can be wanted by itself: an object, or a namespace.
//
// A unit is let through from the next list on, or at once where no list is under way. Then its
// events are kept, and it is read. It is ready when it has been read, by itself or in a list that
// began when it was let through. An event that came before that is older than the read, since the
// read began later and is consistent.
type Demand struct {
	Set  *Set
	Wake chan struct{} // gets a value when there may be something to do

	changed signal.Set[Key] // of the states of units

	mu       sync.RWMutex
	follower *Follower // guarded by mu, as all below
	units    map[Key]*unit
	touched  map[Key]struct{} // those that may be wanted or not any more
	listing  bool             // what is wanted from now on waits for the end of the list
	attempts int
	seen     int // objects of the list that is read
	size     int // of the last whole list
}

// A unit is one that is let through.
type unit struct {
	ready   bool
	listed  bool // the list that is under way has it
	reading bool
	attempt int   // of the read that counts
	err     error // of the last read
}

// A Follower is one run of an informer.
type Follower struct{ d *Demand }

// A Read is one attempt to read a unit.
type Read struct {
	Key     Key
	attempt int
}

// A State is how far a unit has come.
type State int

// The states.
const (
	Unwanted State = iota // it is not let through
	Coming                // it has not been read since it is
	Ready
)

// New returns the Demand of a source for set.
func New(set *Set) *Demand { return &Demand{Set: set, Wake: make(chan struct{}, 1)} }

type followerKey struct{}

// Follow begins to follow the set, in a context that says so, until end is called.
func (d *Demand) Follow(ctx context.Context) (_ context.Context, end func()) {
	f := &Follower{d}
	d.mu.Lock()
	taken := d.follower != nil
	if !taken {
		d.follower, d.listing = f, true
		d.units, d.touched = map[Key]*unit{}, map[Key]struct{}{}
	}
	d.mu.Unlock()
	if taken {
		return ctx, func() {}
	}
	unfollow := d.Set.follow(d)
	return context.WithValue(ctx, followerKey{}, f), func() {
		unfollow()
		d.mu.Lock()
		d.follower = nil
		d.mu.Unlock()
	}
}

// Followed reports whether a request is of the run that follows the set.
func (d *Demand) Followed(ctx context.Context) bool {
	f, _ := ctx.Value(followerKey{}).(*Follower)
	d.mu.RLock()
	defer d.mu.RUnlock()
	return f != nil && f == d.follower
}

func (d *Demand) wake() {
	select {
	case d.Wake <- struct{}{}:
	default:
	}
}

// touch notes that somebody wants keys, or nobody does.
func (d *Demand) touch(keys map[Key]int) {
	d.mu.Lock()
	defer d.mu.Unlock()
	for key := range keys {
		d.touched[key] = struct{}{}
		d.changed.Fire(key)
	}
	d.wake()
}

// UnitOf returns the unit of an object.
func (d *Demand) UnitOf(key Key) Key {
	if d.Set.spaces.Load() {
		key.Name = ""
	}
	return key
}

// Passes reports whether an object is let through. It keeps nothing of its arguments.
func (d *Demand) Passes(namespace, name string) bool {
	if d.Set.spaces.Load() {
		name = ""
	}
	d.mu.RLock()
	defer d.mu.RUnlock()
	return d.units[Key{Namespace: namespace, Name: name}] != nil
}

// State returns the state of a unit.
func (d *Demand) State(key Key) State {
	d.mu.RLock()
	defer d.mu.RUnlock()
	switch u := d.units[key]; {
	case u == nil:
		return Unwanted
	case u.ready:
		return Ready
	}
	return Coming
}

// Err returns the error of the last read of the unit.
func (d *Demand) Err(key Key) error {
	d.mu.RLock()
	defer d.mu.RUnlock()
	if u := d.units[key]; u != nil {
		return u.err
	}
	return nil
}

// Changed returns a channel that is closed when the state of the unit may have changed, and the
// function that lets go of it.
func (d *Demand) Changed(key Key) (changed <-chan struct{}, forget func()) {
	return d.changed.Take(key)
}

// BeginList lets through what is wanted: the list that begins has all of it.
func (d *Demand) BeginList() {
	wanted := d.Set.All()
	d.mu.Lock()
	defer d.mu.Unlock()
	d.listing, d.seen = true, 0
	for _, key := range wanted {
		if d.units[key] == nil {
			d.units[key] = &unit{}
		}
	}
	for _, u := range d.units {
		u.listed = true
	}
}

// Seen counts an object of the list.
func (d *Demand) Seen() {
	d.mu.Lock()
	d.seen++
	d.mu.Unlock()
}

// InList reports whether the list that is shown now says what there is of the unit.
func (d *Demand) InList(key Key) bool {
	d.mu.RLock()
	defer d.mu.RUnlock()
	u := d.units[key]
	return u != nil && (u.ready || u.listed)
}

// Listed notes that the list is shown.
func (d *Demand) Listed() {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.listing, d.size = false, d.seen
	for key, u := range d.units {
		if u.listed && !u.ready {
			u.ready, u.err = true, nil
			d.changed.Fire(key)
		}
	}
	d.wake()
}

// Changes returns the units that are let through although nobody wants them, and those that are to
// be let through. It returns each until Drop or Expect is called with it.
func (d *Demand) Changes() (gone, come []Key) {
	d.mu.Lock()
	touched := d.touched
	d.touched = map[Key]struct{}{}
	d.mu.Unlock()
	wanted := make(map[Key]bool, len(touched))
	for key := range touched {
		wanted[key] = d.Set.Wants(key)
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	for key, wants := range wanted {
		switch passes := d.units[key] != nil; {
		case passes && !wants:
			gone = append(gone, key)
		case wants && !passes && d.listing:
			d.touched[key] = struct{}{}
		case wants && !passes:
			come = append(come, key)
		}
	}
	return gone, come
}

// Drop lets the units through no more.
func (d *Demand) Drop(keys []Key) {
	d.mu.Lock()
	defer d.mu.Unlock()
	for _, key := range keys {
		delete(d.units, key)
		d.touched[key] = struct{}{} // somebody may want it again
		d.changed.Fire(key)
	}
	d.wake()
}

// Expect lets the unit through from now on, unless a list that has begun since does.
func (d *Demand) Expect(key Key) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.units[key] == nil {
		d.attempts++
		d.units[key] = &unit{attempt: d.attempts}
	}
}

// Again has a unit be read once more before it is ready: what was asked before may be too old.
func (d *Demand) Again(key Key) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if u := d.units[key]; u != nil && !u.ready {
		d.attempts++
		u.attempt, u.reading, u.listed = d.attempts, false, false
		d.wake()
	}
}

// Due returns the reads that are due, and how many objects the last list had.
func (d *Demand) Due() (due []Read, size int) {
	d.mu.RLock()
	defer d.mu.RUnlock()
	for key, u := range d.units {
		if !d.listing && !u.ready && !u.reading {
			due = append(due, Read{key, u.attempt})
		}
	}
	return due, d.size
}

// Begin notes that reads have begun.
func (d *Demand) Begin(reads []Read) {
	d.mu.Lock()
	defer d.mu.Unlock()
	for _, r := range reads {
		if u := d.currentLocked(r); u != nil {
			u.reading = true
		}
	}
}

func (d *Demand) currentLocked(r Read) *unit {
	if u := d.units[r.Key]; u != nil && !u.ready && u.attempt == r.attempt {
		return u
	}
	return nil
}

// Current reports whether the unit waits for that read.
func (d *Demand) Current(r Read) bool {
	d.mu.RLock()
	defer d.mu.RUnlock()
	return d.currentLocked(r) != nil
}

// Done notes that a read has ended: with nil the unit is ready.
func (d *Demand) Done(r Read, err error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if u := d.currentLocked(r); u != nil {
		u.reading, u.err = false, err
		if u.ready = err == nil; u.ready {
			d.changed.Fire(r.Key)
		}
	}
}
