package decode

import (
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
		base := b.offset()
		raw, err := b.value()
		if err != nil {
			return err
		}
		if err := w.frame(raw, base); err != nil {
			return err
		}
	}
}

// frame reads one event: {"type": …, "object": …}. The object is decoded where it stands if its type is known by then, as it is
// in what servers send.
func (w *watchStream) frame(raw []byte, base int64) error {
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
			return err
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
		return err
	case typ == "" && kind == "Status":
		return statusError(raw)
	case start < 0:
		return fmt.Errorf("an event %.40q without an object", typ)
	}
	if !decoded || !isChange(typ) {
		p.pos = start
		object, err := p.raw()
		if err != nil {
			return err
		}
		switch {
		case typ == "BOOKMARK":
			return w.bookmark(object)
		case typ == "ERROR":
			return statusError(object)
		case !isChange(typ):
			return unknownType(typ)
		}
		p.pos = start
		if obj, err = w.d.object(); err != nil {
			return err
		}
	}
	w.d.root.complete(&obj, "", "")
	if err := w.sameKind(obj.Ident.Kind, obj.Ident.APIVersion); err != nil {
		return err
	}
	return w.yield(Event{Type: typ, Object: obj})
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

func (w *watchStream) bookmark(raw []byte) error {
	var o metav1.PartialObjectMetadata
	if err := unmarshal(raw, &o); err != nil {
		return fmt.Errorf("a bookmark: %w", err)
	}
	return w.yieldBookmark(&o)
}

func (w *watchStream) yieldBookmark(o *metav1.PartialObjectMetadata) error {
	if o.ResourceVersion == "" {
		return fmt.Errorf("a bookmark without a resource version")
	}
	return w.yield(Event{
		Type:             "BOOKMARK",
		ResourceVersion:  o.ResourceVersion,
		InitialEventsEnd: o.Annotations[metav1.InitialEventsAnnotationKey] == "true",
	})
}

// statusError is the error that the JSON of a Status holds.
func statusError(raw []byte) error {
	var s metav1.Status
	if err := unmarshal(raw, &s); err != nil || s.Kind != "Status" {
		return fmt.Errorf("an ERROR event without a Status: %.200q", raw)
	}
	return apierrors.FromObject(&s)
}
