package lw

import (
	"context"
	"errors"
	"slices"
	"time"

	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/watch"

	"github.com/go-lw/lw/internal/request"
	"github.com/go-lw/lw/internal/table"
)

// A Sink is what a [Reflector] writes to, in the goroutine of Run, without a lock held. The objects
// belong to the sink from then on. [*Indexer] and [*FIFO] are Sinks.
//
// If it has a method Get(Key) (T, bool) that returns the object it has, the reflector notices when
// an event does not fit the content, and keeps an object as it was if a list has a newer version of
// it that cannot be decoded.
type Sink[T Identified] interface {
	// Replace makes objs the whole content, as it was at resourceVersion.
	Replace(objs []T, resourceVersion string)
	// Apply makes one change: Added, Modified, Deleted, or a Bookmark that only moves the resource
	// version, which is empty while an earlier object could not be applied.
	Apply(ev WatchEvent[T])
}

// A getter is a Sink that can be asked what it has.
type getter[T Identified] interface{ Get(key Key) (T, bool) }

// A sinkTarget is a user's Sink as a target.
type sinkTarget[T Identified] struct {
	sink     Sink[T]
	reported versionCell
	// last is the identity of the newest object. It is a copy, because the object is the sink's. It
	// is zero if the object was deleted, or there was none.
	last Meta
}

// coming does nothing: only an informer's target has indexes.
func (s *sinkTarget[T]) coming(T) {}

// compare finds nothing: only an informer's target has indexes.
func (s *sinkTarget[T]) compare(*wholeList[T]) []*Error { return nil }

// replace hands the list to the sink. A sink without Get loses the objects that should stay as they
// were, because nothing else has them. It does not look for duplicates.
func (s *sinkTarget[T]) replace(l *wholeList[T], report string, shown func()) (duplicates []Key) {
	objs := l.objs
	s.last = newestOf(slices.Values(objs), func(Key) bool { return false })
	if g, ok := s.sink.(getter[T]); ok {
		for key := range l.keep {
			if obj, ok := g.Get(key); ok {
				objs = append(objs, obj)
			}
		}
	}
	s.sink.Replace(objs, report)
	s.reported.set(report)
	shown()
	return nil
}

// apply hands the events of g to the sink, one after the other. All but the last are Open.
func (s *sinkTarget[T]) apply(g *eventGroup[T], report string) {
	if from, ok := s.sink.(getter[T]); ok {
		g.known = true
		for i := range g.events {
			_, g.events[i].existed = from.Get(g.events[i].key)
		}
	}
	last := -1
	for i := range g.events {
		if g.events[i].ev.Err == nil {
			last = i
		}
	}
	for i := range g.events {
		e := &g.events[i]
		if e.ev.Err != nil {
			continue
		}
		s.noteNewest(e.ev, e.key)
		ev := *e.ev
		ev.Open = i != last
		if ev.More = ev.Open || g.more; report == "" {
			// An object that is set aside holds the version back, so the sink gets the change
			// without a version.
			ev.ResourceVersion = ""
		}
		s.sink.Apply(ev)
	}
	if report == "" {
		return
	}
	if last < 0 {
		s.sink.Apply(WatchEvent[T]{Type: watch.Bookmark, ResourceVersion: g.at.version, More: g.more})
	}
	s.reported.set(report)
}

// noteNewest keeps last.
func (s *sinkTarget[T]) noteNewest(ev *WatchEvent[T], key Key) {
	switch {
	case ev.Type == watch.Added || ev.Type == watch.Modified:
		s.last = MetaOf(ev.Object)
	case ev.Type == watch.Deleted && s.last.key() == key:
		s.last = Meta{}
	}
}

// heldBack does nothing: nobody waits for a version of a Sink.
func (s *sinkTarget[T]) heldBack(string) {}

// notify does nothing: each event says in More whether another follows at once.
func (s *sinkTarget[T]) notify() {}

func (s *sinkTarget[T]) get(key Key) (obj T, ok bool) {
	if g, can := s.sink.(getter[T]); can {
		return g.Get(key)
	}
	return obj, false
}

func (s *sinkTarget[T]) base(key Key) (obj T, ok bool) { return s.get(key) }

// newest knows one object only, since a Sink need not tell what it has.
func (s *sinkTarget[T]) newest(skip func(Key) bool) Meta {
	if skip(s.last.key()) {
		return Meta{}
	}
	return s.last
}

func (s *sinkTarget[T]) version() string { return s.reported.get() }

// A target is what a reflector writes to: an informer's hub ([informerTarget]), or a user's Sink
// ([sinkTarget]). Only the goroutine of the reflector's Run calls its methods, except version,
// which any goroutine may call.
type target[T Identified] interface {
	// coming is called with an object, or the zero T, when it has come, before anything else. Any
	// goroutine may call it.
	coming(obj T)
	// compare works out what l changes. It returns the objects at which an index has panicked, each
	// once; then nothing has changed, and l is to be compared without them. If there are none,
	// nothing can fail any more, and replace must follow: until then other writers may wait, so no
	// code of the user's runs in between.
	compare(l *wholeList[T]) (failed []*Error)
	// replace makes l the content and report the reported version. It calls shown when the content
	// can be read: the target of an informer under hub.mu, before a handler or a wait learns of the
	// list. A user's Sink may show the list a little earlier. replace returns the key of each object
	// whose key an earlier one of l has.
	replace(l *wholeList[T], report string, shown func()) (duplicates []Key)
	// apply makes all changes of g at one point, and moves the reported version to report unless
	// that is "". It sets in g what it knows of each object, and the errors. If there is one, the
	// object has not changed and the version is not reported; the reflector sets the object aside
	// and calls heldBack.
	apply(g *eventGroup[T], report string)
	// heldBack notes that an event of this version has come, and that its version is not reported
	// because apply has failed.
	heldBack(version string)
	// notify wakes whoever waits for changes. The reflector calls it after an apply, or after the
	// last of several that follow each other at once.
	notify()
	// get returns the object that the target has for key. Ok is also false if it cannot tell.
	get(key Key) (obj T, ok bool)
	// base is like get, without overlays.
	base(key Key) (obj T, ok bool)
	// newest returns the identity of the object with the newest version, or the zero Meta if there
	// is none or the target cannot tell. skip says of which keys the target may have an older object
	// than the server had.
	newest(skip func(Key) bool) Meta
	// version returns the reported version.
	version() string
}

// A wholeList is a list for a target.
type wholeList[T Identified] struct {
	objs     []T
	keep     map[Key]error // keys that stay as they are although objs lacks them, and why
	version  string
	began    time.Time             // when it was asked for
	epoch    bool                  // the server went back in time
	distrust bool                  // equal versions may be of different objects
	staged   *table.Replacement[T] // what an informer's target has to change, once it has compared
}

// without takes the objects at which an index has panicked out of the list. They stay as they are.
func (l *wholeList[T]) without(failed []*Error) {
	if l.keep == nil {
		l.keep = map[Key]error{}
	}
	for _, err := range failed {
		l.keep[err.Key] = err
	}
	l.objs = slices.DeleteFunc(l.objs, func(obj T) bool { return l.keep[KeyOf(obj)] != nil })
}

// An eventGroup is the events of one version, which are shown together; see WatchEvent.Open. Nearly
// every one has a single event. Of several for one key it keeps the last, so it is not larger than
// the collection. It is used again and again.
type eventGroup[T Identified] struct {
	at     position        // the version
	to     position        // of the reflector, after it
	events []groupEvent[T] // in the order in which the keys came; no Bookmark
	kept   []Key           // of events at which a Transform keeps what is there
	whole  bool            // no other event has the version
	places map[Key]int     // indexes into events; nil while there is one
	more   bool            // another event follows at once
	known  bool            // the target can tell what existed
}

// A groupEvent is what a group has of a key.
type groupEvent[T Identified] struct {
	key   Key
	ev    *WatchEvent[T]
	first watch.EventType // that of the first event of the key

	wasAside bool  // the object was set aside before
	way      way   // what the target does with it
	back     T     // what is shown again with wayBack
	marked   bool  // the key has a mark: existed says what the server had
	existed  bool  // there was an object before; set by the target
	err      error // why it was not applied; set by the target
}

// A way is what an informer's target does with an event.
type way uint8

const (
	wayEvent way = iota // what it says, unless it has an Err
	wayNone             // nothing: the overlay is newer
	wayBack             // it shows the base again, an object or nothing, in place of the overlay
)

// writes reports whether the event changes the store, and object what it shows then.
func (e *groupEvent[T]) writes() bool {
	return e.way == wayBack || e.way == wayEvent && e.ev.Err == nil
}

func (e *groupEvent[T]) object() (obj T) {
	switch {
	case e.way == wayBack:
		return e.back
	case e.ev.Type != watch.Deleted:
		return e.ev.Object
	}
	return obj
}

// uid returns the UID of the event's object; "" if it is not known.
func (e *groupEvent[T]) uid() types.UID {
	if bad, ok := errors.AsType[*Error](e.ev.Err); ok {
		return bad.UID
	}
	return e.ev.id().UID
}

// addBack adds that base is shown again.
func (g *eventGroup[T]) addBack(key Key, base T) {
	g.add(key, &WatchEvent[T]{})
	e := &g.events[len(g.events)-1]
	e.way, e.back = wayBack, base
}

// unplan takes out what addBack has added, and what a target has set.
func (g *eventGroup[T]) unplan() {
	for i := len(g.events) - 1; i >= 0; i-- {
		e := &g.events[i]
		if e.way, e.back, e.marked = wayEvent, *new(T), false; e.ev.Type == "" {
			delete(g.places, e.key)
			*e = groupEvent[T]{}
			g.events = g.events[:i]
		}
	}
}

// add adds ev. It is copied where another may follow, and lent until reset where none does: nearly
// always.
func (g *eventGroup[T]) add(key Key, ev *WatchEvent[T]) {
	if ev.Open {
		c := *ev
		ev = &c
	}
	if e := g.of(key); e != nil {
		e.ev = ev
		return
	}
	if g.places != nil {
		g.places[key] = len(g.events)
	}
	g.events = slices.Grow(g.events, 1)[:len(g.events)+1] // it is empty: reset clears it
	e := &g.events[len(g.events)-1]
	e.key, e.ev, e.first = key, ev, ev.Type
}

// of returns what the group has of key, or nil.
func (g *eventGroup[T]) of(key Key) *groupEvent[T] {
	if len(g.events) == 0 {
		return nil // nearly always
	}
	if g.places == nil {
		g.places = make(map[Key]int, 2*len(g.events))
		for i := range g.events {
			g.places[g.events[i].key] = i
		}
	}
	if i, ok := g.places[key]; ok {
		return &g.events[i]
	}
	return nil
}

// reset empties the group. It keeps memory for a single event.
func (g *eventGroup[T]) reset() {
	if len(g.events) != 1 || g.kept != nil || g.places != nil {
		*g = eventGroup[T]{}
		return
	}
	g.events[0] = groupEvent[T]{}
	g.events, g.at, g.to = g.events[:0], position{}, position{}
	g.whole, g.more, g.known = false, false, false
}

// lend returns ctx with a memo for the source, whose End must be called, and with the last versions
// of the objects: a source decodes less of an object whose last version it knows; see
// internal/decode/reuse_parts.go. It lends them only if the target has what the source has decoded:
// a user's Sink may have anything.
func (r *Reflector[T]) lend(ctx context.Context) context.Context {
	ctx = request.WithUsage(request.WithMemo(ctx), r.recorder.packs)
	to, ok := r.target.(interface {
		lend(namespace, name string) any
	})
	if !ok || !reuses(r.src) {
		return ctx
	}
	return request.WithLender(ctx, to.lend)
}
