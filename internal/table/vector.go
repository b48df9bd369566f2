package table

// chunkSize is how many values are copied at most for one write after a View: 2 KiB of pointers.
const chunkSize = 256

// A Vector is a list of values in chunks, of which a [View] can be taken at any time at no cost: a chunk that a View may
// show is copied before it is next written to, and only then. The zero value of T is a hole, which views skip.
//
// A Vector has one user at a time; a View has any number.
type Vector[T comparable] struct {
	chunks []*chunk[T]
	n      int
	live   int // values that are no hole

	reserved int // how many values there are going to be
	// era counts the views. What was made in an earlier era is shared with one, and must not be changed.
	era, rootEra uint64
}

type chunk[T comparable] struct {
	era  uint64 // the Vector's alone: a View never looks at it
	vals []T    // chunkSize of them, but for the last chunk
}

// Len returns the number of values and holes.
func (v *Vector[T]) Len() int { return v.n }

// Live returns the number of values.
func (v *Vector[T]) Live() int { return v.live }

// At returns the value at i.
func (v *Vector[T]) At(i int) T { return v.chunks[i/chunkSize].vals[i%chunkSize] }

// Set changes the value at i.
func (v *Vector[T]) Set(i int, val T) {
	at := &v.own(i / chunkSize).vals[i%chunkSize]
	v.live += one(val) - one(*at)
	*at = val
}

// one is 0 for a hole.
func one[T comparable](val T) int {
	var hole T
	if val == hole {
		return 0
	}
	return 1
}

// Reserve says that n values are going to be added, so that they get no more room than they need.
func (v *Vector[T]) Reserve(n int) { v.reserved = v.n + n }

// Append adds a value at the end.
func (v *Vector[T]) Append(val T) {
	at := v.n / chunkSize
	if at == len(v.chunks) {
		v.ownRoot()
		v.chunks = append(v.chunks, &chunk[T]{era: v.era})
	}
	c := v.own(at)
	if len(c.vals) == cap(c.vals) {
		room := chunkSize
		switch {
		case v.n < v.reserved:
			room = len(c.vals) + v.reserved - v.n
		case at == 0:
			// The first chunk is all that a small vector has, so it grows by doubling.
			room = max(1, 2*len(c.vals))
		}
		c.vals = append(make([]T, 0, min(room, chunkSize)), c.vals...)
	}
	c.vals = append(c.vals, val)
	v.n++
	v.live += one(val)
}

// Pop removes the last value.
func (v *Vector[T]) Pop() {
	v.n--
	v.live -= one(v.At(v.n))
	at := v.n / chunkSize
	if v.n%chunkSize == 0 {
		v.ownRoot()
		v.chunks[at] = nil
		v.chunks = v.chunks[:at]
		return
	}
	c := v.own(at)
	last := len(c.vals) - 1
	clear(c.vals[last:])
	c.vals = c.vals[:last]
	if at == 0 && cap(c.vals) >= 8 && cap(c.vals) >= 4*last {
		c.vals = append(make([]T, 0, 2*last), c.vals...)
	}
}

// own returns chunk i, which no View shows.
func (v *Vector[T]) own(i int) *chunk[T] {
	c := v.chunks[i]
	if c.era == v.era {
		return c
	}
	v.ownRoot()
	c = &chunk[T]{era: v.era, vals: append(make([]T, 0, cap(c.vals)), c.vals...)}
	v.chunks[i] = c
	return c
}

func (v *Vector[T]) ownRoot() {
	if v.rootEra != v.era {
		v.chunks = append(make([]*chunk[T], 0, len(v.chunks)+1), v.chunks...)
		v.rootEra = v.era
	}
}

// View returns the values as they are now.
func (v *Vector[T]) View() View[T] {
	v.era++
	return View[T]{chunks: v.chunks, n: v.n, live: v.live}
}

// Fork returns a Vector of the same values. Both may be viewed, but only one of them changed from then on.
func (v *Vector[T]) Fork() Vector[T] {
	v.era++
	return Vector[T]{chunks: v.chunks, n: v.n, live: v.live, era: v.era, rootEra: v.rootEra}
}

// A View is what a [Vector] held at one moment. It never changes.
type View[T comparable] struct {
	chunks  []*chunk[T]
	n, live int
}

// Live returns the number of values.
func (v View[T]) Live() int { return v.live }

// At returns the value at i, or the zero value if i is beyond the end.
func (v View[T]) At(i int) (val T) {
	if i < v.n {
		val = v.chunks[i/chunkSize].vals[i%chunkSize]
	}
	return val
}

// Each yields the values until yield returns false, and reports whether it never did.
func (v View[T]) Each(yield func(T) bool) bool {
	var hole T
	for _, c := range v.chunks {
		for _, val := range c.vals {
			if val != hole && !yield(val) {
				return false
			}
		}
	}
	return true
}

// AppendTo appends the values to dst.
func (v View[T]) AppendTo(dst []T) []T {
	var hole T
	for _, c := range v.chunks {
		if v.live == v.n {
			dst = append(dst, c.vals...)
			continue
		}
		for _, val := range c.vals {
			if val != hole {
				dst = append(dst, val)
			}
		}
	}
	return dst
}
