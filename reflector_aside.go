package lw

import (
	"k8s.io/apimachinery/pkg/watch"
)

// aside are the objects that could not be decoded, transformed or indexed. In the target each stays as it was, until a later
// version or a list can be applied. It belongs to the goroutine of Run; what of it others may read is the board's.
type aside struct {
	board *board
	// held are those whose watch event was not applied. While there is one, the version that is reported stays before it:
	// other objects may be newer, but no read is older than it says.
	held map[Key]struct{}
}

func (a *aside) holds() bool { return len(a.held) > 0 }

// empty reports whether nothing is set aside.
func (a *aside) empty() bool { return len(a.board.setAside) == 0 }

// add sets key aside. It tells report of it, but of a failure that is known already.
func (a *aside) add(key Key, err error, hold bool, report func(*Error)) {
	known := a.board.setAside[key]
	a.board.addAside(key, err)
	if hold {
		a.hold(key)
	}
	if known == nil || hold || known.Error() != err.Error() {
		report(asError(key, err))
	}
}

// hold keeps the reported version before what key, which is set aside, is now.
func (a *aside) hold(key Key) {
	if a.held == nil {
		a.held = map[Key]struct{}{}
	}
	a.held[key] = struct{}{}
}

// remove forgets key, and reports whether it was set aside. It comes before the change is made: who learns of the change
// finds in Status that the object is set aside no more.
func (a *aside) remove(key Key) bool {
	if _, ok := a.board.setAside[key]; !ok {
		return false
	}
	delete(a.held, key)
	a.board.removeAside(key)
	return true
}

// listed makes bad all that is set aside. What was held and is still bad stays held.
func (a *aside) listed(bad map[Key]error, report func(*Error)) {
	for key := range a.board.setAside {
		if _, ok := bad[key]; !ok {
			a.remove(key)
		}
	}
	for key, err := range bad {
		a.add(key, err, false, report)
	}
}

// release lets the reported version go on: it means nothing any more.
func (a *aside) release() { clear(a.held) }

// asError is err as an Error of the object key. A source's own is copied, since the reflector writes its name into it.
func asError(key Key, err error) *Error {
	if e, ok := err.(*Error); ok {
		c := *e
		return &c
	}
	return &Error{Op: opDecode, Key: key, Err: err}
}

// sinkTarget is a user's Sink as a target.
type sinkTarget[T Object] struct {
	sink Sink[T]
	at   versionCell
}

// getter is a Sink that can be asked what it holds, as an Indexer can.
type getter[T Object] interface{ Get(key Key) (T, bool) }

func (s *sinkTarget[T]) replace(l replacement[T]) {
	objs := l.objs
	if g, ok := s.sink.(getter[T]); ok {
		for key := range l.keep {
			if obj, ok := g.Get(key); ok {
				objs = append(objs, obj)
			}
		}
	}
	s.sink.Replace(objs, l.version)
	l.taken()
	s.at.set(l.version)
}

func (s *sinkTarget[T]) apply(ev *WatchEvent[T], key Key, version string) (existed, known bool, err error) {
	if ev.Err != nil {
		return false, false, nil
	}
	g, known := s.sink.(getter[T])
	if known && ev.Type != watch.Bookmark {
		_, existed = g.Get(key)
	}
	if version != "" {
		s.sink.Apply(*ev)
		s.at.set(version)
	} else if ev.Type != watch.Bookmark {
		// What is set aside holds the version: to the sink that is one that it is not told.
		held := *ev
		held.ResourceVersion = ""
		s.sink.Apply(held)
	}
	return existed, known, nil
}

// held does nothing: nobody waits for a version of a Sink.
func (s *sinkTarget[T]) held(string) {}

// notify does nothing: a Sink sees what is More for itself.
func (s *sinkTarget[T]) notify() {}

func (s *sinkTarget[T]) get(key Key) (obj T, ok bool) {
	if g, can := s.sink.(getter[T]); can {
		return g.Get(key)
	}
	return obj, false
}

func (s *sinkTarget[T]) version() string { return s.at.get() }
