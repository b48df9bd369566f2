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
	pool             *workerPool
	yield            func(Object) error
	kind, apiVersion string
	meta             metav1.ListMeta
	hasItems         bool
	count, withKind  int           // of the items, and of those that tell their kind
	lastSize         int           // of the last item
	itemBoundary     []byte        // what ends an item and begins the next one, as far as it has been seen
	status           metav1.Status // the members of what turns out to be one
}

func (l *jsonList) read() error {
	b := &l.d.buf
	if err := l.expect('{'); err != nil {
		return err
	}
	if c, err := b.peek(); err != nil {
		return b.truncated(err)
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
		return b.truncated(err)
	}
	if err := l.check(); err != nil {
		return err
	}
	if !l.hasItems {
		return fmt.Errorf("%.100s without items", l.kind)
	}
	return nil
}

// check says whether the kind is that of a list of the objects. What all items say of themselves goes before what a list of them
// is called: a custom resource's may have any name.
func (l *jsonList) check() error {
	err := l.d.checkList(l.kind, l.apiVersion, &l.status)
	if _, ok := err.(*KindError); ok && l.count > 0 && l.withKind == l.count {
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
		case l.hasItems:
			return errors.New("a list with two items")
		case l.kind != "":
			if err := l.check(); err != nil {
				return err
			}
		}
		l.hasItems = true
		return l.pool.drain(l.readItems())
	}
	b := &l.d.buf
	base := b.offset()
	raw, err := b.value()
	if err != nil {
		return err
	}
	p := &l.d.p
	p.reset(raw, base)
	if err := p.wholeValue(); err != nil {
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
	l.pool.configure((*Decoder).decodeItem, l.deliver, l.readAlone)
	return l.readRemainingItems()
}

func (l *jsonList) readRemainingItems() error {
	for {
		if err := l.item(); err != nil {
			return err
		}
		l.d.releaseInput()
		if more, err := l.more(']'); !more {
			return err
		}
	}
}

// alone reads the list from an item on without its crew.
func (l *jsonList) readAlone() error {
	pool := l.pool
	defer func() { l.pool = pool }()
	l.pool = nil
	if err := l.readRemainingItems(); err != nil {
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
	c, err := l.pool.peek(b)
	if err != nil {
		return b.truncated(err)
	}
	base, usePool := b.offset(), l.pool.active()
	if rest := b.data[b.pos:]; !usePool && c == '{' && len(rest) > 2*l.lastSize {
		p.reset(rest, base)
		if obj, err := l.d.decodeObject(); err == nil {
			l.lastSize = p.pos
			b.pos += l.lastSize
			return l.deliver(Event{Object: obj})
		}
		// It may be that it is only cut off.
	}
	if usePool && l.itemBoundary != nil {
		if i := bytes.Index(b.data[b.pos:], l.itemBoundary); i >= 0 {
			return l.pool.add(b.take(i+1), base)
		}
	}
	raw, err := b.value()
	if err != nil {
		return err
	}
	if usePool {
		l.learnBoundary(raw)
		return l.pool.add(raw, base)
	}
	l.lastSize = len(raw)
	ev, err := l.d.decodeItem(raw, base)
	if err != nil {
		return err
	}
	return l.deliver(ev)
}

// learn learns from an item how one begins.
func (l *jsonList) learnBoundary(item []byte) {
	const meta = `"metadata":{`
	if i := bytes.Index(item[:min(len(item), 256)], []byte(meta)); i >= 0 && l.itemBoundary == nil {
		l.itemBoundary = append([]byte("},"), item[:i+len(meta)]...)
	}
}

// item decodes the item that raw is, as the object of an event of no type.
func (d *Decoder) decodeItem(raw []byte, base int64) (Event, error) {
	d.p.reset(raw, base)
	obj, err := d.decodeObject()
	if err == nil {
		err = d.p.end()
	}
	return Event{Object: obj}, err
}

func (l *jsonList) deliver(ev Event) error {
	if err := l.d.checkKind(&ev.Object.Ident); err != nil {
		return err
	}
	if l.count++; ev.Object.Ident.Kind != "" {
		l.withKind++
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
	c, err := l.pool.peek(b)
	if err != nil {
		return false, b.truncated(err)
	}
	if c != ',' && c != closing {
		return false, l.expect(closing)
	}
	l.pool.addSeparator(b.take(1))
	return c == ',', nil
}

// expect passes a byte.
func (l *jsonList) expect(want byte) error {
	b := &l.d.buf
	c, err := b.peek()
	if err != nil {
		return b.truncated(err)
	}
	if c != want {
		return &SyntaxError{Offset: b.offset(), Msg: fmt.Sprintf("%q, want %q", c, want)}
	}
	b.pos++
	return nil
}
