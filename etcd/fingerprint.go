package etcd

import (
	"bytes"
	"context"
	"hash/maphash"
	"slices"
	"sync"

	"github.com/go-lw/lw/internal/request"
)

// A keyState is what was seen of one key: that it was last changed at a revision, to a value.
type keyState struct {
	path     []byte
	modified int64 // 0: the key was gone
	sum      uint64
}

func (f *keyState) set(e *entry) {
	f.path, f.modified, f.sum = append(f.path[:0], e.path...), e.modified, maphash.Bytes(seed, e.value)
}

// lastSeen is the state of the keys that changed last up to a position, the newest first. It tells
// whether a server has the history that was read. Revisions alone do not: a server that was
// restored from a backup soon has them again. There are several keys because the newest may be
// deleted. That a key is gone tells little, since it also is where it never was.
type lastSeen struct {
	keys [4]keyState
	n    int // of facts
}

// see adds what e says.
func (l *lastSeen) see(e *entry) {
	for i := range l.n {
		if f := &l.keys[i]; bytes.Equal(f.path, e.path) {
			if f.modified <= e.modified {
				l.remove(i)
				break
			}
			return
		}
	}
	at := 0
	for at < l.n && l.keys[at].modified > e.modified {
		at++
	}
	if at == len(l.keys) {
		return
	}
	if l.n < len(l.keys) {
		l.n++
	}
	last := l.keys[l.n-1] // its memory is for the new one
	copy(l.keys[at+1:l.n], l.keys[at:])
	l.keys[at] = last
	l.keys[at].set(e)
}

// gone says that the key at path was deleted.
func (l *lastSeen) gone(path []byte) {
	for i := range l.n {
		if bytes.Equal(l.keys[i].path, path) {
			l.remove(i)
			break
		}
	}
	if l.n == 0 {
		f := &l.keys[0]
		f.path, f.modified, f.sum = append(f.path[:0], path...), 0, 0
		l.n = 1
	}
}

// index returns the index of the state of the key at path; -1: there is none.
func (l *lastSeen) index(path []byte) int {
	return slices.IndexFunc(l.keys[:l.n], func(f keyState) bool { return bytes.Equal(f.path, path) })
}

// remove removes a state, and keeps its memory behind the others.
func (l *lastSeen) remove(i int) {
	f := l.keys[i]
	copy(l.keys[i:], l.keys[i+1:l.n])
	l.n--
	l.keys[l.n] = f
}

// among returns a copy of l with the states of keys of s.
func (l *lastSeen) among(s *selection) (out lastSeen) {
	for _, f := range l.keys[:l.n] {
		if s.contains(string(f.path)) {
			f.path = bytes.Clone(f.path)
			out.keys[out.n] = f
			out.n++
		}
	}
	return out
}

// A fingerprint is of the history at a position where a watch may begin: at the end of a list, or
// of a watch.
type fingerprint struct {
	position int64
	lastSeen
}

// maxFingerprints is how many are kept of those who list and watch by themselves, without a
// reflector. Who watches from a position is not known then: a fingerprint holds for whoever is at
// it.
const maxFingerprints = 256

// A reflectorState is the fingerprint of one reflector, which is at one position.
type reflectorState struct {
	mu          sync.Mutex
	fingerprint // guarded by mu
}

// fingerprints are those of all who list and watch a collection.
type fingerprints struct {
	mu    sync.Mutex
	loose []fingerprint // of those without a reflector, oldest first; guarded by mu
}

// ofReflector returns the state of the reflector that asks, or nil.
func (f *fingerprints) ofReflector(ctx context.Context) *reflectorState {
	return request.Recall(ctx, f, func() *reflectorState { return new(reflectorState) })
}

// afterList keeps what a list, or a page of one that is continued, has shown at a position.
func (f *fingerprints) afterList(ctx context.Context, position int64, seen *lastSeen, continued bool) {
	if r := f.ofReflector(ctx); r != nil {
		r.mu.Lock()
		defer r.mu.Unlock()
		if continued && r.position == position {
			r.merge(seen)
		} else {
			r.fingerprint = fingerprint{position, *seen}
		}
		return
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	i := f.indexLocked(position)
	if continued && i >= 0 {
		f.loose[i].merge(seen)
	} else {
		f.keepLocked(i, fingerprint{position, *seen})
	}
}

// merge adds what was seen at the same position. A page may have been read twice: a key of which
// there were two states would stay when it is gone.
func (l *lastSeen) merge(other *lastSeen) {
	for _, f := range other.keys[:other.n] {
		if l.index(f.path) >= 0 {
			continue
		}
		for i := range l.keys {
			if i == l.n {
				l.keys[i], l.n = f, l.n+1
				break
			}
			if f.modified > l.keys[i].modified {
				l.keys[i], f = f, l.keys[i]
			}
		}
	}
}

// afterWatch keeps what a watch has shown up to a position.
func (f *fingerprints) afterWatch(ctx context.Context, position int64, seen *lastSeen) {
	if r := f.ofReflector(ctx); r != nil {
		r.mu.Lock()
		defer r.mu.Unlock()
		r.fingerprint = fingerprint{position, *seen}
		return
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	f.keepLocked(f.indexLocked(position), fingerprint{position, *seen})
}

// indexLocked returns the index of a position in loose; -1: it is not there.
func (f *fingerprints) indexLocked(position int64) int {
	return slices.IndexFunc(f.loose, func(known fingerprint) bool { return known.position == position })
}

func (f *fingerprints) keepLocked(i int, known fingerprint) {
	if i >= 0 {
		f.loose[i] = known
		return
	}
	if f.loose = append(f.loose, known); len(f.loose) > maxFingerprints {
		f.loose = slices.Delete(f.loose, 0, 1)
	}
}

// at returns what was seen at a position, of the keys of s. It is empty if nothing is known.
func (f *fingerprints) at(ctx context.Context, position int64, s *selection) lastSeen {
	if r := f.ofReflector(ctx); r != nil {
		r.mu.Lock()
		defer r.mu.Unlock()
		if r.position != position {
			return lastSeen{}
		}
		return r.among(s)
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	if i := f.indexLocked(position); i >= 0 {
		return f.loose[i].among(s)
	}
	return lastSeen{}
}
