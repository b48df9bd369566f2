package serve

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

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
)

// UnmarshalJSON keeps a copy of data.
func (o *Object) UnmarshalJSON(data []byte) error {
	var plain Object
	if !plain.plainJSON(data) {
		return o.anyJSON(data)
	}
	*o = plain
	o.data = bytes.Clone(data)
	return nil
}

// plainJSON decodes what is written as servers do, in one pass over no more than the metadata. It
// reports false for all else, and then anyJSON decides what the object is.
func (o *Object) plainJSON(data []byte) (ok bool) {
	err := wire.Walk(data, 0, func(name []byte, from int) int {
		if string(name) != "metadata" {
			return wire.SkipValue(data, from)
		}
		ok = o.plainMetadata(data, from)
		return wire.Stop
	})
	return ok && err == nil
}

func (o *Object) plainMetadata(data []byte, at int) bool {
	plain := true
	err := wire.Members(data, at, func(name []byte, from, to int) bool {
		switch value := data[from:to]; string(name) {
		case "namespace":
			plain = plainText(value, &o.Namespace)
		case "name":
			plain = plainText(value, &o.Name)
		case "uid":
			plain = plainText(value, (*string)(&o.UID))
		case "resourceVersion":
			plain = plainText(value, &o.ResourceVersion)
		case "labels":
			plain = o.Labels == nil && o.plainLabels(value)
		}
		return plain
	})
	return plain && err == nil
}

// plainLabels decodes labels without white space. All of them are parts of one string.
func (o *Object) plainLabels(value []byte) bool {
	if value[0] != '{' {
		return false
	}
	all := string(value)
	o.Labels = make(map[string]string, strings.Count(all, `":`))
	text := func(at int) (string, int) {
		if all[at] != '"' {
			return "", -1
		}
		end := wire.SkipString(value, at)
		if end < 0 || end == len(all) || !isPlain(value[at+1:end-1]) {
			return "", -1
		}
		return all[at+1 : end-1], end
	}
	for at := 1; ; at++ {
		name, end := text(at)
		if end < 0 || all[end] != ':' {
			return false
		}
		label, end := text(end + 1)
		if end < 0 {
			return false
		}
		o.Labels[name] = label
		if all[end] != ',' {
			return end == len(all)-1 && all[end] == '}'
		}
		at = end
	}
}

// anyJSON decodes any object, and says what is wrong with one that is none.
func (o *Object) anyJSON(data []byte) error {
	from, to, err := wire.FindMember(data, 0, "metadata")
	if err != nil {
		return err
	}
	*o = Object{data: bytes.Clone(data)}
	if from == 0 {
		return errors.New("an object without metadata")
	}
	var bad error
	err = wire.Members(data[:to], from, func(name []byte, from, to int) bool {
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

// text decodes a JSON string, most of which are plain.
func text(value []byte, into *string) error {
	if plainText(value, into) {
		return nil
	}
	return json.Unmarshal(value, into)
}

// plainText decodes a JSON string that is written as it is. It reports false for all else.
func plainText(value []byte, into *string) bool {
	n := len(value)
	if n < 2 || value[0] != '"' || !isPlain(value[1:n-1]) {
		return false
	}
	*into = string(value[1 : n-1])
	return true
}

// isPlain reports whether the bytes of a JSON string are those of the text.
func isPlain(b []byte) bool {
	for _, c := range b {
		if c < ' ' || c >= 0x80 || c == '\\' {
			return false
		}
	}
	return true
}

// MarshalJSON returns the bytes of the object, if they are JSON.
func (o *Object) MarshalJSON() ([]byte, error) {
	if o.proto {
		return nil, fmt.Errorf("serve: %s: a protobuf message cannot be sent as JSON without its type", lw.KeyOf(o))
	}
	return o.data, nil
}

// Unmarshal keeps a copy of a protobuf message.
func (o *Object) Unmarshal(data []byte) error {
	raw, _, _, err := protoField(data, fieldMetadata)
	if err != nil {
		return err
	}
	plain := Object{proto: true}
	if plain.plainProto(raw) {
		*o = plain
		o.data = bytes.Clone(data)
		return nil
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

// plainProto decodes the ObjectMeta of a message, of which only what an Object shows is made. It
// reports false if it is not certain that all of it can be decoded.
func (o *Object) plainProto(meta []byte) bool {
	return protoMeta.fields(meta, func(number int, value []byte) {
		switch number {
		case 1:
			o.Name = string(value)
		case 3:
			o.Namespace = string(value)
		case fieldUID:
			o.UID = types.UID(value)
		case fieldResourceVersion:
			o.ResourceVersion = string(value)
		case 11:
			if o.Labels == nil {
				o.Labels = map[string]string{}
			}
			var pair [3]string // the key and the value, by their numbers
			protoPair.fields(value, func(number int, value []byte) { pair[number] = string(value) })
			o.Labels[pair[1]] = pair[2]
		}
	})
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
			from, end, err := wire.FindMember(o.data[:to], at, name)
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
