package decode

import (
	"cmp"
	"encoding/binary"
	"fmt"
	"reflect"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// A wireDecoder consumes one field's value, of wire type typ, and decodes it into the Go value at
// p. The result is that of the Unmarshal methods of the API types, which are generated from the
// same struct tags. By the rules of protobuf a field that comes twice replaces a scalar, is merged
// into a message, and is one more element of a slice or a map.
type wireDecoder func(d *Decoder, w *wire, typ int, p pointer) error

// A messageType is the compiled form of a message: its fields by their number. The numbers of API
// types are small, so a table finds a field at once, where generated code has a switch.
type messageType struct {
	fields []wireField // by number
	typ    reflect.Type
	// leaves are what templates know of the fields, by number, from the first template on.
	leaves []*leaf
}

// A wireField is a field of a messageType. Without dec it is skipped: it is unknown, or left out.
type wireField struct {
	name   string
	offset uint32
	index  int32 // of the field in the struct; -1: it is in a struct within that
	dec    wireDecoder
	// strField is that of dec, where dec decodes a string.
	strField *stringField
}

// errTooDeep is for messages within messages beyond maxDepth. Generated code has no such limit, and
// overflows the stack.
var errTooDeep = fmt.Errorf("%w: more than %d levels", errWire, maxDepth)

// decode decodes the message in data, which is an object, into the struct at p.
func (m *messageType) decode(d *Decoder, data []byte, p pointer) error {
	d.depth = 0
	w := d.wires.open(data)
	defer d.wires.close(w)
	return m.rest(d, w, p)
}

// rest decodes the fields that are left in w into the struct at p.
func (m *messageType) rest(d *Decoder, w *wire, p pointer) error {
	for !w.done() {
		num, typ, err := w.field()
		if err != nil {
			return err
		}
		// Field numbers beyond the table, and those without a decoder, are unknown or left out. An
		// unknown field is normal: the server's version may be newer than the Go type.
		if num < len(m.fields) && m.fields[num].dec != nil {
			f := &m.fields[num]
			// Strings are the most frequent fields. They need no call through dec.
			if f.strField != nil && typ == wireBytes {
				b, err := w.bytes()
				if err != nil {
					return in(f.name, wireError(err))
				}
				*as[string](p.field(uintptr(f.offset))) = f.strField.intern(d, b)
				continue
			}
			if err := f.dec(d, w, typ, p.field(uintptr(f.offset))); err != nil {
				// Each message around it adds its own name, as the calls return.
				return in(f.name, wireError(err))
			}
		} else if err := w.skip(typ); err != nil {
			return err
		}
	}
	return nil
}

// field is the wireDecoder of a message within another one.
func (m *messageType) field(d *Decoder, w *wire, typ int, p pointer) error {
	start := w.pos
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
	// The same wire reads the inner message, since its bytes are a part of those around it: it is
	// set back to the start of the message, and ends where the message ends. Afterwards only the
	// end is restored. After an error nobody reads on.
	all := w.data
	w.data = all[:w.pos]
	w.pos -= len(b)
	if d.rec != nil {
		outer := d.rec.beginMessage(start, w.pos, len(b))
		err = m.record(d, w, p)
		d.rec.endMessage(outer)
	} else {
		err = m.rest(d, w, p)
	}
	if err != nil {
		return err
	}
	w.data = all
	d.depth--
	return nil
}

// wireError makes err a FieldError, which collects the path, if it is not one. In protobuf there is
// no offset: the errors of the wire have the byte in their text.
func wireError(err error) error {
	switch err.(type) {
	case *FieldError, abort:
		return err
	}
	return fieldError(-1, err)
}

// A wireCompiler makes the decoders of one root type's messages from the protobuf tags of its
// structs. It fails for a type that has no such tags, or that uses what no API type does. Then root
// calls the type's Unmarshal, or reports the error if it is a projection.
type wireCompiler struct {
	share bool
	// projection says that the structs without an Unmarshal were written by hand; see handTag.
	projection bool
	allocators allocators
	// done has the messages of which nothing is left out, also while they are being compiled: a type
	// may contain itself.
	done map[reflect.Type]*messageType
}

// newWireCompiler returns a compiler of messages that share equal parts, or of messages that do
// not.
func newWireCompiler(share, projection bool) *wireCompiler {
	return &wireCompiler{share: share, projection: projection, allocators: allocators{}, done: map[reflect.Type]*messageType{}}
}

// message compiles struct t. A tag is like `protobuf:"bytes,1,opt,name=metadata"`: format, number,
// and what follows from the Go type. The paths of keep have the names of JSON. An error is a
// FieldError.
func (c *wireCompiler) message(t reflect.Type, keep mask) (*messageType, error) {
	if m := c.done[t]; m != nil && keep.all() {
		return m, nil
	}
	m := &messageType{typ: t}
	if keep.all() {
		c.done[t] = m
	}
	var hand *handStruct
	if c.projection && !Unmarshals(t) {
		hand = newHandStruct(t)
	}
	if err := c.fields(m, t, 0, keep, hand); err != nil {
		return nil, err
	}
	return m, nil
}

// fields adds the fields of struct t to m, which has t at offset base. hand is nil for a generated
// struct.
func (c *wireCompiler) fields(m *messageType, t reflect.Type, base uintptr, keep mask, hand *handStruct) error {
	for i := range t.NumField() {
		sf := t.Field(i)
		f := wireField{name: sf.Name, offset: uint32(base + sf.Offset), index: int32(i)}
		if t != m.typ {
			f.index = -1
		}
		// An embedded struct without a JSON name, such as VolumeSource in Volume, does not appear
		// in a path.
		rest, skip := keep, false
		if jf, embedded := oneField(sf); embedded == nil {
			f.name = cmp.Or(jf.name, f.name)
			rest, skip = keep.under(f.name)
		} else if sf.Type.Kind() == reflect.Pointer {
			skip = !keep.keepsAny(embedded) // as in JSON, a pointer that no path leads through is nil
		}
		if skip {
			continue
		}
		if inner := inlinedStruct(sf); hand != nil && inner != nil {
			if err := c.fields(m, inner, uintptr(f.offset), keep, hand); err != nil {
				return err
			}
			continue
		}
		tag, decoded, err := tagOf(sf, hand)
		if err == nil && !decoded {
			continue
		}
		if err == nil && hand != nil {
			err = hand.add(f.name, uintptr(f.offset), tag.num)
		}
		num := tag.num
		if err == nil {
			f.dec, err = c.field(sf.Type, num, tag.format, rest)
		}
		if err != nil {
			return in(f.name, wireError(err))
		}
		// A string in the struct itself: rest decodes it without a call through dec.
		if sf.Type.Kind() == reflect.String && !hasOwnUnmarshal(sf.Type) && tag.format == "bytes" {
			f.strField = &stringField{}
			f.dec = f.strField.decodeWire
		}
		for len(m.fields) <= num {
			m.fields = append(m.fields, wireField{})
		}
		m.fields[num] = f
	}
	return nil
}

// tagOf returns the tag of a field, and whether it is decoded at all. hand is nil for a generated
// struct.
func tagOf(sf reflect.StructField, hand *handStruct) (tag wireTag, decoded bool, err error) {
	if hand != nil {
		return handTag(sf)
	}
	text := sf.Tag.Get("protobuf")
	if !strings.Contains(text, ",") {
		return wireTag{}, false, nil
	}
	tag, err = parseTag(text)
	return tag, true, err
}

// root compiles struct t, the type of whole objects, which take the parts of layout from the last
// version unless layout is nil. The metadata gets a messageType of its own, since an object may
// have further ObjectMetas within its parts.
func (c *wireCompiler) root(t reflect.Type, keep mask, layout *partLayout) (*messageType, error) {
	m, err := c.message(t, keep)
	if err == nil && c.projection {
		err = m.checkMetadata()
	}
	rest, skip := keep.under("metadata")
	if err != nil || layout == nil || skip {
		return m, err
	}
	delete(c.done, reflect.TypeFor[metav1.ObjectMeta]())
	meta, err := c.message(reflect.TypeFor[metav1.ObjectMeta](), rest)
	if err != nil {
		return nil, err
	}
	for i := range m.fields {
		if m.fields[i].name == "metadata" {
			m.fields[i].dec = meta.field
		}
	}
	for i, f := range layout.parts {
		of := m
		if f.meta {
			of = meta
		}
		for num := range of.fields {
			if at := &of.fields[num]; at.name == f.name && at.dec != nil {
				at.dec = layout.messagePart(i, bytesTag(num), at.dec, c.share)
			}
		}
	}
	return m, nil
}

// bytesTag returns the tag of field num with a value of wire type wireBytes, as an encoder writes
// it.
func bytesTag(num int) string { return fieldTag(num, wireBytes) }

func fieldTag(num, typ int) string {
	return string(binary.AppendUvarint(nil, uint64(num)<<3|uint64(typ)))
}

// field returns the decoder of field num, which is of type t.
func (c *wireCompiler) field(t reflect.Type, num int, format string, keep mask) (dec wireDecoder, err error) {
	// The bytes of the tag, as an encoder writes them: to look for further elements is a
	// comparison.
	tag := bytesTag(num)
	switch {
	case hasOwnUnmarshal(t):
		return c.value(t, format, keep)
	case t.Kind() == reflect.Map:
		dec, err = c.mapping(t, tag, keep)
	case t.Kind() == reflect.Slice && t.Elem().Kind() != reflect.Uint8:
		dec, err = c.repeated(t, tag, format, keep)
	default:
		return c.value(t, format, keep)
	}
	if c.share && err == nil {
		dec = sharedRun(t, tag, dec)
	}
	return dec, err
}

// hasOwnUnmarshal reports whether values of type t are decoded by their own Unmarshal. That of a
// struct with tags is generated from the tags, so the struct can be compiled instead.
func hasOwnUnmarshal(t reflect.Type) bool {
	if !reflect.PointerTo(t).Implements(wireUnmarshaler) || t.Kind() == reflect.Pointer {
		return false
	}
	return t.Kind() != reflect.Struct || !hasTags(t) && !borrowsUnmarshal(t)
}

// hasTags reports whether struct t has fields with protobuf tags.
func hasTags(t reflect.Type) bool {
	for i := range t.NumField() {
		if strings.Contains(t.Field(i).Tag.Get("protobuf"), ",") {
			return true
		}
	}
	return false
}

// wireSkipped decodes a value of which nothing is kept. It leaves the Go value as it is.
func wireSkipped(_ *Decoder, w *wire, typ int, _ pointer) error { return w.skip(typ) }

// value returns the decoder of one value of type t in the given format. The format is the first
// word of the tag.
func (c *wireCompiler) value(t reflect.Type, format string, keep mask) (wireDecoder, error) {
	switch {
	case keep.nothing() && t.Kind() != reflect.Pointer:
		return wireSkipped, nil
	case specialDecoder(t) != nil:
		// As in JSON, all of it is kept.
		keep = mask{}
	case hasOwnUnmarshal(t) && !keep.all():
		return nil, fmt.Errorf("%v decodes itself", t)
	}
	switch {
	case t == reflect.TypeFor[metav1.Time]():
		return func(_ *Decoder, w *wire, typ int, p pointer) error {
			b, err := w.message(typ)
			if err != nil {
				return err
			}
			// As in (*metav1.Time).Unmarshal, the result is in local time.
			if second, ok := seconds(b); ok {
				*as[metav1.Time](p) = metav1.Unix(second, 0)
				return nil
			}
			return as[metav1.Time](p).Unmarshal(b)
		}, nil
	case t == reflect.TypeFor[resource.Quantity]():
		return wireQuantity, nil
	case hasOwnUnmarshal(t):
		slices := slicesIn(t, 0)
		return func(d *Decoder, w *wire, typ int, p pointer) error {
			b, err := w.message(typ)
			if err != nil {
				return err
			}
			// Time and Quantity, which come most often, have a way of their own above.
			err = p.value(t).Addr().Interface().(protobufUnmarshaler).Unmarshal(b)
			fill(p, slices)
			return err
		}, nil
	}
	switch kind := t.Kind(); {
	case kind == reflect.Pointer:
		elem := t.Elem()
		dec, err := c.value(elem, format, keep)
		alloc := c.allocators.of(elem, c.share)
		var l lazyLeaf
		inner := func(d *Decoder, w *wire, typ int, p pointer) error {
			to := alloc.pointee(d, p)
			if d.rec != nil {
				return d.rec.wireValue(d, w, typ, &l, elem, dec, to)
			}
			return dec(d, w, typ, to)
		}
		if c.share && elem.Kind() == reflect.Struct {
			return sharedMessage(t, inner), err
		}
		return inner, err
	// Whatever the format is: the API's tags say varint of some IntOrStrings.
	case kind == reflect.Struct && keep.noFields():
		return wireSkipped, nil
	case kind == reflect.Struct:
		// The message may still be being compiled, if the type contains itself; its fields are
		// there when it is used.
		m, err := c.message(t, keep)
		if err != nil {
			return nil, err
		}
		// Nothing distinguishes its fields.
		if !hasTags(t) && t.NumField() > 0 {
			return nil, fmt.Errorf("%v has no protobuf tags", t)
		}
		// An embedded struct is a message, whose fields are those of the struct around it in JSON.
		if !keep.all() && !slices.ContainsFunc(m.fields, func(f wireField) bool { return f.dec != nil }) {
			return wireSkipped, nil
		}
		return m.field, nil
	case kind == reflect.String && format == "bytes":
		return new(stringField).decodeWire, nil
	case kind == reflect.Slice && t.Elem().Kind() == reflect.Uint8 && format == "bytes":
		return wireByteSlice, nil
	}
	return number(t, format)
}

// seconds returns the seconds in b if b is a metav1.Timestamp as servers write it: field 1 with the
// seconds since 1970, and field 2, the nanoseconds, left out or 0. Unmarshal decides on others.
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

// decodeWire decodes a string.
func (f *stringField) decodeWire(d *Decoder, w *wire, typ int, p pointer) error {
	b, err := w.message(typ)
	if err == nil {
		*as[string](p) = f.intern(d, b)
	}
	return err
}

// wireByteSlice decodes a slice of bytes into memory of its own: the input is overwritten. No bytes
// are an empty slice, as in generated code.
func wireByteSlice(d *Decoder, w *wire, typ int, p pointer) error {
	b, err := w.message(typ)
	if err == nil {
		*as[[]byte](p) = append(make([]byte, 0, len(b)), b...)
	}
	return err
}
