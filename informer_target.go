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
	change, err := t.prepare(obj)
	if err != nil {
		return false, err
	}
	t.copied(obj)
	inf.mu.Lock()
	old, existed := inf.store.commit(change, version)
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

// prepare computes what the indexes say of obj, before anything changes. A panic there is an error if the user asked for that.
func (t *informerTarget[T]) prepare(obj T) (change pending[T], err error) {
	if onPanic := t.inf.opts.OnPanic; onPanic != nil {
		defer func() {
			if v := recover(); v != nil {
				p := &Panic{Informer: t.inf.opts.Name, Handler: "index", Key: KeyOf(obj), Value: v, Stack: debug.Stack()}
				onPanic(p)
				err = &Error{Op: opIndex, Key: p.Key, Err: p}
			}
		}()
	}
	return t.inf.store.prepare(obj), nil
}

// replace makes a whole list the store's content. Nothing is told of the first one: each handler that waits for it walks the
// store on its own, as one that comes later does. Of a later one the differences are told, what is gone first.
func (t *informerTarget[T]) replace(l replacement[T]) (changed int) {
	inf := t.inf
	batch := inf.store.prepareReplace(l.objs, replaceOptions[T]{
		same:      func(old, new T) bool { return sameVersion(old, new, l.distrust) },
		keep:      func(key Key) bool { _, ok := l.keep[key]; return ok },
		duplicate: l.duplicate,
		prepare:   t.guard(l.failed),
	})
	inf.mu.Lock()
	inf.store.commitReplace(batch, l.version)
	select {
	case <-inf.synced:
		d := Delta[T]{Cause: Relist, ResourceVersion: l.reached}
		for _, c := range batch.changes {
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
	if inf.check != nil {
		for _, c := range batch.changes {
			inf.check.replaced(c.old, c.new)
		}
	}
	if l.epoch {
		inf.waits.fail(ErrRewound)
	}
	t.reached(l.reached, l.version == l.reached)
	return len(batch.changes)
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
