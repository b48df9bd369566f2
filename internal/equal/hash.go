package equal

import (
	"hash/maphash"
	"math"
	"reflect"
)

var seed = maphash.MakeSeed()

// Hash returns a hash of v and of all that it leads to. Values of which reflect.DeepEqual is true
// have the same hash within a process, apart from a nil and an empty slice or map, which it tells
// apart too; others have different ones but for a chance of one in 2^64. A NaN is equal to itself,
// and functions and channels are equal if they are the same.
//
// Each part is looked at once, however many ways lead to it, and a few dozen times if one leads
// back to it.
func Hash(v any) uint64 {
	w := walk{sums: map[part]uint64{}, open: map[part]bool{}}
	sum := w.sum(reflect.ValueOf(v))
	if w.ring {
		return w.rounds(reflect.ValueOf(v))
	}
	return sum
}

// A part is what a pointer, a map or a slice leads to: several of these may lead to one part.
type part struct {
	typ reflect.Type
	at  uintptr
	n   int // the length of a slice
}

// A walk goes through a value, from part to part.
type walk struct {
	sums map[part]uint64 // the hashes of the parts; in rounds, those of the round before
	open map[part]bool   // the parts that it has come to
	ring bool            // a part leads to itself

	// The fields below are used by rounds only.

	found map[part]bool
	queue []reflect.Value // the parts of found that have no hash in this round yet
}

// sum returns the hash of v.
func (w *walk) sum(v reflect.Value) uint64 {
	h := hasher{walk: w}
	h.SetSeed(seed)
	h.value(v)
	return h.Sum64()
}

// content returns the hash of the part that v leads to.
func (w *walk) content(v reflect.Value) uint64 {
	h := hasher{walk: w}
	h.SetSeed(seed)
	switch v.Kind() {
	case reflect.Pointer:
		h.value(v.Elem())
	case reflect.Map:
		h.entries(v)
	default:
		h.elements(v)
	}
	return h.Sum64()
}

// part returns the hash of the part that v leads to, once it is known.
func (w *walk) part(v reflect.Value) uint64 {
	p := partOf(v)
	if w.found != nil {
		if !w.found[p] {
			w.found[p] = true
			w.queue = append(w.queue, v)
		}
		return w.sums[p]
	}
	sum, known := w.sums[p]
	if known || w.ring {
		return sum
	}
	if w.ring = w.open[p]; w.ring {
		return 0
	}
	w.open[p] = true
	sum = w.content(v)
	w.sums[p] = sum
	return sum
}

func partOf(v reflect.Value) part {
	p := part{typ: v.Type(), at: v.Pointer()}
	if v.Kind() == reflect.Slice {
		p.n = v.Len()
	}
	return p
}

// fewRounds is how far from a part a difference makes its hash differ, at least. There are more
// rounds than that as long as all of them together look at no more than manyParts.
const (
	fewRounds = 32
	manyParts = 1 << 20
)

// rounds returns the hash of a value with a ring. At first all parts count as alike. Each round
// gives a part a hash of what is in it, and of the hashes that the round before gave to the parts
// that it leads to. The rounds end when one tells no more parts apart than the one before. How many
// parts have a hash means nothing: a ring of two parts that are alike is a ring of one.
func (w *walk) rounds(v reflect.Value) uint64 {
	w.sums = nil
	var sum uint64
	var all map[uint64]struct{}
	for round := 1; ; round++ {
		w.found = map[part]bool{}
		sum = w.sum(v)
		next := map[part]uint64{}
		for len(w.queue) > 0 {
			last := len(w.queue) - 1
			v := w.queue[last]
			w.queue = w.queue[:last]
			next[partOf(v)] = w.content(v)
		}
		before := len(all)
		all = make(map[uint64]struct{}, before)
		for _, sum := range next {
			all[sum] = struct{}{}
		}
		w.sums = next
		if len(all) == before || round >= fewRounds && round*len(next) >= manyParts {
			break
		}
	}
	var h hasher
	h.SetSeed(seed)
	h.number(sum)
	var parts uint64
	for sum := range all {
		parts += sum
	}
	h.number(parts)
	return h.Sum64()
}

// hasher is the hash of a value that is being made.
type hasher struct {
	maphash.Hash
	walk *walk
}

func (h *hasher) number(n uint64) { maphash.WriteComparable(&h.Hash, n) }

func (h *hasher) slice(v reflect.Value) {
	if v.IsNil() {
		h.number(math.MaxUint64)
		return
	}
	h.number(uint64(v.Len()))
	if v.Type().Elem().Kind() == reflect.Uint8 {
		_, _ = h.Write(v.Bytes())
		return
	}
	h.number(h.walk.part(v))
}

func (h *hasher) value(v reflect.Value) {
	if !v.IsValid() {
		h.number(0)
		return
	}
	h.number(uint64(v.Kind()))
	switch v.Kind() {
	case reflect.Bool:
		if v.Bool() {
			h.number(1)
		} else {
			h.number(0)
		}
	case reflect.Int, reflect.Int8, reflect.Int16, reflect.Int32, reflect.Int64:
		h.number(uint64(v.Int()))
	case reflect.Uint, reflect.Uint8, reflect.Uint16, reflect.Uint32, reflect.Uint64, reflect.Uintptr:
		h.number(v.Uint())
	case reflect.Float32, reflect.Float64:
		h.float(v.Float())
	case reflect.Complex64, reflect.Complex128:
		h.float(real(v.Complex()))
		h.float(imag(v.Complex()))
	case reflect.String:
		h.number(uint64(v.Len()))
		_, _ = h.WriteString(v.String())
	case reflect.Array:
		h.elements(v)
	case reflect.Slice:
		h.slice(v)
	case reflect.Struct:
		for i := range v.NumField() {
			h.value(v.Field(i))
		}
	case reflect.Pointer:
		if v.IsNil() {
			h.number(0)
			return
		}
		h.number(h.walk.part(v))
	case reflect.Interface:
		if v.IsNil() {
			h.number(0)
			return
		}
		_, _ = h.WriteString(v.Elem().Type().String())
		h.value(v.Elem())
	case reflect.Map:
		if v.IsNil() {
			h.number(math.MaxUint64)
			return
		}
		h.number(h.walk.part(v))
	default: // a function, a channel or an unsafe pointer
		h.number(uint64(v.Pointer()))
	}
}

func (h *hasher) float(f float64) {
	if f == 0 {
		f = 0 // of either sign
	}
	h.number(math.Float64bits(f))
}

func (h *hasher) elements(v reflect.Value) {
	for i := range v.Len() {
		h.value(v.Index(i))
	}
}

// entries adds up the hashes of the entries, whose order is not defined.
func (h *hasher) entries(v reflect.Value) {
	var sum uint64
	for each := v.MapRange(); each.Next(); {
		entry := hasher{walk: h.walk}
		entry.SetSeed(seed)
		entry.value(each.Key())
		entry.value(each.Value())
		sum += entry.Sum64()
	}
	h.number(uint64(v.Len()))
	h.number(sum)
}
