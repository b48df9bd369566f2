// Package decode turns the bytes of an API server's lists and watches into objects of one Go type.
// It reads JSON as apimachinery's serializer reads it, protobuf in the envelopes that servers use,
// and CBOR (RFC 8949) as the JSON that it stands for. A JSON event over TLS costs a 19th of what it
// costs with apimachinery's decoders, which are the oracle of the tests.
//
// A stream is read object by object. Memory holds the bytes of one object at a time, or of a few
// batches where several cores decode them. The end of an object is found before its content is
// interpreted, or independently of it. So an object that does not fit its type is reported, and the
// objects behind it are still found.
//
// A decoder is compiled from the Go type once, when it is first needed. The compiled form is a tree
// of functions: one for each struct, field, slice or map, each writing through an address instead
// of a reflect.Value. Its results are those of apimachinery's decoder. The one addition is that an
// error says where in the object the value is.
//
// The prefix of a file says what it deals with:
//
//	stream_  where one object of a stream ends and the next begins: lists, watches, several cores
//	json_    one JSON value: its syntax, and the decoders of each sort of Go type
//	proto_   one protobuf message: its fields, and the decoders of each sort of Go type
//	cbor_    one CBOR item: its end, and its JSON
//	reuse_   what one object leaves for the next: strings, shared values, memory, buffers, templates;
//	         and what the last version of an object leaves for the next one: its parts
//	unsafe   the only file that imports package unsafe
//
// The other files do not depend on the encoding: decode.go is the public face, root.go the object
// itself, kind.go the check that all objects are of one kind, mask.go the fields to leave out,
// path.go the position of an error in an object, one.go an object outside of a stream, pass.go the
// objects that nobody wants, status.go the errors of a server.
package decode

import (
	"errors"
	"io"
	"reflect"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	utiljson "k8s.io/apimachinery/pkg/util/json"
)

// MaxObject is the default for Options.Limit, in bytes. The API server's own limit for a request is
// a few megabytes.
const MaxObject = 64 << 20

// An Encoding is the form in which a server writes its objects.
type Encoding int

// JSON is what every server speaks. Protobuf is smaller and faster, but only built-in types have
// it. CBOR is for all types, and few servers have it (KEP-4222).
const (
	JSON Encoding = iota
	Protobuf
	CBOR
)

// Options tune a Decoder. The zero value decodes all fields and shares nothing.
type Options struct {
	// Drop has the paths of fields to leave out, such as "metadata.managedFields". The names are
	// those of JSON, in all encodings. A path goes through lists and into maps.
	Drop []string
	// Only has the paths of the fields to keep; nil: all. Other fields are left out, but for those
	// that identify an object. A path that ends in "?" keeps whether the field is there and how many
	// elements it has. In a map, one that ends in "*" keeps all keys that begin so.
	Only []string
	// OnlyJSON says that no protobuf will come. The protobuf tags of a type without an Unmarshal
	// are not looked at then.
	OnlyJSON bool
	// Share lets objects share the memory of equal parts. The objects must not be changed then.
	Share bool
	// Limit is the most bytes that one object, or one event, may have. In CBOR it is the limit of
	// its JSON as well. 0 means MaxObject.
	Limit int
	// Raw has each Object keep its bytes.
	Raw bool
	// Workers is how many goroutines decode a list or initial events beside the caller's goroutine,
	// from the first byte on. 0 means as many as a long list is worth on the cores that there are.
	// -1 means none.
	Workers int
	// Kinds checks the kinds of the objects. All decoders of one source have the same Kinds, so
	// that they compare what they read. With nil, this Decoder gets one that knows what the type
	// says.
	Kinds *Kinds
}

// An Object is an object of a list or a watch, or the reason why it could not be decoded.
type Object struct {
	// Value is of the type that the Decoder was made for. It is nil if Err is set.
	Value any
	// Ident has the API version and the kind, as far as the bytes say them. The rest is set only
	// with Err: then it names the object that has no Value.
	Ident Ident
	// Err says why the object does not fit its type. The stream goes on behind such an object.
	Err error
	// Passed is the version of an object that nobody wants: it has no Value and no Err, and of Ident
	// the API version and the kind at most. 0: it was decoded. See PassOver.
	Passed uint64
	// Raw is what Value was decoded from, for Again, with Options.Raw. RawEncoding says what it is. It
	// is valid until the next object is decoded: until yield returns.
	Raw         []byte
	RawEncoding Encoding
	// Filled says that the kind and the API version of an untyped Value are those that follow from its
	// list. Raw has none.
	Filled bool
}

// An Ident is what identifies an object.
type Ident struct {
	APIVersion, Kind string
	Namespace, Name  string
	UID              types.UID
	ResourceVersion  string
}

// An Event is an event of a watch. ERROR events are not among them: they end the watch as its
// error.
type Event struct {
	// Type is ADDED, MODIFIED, DELETED or BOOKMARK.
	Type string
	// Object is the changed object. A BOOKMARK has nothing in it but the API version and kind of
	// Ident.
	Object Object
	// ResourceVersion and InitialEventsEnd are set for a BOOKMARK. InitialEventsEnd says that all
	// objects that existed at the start of the watch have come:
	// https://kubernetes.io/docs/reference/using-api/api-concepts/#streaming-lists
	ResourceVersion  string
	InitialEventsEnd bool
	// More reports whether the buffer holds the next event already, so that the caller may wait
	// with its own work until that event. It is a hint, and always false among initial events.
	More bool
}

// A Decoder decodes objects of one type. It keeps what makes the next object cheaper: its buffers,
// the strings that it has seen, and guesses at what follows what. It is not safe for concurrent
// use.
type Decoder struct {
	root    root
	opts    Options
	buf     buffer
	p       parser
	strings stringPool
	boxed   boxedStrings
	maps    mapShare

	// objects counts the objects that have been begun. An allocator compares it with the number
	// that it remembers, to see that a new object has begun.
	objects uint64

	// lend returns the last version of an object, from which last takes what has not changed. With
	// nil, every object is decoded whole. listing says that the objects are those of a list or of
	// initial events.
	lend    func(namespace, name string) any
	last    lastVersion
	wanted  func(namespace, name string) bool // see PassOver
	listing bool
	// generateName is that of the last object; see isSibling.
	generateName string
	// spare is zero memory for the next object and its notes; no address: there is none.
	spare pointer

	quantities quantityPool
	wires      wireStack
	// depth is the number of messages around the protobuf field that is being decoded. grew says that
	// a slice of the object has been decoded into twice, and may have room for more.
	depth int
	grew  bool

	// expected checks the kinds of the stream that is being read; see Kinds.OfList. lastKind and
	// lastVersion are the last pair that it has accepted. Nearly every object has the same pair, so
	// that the check takes no lock.
	expected              *Kinds
	lastKind, lastVersion string

	// kind and apiVersion are those of the object that is being decoded; kinds makes their strings,
	// and eventTypes those of the events' types.
	kind, apiVersion string
	kinds            [2]stringField
	eventTypes       stringField

	// patternBytes is the memory of all skipPatterns, and spans working memory for them. ahead has
	// those of what readAhead passes: the part of the metadata that comes first, and the managed
	// fields.
	patternBytes int
	spans        []span
	ahead        [2]skipPattern

	// templates are those of the parts, nil while there are few objects; see templatesOf.
	// templateBytes is their memory, and changes and grown are working memory for them. rec is set
	// while one is made. rotated says that the input is an item of CBOR, of which a server writes the
	// members of a struct from another one on each time: templates would hardly ever fit.
	templates     *[maxParts]templates
	templateBytes int
	changes       []change
	grown         []int32
	rec           *recorder
	rotated       bool

	// Two stacks for elements and members that are collected before their number is known. A nested
	// value uses the places above those of the value around it.
	stringStack []string
	pairStack   []pair

	// batch is how many bytes of a list are given to a worker at a time. Tests make it smaller.
	batch int
	// workers are the decoders of the workerPool that decoded the last page of a list. The next
	// page uses them again, with all that they have learned.
	workers []*Decoder
}

// New returns a Decoder of objects of type typ, which must be a pointer type. It fails with a
// [PathError] if a path in opts names no field, and with another error if typ has protobuf
// tags and no Unmarshal, and not all of its fields have a tag that fits.
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

// List reads a list from r and yields its objects in turn, in the caller's goroutine. It returns
// the list's metadata. An error of yield ends the list and is returned. An object that does not fit
// its type is yielded with Err and ends nothing.
//
// If r blocks and has a Close, List may close it: that is how it ends a Read that nobody waits for.
func (d *Decoder) List(r io.Reader, enc Encoding, yield func(Object) error) (metav1.ListMeta, error) {
	kinds := d.opts.Kinds.OfList()
	meta, err := d.list(r, enc, kinds, yield)
	if err == nil {
		d.opts.Kinds.Take(kinds)
	}
	return meta, err
}

// NextPage is like List, for a page that continues a list: its objects are of the same kind.
func (d *Decoder) NextPage(r io.Reader, enc Encoding, yield func(Object) error) (metav1.ListMeta, error) {
	return d.list(r, enc, d.opts.Kinds, yield)
}

func (d *Decoder) list(r io.Reader, enc Encoding, kinds *Kinds, yield func(Object) error) (metav1.ListMeta, error) {
	d.beginStream(r, listBuffer, listBuffer)
	defer d.releaseStream()
	d.listing, d.expected = true, kinds
	pool := newWorkerPool(d)
	defer pool.stop()
	if enc == Protobuf {
		l := protobufList{d: d, pool: pool, yield: yield}
		err := l.read()
		pool.keepWorkers(&l.meta)
		return l.meta, err
	}
	l := jsonList{d: d, pool: pool, yield: yield}
	read := l.read
	if enc == CBOR {
		read = l.readCBOR
	}
	err := read()
	if err == errReadAlone {
		err = nil
	}
	pool.keepWorkers(&l.meta)
	return l.meta, err
}

// Watch reads events from r until r ends, and yields each in turn, in the caller's goroutine. It
// returns nil at the end of r, and the Status of an ERROR event as an error. An error of yield ends
// the watch and is returned.
func (d *Decoder) Watch(r io.Reader, enc Encoding, yield func(Event) error) error {
	d.beginStream(r, idleBuffer, watchBuffer)
	defer d.releaseStream()
	d.listing = false
	d.await()
	w := watchStream{d: d, yield: yield}
	return w.read(enc)
}

// WatchList is like Watch, for a stream that begins with all objects that exist and marks the end
// of those by a bookmark (KEP-3157). Until that bookmark it may use several cores, as List does.
//
// Its frame is on the stack as long as the watch lasts, so what begins it is in a function of its
// own.
func (d *Decoder) WatchList(r io.Reader, enc Encoding, yield func(Event) error) error {
	w := d.beginWatchList(r, yield)
	defer w.release()
	return w.read(enc)
}

// beginWatchList begins to read r.
//
//go:noinline
func (d *Decoder) beginWatchList(r io.Reader, yield func(Event) error) *watchStream {
	d.beginStream(r, listBuffer, listBuffer)
	d.listing, d.expected = true, d.opts.Kinds.OfList()
	return &watchStream{d: d, initial: true, pool: newWorkerPool(d), yield: yield}
}

// Status decodes data, the whole body of a response, as a metav1.Status. It reports whether data is
// one.
func Status(data []byte, enc Encoding) (*metav1.Status, bool) {
	var s metav1.Status
	if enc == Protobuf {
		var u envelope
		err := u.open(&Decoder{}, data)
		return &s, err == nil && u.kind == "Status" && s.Unmarshal(u.raw) == nil
	}
	if enc == CBOR {
		data = CBORToJSON(data)
	}
	return &s, unmarshal(data, &s) == nil && s.Kind == "Status"
}

// isFatal reports whether err ends the stream: the bytes are no JSON, so nobody knows where the
// next object begins, or the caller has stopped the decoding. Other errors are about one object.
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

// unmarshal decodes JSON by apimachinery. It is the fallback for rare types, and the reference for
// all: names are case-sensitive, and whole numbers in an any are int64.
func unmarshal(data []byte, v any) error { return utiljson.Unmarshal(data, v) }

// StopWhen makes the decoding end with the error that stopped returns, within less than a
// millisecond even in a large object. stopped is called now and then, by any goroutine that
// decodes, so it must be safe for concurrent use. It applies to all streams until the next call of
// StopWhen; nil means never.
func (d *Decoder) StopWhen(stopped func() error) { d.p.stop = stopped }
