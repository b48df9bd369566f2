package serve

import (
	"fmt"

	"k8s.io/apimachinery/pkg/watch"
)

// A frame is one event of a watch in one format, as it goes over the connection. It is made once
// for all watches that send it, and not changed.
type frame struct {
	chunk    []byte // of HTTP/1.1: the length in hexadecimal digits, the event, and a line break
	from, to int    // the place of the event in chunk
}

func (f *frame) event() []byte { return f.chunk[f.from:f.to] }

// A framed is a frame of an event, with what it is for. Of an event there may be several: a watch
// with a selector may see a change as a creation.
type framed struct {
	format format
	typ    watch.EventType
	frame  frame
	err    error
}

// newFrame puts the bytes that write appends into a chunk.
func newFrame(size int, write func(b []byte) []byte) frame {
	// The length is not known before the event is written, so leave room for its digits.
	const room = 10
	b := write(append(make([]byte, 0, room+size+2), "0000000000"...))
	head := fmt.Sprintf("%x\r\n", len(b)-room)
	copy(b[room-len(head):], head)
	b = append(b, "\r\n"...)
	return frame{b[room-len(head):], len(head), len(b) - 2 - (room - len(head))}
}

// frameOf returns the frame of an event.
func (s *served) frameOf(e *event, typ watch.EventType, f format) (frame, error) {
	e.mu.Lock()
	defer e.mu.Unlock()
	for _, made := range e.frames {
		if made.typ == typ && made.format == f {
			return made.frame, made.err
		}
	}
	made := framed{format: f, typ: typ}
	i := e.new
	if typ == watch.Deleted {
		i = e.old
	}
	made.frame, made.err = s.itemFrame(i, e.version, typ, f)
	if made.err != nil {
		s.handler.report(s, made.err) // once: all watches that wanted it end with the same error
	}
	e.frames = append(e.frames, made)
	s.grew(e, len(made.frame.chunk))
	return made.frame, made.err
}

// itemFrame returns the frame of an event about an item, which for a deletion has another version
// than the item.
func (s *served) itemFrame(i *item, version uint64, typ watch.EventType, f format) (frame, error) {
	if typ == watch.Deleted && version != i.version {
		i = i.as(version)
	}
	object, err := s.object(i, f)
	if err != nil {
		return frame{}, err
	}
	return newFrame(f.codec.EventSize(typ, len(object)), func(b []byte) []byte { return f.codec.AppendEvent(b, typ, object) }), nil
}
