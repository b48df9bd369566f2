package serve

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/go-lw/lw"
	"github.com/go-lw/lw/internal/wire"
)

// An Object is an object as the bytes that its server has sent. Only its identity and its labels
// are decoded. An Informer[*Object] serves every kind of object without a type: what a client of it
// gets is what the server has sent, so no field can be lost. Its methods may be called by any
// goroutine.
type Object struct {
	lw.Meta
	Labels map[string]string

	data  []byte
	proto bool // data is a protobuf message, else JSON
}

// Raw returns a source of the objects at url as bytes. It asks for JSON, which all clients can
// read, also kubectl and those that would rather have protobuf. The caller may set the other fields
// of the HTTP. With an Accept of application/vnd.kubernetes.protobuf the objects are smaller, but
// only clients that accept that can read them, and [Field] finds nothing in them.
func Raw(url string, client *http.Client) *lw.HTTP[*Object] {
	return &lw.HTTP[*Object]{URL: url, Client: client, Accept: mediaJSON}
}

// GetLabels returns the labels, which must not be changed.
func (o *Object) GetLabels() map[string]string { return o.Labels }

// Bytes returns the bytes of the object, which must not be changed, and their media type. A
// protobuf message has no envelope.
func (o *Object) Bytes() (data []byte, mediaType string) {
	if o.proto {
		return o.data, mediaProto
	}
	return o.data, mediaJSON
}

var (
	mediaJSON  = wire.Format{Encoding: wire.JSON}.ContentType(false)
	mediaProto = wire.Format{Encoding: wire.Protobuf}.ContentType(false)
	mediaCBOR  = wire.Format{Encoding: wire.CBOR}.ContentType(false)
)

// UnmarshalJSON keeps a copy of data.
func (o *Object) UnmarshalJSON(data []byte) error {
	from, to, err := find(data, 0, "metadata")
	if err != nil {
		return err
	}
	*o = Object{data: bytes.Clone(data)}
	if from == 0 {
		return errors.New("an object without metadata")
	}
	var bad error
	err = members(data[:to], from, func(name []byte, from, to int) bool {
		value := data[from:to]
		switch string(name) {
		case "namespace":
			bad = text(value, &o.Namespace)
		case "name":
			bad = text(value, &o.Name)
		case "uid":
			bad = text(value, (*string)(&o.UID))
		case "resourceVersion":
			bad = text(value, &o.ResourceVersion)
		case "labels":
			bad = json.Unmarshal(value, &o.Labels)
		}
		if bad != nil {
			bad = fmt.Errorf("metadata.%s: %w", name, bad)
		}
		return bad == nil
	})
	return errors.Join(err, bad)
}

// text decodes a JSON string, most of which have no escapes.
func text(value []byte, into *string) error {
	if n := len(value); n >= 2 && value[0] == '"' && bytes.IndexByte(value, '\\') < 0 && !hasControl(value) {
		*into = string(value[1 : n-1])
		return nil
	}
	return json.Unmarshal(value, into)
}

func hasControl(b []byte) bool {
	for _, c := range b {
		if c < ' ' || c >= 0x80 {
			return true
		}
	}
	return false
}

// MarshalJSON returns the bytes of the object, if they are JSON.
func (o *Object) MarshalJSON() ([]byte, error) {
	if o.proto {
		return nil, fmt.Errorf("serve: %s: a protobuf message cannot be sent as JSON without its type", o.Key())
	}
	return o.data, nil
}

// Unmarshal keeps a copy of a protobuf message.
func (o *Object) Unmarshal(data []byte) error {
	raw, _, _, err := protoField(data, fieldMetadata)
	if err != nil {
		return err
	}
	var meta metav1.ObjectMeta
	if err := meta.Unmarshal(raw); err != nil {
		return fmt.Errorf("metadata: %w", err)
	}
	*o = Object{
		Meta:   lw.Meta{Namespace: meta.Namespace, Name: meta.Name, UID: meta.UID, ResourceVersion: meta.ResourceVersion},
		Labels: meta.Labels, data: bytes.Clone(data), proto: true,
	}
	return nil
}

// Field returns what a field selector finds in an [Object] at a path such as "spec.nodeName": a
// string as it is, another value as its JSON, and "" if there is nothing.
func Field(path string) func(*Object) string {
	names := strings.Split(path, ".")
	return func(o *Object) string {
		if o.proto {
			return ""
		}
		at, to := 0, len(o.data)
		for _, name := range names {
			from, end, err := find(o.data[:to], at, name)
			if err != nil || from == 0 {
				return ""
			}
			at, to = from, end
		}
		value := o.data[at:to]
		if value[0] != '"' {
			return strings.TrimPrefix(string(value), "null")
		}
		var s string
		if text(value, &s) != nil {
			return ""
		}
		return s
	}
}
