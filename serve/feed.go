package serve

import (
	"context"
	"fmt"
	"sync/atomic"

	"k8s.io/apimachinery/pkg/types"

	"github.com/go-lw/lw"
	"github.com/go-lw/lw/internal/listopts"
	"github.com/go-lw/lw/serve/internal/order"
)

// A feed passes the changes of a collection on to a history. It is a [lw.Follower]. All its methods
// run in the goroutine of Serve.
type feed[T lw.Object] struct {
	resource *resource
	history  *history
	rawProto *atomic.Bool
	fail     context.CancelCauseFunc // ends Serve with an error

	// pending are the changes of which the collection has not yet said that all before them have
	// been passed on. A client that saw one of them would believe that it has seen those.
	pending []*event
	// items are the present items, of pending too. They are under the paths of their objects.
	items order.List[*item]
	// beginAt is not 0 if the history must begin anew with items, but not before the collection has
	// everything up to there: a state that lacks an object was never the server's.
	beginAt uint64
	broken  bool // the versions of before that beginning mean nothing any more
	// unseen says that nobody knows what there was between the last Progress and the next one.
	unseen bool
}

// Begin is part of [lw.Follower].
func (f *feed[T]) Begin(snap *lw.Snapshot[T], epoch bool) {
	version, ok := f.reached(snap.ResourceVersion())
	if snap.ResourceVersion() == "" && snap.Len() == 0 && !ok {
		// Nobody serves the collection, so the state is of no version of its server's. It is said to be of
		// one that no client can have: what clients have is gone.
		version, ok = f.history.extent().here+1, true
	}
	if !ok {
		f.refuse(snap.ResourceVersion())
		return
	}
	var items order.List[*item]
	newest := version
	for obj := range snap.All() {
		was, existed := f.items.Get(listopts.Path(lw.KeyOf(obj)))
		if existed && was.obj == any(obj) && was.version != 0 { // 0: not stamped yet
			newest = max(newest, was.version)
			items.Set(was.path, was) // with its encodings
			continue
		}
		i, ok := f.item(obj, version)
		if !ok {
			return
		}
		if f.history.own == nil && existed && was.version == i.version && was.uid == i.uid {
			// Another object has the UID and the version of one that clients have: the informer saw
			// it because it compared them, and they do not.
			epoch = true
		}
		newest = max(newest, i.version)
		items.Set(i.path, i)
	}
	f.items, f.pending, f.beginAt, f.broken = items, nil, newest, f.broken || epoch
	if version < newest {
		f.history.suspend()
		return
	}
	f.begin(version)
}

// begin makes what is here the beginning of the history.
func (f *feed[T]) begin(version uint64) {
	f.history.begin(f.items.Copy(), version, f.broken)
	f.pending, f.beginAt, f.broken, f.unseen = nil, 0, false, false
}

// Unseen is part of [lw.Follower]. Clients go on where they are, since nothing differs. But one
// that has come from another server, and is ahead of this one, may have seen what came and went.
func (f *feed[T]) Unseen() { f.unseen = true }

// Change is part of [lw.Follower].
func (f *feed[T]) Change(d lw.Delta[T]) {
	e := &event{}
	if f.history.own == nil {
		version, ok := decimal(d.ResourceVersion)
		if !ok {
			f.refuse(d.ResourceVersion)
			return
		}
		e.version = version
	}
	path := listopts.Path(d.Key())
	if was, ok := f.items.Get(path); ok {
		e.bytes = sizeOf(was.obj)
	}
	if d.Type == lw.Deleted {
		e.old, _ = f.items.Delete(path)
		if e.old == nil {
			return
		}
	} else {
		i, ok := f.item(d.New, e.version)
		if !ok {
			return
		}
		e.new = i
		e.old, _ = f.items.Set(path, i)
		if e.old != nil && e.old.uid != i.uid && e.old.uid != "" && i.uid != "" {
			// Two objects are two events for clients.
			f.pending = append(f.pending, &event{version: e.version, old: e.old, bytes: e.bytes})
			e.old, e.bytes = nil, 0
		}
	}
	f.pending = append(f.pending, e)
}

// Progress is part of [lw.Follower].
func (f *feed[T]) Progress(version string) {
	if f.history.own != nil {
		f.stamp()
		return
	}
	reached, ok := decimal(version)
	if version == "" && f.items.Len() == 0 { // nobody serves it any more, and all that has come was seen
		reached, ok = f.history.extent().here, true
		if n := len(f.pending); n > 0 {
			reached = max(reached, f.pending[n-1].version)
		}
	}
	if !ok {
		f.refuse(version)
		return
	}
	if f.beginAt != 0 {
		if n := len(f.pending); n > 0 {
			f.beginAt = max(f.beginAt, f.pending[n-1].version)
		}
		if f.pending = nil; reached >= f.beginAt {
			f.begin(reached)
		}
		return
	}
	n := 0
	for n < len(f.pending) && f.pending[n].version <= reached {
		n++
	}
	if f.unseen {
		f.history.leap(f.pending[:n], reached)
	} else {
		f.history.commit(f.pending[:n], reached)
	}
	f.unseen = false
	rest := f.pending[n:]
	f.pending = nil // a slice of the same array would keep what the history forgets
	f.pending = append(f.pending, rest...)
}

// stamp commits what is pending under one new version.
func (f *feed[T]) stamp() {
	if len(f.pending) == 0 {
		return
	}
	version := f.history.own.next()
	for _, e := range f.pending {
		e.version = version
		if e.new != nil {
			e.new.version = version
		}
	}
	f.history.commit(f.pending, version)
	f.pending = nil
}

// reached returns the version of a state as a number.
func (f *feed[T]) reached(version string) (uint64, bool) {
	if f.history.own != nil {
		return f.history.own.next(), true
	}
	return decimal(version)
}

// item returns obj as an item. version is that of an object that has none of its own.
func (f *feed[T]) item(obj T, version uint64) (*item, bool) {
	uid := obj.GetUID()
	if f.history.own == nil {
		v, ok := decimal(obj.GetResourceVersion())
		if !ok {
			f.refuse(obj.GetResourceVersion())
			return nil, false
		}
		version = v
	} else if uid == "" {
		uid = f.uid(lw.KeyOf(obj))
	}
	if o, raw := any(obj).(*Object); raw {
		f.rawProto.Store(o.proto)
	}
	return f.resource.item(obj, lw.KeyOf(obj), uid, version), true
}

// uid returns the UID of an object that has none: as long as there is an object under its key, it
// stays the same.
func (f *feed[T]) uid(key lw.Key) types.UID {
	if was, ok := f.items.Get(listopts.Path(key)); ok {
		return was.uid
	}
	return madeUID(listopts.Path(key), f.history.own.next())
}

func (f *feed[T]) refuse(version string) {
	f.fail(fmt.Errorf("serve: %s: the resource version %q is not a decimal number: this collection cannot be served",
		f.resource.name, version))
}
