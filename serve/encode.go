package serve

import (
	"encoding/json"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	cbor "k8s.io/apimachinery/pkg/runtime/serializer/cbor/direct"
	utiljson "k8s.io/apimachinery/pkg/util/json"

	"github.com/go-lw/lw/internal/wire"
)

// An encoder makes the bytes of a collection's items: as objects, as rows of tables, and as events.
// It makes each once in each format, however many clients ask.
type encoder struct {
	resource *resource
	history  *history // which counts what is kept, and whose stamps go into the objects
	opts     *Options
	codecs   codecs
	rawProto atomic.Bool    // the objects came as protobuf
	encoded  atomic.Uint64  // how often a function of the resource has encoded an object
	locks    [64]sync.Mutex // one goroutine encodes an item at a time
}

func newEncoder(r *resource, h *history, opts *Options) *encoder {
	kind := metav1.TypeMeta{APIVersion: r.apiVersion(), Kind: r.kind}
	return &encoder{resource: r, history: h, opts: opts, codecs: newCodecs(kind, r.columnDefinitions())}
}

// has reports whether the objects can be had in a format.
func (enc *encoder) has(f wire.Format) bool {
	proto := enc.resource.proto
	onlyProto := false
	if enc.resource.raw {
		proto = enc.rawProto.Load()
		onlyProto = proto
	}
	switch {
	case f.Shape == wire.Table:
		return f.Encoding == wire.JSON
	case f.Shape == wire.Partial:
		return true
	case f.Encoding == wire.Protobuf:
		return proto
	}
	return !onlyProto
}

// report logs a failure that is the program's, not a client's, and calls OnError.
func (enc *encoder) report(err error) {
	enc.opts.Logger.Error("lw/serve: an object cannot be sent", "resource", enc.resource.name, "error", err)
	if enc.opts.OnError != nil {
		enc.opts.OnError(err)
	}
}

// body returns the bytes of an item in a format, which is not a table. They are made once, and
// shared by all who ask.
func (enc *encoder) body(i *item, f wire.Format) ([]byte, error) {
	if data := i.encoded(f); data != nil {
		return data, nil
	}
	mu := enc.lockOf(i)
	mu.Lock()
	defer mu.Unlock()
	data, err := enc.bodyLocked(i, f)
	if err != nil {
		return nil, fmt.Errorf("serve: %s: encode %s: %w", enc.resource.name, i.path, err)
	}
	return data, nil
}

// bodyLocked is body for whoever has the item's lock of encoder.locks. Its error does not name the
// object, since one form is made of another.
func (enc *encoder) bodyLocked(i *item, f wire.Format) ([]byte, error) {
	if data := i.encoded(f); data != nil {
		return data, nil
	}
	data, err := enc.encodeLocked(i, f)
	if err == nil {
		enc.history.keep(i, f, data)
	}
	return data, err
}

func (enc *encoder) encodeLocked(i *item, f wire.Format) ([]byte, error) {
	switch {
	case i.failed != nil:
		return nil, i.failed.err
	case f.Encoding == wire.CBOR:
		data, err := enc.bodyLocked(i, wire.Format{Encoding: wire.JSON, Shape: f.Shape})
		if err != nil {
			return nil, err
		}
		return cborOf(data)
	case i.was != nil:
		// A deletion is the last object with the version of the deletion.
		data, err := enc.bodyLocked(i.was, f)
		if err != nil {
			return nil, err
		}
		return versioned(data, i, f.Encoding)
	case f.Shape == wire.Partial && f.Encoding == wire.Protobuf:
		return enc.protoMetadataLocked(i)
	case f.Shape == wire.Partial:
		return enc.jsonMetadataLocked(i)
	}
	data, err := enc.call(i, f.Encoding)
	if err == nil && f.Encoding == wire.JSON {
		data, err = withKind(data, enc.resource.kind, enc.resource.apiVersion())
	}
	if err == nil && enc.history.own != nil {
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
func (enc *encoder) jsonMetadataLocked(i *item) ([]byte, error) {
	if o, raw := i.obj.(*Object); raw && o.proto {
		data, err := enc.bodyLocked(i, wire.Format{Encoding: wire.Protobuf, Shape: wire.Partial})
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
	data, err := enc.bodyLocked(i, wire.Format{})
	if err != nil {
		return nil, err
	}
	from, to, err := wire.FindMember(data, 0, "metadata")
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
func (enc *encoder) protoMetadataLocked(i *item) ([]byte, error) {
	if o, raw := i.obj.(*Object); raw && o.proto || !raw && enc.resource.proto {
		data, err := enc.bodyLocked(i, wire.Format{Encoding: wire.Protobuf})
		if err != nil {
			return nil, err
		}
		_, from, to, err := protoField(data, fieldMetadata)
		return data[from:to], err
	}
	data, err := enc.bodyLocked(i, wire.Format{Shape: wire.Partial})
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
func (enc *encoder) call(i *item, e wire.Encoding) (data []byte, err error) {
	defer recovered(&err)
	if o, ok := i.obj.(*Object); ok {
		return o.as(e)
	}
	enc.encoded.Add(1)
	return enc.resource.encode(i.obj, e)
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

// lockOf returns the lock of an item. An item has none of its own, because there are many of them.
func (enc *encoder) lockOf(i *item) *sync.Mutex {
	h := uint32(2166136261)
	for _, b := range []byte(i.path) {
		h = (h ^ uint32(b)) * 16777619
	}
	return &enc.locks[h%uint32(len(enc.locks))]
}
