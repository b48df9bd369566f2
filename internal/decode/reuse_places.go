package decode

import "math/rand/v2"

const (
	// windowSize is the number of strings among which one is searched.
	windowSize = 8
	// firstWindows and mostWindows bound the number of windows of a pool: 64 strings at first and
	// 2048 at most.
	firstWindows = 8
	mostWindows  = 256
	// growTrial is the number of strings to be added after which a pool is judged. It is doubled if
	// of those 1 in growDivisor had been displaced shortly before, so that a larger pool would have
	// had them.
	growTrial   = 64
	growDivisor = 4
	// busyFactor is how many times its places a pool may add strings in one stream before it is
	// doubled in any case.
	busyFactor = 4
)

// A places says where in its table a pool has a string, by the string's hash. The memory is bounded:
// a string that is added may displace another one. Then that is allocated again if it comes again,
// and nothing else is wrong.
//
// A pool is as large as it needs to be, since a program may have hundreds of decoders, each for a
// few objects. How many strings there are says nothing about that: the versions and times of events
// never come again, however many there are. So a places also remembers which strings it has
// displaced. When many of those come again, the pool is doubled. It is doubled, too, when a stream
// brings so much that the pool's memory is little beside it: then strings may come again after a long
// time.
type places struct {
	windows []window
	// added and again count in a trial the strings that were added, and those of them that had been
	// displaced shortly before.
	added, again int
	// streamed is the number of strings that the present stream has added since the pool was
	// doubled.
	streamed int
}

// A window is the places of the strings whose hashes have the same low bits. Each string may be at
// any of them. A tag is what is kept of a string's hash. No tag is 0, which stands for nothing.
type window struct {
	tags [windowSize]uint16
	// gone has tags of strings that were displaced.
	gone [windowSize]uint16
	// used has a bit for each place whose string was found since it was added. Others are displaced
	// before it.
	used uint8
}

// The low windowBits bits of a hash choose the window of the smallest pool, and the tag has the
// bits from there on. So the tag has those bits by which a window is split when the pool is doubled.
const windowBits = 3

func tagOfHash(hash uint64) uint16 { return uint16(hash>>windowBits) | 1<<15 }

// find returns the place of the string with this hash, and whether there is one. Two strings may
// have the same hash as far as it is kept, so the caller compares the strings. If they differ, the
// place is for the new string.
func (p *places) find(hash uint64) (at int, known bool) {
	if len(p.windows) == 0 {
		return 0, false
	}
	n := int(hash % uint64(len(p.windows)))
	w, tag := &p.windows[n], tagOfHash(hash)
	for i, t := range w.tags {
		if t == tag {
			// Mostly the bit is set. A load costs less than a store.
			if bit := uint8(1) << i; w.used&bit == 0 {
				w.used |= bit
			}
			return n*windowSize + i, true
		}
	}
	return 0, false
}

// addPlace returns the place of a string that find has not found, and the table in which it is:
// table or a larger one.
func addPlace[E any](p *places, table []E, hash uint64) (int, []E) {
	switch {
	case len(p.windows) == 0:
		p.windows, table = make([]window, firstWindows), make([]E, firstWindows*windowSize)
	case p.crowded():
		table = doubled(p, table)
	}
	return p.add(hash), table
}

// crowded reports whether the pool is to be doubled. It is called before each add.
func (p *places) crowded() bool {
	if p.added < growTrial {
		return false
	}
	p.streamed += p.added
	crowded := p.again >= growTrial/growDivisor || p.streamed >= busyFactor*windowSize*len(p.windows)
	p.added, p.again = 0, 0
	return crowded && len(p.windows) < mostWindows
}

// beginStream notes that a list or a watch begins.
func (p *places) beginStream() { p.streamed = 0 }

// add returns a place for the string with this hash: an empty one, or that of a string that was not
// found since it was added, or else any.
func (p *places) add(hash uint64) int {
	n := int(hash % uint64(len(p.windows)))
	w, tag := &p.windows[n], tagOfHash(hash)
	p.added++
	for i, t := range w.gone {
		if t == tag {
			p.again++
			w.gone[i] = 0
			break
		}
	}
	// Begin anywhere. If strings come in turn, and are more than there are places, some of them are
	// then found, and some are among the displaced. In any fixed order none would be.
	first := rand.IntN(windowSize)
	at, free := first, false
	for i := range windowSize {
		i = (first + i) % windowSize
		if w.tags[i] == 0 {
			at, free = i, true
			break
		}
		if !free && w.used&(1<<i) == 0 {
			at, free = i, true
		}
	}
	if !free {
		// All have been found, some maybe long ago.
		w.used = 0
	}
	if t := w.tags[at]; t != 0 {
		w.gone[rand.IntN(windowSize)] = t
	}
	w.tags[at] = tag
	w.used &^= 1 << at
	return n*windowSize + at
}

// doubled doubles the pool, and returns its table. Each window is split by another bit of the
// hashes.
func doubled[E any](p *places, table []E) []E {
	half := len(p.windows)
	windows, larger := make([]window, 2*half), make([]E, 2*len(table))
	for n := range p.windows {
		old := &p.windows[n]
		for i, tag := range old.tags {
			to := n
			if int(tag)<<windowBits&half != 0 {
				to += half
			}
			w := &windows[to]
			w.tags[i] = tag
			w.used |= old.used & (1 << i)
			larger[to*windowSize+i] = table[n*windowSize+i]
		}
	}
	p.windows, p.streamed = windows, 0
	return larger
}
