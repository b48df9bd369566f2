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

// A decoder decodes the JSON value that is next into the value at p. What it does to that value is what apimachinery's decoder
// does, which is encoding/json with case-sensitive names and whole numbers as int64.
type decoder func(d *Decoder, p pointer) error

// A compiler makes the decoders of one root type.
type compiler struct {
	share      bool
	allocators allocators
	done       map[reflect.Type]*forwardDecoder // structs without drops
}

func newCompiler(share bool) *compiler {
	return &compiler{share: share, allocators: allocators{}, done: map[reflect.Type]*forwardDecoder{}}
}

// A lateDecoder is a struct's decoder, which is needed before it is there where a type contains itself.
type forwardDecoder struct{ decoder }

var (
	unmarshalerJSON = reflect.TypeFor[json.Unmarshaler]()
	unmarshalerText = reflect.TypeFor[encoding.TextUnmarshaler]()
)

// compile returns the decoder of values of type t, which leaves out what drop names.
func (c *compiler) compile(t reflect.Type, drop drops) (decoder, error) {
	if dec := specialDecoder(t); dec != nil {
		if len(drop) > 0 {
			return nil, fmt.Errorf("%v decodes itself: %q cannot be dropped", t, drop[0])
		}
		return dec, nil
	}
	switch t.Kind() {
	case reflect.Struct:
		return c.structure(t, drop)
	case reflect.Pointer:
		return c.pointer(t, drop)
	case reflect.Slice:
		if t.Elem().Kind() == reflect.Uint8 && len(drop) == 0 {
			return decodeBytes(t), nil
		}
		return c.slice(t, drop)
	case reflect.Map:
		return c.mapping(t, drop)
	case reflect.Interface:
		if t.NumMethod() == 0 {
			f := &anyField{drop: drop}
			return f.decode, nil
		}
	}
	if len(drop) > 0 {
		return nil, fmt.Errorf("%v has no %q to drop", t, drop[0])
	}
	switch t.Kind() {
	case reflect.String:
		return new(stringField).decode, nil
	case reflect.Bool:
		return decodeBool, nil
	case reflect.Int, reflect.Int8, reflect.Int16, reflect.Int32, reflect.Int64:
		return decodeInt(t), nil
	case reflect.Uint, reflect.Uint8, reflect.Uint16, reflect.Uint32, reflect.Uint64, reflect.Uintptr:
		return decodeUint(t), nil
	case reflect.Float32, reflect.Float64:
		return decodeFloat(t), nil
	}
	return fallback(t), nil
}

// own returns the decoder of a type that has a way of its own, and nil for others.
func specialDecoder(t reflect.Type) decoder {
	switch {
	case t == reflect.TypeFor[metav1.Time]():
		return decodeTime
	case t == reflect.TypeFor[resource.Quantity]():
		return decodeQuantity
	case t == reflect.TypeFor[intstr.IntOrString]():
		return decodeIntOrString()
	case t.Kind() == reflect.Pointer || t.Name() == "":
		return nil // as in encoding/json, which asks the pointed-to type
	case reflect.PointerTo(t).Implements(unmarshalerJSON):
		return decodeUnmarshaler(t)
	case reflect.PointerTo(t).Implements(unmarshalerText), t == reflect.TypeFor[json.Number]():
		return fallback(t)
	}
	return nil
}

// fallback decodes values of type t as apimachinery does, by apimachinery.
func fallback(t reflect.Type) decoder {
	return func(d *Decoder, p pointer) error {
		raw, err := d.p.raw()
		if err != nil {
			return err
		}
		return d.mismatch(unmarshal(raw, p.value(t).Addr().Interface()))
	}
}

// quoted decodes values of type t that stand in strings.
func quoted(t reflect.Type) decoder {
	wrapper := reflect.StructOf([]reflect.StructField{{Name: "F", Type: t, Tag: `json:"F,string"`}})
	return func(d *Decoder, p pointer) error {
		raw, err := d.p.raw()
		if err != nil {
			return err
		}
		whole := append(append([]byte(`{"F":`), raw...), '}')
		return d.mismatch(unmarshal(whole, p.value(wrapper).Addr().Interface()))
	}
}

// decodeOwn decodes by the UnmarshalJSON of *t.
func decodeUnmarshaler(t reflect.Type) decoder {
	f := &rawField{}
	return func(d *Decoder, p pointer) error {
		raw, err := f.raw(&d.p)
		if err != nil {
			return err
		}
		return d.mismatch(p.value(t).Addr().Interface().(json.Unmarshaler).UnmarshalJSON(raw))
	}
}

func (c *compiler) pointer(t reflect.Type, drop drops) (decoder, error) {
	elem := t.Elem()
	dec, err := c.compile(elem, drop)
	alloc := c.allocators.of(elem, c.share)
	return func(d *Decoder, p pointer) error {
		if null, err := d.p.null(); null {
			if err == nil {
				p.value(t).SetZero()
			}
			return err
		}
		return dec(d, alloc.pointee(d, p))
	}, err
}

// wrong is the error for the value that is next where another type of value should be.
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
