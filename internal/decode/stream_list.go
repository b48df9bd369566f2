package decode

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"strconv"
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// A jsonList is a list while it is read. Its members come in any order: a list of custom resources has its items before its
// kind, so a response that is no list may be known as such only at its end.
type jsonList struct {
	d                *Decoder
	crew             *crew
	yield            func(Object) error
	kind, apiVersion string
	meta             metav1.ListMeta
	items            bool
	count, told      int           // of the items, and of those that tell their kind
	size             int           // of the last item
	between          []byte        // what ends an item and begins the next one, as far as it has been seen
	status           metav1.Status // the members of what turns out to be one
}

func (l *jsonList) read() error {
	b := &l.d.buf
	if err := l.expect('{'); err != nil {
		return err
	}
	if c, err := b.peek(); err != nil {
		return b.cut(err)
	} else if c == '}' {
		b.pos++
	} else if err := l.members(); err != nil {
		return err
	}
	return l.end()
}

// end reads what is left behind the closing brace.
func (l *jsonList) end() error {
	b := &l.d.buf
	if c, err := b.peek(); err == nil {
		return &SyntaxError{Offset: b.offset(), Msg: fmt.Sprintf("%q after the end of the list", c)}
	} else if err != io.EOF {
		return b.cut(err)
	}
	if err := l.check(); err != nil {
		return err
	}
	if !l.items {
		return fmt.Errorf("%.100s without items", l.kind)
	}
	return nil
}

// check says whether the kind is that of a list of the objects. What all items say of themselves goes before what a list of them
// is called: a custom resource's may have any name.
func (l *jsonList) check() error {
	err := l.d.checkList(l.kind, l.apiVersion, &l.status)
	if _, ok := err.(*KindError); ok && l.count > 0 && l.told == l.count {
		return nil
	}
	return err
}

// checkList says whether kind is that of a list of d's objects.
func (d *Decoder) checkList(kind, apiVersion string, status *metav1.Status) error {
	switch {
	case kind == "":
		return errors.New("no list: it has no kind")
	case kind == "Status":
		return statusError(status)
	case kind == "Table":
		return errors.New("a Table, which is made for people, not a list")
	case !strings.HasSuffix(kind, "List"):
		return fmt.Errorf("no list: it is a %.100s", kind)
	}
	return d.opts.Kinds.list(kind, apiVersion)
}

// members reads what stands between the braces, and the closing one.
func (l *jsonList) members() error {
	for {
		name, err := l.string()
		if err != nil {
			return err
		}
		if err := l.expect(':'); err != nil {
			return err
		}
		if err := l.member(name); err != nil {
			return err
		}
		if more, err := l.more('}'); !more {
			return err
		}
	}
}

func (l *jsonList) member(name string) error {
	if name == "items" {
		switch {
		case l.items:
			return errors.New("a list with two items")
		case l.kind != "":
			if err := l.check(); err != nil {
				return err
			}
		}
		l.items = true
		return l.crew.finish(l.readItems())
	}
	b := &l.d.buf
	base := b.offset()
	raw, err := b.value()
	if err != nil {
		return err
	}
	p := &l.d.p
	p.reset(raw, base)
	if err := p.whole(); err != nil {
		return err
	}
	switch name {
	case "kind":
		err = unmarshal(raw, &l.kind)
		if err == nil && l.kind != "" && l.kind != "Status" {
			err = l.check()
		}
	case "apiVersion":
		err = unmarshal(raw, &l.apiVersion)
	case "metadata":
		err = unmarshal(raw, &l.meta)
	case "status", "message", "reason", "code", "details":
		// Those of another object than a Status do not matter, nor whether they fit one.
		_ = unmarshal(append(append(strconv.AppendQuote([]byte{'{'}, name), ':'), append(raw, '}')...), &l.status)
	}
	return err
}

func (l *jsonList) readItems() error {
	b := &l.d.buf
	if c, err := b.peek(); err == nil && c == 'n' {
		raw, err := b.value()
		if err == nil && string(raw) != "null" {
			err = &SyntaxError{Offset: b.offset(), Msg: fmt.Sprintf("items are %.20q", raw)}
		}
		return err
	}
	if err := l.expect('['); err != nil {
		return err
	}
	if c, err := b.peek(); err == nil && c == ']' {
		b.pos++
		return nil
	}
	l.crew.begin((*Decoder).item, l.pass, l.alone)
	return l.itemsLeft()
}

func (l *jsonList) itemsLeft() error {
	for {
		if err := l.item(); err != nil {
			return err
		}
		l.d.passed()
		if more, err := l.more(']'); !more {
			return err
		}
	}
}

// alone reads the list from an item on without its crew.
func (l *jsonList) alone() error {
	crew := l.crew
	defer func() { l.crew = crew }()
	l.crew = nil
	if err := l.itemsLeft(); err != nil {
		return err
	}
	if more, err := l.more('}'); err != nil {
		return err
	} else if more {
		if err := l.members(); err != nil {
			return err
		}
	}
	return l.end()
}

// item reads an object. Without a crew it is decoded where it stands if the buffer seems to hold the whole of it, which saves the
// search for its end.
func (l *jsonList) item() error {
	b, p := &l.d.buf, &l.d.p
	c, err := l.crew.peek(b)
	if err != nil {
		return b.cut(err)
	}
	base, crew := b.offset(), l.crew.on()
	if rest := b.data[b.pos:]; !crew && c == '{' && len(rest) > 2*l.size {
		p.reset(rest, base)
		if obj, err := l.d.object(); err == nil {
			l.size = p.pos
			b.pos += l.size
			return l.pass(Event{Object: obj})
		}
		// It may be that it is only cut off.
	}
	if crew && l.between != nil {
		if i := bytes.Index(b.data[b.pos:], l.between); i >= 0 {
			return l.crew.add(b.take(i+1), base)
		}
	}
	raw, err := b.value()
	if err != nil {
		return err
	}
	if crew {
		l.learn(raw)
		return l.crew.add(raw, base)
	}
	l.size = len(raw)
	ev, err := l.d.item(raw, base)
	if err != nil {
		return err
	}
	return l.pass(ev)
}

// learn learns from an item how one begins.
func (l *jsonList) learn(item []byte) {
	const meta = `"metadata":{`
	if i := bytes.Index(item[:min(len(item), 256)], []byte(meta)); i >= 0 && l.between == nil {
		l.between = append([]byte("},"), item[:i+len(meta)]...)
	}
}

// item decodes the item that raw is, as the object of an event of no type.
func (d *Decoder) item(raw []byte, base int64) (Event, error) {
	d.p.reset(raw, base)
	obj, err := d.object()
	if err == nil {
		err = d.p.end()
	}
	return Event{Object: obj}, err
}

func (l *jsonList) pass(ev Event) error {
	if err := l.d.sameKind(&ev.Object.Ident); err != nil {
		return err
	}
	if l.count++; ev.Object.Ident.Kind != "" {
		l.told++
	}
	l.d.root.complete(&ev.Object, l.kind, l.apiVersion)
	return l.yield(ev.Object)
}

// string reads a string.
func (l *jsonList) string() (string, error) {
	b := &l.d.buf
	if err := l.expect('"'); err != nil {
		return "", err
	}
	b.pos--
	base := b.offset()
	raw, err := b.value()
	if err != nil {
		return "", err
	}
	l.d.p.reset(raw, base)
	s, err := l.d.p.str()
	return string(s), err
}

// more passes a comma, or the closing bracket, and reports whether it was a comma.
func (l *jsonList) more(closing byte) (bool, error) {
	b := &l.d.buf
	c, err := l.crew.peek(b)
	if err != nil {
		return false, b.cut(err)
	}
	if c != ',' && c != closing {
		return false, l.expect(closing)
	}
	l.crew.passed(b.take(1))
	return c == ',', nil
}

// expect passes a byte.
func (l *jsonList) expect(want byte) error {
	b := &l.d.buf
	c, err := b.peek()
	if err != nil {
		return b.cut(err)
	}
	if c != want {
		return &SyntaxError{Offset: b.offset(), Msg: fmt.Sprintf("%q, want %q", c, want)}
	}
	b.pos++
	return nil
}
