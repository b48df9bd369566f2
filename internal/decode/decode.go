// Package decode turns the bytes of an API server's lists and watches into objects: JSON as apimachinery's serializer reads it,
// and protobuf in the server's envelopes.
//
// A stream is read object by object, so memory holds one at a time, or a few batches where several cores decode them. Where one
// ends is found before or apart from what it is, so one that does not fit its type never hides the next. A decoder is compiled
// from the type once; what it makes of the bytes is what apimachinery makes of them, except that it tells where in the object
// they do not fit.
package decode

import (
	"errors"
	"io"
	"reflect"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
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
	// Workers is how many goroutines decode a list beside its caller's, from the first byte; 0: as many as a long list is worth
	// on the cores that there are; -1: none.
	Workers int
	// Kinds is what the kinds of the objects must be, for all decoders of a source; nil: what the type tells, for this one.
	Kinds *Kinds
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
	Object Object // for a BOOKMARK, no more than the kind in its Ident
	// ResourceVersion and InitialEventsEnd are a BOOKMARK's.
	ResourceVersion  string
	InitialEventsEnd bool
	// More is whether the next event has been read already, as far as that is known. It never is of initial events.
	More bool
}

// A Decoder decodes objects of one type. It keeps what helps it with the next object, strings above all, and is not safe for
// concurrent use.
type Decoder struct {
	root    root
	opts    Options
	buf     buffer
	p       parser
	strings stringPool
	boxed   boxedStrings

	objects uint64 // how many have been begun

	quantities quantityPool
	wires      wireStack
	depth      int // how many messages are around the one that is being decoded

	lastKind, lastVersion string // that Kinds has let pass

	kind, apiVersion string         // of the object that is being decoded
	kinds            [2]stringField // that make them
	eventTypes       stringField    // that makes those of events

	// Stacks of what is decoded before it is known how much it is.
	stringStack []string
	pairStack   []pair

	batch   int        // so many bytes of a list are decoded by one goroutine at a time
	workers []*Decoder // of the crew that decoded the last page of a list
}

// New returns a Decoder of objects of type typ, which is a pointer.
func New(typ reflect.Type, opts Options) (*Decoder, error) {
	if opts.Limit <= 0 {
		opts.Limit = MaxObject
	}
	if opts.Kinds == nil {
		opts.Kinds = NewKinds(typ, "")
	}
	d := &Decoder{opts: opts, batch: batchBytes}
	if err := d.root.compile(typ, opts); err != nil {
		return nil, err
	}
	return d, nil
}

// List reads a list from r and yields its objects in turn. An error of yield ends it and is returned.
func (d *Decoder) List(r io.Reader, enc Encoding, yield func(Object) error) (metav1.ListMeta, error) {
	d.buf.reset(r, d.opts.Limit, listBuffer)
	defer d.releaseStream()
	pool := newWorkerPool(d)
	defer pool.stop()
	if enc == Protobuf {
		l := protobufList{d: d, pool: pool, yield: yield}
		err := l.read()
		pool.keepWorkers(&l.meta)
		return l.meta, err
	}
	l := jsonList{d: d, pool: pool, yield: yield}
	err := l.read()
	if err == errReadAlone {
		err = nil
	}
	pool.keepWorkers(&l.meta)
	return l.meta, err
}

// Watch reads events from r until its end and yields each in turn. An ERROR event is returned as the error that it holds.
// An error of yield ends it and is returned.
func (d *Decoder) Watch(r io.Reader, enc Encoding, yield func(Event) error) error {
	d.buf.reset(r, d.opts.Limit, minBuffer)
	defer d.releaseStream()
	w := watchStream{d: d, yield: yield}
	return w.read(enc)
}

// WatchList is Watch for a stream that begins with all objects that there are, until a bookmark that ends them.
func (d *Decoder) WatchList(r io.Reader, enc Encoding, yield func(Event) error) error {
	d.buf.reset(r, d.opts.Limit, listBuffer)
	defer d.releaseStream()
	w := watchStream{d: d, initial: true, pool: newWorkerPool(d), yield: yield}
	defer func() { w.pool.stop() }()
	return w.read(enc)
}

// Status returns the Status that data holds whole, if it holds one.
func Status(data []byte, enc Encoding) (*metav1.Status, bool) {
	var s metav1.Status
	if enc == Protobuf {
		var u envelope
		err := u.open(&Decoder{}, data)
		return &s, err == nil && u.kind == "Status" && s.Unmarshal(u.raw) == nil
	}
	return &s, unmarshal(data, &s) == nil && s.Kind == "Status"
}

// isFatal reports whether err says that the bytes are no JSON or are not to be decoded, rather than that they do not fit a type.
func isFatal(err error) bool {
	switch err.(type) {
	case nil:
		return false
	case *SyntaxError, abort:
		return true
	}
	_, ok := errors.AsType[*SyntaxError](err)
	return ok
}

// unmarshal is apimachinery's decoder.
func unmarshal(data []byte, v any) error { return utiljson.Unmarshal(data, v) }
