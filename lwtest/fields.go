package lwtest

import (
	"fmt"
	"net/http"
	"slices"
	"strings"
	"testing"

	"github.com/go-lw/lw"
	"github.com/go-lw/lw/internal/decode/prune"
)

// Prune leaves of obj what f keeps and what identifies it, and returns it: so an informer with
// lw.HTTP.Only has it. obj itself is changed. Tests of code that gets objects of such an informer
// give it pruned ones, and see what it reads of the others:
//
//	fake.NewClientset(lwtest.Prune(pod, podFields))
//
// A path of f that names no field is ignored. [lw.HTTP] makes an error of it.
func Prune[T lw.Identified](obj T, f lw.Fields) T {
	prune.Object(obj, nil, f)
	return obj
}

// Masked returns a RoundTripper for the client of a program whose informers have masks: it fails t,
// and sends nothing, where an object that may lack fields is written whole, by a PUT. That would
// delete on the server what the object lacks. resources has the masks, by the names that kubectl
// has for the resources: "pods", "deployments.apps". next sends all other requests; nil:
// http.DefaultTransport.
//
// A scale is an object of its own, and is written. So is all that comes by a PATCH, of which the
// type and the content would have to be judged: controllerruntime.NewClient does that.
func Masked(t testing.TB, next http.RoundTripper, resources map[string]lw.Fields) http.RoundTripper {
	if next == nil {
		next = http.DefaultTransport
	}
	return &masked{t, next, resources}
}

type masked struct {
	testing.TB
	next      http.RoundTripper
	resources map[string]lw.Fields
}

// RoundTrip sends r, unless it writes an object that may lack fields.
func (m *masked) RoundTrip(r *http.Request) (*http.Response, error) {
	resource, part := resourceOf(r.URL.Path)
	fields := m.resources[resource]
	if r.Method != http.MethodPut || fields == nil || part == "scale" {
		return m.next.RoundTrip(r)
	}
	if r.Body != nil {
		_ = r.Body.Close() // as a RoundTripper has to, whatever comes of it
	}
	err := fmt.Errorf("lwtest: PUT %s: informers of %s keep only %q, so what an object lacks would be deleted on the server", r.URL.Path, resource, fields)
	m.Error(err)
	return nil, err
}

// resourceOf returns the resource of an object's URL, with its group, and its subresource.
func resourceOf(path string) (resource, part string) {
	words := strings.Split(strings.Trim(path, "/"), "/")
	// There may be a prefix before the API's own path.
	at := slices.IndexFunc(words, func(w string) bool { return w == "api" || w == "apis" })
	if at < 0 {
		return "", ""
	}
	group, grouped := "", words[at] == "apis"
	if words = words[at+1:]; grouped && len(words) > 0 {
		words, group = words[1:], "."+words[0]
	}
	if len(words) > 0 {
		words = words[1:] // behind the version
	}
	// A namespace is an object, too: with a subresource its path is as long as that of an object in
	// it.
	if len(words) > 3 && words[0] == "namespaces" {
		words = words[2:]
	}
	switch len(words) {
	case 0, 1:
		return "", ""
	case 2:
		return words[0] + group, ""
	}
	return words[0] + group, words[2]
}
