package e2e_test

import (
	"fmt"
	"iter"
	"sync"

	"github.com/google/go-cmp/cmp"

	"github.com/go-lw/lw"
)

// A replay is the collection as a handler was told it, and what was wrong with how it was told.
type replay[T lw.Object] struct {
	name string

	mu                     sync.Mutex
	objects                map[lw.Key]T // guarded by mu, as all below
	faults                 []string
	adds, updates, deletes int
	syncs                  int
	past                   map[lw.Key]bool // the next version of these objects may be any
}

func newReplay[T lw.Object](name string) *replay[T] {
	return &replay[T]{name: name, objects: map[lw.Key]T{}}
}

// handler returns a handler that checks its calls. For each object there must be an Add, then
// Updates, then a Delete. The old object of a call is that of the call before, versions rise, and
// an Update does not change the UID.
func (r *replay[T]) handler() lw.Handler[T] {
	return lw.Handler[T]{
		Name: r.name,
		Add: func(obj T) {
			r.mu.Lock()
			defer r.mu.Unlock()
			r.adds++
			if last, ok := r.objects[lw.KeyOf(obj)]; ok {
				r.faultLocked("Add of %s at %s, which was told at %s", keyString(obj), obj.GetResourceVersion(),
					last.GetResourceVersion())
			}
			r.objects[lw.KeyOf(obj)] = obj
		},
		Update: func(old, new T) {
			r.mu.Lock()
			defer r.mu.Unlock()
			r.updates++
			switch last, ok := r.objects[lw.KeyOf(new)]; {
			case !ok:
				r.faultLocked("Update of %s, which was not told", keyString(new))
			case last != old:
				r.faultLocked("Update of %s from another object than was told last", keyString(new))
			case old.GetUID() != new.GetUID():
				r.faultLocked("Update of %s from UID %s to %s", keyString(new), old.GetUID(), new.GetUID())
			case !newer(new.GetResourceVersion(), old.GetResourceVersion()) && !r.past[lw.KeyOf(new)]:
				r.faultLocked("Update of %s from version %s to %s", keyString(new), old.GetResourceVersion(),
					new.GetResourceVersion())
			}
			r.objects[lw.KeyOf(new)] = new
			delete(r.past, lw.KeyOf(new))
		},
		Delete: func(last T) {
			r.mu.Lock()
			defer r.mu.Unlock()
			r.deletes++
			if told, ok := r.objects[lw.KeyOf(last)]; !ok || told != last {
				r.faultLocked("Delete of %s with another object than was told last", keyString(last))
			}
			delete(r.objects, lw.KeyOf(last))
		},
		Synced: func() {
			r.mu.Lock()
			defer r.mu.Unlock()
			r.syncs++
			if r.syncs > 1 {
				r.faultLocked("Synced was called twice")
			}
		},
	}
}

// rewinds notes that the server is about to go back in time: what was told so far may be followed
// by an older version, once for each object.
func (r *replay[T]) rewinds() {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.past = map[lw.Key]bool{}
	for key := range r.objects {
		r.past[key] = true
	}
}

func (r *replay[T]) faultLocked(format string, args ...any) {
	r.faults = append(r.faults, fmt.Sprintf(format, args...))
}

// wrong returns what was wrong so far.
func (r *replay[T]) wrong() []string {
	r.mu.Lock()
	defer r.mu.Unlock()
	return append([]string(nil), r.faults...)
}

// diff returns how the replay differs from the objects of a store, "" if it does not: the objects
// must be the same pointers.
func (r *replay[T]) diff(store iter.Seq[T]) string {
	r.mu.Lock()
	defer r.mu.Unlock()
	want, got := map[lw.Key]string{}, map[lw.Key]string{}
	for obj := range store {
		want[lw.KeyOf(obj)] = fmt.Sprintf("%s at %p", obj.GetResourceVersion(), any(obj))
	}
	for key, obj := range r.objects {
		got[key] = fmt.Sprintf("%s at %p", obj.GetResourceVersion(), any(obj))
	}
	return cmp.Diff(want, got)
}

// calls returns how often each function was called.
func (r *replay[T]) calls() (adds, updates, deletes int) {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.adds, r.updates, r.deletes
}
