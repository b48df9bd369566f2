package equal

import (
	"hash/maphash"
	"math"
	"reflect"
	"slices"
)

var seed = maphash.MakeSeed()

// Hash returns a hash of v and of all that it leads to. Values of which reflect.DeepEqual is true
// have the same hash within a process, apart from a nil and an empty slice or map, which it tells
// apart too; others have different ones but for a chance of one in 2^64. A NaN is equal to itself,
// and functions and channels are equal if they are the same.
func Hash(v any) uint64 {
	var h hasher
	h.SetSeed(seed)
	h.value(reflect.ValueOf(v))
	return h.Sum64()
}

// hasher is a walk through a value.
type hasher struct {
	maphash.Hash
	path []uintptr // the pointers on the way to where it is, so that a ring comes to an end
}

func (h *hasher) number(n uint64) { maphash.WriteComparable(&h.Hash, n) }

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
		if v.IsNil() {
			h.number(math.MaxUint64)
			return
		}
		h.number(uint64(v.Len()))
		if v.Type().Elem().Kind() == reflect.Uint8 {
			_, _ = h.Write(v.Bytes())
			return
		}
		h.elements(v)
	case reflect.Struct:
		for i := range v.NumField() {
			h.value(v.Field(i))
		}
	case reflect.Pointer:
		if v.IsNil() {
			h.number(0)
			return
		}
		h.within(v, func() { h.value(v.Elem()) })
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
		h.within(v, func() { h.entries(v) })
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
		entry := hasher{path: h.path}
		entry.SetSeed(seed)
		entry.value(each.Key())
		entry.value(each.Value())
		sum += entry.Sum64()
	}
	h.number(uint64(v.Len()))
	h.number(sum)
}

// within calls walk, unless it is in v already.
func (h *hasher) within(v reflect.Value, walk func()) {
	p := v.Pointer()
	if at := slices.Index(h.path, p); at >= 0 {
		h.number(uint64(at))
		return
	}
	h.path = append(h.path, p)
	walk()
	h.path = h.path[:len(h.path)-1]
}
