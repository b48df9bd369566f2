package decode

import (
	"fmt"

	"k8s.io/apimachinery/pkg/types"
)

// magic begins every object and every list in protobuf. An envelope follows. That is a message,
// runtime.Unknown: field 1 has the API version and the kind, field 2 the bytes of the object or
// list itself. The objects in a list have no envelope: their kind follows from the list's.
// https://kubernetes.io/docs/reference/using-api/api-concepts/#protobuf-encoding
const magic = "k8s\x00"

// An envelope is a runtime.Unknown. raw is a part of the input.
type envelope struct {
	apiVersion, kind string
	raw              []byte
}

// typeMeta reads field 1 of an envelope: a message of the API version, 1, and the kind, 2.
func (e *envelope) typeMeta(d *Decoder, data []byte) error {
	return d.wires.each(data, func(w *wire, num, typ int) (bool, error) {
		to := &e.apiVersion
		switch num {
		case 1:
		case 2:
			to = &e.kind
		default:
			return false, nil
		}
		// The pool has both: they are the same for all objects of a watch.
		b, err := w.message(typ)
		*to, _, _ = d.strings.get(b)
		return true, err
	})
}

// open reads the envelope of an object whose bytes are all in data. Further fields of it, which say
// how the object is encoded, are skipped.
func (e *envelope) open(d *Decoder, data []byte) error {
	if len(data) < len(magic) || string(data[:len(magic)]) != magic {
		return fmt.Errorf("%w: an object begins with %.4q", errWire, data)
	}
	return d.wires.each(data[len(magic):], func(w *wire, num, typ int) (taken bool, err error) {
		var b []byte
		switch num {
		case 1:
			if b, err = w.message(typ); err == nil {
				err = e.typeMeta(d, b)
			}
		case 2:
			// Not a copy: the object is decoded before the input changes.
			e.raw, err = w.message(typ)
		default:
			return false, nil
		}
		return true, err
	})
}

// messageIdent returns what identifies the object whose message is data, for an object that cannot
// be decoded. In every API type field 1 is the ObjectMeta, whose numbers are below. It reads as far
// as it gets.
func (d *Decoder) messageIdent(data []byte) Ident {
	var id Ident
	// The decoding of the object has an error already, so this one is of no interest.
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
			// The numbers are those of ObjectMeta in generated.proto of apimachinery's meta/v1.
			case 1:
				to = &id.Name
			case 3:
				to = &id.Namespace
			case 6:
				to = &id.ResourceVersion
			// The UID has a type of its own, and is set below.
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
