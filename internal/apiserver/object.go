package apiserver

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"iter"
	"strconv"
	"sync/atomic"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/go-lw/lw/internal/history"
	"github.com/go-lw/lw/internal/wire"
)

// An Object is one version of an object on the server. It is shared and must not be changed.
type Object struct {
	Key     types.NamespacedName
	UID     types.UID
	Version uint64
	Labels  map[string]string
	JSON    []byte // what a GET answers
}

// stored is an object in the history. The history has its version and UID; encode writes them into
// the JSON.
type stored = history.Object[*content]

// content is the JSON of an object, in the pieces between which the server writes.
type content struct {
	meta metav1.ObjectMeta // without UID and resourceVersion
	// rest is all members but kind, apiVersion, metadata and status, with a comma before each.
	rest   []byte
	status []byte // the status member after a comma, or empty

	// encodings has the last encoding in each format. Most versions are encoded once and sent to
	// many clients.
	encodings [wire.Formats]atomic.Pointer[encoding]
}

// An encoding is a content in one format, with the version that stands in it.
type encoding struct {
	version uint64
	data    []byte
}

// parse takes the JSON of an object to pieces. It returns the UID and the resource version of the
// metadata beside the content, because an update does not change them.
func (r *Resource) parse(data []byte) (c *content, uid types.UID, version string, err error) {
	compact := bytes.NewBuffer(make([]byte, 0, len(data)))
	if err := json.Compact(compact, data); err != nil {
		return nil, "", "", err
	}
	if b := compact.Bytes(); len(b) == 0 || b[0] != '{' {
		return nil, "", "", errors.New("not a JSON object")
	}
	c = &content{}
	for name, value := range members(compact.Bytes()) {
		var err error
		switch string(name) {
		case `"kind"`:
			err = expect("kind", value, r.Kind)
		case `"apiVersion"`:
			err = expect("apiVersion", value, r.apiVersion())
		case `"metadata"`:
			err = json.Unmarshal(value, &c.meta)
		case `"status"`:
			c.status = appendMember(nil, name, value)
		default:
			c.rest = appendMember(c.rest, name, value)
		}
		if err != nil {
			return nil, "", "", err
		}
	}
	uid, version = c.meta.UID, c.meta.ResourceVersion
	c.meta.UID, c.meta.ResourceVersion = "", ""
	return c, uid, version, nil
}

// expect returns an error unless value is want, or empty, because typed clients leave it empty.
func expect(name string, value []byte, want string) error {
	var got string
	if err := json.Unmarshal(value, &got); err != nil {
		return fmt.Errorf("%s: %w", name, err)
	}
	if got != "" && got != want {
		return fmt.Errorf("the object's %s is %q, want %q", name, got, want)
	}
	return nil
}

// appendMember appends a comma and a member to an object.
func appendMember(b, name, value []byte) []byte {
	b = append(append(append(b, ','), name...), ':')
	return append(b, value...)
}

// members yields the names, with their quotes, and the values of an object. The JSON must be valid
// and compact.
func members(object []byte) iter.Seq2[[]byte, []byte] {
	return func(yield func(name, value []byte) bool) {
		for rest := object[1:]; rest[0] != '}'; {
			n := valueLen(rest)
			name := rest[:n]
			rest = rest[n+1:]
			n = valueLen(rest)
			if !yield(name, rest[:n]) {
				return
			}
			if rest = rest[n:]; rest[0] == ',' {
				rest = rest[1:]
			}
		}
	}
}

// valueLen returns the length of the value at the beginning of b.
func valueLen(b []byte) int {
	depth := 0
	for i := 0; i < len(b); i++ {
		switch b[i] {
		case '"':
			for i++; b[i] != '"'; i++ {
				if b[i] == '\\' {
					i++
				}
			}
			if depth == 0 {
				return i + 1
			}
		case '{', '[':
			depth++
		case '}', ']':
			if depth == 0 {
				return i // the end of a number or literal, and of the array or object around it
			}
			if depth--; depth == 0 {
				return i + 1
			}
		case ',':
			if depth == 0 {
				return i
			}
		}
	}
	return len(b)
}

// same reports whether an update changes nothing, and so makes no version.
func same(old, updated *stored) bool {
	a, b := old.Value, updated.Value
	return bytes.Equal(a.rest, b.rest) && bytes.Equal(a.status, b.status) && bytes.Equal(mustJSON(&a.meta), mustJSON(&b.meta))
}

// encode returns obj in a format. version goes into its metadata: the object's own, or in the event
// of a deletion that of the deletion. The result is shared and must not be changed.
func (r *Resource) encode(obj *stored, version uint64, f wire.Format) ([]byte, error) {
	cache := &obj.Value.encodings[f.Index()]
	if e := cache.Load(); e != nil && e.version == version {
		return e.data, nil
	}
	meta := obj.Value.meta
	meta.UID, meta.ResourceVersion = obj.UID, strconv.FormatUint(version, 10)
	var data []byte
	var err error
	switch {
	case f == fullJSON:
		data = append(r.head(), mustJSON(&meta)...)
		data = append(append(append(data, obj.Value.rest...), obj.Value.status...), '}')
	case f == partialJSON:
		data = append(append(append(data, partialHead...), mustJSON(&meta)...), '}')
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
func (r *Resource) head() []byte {
	return []byte(`{"kind":"` + r.Kind + `","apiVersion":"` + r.apiVersion() + `","metadata":`)
}

const partialHead = `{"kind":"PartialObjectMetadata","apiVersion":"meta.k8s.io/v1","metadata":`

// mustJSON encodes types of apimachinery that always can be encoded.
func mustJSON(v any) []byte {
	b, err := json.Marshal(v)
	if err != nil {
		panic(err)
	}
	return b
}
