package etcd

import (
	mvccpb "go.etcd.io/etcd/api/v3/mvccpb"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/watch"

	"github.com/go-lw/lw"
)

const bookmark = watch.Bookmark

// A pendingEvent is the last one of a response that is not yielded yet, since its Open and More
// depend on the next.
type pendingEvent[T lw.Object] struct {
	last     lw.WatchEvent[T]
	revision int64 // of last; 0: there is none
}

// events yields the events of one response, which are in the order of their revisions. All events
// of a revision are in one response, since no fragments are asked for.
func (w *watcher[T]) events(events []*mvccpb.Event) error {
	for len(events) > 0 && events[0].Kv.ModRevision <= w.begun {
		events = events[1:]
	}
	if len(events) == 0 {
		return nil
	}
	for _, ev := range events {
		e := entryOf(ev.Kv)
		out, selected, err := w.event(ev, &e)
		if err != nil {
			return err // what was not yielded is not the position
		}
		if selected {
			if err := w.flush(e.modified); err != nil {
				return err
			}
			w.pending.last, w.pending.revision = out, e.modified
		}
		if w.seenAt = e.modified; ev.Type == mvccpb.DELETE {
			w.seen.gone(e.path)
		} else {
			w.seen.see(&e)
		}
	}
	if err := w.flush(0); err != nil {
		return err
	}
	// The events behind the last one that is selected are passed too.
	w.position = w.seenAt
	return nil
}

// flush yields the pending event. next is the revision of the one behind it; 0: there is none
// at hand.
func (w *watcher[T]) flush(next int64) error {
	b := &w.pending
	if b.revision == 0 {
		return nil
	}
	ev, revision := b.last, b.revision
	*b = pendingEvent[T]{}
	ev.More, ev.Open = next != 0, next == revision
	if err := w.yielded(ev); err != nil {
		return err
	}
	if next > revision {
		w.position = revision
	}
	return nil
}

// event returns what ev is for those who see only what is selected. selected is false if that is
// nothing. The error ends the watch.
func (w *watcher[T]) event(ev *mvccpb.Event, e *entry) (out lw.WatchEvent[T], selected bool, err error) {
	var was bool // it was selected before
	switch {
	case ev.Type == mvccpb.PUT && e.created == e.modified:
	case !w.byLabels:
		was = true // or never is, which its key says
	case ev.PrevKv == nil:
		// Without the object before nobody knows whether it was selected.
		return out, false, apierrors.NewResourceExpired("the object before revision " + formatVersion(e.modified) + " was compacted")
	default:
		was = w.selectedBefore(ev.PrevKv)
	}
	if ev.Type == mvccpb.DELETE {
		key := w.c.keyOf(e.path)
		return w.deleted(key, e), was && w.selectsKey(key), nil
	}
	obj, bad := w.c.object(e)
	is := bad == nil && selects(w.selection, obj) || bad != nil && w.selectsKey(w.c.keyOf(e.path))
	switch {
	case !is && !w.byLabels, !is && !was:
		return out, false, nil
	case !is:
		return w.deleted(lw.KeyOf(obj), e), true, nil
	}
	out = w.added(obj, bad)
	if was {
		out.Type = watch.Modified
	}
	if bad != nil {
		out.ResourceVersion = formatVersion(e.modified)
	}
	return out, true, nil
}

// selectedBefore reports whether the object that prev has was selected. One that does not decode
// was if its key may be, as in a list.
func (w *watcher[T]) selectedBefore(prev *mvccpb.KeyValue) bool {
	e := entryOf(prev)
	obj, err := w.c.object(&e)
	if err != nil {
		return w.selectsKey(w.c.keyOf(e.path))
	}
	return selects(w.selection, obj)
}

// added returns the event of an object that is new.
func (w *watcher[T]) added(obj T, err error) lw.WatchEvent[T] {
	ev := lw.WatchEvent[T]{Type: watch.Added, Object: obj, Err: err}
	if err == nil {
		ev.ResourceVersion = obj.GetResourceVersion()
	}
	return ev
}

// deleted returns the event of an object that is gone, or no longer selected. The event has only
// its key: who follows has the object, and what the server would send of it may be compacted.
func (w *watcher[T]) deleted(key lw.Key, e *entry) lw.WatchEvent[T] {
	version := formatVersion(e.modified)
	return lw.WatchEvent[T]{
		Type: watch.Deleted, ResourceVersion: version,
		Identity: &lw.Meta{Namespace: key.Namespace, Name: key.Name, ResourceVersion: version},
	}
}
