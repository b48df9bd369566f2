package lw

import (
	"maps"
	"reflect"
	"runtime/debug"
	"slices"

	"k8s.io/apimachinery/pkg/watch"

	"github.com/go-lw/lw/internal/table"
)

// An informerTarget is the hub of an informer as its reflector sees it. It is the hub's only writer.
type informerTarget[T Object] struct {
	hub   *hub[T]
	opts  *Options
	check *mutationDetector[T] // nil: not asked for
	ahead bool                 // a version has come that is not reported

	// doubted are the keys of objects that were kept, because nobody could read what came in their place, when the server went
	// back: another version of the same name may come.
	doubted map[Key]error
}

// apply changes the store, then tells the handlers.
func (t *informerTarget[T]) apply(ev *WatchEvent[T], key Key, version string) (existed, known bool, err error) {
	switch {
	case ev.Err != nil:
	case ev.Type == watch.Bookmark:
		t.hub.progress(version)
	case ev.Type == watch.Deleted:
		var old T
		old, existed = t.hub.remove(key, ev.ResourceVersion, version)
		t.compared(old)
	default:
		existed, err = t.set(key, ev.Object, ev.ResourceVersion, version)
	}
	if err == nil {
		t.reached(ev.ResourceVersion, version != "")
	}
	return existed, true, err
}

func (t *informerTarget[T]) held(version string) { t.reached(version, false) }

func (t *informerTarget[T]) notify() { t.hub.notify() }

func (t *informerTarget[T]) set(key Key, obj T, version, report string) (existed bool, err error) {
	t.copied(obj)
	old, existed, err := t.trySet(key, obj, version, report)
	if err != nil {
		t.dropped(obj)
		return false, err
	}
	t.compared(old)
	return existed, nil
}

// trySet is the hub's set. An index's panic is an error, for those who asked for that.
func (t *informerTarget[T]) trySet(key Key, obj T, version, report string) (old T, existed bool, err error) {
	if t.opts.OnPanic != nil {
		at := key
		defer t.recovered(&at, &err)
	}
	old, existed = t.hub.set(key, obj, version, report)
	return old, existed, nil
}

// recovered makes an error of a panic in an index's function, which has changed nothing, for those who asked for that.
func (t *informerTarget[T]) recovered(key *Key, err *error) {
	if v := recover(); v != nil {
		p := &Panic{Informer: t.opts.Name, Handler: "index", Key: *key, Value: v, Stack: debug.Stack()}
		t.opts.OnPanic(p)
		*err = &Error{Op: opIndex, Key: *key, Err: p}
	}
}

// copied and compared are the two ends of an object's time in the cache, for DetectMutation; dropped is for one that did not
// come in.
func (t *informerTarget[T]) copied(obj T) {
	if t.check != nil {
		t.check.add(obj)
	}
}

func (t *informerTarget[T]) compared(obj T) {
	var zero T
	if t.check != nil && obj != zero {
		t.check.remove(obj)
	}
}

func (t *informerTarget[T]) dropped(obj T) {
	if t.check == nil {
		return
	}
	if now, ok := t.hub.store.Get(KeyOf(obj)); !ok || now != obj {
		t.check.forget(obj)
	}
}

// replace makes a whole list the store's content. Nothing is told of the first one: each handler that waits for it walks the
// store on its own, as one that comes later does. Of a later one the differences are told, what is gone first.
func (t *informerTarget[T]) replace(l replacement[T]) {
	if t.check != nil {
		for _, obj := range l.objs {
			t.check.add(obj)
		}
	}
	objs, keep := l.objs, maps.Clone(l.keep)
	for {
		key, err := t.try(objs, keep, &l)
		if err == nil {
			break
		}
		// Without the object that an index has panicked at, which stays as it was.
		l.version = l.failed(key, err)
		if keep == nil {
			keep = map[Key]error{}
		}
		keep[key] = err
		objs = slices.DeleteFunc(slices.Clone(objs), func(obj T) bool { return KeyOf(obj) == key })
	}
	if t.check != nil {
		for _, obj := range l.objs {
			t.dropped(obj)
		}
	}
	if l.epoch {
		t.doubted = keep
		t.hub.waits.fail(ErrRewound)
	}
	t.reached(l.reached, l.version == l.reached)
}

// try replaces the content, and tells of it. An error is that of the object key; then nothing has changed.
func (t *informerTarget[T]) try(objs []T, keep map[Key]error, l *replacement[T]) (key Key, err error) {
	var duplicates []Key
	to := table.Changes[T]{
		Same: func(old, new T) bool {
			_, doubted := t.doubted[KeyOf(new)]
			return sameVersion(old, new, l.distrust || doubted)
		},
		Distrust:  l.distrust,
		Newer:     notOlder[T],
		Keep:      func(key Key) bool { _, ok := keep[key]; return ok },
		Duplicate: func(key Key) { duplicates = append(duplicates, key) },
		Done:      l.taken,
	}
	if t.opts.OnPanic != nil {
		to.Trying = func(obj T) { key = KeyOf(obj) }
		defer t.recovered(&key, &err)
	}
	changes := t.hub.replace(objs, l.reached, l.version, t.check != nil, to)
	for _, c := range changes {
		t.compared(c.old)
	}
	for _, key := range duplicates {
		l.duplicate(key)
	}
	return key, nil
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

func (t *informerTarget[T]) get(key Key) (T, bool) { return t.hub.store.Get(key) }

func (t *informerTarget[T]) version() string { return t.hub.store.ResourceVersion() }

// reached notes that the reflector stands at version, and whether the store reports it.
func (t *informerTarget[T]) reached(version string, reported bool) {
	w := &t.hub.waits
	switch {
	case !reported && version != "":
		t.ahead = true
		w.hold(version)
	case t.ahead:
		t.ahead = false
		w.hold("")
	}
	if w.any() {
		w.moved(t.version(), true)
	}
}
