package lw

import (
	"maps"
	"runtime/debug"
	"slices"

	"k8s.io/apimachinery/pkg/watch"

	"github.com/go-lw/lw/internal/equal"
	"github.com/go-lw/lw/internal/table"
)

// An informerTarget is the target of an informer's reflector: it writes to the hub, as its only
// writer. All methods but version are called in the goroutine of Run.
type informerTarget[T Identified] struct {
	hub         *hub[T]
	opts        *Options
	detector    *mutationDetector // nil without Options.DetectMutation
	holdingBack bool              // a version has come that the store does not report

	// distrusted has the objects that stayed as they were when the server last went back in time,
	// because their new versions could not be used. Their resource versions are of the former
	// epoch, so an object of now with an equal version may have other content. The values are not
	// used.
	distrusted map[Key]error
}

// apply makes the change of ev in the hub, which shows it to every read. It then decides the waits
// for a version. Handlers are woken by notify.
func (t *informerTarget[T]) apply(ev *WatchEvent[T], key Key, version string) (existed, known bool, err error) {
	switch {
	case ev.Err != nil:
	case ev.Type == watch.Bookmark:
		t.hub.progress(version)
	case ev.Type == watch.Deleted:
		var old T
		old, existed = t.hub.remove(key, ev.ResourceVersion, version)
		t.leave(old)
	default:
		existed, err = t.set(key, ev.Object, ev.ResourceVersion, version)
	}
	if err == nil {
		t.reportProgress(ev.ResourceVersion, version != "")
	}
	return existed, true, err
}

func (t *informerTarget[T]) heldBack(version string) { t.reportProgress(version, false) }

func (t *informerTarget[T]) notify() { t.hub.notify() }

// set stores obj, and keeps the mutation detector in step.
func (t *informerTarget[T]) set(key Key, obj T, version, report string) (existed bool, err error) {
	t.enter(obj) // before it is stored, since others can change it from then on
	old, existed, err := t.trySet(key, obj, version, report)
	if err != nil {
		t.rejected(obj)
		return false, err
	}
	t.leave(old)
	return existed, nil
}

// trySet calls hub.set. If Options.OnPanic is set, it returns a panic of an index's function as an
// error. If not, the panic crashes the program.
func (t *informerTarget[T]) trySet(key Key, obj T, version, report string) (old T, existed bool, err error) {
	if t.opts.OnPanic != nil {
		at := key
		defer t.recovered(&at, &err)
	}
	old, existed = t.hub.set(key, obj, version, report)
	return old, existed, nil
}

// recovered must be deferred. It turns a panic in the function of an index into an error, after it
// has called OnPanic. The store has not changed then, and no lock is held: the functions of the
// indexes run before the store takes one.
func (t *informerTarget[T]) recovered(key *Key, err *error) {
	if v := recover(); v != nil {
		p := &Panic{Informer: t.opts.Name, Handler: "index", Key: *key, Value: v, Stack: debug.Stack()}
		t.opts.OnPanic(p)
		*err = &Error{Op: opIndex, Key: *key, Err: p}
	}
}

// enter, leave and rejected keep the mutation detector in step with the store. enter is called
// before obj is stored, leave when it no longer is, and rejected when it may not have been stored
// after all. They do nothing without a detector.
func (t *informerTarget[T]) enter(obj T) {
	if t.detector != nil {
		t.detector.add(obj)
	}
}

func (t *informerTarget[T]) leave(obj T) {
	if t.detector != nil && !equal.IsZero(obj) {
		t.detector.remove(obj)
	}
}

func (t *informerTarget[T]) rejected(obj T) {
	if t.detector == nil {
		return
	}
	if now, ok := t.hub.store.Get(KeyOf(obj)); !ok || !equal.Same(now, obj) {
		t.detector.forget(obj)
	}
}

// replace makes a whole list the store's content. See hub.replace for what is appended to the log.
func (t *informerTarget[T]) replace(l replacement[T]) {
	if t.detector != nil {
		for _, obj := range l.objs {
			t.detector.add(obj)
		}
	}
	objs, keep := l.objs, maps.Clone(l.keep)
	for {
		key, err := t.try(objs, keep, &l)
		if err == nil {
			break
		}
		// An index has panicked at the object of key, and nothing has changed. That object stays as
		// it was, and the list is tried again without it. So each round has fewer objects.
		l.version = l.failed(key, err)
		if keep == nil {
			keep = map[Key]error{}
		}
		keep[key] = err
		objs = slices.DeleteFunc(slices.Clone(objs), func(obj T) bool { return KeyOf(obj) == key })
	}
	if t.detector != nil {
		// The store does not take an object whose version it has already.
		for _, obj := range l.objs {
			t.rejected(obj)
		}
	}
	if l.epoch {
		t.distrusted = keep
		t.hub.waits.fail(ErrRewound)
	}
	t.reportProgress(l.listed, l.version == l.listed)
}

// try replaces the content by objs, and keeps the keys of keep as they are. An error means that an
// index has panicked at the object of key, and that nothing has changed. key means nothing without
// an error.
func (t *informerTarget[T]) try(objs []T, keep map[Key]error, l *replacement[T]) (key Key, err error) {
	var duplicates []Key
	to := table.Changes[T]{
		Same: func(old, new T) bool {
			_, doubted := t.distrusted[KeyOf(new)]
			return sameContent(old, new, l.distrust || doubted)
		},
		Distrust:  l.distrust,
		Newer:     notOlder[T],
		Keep:      func(key Key) bool { _, ok := keep[key]; return ok },
		Duplicate: func(key Key) { duplicates = append(duplicates, key) },
		Done:      l.done,
	}
	if t.opts.OnPanic != nil {
		to.Trying = func(obj T) { key = KeyOf(obj) }
		defer t.recovered(&key, &err)
	}
	changes := t.hub.replace(objs, l.listed, l.version, t.detector != nil, to)
	for _, c := range changes {
		t.leave(c.old)
	}
	for _, key := range duplicates {
		l.duplicate(key)
	}
	return key, nil
}

func (t *informerTarget[T]) get(key Key) (T, bool) { return t.hub.store.Get(key) }

// newest looks at all objects: it is called after an outage, and no event pays for it. What a test
// has written into the store is not the server's.
func (t *informerTarget[T]) newest(skip func(Key) bool) Meta {
	if t.hub.store.foreign.Load() {
		return Meta{}
	}
	return newestOf(t.hub.store.All(), skip)
}

func (t *informerTarget[T]) version() string { return t.hub.store.ResourceVersion() }

// reportProgress notes that the reflector has read up to version, and whether the store reports
// that version. It then decides the waits. It first notes a version that is held back, because a
// wait for that version fails.
func (t *informerTarget[T]) reportProgress(version string, reported bool) {
	w := &t.hub.waits
	switch {
	case !reported && version != "":
		t.holdingBack = true
		w.hold(version)
	case t.holdingBack:
		t.holdingBack = false
		w.hold("")
	}
	if w.any() {
		w.moved(t.version(), true)
	}
}

// lend returns the object of that name for a source that decodes the next version of it, or nil.
// The store of a test may have objects that no source has decoded: they are never lent.
func (t *informerTarget[T]) lend(namespace, name string) any {
	obj, ok := t.get(Key{Namespace: namespace, Name: name})
	if !ok || t.hub.store.foreign.Load() {
		return nil
	}
	return obj
}
