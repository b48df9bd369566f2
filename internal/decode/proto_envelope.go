package decode

import (
	"fmt"

	"k8s.io/apimachinery/pkg/types"
)

// magic begins a protobuf object. The message behind it is a runtime.Unknown, which has the kind and the object's bytes.
const magic = "k8s\x00"

// unknown is a runtime.Unknown.
type envelope struct {
	apiVersion, kind string
	raw              []byte
}

func (u *envelope) typeMeta(d *Decoder, data []byte) error {
	return d.wires.each(data, func(w *wire, num, typ int) (bool, error) {
		to := &u.apiVersion
		switch num {
		case 1:
		case 2:
			to = &u.kind
		default:
			return false, nil
		}
		b, err := w.message(typ)
		*to, _, _ = d.strings.get(b)
		return true, err
	})
}

// open reads the envelope of an object.
func (u *envelope) open(d *Decoder, data []byte) error {
	if len(data) < len(magic) || string(data[:len(magic)]) != magic {
		return fmt.Errorf("%w: an object begins with %.4q", errWire, data)
	}
	return d.wires.each(data[len(magic):], func(w *wire, num, typ int) (taken bool, err error) {
		var b []byte
		switch num {
		case 1:
			if b, err = w.message(typ); err == nil {
				err = u.typeMeta(d, b)
			}
		case 2:
			u.raw, err = w.message(typ)
		default:
			return false, nil
		}
		return true, err
	})
}

// messageIdent returns what identifies the object of which data is the message.
func (d *Decoder) messageIdent(data []byte) Ident {
	var id Ident
	// What the bytes do not tell is left empty; the decoding of the object itself tells why.
	_ = d.wires.each(data, func(w *wire, num, typ int) (bool, error) {
		if num != 1 {
			return false, nil
		}
		meta, err := w.message(typ)
		if err != nil {
			return true, err
		}
		return true, d.wires.each(meta, func(w *wire, num, typ int) (bool, error) {
			var s string
			to := &s
			switch num {
			case 1:
				to = &id.Name
			case 3:
				to = &id.Namespace
			case 6:
				to = &id.ResourceVersion
			case 5:
			default:
				return false, nil
			}
			b, err := w.message(typ)
			*to = string(b)
			if num == 5 {
				id.UID = types.UID(b)
			}
			return true, err
		})
	})
	return id
}
