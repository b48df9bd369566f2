// Package wire is how a server of the Kubernetes API writes: which format it answers in, how single
// objects, lists, watch events and errors look in that format, and what it says of its resources.
// It follows https://kubernetes.io/docs/reference/using-api/api-concepts/.
//
// Objects are bytes that somebody else has encoded. So a server encodes an object once, and the
// same bytes go into lists, events and answers: a [Codec] has what goes before and after them. The
// bytes are, without anything around them:
//
//   - in JSON one object, with kind and apiVersion if it is not only for lists;
//   - in protobuf the message of the object, without the envelope of four magic bytes and a
//     runtime.Unknown, which a Codec adds where an answer has one;
//   - in CBOR one item, without the tag that marks it as CBOR, which a Codec adds as well.
//
// Functions that append never keep what they are given. What a server reads is here as far as
// several do: the path of a request ([ParsePath]), and the members of an object ([Members]).
package wire

import (
	"encoding/json"
	"math/rand/v2"

	"k8s.io/apimachinery/pkg/runtime/serializer/cbor/direct"
)

// An Encoding is how objects become bytes.
type Encoding uint8

const (
	JSON Encoding = iota
	Protobuf
	CBOR
)

// A Shape is what of an object is sent.
type Shape uint8

const (
	Full    Shape = iota
	Partial       // the metadata alone: PartialObjectMetadata
	Table         // rows for people
)

// A Format is how an answer is encoded. The zero value is whole objects in JSON.
type Format struct {
	Encoding Encoding
	Shape    Shape
}

// Formats is the number of formats.
const Formats = 9

// Index returns the number of the format, from 0 to Formats-1.
func (f Format) Index() int { return int(f.Encoding)*3 + int(f.Shape) }

// The media types. Streams of JSON have that of JSON.
const (
	typeJSON       = "application/json"
	typeProto      = "application/vnd.kubernetes.protobuf"
	typeProtoWatch = typeProto + ";stream=watch"
	typeCBOR       = "application/cbor"
	typeCBORWatch  = "application/cbor-seq"
)

// ContentType returns the media type of an answer in the format, which is a stream of events or
// one object.
func (f Format) ContentType(stream bool) string {
	switch {
	case f.Encoding == Protobuf && stream:
		return typeProtoWatch
	case f.Encoding == Protobuf:
		return typeProto
	case f.Encoding == CBOR && stream:
		return typeCBORWatch
	case f.Encoding == CBOR:
		return typeCBOR
	}
	return typeJSON
}

// mustJSON and mustCBOR encode types of apimachinery that always can be encoded.
func mustJSON(v any) []byte { return must(json.Marshal(v)) }
func mustCBOR(v any) []byte { return must(direct.Marshal(v)) }

func must(b []byte, err error) []byte {
	if err != nil {
		panic(err)
	}
	return b
}

// NameSuffix returns five random letters and digits, without those that make words, which a server
// appends to a generateName.
func NameSuffix() string {
	const letters = "bcdfghjklmnpqrstvwxz2456789"
	b := make([]byte, 5)
	for i := range b {
		b[i] = letters[rand.IntN(len(letters))]
	}
	return string(b)
}
