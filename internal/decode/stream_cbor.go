package decode

import (
	"fmt"
	"io"
	"slices"
	"sync"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
)

// readCBOR reads a list in CBOR to the end of the stream: a map with the members of a list in JSON,
// in any order. Each item is one of the array, and is decoded while the others come.
//
// The bytes say where each item ends, so nothing is guessed. Each goroutine that decodes items
// writes their JSON itself.
func (l *jsonList) readCBOR() error {
	b := &l.d.buf
	h, err := b.openCBOR("a list", cborMap)
	if err != nil {
		return err
	}
	for n := uint64(0); ; n++ {
		more, err := b.moreCBOR(h, n)
		if err != nil {
			return err
		}
		if !more {
			break
		}
		if err := l.cborMember(); err != nil {
			return err
		}
	}
	if len(b.unread()) == 0 {
		err = b.fill()
	}
	switch {
	case err == nil:
		return fmt.Errorf("%w at byte %d: 0x%02x after the end of the list", errCBOR, b.offset(), b.unread()[0])
	case err != io.EOF:
		return b.truncated(err)
	}
	return l.checkWhole()
}

// cborMember reads a member of the list.
func (l *jsonList) cborMember() error {
	b := &l.d.buf
	var name string
	// A name that is no string, which no list has, stands for the text of its JSON.
	if err := l.cborValue(func(raw []byte) error {
		if unmarshal(raw, &name) != nil {
			name = string(raw)
		}
		return nil
	}); err != nil {
		return err
	}
	if name != "items" {
		return in(name, l.cborValue(func(raw []byte) error { return l.set(name, raw) }))
	}
	if err := l.beginItems(); err != nil {
		return err
	}
	// Items that are null are a list without any, as in JSON.
	c, err := b.firstByte()
	if err == nil && c == cborSimple<<5|22 {
		b.pos++
		return nil
	}
	return l.pool.drain(l.cborItems())
}

// cborItems reads the array of items.
func (l *jsonList) cborItems() error {
	b := &l.d.buf
	h, err := b.openCBOR("the items", cborArray)
	if err != nil {
		return err
	}
	l.pool.configure((*Decoder).decodeCBORItem, l.deliver, nil)
	for n := uint64(0); ; n++ {
		if more, err := b.moreCBOR(h, n); !more {
			return err
		}
		base := b.offset()
		raw, err := b.cborItem()
		if err != nil {
			return err
		}
		if l.pool.active() {
			err = l.pool.add(raw, base)
		} else {
			var ev Event
			if ev, err = l.d.decodeCBORItem(raw, base); err == nil {
				err = l.deliver(ev)
			}
		}
		if err != nil {
			return err
		}
	}
}

// cborValue consumes an item and calls use with its JSON, which is valid until use returns.
func (l *jsonList) cborValue(use func(raw []byte) error) error {
	base := l.d.buf.offset()
	raw, err := l.d.buf.cborItem()
	if err != nil {
		return err
	}
	c := l.d.transcoder(raw, base)
	defer c.release()
	if err := c.value(plainText); err != nil {
		return err
	}
	return use(c.out)
}

// nextCBOR reads an event and handles it. It reports false at the end of the stream. A stream is a
// CBOR sequence (RFC 8742): one item behind another, with nothing between them.
//
// The wait for the event is here, and the rest in functions of their own, as in nextJSON.
func (w *watchStream) nextCBOR() (more bool, err error) {
	c, err := w.d.buf.firstByte()
	if err != nil {
		return false, w.endOf(err)
	}
	return true, w.readCBOR(c)
}

// readCBOR reads an event whose first byte c is at hand, and handles it.
func (w *watchStream) readCBOR(c byte) error {
	b := &w.d.buf
	// Something else than an event, such as JSON, could pass for a string of petabytes.
	if c>>5 != cborMap && c>>5 != cborTag {
		return b.notCBOR("an event")
	}
	base := b.offset()
	raw, err := b.cborItem()
	if err != nil {
		return err
	}
	return w.handle(raw, base)
}

// decodeCBORItem decodes the item of a list whose bytes are raw. It is a function for the pool,
// like decodeItem.
func (d *Decoder) decodeCBORItem(raw []byte, base int64) (Event, error) {
	c := d.beginCBOR(raw, base)
	defer d.endCBOR(c)
	switch err := c.value(plainText).(type) {
	case nil:
		ev, err := d.decodeItem(c.out, 0)
		return ev, c.locate(&ev, err)
	case *FieldError:
		id, wrong := d.identifyCBOR(c)
		return Event{Object: Object{Ident: id, Err: err}}, wrong
	default:
		return Event{}, err
	}
}

// identifyCBOR identifies the object that c has not been able to write as JSON.
func (d *Decoder) identifyCBOR(c *cborToJSON) (Ident, error) {
	if err := c.rest(); err != nil {
		return Ident{}, err
	}
	d.p.reset(c.out, 0)
	return d.identify(), nil
}

// decodeCBOREvent decodes the event that is all of raw. It is the decode function of a watch, which
// the pool may call too.
func (d *Decoder) decodeCBOREvent(raw []byte, base int64) (Event, error) {
	c := d.beginCBOR(raw, base)
	defer d.endCBOR(c)
	wrong := c.value(plainText)
	if _, invalid := wrong.(*FieldError); invalid {
		if err := c.rest(); err != nil {
			return Event{}, err
		}
	} else if wrong != nil {
		return Event{}, wrong
	}
	if c.out[0] != '{' {
		return Event{}, fmt.Errorf("%w at byte %d: an event that is no map", errCBOR, base)
	}
	ev, err := d.decodeLine(c.out, 0)
	err = c.locate(&ev, err)
	if _, status := err.(apierrors.APIStatus); wrong == nil || status {
		return ev, err
	}
	// Something was invalid, and a null stands in its place. In an object it is an error of that
	// object alone, and elsewhere one of the watch.
	if err == nil && isChange(ev.Type) {
		start, end, err := c.member("object")
		if err != nil {
			return Event{}, err
		}
		item, err := d.decodeCBORItem(raw[start:end], base+int64(start))
		if ev.Object = item.Object; err != nil || ev.Object.Err != nil {
			return ev, err
		}
	}
	return Event{}, fmt.Errorf("an event %.40q: %w", ev.Type, wrong)
}

// CBORToJSON returns the JSON of the item that data begins with. If data ends before the item does,
// or has bytes that are no CBOR, it returns the JSON of what is before them. What JSON cannot have
// is null.
func CBORToJSON(data []byte) []byte {
	c := cborToJSON{data: data, limit: MaxObject, lenient: true}
	_ = c.value(plainText)
	return c.out
}

// beginCBOR returns a transcoder for the object or event raw, which endCBOR gives back.
func (d *Decoder) beginCBOR(raw []byte, base int64) *cborToJSON {
	d.rotated = true
	return d.transcoder(raw, base)
}

func (d *Decoder) endCBOR(c *cborToJSON) {
	d.rotated = false
	d.releaseInput() // the parser must not keep the memory of c
	c.release()
}

// transcoders has the memory in which decoders write JSON. It is shared by all: a program may have
// hundreds of watches, and few of them decode at a time.
var transcoders = sync.Pool{New: func() any { return new(cborToJSON) }}

// transcoder returns one for the item raw, whose offset in the stream is base.
func (d *Decoder) transcoder(raw []byte, base int64) *cborToJSON {
	c := transcoders.Get().(*cborToJSON)
	*c = cborToJSON{data: raw, base: base, out: c.out[:0], limit: d.opts.Limit}
	// JSON mostly takes a little more.
	c.out = slices.Grow(c.out, min(len(raw)+len(raw)/4, c.limit))
	return c
}

// release gives c back, whose memory nobody uses any more.
func (c *cborToJSON) release() {
	c.data = nil
	if cap(c.out) > maxKeptBytes {
		c.out = nil
	}
	transcoders.Put(c)
}

// rest writes all of the item again, with null for what is invalid.
func (c *cborToJSON) rest() error {
	c.pos, c.depth, c.out, c.lenient = 0, 0, c.out[:0], true
	return c.value(plainText)
}

// locate returns err, or that of ev, with the offset in the stream of CBOR in the place of that in
// JSON.
func (c *cborToJSON) locate(ev *Event, err error) error {
	for _, err := range []error{err, ev.Object.Err} {
		if e, ok := err.(*FieldError); ok && e.Offset >= 0 {
			// The value that ends there, or the first one behind it.
			again := cborToJSON{data: c.data, limit: c.limit, lenient: c.lenient, until: max(int(e.Offset), 1)}
			_ = again.value(plainText)
			e.Offset = c.base + int64(again.pos)
		}
	}
	return err
}

// member returns where in data the value of the last member name is, of the map that is the item.
// Both are 0 if there is none.
func (c *cborToJSON) member(name string) (start, end int, err error) {
	scan := cborToJSON{data: c.data, base: c.base, limit: c.limit, lenient: true}
	h, err := scan.head()
	for err == nil && h.major == cborTag {
		h, err = scan.head()
	}
	for n := uint64(0); err == nil; n++ {
		var more bool
		if more, err = scan.more(h, n); !more {
			break
		}
		scan.out = scan.out[:0]
		if err = scan.key(); err != nil {
			break
		}
		found := string(scan.out) == `"`+name+`"`
		from := scan.pos
		if err = scan.value(plainText); err == nil && found {
			start, end = from, scan.pos
		}
	}
	return start, end, err
}

// firstByte returns the byte that is next, without consuming it. At the end of the stream the error
// is io.EOF.
func (b *buffer) firstByte() (byte, error) {
	if b.pos == len(b.data) {
		if err := b.fill(); err != nil {
			return 0, err
		}
	}
	return b.data[b.pos], nil
}

// openCBOR consumes the head of an item, with the tags before it. The item must be of type major;
// what says for the error what it should be.
func (b *buffer) openCBOR(what string, major byte) (cborHead, error) {
	for {
		c, err := b.firstByte()
		if err != nil {
			return cborHead{}, b.truncated(err)
		}
		if c>>5 != major && c>>5 != cborTag {
			return cborHead{}, b.notCBOR(what)
		}
		h, err := b.cborHead()
		if err != nil || h.major == major {
			return h, err
		}
	}
}

// notCBOR returns the error for bytes that are not what they should be. JSON or an HTML page would
// fail so.
func (b *buffer) notCBOR(what string) error {
	return fmt.Errorf("%w at byte %d: %s begins with %q", errCBOR, b.offset(), what, b.unread()[0])
}

// moreCBOR is cborToJSON.more for a stream.
func (b *buffer) moreCBOR(h cborHead, n uint64) (bool, error) {
	if !h.indefinite() {
		return n < h.arg, nil
	}
	c, err := b.firstByte()
	if err != nil {
		return false, b.truncated(err)
	}
	if c != cborBreak {
		return true, nil
	}
	b.pos++
	return false, nil
}
