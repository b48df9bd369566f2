package lw

import (
	"maps"
	"reflect"
	"runtime/debug"
	"slices"

	"k8s.io/apimachinery/pkg/watch"

	"github.com/go-lw/lw/internal/table"
)

// informerTarget is an informer as its reflector sees it: the only writer of its store.
type informerTarget[T Object] struct {
	inf   *Informer[T]
	ahead bool // a version has come that is not reported

	// doubted are the keys of objects that were kept, because nobody could read what came in their place, when the server went
	// back: another version of the same name may come.
	doubted map[Key]error
}

// apply changes the store, then tells the handlers.
func (t *informerTarget[T]) apply(ev *WatchEvent[T], key Key, version string) (existed, known bool, err error) {
	inf := t.inf
	switch {
	case ev.Err != nil:
	case ev.Type == watch.Bookmark:
		if version != "" {
			inf.store.progress(version)
		}
	case ev.Type == watch.Deleted:
		existed = t.delete(key, ev.ResourceVersion, version)
	default:
		existed, err = t.set(key, ev.Object, ev.ResourceVersion, version)
	}
	if err == nil {
		t.reached(ev.ResourceVersion, version != "")
	}
	return existed, true, err
}

func (t *informerTarget[T]) held(version string) { t.reached(version, false) }

func (t *informerTarget[T]) notify() { t.inf.log.notify() }

func (t *informerTarget[T]) set(key Key, obj T, at, version string) (existed bool, err error) {
	inf := t.inf
	t.copied(obj)
	old, existed, same, err := t.store(key, obj, version)
	if err != nil {
		t.dropped(obj)
		return false, err
	}
	if d := (Delta[T]{Type: Updated, Cause: Watch, Old: old, New: obj, ResourceVersion: at}); existed && same {
		inf.log.put(d) // nearly always, and without the closure, nor a look at old
	} else {
		emit(d, inf.log.put)
	}
	inf.mu.Unlock()
	t.compared(old)
	return existed, nil
}

// store sets obj, and leaves mu locked unless it fails.
func (t *informerTarget[T]) store(key Key, obj T, version string) (old T, existed, same bool, err error) {
	if t.inf.opts.OnPanic != nil {
		at := key
		defer t.recovered(&at, &err)
	}
	old, existed, same = t.inf.store.store.Put(key, obj, version)
	return old, existed, same, nil
}

// stampOf is what the store remembers of an object: UIDs are random, so two that differ have different hashes but for one time
// in four billion, of the few times that an object comes back under its name without a deletion in between.
func stampOf[T Object](obj T) (version uint64, identity string) {
	return decimal(obj.GetResourceVersion()), string(obj.GetUID())
}

func (t *informerTarget[T]) delete(key Key, at, version string) bool {
	inf := t.inf
	old, existed := inf.store.store.Remove(key, version)
	if existed {
		inf.log.put(Delta[T]{Type: Deleted, Cause: Watch, Old: old, ResourceVersion: at})
	}
	inf.mu.Unlock()
	t.compared(old)
	return existed
}

// recovered makes an error of a panic in an index's function, which has changed nothing, for those who asked for that.
func (t *informerTarget[T]) recovered(key *Key, err *error) {
	if v := recover(); v != nil {
		p := &Panic{Informer: t.inf.opts.Name, Handler: "index", Key: *key, Value: v, Stack: debug.Stack()}
		t.inf.opts.OnPanic(p)
		*err = &Error{Op: opIndex, Key: *key, Err: p}
	}
}

// copied and compared are the two ends of an object's time in the cache, for DetectMutation; dropped is for one that did not
// come in.
func (t *informerTarget[T]) copied(obj T) {
	if t.inf.check != nil {
		t.inf.check.add(obj)
	}
}

func (t *informerTarget[T]) compared(obj T) {
	var zero T
	if t.inf.check != nil && obj != zero {
		t.inf.check.remove(obj)
	}
}

func (t *informerTarget[T]) dropped(obj T) {
	if t.inf.check == nil {
		return
	}
	if now, ok := t.inf.store.Get(KeyOf(obj)); !ok || now != obj {
		t.inf.check.forget(obj)
	}
}

// replace makes a whole list the store's content. Nothing is told of the first one: each handler that waits for it walks the
// store on its own, as one that comes later does. Of a later one the differences are told, what is gone first.
func (t *informerTarget[T]) replace(l replacement[T]) (changed int) {
	inf := t.inf
	if inf.check != nil {
		for _, obj := range l.objs {
			inf.check.add(obj)
		}
	}
	objs, keep := l.objs, maps.Clone(l.keep)
	for {
		n, key, err := t.try(objs, keep, &l)
		if err == nil {
			changed = n
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
	if inf.check != nil {
		for _, obj := range l.objs {
			t.dropped(obj)
		}
	}
	if l.epoch {
		t.doubted = keep
		inf.waits.fail(ErrRewound)
	}
	t.reached(l.reached, l.version == l.reached)
	return changed
}

// try replaces the content, and tells of it. An error is that of the object key; then nothing has changed.
func (t *informerTarget[T]) try(objs []T, keep map[Key]error, l *replacement[T]) (changed int, key Key, err error) {
	inf := t.inf
	var duplicates []Key
	var changes []change[T]
	to := table.Changes[T]{
		Same: func(old, new T) bool {
			_, doubted := t.doubted[KeyOf(new)]
			return sameVersion(old, new, l.distrust || doubted)
		},
		Distrust:  l.distrust,
		Newer:     notOlder[T],
		Keep:      func(key Key) bool { _, ok := keep[key]; return ok },
		Duplicate: func(key Key) { duplicates = append(duplicates, key) },
	}
	if isClosed(inf.synced) || inf.check != nil {
		to.Change = func(old, new T) { changes = append(changes, change[T]{old, new}) }
	}
	changed, err = t.storeAll(objs, l.version, to, &key)
	if err != nil {
		return 0, key, err
	}
	l.taken()
	t.tellLocked(changes, l.reached)
	inf.mu.Unlock()
	inf.log.notify()
	for _, c := range changes {
		t.compared(c.old)
	}
	for _, key := range duplicates {
		l.duplicate(key)
	}
	return changed, key, nil
}

// storeAll replaces the content, and leaves mu locked unless it fails; then key is that of the object at which it did.
func (t *informerTarget[T]) storeAll(objs []T, version string, to table.Changes[T], key *Key) (changed int, err error) {
	if t.inf.opts.OnPanic != nil {
		to.Trying = func(obj T) { *key = KeyOf(obj) }
		defer t.recovered(key, &err)
	}
	return t.inf.store.store.Replace(objs, version, to), nil
}

// change is one difference that a list makes; old or new is zero.
type change[T Object] struct{ old, new T }

// tellLocked lets the consumers that wait for the first list begin, or tells of the changes that a later one brought.
func (t *informerTarget[T]) tellLocked(changes []change[T], version string) {
	inf := t.inf
	if !isClosed(inf.synced) {
		close(inf.synced)
		for _, f := range inf.waiting {
			inf.joinLocked(f)
		}
		inf.waiting = nil
		return
	}
	d := Delta[T]{Cause: Relist, ResourceVersion: version}
	for _, c := range changes {
		d.Old, d.New = c.old, c.new
		emit(d, inf.log.put)
	}
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
