package serve

import (
	"encoding/json"
	"errors"
	"fmt"
	"runtime/debug"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	cbor "k8s.io/apimachinery/pkg/runtime/serializer/cbor/direct"
	utiljson "k8s.io/apimachinery/pkg/util/json"

	"github.com/go-lw/lw/internal/wire"
)

// body returns the bytes of an item in a format, which is not a table. They are made once, and
// shared by all who ask.
func (s *served) body(i *item, f wire.Format) ([]byte, error) {
	if data := i.encoded(f); data != nil {
		return data, nil
	}
	mu := s.encoders.of(i)
	mu.Lock()
	defer mu.Unlock()
	return s.bodyLocked(i, f)
}

// bodyLocked is body for whoever has the item's lock of s.encoders.
func (s *served) bodyLocked(i *item, f wire.Format) ([]byte, error) {
	if data := i.encoded(f); data != nil {
		return data, nil
	}
	data, err := s.encodeLocked(i, f)
	if err != nil {
		return nil, fmt.Errorf("serve: %s: encode %s: %w", s.name, i.path, err)
	}
	s.keep(i, f, data)
	return data, nil
}

func (s *served) encodeLocked(i *item, f wire.Format) ([]byte, error) {
	switch {
	case i.failed != nil:
		return nil, i.failed.err
	case f.Encoding == wire.CBOR:
		data, err := s.bodyLocked(i, wire.Format{Encoding: wire.JSON, Shape: f.Shape})
		if err != nil {
			return nil, err
		}
		return cborOf(data)
	case i.was != nil:
		// A deletion is the last object with the version of the deletion.
		data, err := s.bodyLocked(i.was, f)
		if err != nil {
			return nil, err
		}
		return versioned(data, i, f.Encoding)
	case f.Shape == wire.Partial && f.Encoding == wire.Protobuf:
		return s.protoMetadataLocked(i)
	case f.Shape == wire.Partial:
		return s.jsonMetadataLocked(i)
	}
	data, err := s.call(i, f.Encoding)
	if err == nil && f.Encoding == wire.JSON {
		data, err = withKind(data, s.kind, s.apiVersion())
	}
	if err == nil && s.own != nil {
		data, err = versioned(data, i, f.Encoding)
	}
	return data, err
}

// versioned returns the encoding of an object with the version of an item.
func versioned(data []byte, i *item, e wire.Encoding) ([]byte, error) {
	if e == wire.Protobuf {
		return withVersionProto(data, i.version, i.identity())
	}
	return withVersion(data, i.version, i.identity())
}

// metadataHead is the JSON of a PartialObjectMetadata up to its metadata.
const metadataHead = `{"kind":"PartialObjectMetadata","apiVersion":"meta.k8s.io/v1","metadata":`

// jsonMetadataLocked returns the JSON of a PartialObjectMetadata.
func (s *served) jsonMetadataLocked(i *item) ([]byte, error) {
	if o, raw := i.obj.(*Object); raw && o.proto {
		data, err := s.bodyLocked(i, wire.Format{Encoding: wire.Protobuf, Shape: wire.Partial})
		if err != nil {
			return nil, err
		}
		var partial metav1.PartialObjectMetadata
		if err := partial.Unmarshal(data); err != nil {
			return nil, err
		}
		partial.TypeMeta = metav1.TypeMeta{Kind: "PartialObjectMetadata", APIVersion: "meta.k8s.io/v1"}
		return json.Marshal(&partial)
	}
	data, err := s.bodyLocked(i, wire.Format{})
	if err != nil {
		return nil, err
	}
	from, to, err := find(data, 0, "metadata")
	if err != nil {
		return nil, err
	}
	meta := data[from:to]
	if from == 0 || meta[0] != '{' { // of an Encode that sends none
		if meta, err = json.Marshal(i.identity().metadata(i.version)); err != nil {
			return nil, err
		}
	}
	return concat([]byte(metadataHead), meta, []byte("}")), nil
}

// protoMetadataLocked returns the message of a PartialObjectMetadata. Its metadata is the same
// field as in all objects.
func (s *served) protoMetadataLocked(i *item) ([]byte, error) {
	if o, raw := i.obj.(*Object); raw && o.proto || !raw && s.proto {
		data, err := s.bodyLocked(i, wire.Format{Encoding: wire.Protobuf})
		if err != nil {
			return nil, err
		}
		_, from, to, err := protoField(data, fieldMetadata)
		return data[from:to], err
	}
	data, err := s.bodyLocked(i, wire.Format{Shape: wire.Partial})
	if err != nil {
		return nil, err
	}
	var partial metav1.PartialObjectMetadata
	if err := json.Unmarshal(data, &partial); err != nil {
		return nil, err
	}
	return partial.Marshal()
}

// call calls what encodes the object, which may be the user's. An object that came as bytes is not
// encoded, and not counted.
func (s *served) call(i *item, e wire.Encoding) (data []byte, err error) {
	defer recovered(&err)
	if o, ok := i.obj.(*Object); ok {
		return o.as(e)
	}
	s.counts.encoded.Add(1)
	return s.resource.encode(i.obj, e)
}

// recovered makes a panic of a function of the user's an error. Some of them run in goroutines that
// serve many clients.
func recovered(err *error) {
	if r := recover(); r != nil {
		*err = fmt.Errorf("panic: %v\n%s", r, debug.Stack())
	}
}

// errOtherEncoding says that an [Object] came in another encoding than a client asks for. Only one
// that cannot know better gets it: with the first object the answers say what there is.
var errOtherEncoding = errors.New("the object came in another encoding, and is not decoded here")

// as returns the bytes of the object.
func (o *Object) as(e wire.Encoding) ([]byte, error) {
	if o.proto != (e == wire.Protobuf) {
		return nil, errOtherEncoding
	}
	return o.data, nil
}

// cborOf returns the CBOR of an object that is given as JSON, without the mark of CBOR before it.
func cborOf(object []byte) ([]byte, error) {
	var content map[string]any
	if err := utiljson.Unmarshal(object, &content); err != nil {
		return nil, err
	}
	return cbor.Marshal(content)
}
