package decode

import (
	"encoding/binary"
	"fmt"
	"io"
	"reflect"
)

// number returns the decoder of numbers and booleans of type t. The format in the tag matters only
// for integers, which may be varints or have a fixed size. No API type has integers of a fixed size
// or zigzag varints, and those are refused. A tag may also say bytes for a type with a name of its
// own; then the Go type decides.
func number(t reflect.Type, format string) (wireDecoder, error) {
	if format != "varint" && format != "bytes" && t.Kind() < reflect.Float32 {
		return nil, fmt.Errorf("%v as %s is not supported", t, format)
	}
	switch t.Kind() {
	case reflect.Bool:
		return wireInt(func(p pointer, v uint64) { *as[bool](p) = v != 0 }), nil
	case reflect.Int, reflect.Int8, reflect.Int16, reflect.Int32, reflect.Int64,
		reflect.Uint, reflect.Uint8, reflect.Uint16, reflect.Uint32, reflect.Uint64:
		return wireInt(setBits(t.Size())), nil
	case reflect.Float64:
		return wireFixed(wire64, 8), nil
	case reflect.Float32:
		return wireFixed(wire32, 4), nil
	}
	return nil, fmt.Errorf("%v as %s is not supported", t, format)
}

// packed returns the wire type of the elements of a slice of t, if those may come packed: many
// numbers in one field of bytes, without tags.
func packed(t reflect.Type) (typ int, ok bool) {
	switch kind := t.Kind(); {
	case kind == reflect.Float64:
		return wire64, true
	case kind == reflect.Float32:
		return wire32, true
	case kind >= reflect.Bool && kind <= reflect.Uint64:
		return wireVarint, true
	}
	return 0, false
}

// setBits returns a function that sets an integer of size bytes. It drops the higher bits, as
// generated code does: a negative int32 is a varint of 64 bits.
func setBits(size uintptr) func(pointer, uint64) {
	switch size {
	case 1:
		return func(p pointer, v uint64) { *as[uint8](p) = uint8(v) }
	case 2:
		return func(p pointer, v uint64) { *as[uint16](p) = uint16(v) }
	case 4:
		return func(p pointer, v uint64) { *as[uint32](p) = uint32(v) }
	}
	return func(p pointer, v uint64) { *as[uint64](p) = v }
}

// wireInt returns a decoder of varints that stores them by set.
func wireInt(set func(pointer, uint64)) wireDecoder {
	return func(d *Decoder, w *wire, typ int, p pointer) error {
		if typ != wireVarint {
			return w.wrongType(typ, "a varint")
		}
		v, err := w.varint()
		if err == nil {
			set(p, v)
		}
		return err
	}
}

// wireFixed returns a decoder of floating-point numbers. They are their IEEE bits in size bytes,
// the lowest first, as in memory: so it stores them as integers.
func wireFixed(want, size int) wireDecoder {
	return func(d *Decoder, w *wire, typ int, p pointer) error {
		switch {
		// Generated code has no conversions between wire types either.
		case typ != want:
			return w.wrongType(typ, "a fixed number")
		case len(w.data)-w.pos < size:
			return io.ErrUnexpectedEOF
		case size == 8:
			*as[uint64](p) = binary.LittleEndian.Uint64(w.data[w.pos:])
		default:
			*as[uint32](p) = binary.LittleEndian.Uint32(w.data[w.pos:])
		}
		w.pos += size
		return nil
	}
}
