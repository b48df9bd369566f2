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

// A jsonList reads a list in JSON: an object with the members kind, apiVersion, metadata and items.
// The items are decoded one by one while they come. The other members are small and are read whole.
//
// The members may come in any order. Servers write the kind of a list of built-in types first, and
// that of custom resources behind the items. So the items of a response that is something else are
// yielded before its kind is known, and it is the error at the end that says so.
//
// What a list is called need not follow from the kind of its items: a CustomResourceDefinition
// names both. So a list is what has items and is no Status, and the kinds that count are those of
// the items. The name of the list stands in for those that items do not say; see checkName.
type jsonList struct {
	d                *Decoder
	pool             *workerPool
	yield            func(Object) error
	kind, apiVersion string
	meta             metav1.ListMeta
	// hasItems says that the member items has come, and hasName that the metadata has a name.
	hasItems, hasName bool
	// count is how many items have been yielded, and withKind how many of them say their kind.
	count, withKind int
	// lastSize is the size of the last item, as a guess at that of the next one.
	lastSize int
	// itemBoundary is what ends an item and begins the next one, as far as the first items show it;
	// nil until then.
	itemBoundary []byte
	// status collects the members of a Status, in case the response is one.
	status metav1.Status
	// named says that the name of the list has been checked for an item without a kind.
	named bool
	// held has the items that wait for the list's kind.
	held []Object
}

// read reads the list to the end of the stream. It returns errReadAlone if readAlone has done that.
func (l *jsonList) read() error {
	b := &l.d.buf
	if err := l.expect('{'); err != nil {
		return err
	}
	// An object without any members, {}, has no kind, which end finds.
	if c, err := b.peek(); err != nil {
		return b.truncated(err)
	} else if c == '}' {
		b.pos++
	} else if err := l.members(); err != nil {
		return err
	}
	return l.end()
}

// end reads what is behind the closing brace, which may only be white space, and checks the list as
// a whole.
func (l *jsonList) end() error {
	b := &l.d.buf
	if c, err := b.peek(); err == nil {
		return &SyntaxError{Offset: b.offset(), Msg: fmt.Sprintf("%q after the end of the list", c)}
	} else if err != io.EOF {
		return b.truncated(err)
	}
	return l.checkWhole()
}

// checkWhole checks the list as a whole, when all of it has been read, and yields the items that
// have waited for that.
func (l *jsonList) checkWhole() error {
	if err := l.check(); err != nil {
		return err
	}
	// A server whose Go type says omitempty leaves the items of an empty collection out. What is no
	// list has no items either, but its kind or its name says so: some resource may be called AllowList.
	if !l.hasItems && (l.hasName || !strings.HasSuffix(l.kind, "List")) {
		return errNoList(l.kind)
	}
	for i := range l.held {
		l.d.root.complete(&l.held[i], l.itemKind(), l.apiVersion)
		if err := l.yield(l.held[i]); err != nil {
			return err
		}
	}
	return nil
}

// check checks the kind of the list, and with it that of the items that do not say theirs.
func (l *jsonList) check() error {
	saysAll := l.count > 0 && l.withKind == l.count
	if l.kind == "" && saysAll {
		return nil
	}
	if err := l.d.checkKindOfList(l.kind, &l.status); err != nil || saysAll {
		return err
	}
	// Nobody knows what a list without items is called, if its group may be that of a custom resource.
	if l.count == 0 && isCustom(l.apiVersion) {
		return nil
	}
	return l.checkName()
}

// checkName checks that the name of the list is that of a list of the right objects, for items that
// do not say their kind. Built-in lists have such items, and all are called as their items, with
// "List" behind it. Of others only a name of that form says something.
func (l *jsonList) checkName() error {
	if isCustom(l.apiVersion) && !strings.HasSuffix(l.kind, "List") {
		return nil
	}
	return l.d.checkList(l.kind, l.apiVersion, &l.status)
}

// itemKind returns the kind of the items that do not say theirs; "" if nothing says it.
func (l *jsonList) itemKind() string {
	of, ok := strings.CutSuffix(l.kind, "List")
	if known := l.d.opts.Kinds.Known(); !ok && known != "" {
		return known
	}
	return of
}

func errNoList(kind string) error { return fmt.Errorf("no list: it is a %.100s", kind) }

// checkKindOfList returns an error if what is of this kind is no list, whatever lists are called. A
// Status is the error that it describes; status has its members.
func (d *Decoder) checkKindOfList(kind string, status *metav1.Status) error {
	switch {
	case kind == "":
		return errors.New("no list: it has no kind")
	case kind == "Status":
		return StatusError(status)
	// A table is what kubectl prints. Only a request that accepts it should get one.
	case kind == "Table":
		return errors.New("a Table, which is made for people, not a list")
	// An object may have a member of that name, too.
	case kind == d.opts.Kinds.Known():
		return errNoList(kind)
	}
	return nil
}

// checkList checks that kind is that of a list of d's objects, where a list is called as its items.
func (d *Decoder) checkList(kind, apiVersion string, status *metav1.Status) error {
	if err := d.checkKindOfList(kind, status); err != nil {
		return err
	}
	if !strings.HasSuffix(kind, "List") {
		return errNoList(kind)
	}
	return d.expected.List(kind, apiVersion)
}

// members reads the members that are left, and the closing brace.
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

// member reads the value of the member name.
func (l *jsonList) member(name string) error {
	if name == "items" {
		if err := l.beginItems(); err != nil {
			return err
		}
		return l.pool.drain(l.readItems())
	}
	b := &l.d.buf
	base := b.offset()
	raw, err := b.value()
	if err != nil {
		return err
	}
	// The buffer has only found its end. unmarshal would not say at which byte of the stream the
	// syntax is wrong.
	p := &l.d.p
	p.reset(raw, base)
	if err := p.wholeValue(); err != nil {
		return err
	}
	return l.set(name, raw)
}

// beginItems notes that the items come.
func (l *jsonList) beginItems() error {
	switch {
	case l.hasItems:
		return errors.New("a list with two items")
	// Refuse what is no list before its items are decoded, if its kind is known by now.
	case l.kind != "":
		if err := l.d.checkKindOfList(l.kind, &l.status); err != nil {
			return err
		}
	}
	l.hasItems = true
	return nil
}

// set decodes the member name, which is not the items. Its value is raw.
func (l *jsonList) set(name string, raw []byte) (err error) {
	switch name {
	case "kind":
		err = unmarshal(raw, &l.kind)
	case "apiVersion":
		err = unmarshal(raw, &l.apiVersion)
	case "metadata":
		var of struct {
			Name string `json:"name"`
		}
		_ = unmarshal(raw, &of)
		l.hasName = of.Name != ""
		err = unmarshal(raw, &l.meta)
	case "status", "message", "reason", "code", "details":
		// These are members of a Status. Other objects may have members of these names and other
		// types, so an error says nothing.
		_ = unmarshal(append(append(strconv.AppendQuote([]byte{'{'}, name), ':'), append(raw, '}')...), &l.status)
	}
	return err
}

// readItems reads the array of items. Items that are null are a list without any, which Go servers
// write.
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
	// An empty array.
	if c, err := b.peek(); err == nil && c == ']' {
		b.pos++
		return nil
	}
	// The pool decodes pieces by decodeItem, hands results to deliver, and falls back to readAlone.
	l.pool.configure((*Decoder).decodeItem, l.deliver, l.readAlone)
	return l.readRemainingItems()
}

// readRemainingItems reads items up to the closing bracket.
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

// readAlone reads the rest of the list, from an item on, without the worker pool. The pool calls it
// if a guessed end of an item was wrong.
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

// item reads an item and yields it, or gives it to the worker pool.
//
// Without a pool the item is decoded where it is, if it seems to be all in the buffer: that saves
// the search for its end, a fifth of the time. With a pool only its end is searched, and that by a
// guess, since this goroutine must feed all the others.
func (l *jsonList) item() error {
	b, p := &l.d.buf, &l.d.p
	c, err := l.pool.peek(b)
	if err != nil {
		return b.truncated(err)
	}
	base, usePool := b.offset(), l.pool.active()
	// Twice the size of the last item: an attempt at an item that is cut off would be for nothing.
	if rest := b.data[b.pos:]; !usePool && c == '{' && len(rest) > 2*l.lastSize {
		p.reset(rest, base)
		if obj, err := l.d.decodeObject(); err == nil {
			l.lastSize = p.pos
			b.pos += l.lastSize
			return l.deliver(Event{Object: obj})
		}
		// It is wrong, or only cut off, or was stopped. Find its end and try again: an error must
		// not depend on the pieces in which the bytes came.
	}
	// A boundary that was found may be in a string of the item. Then the item is no whole value,
	// and the pool finds out.
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
	// Its whole bytes are here, so an error is the item's own.
	ev, err := l.d.decodeItem(raw, base)
	if err != nil {
		return err
	}
	return l.deliver(ev)
}

// learnBoundary guesses the boundary between items from the start of one: `},{"metadata":{` in most
// lists. What is before the metadata is the same in all items of a list, kind and API version at
// most.
func (l *jsonList) learnBoundary(item []byte) {
	const meta = `"metadata":{`
	if i := bytes.Index(item[:min(len(item), 256)], []byte(meta)); i >= 0 && l.itemBoundary == nil {
		l.itemBoundary = append([]byte("},"), item[:i+len(meta)]...)
	}
}

// decodeItem decodes the item whose bytes are raw. It is a function for the pool, so it returns an
// event without a type.
func (d *Decoder) decodeItem(raw []byte, base int64) (Event, error) {
	d.p.reset(raw, base)
	obj, err := d.decodeObject()
	if err == nil {
		err = d.p.end()
	}
	return Event{Object: obj}, err
}

// deliver yields an item. It runs in the caller's goroutine and in the order of the items, so it
// does what depends on the items before: the comparison of kinds.
func (l *jsonList) deliver(ev Event) error {
	if err := l.d.checkKind(&ev.Object.Ident); err != nil {
		return err
	}
	if l.count++; ev.Object.Ident.Kind != "" {
		l.withKind++
	} else if l.kind != "" && !l.named {
		// Once, so that no more items of another kind are decoded.
		if l.named = true; l.apiVersion != "" || strings.HasSuffix(l.kind, "List") {
			if err := l.checkName(); err != nil {
				return err
			}
		}
	}
	if len(l.held) > 0 || l.needsKind(&ev.Object) {
		ev.Object.Raw = bytes.Clone(ev.Object.Raw)
		l.held = append(l.held, ev.Object)
		return nil
	}
	// Only now: the kind of the list may be known, and the pool's workers do not know it.
	l.d.root.complete(&ev.Object, l.itemKind(), l.apiVersion)
	return l.yield(ev.Object)
}

// needsKind reports whether o cannot be yielded before the kind and the API version of the list are
// known: it has no type, and says neither. In JSON servers write both first, where items say
// neither, and the files of mocks may have them behind. In CBOR a server writes the members of a
// list in another order each time. So such items are held until the end of the list, and those
// behind them, to keep their order.
func (l *jsonList) needsKind(o *Object) bool {
	return l.d.root.untyped && o.Value != nil && o.Ident.Kind == "" && o.Ident.APIVersion == "" && (l.kind == "" || l.apiVersion == "")
}

// string consumes a string, which may have escapes.
func (l *jsonList) string() (string, error) {
	b := &l.d.buf
	if err := l.expect('"'); err != nil {
		return "", err
	}
	// value wants the quote too.
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

// more consumes a comma or the closing bracket, and reports whether it was a comma.
func (l *jsonList) more(closing byte) (bool, error) {
	b := &l.d.buf
	c, err := l.pool.peek(b)
	if err != nil {
		return false, b.truncated(err)
	}
	// expect makes the error.
	if c != ',' && c != closing {
		return false, l.expect(closing)
	}
	l.pool.addSeparator(b.take(1))
	return c == ',', nil
}

// expect consumes white space and the byte want.
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
