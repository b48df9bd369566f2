package apiserver

import (
	"cmp"
	"mime"
	"slices"
	"strconv"
	"strings"
)

// A format is how objects are encoded.
type format int

const (
	fullJSON format = iota
	partialJSON
	fullProto
	partialProto
	fullCBOR
	partialCBOR
	formats
)

// proto reports whether the format is protobuf; cbor, whether it is CBOR; partial, whether it has
// only the metadata.
func (f format) proto() bool   { return f == fullProto || f == partialProto }
func (f format) cbor() bool    { return f == fullCBOR || f == partialCBOR }
func (f format) partial() bool { return f == partialJSON || f == partialProto || f == partialCBOR }

// whole reports whether a list in the format says at its start how long it is, so that it can only
// be sent as a whole.
func (f format) whole() bool { return f.proto() || f.cbor() }

const (
	typeJSON       = "application/json"
	typeProto      = "application/vnd.kubernetes.protobuf"
	typeProtoWatch = typeProto + ";stream=watch"
	typeCBOR       = "application/cbor"
	typeCBORWatch  = "application/cbor-seq"
)

// contentType returns the media type of an answer. stream says whether the answer is a stream.
func (f format) contentType(stream bool) string {
	switch {
	case f.cbor() && stream:
		return typeCBORWatch
	case f.cbor():
		return typeCBOR
	case !f.proto():
		return typeJSON
	case stream:
		return typeProtoWatch
	}
	return typeProto
}

// negotiate returns the format that an Accept header prefers among those that the resource has. ok
// is false if there is none. partial is the kind of partial metadata that the header may ask for
// with as=: "PartialObjectMetadata", with List after it for a list.
func (r *Resource) negotiate(accept, partial string) (f format, ok bool) {
	if accept == "" {
		return fullJSON, true
	}
	type clause struct {
		format format
		q      float64
	}
	var clauses []clause
	for part := range strings.SplitSeq(accept, ",") {
		mediaType, params, err := mime.ParseMediaType(part)
		if err != nil {
			continue
		}
		c := clause{q: 1}
		if q, err := strconv.ParseFloat(params["q"], 64); err == nil {
			c.q = q
		}
		switch mediaType {
		case typeJSON, "application/*", "*/*":
			c.format = fullJSON
		case typeProto:
			c.format = fullProto
		case typeCBOR:
			c.format = fullCBOR
		default:
			continue
		}
		switch as := params["as"]; {
		case as == "" && c.format == fullProto && r.Proto == nil:
			continue
		case as == "":
		case as != partial || params["g"] != "meta.k8s.io" || params["v"] != "v1":
			continue
		case c.format == fullProto:
			c.format = partialProto
		case c.format == fullCBOR:
			c.format = partialCBOR
		default:
			c.format = partialJSON
		}
		clauses = append(clauses, c)
	}
	if len(clauses) == 0 {
		return fullJSON, false
	}
	slices.SortStableFunc(clauses, func(a, b clause) int { return cmp.Compare(b.q, a.q) })
	return clauses[0].format, true
}
