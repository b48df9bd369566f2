package serve

import (
	"strings"

	"github.com/go-lw/lw"
)

// A target is what the path of a request names. The name of key is empty for a collection, and the
// namespace for all namespaces.
type target struct {
	verb                     string // watch or proxy, if the path begins with that
	group, version, resource string
	key                      lw.Key
	namespaced               bool // the path has a namespace before the resource
	subresource              string
	wrong                    bool // a part that names something is empty or missing
}

// parsePath parses /api/<version>/… or /apis/<group>/<version>/…, and after that
// [watch|proxy/][namespaces/<namespace>/]<plural>[/<name>[/<subresource>[/…]]], as kube-apiserver
// does before it authorizes a request. ok is false for a path that kube-apiserver finds to be about
// no resource. Whoever authorizes and whoever answers must agree, and the one who answers may be a
// kube-apiserver to which requests are forwarded.
func parsePath(path string) (t target, ok bool) {
	const most = 10 // parts that mean something, and one with the rest
	parts := strings.SplitN(strings.Trim(path, "/"), "/", most)
	switch {
	case len(parts) >= 3 && parts[0] == "api":
		parts = parts[1:]
	case len(parts) >= 4 && parts[0] == "apis":
		t.group, t.wrong, parts = parts[1], parts[1] == "", parts[2:]
	default:
		return t, false
	}
	t.version, parts = parts[0], parts[1:]
	t.wrong = t.wrong || t.version == ""
	if parts[0] == "watch" || parts[0] == "proxy" {
		if len(parts) < 2 {
			t.wrong = true
			return t, true
		}
		t.verb, parts = parts[0], parts[1:]
	}
	// The subresources of a namespace have the same form as a collection in it.
	if len(parts) > 2 && parts[0] == "namespaces" && parts[2] != "status" && parts[2] != "finalize" {
		t.namespaced, t.key.Namespace, parts = true, parts[1], parts[2:]
		t.wrong = t.wrong || t.key.Namespace == ""
	}
	for i, part := range parts[:min(len(parts), 3)] {
		t.wrong = t.wrong || part == ""
		switch {
		case i == 0:
			t.resource = part
		case i == 1:
			t.key.Name = part
		case t.verb != "proxy": // what is behind its name is a path of the proxy
			t.subresource = part
		}
	}
	return t, true
}

// namespace returns the namespace that the authorizer is asked about. A namespace is in itself.
func (t *target) namespace() string {
	if t.resource == "namespaces" && !t.namespaced {
		return t.key.Name
	}
	return t.key.Namespace
}

// dotted reports whether a path has a part that is a dot or two. What it means depends on who reads
// it: it must not be one thing to the authorizer, and another to a proxy behind it.
func dotted(path string) bool {
	for part := range strings.SplitSeq(path, "/") {
		if part == "." || part == ".." {
			return true
		}
	}
	return false
}

// Attributes are what a request wants, for [Options.Authorize]. They are those by which
// kube-apiserver would authorize the same request.
type Attributes struct {
	// Verb is get, list, watch, create, update, patch, delete or deletecollection, watch or proxy also
	// where the path says so, or empty for another method; for a request that is about no resource, the
	// method in lower case.
	Verb                         string
	Group, Version, Resource     string // empty if the request is about no resource
	Subresource, Namespace, Name string // Name is also that which the field selector of a list or a watch requires
	// LabelSelector and FieldSelector are those of a list, a watch or a deletecollection.
	LabelSelector, FieldSelector, Query string
	Path                                string
}
