package lw

import (
	"cmp"
	"slices"
	"sync/atomic"
	"time"

	"k8s.io/apimachinery/pkg/types"

	"github.com/go-lw/lw/internal/equal"
)

// A mark says that the program told of a key at a version that lists and watches have not reached.
// Versions are decimal numbers.
type mark[T Identified] struct {
	version uint64    // that was told; of a loose mark, that of the object that is gone
	base    T         // what lists and watches have seen of the key; zero: nothing
	shown   T         // what is shown instead; zero: nothing
	gone    types.UID // of the object that TellDeleted says is deleted; "": none
	since   time.Time // when it was told

	// loose says that gone was deleted at a version that nobody knows. The mark then ends at bound, a
	// version that the server had after that; 0: none is known yet.
	loose bool
	bound uint64
}

// longest is how old a mark may be when a list begins that does not have its version. Then the
// version is of another server, and would hide the key for ever.
const longest = 10 * time.Minute

// hides reports whether the mark hides what the server had of the key at a version: an object with
// that UID, or "" if the UID is not known.
func (m *mark[T]) hides(at uint64, uid types.UID) bool {
	switch {
	case at == 0:
		return false
	case !m.loose:
		return at < m.version
	}
	return at <= m.version || !m.bounded(at) && (uid == m.gone || uid == "")
}

// bounded reports whether a loose mark has ended at that version.
func (m *mark[T]) bounded(at uint64) bool { return m.bound != 0 && at >= m.bound }

// confirmedBy reports whether an event of that version has the object that is shown.
func (m *mark[T]) confirmedBy(at uint64, obj T) bool {
	return at == m.version && !m.loose && !equal.IsZero(m.shown) && !equal.IsZero(obj) && obj.GetUID() == m.shown.GetUID()
}

// passedBy reports whether events of other keys show that there is none of this one: they are past
// the version, or are all events of it.
func (m *mark[T]) passedBy(at uint64, whole bool) bool {
	if m.loose {
		return m.bounded(at)
	}
	return at > m.version || whole && at == m.version
}

// outlasts reports whether the mark stays when a list of that version, which began then, becomes
// the base. obj is what the list has of the key. strange says that the mark ends because its
// version cannot be one of this server.
func (m *mark[T]) outlasts(at uint64, obj T, began time.Time) (stays, strange bool) {
	switch {
	case at == 0 || !m.loose && at >= m.version:
		return false, false
	case m.loose && at > m.version:
		other := !equal.IsZero(obj) && obj.GetUID() != m.gone
		after := m.bound == 0 && began.After(m.since)
		if other || after || m.bounded(at) {
			return false, false
		}
	}
	strange = began.Sub(m.since) > longest
	return !strange, strange
}

// A markSet has the marks of a hub. All but count is guarded by hub.mu.
type markSet[T Identified] struct {
	count  atomic.Int32 // len(of); the writer loads it for each event
	at     uint64       // up to which lists and watches have seen everything, also if the store reports less
	opaque bool         // the version of the last list is no number
	over   bool         // the hub has stopped
	aging  atomic.Bool  // there is a goroutine of Informer.age
	fence  bool         // Tell or a read of what is wanted ran since the writer planned
	of     map[Key]*mark[T]
	due    []dueMark[T]  // by version
	none   chan struct{} // closed when the last mark ends; nil: nobody waits for that
	asked  []Key         // of loose marks that may have no bound, which is to be asked for
	asking bool          // there is a goroutine that asks
}

// A dueMark is a mark and the version at which it can be passed. The mark may have ended.
type dueMark[T Identified] struct {
	version uint64
	key     Key
	mark    *mark[T]
}

// A fate is what a list or an event of the source makes of a mark: it ends, or gets another base.
type fate[T Identified] struct {
	key   Key
	ends  bool
	base  T
	waits bool      // the key has not been read since it is wanted: base is for then
	since time.Time // when Tell had the version that has come; zero: it has not come
}

// A overlayWrite is one write of commitOverlay: obj, or nothing if it is zero, is shown under key.
type overlayWrite[T Identified] struct {
	key Key
	obj T
}

func (s *markSet[T]) setLocked(key Key, m *mark[T]) {
	if s.of == nil {
		s.of = map[Key]*mark[T]{}
	}
	if was := s.of[key]; was != nil { // its objects can go
		i, _ := slices.BinarySearchFunc(s.due, was.version, func(d dueMark[T], version uint64) int { return cmp.Compare(d.version, version) })
		for i < len(s.due) && s.due[i].version == was.version && s.due[i].mark != was {
			i++
		}
		if i < len(s.due) && s.due[i].mark == was {
			s.due = slices.Delete(s.due, i, i+1)
		}
	}
	s.of[key] = m
	s.count.Store(int32(len(s.of)))
	if !m.loose {
		s.dueLocked(m.version, key, m)
	}
}

// dueLocked notes at which version m is passed. Mostly that is the newest.
func (s *markSet[T]) dueLocked(version uint64, key Key, m *mark[T]) {
	i := len(s.due)
	for i > 0 && s.due[i-1].version > version {
		i--
	}
	s.due = slices.Insert(s.due, i, dueMark[T]{version, key, m})
}

// passedLocked calls end for each mark that events up to a version have passed; see mark.passedBy.
func (s *markSet[T]) passedLocked(at uint64, whole bool, end func(Key, *mark[T])) {
	for _, d := range s.due {
		if d.version > at {
			return
		}
		if s.of[d.key] == d.mark && d.mark.passedBy(at, whole) {
			end(d.key, d.mark)
		}
	}
}

// settleLocked moves to a version and does what fates say.
func (s *markSet[T]) settleLocked(at uint64, fates []fate[T]) {
	s.at, s.fence = at, false
	if len(s.of) == 0 {
		return
	}
	for i := range fates {
		if f := &fates[i]; f.ends {
			delete(s.of, f.key)
		} else if m := s.of[f.key]; m != nil {
			m.base = f.base
		}
	}
	s.shrunkLocked()
}

// amongLocked returns the objects of a list whose keys have marks: the newest, if a key is there
// twice.
func (s *markSet[T]) amongLocked(objs []T) map[Key]T {
	has := map[Key]T{}
	for _, obj := range objs {
		key := KeyOf(obj)
		if other, twice := has[key]; s.of[key] != nil && (!twice || notOlder(other, obj)) {
			has[key] = obj
		}
	}
	return has
}

// shrunkLocked notes that marks may have ended.
func (s *markSet[T]) shrunkLocked() {
	s.count.Store(int32(len(s.of)))
	if len(s.of) == 0 {
		s.of, s.due, s.asked = nil, nil, nil
		if s.none != nil {
			close(s.none)
			s.none = nil
		}
		return
	}
	passed := 0
	for passed < len(s.due) && s.due[passed].version < s.at {
		passed++
	}
	clear(s.due[:passed]) // what is behind them does not move: that would be quadratic
	s.due = s.due[passed:]
}
