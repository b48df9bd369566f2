package serve

import (
	"fmt"
	"strconv"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/watch"

	"github.com/go-lw/lw/internal/wire"
)

func (f *frame) event() []byte { return f.chunk[f.from:f.to] }

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
func (enc *encoder) frameOf(e *event, typ watch.EventType, f format) (frame, error) {
	e.mu.Lock()
	defer e.mu.Unlock()
	for _, made := range e.frames {
		if made.typ == typ && made.format == f {
			return made.frame, made.err
		}
	}
	made := eventFrame{format: f, typ: typ}
	i := e.new
	if typ == watch.Deleted {
		i = e.old
	}
	made.frame, made.err = enc.itemFrame(i, e.version, typ, f)
	if made.err != nil {
		enc.report(made.err) // once: all watches that wanted it end with the same error
	}
	e.frames = append(e.frames, made)
	enc.history.grew(e, len(made.frame.chunk))
	return made.frame, made.err
}

// itemFrame returns the frame of an event about an item, which for a deletion has another version
// than the item.
func (enc *encoder) itemFrame(i *item, version uint64, typ watch.EventType, f format) (frame, error) {
	if typ == watch.Deleted && version != i.version {
		i = i.as(version)
	}
	object, err := enc.object(i, f)
	if err != nil {
		return frame{}, err
	}
	return newFrame(f.codec.EventSize(typ, len(object)), func(b []byte) []byte { return f.codec.AppendEvent(b, typ, object) }), nil
}

// object returns the bytes of an item as the object of an answer.
func (enc *encoder) object(i *item, f format) ([]byte, error) {
	if f.codec.Format().Shape != wire.Table {
		return enc.body(i, f.codec.Format())
	}
	row, err := enc.tableRow(i, f.include, time.Now())
	if err != nil {
		return nil, err
	}
	return f.codec.AppendTable(nil, &metav1.ListMeta{ResourceVersion: strconv.FormatUint(i.version, 10)}, true, row), nil
}
