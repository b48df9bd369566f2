package decode

import (
	"encoding/binary"
	"fmt"
	"io"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// A protobufList reads a list in protobuf: magic, and an envelope with the list's message in it. In
// every list type field 1 of that is the ListMeta, and each field 2 is an item. The envelope begins
// with the length of the list, which the server knows, but the items are decoded while they come.
//
// Unlike in JSON, the length before each item says where it ends, so nothing is guessed, and the
// kind comes before the items.
type protobufList struct {
	d     *Decoder
	pool  *workerPool
	yield func(Object) error
	envelope
	meta metav1.ListMeta
	// found says that the envelope has a list in it.
	found  bool
	status metav1.Status
}

// read reads the envelope to the end of the stream.
func (l *protobufList) read() error {
	b := &l.d.buf
	head, err := b.exactly(uint64(len(magic)))
	if err != nil {
		return err
	}
	// JSON or an HTML page would fail here, with its first bytes in the error.
	if string(head) != magic {
		return fmt.Errorf("%w: a list begins with %.4q", errWire, head)
	}
	for {
		// The end of the stream between two fields is the end of the envelope: it has no length of
		// its own.
		num, typ, err := b.field()
		if err == io.EOF {
			break
		}
		if err != nil {
			return err
		}
		switch {
		// The API version and the kind.
		case num == 1 && typ == wireBytes:
			err = b.message(func(data []byte) error { return l.typeMeta(l.d, data) })
		// The list itself.
		case num == 2 && typ == wireBytes:
			err = l.pool.drain(l.readList())
		// How the list is encoded; nothing that servers write needs it.
		default:
			err = b.skipField(typ)
		}
		if err != nil {
			return err
		}
	}
	if err := l.d.checkList(l.kind, l.apiVersion, &l.status); err != nil {
		return err
	}
	// Even an empty list has metadata. The envelope has no length, so this may be one that was cut off.
	if !l.found {
		return fmt.Errorf("%w: a %.100s of no bytes", errWire, l.kind)
	}
	return nil
}

// readList reads the list in the envelope, item by item.
func (l *protobufList) readList() error {
	b := &l.d.buf
	n, err := b.uvarint()
	if err != nil {
		return err
	}
	end := b.offset() + int64(n)
	// A length that no stream has.
	if int64(n) < 0 || end < 0 {
		return fmt.Errorf("%w: a list of %d bytes", errWire, n)
	}
	l.found = true
	// A Status is short, and no list.
	if l.kind == "Status" {
		// The kind came first, as servers write it: the request has failed, and this is why.
		raw, err := b.exactly(n)
		if err != nil {
			return err
		}
		return l.status.Unmarshal(raw)
	}
	// Refuse another kind before its items are decoded. An empty kind is an error too, but the end
	// of the envelope may still bring it.
	if l.kind != "" {
		if err := l.d.checkList(l.kind, l.apiVersion, nil); err != nil {
			return err
		}
	}
	l.pool.configure((*Decoder).decodeProtobufItem, func(ev Event) error { return l.yield(ev.Object) }, nil)
	// The list's own fields, without waiting for the rest of it. Every item is consumed as a whole,
	// by its length.
	for b.offset() < end {
		num, typ, err := b.field()
		if err != nil {
			return b.truncated(err)
		}
		switch {
		case num == 1 && typ == wireBytes:
			err = b.message(l.meta.Unmarshal)
		case num == 2 && typ == wireBytes:
			err = b.message(l.item)
		default:
			err = b.skipField(typ)
		}
		if err != nil {
			return err
		}
	}
	// The last field went beyond the list. All that follows would be taken for fields of something
	// else.
	if b.offset() > end {
		return fmt.Errorf("%w: a list of %d bytes ends in a field", errWire, n)
	}
	return nil
}

// item yields the item whose message is data, or gives it to the worker pool.
func (l *protobufList) item(data []byte) error {
	// The offset, 0, is of no use: errors of protobuf do not have one.
	if l.pool.active() {
		return l.pool.add(data, 0)
	}
	obj, err := l.d.decodeMessage(data)
	if err != nil {
		return err
	}
	return l.yield(obj)
}

// decodeProtobufItem decodes the item whose message is data. It is a function for the pool, like
// decodeItem.
func (d *Decoder) decodeProtobufItem(data []byte, _ int64) (Event, error) {
	obj, err := d.decodeMessage(data)
	return Event{Object: obj}, err
}

// nextProtobuf reads an event and handles it. It reports false at the end of the stream. An event
// is a frame: four bytes of length, the highest first, and a metav1.WatchEvent. The type is its
// field 1. The object is in field 2, a runtime.RawExtension, whose field 1 has the object's magic
// and envelope.
func (w *watchStream) nextProtobuf() (more bool, err error) {
	b := &w.d.buf
	// Only here, between two frames, the stream may end.
	if b.pos == len(b.data) {
		if err := b.fill(); err == io.EOF {
			return false, nil
		} else if err != nil {
			return false, b.truncated(err)
		}
	}
	head, err := b.exactly(4)
	if err != nil {
		return false, err
	}
	size := uint64(binary.BigEndian.Uint32(head))
	// An object without a frame, such as a Status. As a length, magic is 1.8 GB, so it is one only
	// where the limit allows that.
	if string(head) == magic && size > uint64(b.limit) {
		return false, w.d.notFrames()
	}
	// The limit of an object holds for the frame, which is a few bytes larger.
	frame, err := b.exactly(size)
	if err != nil {
		return false, err
	}
	return true, w.handle(frame, 0)
}

// notFrames returns the error for a stream that is one object, without frames: the answer to
// another request, or a Status. magic has been consumed. It reads the envelope as far as it needs.
func (d *Decoder) notFrames() error {
	var u envelope
	for {
		num, typ, err := d.buf.field()
		switch {
		// A Status without any fields.
		case err == io.EOF && u.kind == "Status":
			return StatusError(&metav1.Status{})
		case err != nil:
			return d.buf.truncated(err)
		case num == 1 && typ == wireBytes:
			err = d.buf.message(func(data []byte) error { return u.typeMeta(d, data) })
		case num == 2 && typ == wireBytes && u.kind == "Status":
			var s metav1.Status
			if err = d.buf.message(s.Unmarshal); err == nil {
				return StatusError(&s)
			}
		case num == 2 && typ == wireBytes:
			return fmt.Errorf("no event: it is a %.100s", u.kind)
		default:
			err = d.buf.skipField(typ)
		}
		if err != nil {
			return err
		}
	}
}

// hasFrame reports whether the unread bytes have a whole frame.
func (b *buffer) hasFrame() bool {
	rest := b.data[b.pos:]
	return len(rest) > 4 && uint64(len(rest)-4) >= uint64(binary.BigEndian.Uint32(rest))
}

// decodeProtobufFrame decodes the event in a frame. It is the decode function of a watch, which the
// pool may call too.
func (d *Decoder) decodeProtobufFrame(frame []byte, _ int64) (Event, error) {
	var typ string
	var object []byte
	err := d.wires.each(frame, func(f *wire, num, wt int) (taken bool, err error) {
		var b []byte
		switch num {
		// Type: one of five words, which eventTypes knows after the first events.
		case 1:
			b, err = f.message(wt)
			typ = d.eventTypes.intern(d, b)
		// Object: a RawExtension, whose field 1 is Raw. The bytes are a part of the frame.
		case 2:
			if b, err = f.message(wt); err != nil {
				return true, err
			}
			err = d.wires.each(b, func(f *wire, num, wt int) (_ bool, err error) {
				if num != 1 {
					return false, nil
				}
				object, err = f.message(wt)
				return true, err
			})
		default:
			return false, nil
		}
		return true, err
	})
	if err != nil {
		return Event{}, fmt.Errorf("a frame: %w", err)
	}
	return d.decodeProtobufEvent(typ, object)
}

// decodeProtobufEvent decodes an event of type typ. object is the magic and the envelope of its
// object.
func (d *Decoder) decodeProtobufEvent(typ string, object []byte) (Event, error) {
	var u envelope
	if err := u.open(d, object); err != nil {
		return Event{}, fmt.Errorf("an event %.40q: %w", typ, err)
	}
	switch {
	case isChange(typ):
		obj, err := d.decodeMessage(u.raw)
		if err != nil {
			return Event{}, err
		}
		// The envelope of each object in a watch says its kind, other than that of an item in a
		// list.
		obj.Ident.Kind, obj.Ident.APIVersion = u.kind, u.apiVersion
		return Event{Type: typ, Object: obj}, nil
	case typ == "BOOKMARK":
		var o metav1.PartialObjectMetadata
		// Field 1 of every kind is its metadata. A bookmark's object has nothing else of interest.
		err := d.wires.each(u.raw, func(f *wire, num, wt int) (bool, error) {
			if num != 1 {
				return false, nil
			}
			b, err := f.message(wt)
			if err == nil {
				err = o.ObjectMeta.Unmarshal(b)
			}
			return true, err
		})
		if err != nil {
			return Event{}, fmt.Errorf("a bookmark: %w", err)
		}
		o.Kind, o.APIVersion = u.kind, u.apiVersion
		return Bookmark(&o)
	case typ == "ERROR":
		var s metav1.Status
		if u.kind != "Status" {
			return Event{}, fmt.Errorf("an ERROR event with a %.100q, not a Status", u.kind)
		}
		if err := s.Unmarshal(u.raw); err != nil {
			return Event{}, fmt.Errorf("an ERROR event: %w", err)
		}
		return Event{}, StatusError(&s)
	}
	return Event{}, unknownType(typ)
}
