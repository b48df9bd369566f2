package decode

import (
	"errors"
	"fmt"
	"io"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// A watchStream is a watch while it is read.
type watchStream struct {
	d                *Decoder
	yield            func(Event) error
	kind, apiVersion string // of the first object
	types            stringField
}

func (w *watchStream) readJSON() error {
	b := &w.d.buf
	for {
		c, err := b.peek()
		if err == io.EOF {
			return nil
		}
		if err != nil {
			return b.cut(err)
		}
		if c != '{' {
			return &SyntaxError{Offset: b.offset(), Msg: fmt.Sprintf("%q, want an event", c)}
		}
		ev, err := w.next()
		if err != nil {
			return err
		}
		if err := w.yield(ev); err != nil {
			return err
		}
	}
}

// next passes an event. Servers write each in a line, which is found much faster than the bracket that closes it.
func (w *watchStream) next() (Event, error) {
	b := &w.d.buf
	if line := b.line(); line != nil {
		ev, err := w.frame(line, b.offset())
		if err == nil {
			b.pos += w.d.p.pos
			return ev, nil
		}
		// It may go on in the next line, or its end may be missing: the error must not depend on how the bytes arrive.
	}
	base := b.offset()
	raw, err := b.value()
	if err != nil {
		return Event{}, err
	}
	return w.frame(raw, base)
}

// frame decodes the event that raw begins with: {"type": …, "object": …}. The object is decoded where it stands if its type is
// known by then, as it is in what servers send.
func (w *watchStream) frame(raw []byte, base int64) (Event, error) {
	var (
		typ, kind string
		obj       Object
		start     = -1 // of the object
		decoded   bool
		p         = &w.d.p
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
			typ, err = w.d.word(&w.types)
		case "kind":
			kind, err = w.d.word(&w.types)
		case "object":
			p.next()
			start = p.pos
			if decoded = isChange(typ); decoded {
				obj, err = w.d.object()
			} else {
				err = p.skip()
			}
		default:
			err = p.skip()
		}
		if err == nil {
			more, err = p.more('}')
		}
	}
	switch {
	case err != nil:
		return Event{}, err
	case typ == "" && kind == "Status":
		return Event{}, statusError(raw[:p.pos])
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
			return Event{}, statusError(object)
		case !isChange(typ):
			return Event{}, unknownType(typ)
		}
		p.pos = start
		if obj, err = w.d.object(); err != nil {
			return Event{}, err
		}
	}
	w.d.root.complete(&obj, "", "")
	return Event{Type: typ, Object: obj}, w.sameKind(obj.Ident.Kind, obj.Ident.APIVersion)
}

func isChange(typ string) bool { return typ == "ADDED" || typ == "MODIFIED" || typ == "DELETED" }

func unknownType(typ string) error { return fmt.Errorf("an event of unknown type %.40q", typ) }

// sameKind checks that a watch is about one kind of objects.
func (w *watchStream) sameKind(kind, apiVersion string) error {
	switch {
	case kind == "":
	case kind == "Table" || kind == "Status":
		return fmt.Errorf("a %s in the place of an object", kind)
	case w.kind == "":
		w.kind, w.apiVersion = kind, apiVersion
	case kind != w.kind || apiVersion != w.apiVersion:
		return fmt.Errorf("a %s of %s after a %s of %s", kind, apiVersion, w.kind, w.apiVersion)
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
		ResourceVersion:  o.ResourceVersion,
		InitialEventsEnd: o.Annotations[metav1.InitialEventsAnnotationKey] == "true",
	}, nil
}

// statusError is the error that the JSON of a Status holds.
func statusError(raw []byte) error {
	var s metav1.Status
	if err := unmarshal(raw, &s); err != nil || s.Kind != "Status" {
		return fmt.Errorf("an ERROR event without a Status: %.200q", raw)
	}
	return apierrors.FromObject(&s)
}
