package decode

import (
	"encoding/binary"
	"fmt"
	"io"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// A protobufList is a list while it is read. Every list type has its metadata as field 1 and its items as field 2.
type protobufList struct {
	d     *Decoder
	pool  *workerPool
	yield func(Object) error
	envelope
	meta   metav1.ListMeta
	found  bool // the list in its envelope
	status metav1.Status
}

func (l *protobufList) read() error {
	b := &l.d.buf
	head, err := b.exactly(uint64(len(magic)))
	if err != nil {
		return err
	}
	if string(head) != magic {
		return fmt.Errorf("%w: a list begins with %.4q", errWire, head)
	}
	for {
		num, typ, err := b.field()
		if err == io.EOF {
			break
		}
		if err != nil {
			return err
		}
		switch {
		case num == 1 && typ == wireBytes:
			err = b.message(func(data []byte) error { return l.typeMeta(l.d, data) })
		case num == 2 && typ == wireBytes:
			err = l.pool.drain(l.readList())
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
	if !l.found {
		return fmt.Errorf("%.100s without items", l.kind)
	}
	return nil
}

// readList reads the list that stands in the envelope, without waiting for the whole of it.
func (l *protobufList) readList() error {
	b := &l.d.buf
	n, err := b.uvarint()
	if err != nil {
		return err
	}
	end := b.offset() + int64(n)
	if int64(n) < 0 || end < 0 {
		return fmt.Errorf("%w: a list of %d bytes", errWire, n)
	}
	l.found = true
	if l.kind == "Status" {
		raw, err := b.exactly(n)
		if err != nil {
			return err
		}
		return l.status.Unmarshal(raw)
	}
	if l.kind != "" {
		if err := l.d.checkList(l.kind, l.apiVersion, nil); err != nil {
			return err
		}
	}
	l.pool.configure((*Decoder).decodeProtobufItem, func(ev Event) error { return l.yield(ev.Object) }, nil)
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
	if b.offset() > end {
		return fmt.Errorf("%w: a list of %d bytes ends in a field", errWire, n)
	}
	return nil
}

func (l *protobufList) item(data []byte) error {
	if l.pool.active() {
		return l.pool.add(data, 0)
	}
	obj, err := l.d.decodeMessage(data)
	if err != nil {
		return err
	}
	return l.yield(obj)
}

// itemProtobuf is item for the message of one.
func (d *Decoder) decodeProtobufItem(data []byte, _ int64) (Event, error) {
	obj, err := d.decodeMessage(data)
	return Event{Object: obj}, err
}

// nextProtobuf reads an event, which is a frame: four bytes of length and a WatchEvent.
func (w *watchStream) nextProtobuf() (more bool, err error) {
	b := &w.d.buf
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
	if string(head) == magic && size > uint64(b.limit) {
		return false, w.d.notFrames()
	}
	frame, err := b.exactly(size)
	if err != nil {
		return false, err
	}
	return true, w.handle(frame, 0)
}

// noEvent is the error for an object that stands where frames should, as the answer to another request does.
func (d *Decoder) notFrames() error {
	var u envelope
	for {
		num, typ, err := d.buf.field()
		switch {
		case err == io.EOF && u.kind == "Status":
			return statusError(&metav1.Status{})
		case err != nil:
			return d.buf.truncated(err)
		case num == 1 && typ == wireBytes:
			err = d.buf.message(func(data []byte) error { return u.typeMeta(d, data) })
		case num == 2 && typ == wireBytes && u.kind == "Status":
			var s metav1.Status
			if err = d.buf.message(s.Unmarshal); err == nil {
				return statusError(&s)
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

// holdsFrame reports whether data has a whole frame.
func (b *buffer) hasFrame() bool {
	rest := b.data[b.pos:]
	return len(rest) > 4 && uint64(len(rest)-4) >= uint64(binary.BigEndian.Uint32(rest))
}

// frameProtobuf decodes a WatchEvent: its type is field 1, its object field 2, in which field 1 has the bytes.
func (d *Decoder) decodeProtobufFrame(frame []byte, _ int64) (Event, error) {
	var typ string
	var object []byte
	err := d.wires.each(frame, func(f *wire, num, wt int) (taken bool, err error) {
		var b []byte
		switch num {
		case 1:
			b, err = f.message(wt)
			typ = d.eventTypes.intern(d, b)
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

// event decodes an event whose object is in the envelope in object.
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
		obj.Ident.Kind, obj.Ident.APIVersion = u.kind, u.apiVersion
		return Event{Type: typ, Object: obj}, nil
	case typ == "BOOKMARK":
		var o metav1.PartialObjectMetadata
		// Every kind has its metadata as field 1, and what else a bookmark's object has is of no interest.
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
		return bookmark(&o)
	case typ == "ERROR":
		var s metav1.Status
		if u.kind != "Status" {
			return Event{}, fmt.Errorf("an ERROR event with a %.100q, not a Status", u.kind)
		}
		if err := s.Unmarshal(u.raw); err != nil {
			return Event{}, fmt.Errorf("an ERROR event: %w", err)
		}
		return Event{}, statusError(&s)
	}
	return Event{}, unknownType(typ)
}
