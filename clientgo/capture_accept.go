package clientgo

import (
	"mime"
	"reflect"
	"strconv"
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
)

var (
	metadataType     = reflect.TypeFor[*metav1.PartialObjectMetadata]()
	unstructuredType = reflect.TypeFor[*unstructured.Unstructured]()
)

// acceptFor returns the Accept header of a request for objects of type object, in the place of a
// client's that is header; "": header itself. The encoding that the client prefers stays the
// preferred one. ok is false if the client takes no encoding that lw decodes into object, or asks
// for objects of another sort: for metadata of which object is not, or the other way round.
func acceptFor(header string, object reflect.Type) (accept string, ok bool) {
	var json, protobuf float64 // how much the client likes each; 0: not at all
	if header == "" {
		header = "*/*"
	}
	for i, part := range strings.Split(header, ",") {
		mediaType, params, err := mime.ParseMediaType(part)
		if err != nil {
			continue
		}
		as, asked := params["as"]
		if metadata := strings.HasPrefix(as, "PartialObjectMetadata"); asked != (object == metadataType) || asked && !metadata {
			continue
		}
		quality := 1.0
		if q, err := strconv.ParseFloat(params["q"], 64); err == nil {
			quality = q
		}
		// Of two that it likes equally, a client names the one that it prefers first.
		quality *= 1 - float64(i)*1e-6
		switch mediaType {
		case runtime.ContentTypeProtobuf:
			protobuf = max(protobuf, quality)
		case runtime.ContentTypeJSON, "application/*", "*/*":
			json = max(json, quality)
		}
	}
	if _, can := reflect.Zero(object).Interface().(interface{ Unmarshal([]byte) error }); !can {
		protobuf = 0
	}
	switch {
	case json == 0 && protobuf == 0:
		return "", false
	case object == metadataType:
		return "", true // with its parameters, which differ between a list and a watch
	case protobuf > json && json > 0:
		return runtime.ContentTypeProtobuf + "," + runtime.ContentTypeJSON, true
	case protobuf > json:
		return runtime.ContentTypeProtobuf, true
	}
	return runtime.ContentTypeJSON, true
}
