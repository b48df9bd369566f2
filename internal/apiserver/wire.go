package apiserver

import (
	"encoding/json"
	"fmt"
	"strconv"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/watch"

	"github.com/go-lw/lw/internal/history"
	"github.com/go-lw/lw/internal/wire"
)

// A Unit is one event of a stream, or one item of a list.
type Unit struct {
	Type    watch.EventType // "" for an item of a list
	Key     types.NamespacedName
	Version uint64
	End     bool // whether it is the bookmark that ends the initial events of a streamed list

	// Object, if set, is sent in place of the object. It should be JSON but may be anything.
	Object []byte
	// Frame, if set, is sent in place of everything that belongs to the unit: in a stream the
	// length or the line break as well.
	Frame []byte

	obj    *stored
	status *metav1.Status
	none   bool // there is nothing to send
}

// unitOf returns the unit that an event of the history is sent as.
func unitOf(ev history.Event[*content]) Unit {
	u := Unit{Type: ev.Type, Version: ev.Version, End: ev.InitialEventsEnd, obj: ev.Object}
	if ev.Object != nil {
		u.Key = ev.Object.Key
	}
	return u
}

// A codec encodes the units of one answer. What goes around their objects is package wire's.
type codec struct {
	res    *Resource
	format wire.Format
	frames *wire.Codec

	include metav1.IncludeObjectPolicy // what the rows of a table have beside their cells
	columns bool                       // a table has been sent, whose columns count for those to come
}

func newCodec(r *Resource, f wire.Format, include metav1.IncludeObjectPolicy) codec {
	columns := wire.Columns()
	if f.Shape == wire.Table && r.Table != nil {
		if t, err := r.Table([]byte(r.head() + "{}}")); err == nil {
			columns = t.ColumnDefinitions
		}
	}
	return codec{res: r, format: f, frames: wire.NewCodec(f, r.typeMeta(), columns), include: include}
}

// row returns the unit's object as a row of a table.
func (c codec) row(u Unit) ([]byte, error) {
	named, object := u.Object, u.Object
	if u.Object == nil {
		var err error
		if named, err = c.res.encode(u.obj, u.Version, partialJSON); err != nil {
			return nil, err
		}
		object = named
		if c.include == metav1.IncludeObject {
			if object, err = c.res.encode(u.obj, u.Version, fullJSON); err != nil {
				return nil, err
			}
		}
	}
	if c.include == metav1.IncludeNone {
		object = []byte("null")
	}
	if c.res.Table != nil && u.obj != nil && u.Object == nil {
		full, err := c.res.encode(u.obj, u.Version, fullJSON)
		if err != nil {
			return nil, err
		}
		t, err := c.res.Table(full)
		if err != nil {
			return nil, err
		}
		if len(t.Rows) != 1 {
			return nil, fmt.Errorf("apiserver: the table of %s %s has %d rows", c.res.Kind, u.obj.Key, len(t.Rows))
		}
		return wire.TableCells(t.Rows[0].Cells, object)
	}
	return wire.TableRow(named, object, nil, time.Now())
}

// json returns the unit's object as JSON.
func (c codec) json(u Unit) ([]byte, error) {
	f := wire.Format{Shape: c.format.Shape}
	switch {
	case u.Object != nil:
		return u.Object, nil
	case u.status != nil:
		return mustJSON(u.status), nil
	case u.obj != nil:
		return c.res.encode(u.obj, u.Version, f)
	}
	return wire.NewCodec(f, c.res.typeMeta(), nil).Bookmark(u.Version, u.End), nil
}

// object returns the unit's object as package wire wants it, and the codec for it: that of its
// kind, which a fault may have changed.
func (c codec) object(u Unit) ([]byte, *wire.Codec, error) {
	if c.format.Shape == wire.Table && u.status == nil {
		if u.obj == nil && u.Object == nil {
			return c.frames.Bookmark(u.Version, u.End), c.frames, nil
		}
		row, err := c.row(u)
		if err != nil {
			return nil, nil, err
		}
		meta := metav1.ListMeta{ResourceVersion: strconv.FormatUint(u.Version, 10)}
		return c.frames.AppendTable(nil, &meta, !c.columns, row), c.frames, nil
	}
	switch c.format.Encoding {
	case wire.JSON:
		object, err := c.json(u)
		return object, c.frames, err
	case wire.CBOR:
		object, err := c.json(u)
		if err != nil {
			return nil, nil, err
		}
		return cborOf(object), c.frames, nil
	}
	switch {
	case u.Object != nil:
		kind := c.frames.Kind()
		var said metav1.TypeMeta
		if json.Unmarshal(u.Object, &said) == nil {
			kind = said
		}
		convert := c.res.Proto
		if c.format.Shape == wire.Partial {
			convert = Proto[metav1.PartialObjectMetadata]()
		}
		message, err := convert(u.Object)
		if err != nil {
			// The JSON is not an object of the type. Its counterpart is a message that no decoder
			// accepts: there is no wire type 7.
			message = []byte{1<<3 | 7}
		}
		return message, c.of(kind), nil
	case u.status != nil:
		message, err := u.status.Marshal()
		return message, c.of(u.status.TypeMeta), err
	case u.obj != nil:
		message, err := c.res.encode(u.obj, u.Version, c.format)
		return message, c.frames, err
	}
	return c.frames.Bookmark(u.Version, u.End), c.frames, nil
}

// of returns a codec for objects of another kind.
func (c codec) of(kind metav1.TypeMeta) *wire.Codec {
	return wire.NewCodec(wire.Format{Encoding: c.format.Encoding}, kind, nil)
}

// appendFrame appends the unit as a frame of a stream.
func (c codec) appendFrame(b []byte, u Unit) ([]byte, error) {
	if u.Frame != nil {
		return append(b, u.Frame...), nil
	}
	object, frames, err := c.object(u)
	if err != nil {
		return nil, err
	}
	return frames.AppendEvent(b, u.Type, object), nil
}

// appendItem appends the unit as an item of a list, without a comma between items. Items of
// built-in resources leave out kind and apiVersion in JSON.
func (c codec) appendItem(b []byte, u Unit) ([]byte, error) {
	if u.Frame != nil {
		return append(b, u.Frame...), nil
	}
	if c.format.Encoding != wire.Protobuf && c.format.Shape == wire.Full && !c.res.Custom && u.Object == nil {
		object, err := c.json(u)
		if err != nil {
			return b, err
		}
		// The encoding begins with kind and apiVersion. Leave out everything before the metadata.
		const metadata = `"metadata":`
		u.Object = append([]byte{'{'}, object[len(c.res.head())-len(metadata):]...)
	}
	if c.format.Shape == wire.Table {
		row, err := c.row(u)
		return append(b, row...), err
	}
	object, frames, err := c.object(u)
	if err != nil {
		return b, err
	}
	return append(frames.AppendItemHead(b, true, len(object)), object...), nil
}
