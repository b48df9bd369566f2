package rest

import (
	"bytes"
	"encoding/json"

	"k8s.io/apimachinery/pkg/runtime"

	"github.com/go-lw/lw/internal/decode"
)

// beginsJSON is codec.begins for JSON. It reads the members of the outermost object up to the first
// one that tells what the object is. An object has "kind", an event of a watch has "type" or
// "object", and the root of a server has "paths". A list may have its kind after its items. data
// ends long before that, so beginsJSON gives up at "items".
func beginsJSON(data []byte) (kind string, event bool) {
	d := json.NewDecoder(bytes.NewReader(data))
	if t, err := d.Token(); err != nil || t != json.Delim('{') {
		return "", false
	}
	for d.More() {
		name, err := d.Token()
		switch {
		case err != nil:
			return "", false
		case name == "type" || name == "object":
			return "", true
		case name == "paths":
			return rootPaths, false
		case name == "kind":
			err = d.Decode(&kind)
			if err == nil && kind != "" {
				return kind, false
			}
		case name == "items":
			return "", false
		}
		var value json.RawMessage
		if name != "kind" && d.Decode(&value) != nil {
			return "", false
		}
	}
	return "", false
}

// beginsProtobuf is codec.begins for protobuf. In Kubernetes' encoding an object is four magic
// bytes and then a runtime.Unknown, whose first field is the TypeMeta. A watch is a sequence of
// frames: four bytes of length, and an event. No frame is so long that its length looks like the
// magic bytes, so whatever begins without them is taken for an event.
func beginsProtobuf(data []byte) (kind string, event bool) {
	const magic = "k8s\x00"
	data, object := bytes.CutPrefix(data, []byte(magic))
	if !object {
		return "", len(data) > 0
	}
	// A field begins with its tag: the number of the field, here 1, and in the lowest three bits
	// the wire type, here 2, which means that a length follows. A length below 128 takes one byte,
	// and a TypeMeta is shorter than that.
	const tag = 1<<3 | 2
	if len(data) < 2 || data[0] != tag || data[1] > 127 || len(data) < 2+int(data[1]) {
		return "", false
	}
	var t runtime.TypeMeta
	if t.Unmarshal(data[2:2+data[1]]) != nil {
		return "", false
	}
	return t.Kind, false
}

// beginsCBOR is codec.begins for CBOR, whose objects have the members of those in JSON.
func beginsCBOR(data []byte) (kind string, event bool) { return beginsJSON(decode.CBORToJSON(data)) }
