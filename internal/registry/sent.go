package registry

import (
	"encoding/json"
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
)

// SentMeta returns the metadata in the body of a write, as far as it says any: a patch may have
// none, and so may what is no object. It is for those who look at a request before it is answered.
func SentMeta(contentType string, body []byte) *metav1.ObjectMeta {
	var err error
	switch t := mediaType(contentType); {
	case t == runtime.ContentTypeProtobuf:
		return sentProto(body)
	case strings.HasSuffix(t, "yaml"):
		body, _, err = yamlToJSON(body, false)
	case strings.HasSuffix(t, "cbor"):
		body, err = cborToJSON(body)
	}
	var sent struct{ Metadata *metav1.ObjectMeta }
	if err != nil || json.Unmarshal(body, &sent) != nil {
		return nil
	}
	return sent.Metadata
}

// sentProto is SentMeta of protobuf. The metadata of every kind is its first field, so that a
// message of nothing else reads it.
func sentProto(body []byte) *metav1.ObjectMeta {
	var unknown runtime.Unknown
	var object metav1.PartialObjectMetadata
	if len(body) < 4 || unknown.Unmarshal(body[4:]) != nil || object.Unmarshal(unknown.Raw) != nil {
		return nil
	}
	return &object.ObjectMeta
}
