package decode

import (
	"hash/maphash"
	"reflect"

	"k8s.io/apimachinery/pkg/api/resource"
)

// quantitySlots is the number of quantities that a quantityPool remembers.
const quantitySlots = 256

// A quantityPool remembers what the few quantities that a cluster uses decode to, from JSON or protobuf. Those that need a decimal
// number, which is memory of their own, are not.
type quantityPool struct{ table []knownQuantity }

type knownQuantity struct {
	raw   string
	value resource.Quantity
}

// decode sets the quantity at p to what raw decodes to, which inner decodes if it is not known.
func (q *quantityPool) decode(raw []byte, p pointer, inner func(*resource.Quantity, []byte) error) error {
	to := as[resource.Quantity](p)
	if len(raw) == 0 || len(raw) > maxIntern || *to != (resource.Quantity{}) {
		return inner(to, raw)
	}
	if q.table == nil {
		q.table = make([]knownQuantity, quantitySlots)
	}
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

// hasDecimal reports whether q has a decimal number.
func hasDecimal(q *resource.Quantity) bool {
	return !reflect.ValueOf(q).Elem().FieldByName("d").Field(0).IsNil()
}

func decodeQuantity(d *Decoder, p pointer) error {
	raw, err := d.p.raw()
	if err != nil {
		return err
	}
	return d.mismatch(d.quantities.decode(raw, p, (*resource.Quantity).UnmarshalJSON))
}

func wireQuantity(d *Decoder, w *wire, typ int, p pointer) error {
	b, err := w.message(typ)
	if err != nil {
		return err
	}
	return d.quantities.decode(b, p, (*resource.Quantity).Unmarshal)
}
