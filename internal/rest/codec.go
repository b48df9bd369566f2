package rest

import (
	"mime"
	"net/http"
	"slices"
	"strings"

	"github.com/go-lw/lw/internal/decode"
)

// A codec is an encoding of responses, as the server names it and as this package and
// internal/decode read it.
type codec struct {
	// mediaType is what a request asks for, and what a list or a refusal in this encoding calls
	// itself. Parameters do not count.
	mediaType string
	// stream is what a watch in this encoding calls itself. For JSON and protobuf it is mediaType.
	// CBOR, for example, has a media type of its own for a sequence of objects.
	stream string
	// encoding is its name in internal/decode.
	encoding decode.Encoding
	// reads reports whether the decoder of a collection can read this encoding. It is not called
	// for a refusal, which is a metav1.Status whatever the collection holds.
	reads func(Protobufs) bool
	// onRequest says that a request asks for this encoding only if Collection.Accept does.
	onRequest bool
	// begins looks at data, the first bytes of a body. It returns the kind of the object that
	// begins there, or "" if data does not show it. event is true if an event of a watch begins
	// there.
	begins func(data []byte) (kind string, event bool)
}

const (
	jsonType = "application/json"
	// cborType is what a server has that writes CBOR (KEP-4222), and cborStream what it calls a
	// sequence of CBOR items (RFC 8742).
	cborType   = "application/cbor"
	cborStream = "application/cbor-seq"
)

// codecs has a row for each encoding, the preferred one first. JSON is the last: every server has
// it, and every decoder reads it.
var codecs = []codec{
	{
		mediaType: "application/vnd.kubernetes.protobuf",
		stream:    "application/vnd.kubernetes.protobuf",
		encoding:  decode.Protobuf,
		reads:     Protobufs.Protobuf,
		begins:    beginsProtobuf,
	},
	{
		mediaType: cborType,
		stream:    cborStream,
		encoding:  decode.CBOR,
		reads:     func(Protobufs) bool { return true },
		onRequest: true,
		begins:    beginsCBOR,
	},
	{
		mediaType: jsonType,
		stream:    jsonType,
		encoding:  decode.JSON,
		reads:     func(Protobufs) bool { return true },
		begins:    beginsJSON,
	},
}

// accept returns the Accept header of a list or a watch: Collection.Accept, if that is set, else
// one that names the encodings that the collection's decoder reads. A watch asks for a stream of
// events. A collection of metadata asks for PartialObjectMetadata
// (https://kubernetes.io/docs/reference/using-api/api-concepts/#alternate-representations). Both
// need parameters behind the media type. Plain JSON comes last, for servers that do not know the
// parameters.
func (c *Collection) accept(watching bool) string {
	var params string
	switch {
	case c.Metadata && watching:
		params = ";as=PartialObjectMetadata;g=meta.k8s.io;v=v1"
	case c.Metadata:
		params = ";as=PartialObjectMetadataList;g=meta.k8s.io;v=v1"
	}
	if c.Accept != "" {
		return ofMetadata(c.Accept, params)
	}
	if watching {
		params += ";stream=watch"
	}
	var types []string
	for _, codec := range codecs {
		if !codec.onRequest && codec.reads(c.Decoder) {
			types = append(types, codec.mediaType+params)
		}
	}
	if params != "" {
		types = append(types, jsonType)
	}
	return strings.Join(types, ",")
}

// ofMetadata returns the Accept header accept of a user with the parameters that ask for metadata,
// if it names CBOR without any. They differ between a list and a watch, so no header of the user's
// has them for both. Any other header is sent as it is.
func ofMetadata(accept, params string) string {
	var cbor, json bool
	types := strings.Split(accept, ",")
	for i, t := range types {
		if t = strings.TrimSpace(t); slices.ContainsFunc(codecs, func(c codec) bool { return t == c.mediaType }) {
			cbor, json = cbor || t == cborType, json || t == jsonType
			types[i] = t + params
		}
	}
	if params == "" || !cbor {
		return accept
	}
	if json {
		types = append(types, jsonType)
	}
	return strings.Join(types, ",")
}

// codecOf returns the codec for the content type of a response, or nil if there is none. A response
// without a content type counts as JSON: if it is something else, its decoding fails.
func codecOf(resp *http.Response) *codec {
	is := resp.Header.Get("Content-Type")
	if is == "" {
		is = jsonType
	} else if t, _, err := mime.ParseMediaType(is); err == nil {
		is = t
	}
	for i := range codecs {
		if c := &codecs[i]; is == c.mediaType || is == c.stream {
			return c
		}
	}
	return nil
}

// codecOfRefusal is like codecOf, for a response with the status code of an error. Proxies refuse
// in any content type. The body is then read as JSON, and if it is not a Status its text is quoted.
func codecOfRefusal(resp *http.Response) *codec {
	if c := codecOf(resp); c != nil {
		return c
	}
	return &codecs[len(codecs)-1]
}
