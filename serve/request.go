package serve

import (
	"cmp"
	"context"
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

	"github.com/go-lw/lw/internal/listopts"
	"github.com/go-lw/lw/internal/wire"
)

// A request is a request of a client while it is answered. It belongs to the goroutine of the
// request.
type request struct {
	h *Handler
	w http.ResponseWriter
	r *http.Request
	target
	attributes Attributes
	served     *served            // nil if the path names nothing that is served
	opts       metav1.ListOptions // of a list or a watch
	format     format             // of the answer
}

// ServeHTTP answers a request.
func (h *Handler) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	q := &request{h: h, w: w, r: r}
	err := q.parse()
	// Nothing is answered before Authorize has allowed it, not even that there is no such thing.
	if denied := q.authorize(); denied != nil {
		q.refuse(denied)
		return
	}
	switch {
	case err != nil:
	case q.served == nil:
		err = q.other()
	default:
		err = q.answer()
	}
	if stale, ok := errors.AsType[*notFreshError](err); ok && !stale.older && h.opts.Forward != nil {
		err = q.forward()
	}
	if err != nil {
		q.refuse(err)
	}
}

// refuse answers with an error, unless what went wrong is that the client has gone, or has said that
// it sends nothing more, which net/http takes for the same. It is owed no answer then: the connection
// ends without one.
func (q *request) refuse(err error) {
	switch ended := q.r.Context().Err(); {
	case errors.Is(ended, context.Canceled) && (errors.Is(err, context.Canceled) || !isStatus(err)):
		panic(http.ErrAbortHandler)
	case ended != nil && !isStatus(err): // somebody has given the request a deadline
		err = apierrors.NewTimeoutError(err.Error(), 1)
	}
	q.fail(err)
}

func isStatus(err error) bool {
	status := apierrors.APIStatus(nil)
	return errors.As(err, &status)
}

// maxQuery is how long the query of a list or a watch may be. kube-apiserver has no limit but that
// of net/http for all headers, a megabyte. But a selector is held and matched for as long as its
// watch is open.
const maxQuery = 32 << 10

// parse finds out what the request wants. What it returns is an error of the client.
func (q *request) parse() error {
	a := &q.attributes
	*a = Attributes{Verb: strings.ToLower(q.r.Method), Path: q.r.URL.Path, Query: q.r.URL.RawQuery}
	target, ok := parsePath(a.Path)
	if ok {
		q.target = target
		a.Group, a.Version, a.Resource, a.Subresource = target.group, target.version, target.resource, target.subresource
		a.Namespace, a.Name = target.namespace(), target.key.Name
		if a.Resource != "" {
			a.Verb = verbOf(q.r.Method)
		}
	}
	err := q.parseVerb()
	if dotted(a.Path) || target.wrong {
		return q.notFound()
	}
	if ok {
		q.served = q.h.find(target)
	}
	return err
}

// parseVerb finds out what is to be done with the resource of the request.
func (q *request) parseVerb() error {
	a := &q.attributes
	switch {
	case q.target.verb != "":
		if a.Verb = q.target.verb; a.Verb == "watch" {
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

// parseOptions reads the options of a request for several objects, and tells the authorizer of the
// selectors.
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

// parseOldWatch reads the options of a watch whose path says that it is one. As on kube-apiserver the
// authorizer is not told of its selectors, and beside a name in the path there is no other one.
func (q *request) parseOldWatch() error {
	err := q.parseOptions()
	q.attributes.LabelSelector, q.attributes.FieldSelector = "", ""
	name := q.target.key.Name
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

// answer answers a request for what is served.
func (q *request) answer() (err error) {
	if q.h.isClosed() {
		return tooSoon("the server is shutting down")
	}
	if !q.served.synced() {
		return q.served.notSynced()
	}
	switch q.attributes.Verb {
	case "get":
		if q.format, err = q.negotiate(wire.WantObject); err != nil {
			return err
		}
		return q.get()
	case "list":
		if q.format, err = q.negotiate(wire.WantList); err != nil {
			return err
		}
		return q.list()
	case "watch":
		if q.r.Method != http.MethodGet {
			return apierrors.NewMethodNotSupported(q.served.groupResource(), strings.ToLower(q.r.Method))
		}
		if q.format, err = q.negotiate(wire.WantWatch); err != nil {
			return err
		}
		return q.watch()
	case "create", "update", "delete":
		if q.served.writes != nil {
			return q.write()
		}
	}
	if q.h.opts.Forward != nil {
		return q.forward()
	}
	return apierrors.NewMethodNotSupported(q.served.groupResource(), cmp.Or(q.attributes.Verb, strings.ToLower(q.r.Method)))
}

// other answers a request for what is not served as a collection.
func (q *request) other() error {
	if q.h.discovery.Serve(q.w, q.r) || q.openAPI() {
		return nil
	}
	if q.h.opts.Forward != nil {
		return q.forward()
	}
	return q.notFound()
}

// notFound is the answer where there is nothing.
func (q *request) notFound() error {
	return &apierrors.StatusError{ErrStatus: metav1.Status{
		Status: metav1.StatusFailure, Code: http.StatusNotFound, Reason: metav1.StatusReasonNotFound,
		Message: "the server could not find the requested resource",
		Details: &metav1.StatusDetails{Group: q.target.group, Kind: q.target.resource, Name: q.target.key.Name},
	}}
}

func (q *request) forward() error {
	q.h.opts.Forward.ServeHTTP(q.w, q.r)
	return nil
}

func (r *resource) groupResource() schema.GroupResource {
	return schema.GroupResource{Group: r.group, Resource: r.name}
}

// filter returns what the selectors of the request select.
func (q *request) filter() (*filter, error) {
	s := q.served
	f, err := s.newFilter(q.target.key.Namespace, q.opts, func() string { return q.h.opts.Client(q.r) })
	if err != nil {
		return nil, err
	}
	if q.opts.LabelSelector != "" && s.labels == nil {
		return nil, apierrors.NewBadRequest(fmt.Sprintf("label selector %q: %s have no labels", q.opts.LabelSelector, s.name))
	}
	return f, nil
}

func (s *served) notSynced() error {
	return tooSoon(fmt.Sprintf("%s are not synced yet", s.name))
}

// newest returns when the collection is as new as its server was when the request came. The error
// says that this cannot be known now.
func (q *request) newest(ctx context.Context) error {
	if q.served.catchUp == nil {
		return nil
	}
	asked, cancel := context.WithTimeoutCause(ctx, patience, errSilent)
	defer cancel()
	version, err := q.served.serverVersion(asked)
	if err == nil {
		err = q.served.waitFor(asked, version, patience)
	}
	if err == nil || ctx.Err() != nil {
		return err
	}
	return errNotFresh(err)
}

// serverVersion returns the version of the server when the collection is as new.
func (s *served) serverVersion(ctx context.Context) (uint64, error) {
	text, err := s.catchUp(ctx)
	if err != nil {
		return 0, err
	}
	return listopts.ParseVersion(text)
}

// A notFreshError is the answer to a request for the newest state while the server of the informer
// does not answer: a timeout, as a server gives it that cannot reach its store. Nothing was written
// yet, so the request can be forwarded.
type notFreshError struct {
	*apierrors.StatusError
	// older says that the server has answered with an older state than what is here. It lags, or has
	// another history, which the informer is finding out. A client that read there now, and then
	// watched here, would be told of what that server never had.
	older bool
}

func errNotFresh(err error) error {
	status := listopts.TooLarge(0, 0).(*apierrors.StatusError)
	status.ErrStatus.Message = fmt.Sprintf("the newest state cannot be known: %v", err)
	var older interface{ ServerIsOlder() }
	return &notFreshError{status, errors.As(err, &older)}
}
