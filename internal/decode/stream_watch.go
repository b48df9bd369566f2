package decode

import (
	"bytes"
	"errors"
	"fmt"
	"io"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// A watchStream is a watch while it is read.
type watchStream struct {
	d                *Decoder
	initial          bool        // it begins with the objects that there are, and they have not ended
	pool             *workerPool // for those
	decode           func(d *Decoder, raw []byte, base int64) (Event, error)
	yield            func(Event) error
	hasMore          func() bool // whether the buffer holds another event
	kind, apiVersion string      // of the first object
}

// read reads the stream to its end.
func (w *watchStream) read(enc Encoding) error {
	next := w.nextJSON
	w.decode, w.hasMore = (*Decoder).decodeLine, w.d.buf.hasLine
	alone := func() error {
		pool := w.pool
		defer func() { w.pool = pool }()
		w.pool = nil
		return w.readAll(next)
	}
	if enc == Protobuf {
		next, alone, w.decode, w.hasMore = w.nextProtobuf, nil, (*Decoder).decodeProtobufFrame, w.d.buf.hasFrame
	}
	w.pool.configure(w.decode, w.deliver, alone)
	if err := w.readAll(next); err != errReadAlone {
		return err
	}
	return nil
}

// all reads all events.
func (w *watchStream) readAll(next func() (more bool, err error)) error {
	for initial := w.initial; ; {
		more, err := next()
		w.d.releaseInput()
		if !more || err != nil {
			return w.pool.drain(err)
		}
		if initial && !w.initial {
			if err := w.goLive(); err != nil {
				return err
			}
			initial = false
		}
	}
}

// ahead reports whether the next event is one for the crew. If not, all events before it have been passed on.
func (w *watchStream) usePool() (bool, error) {
	if w.initial && w.pool.active() {
		return true, nil
	}
	return false, w.pool.drain(nil)
}

// take decodes the event that raw is, or lets the crew do it.
func (w *watchStream) handle(raw []byte, base int64) error {
	pooled, err := w.usePool()
	if err != nil {
		return err
	}
	if pooled {
		return w.pool.add(raw, base)
	}
	ev, err := w.decode(w.d, raw, base)
	if err != nil {
		return err
	}
	return w.deliver(ev)
}

// pass yields an event, unless it is of another kind than those before it.
func (w *watchStream) deliver(ev Event) error {
	if err := w.checkKind(&ev); err != nil {
		return err
	}
	if ev.InitialEventsEnd {
		w.initial = false
	}
	ev.More = !w.initial && w.hasMore()
	return w.yield(ev)
}

// goLive gives up what only the initial events were in need of.
func (w *watchStream) goLive() error {
	if err := w.pool.drain(nil); err != nil {
		return err
	}
	w.pool.stop()
	w.pool = nil
	b := &w.d.buf
	b.minSize = minBuffer
	unread := len(b.data) - b.pos
	b.move(make([]byte, unread, max(unread, min(minBuffer, b.limit))))
	return nil
}

// nextJSON reads an event. Servers write each in a line, which is found much faster than the bracket that closes it.
func (w *watchStream) nextJSON() (more bool, err error) {
	b := &w.d.buf
	c, err := w.pool.peek(b)
	if err == io.EOF {
		return false, nil
	}
	if err != nil {
		return false, b.truncated(err)
	}
	if c != '{' {
		return false, &SyntaxError{Offset: b.offset(), Msg: fmt.Sprintf("%q, want an event", c)}
	}
	line := b.line()
	pooled, err := w.usePool()
	if err != nil {
		return false, err
	}
	base := b.offset()
	if line != nil && pooled {
		return true, w.pool.add(b.take(len(line)), base)
	}
	if line != nil {
		ev, err := w.d.decodeFrame(line, base)
		if err == nil {
			b.pos += w.d.p.pos
			return true, w.deliver(ev)
		}
		// It may go on in the next line, or its end may be missing: the error must not depend on how the bytes arrive.
	}
	b.beforeFill = w.syntaxCheck()
	raw, err := b.value()
	b.beforeFill = nil
	if err != nil {
		if wrong := w.d.wrongSyntax(b.unread(), b.offset()); wrong != nil {
			err = wrong
		}
		return false, err
	}
	return true, w.handle(raw, base)
}

// checked returns what looks at the start of an event before more of it is awaited: its last line may be wrong, or all that has
// come if that looks like an end. It looks again and again at what it has seen, but in all at no more than a few times what there is.
func (w *watchStream) syntaxCheck() func() error {
	last, seen := 0, 0
	return func() error {
		unread := w.d.buf.unread()
		if n := len(unread); n > 0 && !bytes.ContainsAny(unread[n-1:], "} \t\r") {
			unread = unread[:bytes.LastIndexByte(unread, '\n')+1]
		}
		if len(unread) <= last || seen > maxRechecks*len(unread) {
			return nil
		}
		last = len(unread)
		seen += last
		return w.d.wrongSyntax(unread, w.d.buf.offset())
	}
}

// maxLooks is how many times its bytes the start of an event is looked at.
const maxRechecks = 16

// wrongSyntax returns the syntax error in the start of a value, if there is one that nothing can put right which follows.
func (d *Decoder) wrongSyntax(start []byte, base int64) error {
	d.p.reset(start, base)
	if err := d.p.skip(); d.p.isFinal(err) {
		return err
	}
	return nil
}

// line decodes the event that raw is.
func (d *Decoder) decodeLine(raw []byte, base int64) (Event, error) {
	ev, err := d.decodeFrame(raw, base)
	if err == nil {
		err = d.p.end()
	}
	return ev, err
}

// frame decodes the event that raw begins with: {"type": …, "object": …}. The object is decoded where it stands if its type is
// known by then, as it is in what servers send.
func (d *Decoder) decodeFrame(raw []byte, base int64) (Event, error) {
	var (
		typ, kind string
		obj       Object
		start     = -1 // of the object
		decoded   bool
		odd       error // a type or a kind that is no string
		p         = &d.p
	)
	p.reset(raw, base)
	empty, err := p.open('}')
	for more := !empty; more && err == nil; {
		var name []byte
		if name, err = p.key(); err != nil {
			return Event{}, err
		}
		switch string(name) {
		case "type":
			typ, err = d.readString(&d.eventTypes)
		case "kind":
			kind, err = d.readString(&d.eventTypes)
		case "object":
			p.next()
			start = p.pos
			if decoded = isChange(typ); decoded {
				obj, err = d.decodeObject()
			} else {
				err = p.skip()
			}
		default:
			err = p.skip()
		}
		if _, ok := err.(*FieldError); ok {
			odd, err = err, nil
		}
		if err == nil {
			more, err = p.more('}')
		}
	}
	switch {
	case err != nil:
		return Event{}, err
	case odd != nil:
		return Event{}, odd
	case typ == "" && kind == "Status":
		return Event{}, statusOf(raw[:p.pos])
	case typ == "" && start < 0 && kind != "":
		return Event{}, fmt.Errorf("no event: it is a %.100s", kind)
	case typ == "" && start < 0:
		return Event{}, errors.New("no event: it has neither a type nor an object")
	case start < 0:
		return Event{}, fmt.Errorf("an event %.40q without an object", typ)
	}
	if !isChange(typ) || !decoded {
		end := p.pos
		defer func() { p.pos = end }()
		p.pos = start
		object, err := p.raw()
		switch {
		case err != nil:
			return Event{}, err
		case typ == "BOOKMARK":
			return bookmarkJSON(object)
		case typ == "ERROR":
			return Event{}, statusOf(object)
		case !isChange(typ):
			return Event{}, unknownType(typ)
		}
		p.pos = start
		if obj, err = d.decodeObject(); err != nil {
			return Event{}, err
		}
	}
	d.root.complete(&obj, "", "")
	return Event{Type: typ, Object: obj}, nil
}

func isChange(typ string) bool { return typ == "ADDED" || typ == "MODIFIED" || typ == "DELETED" }

func unknownType(typ string) error { return fmt.Errorf("an event of unknown type %.40q", typ) }

// sameKind checks that a watch is about one kind of objects, which is that of their source, and in one version.
func (w *watchStream) checkKind(ev *Event) error {
	id := &ev.Object.Ident
	switch {
	case id.Kind == "" || id.Kind == w.kind && id.APIVersion == w.apiVersion:
		return nil
	case id.Kind == "Table" || id.Kind == "Status":
		return fmt.Errorf("a %s in the place of an object", id.Kind)
	}
	if err := w.d.checkKind(id); err != nil {
		return err
	}
	switch {
	case ev.Type == "BOOKMARK":
	case w.kind == "":
		w.kind, w.apiVersion = id.Kind, id.APIVersion
	default:
		return fmt.Errorf("a %.100s of %.100s after a %.100s of %.100s", id.Kind, id.APIVersion, w.kind, w.apiVersion)
	}
	return nil
}

func bookmarkJSON(raw []byte) (Event, error) {
	var o metav1.PartialObjectMetadata
	if err := unmarshal(raw, &o); err != nil {
		return Event{}, fmt.Errorf("a bookmark: %w", err)
	}
	return bookmark(&o)
}

func bookmark(o *metav1.PartialObjectMetadata) (Event, error) {
	if o.ResourceVersion == "" {
		return Event{}, errors.New("a bookmark without a resource version")
	}
	return Event{
		Type:             "BOOKMARK",
		Object:           Object{Ident: Ident{APIVersion: o.APIVersion, Kind: o.Kind}},
		ResourceVersion:  o.ResourceVersion,
		InitialEventsEnd: o.Annotations[metav1.InitialEventsAnnotationKey] == "true",
	}, nil
}
