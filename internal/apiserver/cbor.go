package apiserver

import (
	"bytes"
	"encoding/binary"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/serializer/cbor"
	"k8s.io/apimachinery/pkg/runtime/serializer/cbor/direct"
	utiljson "k8s.io/apimachinery/pkg/util/json"
)

// selfDescribed is the tag that is before each answer in CBOR, and marks it as such.
const selfDescribed = "\xd9\xd9\xf7"

// cborSerializer encodes objects without a type, for which it needs no scheme.
var cborSerializer = cbor.NewSerializer(nil, nil)

// cborOf returns the CBOR of an object that is given as JSON, without the mark of CBOR. As on a
// real server, the members come in another order each time. What is no JSON becomes CBOR that no
// decoder accepts: no item begins with 0x1c.
func cborOf(object []byte) []byte {
	var v any
	if utiljson.Unmarshal(object, &v) != nil {
		return []byte{0x1c}
	}
	content, ok := v.(map[string]any)
	if !ok {
		return mustCBOR(v)
	}
	var b bytes.Buffer
	if err := cborSerializer.EncodeNondeterministic(&unstructured.Unstructured{Object: content}, &b); err != nil {
		panic(err) // cannot happen: all values are from JSON
	}
	return b.Bytes()[len(selfDescribed):]
}

// cborList returns the list whose items are in message. The items stand at different places among
// the members, as on a real server. If the list is not complete it ends with the items, of which it
// announces one more than it has.
func (a *answer) cborList(complete bool) []byte {
	kind := a.frames.Kind()
	members := [][2]any{{"kind", kind.Kind + "List"}, {"apiVersion", kind.APIVersion}, {"metadata", a.meta}}
	const array, pairs = 4 << 5, 5 << 5
	b := append([]byte(selfDescribed), pairs|byte(len(members)+1))
	for i := range len(members) + 1 {
		if i == a.items%(len(members)+1) {
			n := uint32(a.items)
			if !complete {
				n++
			}
			b = append(append(b, mustCBOR("items")...), array|26) // 26: four bytes of number follow
			b = append(binary.BigEndian.AppendUint32(b, n), a.message...)
			if !complete {
				return b
			}
		}
		if i < len(members) {
			b = append(append(b, mustCBOR(members[i][0])...), mustCBOR(members[i][1])...)
		}
	}
	return b
}

// mustCBOR encodes what always can be encoded.
func mustCBOR(v any) []byte {
	b, err := direct.Marshal(v)
	if err != nil {
		panic(err)
	}
	return b
}
