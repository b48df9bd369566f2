package apiserver

import (
	"encoding/json"
	"fmt"
	"strconv"
	"sync"
	"sync/atomic"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/go-lw/lw/internal/history"
	"github.com/go-lw/lw/internal/registry"
	"github.com/go-lw/lw/internal/wire"
)

// An Object is one version of an object on the server. It is shared and must not be changed.
type Object struct {
	Key     types.NamespacedName
	UID     types.UID
	Version uint64
	Labels  map[string]string
	JSON    []byte // what a GET answers
	// Decoded has what JSON decodes to, by type, if [ShareDecoded] is true.
	Decoded *sync.Map
}

// ShareDecoded says that the objects of lwtest's collections are deep copies of one that is decoded
// once a version. It is for a process that reads them often, and whose types have generated deep
// copies: a worker of package simulate.
var ShareDecoded atomic.Bool

// stored is an object in the history, which has its version and UID; encode writes them into the
// JSON.
type stored = history.Object[*content]

// content is an object without UID and version.
type content struct {
	registry.Object

	// encodings has the last encoding in each format. Most versions are encoded once and sent to
	// many clients.
	encodings [wire.Formats]atomic.Pointer[encoding]
	decoded   sync.Map // see Object
}

// objectOf returns an object of the history with its UID and a version.
func objectOf(obj *stored, version uint64) *registry.Object {
	o := obj.Value.Object
	if o.Meta.UID, o.Meta.ResourceVersion = obj.UID, ""; version > 0 { // a dry run gives none
		o.Meta.ResourceVersion = strconv.FormatUint(version, 10)
	}
	return &o
}

// An encoding is a content in one format, with the version that stands in it.
type encoding struct {
	version uint64
	data    []byte
}

// encode returns obj in a format. version goes into its metadata: the object's own, or in the event
// of a deletion that of the deletion. The result is shared and must not be changed.
func (r *Resource) encode(obj *stored, version uint64, f wire.Format) ([]byte, error) {
	cache := &obj.Value.encodings[f.Index()]
	if e := cache.Load(); e != nil && e.version == version && r.fromStored == nil {
		return e.data, nil
	}
	o, err := objectOf(obj, version), error(nil)
	if r.fromStored != nil {
		if o, err = r.fromStored(o); err != nil {
			return nil, err
		}
	}
	meta := o.Meta
	var data []byte
	switch {
	case f == fullJSON:
		data = registry.AppendObject(nil, r.apiVersion(), r.Kind, &meta, o)
	case f == partialJSON:
		data = registry.AppendObject(nil, "meta.k8s.io/v1", "PartialObjectMetadata", &meta, &registry.Object{})
	case f.Encoding == wire.Protobuf && f.Shape == wire.Full:
		var full []byte
		if full, err = r.encode(obj, version, fullJSON); err == nil {
			data, err = r.Proto(full)
		}
	case f.Encoding == wire.Protobuf:
		data, err = (&metav1.PartialObjectMetadata{ObjectMeta: meta}).Marshal()
	}
	if err != nil {
		return nil, fmt.Errorf("apiserver: encode %s %s: %w", r.Kind, obj.Key, err)
	}
	if r.fromStored == nil {
		cache.Store(&encoding{version, data})
	}
	return data, nil
}

// head returns the JSON of an object up to its metadata.
func (r *Resource) head() string {
	return `{"kind":"` + r.Kind + `","apiVersion":"` + r.apiVersion() + `","metadata":`
}

// mustJSON encodes types of apimachinery that always can be encoded.
func mustJSON(v any) []byte {
	b, err := json.Marshal(v)
	if err != nil {
		panic(err)
	}
	return b
}
