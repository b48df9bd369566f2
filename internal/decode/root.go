package decode

import (
	"bytes"
	"errors"
	"fmt"
	"reflect"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
)

// A root is the compiled form of the type of the objects. Each encoding is compiled when it is
// first used, since most decoders see only one.
type root struct {
	// typ is the type of the objects, a pointer to elem.
	typ  reflect.Type
	elem reflect.Type
	// json decodes the objects' JSON. unsharedJSON is the same without sharing, for the rare object
	// in which a value comes twice (see errMerge); it is nil until one comes.
	json         decoder
	unsharedJSON decoder
	// ident decodes only an identity. It names an object that json could not decode. It is nil until
	// there is one.
	ident decoder
	// untyped objects are runtime.Unstructured: maps without a Go struct.
	untyped bool
	// unmarshal says that the type has the Unmarshal method of a protobuf message. projection says
	// that it has none, and is read from protobuf by its tags.
	unmarshal, projection bool
	// message decodes the objects' protobuf. It is nil until messageCompiled, and stays nil for a
	// type without protobuf tags: then the type's own Unmarshal is called. unsharedMessage is to
	// message what unsharedJSON is to json.
	messageCompiled bool
	message         *messageType
	unsharedMessage *messageType
	// keep is what the objects keep of what comes.
	keep  mask
	share bool
	// layout says which parts are taken from the last version of an object; nil: none.
	layout *partLayout
}

// An identity has the fields that every object has and that identify it.
type identity struct {
	Metadata struct {
		Namespace       string    `json:"namespace"`
		Name            string    `json:"name"`
		UID             types.UID `json:"uid"`
		ResourceVersion string    `json:"resourceVersion"`
	} `json:"metadata"`
}

// protobufUnmarshaler is implemented by the API types that have a protobuf encoding.
type protobufUnmarshaler interface{ Unmarshal(data []byte) error }

var wireUnmarshaler = reflect.TypeFor[protobufUnmarshaler]()

// compile sets what is known from the type alone. It compiles the messages of a projection, whose
// tags may be wrong, and all messages if something is left out, since that decides whether there
// may be protobuf. It leaves the rest to the first object.
func (r *root) compile(typ reflect.Type, opts Options) (err error) {
	if typ.Kind() != reflect.Pointer {
		return fmt.Errorf("cannot decode into %v: want a pointer", typ)
	}
	r.typ, r.elem, r.share = typ, typ.Elem(), opts.Share
	// An Unstructured has UnmarshalJSON too, but it is faster to build its map here, and that can
	// leave out fields.
	r.untyped = typ.Implements(reflect.TypeFor[runtime.Unstructured]())
	if r.keep, err = newMask(r.elem, r.untyped, opts); err != nil {
		return err
	}
	r.unmarshal = typ.Implements(wireUnmarshaler) && !borrowsUnmarshal(r.elem)
	r.projection = !r.unmarshal && !r.untyped && !opts.OnlyJSON && r.elem.Kind() == reflect.Struct && isProjection(typ)
	switch {
	case r.untyped:
		r.layout = newUntypedLayout(r.elem)
	case r.elem.Kind() == reflect.Struct && specialDecoder(r.elem) == nil:
		r.layout = newPartLayout(r.elem, r.keep, r.projection)
	}
	if r.projection {
		if err := r.compileMessage(); err != nil {
			return fmt.Errorf("cannot decode protobuf into %v: %w", typ, err)
		}
	}
	if !r.keep.all() && !r.projection {
		// What has an Unmarshal needs no tags.
		_ = r.compileMessage()
	}
	return nil
}

// decoder returns the decoder of the objects' JSON, which takes the parts of layout from the last
// version unless layout is nil. The decoder of a struct also sees the kind and
// the API version. A type that has its own UnmarshalJSON, or that is no struct, is decoded without
// them.
func (r *root) decoder(share bool, layout *partLayout) decoder {
	c := newCompiler(share)
	switch {
	case r.untyped:
		return decodeUnstructured
	case r.elem.Kind() == reflect.Struct && specialDecoder(r.elem) == nil:
		return c.root(r.elem, r.keep, layout)
	}
	return c.compile(r.elem, r.keep)
}

// compileMessage compiles the protobuf tags of the type, if it has such tags. Any other type is
// decoded by its own Unmarshal, so an error matters for a projection alone.
func (r *root) compileMessage() error {
	r.messageCompiled = true
	if !r.projection && (!r.unmarshal || r.elem.Kind() != reflect.Struct || hasOwnUnmarshal(r.elem)) {
		return nil
	}
	if r.projection && specialDecoder(r.elem) != nil {
		return errors.New("it decodes itself from JSON, and not from protobuf")
	}
	m, err := newWireCompiler(r.share, r.projection).root(r.elem, r.keep, r.layout)
	if err == nil {
		r.message = m
	}
	return err
}

// redecode decodes an object a second time into new memory, by a decoder that shares nothing. The
// first attempt has ended with errMerge.
func (d *Decoder) redecode(decode func(pointer) error) (reflect.Value, error) {
	d.objects++
	v := d.newObject()
	return v, decode(pointerOf(v))
}

// redecodeJSON is redecode for the JSON object that begins at start, in values nested depth deep.
func (d *Decoder) redecodeJSON(start, depth int) (v reflect.Value, err error) {
	if d.root.unsharedJSON == nil {
		d.root.unsharedJSON = d.root.decoder(false, nil)
	}
	d.p.pos, d.p.depth = start, depth
	d.kind, d.apiVersion = "", ""
	return d.redecode(func(p pointer) error { return d.root.unsharedJSON(d, p) })
}

// redecodeMessage is redecode for the protobuf message in data.
func (d *Decoder) redecodeMessage(data []byte) (v reflect.Value, err error) {
	if d.root.unsharedMessage == nil {
		if d.root.unsharedMessage, err = newWireCompiler(false, d.root.projection).message(d.root.elem, d.root.keep); err != nil {
			return v, err
		}
	}
	return d.redecode(func(p pointer) error { return d.root.unsharedMessage.decode(d, data, p) })
}

// root returns the decoder of struct t that also sets the Decoder's kind and apiVersion.
//
// The metav1.TypeMeta of the objects stays empty. Servers leave kind and API version out of the
// items of a list, and write them into the objects of a watch. If they were kept, equal objects
// would differ by the way on which they came.
func (c *compiler) root(t reflect.Type, keep mask, layout *partLayout) decoder {
	s := c.structType(t, keep)
	if layout != nil {
		c.parts(s, keep, layout)
	}
	// typeMeta says for each field whether it comes from an embedded TypeMeta.
	typeMeta := map[string]bool{}
	for _, f := range fieldsOf(t) {
		n := len(f.index) - 1
		typeMeta[f.name] = n > 0 && t.FieldByIndex(f.index[:n]).Type == reflect.TypeFor[metav1.TypeMeta]()
	}
	s.intercept("kind", typeMeta["kind"], func(d *Decoder) (err error) { d.kind, err = d.readString(&d.kinds[0]); return err })
	s.intercept("apiVersion", typeMeta["apiVersion"], func(d *Decoder) (err error) { d.apiVersion, err = d.readString(&d.kinds[1]); return err })
	return func(d *Decoder, p pointer) error {
		if d.p.next() != '{' {
			return d.wrongType("an object")
		}
		return s.decode(d, p)
	}
}

// parts makes s, the decoder of a whole object, take the parts of layout from the last version. The
// metadata gets a decoder of its own, since an object may have further ObjectMetas within its
// parts.
func (c *compiler) parts(s *structType, keep mask, layout *partLayout) {
	rest, skip := keep.under("metadata")
	if skip {
		return
	}
	meta := c.structType(reflect.TypeFor[metav1.ObjectMeta](), rest)
	s.members[s.byName["metadata"]].dec = meta.decode
	for i, f := range layout.parts {
		of := s
		if f.meta {
			of = meta
		}
		// A part that is left out has no decoder.
		if m := &of.members[of.byName[f.name]]; m.dec != nil {
			m.dec = layout.jsonPart(i, m.dec, c.share)
		}
	}
}

// intercept calls set with the parser before the value of member name. The field of that name, if
// there is one, then decodes the same bytes again, unless instead is true: then it keeps its zero
// value.
func (s *structType) intercept(name string, instead bool, set func(*Decoder) error) {
	i, ok := s.byName[name]
	if !ok {
		i = len(s.members)
		s.members = append(s.members, member{name: name})
		s.buildIndex()
	}
	m := &s.members[i]
	// The shortcut for strings would not call dec.
	m.strField = nil
	field := m.dec
	if instead || field == nil {
		m.steps, m.offset, field = nil, 0, nil
	}
	m.dec = func(d *Decoder, p pointer) error {
		d.p.next()
		start := d.p.pos
		if err := set(d); err != nil || field == nil {
			return err
		}
		d.p.pos = start
		return field(d, p)
	}
}

// readString consumes a string, made by f. A null is "".
func (d *Decoder) readString(f *stringField) (string, error) {
	if d.p.next() != '"' {
		if null, err := d.p.null(); null {
			return "", err
		}
		return "", d.wrongType("a string")
	}
	return f.read(d)
}

// decodeObject decodes the JSON object that is next. If it does not fit its type, the Object has an
// Err and what identifies it, and the parser stands behind the object. The error result is for
// bytes that are no JSON, or for a decoding that was stopped: then the parser stands anywhere.
func (d *Decoder) decodeObject() (Object, error) {
	d.p.next()
	if d.wanted != nil {
		if o, err := d.passJSON(); err != nil || o.Passed != 0 {
			return o, err
		}
	}
	start, depth := d.p.pos, d.p.depth
	d.kind, d.apiVersion = "", ""
	d.objects++
	if d.root.json == nil {
		d.root.json = d.root.decoder(d.root.share, d.root.layout)
	}
	defer d.releaseScratch()
	// The only allocation that each object needs. A partly decoded object is dropped with it.
	v := d.newObject()
	err := d.root.json(d, pointerOf(v))
	// A value that others share would have been merged into. Nothing has been written to it yet.
	if err == errMerge {
		v, err = d.redecodeJSON(start, depth)
	}
	if err == nil {
		o := Object{Value: d.result(v), Ident: Ident{APIVersion: d.apiVersion, Kind: d.kind}}
		return d.withRaw(o, d.p.data[start:d.p.pos], JSON), nil
	}
	if isFatal(err) {
		return Object{}, err
	}
	// The value does not fit. Go over all of it: the bytes behind the error may be no JSON at all,
	// which is the worse error of the two.
	d.p.pos, d.p.depth = start, depth
	if err := d.p.skip(); err != nil {
		return Object{}, err
	}
	end := d.p.pos
	// Then decode it once more, as an identity.
	d.p.pos = start
	id := d.identify()
	d.p.pos, d.p.depth = end, depth
	return Object{Ident: id, Err: err}, nil
}

// identify decodes the JSON object that is next as an identity. It leaves the parser anywhere.
func (d *Decoder) identify() Ident {
	id := identity{}
	d.kind, d.apiVersion = "", ""
	if d.root.ident == nil {
		d.root.ident = newCompiler(false).root(reflect.TypeFor[identity](), mask{}, nil)
	}
	// An error here only says that the identity does not fit either. Its fields stay empty.
	_ = d.root.ident(d, pointerTo(&id))
	m := id.Metadata
	return Ident{d.apiVersion, d.kind, m.Namespace, m.Name, m.UID, m.ResourceVersion}
}

var errNoKind = errors.New("the object has no kind")

// decodeUnstructured decodes an object that is a runtime.Unstructured: a map with all of its
// members.
func decodeUnstructured(d *Decoder, p pointer) error {
	if d.p.next() != '{' {
		return d.wrongType("an object")
	}
	content, err := d.decodeContent()
	if err != nil {
		return err
	}
	p.value(d.root.elem).Addr().Interface().(runtime.Unstructured).SetUnstructuredContent(content)
	d.kind, _ = content["kind"].(string)
	d.apiVersion, _ = content["apiVersion"].(string)
	return nil
}

// complete gives an unstructured item of a list its kind and API version. Servers may leave out
// both in an item; then they follow from those of the list: a PodList has items of kind Pod. An
// item that has one of the two is left alone, and so is one of a list that says no kind. An
// unstructured object without a kind is an error, as it is for apimachinery's decoder.
func (r *root) complete(o *Object, kind, apiVersion string) {
	if !r.untyped || o.Value == nil {
		return
	}
	content := o.Value.(runtime.Unstructured).UnstructuredContent()
	if o.Ident.Kind == "" && o.Ident.APIVersion == "" && kind != "" {
		o.Ident.Kind, o.Ident.APIVersion = kind, apiVersion
		content["kind"], content["apiVersion"] = o.Ident.Kind, o.Ident.APIVersion
		o.Filled = true
	}
	if o.Ident.Kind == "" {
		var m struct{ Namespace, Name, UID, ResourceVersion string }
		if meta, ok := content["metadata"].(map[string]any); ok {
			m.Namespace, _ = meta["namespace"].(string)
			m.Name, _ = meta["name"].(string)
			m.UID, _ = meta["uid"].(string)
			m.ResourceVersion, _ = meta["resourceVersion"].(string)
		}
		// The identity for the error, as far as the members are strings.
		id := Ident{o.Ident.APIVersion, "", m.Namespace, m.Name, types.UID(m.UID), m.ResourceVersion}
		*o = Object{Ident: id, Err: errNoKind}
	}
}

// Protobuf reports whether the objects can be decoded from protobuf: the type has an Unmarshal, or
// is a projection. A compiled message can leave out fields; a type's own Unmarshal cannot.
func (d *Decoder) Protobuf() bool {
	return d.root.message != nil || d.root.unmarshal && d.root.keep.all()
}

// decodeMessage decodes the object whose protobuf message is data. If it does not fit its type, the
// Object has an Err and what identifies it. The error result is for a decoding that was stopped.
// Bytes that are no protobuf are the object's Err as well: the length of a message is written
// before it, so the next object is found in any case.
func (d *Decoder) decodeMessage(data []byte) (Object, error) {
	if d.wanted != nil {
		if at := d.passMessage(data); at != 0 {
			return Object{Passed: at}, nil
		}
	}
	d.objects++
	if !d.root.messageCompiled {
		_ = d.root.compileMessage() // of a projection it was called by New
	}
	defer d.releaseScratch()
	v := d.newObject()
	var err error
	if d.root.message != nil {
		err = d.root.message.decode(d, data, pointerOf(v))
		if err == errMerge {
			v, err = d.redecodeMessage(data)
		}
	} else {
		if err = v.Interface().(protobufUnmarshaler).Unmarshal(data); err != nil {
			err = shorten(err)
		}
	}
	if isFatal(err) {
		return Object{}, err
	}
	if err != nil {
		return Object{Ident: d.messageIdent(data), Err: err}, nil
	}
	return d.withRaw(Object{Value: d.result(v)}, data, Protobuf), nil
}

// withRaw returns o with its bytes, if somebody wants them. Those of CBOR are the JSON that it was
// turned into, in memory that is used again before the object is yielded.
func (d *Decoder) withRaw(o Object, raw []byte, enc Encoding) Object {
	if !d.opts.Raw {
		return o
	}
	if d.rotated {
		raw = bytes.Clone(raw)
	}
	o.Raw, o.RawEncoding = raw, enc
	return o
}
