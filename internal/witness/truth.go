// Package witness checks on line what concurrent readers and handlers see of a collection against what its writers did to it.
// It keeps a hash of every state instead of the states, so that it can follow a server for hours.
package witness

import (
	"errors"
	"fmt"
	"hash/maphash"
	"slices"
	"strconv"
	"sync"
)

// A Truth is what a server's collection was at each of its versions. It is safe for concurrent use.
//
// Reads are sessions of [Truth.Begin] and [Truth.End]. While the server may be behind what readers have seen, between
// [Truth.Rewind] and [Truth.Settled], reads are not judged.
type Truth struct {
	keep int // states at least

	mu       sync.RWMutex // held for writing while the server is written to
	versions []uint64     // of the writes, rising
	sums     []uint64     // of the state from each of them on
	objects  map[string]uint64
	latest   uint64 // the highest version that a read has shown
	epoch    int
	rewound  bool
	judged   uint64
}

// New returns the truth of a collection that is empty at version first. It keeps the states of the last keep writes at least.
func New(first uint64, keep int) *Truth {
	return &Truth{keep: keep, versions: []uint64{first}, sums: []uint64{0}, objects: map[string]uint64{}}
}

var seed = maphash.MakeSeed()

// Hash returns the hash of an object, or of anything else that parts tell apart. It is never 0.
func Hash(parts ...string) uint64 {
	var h maphash.Hash
	h.SetSeed(seed)
	for _, p := range parts {
		h.WriteString(p)
		h.WriteByte(0)
	}
	return h.Sum64() | 1
}

// A State is the hash of a set of objects.
type State uint64

// Add adds an object's hash.
func (s *State) Add(hash uint64) { *s += State(hash) }

// Write calls write, which changes the object of key on the server, and returns the version of the change and the object's new
// hash, or 0 for a deletion. Writes that fail or change nothing return version 0. Nothing is judged while write runs, so that
// no reader can know of a version that the Truth does not.
func (t *Truth) Write(key string, write func() (version, hash uint64)) (version uint64) {
	t.mu.Lock()
	defer t.mu.Unlock()
	version, hash := write()
	if version == 0 {
		return 0
	}
	last := len(t.versions) - 1
	if version <= t.versions[last] {
		panic(fmt.Sprintf("witness: version %d written after %d", version, t.versions[last]))
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

// Rewind calls rewind, which takes the server back to an older version. objects are the hashes of what it then has.
func (t *Truth) Rewind(rewind func() (version uint64, objects map[string]uint64)) {
	t.mu.Lock()
	defer t.mu.Unlock()
	version, objects := rewind()
	if objects == nil {
		return // it was refused
	}
	var state State
	for _, hash := range objects {
		state.Add(hash)
	}
	t.versions, t.sums, t.objects = []uint64{version}, []uint64{uint64(state)}, objects
	t.epoch++
	t.rewound = true
}

// Settled says that every reader is past the last Rewind.
func (t *Truth) Settled() {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.rewound {
		t.rewound, t.latest = false, 0
	}
}

// Now returns the version of the last write, the state since then, and how often the server was rewound.
func (t *Truth) Now() (version uint64, state State, epoch int) {
	t.mu.RLock()
	defer t.mu.RUnlock()
	last := len(t.versions) - 1
	return t.versions[last], State(t.sums[last]), t.epoch
}

// Judged returns how many reads were compared with a state of the server.
func (t *Truth) Judged() uint64 {
	t.mu.RLock()
	defer t.mu.RUnlock()
	return t.judged
}

// A Read is a read that has begun.
type Read struct {
	epoch  int
	latest uint64
}

// Begin is called before a read.
func (t *Truth) Begin() Read {
	t.mu.RLock()
	defer t.mu.RUnlock()
	return Read{t.epoch, t.latest}
}

// End is called after a read that has shown state at version: it is an error if the server had another state then, and if a
// read that was over before this one began has shown a later version. The empty version is that of a reader that has no list yet.
func (t *Truth) End(r Read, version string, state State) error {
	return t.EndWithin(r, version, version, state)
}

// EndWithin is called after a read that does not say its version, but was made between two that do: the server must have had
// state at one of from to to.
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
	case t.rewound || r.epoch != t.epoch:
		return nil
	case first < r.latest:
		return fmt.Errorf("a read shows version %d after another has shown %d", first, r.latest)
	case first > last:
		return fmt.Errorf("a read shows version %d after version %d", last, first)
	case last == 0 && state != 0:
		return errors.New("a read shows objects before the first list")
	case first < t.versions[0]:
		return nil // before the first list, or no longer known
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

// indexLocked returns where the last write up to version stands.
func (t *Truth) indexLocked(version uint64) int {
	i, found := slices.BinarySearch(t.versions, version)
	if !found {
		i--
	}
	return i
}

// parse returns 0 for the version of a reader that has no list yet.
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
