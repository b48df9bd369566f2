package decode

import (
	"encoding"
	"encoding/json"
	"fmt"
	"reflect"

	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"
)

// A decoder consumes the JSON value that is next and decodes it into the Go value at p. The result
// is that of apimachinery's decoder, which is encoding/json with case-sensitive names, and with
// whole numbers as int64 in an any. In particular, it merges into a value that is already there,
// and a null leaves it or makes it nil.
//
// A decoder returns a FieldError for a value that does not fit, with the path from here on. It need
// not consume the value then: decodeObject skips the whole object.
type decoder func(d *Decoder, p pointer) error

// A compiler makes the decoders of one root type. A decoder keeps what it learns from values, so
// two fields of the same type have two decoders; only structs of which nothing is left out have one
// for each type.
type compiler struct {
	share      bool
	allocators allocators
	// done has the decoders of structs of which nothing is left out.
	done map[reflect.Type]*forwardDecoder
}

func newCompiler(share bool) *compiler {
	return &compiler{share: share, allocators: allocators{}, done: map[reflect.Type]*forwardDecoder{}}
}

// A forwardDecoder is the decoder of a struct that is still being compiled. A type that contains
// itself, through a pointer, a slice or a map, needs it before it is there.
type forwardDecoder struct{ decoder }

// Types that decode themselves, from JSON or from a string.
var (
	unmarshalerJSON = reflect.TypeFor[json.Unmarshaler]()
	unmarshalerText = reflect.TypeFor[encoding.TextUnmarshaler]()
)

// compile returns the decoder of values of type t that leaves out what keep says. The paths of keep
// have been followed through t before: see follow.
func (c *compiler) compile(t reflect.Type, keep mask) decoder {
	// A pointer says that there is a value, and an any of what sort it is.
	if keep.nothing() && t.Kind() != reflect.Pointer && !isAny(t) {
		return skippedValue()
	}
	if dec := specialDecoder(t); dec != nil {
		return dec
	}
	switch t.Kind() {
	case reflect.Struct:
		return c.structure(t, keep)
	case reflect.Pointer:
		return c.pointer(t, keep)
	case reflect.Slice:
		// A []byte is a string in base64.
		if t.Elem().Kind() == reflect.Uint8 {
			return decodeBytes(t)
		}
		return c.slice(t, keep)
	case reflect.Map:
		return c.mapping(t, keep)
	case reflect.Interface:
		if isAny(t) {
			f := &anyField{keep: keep.remembering()}
			return f.decode
		}
	}
	switch t.Kind() {
	case reflect.String:
		return new(stringField).decode
	case reflect.Bool:
		return decodeBool
	case reflect.Int, reflect.Int8, reflect.Int16, reflect.Int32, reflect.Int64:
		return decodeInt(t)
	case reflect.Uint, reflect.Uint8, reflect.Uint16, reflect.Uint32, reflect.Uint64, reflect.Uintptr:
		return decodeUint(t)
	case reflect.Float32, reflect.Float64:
		return decodeFloat(t)
	}
	return fallback(t)
}

// isAny reports whether t is any. For an interface with methods nobody knows the type to make.
func isAny(t reflect.Type) bool { return t.Kind() == reflect.Interface && t.NumMethod() == 0 }

// skippedValue returns the decoder of a value of which nothing is kept. It leaves the Go value
// zero.
func skippedValue() decoder {
	pattern := &skipPattern{}
	return func(d *Decoder, _ pointer) error { return d.skipLike(pattern) }
}

// specialDecoder returns the decoder of a type whose JSON is not that of its fields, and nil for
// all others. Three types of apimachinery come so often that they have decoders here. Others have
// an UnmarshalJSON or UnmarshalText, which is called.
func specialDecoder(t reflect.Type) decoder {
	switch {
	case t == reflect.TypeFor[metav1.Time]():
		return decodeTime
	case t == reflect.TypeFor[resource.Quantity]():
		return decodeQuantity
	case t == reflect.TypeFor[intstr.IntOrString]():
		return decodeIntOrString()
	case t.Kind() == reflect.Pointer || t.Name() == "":
		// As in encoding/json: the methods are those of the type that is pointed to, and a type
		// without a name is judged by its parts.
		return nil
	case reflect.PointerTo(t).Implements(unmarshalerJSON):
		return decodeUnmarshaler(t)
	case reflect.PointerTo(t).Implements(unmarshalerText), t == reflect.TypeFor[json.Number]():
		return fallback(t)
	}
	return nil
}

// fallback returns a decoder that leaves values of type t to apimachinery. It is slow, and right by
// definition: rare types need no code of their own.
func fallback(t reflect.Type) decoder {
	return func(d *Decoder, p pointer) error {
		raw, err := d.p.raw()
		if err != nil {
			return err
		}
		v := p.value(t)
		first := v.IsZero()
		err = unmarshal(raw, v.Addr().Interface())
		if first {
			fillAll(v)
		} else {
			d.grew = true
		}
		return d.mismatch(err)
	}
}

// quoted returns the decoder of a field with the option "string" in its tag: its value stands in a
// JSON string. encoding/json knows this option only for a struct's field. So the value is taken for
// a struct of one field, which has the same layout, and decoded from an object of one member.
func quoted(t reflect.Type) decoder {
	wrapper := reflect.StructOf([]reflect.StructField{{Name: "F", Type: t, Tag: `json:"F,string"`}})
	return func(d *Decoder, p pointer) error {
		raw, err := d.p.raw()
		if err != nil {
			return err
		}
		// An object of one member around the bytes.
		whole := append(append([]byte(`{"F":`), raw...), '}')
		return d.mismatch(unmarshal(whole, p.value(wrapper).Addr().Interface()))
	}
}

// decodeUnmarshaler returns a decoder that calls the UnmarshalJSON of *t with the bytes of the
// value.
func decodeUnmarshaler(t reflect.Type) decoder {
	f, slices := &rawField{}, slicesIn(t, 0)
	return func(d *Decoder, p pointer) error {
		raw, err := f.raw(&d.p)
		if err != nil {
			return err
		}
		err = p.value(t).Addr().Interface().(json.Unmarshaler).UnmarshalJSON(raw)
		fill(p, slices)
		return d.mismatch(err)
	}
}

// pointer returns the decoder of a pointer. A null makes it nil. Any other value is decoded into
// what it points to, or into a new value if it is nil.
func (c *compiler) pointer(t reflect.Type, keep mask) decoder {
	elem := t.Elem()
	// Each pointer field has a decoder of its own, but the allocator is one for all pointers to the
	// type.
	dec := c.compile(elem, keep)
	alloc, leaf := c.allocators.of(elem, c.share), leafOf(elem, dec, false)
	return func(d *Decoder, p pointer) error {
		if null, err := d.p.null(); null {
			if err == nil {
				p.value(t).SetZero()
			}
			return err
		}
		to := alloc.pointee(d, p)
		if d.rec != nil {
			return d.rec.decodeLeaf(d, dec, leaf, to)
		}
		return dec(d, to)
	}
}

// wrongType returns the error for the value that is next, where a value of another type should be.
// It consumes the value, because a syntax error in it is the worse one, and because the offset is
// that behind the value.
func (d *Decoder) wrongType(want string) error {
	var kind string
	switch c := d.p.next(); c {
	case '{':
		kind = "an object"
	case '[':
		kind = "an array"
	case '"':
		kind = "a string"
	case 't', 'f':
		kind = "a boolean"
	case 'n':
		kind = "null"
	default:
		kind = "a number"
	}
	if err := d.p.skip(); err != nil {
		return err
	}
	return d.mismatch(fmt.Errorf("%s, want %s", kind, want))
}
