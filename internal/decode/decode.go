// Package decode turns the bytes of an API server's lists and watches into objects: JSON as apimachinery's serializer reads it,
// and protobuf in the server's envelopes.
//
// A stream is read object by object, so memory holds one at a time, and each object's bytes are looked at twice: once to find
// where it ends, so that one object that does not fit its type never hides the next, and once to decode it.
package decode

import (
	"errors"
	"fmt"
	"io"
	"reflect"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	utiljson "k8s.io/apimachinery/pkg/util/json"
)

// MaxObject is the default for Options.Limit.
const MaxObject = 64 << 20

// An Encoding is a form of bytes.
type Encoding int

// JSON is what every server speaks, Protobuf is smaller.
const (
	JSON Encoding = iota
	Protobuf
)

// Options tune a Decoder.
type Options struct {
	Drop  []string // paths of fields to leave out, such as "metadata.managedFields"
	Share bool     // let objects share equal parts
	Limit int      // the most bytes of one object; 0: MaxObject
}

// An Object is an object of a list or a watch.
type Object struct {
	Value any // of the type that the Decoder was made for; nil where Err is set
	// Ident has the kind as far as the bytes tell it, and the rest where Err is set.
	Ident Ident
	Err   error
}

// Ident is what identifies an object.
type Ident struct {
	APIVersion, Kind string
	Namespace, Name  string
	UID              types.UID
	ResourceVersion  string
}

// An Event is an event of a watch but for ERROR.
type Event struct {
	Type   string // ADDED, MODIFIED, DELETED or BOOKMARK
	Object Object // zero for a BOOKMARK
	// ResourceVersion and InitialEventsEnd are a BOOKMARK's.
	ResourceVersion  string
	InitialEventsEnd bool
}

// A Decoder decodes objects of one type. It keeps what helps it with the next object, strings above all, and is not safe for
// concurrent use.
type Decoder struct {
	typ   reflect.Type // of the objects; a pointer
	limit int
	buf   buffer
	p     parser
}

// New returns a Decoder of objects of type typ, which is a pointer.
func New(typ reflect.Type, opts Options) (*Decoder, error) {
	if typ.Kind() != reflect.Pointer {
		return nil, fmt.Errorf("cannot decode into %v: want a pointer", typ)
	}
	if opts.Limit <= 0 {
		opts.Limit = MaxObject
	}
	return &Decoder{typ: typ, limit: opts.Limit}, nil
}

// List reads a list from r and yields its objects in turn. An error of yield ends it and is returned.
func (d *Decoder) List(r io.Reader, enc Encoding, yield func(Object) error) (metav1.ListMeta, error) {
	d.buf.reset(r, d.limit)
	defer d.buf.reset(nil, 0)
	if enc == Protobuf {
		l := protobufList{d: d, yield: yield}
		err := l.read()
		return l.meta, err
	}
	l := jsonList{d: d, yield: yield}
	err := l.read()
	return l.meta, err
}

// Watch reads events from r until its end and yields each in turn. An ERROR event is returned as the error that it holds.
// An error of yield ends it and is returned.
func (d *Decoder) Watch(r io.Reader, enc Encoding, yield func(Event) error) error {
	d.buf.reset(r, d.limit)
	defer d.buf.reset(nil, 0)
	w := watchStream{d: d, yield: yield}
	if enc == Protobuf {
		return w.readProtobuf()
	}
	return w.readJSON()
}

// Status returns the Status that data holds whole, if it holds one.
func Status(data []byte, enc Encoding) (*metav1.Status, bool) {
	var s metav1.Status
	if enc == Protobuf {
		var u unknown
		err := u.open(&Decoder{}, data)
		return &s, err == nil && u.kind == "Status" && s.Unmarshal(u.raw) == nil
	}
	return &s, unmarshal(data, &s) == nil && s.Kind == "Status"
}

// isSyntax reports whether err says that the bytes are no JSON, rather than that they do not fit a type.
func isSyntax(err error) bool {
	_, ok := errors.AsType[*SyntaxError](err)
	return ok
}

// unmarshal is apimachinery's decoder.
func unmarshal(data []byte, v any) error { return utiljson.Unmarshal(data, v) }

func (d *Decoder) intern(b []byte) string { return string(b) }

// object decodes the object of which raw is the JSON. What does not fit its type is an Err; the error is for what is no JSON.
func (d *Decoder) object(raw []byte, base int64) (Object, error) {
	d.p.reset(raw, base)
	if err := d.p.whole(); err != nil {
		return Object{}, err
	}
	v := reflect.New(d.typ.Elem()).Interface()
	ident, err := d.ident(raw)
	if err == nil {
		err = unmarshal(raw, v)
	}
	if err != nil {
		return Object{Ident: ident, Err: err}, nil
	}
	if o, ok := v.(runtime.Object); ok {
		if _, ok := v.(runtime.Unstructured); !ok {
			o.GetObjectKind().SetGroupVersionKind(schema.GroupVersionKind{})
		}
	}
	return Object{Value: v, Ident: Ident{APIVersion: ident.APIVersion, Kind: ident.Kind}}, nil
}

// ident returns what identifies the object in raw.
func (d *Decoder) ident(raw []byte) (Ident, error) {
	if len(raw) == 0 || raw[0] != '{' {
		return Ident{}, fmt.Errorf("no object but %.20q", raw)
	}
	var o struct {
		metav1.TypeMeta `json:",inline"`
		Metadata        struct {
			Namespace       string    `json:"namespace"`
			Name            string    `json:"name"`
			UID             types.UID `json:"uid"`
			ResourceVersion string    `json:"resourceVersion"`
		} `json:"metadata"`
	}
	// What does not fit is left empty; the decoding of the object itself tells of it.
	_ = unmarshal(raw, &o)
	m := o.Metadata
	return Ident{o.APIVersion, o.Kind, m.Namespace, m.Name, m.UID, m.ResourceVersion}, nil
}

// Protobuf reports whether the objects can be decoded from protobuf.
func (d *Decoder) Protobuf() bool { return d.typ.Implements(unmarshalerType) }

type protobufUnmarshaler interface{ Unmarshal(data []byte) error }

var unmarshalerType = reflect.TypeFor[protobufUnmarshaler]()

// message decodes the object of which data is the protobuf message.
func (d *Decoder) message(data []byte) Object {
	v := reflect.New(d.typ.Elem()).Interface()
	if err := v.(protobufUnmarshaler).Unmarshal(data); err != nil {
		return Object{Ident: messageIdent(data), Err: err}
	}
	return Object{Value: v}
}
