package wire

import (
	"fmt"
	"net/http"
	"sort"
	"strconv"
	"strings"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// A Want is what a request wants, which decides what it may ask for with as= in its Accept header.
type Want uint8

const (
	WantObject Want = iota
	WantList
	WantWatch
	WantStatus // an error, or whatever else is no object of a resource
)

// Negotiate returns the format that an Accept header prefers among those that has reports, as
// kube-apiserver understands the header. A request without the header accepts everything; it gets
// whole objects in JSON, or in another encoding if they cannot be had in JSON. The error is
// NotAcceptable if there is no format that the header accepts; the format is JSON then, as that of
// the error.
func Negotiate(accept string, want Want, has func(Format) bool) (Format, error) {
	if accept == "" {
		if has(Format{}) {
			return Format{}, nil
		}
		accept = "*/*"
	}
	for _, c := range parseAccept(accept) {
		for _, encoding := range []Encoding{JSON, Protobuf, CBOR} {
			if !c.matches(Format{Encoding: encoding}.ContentType(false)) || !c.streams() {
				continue
			}
			shape, ok := c.shape()
			if f := (Format{encoding, shape}); !ok || shape != Full && want == WantStatus || !has(f) {
				continue
			}
			// A server that has chosen the clause fails if it has no such kind.
			if shape == Partial && c.isList() != (want == WantList) {
				is := "not a list"
				if want == WantList {
					is = "a list"
				}
				return Format{}, notAcceptable(fmt.Sprintf("you requested %s, but the requested object is %s", c.as, is))
			}
			return Format{encoding, shape}, nil
		}
	}
	if len(accept) > maxAccept {
		return Format{}, notAcceptable(fmt.Sprintf("the Accept header has %d bytes, and may have %d", len(accept), maxAccept))
	}
	var types []string
	for _, f := range []Format{{JSON, Full}, {Protobuf, Full}, {CBOR, Full}} {
		if has(f) {
			types = append(types, f.ContentType(false))
		}
	}
	return Format{}, notAcceptable("only the following media types are accepted: " + strings.Join(types, ", "))
}

// notAcceptable is 406: the answer to an Accept header that names nothing that the server has.
func notAcceptable(text string) error {
	return &apierrors.StatusError{ErrStatus: metav1.Status{
		Status:  metav1.StatusFailure,
		Code:    http.StatusNotAcceptable,
		Reason:  metav1.StatusReasonNotAcceptable,
		Message: text,
	}}
}

// A clause is one of the media types of an Accept header.
type clause struct {
	typ, subtype string
	q            float64
	// The parameters of Kubernetes. converts is set if there is one of as, g and v.
	as, group, version string
	converts           bool
	stream, server     string
}

// matches reports whether the clause accepts a media type.
func (c *clause) matches(mediaType string) bool {
	typ, subtype, _ := strings.Cut(mediaType, "/")
	return c.typ == typ && (c.subtype == subtype || c.subtype == "*") || c.typ == "*" && c.subtype == "*"
}

// streams reports whether the server has the kind of stream that the clause wants, and the version
// of the server's own types.
func (c *clause) streams() bool {
	return (c.stream == "" || c.stream == "watch") && (c.server == "" || c.server == "v1")
}

const (
	metaGroup   = "meta.k8s.io"
	metaVersion = "v1"
	partialKind = "PartialObjectMetadata"
	tableKind   = "Table"
	listSuffix  = "List"
)

// shape returns what the clause wants of the objects. ok is false if no server has that.
func (c *clause) shape() (s Shape, ok bool) {
	switch {
	case !c.converts:
		return Full, true
	case c.group != metaGroup || c.version != metaVersion:
		return Full, false
	case c.as == partialKind || c.as == partialKind+listSuffix:
		return Partial, true
	case c.as == tableKind:
		return Table, true
	}
	return Full, false
}

func (c *clause) isList() bool { return strings.HasSuffix(c.as, listSuffix) }

// aggregated reports whether the clause wants discovery in one document.
func (c *clause) aggregated() bool {
	return c.group == discoveryGroup && c.version == discoveryVersion && c.as == discoveryKind
}

// maxAccept is how long an Accept header may be. The header is read before it is known who sends
// it. Those of clients have some hundred bytes.
const maxAccept = 8 << 10

// parseAccept returns the clauses of an Accept header, the preferred ones first. It forgives what
// kube-apiserver forgives: clauses and parameters that it cannot read are as if they were not
// there. Of a header that is too long there is none.
func parseAccept(header string) []clause {
	if len(header) > maxAccept {
		return nil
	}
	var clauses []clause
	for part := range strings.SplitSeq(header, ",") {
		mediaType, params, _ := strings.Cut(trim(part), ";")
		typ, rest, _ := strings.Cut(mediaType, "/")
		subtype, more, _ := strings.Cut(rest, "/")
		c := clause{typ: trim(typ), subtype: trim(subtype), q: 1}
		switch {
		case rest == "" && c.typ == "*":
			c.subtype = "*"
		case rest == "" || more != "":
			continue
		}
		c.parse(params)
		clauses = append(clauses, c)
	}
	sort.Sort(byPreference(clauses))
	return clauses
}

// trim removes spaces only: kube-apiserver does not know a tab.
func trim(s string) string { return strings.Trim(s, " ") }

// parse reads the parameters of a clause.
func (c *clause) parse(params string) {
	for param := range strings.SplitSeq(params, ";") {
		name, value, _ := strings.Cut(param, "=")
		if value == "" || strings.Contains(strings.TrimSuffix(value, "="), "=") {
			continue
		}
		// Of a value that ends with a sign of equality, which is no token, the rest counts.
		value = strings.TrimSuffix(value, "=")
		to := (*string)(nil)
		switch trim(name) {
		case "q":
			c.q, _ = strconv.ParseFloat(value, 32)
		case "as":
			c.converts, to = true, &c.as
		case "g":
			c.converts, to = true, &c.group
		case "v":
			c.converts, to = true, &c.version
		case "stream":
			to = &c.stream
		case "sv":
			to = &c.server
		}
		if to != nil {
			*to = trim(value)
		}
	}
}

// byPreference is the order in which kube-apiserver tries clauses: a greater q first, but also a
// type that is named before one that is not, whatever their q. That is no order of the whole, and
// what comes of it depends on how it is sorted. So clauses are sorted here as there.
type byPreference []clause

func (s byPreference) Len() int      { return len(s) }
func (s byPreference) Swap(i, j int) { s[i], s[j] = s[j], s[i] }
func (s byPreference) Less(i, j int) bool {
	a, b := &s[i], &s[j]
	return a.q > b.q || a.typ != "*" && b.typ == "*" || a.subtype != "*" && b.subtype == "*"
}
