package decode

import "reflect"

// A maker makes memory for values of a type. It grows a slice, since reflect.New and reflect.NewAt look the type of the pointer
// up in a table of all types each time.
//
// The values of one type that belong to one object are mostly as many as in the object before: the maker of a batch makes them in
// one piece, of which the object takes parts. They live and die together. What the last two objects both had is made, so that
// what differs between objects does not leave memory unused; where it does all the same, the maker gives up for a while.
type maker struct {
	slice reflect.Value
	head  *header // of slice
	size  uintptr

	batch        bool
	object       uint64 // the object that what follows is of
	left         header // memory that it has not taken yet, which is zero
	used, before int    // how many values it took so far, and the one before

	objects, taken, unused int // what the objects that a trial counts needed and did not
	pause                  int // so many objects have no batch
}

const (
	// maxBatch is the most bytes that a maker makes in advance.
	maxBatch = 8 << 10
	// A maker of which more than one value of maxUnused is not used gives up for so many objects.
	maxUnused = 16
	longPause = 16 * trial
)

func makerOf(elem reflect.Type) *maker {
	v := reflect.New(reflect.SliceOf(elem))
	return &maker{slice: v.Elem(), head: (*header)(v.UnsafePointer()), size: elem.Size()}
}

// batchOf returns a maker of values that are made in one piece for each object.
func batchOf(elem reflect.Type) *maker {
	m := makerOf(elem)
	m.batch = elem.Size() > 0
	return m
}

// make returns memory for n values, which are zero.
func (m *maker) make(n int) header {
	m.slice.Grow(n)
	h := header{m.head.data, n, n}
	*m.head = header{}
	return h
}

// reserve makes the maker's slice n values long. Those that it did not have are zero.
func (m *maker) reserve(n int) {
	m.slice.Grow(n - m.slice.Len())
	m.slice.SetLen(n)
}

// begin makes what the object that is being decoded will need.
func (m *maker) begin(d *Decoder) {
	m.object = d.objects
	expected := min(m.used, m.before, maxBatch/int(m.size))
	m.objects++
	m.taken += m.used
	m.unused += m.left.len
	m.used, m.before, m.left = 0, m.used, header{}
	if m.objects == trial {
		if m.unused > m.taken/maxUnused {
			m.pause = longPause
		}
		m.objects, m.taken, m.unused = 0, 0, 0
	}
	switch {
	case m.pause > 0:
		m.pause--
	case expected > 1:
		m.left = m.make(expected)
	}
}

// take returns memory for n values, which are zero.
func (m *maker) take(d *Decoder, n int) header {
	if m.batch {
		if m.object != d.objects {
			m.begin(d)
		}
		m.used += n
		if m.left.len >= n {
			h := header{m.left.data, n, n}
			m.left = m.left.behind(n, m.size)
			return h
		}
	}
	return m.make(n)
}

// all returns the memory that is left for the object that is being decoded; nothing is until rest returns what was not used.
func (m *maker) all(d *Decoder) header {
	if m.batch && m.object != d.objects {
		m.begin(d)
	}
	h := m.left
	m.left = header{}
	return h
}

// rest gives back what all returned but for the first n values, which have been used.
func (m *maker) rest(h header, n int) {
	m.used += n
	m.left = h.behind(n, m.size)
}

// behind returns the memory behind n values of h.
func (h header) behind(n int, size uintptr) header {
	if n == h.len {
		return header{} // an address behind the memory is that of something else
	}
	return header{place{h.data}.index(n, size).at, h.len - n, h.len - n}
}

// append makes the slice at p longer by one and returns the place of its new element, which is zero. If its memory has to grow it
// gets room for n more.
func (m *maker) append(d *Decoder, p place, n int) place {
	s := as[header](p)
	switch {
	case s.len < s.cap:
	case s.cap == 0:
		*s = m.take(d, n)
		s.len = 0
	default:
		*m.head = *s
		m.slice.Grow(n)
		*s = *m.head
		*m.head = header{}
	}
	s.len++
	return place{s.data}.index(s.len-1, m.size)
}

// makers are one for each type of values, of which an object has its memory in one piece. Values that objects share have memory of
// their own: they would keep that of the first object alive.
type makers map[reflect.Type]*maker

func (all makers) of(t reflect.Type, share bool) *maker {
	if share {
		return makerOf(t)
	}
	if all[t] == nil {
		all[t] = batchOf(t)
	}
	return all[t]
}
