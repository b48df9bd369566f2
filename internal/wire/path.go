package wire

import "strings"

// A Target is what the path of a request names. Name is empty for a collection, and Namespace for
// all namespaces.
type Target struct {
	Verb                     string // watch or proxy, if the path begins with that
	Group, Version, Resource string
	Namespace, Name          string
	Namespaced               bool // the path has a namespace before the resource
	Subresource              string
	Longer                   bool // the path goes on behind that
	Wrong                    bool // a part that names something is empty or missing
}

// ParsePath parses /api/<version>/… or /apis/<group>/<version>/…, and after that
// [watch|proxy/][namespaces/<namespace>/]<plural>[/<name>[/<subresource>[/…]]], as kube-apiserver
// does before it authorizes a request. ok is false for a path that kube-apiserver finds to be about
// no resource. Whoever authorizes and whoever answers must agree, and the one who answers may be a
// kube-apiserver to which requests are forwarded.
func ParsePath(path string) (t Target, ok bool) {
	const most = 10 // parts that mean something, and one with the rest
	parts := strings.SplitN(strings.Trim(path, "/"), "/", most)
	switch {
	case len(parts) >= 3 && parts[0] == "api":
		parts = parts[1:]
	case len(parts) >= 4 && parts[0] == "apis":
		t.Group, t.Wrong, parts = parts[1], parts[1] == "", parts[2:]
	default:
		return t, false
	}
	t.Version, parts = parts[0], parts[1:]
	t.Wrong = t.Wrong || t.Version == ""
	if parts[0] == "watch" || parts[0] == "proxy" {
		if len(parts) < 2 {
			t.Wrong = true
			return t, true
		}
		t.Verb, parts = parts[0], parts[1:]
	}
	// The subresources of a namespace have the same form as a collection in it.
	if len(parts) > 2 && parts[0] == "namespaces" && parts[2] != "status" && parts[2] != "finalize" {
		t.Namespaced, t.Namespace, parts = true, parts[1], parts[2:]
		t.Wrong = t.Wrong || t.Namespace == ""
	}
	t.Longer = len(parts) > 3
	for i, part := range parts[:min(len(parts), 3)] {
		t.Wrong = t.Wrong || part == ""
		switch {
		case i == 0:
			t.Resource = part
		case i == 1:
			t.Name = part
		case t.Verb != "proxy": // what is behind its name is a path of the proxy
			t.Subresource = part
		}
	}
	return t, true
}

// AuthorizedNamespace returns the namespace that an authorizer is asked about. A namespace is in
// itself.
func (t *Target) AuthorizedNamespace() string {
	if t.Resource == "namespaces" && !t.Namespaced {
		return t.Name
	}
	return t.Namespace
}

// Dotted reports whether a path has a part that is a dot or two. What it means depends on who reads
// it: it must not be one thing to the authorizer, and another to a proxy behind it.
func Dotted(path string) bool {
	for part := range strings.SplitSeq(path, "/") {
		if part == "." || part == ".." {
			return true
		}
	}
	return false
}
