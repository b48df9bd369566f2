// Package judge checks, while a test runs, what concurrent readers and handlers see of a
// collection against what was written to it. It keeps one hash for each state of the collection
// instead of the objects, so it can follow a server for hours.
package judge

import (
	"errors"
	"fmt"
	"hash/maphash"
	"slices"
	"strconv"
	"sync"
)

// A Truth knows the state of a server's collection at each version. It is safe for concurrent use.
//
// A reader calls [Truth.Begin] before a read and [Truth.End] after it.
//
// The hash of a state is the sum of the hashes of its objects. So a write changes it by the
// difference of two hashes, and the order of the objects does not matter.
type Truth struct {
	keep int // the number of the last writes whose states are kept at least

	mu       sync.RWMutex      // guards what follows; locked also while the server is written to
	versions []uint64          // the versions of the writes, in rising order
	sums     []uint64          // sums[i] is the hash of the state at versions[i]
	objects  map[string]uint64 // the hash of each object that exists, by key
	latest   uint64            // the newest version that a read has shown
	judged   uint64            // number of reads that were compared with a state
}

// New returns the Truth of a collection that is empty at version first. It keeps the states of at
// least the last keep writes.
func New(first uint64, keep int) *Truth {
	return &Truth{keep: keep, versions: []uint64{first}, sums: []uint64{0}, objects: map[string]uint64{}}
}

var seed = maphash.MakeSeed()

// Hash returns the hash of an object that parts describe. It is never 0, and it differs from
// process to process.
func Hash(parts ...string) uint64 {
	var h maphash.Hash
	h.SetSeed(seed)
	for _, p := range parts {
		h.WriteString(p)
		h.WriteByte(0)
	}
	return h.Sum64() | 1
}

// A State is the hash of a set of objects: the sum of their hashes.
type State uint64

// Add adds an object's hash.
func (s *State) Add(hash uint64) { *s += State(hash) }

// Write calls write, which changes the object of key on the server. write returns the version of
// the change and the object's new hash, which is 0 for a deletion. A write that fails or changes
// nothing returns version 0. No read is judged while write runs, so a reader cannot show a version
// that the Truth does not know.
func (t *Truth) Write(key string, write func() (version, hash uint64)) (version uint64) {
	t.mu.Lock()
	defer t.mu.Unlock()
	version, hash := write()
	if version == 0 {
		return 0
	}
	last := len(t.versions) - 1
	if version <= t.versions[last] {
		panic(fmt.Sprintf("judge: version %d written after %d", version, t.versions[last]))
	}
	t.versions = append(t.versions, version)
	t.sums = append(t.sums, t.sums[last]-t.objects[key]+hash)
	if t.objects[key] = hash; hash == 0 {
		delete(t.objects, key)
	}
	if n := len(t.versions) - t.keep; n > t.keep {
		t.versions, t.sums = slices.Clone(t.versions[n:]), slices.Clone(t.sums[n:])
	}
	return version
}

// Now returns the version of the last write, and the state since then.
func (t *Truth) Now() (version uint64, state State) {
	t.mu.RLock()
	defer t.mu.RUnlock()
	last := len(t.versions) - 1
	return t.versions[last], State(t.sums[last])
}

// Judged returns the number of reads that were compared with a state of the server.
func (t *Truth) Judged() uint64 {
	t.mu.RLock()
	defer t.mu.RUnlock()
	return t.judged
}

// A Read is a read that has begun.
type Read struct{ latest uint64 }

// Begin is called before a read.
func (t *Truth) Begin() Read {
	t.mu.RLock()
	defer t.mu.RUnlock()
	return Read{t.latest}
}

// End is called after a read that showed state at version. It returns an error if the server had
// another state at that version, or if a read that ended before this one began showed a newer
// version. The version of a reader that has no list yet is "".
func (t *Truth) End(r Read, version string, state State) error {
	return t.EndWithin(r, version, version, state)
}

// EndWithin is like End, for a read that reports no version. from and to are the versions of the
// reader before and after the read: the server must have had state at one of the versions from from
// to to.
func (t *Truth) EndWithin(r Read, from, to string, state State) error {
	first, err := parse(from)
	if err != nil {
		return err
	}
	last, err := parse(to)
	if err != nil {
		return err
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	switch {
	case first < r.latest:
		return fmt.Errorf("a read shows version %d after another has shown %d", first, r.latest)
	case first > last:
		return fmt.Errorf("a read shows version %d after version %d", last, first)
	case last == 0 && state != 0:
		return errors.New("a read shows objects before the first list")
	case first < t.versions[0]:
		return nil // the reader has no list yet, or the state is no longer kept
	}
	t.latest = max(t.latest, last)
	t.judged++
	for i := t.indexLocked(last); i >= t.indexLocked(first); i-- {
		if State(t.sums[i]) == state {
			return nil
		}
	}
	return fmt.Errorf("a read at version %d to %d shows what the server never had then", first, last)
}

// indexLocked returns the index in versions of the last write up to version.
func (t *Truth) indexLocked(version uint64) int {
	i, found := slices.BinarySearch(t.versions, version)
	if !found {
		i--
	}
	return i
}

// parse returns the number of a version, which is 0 for the version "" of a reader without a list.
func parse(version string) (uint64, error) {
	if version == "" {
		return 0, nil
	}
	v, err := strconv.ParseUint(version, 10, 64)
	if err != nil {
		return 0, fmt.Errorf("a read shows version %q: %w", version, err)
	}
	return v, nil
}
