package standard

import (
	"errors"
	"fmt"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/runtime/serializer/cbor"
	"k8s.io/apimachinery/pkg/runtime/serializer/cbor/direct"
	"k8s.io/apimachinery/pkg/runtime/serializer/json"
	"k8s.io/apimachinery/pkg/runtime/serializer/protobuf"
	utiljson "k8s.io/apimachinery/pkg/util/json"

	"github.com/go-lw/lw/internal/decode"
)

// noTypes is a scheme without types. The serializers ask it of the type of an object, and decode one
// that it does not know as it is.
var noTypes = runtime.NewScheme()

// unsaid is the kind of an object that does not say its own. serializer/json and serializer/cbor
// demand one, which items of lists do not have.
var unsaid = schema.GroupVersionKind{Group: "unsaid", Version: "unsaid", Kind: "unsaid"}

// An into is the runtime.ObjectCreater of a serializer: each object that it makes is obj.
type into struct{ obj runtime.Object }

func (i into) New(schema.GroupVersionKind) (runtime.Object, error) { return i.obj, nil }

// read decodes data into obj by the serializer of enc, and returns the kind that data says. With
// protobuf, data begins with the magic and the envelope of an object.
func read(data []byte, enc decode.Encoding, obj runtime.Object) (decode.Ident, error) {
	return readBy(serializer(enc, obj), data)
}

// readParts is read for CBOR with parts that are decoded later, which stay CBOR in obj.
func readParts(data []byte, obj runtime.Object) (decode.Ident, error) {
	return readBy(cbor.NewSerializer(into{obj}, noTypes, cbor.Transcode(false)), data)
}

func serializer(enc decode.Encoding, obj runtime.Object) runtime.Decoder {
	switch enc {
	case decode.Protobuf:
		return protobuf.NewSerializer(into{obj}, noTypes)
	case decode.CBOR:
		return cbor.NewSerializer(into{obj}, noTypes)
	}
	return json.NewSerializerWithOptions(json.DefaultMetaFactory, into{obj}, noTypes, json.SerializerOptions{})
}

func readBy(d runtime.Decoder, data []byte) (id decode.Ident, err error) {
	_, is, err := d.Decode(data, &unsaid, nil)
	if is != nil && is.Kind != unsaid.Kind {
		id.Kind = is.Kind
	}
	if is != nil && is.GroupVersion() != unsaid.GroupVersion() {
		id.APIVersion = is.GroupVersion().String()
	}
	return id, err
}

// readMessage decodes data, a protobuf message without an envelope.
func readMessage(data []byte, obj runtime.Object) error {
	_, _, err := protobuf.NewRawSerializer(noTypes, noTypes).Decode(data, nil, obj)
	return err
}

// readEnvelope reads the envelope of an object or a list in protobuf, with its magic.
func readEnvelope(data []byte) (u runtime.Unknown, err error) {
	_, _, err = protobuf.NewSerializer(noTypes, noTypes).Decode(data, nil, &u)
	return u, err
}

// unmarshal decodes JSON as serializer/json does: names are case-sensitive, and whole numbers in an
// any are int64.
func unmarshal(data []byte, v any) error { return utiljson.Unmarshal(data, v) }

// asJSON returns data, which is JSON or an item of CBOR, as JSON.
func asJSON(data []byte, enc decode.Encoding) ([]byte, error) {
	switch enc {
	case decode.Protobuf:
		return nil, errors.New("the type has no Unmarshal, which apimachinery needs for protobuf")
	case decode.CBOR:
		var any runtime.RawExtension
		if err := any.UnmarshalCBOR(data); err != nil {
			return nil, err
		}
		return any.MarshalJSON()
	}
	return data, nil
}

// fillUntyped decodes data into the value of o, which is a runtime.Unstructured. An item of a list
// may lack a kind, which apimachinery's codec for these objects demands: so they are decoded as that
// decodes the items of a list.
func fillUntyped(o *decode.Object, data []byte, enc decode.Encoding) (err error) {
	var content map[string]any
	switch enc {
	case decode.Protobuf:
		_, err = asJSON(data, enc)
	case decode.CBOR:
		err = direct.Unmarshal(data, &content)
	default:
		err = unmarshal(data, &content)
	}
	if err == nil && content == nil {
		err = errNull
	}
	if err != nil {
		return err
	}
	o.Value.(runtime.Unstructured).SetUnstructuredContent(content)
	o.Ident.Kind, _ = content["kind"].(string)
	o.Ident.APIVersion, _ = content["apiVersion"].(string)
	return nil
}

var errNull = errors.New("null, want an object")

// statusIn returns the error that data is, the Status of an ERROR event or of a whole body.
func statusIn(data []byte, enc decode.Encoding) error {
	var s metav1.Status
	id, err := read(data, enc, &s)
	if err != nil || id.Kind != "Status" {
		return fmt.Errorf("an ERROR event without a Status: %.200q", data)
	}
	return decode.StatusError(&s)
}
