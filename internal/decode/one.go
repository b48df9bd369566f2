package decode

import "encoding/binary"

// A Message is an object of a Kubernetes API that writes itself in protobuf.
type Message interface {
	Size() int
	MarshalToSizedBuffer(data []byte) (int, error)
}

// Envelope returns m as [Decoder.One] reads it in protobuf, without a kind.
func Envelope(m Message) ([]byte, error) {
	const raw = 2<<3 | 2 // the field of the object in the envelope
	size := m.Size()
	data := make([]byte, 0, len(magic)+1+binary.MaxVarintLen64+size)
	data = binary.AppendUvarint(append(append(data, magic...), raw), uint64(size))
	head := len(data)
	n, err := m.MarshalToSizedBuffer(data[head : head+size])
	return data[:head+n], err
}

// One decodes data, which is one object and nothing else. With Protobuf, data begins with the magic
// and the envelope of an object. Data that is no JSON or no protobuf is the object's Err, as is
// what does not fit its type. One keeps nothing of data.
//
// The kind is not checked: a store of single objects has no list that could be of another kind.
func (d *Decoder) One(data []byte, enc Encoding) Object {
	var obj Object
	var err error
	switch enc {
	case Protobuf:
		var u envelope
		if err = u.open(d, data); err == nil {
			obj, err = d.decodeMessage(u.raw)
			obj.Ident.Kind, obj.Ident.APIVersion = u.kind, u.apiVersion
		}
	case CBOR:
		data = CBORToJSON(data)
		fallthrough
	default:
		var ev Event
		ev, err = d.decodeItem(data, 0)
		obj = ev.Object
		d.releaseInput()
	}
	if err != nil {
		return Object{Err: err}
	}
	return obj
}

// Again decodes the Raw of an Object, which may come from another Decoder of the same type. An item
// of a list that does not say its kind does not say it here either.
func (d *Decoder) Again(raw []byte, enc Encoding) Object {
	if enc != Protobuf {
		return d.One(raw, enc)
	}
	obj, err := d.decodeMessage(raw)
	if err != nil {
		return Object{Err: err}
	}
	return obj
}
