package apiserver

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
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
	dec := json.NewDecoder(bytes.NewReader(data))
	if tok, err := dec.Token(); err != nil || tok != json.Delim('{') {
		return nil, "", "", errors.Join(errors.New("not a JSON object"), err)
	}
	c = &content{}
	var value json.RawMessage
	for dec.More() {
		name, err := dec.Token()
		if err != nil {
			return nil, "", "", err
		}
		value = value[:0]
		if err := dec.Decode(&value); err != nil {
			return nil, "", "", err
		}
		switch name {
		case "kind":
			err = expect("kind", value, r.Kind)
		case "apiVersion":
			err = expect("apiVersion", value, r.apiVersion())
		case "metadata":
			err = json.Unmarshal(value, &c.meta)
		case "status":
			c.status = appendMember(nil, "status", value)
		default:
			c.rest = appendMember(c.rest, name.(string), value)
		}
		if err != nil {
			return nil, "", "", err
		}
	}
	if _, err := dec.Token(); err != nil {
		return nil, "", "", err
	}
	if _, err := dec.Token(); err != io.EOF {
		return nil, "", "", errors.New("more than one JSON value")
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

// appendMember appends a comma, the name and a valid value.
func appendMember(b []byte, name string, value []byte) []byte {
	b = append(append(append(b, ','), mustJSON(name)...), ':')
	buf := bytes.NewBuffer(b)
	if err := json.Compact(buf, value); err != nil {
		panic(err) // a decoder has read it
	}
	return buf.Bytes()
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
