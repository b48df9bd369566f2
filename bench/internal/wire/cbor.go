package wire

import (
	"bytes"
	"encoding/binary"
	"fmt"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/runtime/serializer/cbor"
	"k8s.io/apimachinery/pkg/runtime/serializer/cbor/direct"
	"k8s.io/apimachinery/pkg/watch"
)

// cborMark is the tag that servers write before each answer and each event.
const cborMark = "\xd9\xd9\xf7"

// cborSerializer encodes as an API server does, which writes the members of each object in another
// order each time.
var cborSerializer = cbor.NewSerializer(nil, nil)

// cborEvent is event in CBOR. An event is a map of two members, and its object has a mark of its
// own. The content is the object's members without their number, and without kind and apiVersion.
func (c *collection) cborEvent(typ watch.EventType, obj runtime.Object) (event, content []byte, err error) {
	had := obj.GetObjectKind().GroupVersionKind()
	obj.GetObjectKind().SetGroupVersionKind(schema.GroupVersionKind{})
	var b bytes.Buffer
	err = cborSerializer.EncodeNondeterministic(obj, &b)
	obj.GetObjectKind().SetGroupVersionKind(had)
	if err != nil {
		return nil, nil, err
	}
	const pairs = 5 << 5
	members := b.Bytes()[len(cborMark)]
	// The number of members, which is below 24, is in the byte of the map's head.
	if members < pairs || members > pairs|20 {
		return nil, nil, fmt.Errorf("its CBOR begins with %x", members)
	}
	content = b.Bytes()[len(cborMark)+1:]
	event = append([]byte(cborMark), pairs|2)
	event = append(append(event, cborText("type")...), cborText(string(typ))...)
	event = append(append(event, cborText("object")...), cborMark...)
	event = append(event, members+2)
	event = append(append(event, cborText("kind")...), cborText(c.gvk.Kind)...)
	event = append(append(event, cborText("apiVersion")...), cborText(c.gvk.GroupVersion().String())...)
	return append(event, content...), content, nil
}

// cborText returns s as a byte string, as servers write all strings. s is short.
func cborText[S ~string](s S) []byte {
	b, err := direct.Marshal(string(s))
	if err != nil {
		panic(err)
	}
	return b
}

// cborList is list in CBOR. Pods have three members besides kind and apiVersion.
func (c *collection) cborList(meta metav1.ListMeta, first, last int) ([]byte, error) {
	m, err := direct.Marshal(meta)
	if err != nil {
		return nil, err
	}
	const array, pairs, fourBytes = 4 << 5, 5 << 5, 26
	b := append([]byte(cborMark), pairs|4)
	b = append(append(b, cborText("kind")...), cborText(c.gvk.Kind+"List")...)
	b = append(append(b, cborText("apiVersion")...), cborText(c.gvk.GroupVersion().String())...)
	b = append(append(b, cborText("metadata")...), m...)
	b = append(append(b, cborText("items")...), array|fourBytes)
	b = binary.BigEndian.AppendUint32(b, uint32(last-first))
	for _, f := range c.frames[first:last] {
		b = append(append(b, pairs|3), f.bytes[f.item:f.end]...)
	}
	return b, nil
}
