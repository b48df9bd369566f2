package serve

import (
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strings"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/validate/content"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/go-lw/lw"
	"github.com/go-lw/lw/internal/listopts"
	"github.com/go-lw/lw/internal/wire"
)

// A request is a request of a client while it is answered. It belongs to the goroutine of the
// request.
type request struct {
	h          *Handler
	w          http.ResponseWriter
	r          *http.Request
	target     wire.Target
	attributes Attributes
	collection *collection        // nil if the path names nothing that is served
	opts       metav1.ListOptions // of a list or a watch
	format     format             // of the answer
}

// key returns the key of the object that the path names.
func (q *request) key() lw.Key { return lw.Key{Namespace: q.target.Namespace, Name: q.target.Name} }

// maxQuery is how long the query of a list or a watch may be. kube-apiserver has no limit but that
// of net/http for all headers, a megabyte. But a selector is held and matched for as long as its
// watch is open.
const maxQuery = 32 << 10

// parse finds out what the request wants. What it returns is an error of the client.
func (q *request) parse() error {
	a := &q.attributes
	*a = Attributes{Verb: strings.ToLower(q.r.Method), Path: q.r.URL.Path, Query: q.r.URL.RawQuery}
	target, ok := wire.ParsePath(a.Path)
	if ok {
		q.target = target
		a.Group, a.Version, a.Resource, a.Subresource = target.Group, target.Version, target.Resource, target.Subresource
		a.Namespace, a.Name = target.AuthorizedNamespace(), target.Name
		if a.Resource != "" {
			a.Verb = verbOf(q.r.Method)
		}
	}
	err := q.parseVerb()
	if wire.Dotted(a.Path) || target.Wrong {
		return q.notFound()
	}
	if ok {
		q.collection = q.h.find(target)
	}
	return err
}

// parseVerb finds out what is to be done with the resource of the request.
func (q *request) parseVerb() error {
	a := &q.attributes
	switch {
	case q.target.Verb != "":
		if a.Verb = q.target.Verb; a.Verb == "watch" {
			return q.parseOldWatch()
		}
	case a.Resource == "":
	case a.Verb == "get" && a.Name != "":
		q.opts.ResourceVersion = q.r.URL.Query().Get("resourceVersion")
	case a.Name != "":
	case a.Verb == "get":
		return q.parseList()
	case a.Verb == "delete":
		a.Verb = "deletecollection"
		return q.parseOptions()
	}
	return nil
}

// verbOf returns the verb of a method.
func verbOf(method string) string {
	switch method {
	case http.MethodGet, http.MethodHead:
		return "get"
	case http.MethodPost:
		return "create"
	case http.MethodPut:
		return "update"
	case http.MethodPatch:
		return "patch"
	case http.MethodDelete:
		return "delete"
	}
	return ""
}

// parseOptions reads the options of a request for several objects, and passes the selectors to the
// authorizer.
func (q *request) parseOptions() error {
	if n := len(q.r.URL.RawQuery); n > maxQuery {
		return apierrors.NewBadRequest(fmt.Sprintf("the query has %d bytes, and may have %d", n, maxQuery))
	}
	var err error
	q.opts, err = listopts.Parse(q.r.URL.Query())
	q.attributes.LabelSelector, q.attributes.FieldSelector = q.opts.LabelSelector, q.opts.FieldSelector
	return err
}

// parseList reads the options of a list or a watch.
func (q *request) parseList() error {
	err := q.parseOptions()
	a := &q.attributes
	if a.Verb = "list"; q.opts.Watch {
		a.Verb = "watch"
	}
	if name := listopts.RequiredName(q.opts); err == nil && len(content.IsPathSegmentName(name)) == 0 {
		a.Name = name
	}
	return err
}

// parseOldWatch reads the options of a watch whose path says that it is one. As on kube-apiserver
// the authorizer does not get its selectors, and beside a name in the path there is no other one.
func (q *request) parseOldWatch() error {
	err := q.parseOptions()
	q.attributes.LabelSelector, q.attributes.FieldSelector = "", ""
	name := q.target.Name
	if err != nil || name == "" {
		return err
	}
	switch {
	case q.opts.FieldSelector == "":
		q.opts.FieldSelector = fields.OneTermEqualSelector("metadata.name", name).String()
	case listopts.RequiredName(q.opts) != name:
		return apierrors.NewBadRequest("the metadata.name of the fieldSelector is not the name in the path")
	}
	return nil
}

// authorize returns nil if the request is allowed, else the error to answer with.
func (q *request) authorize() error {
	a := q.attributes
	if q.h.opts.Forward != nil && a.Verb == "get" && a.Group == "" && a.Resource == "pods" &&
		slices.Contains([]string{"exec", "attach", "portforward"}, a.Subresource) {
		// To open such a connection is to create one, however it is asked for. kube-apiserver asks for
		// this right itself, but of a request that is forwarded with the program's own credentials it
		// can only ask whether the program has it.
		a.Verb = "create"
		if denied := q.h.authorize(q.r, a); denied != nil {
			return denied
		}
	}
	return q.h.authorize(q.r, q.attributes)
}

// authorize asks Options.Authorize.
func (h *Handler) authorize(r *http.Request, a Attributes) error {
	resource := schema.GroupResource{Group: a.Group, Resource: a.Resource}
	if h.opts.Authorize == nil {
		return apierrors.NewForbidden(resource, a.Name, errors.New("this server has no authorizer, and so refuses all requests"))
	}
	err := h.opts.Authorize(r, a)
	if err == nil || isStatus(err) || r.Context().Err() != nil { // the last is its error, see refuse
		return err
	}
	return apierrors.NewForbidden(resource, a.Name, err)
}

// notFound is the answer where there is nothing.
func (q *request) notFound() error {
	resource := schema.GroupResource{Group: q.target.Group, Resource: q.target.Resource}
	return apierrors.NewGenericServerResponse(http.StatusNotFound, q.attributes.Verb, resource, q.target.Name, "", 0, false)
}
