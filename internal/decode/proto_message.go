package decode

import (
	"encoding/binary"
	"fmt"
	"reflect"
	"strconv"
	"strings"

	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// A wireDecoder decodes one occurrence of a protobuf field, of wire type typ, into the value at p. What it does to that value is
// what the Unmarshal methods of API types do, which are generated from the same struct tags.
type wireDecoder func(d *Decoder, w *wire, typ int, p pointer) error

// A messageType is what a message's decoder knows.
type messageType struct{ fields []wireField } // by number

// A wireField is a field in a messageType; one without dec is skipped.
type wireField struct {
	name     string
	offset   uintptr
	dec      wireDecoder
	strField *stringField // of dec, where it decodes a string
}

var errTooDeep = fmt.Errorf("%w: more than %d levels", errWire, maxDepth)

func (m *messageType) decode(d *Decoder, data []byte, p pointer) error {
	d.depth = 0
	w := d.wires.open(data)
	defer d.wires.close(w)
	return m.rest(d, w, p)
}

// rest decodes what is left of w.
func (m *messageType) rest(d *Decoder, w *wire, p pointer) error {
	for !w.done() {
		num, typ, err := w.field()
		if err != nil {
			return err
		}
		if num < len(m.fields) && m.fields[num].dec != nil {
			f := &m.fields[num]
			if f.strField != nil && typ == wireBytes {
				b, err := w.bytes()
				if err != nil {
					return in(f.name, wireError(err))
				}
				*as[string](p.field(f.offset)) = f.strField.intern(d, b)
				continue
			}
			if err := f.dec(d, w, typ, p.field(f.offset)); err != nil {
				return in(f.name, wireError(err))
			}
		} else if err := w.skip(typ); err != nil {
			return err
		}
	}
	return nil
}

func (m *messageType) field(d *Decoder, w *wire, typ int, p pointer) error {
	b, err := w.message(typ)
	if err != nil {
		return err
	}
	if d.depth++; d.depth >= maxDepth {
		return errTooDeep
	}
	if err := d.p.tick(); err != nil {
		return err
	}
	// The bytes of a message are a part of those around it, and so is its decoding.
	all := w.data
	w.data = all[:w.pos]
	w.pos -= len(b)
	if err := m.rest(d, w, p); err != nil {
		return err
	}
	w.data = all
	d.depth--
	return nil
}

// wireError returns err as one that can be told where in the object it is.
func wireError(err error) error {
	switch err.(type) {
	case *FieldError, abort:
		return err
	}
	return fieldError(-1, err)
}

// A wireCompiler makes the decoders of one root type's messages. It refuses a type that has no tags to go by.
type wireCompiler struct {
	share      bool
	allocators allocators
	done       map[reflect.Type]*messageType // without drops; a type may contain itself
}

func newWireCompiler(share bool) *wireCompiler {
	return &wireCompiler{share: share, allocators: allocators{}, done: map[reflect.Type]*messageType{}}
}

// message returns the decoder of struct t.
func (c *wireCompiler) message(t reflect.Type, drop drops) (*messageType, error) {
	if m := c.done[t]; m != nil && len(drop) == 0 {
		return m, nil
	}
	m := &messageType{}
	if len(drop) == 0 {
		c.done[t] = m
	}
	for i := range t.NumField() {
		sf := t.Field(i)
		tag := strings.Split(sf.Tag.Get("protobuf"), ",")
		if len(tag) < 2 {
			continue
		}
		num, err := strconv.Atoi(tag[1])
		if err != nil || num < 1 || num > 1000 {
			return nil, fmt.Errorf("%v.%s: protobuf tag %q", t, sf.Name, tag)
		}
		f := wireField{name: sf.Name, offset: sf.Offset}
		rest := drop
		if jf, embedded := oneField(sf); embedded == nil {
			var whole bool
			if jf.name != "" {
				f.name = jf.name
			}
			if rest, whole = drop.under(f.name); whole {
				continue
			}
		}
		if f.dec, err = c.field(sf.Type, num, tag[0], rest); err != nil {
			return nil, fmt.Errorf("%v.%s: %w", t, sf.Name, err)
		}
		if sf.Type.Kind() == reflect.String && !hasOwnUnmarshal(sf.Type) && tag[0] == "bytes" {
			f.strField = &stringField{}
			f.dec = f.strField.decodeWire
		}
		for len(m.fields) <= num {
			m.fields = append(m.fields, wireField{})
		}
		m.fields[num] = f
	}
	return m, nil
}

// field returns the decoder of field num, which is of type t.
func (c *wireCompiler) field(t reflect.Type, num int, format string, drop drops) (dec wireDecoder, err error) {
	tag := string(binary.AppendUvarint(nil, uint64(num)<<3|wireBytes))
	switch {
	case hasOwnUnmarshal(t):
		return c.value(t, format, drop)
	case t.Kind() == reflect.Map:
		dec, err = c.mapping(t, tag, drop)
	case t.Kind() == reflect.Slice && t.Elem().Kind() != reflect.Uint8:
		dec, err = c.repeated(t, tag, format, drop)
	default:
		return c.value(t, format, drop)
	}
	if c.share && err == nil {
		dec = sharedRun(t, tag, dec)
	}
	return dec, err
}

// ownWire reports whether values of type t are decoded by their own Unmarshal. A struct with tags is not: its Unmarshal is
// generated from them.
func hasOwnUnmarshal(t reflect.Type) bool {
	if !reflect.PointerTo(t).Implements(wireUnmarshaler) || t.Kind() == reflect.Pointer {
		return false
	}
	return t.Kind() != reflect.Struct || !hasTags(t)
}

// tagged reports whether struct t has protobuf fields.
func hasTags(t reflect.Type) bool {
	for i := range t.NumField() {
		if strings.Contains(t.Field(i).Tag.Get("protobuf"), ",") {
			return true
		}
	}
	return false
}

// value returns the decoder of one value of type t which is written as format says.
func (c *wireCompiler) value(t reflect.Type, format string, drop drops) (wireDecoder, error) {
	switch {
	case t == reflect.TypeFor[metav1.Time]():
		return func(_ *Decoder, w *wire, typ int, p pointer) error {
			b, err := w.message(typ)
			if err != nil {
				return err
			}
			if second, ok := seconds(b); ok {
				*as[metav1.Time](p) = metav1.Unix(second, 0)
				return nil
			}
			return as[metav1.Time](p).Unmarshal(b)
		}, nil
	case t == reflect.TypeFor[resource.Quantity]():
		return wireQuantity, nil
	case hasOwnUnmarshal(t):
		return func(d *Decoder, w *wire, typ int, p pointer) error {
			b, err := w.message(typ)
			if err != nil {
				return err
			}
			return p.value(t).Addr().Interface().(protobufUnmarshaler).Unmarshal(b)
		}, nil
	}
	switch kind := t.Kind(); {
	case kind == reflect.Pointer:
		elem := t.Elem()
		dec, err := c.value(elem, format, drop)
		alloc := c.allocators.of(elem, c.share)
		inner := func(d *Decoder, w *wire, typ int, p pointer) error { return dec(d, w, typ, alloc.pointee(d, p)) }
		if c.share && elem.Kind() == reflect.Struct {
			return sharedMessage(t, inner), err
		}
		return inner, err
	case kind == reflect.Struct && format == "bytes":
		m, err := c.message(t, drop)
		if err != nil {
			return nil, err
		}
		if !hasTags(t) && t.NumField() > 0 {
			return nil, fmt.Errorf("%v has no protobuf tags", t)
		}
		return m.field, nil
	case kind == reflect.String && format == "bytes":
		return new(stringField).decodeWire, nil
	case kind == reflect.Slice && t.Elem().Kind() == reflect.Uint8 && format == "bytes":
		return wireByteSlice, nil
	}
	return number(t, format)
}

// seconds returns the seconds in b, if it is a time as servers write it: with the seconds, and with no part of one.
func seconds(b []byte) (int64, bool) {
	w := wire{data: b}
	if len(b) == 0 || b[0] != 1<<3|wireVarint {
		return 0, false
	}
	w.pos++
	v, err := w.varint()
	rest := b[w.pos:]
	return int64(v), err == nil && (len(rest) == 0 || string(rest) == "\x10\x00")
}

func (f *stringField) decodeWire(d *Decoder, w *wire, typ int, p pointer) error {
	b, err := w.message(typ)
	if err == nil {
		*as[string](p) = f.intern(d, b)
	}
	return err
}

func wireByteSlice(d *Decoder, w *wire, typ int, p pointer) error {
	b, err := w.message(typ)
	if err == nil {
		*as[[]byte](p) = append(make([]byte, 0, len(b)), b...)
	}
	return err
}
