package apiserver

import (
	"encoding/json"
	"errors"
	"fmt"
	"strconv"
	"sync"
	"sync/atomic"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
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
	// kind is that by which the object is stored, whose version it has. nil: it is not stored, and in
	// the version of the request.
	kind  *registry.Kind
	views atomic.Pointer[view] // the object by other kinds

	// encodings has the last encoding in each format. Most versions are encoded once and sent to
	// many clients.
	encodings [wire.Formats]atomic.Pointer[encoding]
	decoded   sync.Map // see Object
}

// size is about what a version takes in memory, without what is encoded of it.
func size(obj *stored) int {
	o := &obj.Value.Object
	n := 512 + len(o.Body) + len(o.Status)
	for name, value := range o.Meta.Annotations {
		n += len(name) + len(value)
	}
	for _, m := range o.Meta.ManagedFields {
		if m.FieldsV1 != nil {
			n += len(m.FieldsV1.Raw)
		}
	}
	return n
}

// A view is a content by another kind than that by which it is stored.
type view struct {
	kind  *registry.Kind
	value *content
	next  *view
}

// maxViews is how many views a content keeps: as many as a kind has versions. When a definition
// changes there are new kinds, and nobody asks for the views of the old ones.
const maxViews = 8

// shown returns obj by the kind of the resource: as it is, or converted. What was converted once
// stays so, as in a watch cache of kube-apiserver.
func (r *Resource) shown(obj *stored) (*stored, error) {
	from, to := obj.Value.kind, r.own
	if from == nil || from == to {
		return obj, nil
	}
	out, n := *obj, 0
	first := obj.Value.views.Load()
	for v := first; v != nil; v, n = v.next, n+1 {
		if v.kind == to {
			out.Value = v.value
			return &out, nil
		}
	}
	o, err := r.convert(objectOf(obj, obj.Version), from, to)
	if err != nil {
		return nil, err
	}
	if out.Value = storedOf(o).Value; n >= maxViews {
		first = nil
	}
	obj.Value.views.Store(&view{to, out.Value, first}) // one of those that meet here is enough
	return &out, nil
}

// convert returns an object of a kind by another one.
func (r *Resource) convert(o *registry.Object, from, to *registry.Kind) (out *registry.Object, err error) {
	if r.Convert == nil {
		other := *o
		other.Value = nil
		return &other, nil
	}
	defer func() {
		if p := recover(); p != nil { // of the user's function
			out, err = nil, fmt.Errorf("panic: %v", p)
		}
		if err != nil && !errors.As(err, new(apierrors.APIStatus)) {
			err = apierrors.NewInternalError(fmt.Errorf("conversion of %s to %s: %w", o.Key(), to.Version, err))
		}
	}()
	data, err := r.Convert(from.AppendJSON(nil, o), registry.VersionFrom(from.Group, to.GroupVersion()))
	if err != nil {
		return nil, err
	}
	if out, err = to.Parse(data); err == nil && (out.Key() != o.Key() || out.Meta.UID != o.Meta.UID) {
		err = fmt.Errorf("it has become %s", out.Key())
	}
	return out, err
}

// objectOf returns an object of the history with its UID and a version.
func objectOf(obj *stored, version uint64) *registry.Object {
	o := obj.Value.Object
	if o.Meta.UID, o.Meta.ResourceVersion = obj.UID, ""; version > 0 { // a dry run gives none
		o.Meta.ResourceVersion = strconv.FormatUint(version, 10)
	}
	return &o
}

// storedOf returns an object of the engine as the history has it: its pieces, without what was
// decoded of them, which is several times as large.
func storedOf(o *registry.Object) stored {
	value := &content{Object: *o}
	value.Value = nil
	value.Meta.UID, value.Meta.ResourceVersion = "", ""
	version, _ := strconv.ParseUint(o.Meta.ResourceVersion, 10, 64) // 0: it is not stored yet
	return stored{Key: o.Key(), UID: o.Meta.UID, Version: version, Labels: o.Meta.Labels, Value: value}
}

// An encoding is a content in one format, with the version that stands in it.
type encoding struct {
	version uint64
	data    []byte
}

// encode returns obj in a format. version goes into its metadata: the object's own, or in the event
// of a deletion that of the deletion. The result is shared and must not be changed.
func (r *Resource) encode(obj *stored, version uint64, f wire.Format) ([]byte, error) {
	obj, err := r.shown(obj)
	if err != nil {
		return nil, err
	}
	cache := &obj.Value.encodings[f.Index()]
	if e := cache.Load(); e != nil && e.version == version {
		return e.data, nil
	}
	o := objectOf(obj, version)
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
	cache.Store(&encoding{version, data})
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
