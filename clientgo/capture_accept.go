package clientgo

import (
	"cmp"
	"mime"
	"reflect"
	"slices"
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
	// How much the client likes each encoding; one that is not there: not at all.
	likes := map[string]float64{}
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
		case "application/*", "*/*":
			mediaType = runtime.ContentTypeJSON
		case runtime.ContentTypeProtobuf, runtime.ContentTypeCBOR, runtime.ContentTypeJSON:
		default:
			continue
		}
		likes[mediaType] = max(likes[mediaType], quality)
	}
	if _, can := reflect.Zero(object).Interface().(interface{ Unmarshal([]byte) error }); !can {
		delete(likes, runtime.ContentTypeProtobuf)
	}
	var types []string
	for mediaType, quality := range likes {
		if quality > 0 {
			types = append(types, mediaType)
		}
	}
	if len(types) == 0 {
		return "", false
	}
	slices.SortFunc(types, func(a, b string) int { return cmp.Or(cmp.Compare(likes[b], likes[a]), cmp.Compare(a, b)) })
	// Every server has JSON, so nothing that the client likes less would ever come.
	if i := slices.Index(types, runtime.ContentTypeJSON); i >= 0 {
		types = types[:i+1]
	}
	if object != metadataType {
		return strings.Join(types, ","), true
	}
	if types[0] != runtime.ContentTypeCBOR {
		return "", true // with its parameters, which differ between a list and a watch
	}
	// HTTP adds the parameters.
	return strings.Join(types, ","), true
}
