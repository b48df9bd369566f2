package decode

import (
	"hash/maphash"
	"reflect"

	"k8s.io/apimachinery/pkg/api/resource"
)

// quantitySlots is the number of quantities that a quantityPool remembers.
const quantitySlots = 256

// A quantityPool remembers what the few quantities of a cluster decode to, such as "100m" or "1Gi".
// To parse one takes much longer than to look it up. The key is the bytes. Those of JSON begin with
// a quote, a sign or a digit and those of protobuf with a tag, so the two cannot be mistaken for
// each other.
//
// A large or precise quantity holds a pointer to a decimal number. It is not remembered, because
// its copies would share that number, and arithmetic changes it in place.
type quantityPool struct{ table []knownQuantity }

// A knownQuantity is the bytes of a quantity and what they decode to.
type knownQuantity struct {
	raw   string
	value resource.Quantity
}

// decode decodes raw into the quantity at p. inner does it if raw is not known. A quantity that is
// not zero is left to inner as well, which may merge into it.
func (q *quantityPool) decode(raw []byte, p pointer, inner func(*resource.Quantity, []byte) error) error {
	to := as[resource.Quantity](p)
	if len(raw) == 0 || len(raw) > maxIntern || *to != (resource.Quantity{}) {
		return inner(to, raw)
	}
	if q.table == nil {
		q.table = make([]knownQuantity, quantitySlots)
	}
	// Each hash has one slot, and a new quantity replaces the one in it.
	known := &q.table[maphash.Bytes(seed, raw)%quantitySlots]
	if known.raw == string(raw) {
		*to = known.value
		return nil
	}
	err := inner(to, raw)
	if err == nil && !hasDecimal(to) {
		*known = knownQuantity{string(raw), *to}
	}
	return err
}

// hasDecimal reports whether q holds a pointer to a decimal number, in a private field.
func hasDecimal(q *resource.Quantity) bool {
	return !reflect.ValueOf(q).Elem().FieldByName("d").Field(0).IsNil()
}

// decodeQuantity decodes a quantity from JSON: a string or a number.
func decodeQuantity(d *Decoder, p pointer) error {
	raw, err := d.p.raw()
	if err != nil {
		return err
	}
	return d.mismatch(d.quantities.decode(raw, p, (*resource.Quantity).UnmarshalJSON))
}

// wireQuantity decodes a quantity from protobuf: a message with the string as its field 1.
func wireQuantity(d *Decoder, w *wire, typ int, p pointer) error {
	b, err := w.message(typ)
	if err != nil {
		return err
	}
	return d.quantities.decode(b, p, (*resource.Quantity).Unmarshal)
}
