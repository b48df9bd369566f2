package rest

import (
	"bytes"
	"encoding/json"

	"k8s.io/apimachinery/pkg/runtime"
)

// beginsJSON is codec.begins for JSON. It reads members up to the first one that tells: "kind" of
// an object, "type" or "object" of an event, "paths" of the root of a server. A list says its kind
// before or after its items; items are too long to look behind them.
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

// beginsProtobuf is codec.begins for protobuf. An object begins with a magic number and is then a
// runtime.Unknown, whose first field is its TypeMeta; an event begins with the length of its frame.
func beginsProtobuf(data []byte) (kind string, event bool) {
	const magic = "k8s\x00"
	data, object := bytes.CutPrefix(data, []byte(magic))
	if !object {
		return "", len(data) > 0
	}
	// The tag of field 1, a message, and its length in one byte: a TypeMeta is short.
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
