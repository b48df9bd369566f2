package decode

import (
	"errors"
	"fmt"
	"reflect"
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
)

// A root is the compiled form of the type of the objects. Each encoding is compiled when it is first used, since most decoders see
// only one.
type root struct {
	typ             reflect.Type // a pointer
	elem            reflect.Type
	json            decoder
	unsharedJSON    decoder // json without sharing, for what cannot be shared; nil until it is needed
	ident           decoder // of an identity, for what the type's own decoder refuses
	untyped         bool    // the objects are runtime.Unstructured
	unmarshal       bool    // the objects have the Unmarshal of a protobuf message
	messageCompiled bool
	message         *messageType // of the objects, where they have both that and its tags; nil until wired
	unsharedMessage *messageType // message without sharing; nil until it is needed
	drop            drops
	share           bool
}

// An identity is what every object has.
type identity struct {
	Metadata struct {
		Namespace       string    `json:"namespace"`
		Name            string    `json:"name"`
		UID             types.UID `json:"uid"`
		ResourceVersion string    `json:"resourceVersion"`
	} `json:"metadata"`
}

type protobufUnmarshaler interface{ Unmarshal(data []byte) error }

var wireUnmarshaler = reflect.TypeFor[protobufUnmarshaler]()

func (r *root) compile(typ reflect.Type, opts Options) (err error) {
	if typ.Kind() != reflect.Pointer {
		return fmt.Errorf("cannot decode into %v: want a pointer", typ)
	}
	r.typ, r.elem, r.drop, r.share = typ, typ.Elem(), opts.Drop, opts.Share
	r.untyped = typ.Implements(reflect.TypeFor[runtime.Unstructured]())
	r.unmarshal = typ.Implements(wireUnmarshaler)
	if len(r.drop) == 0 {
		return nil // nothing else can be refused
	}
	r.compileMessage()
	return r.compileJSON()
}

func (r *root) compileJSON() (err error) {
	if r.ident, err = newCompiler(false).root(reflect.TypeFor[identity](), nil); err != nil {
		return err
	}
	r.json, err = r.decoder(r.share)
	return err
}

// decoder returns the decoder of the objects' JSON.
func (r *root) decoder(share bool) (decoder, error) {
	c := newCompiler(share)
	switch {
	case r.untyped:
		return decodeUnstructured, nil
	case r.elem.Kind() == reflect.Struct && specialDecoder(r.elem) == nil:
		return c.root(r.elem, r.drop)
	}
	return c.compile(r.elem, r.drop)
}

// compileWire makes the message of a type that has something to go by. Others are left to their own Unmarshal.
func (r *root) compileMessage() {
	r.messageCompiled = true
	if !r.unmarshal || r.elem.Kind() != reflect.Struct || hasOwnUnmarshal(r.elem) {
		return
	}
	if m, err := newWireCompiler(r.share).message(r.elem, r.drop); err == nil {
		r.message = m
	}
}

// again decodes an object of which a value comes twice, sharing nothing, by decode, which gets its place.
func (d *Decoder) redecode(decode func(pointer) error) (reflect.Value, error) {
	d.objects++
	v := reflect.New(d.root.elem)
	return v, decode(pointerOf(v))
}

// jsonAgain decodes the object that begins at start.
func (d *Decoder) redecodeJSON(start, depth int) (v reflect.Value, err error) {
	if d.root.unsharedJSON == nil {
		if d.root.unsharedJSON, err = d.root.decoder(false); err != nil {
			return v, err
		}
	}
	d.p.pos, d.p.depth = start, depth
	d.kind, d.apiVersion = "", ""
	return d.redecode(func(p pointer) error { return d.root.unsharedJSON(d, p) })
}

// messageAgain decodes the object of which data is the message.
func (d *Decoder) redecodeMessage(data []byte) (v reflect.Value, err error) {
	if d.root.unsharedMessage == nil {
		if d.root.unsharedMessage, err = newWireCompiler(false).message(d.root.elem, d.root.drop); err != nil {
			return v, err
		}
	}
	return d.redecode(func(p pointer) error { return d.root.unsharedMessage.decode(d, data, p) })
}

// root returns the decoder of struct t which also tells the Decoder the kind and the API version. A TypeMeta stays empty: what
// servers leave out of the items of a list would otherwise be in some objects and not in others.
func (c *compiler) root(t reflect.Type, drop drops) (decoder, error) {
	s, err := c.structType(t, drop)
	if err != nil {
		return nil, err
	}
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
	}, nil
}

// keep lets set read the member name before the field of that name does, or instead of it.
func (s *structType) intercept(name string, instead bool, set func(*Decoder) error) {
	i, ok := s.byName[name]
	if !ok {
		i = len(s.members)
		s.members = append(s.members, member{name: name})
		s.buildIndex()
	}
	m := &s.members[i]
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

// word consumes a string; a null is "".
func (d *Decoder) readString(f *stringField) (string, error) {
	if d.p.next() != '"' {
		if null, err := d.p.null(); null {
			return "", err
		}
		return "", d.wrongType("a string")
	}
	return f.read(d)
}

// object decodes the object that is next. What does not fit its type is an Err; the error is for what is no JSON.
func (d *Decoder) decodeObject() (Object, error) {
	d.p.next()
	start, depth := d.p.pos, d.p.depth
	d.kind, d.apiVersion = "", ""
	d.objects++
	if d.root.json == nil {
		if err := d.root.compileJSON(); err != nil {
			return Object{}, err
		}
	}
	defer d.releaseScratch()
	v := reflect.New(d.root.elem)
	err := d.root.json(d, pointerOf(v))
	if err == errMerge {
		v, err = d.redecodeJSON(start, depth)
	}
	if err == nil {
		return Object{Value: v.Interface(), Ident: Ident{APIVersion: d.apiVersion, Kind: d.kind}}, nil
	}
	if isFatal(err) {
		return Object{}, err
	}
	d.p.pos, d.p.depth = start, depth
	if err := d.p.skip(); err != nil {
		return Object{}, err
	}
	end := d.p.pos
	id := identity{}
	d.kind, d.apiVersion = "", ""
	d.p.pos = start
	// What does not fit an identity either is left empty.
	_ = d.root.ident(d, pointerTo(&id))
	d.p.pos, d.p.depth = end, depth
	m := id.Metadata
	return Object{Ident: Ident{d.apiVersion, d.kind, m.Namespace, m.Name, m.UID, m.ResourceVersion}, Err: err}, nil
}

var errNoKind = errors.New("the object has no kind")

// decodeUnstructured decodes an object that is a runtime.Unstructured.
func decodeUnstructured(d *Decoder, p pointer) error {
	if d.p.next() != '{' {
		return d.wrongType("an object")
	}
	content, err := d.decodeAnyMap(d.root.drop)
	if err != nil {
		return err
	}
	p.value(d.root.elem).Addr().Interface().(runtime.Unstructured).SetUnstructuredContent(content)
	d.kind, _ = content["kind"].(string)
	d.apiVersion, _ = content["apiVersion"].(string)
	return nil
}

// complete gives an unstructured item of a list, if it has neither, the kind and API version that the list tells.
func (r *root) complete(o *Object, listKind, listVersion string) {
	if !r.untyped || o.Err != nil {
		return
	}
	content := o.Value.(runtime.Unstructured).UnstructuredContent()
	if o.Ident.Kind == "" && o.Ident.APIVersion == "" && listKind != "" {
		o.Ident.Kind, o.Ident.APIVersion = strings.TrimSuffix(listKind, "List"), listVersion
		content["kind"], content["apiVersion"] = o.Ident.Kind, o.Ident.APIVersion
	}
	if o.Ident.Kind == "" {
		var m struct{ Namespace, Name, UID, ResourceVersion string }
		if meta, ok := content["metadata"].(map[string]any); ok {
			m.Namespace, _ = meta["namespace"].(string)
			m.Name, _ = meta["name"].(string)
			m.UID, _ = meta["uid"].(string)
			m.ResourceVersion, _ = meta["resourceVersion"].(string)
		}
		id := Ident{o.Ident.APIVersion, "", m.Namespace, m.Name, types.UID(m.UID), m.ResourceVersion}
		*o = Object{Ident: id, Err: errNoKind}
	}
}

// Protobuf reports whether the objects can be decoded from protobuf.
func (d *Decoder) Protobuf() bool {
	return d.root.message != nil || d.root.unmarshal && len(d.root.drop) == 0 // which needs no message
}

// message decodes the object of which data is the protobuf message. What does not fit its type is an Err; the error is an abort.
func (d *Decoder) decodeMessage(data []byte) (Object, error) {
	d.objects++
	if !d.root.messageCompiled {
		d.root.compileMessage()
	}
	defer d.releaseScratch()
	v := reflect.New(d.root.elem)
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
	return Object{Value: v.Interface()}, nil
}
