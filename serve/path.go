package serve

import (
	"strings"

	"github.com/go-lw/lw"
)

// A target is what the path of a request names. The name of key is empty for a collection, and the
// namespace for all namespaces.
type target struct {
	group, version, resource string
	key                      lw.Key
	namespaced               bool // the path has a namespace
	subresource              string
}

// parsePath parses /api/<version>/… or /apis/<group>/<version>/…, and after that
// [namespaces/<namespace>/]<plural>[/<name>[/<subresource>]]. ok is false for a path of another
// form.
func parsePath(path string) (t target, ok bool) {
	parts := strings.Split(strings.Trim(path, "/"), "/")
	switch {
	case len(parts) >= 3 && parts[0] == "api":
		parts = parts[1:]
	case len(parts) >= 4 && parts[0] == "apis":
		t.group, parts = parts[1], parts[2:]
	default:
		return t, false
	}
	t.version, parts = parts[0], parts[1:]
	// The subresources of a namespace have the same form as a collection in it.
	if len(parts) > 2 && parts[0] == "namespaces" && !(len(parts) == 3 && (parts[2] == "status" || parts[2] == "finalize")) {
		t.namespaced, t.key.Namespace, parts = true, parts[1], parts[2:]
	}
	if len(parts) > 3 {
		return t, false
	}
	t.resource = parts[0]
	if len(parts) > 1 {
		t.key.Name = parts[1]
	}
	if len(parts) > 2 {
		t.subresource = parts[2]
	}
	for _, part := range parts {
		if part == "" {
			return t, false
		}
	}
	return t, !t.namespaced || t.key.Namespace != ""
}

// Attributes are what a request wants, for [Options.Authorize].
type Attributes struct {
	// Verb is get, list, watch, create, update, delete or deletecollection; for a request that is
	// about no resource, and for one that is unknown here, the method in lower case.
	Verb                                string
	Group, Version, Resource            string // empty if the request is about no resource
	Subresource, Namespace, Name        string
	LabelSelector, FieldSelector, Query string
	Path                                string
}
