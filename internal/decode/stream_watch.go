package decode

import (
	"bytes"
	"errors"
	"fmt"
	"io"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// A watchStream reads a watch: events one behind another, in JSON one a line, in protobuf one a
// frame, in CBOR one an item (RFC 8742).
//
// A watch that begins with the initial events (KEP-3157) has two phases. In the first one events
// come without a pause, and a worker pool may decode them. A bookmark ends it. In the second one,
// each event is decoded and yielded at once when it is complete, and never waits for bytes behind
// it.
type watchStream struct {
	d *Decoder
	// initial says that the first phase has not ended.
	initial bool
	// pool is for the first phase; nil without one.
	pool *workerPool
	// decode decodes the bytes of one event, in the stream's encoding.
	decode func(d *Decoder, raw []byte, base int64) (Event, error)
	yield  func(Event) error
	// hasMore reports whether the buffer holds another event.
	hasMore func() bool
	// kind and apiVersion are those of the first object. All objects of a watch have the same.
	kind, apiVersion string
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
	switch enc {
	case CBOR:
		// The end of an item is certain, so there is nothing to read again.
		next, alone, w.decode, w.hasMore = w.nextCBOR, nil, (*Decoder).decodeCBOREvent, w.d.buf.hasCBOR
	case Protobuf:
		// The length of a frame is certain, so there is nothing to read again.
		next, alone, w.decode, w.hasMore = w.nextProtobuf, nil, (*Decoder).decodeProtobufFrame, w.d.buf.hasFrame
	}
	w.pool.configure(w.decode, w.deliver, alone)
	if err := w.readAll(next); err != errReadAlone {
		return err
	}
	return nil
}

// readAll reads all events that are left. next reads one, and reports false at the end of the
// stream.
func (w *watchStream) readAll(next func() (more bool, err error)) error {
	for initial := w.initial; ; {
		more, err := next()
		w.d.releaseInput()
		if !more || err != nil {
			return w.pool.drain(err)
		}
		// The bookmark has been yielded that ends the initial events.
		if initial && !w.initial {
			if err := w.goLive(); err != nil {
				return err
			}
			initial = false
		}
	}
}

// release ends the reading, in the initial events or behind them. Then goLive has stopped the pool,
// and dropped it with its decoders, which would otherwise live as long as the watch.
//
//go:noinline
func (w *watchStream) release() {
	w.pool.stop()
	w.d.releaseStream()
}

// usePool reports whether the next event is one for the pool. If not, it has yielded all events
// before it.
func (w *watchStream) usePool() (bool, error) {
	if w.initial && w.pool.active() {
		return true, nil
	}
	return false, w.pool.drain(nil)
}

// handle decodes and yields the event whose bytes are raw, or gives it to the pool.
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

// deliver yields an event. It runs in the caller's goroutine and in the order of the events, so it
// checks what depends on those before: that all are of one kind.
func (w *watchStream) deliver(ev Event) error {
	if err := w.checkKind(&ev); err != nil {
		return err
	}
	if ev.InitialEventsEnd && w.initial {
		w.initial = false
		w.d.opts.Kinds.Take(w.d.expected)
		w.d.expected = w.d.opts.Kinds
	}
	ev.More = !w.initial && w.hasMore()
	return w.yield(ev)
}

// goLive releases the worker pool, the large buffer and more once the initial events end. The watch
// may last for hours, and mostly waits.
func (w *watchStream) goLive() error {
	if err := w.pool.drain(nil); err != nil {
		return err
	}
	w.pool.stop()
	w.pool = nil
	w.d.listing = false
	w.d.await()
	w.d.buf.shrink(idleBuffer, watchBuffer)
	return nil
}

// nextJSON reads an event and handles it. It reports false at the end of the stream. Servers write
// each event in a line of its own, and the end of a line is found much faster than the bracket that
// closes the event.
//
// The wait for the event is here, and the rest in a function of its own. A watch mostly waits, and
// the frame of that function would be half a kilobyte of its goroutine's stack.
func (w *watchStream) nextJSON() (more bool, err error) {
	c, err := w.pool.peek(&w.d.buf)
	if err != nil {
		return false, w.endOf(err)
	}
	return w.readEvent(c)
}

// endOf returns the error of a stream in which err has come in the place of an event: nil at its
// end.
func (w *watchStream) endOf(err error) error {
	if err == io.EOF {
		return nil
	}
	return w.d.buf.truncated(err)
}

// readEvent reads an event whose first byte c is at hand, and handles it.
func (w *watchStream) readEvent(c byte) (more bool, err error) {
	b := &w.d.buf
	// Something else than an event: an HTML page, or what is left of a broken stream.
	if c != '{' {
		return false, &SyntaxError{Offset: b.offset(), Msg: fmt.Sprintf("%q, want an event", c)}
	}
	line := b.line()
	pooled, err := w.usePool()
	if err != nil {
		return false, err
	}
	base := b.offset()
	// The line is a guess at the event: the pool finds out if it is wrong.
	if line != nil && pooled {
		return true, w.pool.add(b.take(len(line)), base)
	}
	switch {
	case pooled:
		if n := w.passEvent(); n > 0 {
			return true, w.pool.add(b.take(n), base)
		}
	case line != nil:
		// Without a pool the event is decoded from the line at once; decodeFrame finds its end.
		ev, err := w.d.decodeFrame(line, base)
		if err == nil {
			b.pos += w.d.p.pos
			return true, w.deliver(ev)
		}
	default:
		// What has come may be the whole event. If it is not, the parser waits for the rest where
		// it gets to the end, and nothing is parsed twice.
		b.moveToStart()
		w.d.p.src = b
		ev, err := w.d.decodeFrame(b.unread(), base)
		w.d.p.src = nil
		if err == nil {
			b.pos += w.d.p.pos
			return true, w.deliver(ev)
		}
	}
	// The event may go on in the next line, its end may be missing, or it is wrong. Do not use the
	// error: it would depend on the pieces in which the bytes came. Count brackets.
	b.beforeFill = w.syntaxCheck()
	raw, err := b.value()
	b.beforeFill = nil
	if err != nil {
		// The stream ended in the event. If the event was wrong before that, say so, whatever
		// pieces the bytes came in.
		if wrong := w.d.wrongSyntax(b.unread(), b.offset()); wrong != nil {
			err = wrong
		}
		return false, err
	}
	return true, w.handle(raw, base)
}

// passEvent finds the end of the event that is next, for the pool, where no line break shows it. It
// returns the number of its bytes, or 0 if they are no event or the stream ends in it. The
// Decoder's own parser is left alone: while this one waits, the pool may need that.
func (w *watchStream) passEvent() int {
	b := &w.d.buf
	b.moveToStart()
	p := parser{data: b.unread(), src: b, stop: w.d.p.stop}
	if p.skipAny() != nil {
		return 0
	}
	return p.pos
}

// syntaxCheck returns a function that looks for a syntax error in the start of an event, before
// more of it is awaited. An event that can only be an error must not wait for its end, which may
// never come.
//
// It parses the lines that are complete, or all bytes if they look like the end of an event. Each
// time it begins at the start of the event, but only if there is more to see than before, and in
// all at most maxRechecks times what there is.
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

// maxRechecks is how many times its bytes the start of an event may be parsed.
const maxRechecks = 16

// wrongSyntax returns the syntax error in start, the start of a value, if there is one that no
// further bytes can put right.
func (d *Decoder) wrongSyntax(start []byte, base int64) error {
	d.p.reset(start, base)
	// Most such starts are cut off, which skipCompact would find out in vain.
	if err := d.p.skipAny(); d.p.isFinal(err) {
		return err
	}
	return nil
}

// decodeLine decodes the event that is all of raw. It is the decode function of a watch, which the
// pool may call too.
func (d *Decoder) decodeLine(raw []byte, base int64) (Event, error) {
	ev, err := d.decodeFrame(raw, base)
	if err == nil {
		err = d.p.end()
	}
	return ev, err
}

// decodeFrame decodes the event that raw begins with: {"type": …, "object": …}. The parser stands
// behind it then.
//
// Servers write the type first. So the type is known when the object comes, and the object is
// decoded where it is. Otherwise it is skipped, and decoded when the type has come. A body that is
// a Status, without type and object, is its error.
func (d *Decoder) decodeFrame(raw []byte, base int64) (Event, error) {
	var (
		typ, kind string
		obj       Object
		// start is where the object begins; -1 before it has come.
		start   = -1
		decoded bool
		// odd is the error of a type or a kind that is no string. It counts only if there is no
		// syntax error behind it.
		odd error
		p   = &d.p
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
		return Event{}, statusOf(p.data[:p.pos])
	case start < 0:
		return Event{}, noObject(typ, kind)
	case !isChange(typ) || !decoded:
		return d.decodeSkipped(typ, start)
	}
	d.root.complete(&obj, "", "")
	return Event{Type: typ, Object: obj}, nil
}

// noObject returns the error for an event without an object, whose type and kind may be missing.
func noObject(typ, kind string) error {
	switch {
	case typ != "":
		return fmt.Errorf("an event %.40q without an object", typ)
	case kind != "":
		return fmt.Errorf("no event: it is a %.100s", kind)
	}
	return errors.New("no event: it has neither a type nor an object")
}

// decodeSkipped decodes the object of an event of type typ, which begins at start and was skipped,
// as what the type asks for. The parser stands where it stood then.
func (d *Decoder) decodeSkipped(typ string, start int) (Event, error) {
	p := &d.p
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
	obj, err := d.decodeObject()
	if err != nil {
		return Event{}, err
	}
	d.root.complete(&obj, "", "")
	return Event{Type: typ, Object: obj}, nil
}

// isChange reports whether typ is that of an event with an object of the source.
func isChange(typ string) bool { return typ == "ADDED" || typ == "MODIFIED" || typ == "DELETED" }

// unknownType returns the error for an event of a type that this package does not know. To ignore
// it would lose what it says.
func unknownType(typ string) error { return fmt.Errorf("an event of unknown type %.40q", typ) }

// checkKind checks that all objects of the watch are of the source's kind, and of one version.
func (w *watchStream) checkKind(ev *Event) error {
	id := &ev.Object.Ident
	switch {
	case id.Kind == "" || id.Kind == w.kind && id.APIVersion == w.apiVersion:
		return nil
	// Kinds may accept any kind, if the type does not say one. These two are never the objects of a
	// source.
	case id.Kind == "Table" || id.Kind == "Status":
		return fmt.Errorf("a %s in the place of an object", id.Kind)
	// Where nobody said which kind it must be, a bookmark says nothing: it has no object.
	case ev.Type == "BOOKMARK" && !w.d.expected.Given():
		return nil
	}
	if err := w.d.checkKind(id); err != nil {
		return err
	}
	switch {
	// A bookmark's version may be another one: it has no object to decode.
	case ev.Type == "BOOKMARK":
	case w.kind == "":
		w.kind, w.apiVersion = id.Kind, id.APIVersion
	default:
		return fmt.Errorf("a %.100s of %.100s after a %.100s of %.100s", id.Kind, id.APIVersion, w.kind, w.apiVersion)
	}
	return nil
}

// bookmarkJSON returns the event of a bookmark whose object is raw.
func bookmarkJSON(raw []byte) (Event, error) {
	var o metav1.PartialObjectMetadata
	if err := unmarshal(raw, &o); err != nil {
		return Event{}, fmt.Errorf("a bookmark: %w", err)
	}
	return Bookmark(&o)
}

// Bookmark returns the event of a bookmark whose object is o. It must have a resource version,
// which is all that it is for. The annotation ends the initial events only with the value "true"
// (KEP-3157).
func Bookmark(o *metav1.PartialObjectMetadata) (Event, error) {
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
