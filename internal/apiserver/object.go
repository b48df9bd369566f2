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
)

// An Object is one version of an object as the server keeps it. It is shared and must not be changed.
type Object struct {
	Key     types.NamespacedName
	UID     types.UID
	Version uint64
	Labels  map[string]string
	JSON    []byte // as a GET answers it
}

// stored is an object in the history: the version and the UID stand in the history's part, and are stamped on by encode.
type stored = history.Object[*content]

// content is an object's JSON, cut where the server has to write into it.
type content struct {
	meta   metav1.ObjectMeta // without UID and resourceVersion
	rest   []byte            // the members beside kind, apiVersion, metadata and status, each with a comma before it
	status []byte            // the status member, with a comma before it; may be empty

	// encodings are what was made last of this content, for each format: most versions are encoded once and sent often.
	encodings [formats]atomic.Pointer[encoding]
}

type encoding struct {
	version uint64
	data    []byte
}

// parse cuts an object's JSON. It returns the metadata's UID and resource version apart from the content, for they are not part
// of what an update changes.
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

// expect accepts want and, as a typed client leaves it out, the empty string.
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

func appendMember(b, name, value []byte) []byte {
	b = append(append(append(b, ','), name...), ':')
	return append(b, value...)
}

// members yields the names, in their quotes, and the values of an object in valid and compact JSON.
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

// valueLen returns the length of the value that b begins with.
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
				return i // of a number or a literal, at the end of what holds it
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

// same reports whether an update changes nothing, so that it makes no version.
func same(old, updated *stored) bool {
	a, b := old.Value, updated.Value
	return bytes.Equal(a.rest, b.rest) && bytes.Equal(a.status, b.status) && bytes.Equal(mustJSON(&a.meta), mustJSON(&b.meta))
}

// encode returns obj in a format, as of version: the object's own, or for a deleted one the deletion's. The result is shared.
func (r *Resource) encode(obj *stored, version uint64, f format) ([]byte, error) {
	cache := &obj.Value.encodings[f]
	if e := cache.Load(); e != nil && e.version == version {
		return e.data, nil
	}
	meta := obj.Value.meta
	meta.UID, meta.ResourceVersion = obj.UID, strconv.FormatUint(version, 10)
	var data []byte
	var err error
	switch f {
	case fullJSON:
		data = append(r.head(), mustJSON(&meta)...)
		data = append(append(append(data, obj.Value.rest...), obj.Value.status...), '}')
	case partialJSON:
		data = append(append(append(data, partialHead...), mustJSON(&meta)...), '}')
	case fullProto:
		var full []byte
		if full, err = r.encode(obj, version, fullJSON); err == nil {
			data, err = r.Proto(full)
		}
	case partialProto:
		data, err = (&metav1.PartialObjectMetadata{ObjectMeta: meta}).Marshal()
	}
	if err != nil {
		return nil, fmt.Errorf("apiserver: encode %s %s: %w", r.Kind, obj.Key, err)
	}
	cache.Store(&encoding{version, data})
	return data, nil
}

// head is an object's JSON up to its metadata.
func (r *Resource) head() []byte {
	return []byte(`{"kind":"` + r.Kind + `","apiVersion":"` + r.apiVersion() + `","metadata":`)
}

const partialHead = `{"kind":"PartialObjectMetadata","apiVersion":"meta.k8s.io/v1","metadata":`

// mustJSON is for types of apimachinery that always have a JSON form.
func mustJSON(v any) []byte {
	b, err := json.Marshal(v)
	if err != nil {
		panic(err)
	}
	return b
}
