package lw

import (
	"reflect"
	"runtime/debug"

	"k8s.io/apimachinery/pkg/watch"
)

// informerTarget is an informer as its reflector sees it: the only writer of its store.
type informerTarget[T Object] struct {
	inf  *Informer[T]
	held bool // a version has come that is not reported
}

// apply changes the store, then tells the handlers.
func (t *informerTarget[T]) apply(ev *WatchEvent[T], version string) (existed, known bool, err error) {
	inf := t.inf
	switch {
	case ev.Err != nil:
	case ev.Type == watch.Bookmark:
		if version != "" {
			inf.store.progress(version)
		}
	case ev.Type == watch.Deleted:
		existed = t.delete(ev.Key(), ev.ResourceVersion, version)
	default:
		existed, err = t.set(ev.Object, ev.ResourceVersion, version)
	}
	t.reached(ev.ResourceVersion, err == nil && version != "")
	return existed, true, err
}

func (t *informerTarget[T]) set(obj T, at, version string) (existed bool, err error) {
	inf := t.inf
	if inf.opts.OnPanic != nil {
		defer t.recovered(KeyOf(obj), &err)
	}
	t.copied(obj)
	old, existed := inf.store.setIn(&inf.mu, obj, version)
	emit(Delta[T]{Cause: Watch, Old: old, New: obj, ResourceVersion: at}, inf.log.push)
	inf.mu.Unlock()
	t.compared(old)
	return existed, nil
}

func (t *informerTarget[T]) delete(key Key, at, version string) bool {
	inf := t.inf
	inf.mu.Lock()
	old, existed := inf.store.remove(key, version)
	if existed {
		inf.log.push(Delta[T]{Type: Deleted, Cause: Watch, Old: old, ResourceVersion: at})
	}
	inf.mu.Unlock()
	t.compared(old)
	return existed
}

// copied and compared are the two ends of an object's time in the cache, for DetectMutation.
func (t *informerTarget[T]) copied(obj T) {
	var zero T
	if t.inf.check != nil && obj != zero {
		t.inf.check.add(obj)
	}
}

func (t *informerTarget[T]) compared(obj T) {
	var zero T
	if t.inf.check != nil && obj != zero {
		t.inf.check.remove(obj)
	}
}

// recovered makes an error of a panic in an index's function, which has changed nothing, for those who asked for that.
func (t *informerTarget[T]) recovered(key Key, err *error) {
	if v := recover(); v != nil {
		p := &Panic{Informer: t.inf.opts.Name, Handler: "index", Key: key, Value: v, Stack: debug.Stack()}
		t.inf.opts.OnPanic(p)
		*err = &Error{Op: opIndex, Key: key, Err: p}
	}
}

// replace makes a whole list the store's content. Nothing is told of the first one: each handler that waits for it walks the
// store on its own, as one that comes later does. Of a later one the differences are told, what is gone first.
func (t *informerTarget[T]) replace(l replacement[T]) (changed int) {
	inf := t.inf
	if inf.check != nil {
		for _, obj := range l.objs {
			t.copied(obj)
		}
	}
	type change struct{ old, new T }
	var changes []change
	changed = inf.store.replaceIn(&inf.mu, l.objs, l.version, replaceOptions[T]{
		same:      func(old, new T) bool { return sameVersion(old, new, l.distrust) },
		keep:      func(key Key) bool { _, ok := l.keep[key]; return ok },
		change:    func(old, new T) { changes = append(changes, change{old, new}) },
		duplicate: l.duplicate,
	})
	select {
	case <-inf.synced:
		d := Delta[T]{Cause: Relist, ResourceVersion: l.reached}
		for _, c := range changes {
			d.Old, d.New = c.old, c.new
			emit(d, inf.log.push)
		}
	default:
		close(inf.synced)
		for _, f := range inf.waiting {
			inf.joinLocked(f)
		}
		inf.waiting = nil
	}
	inf.mu.Unlock()
	for _, c := range changes {
		t.compared(c.old)
	}
	if l.epoch {
		inf.waits.fail(ErrRewound)
	}
	t.reached(l.reached, l.version == l.reached)
	return changed
}

// sameVersion reports whether a list says nothing new about an object. Versions are compared, unless they mean nothing: then
// the content is.
func sameVersion[T Object](old, new T, distrust bool) bool {
	version := new.GetResourceVersion()
	if old == new {
		return true
	}
	if old.GetResourceVersion() != version || old.GetUID() != new.GetUID() {
		return false
	}
	return version != "" && !distrust || reflect.DeepEqual(old, new)
}

func (t *informerTarget[T]) get(key Key) (T, bool) { return t.inf.store.Get(key) }

func (t *informerTarget[T]) version() string { return t.inf.store.ResourceVersion() }

// reached notes that the reflector stands at version, and whether the store reports it.
func (t *informerTarget[T]) reached(version string, reported bool) {
	w := &t.inf.waits
	switch {
	case !reported && version != "":
		t.held = true
		w.hold(version)
	case t.held:
		t.held = false
		w.hold("")
	}
	if w.any() {
		w.moved(t.version(), true)
	}
}
