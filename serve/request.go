package serve

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"strings"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
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
	if denied := h.authorize(r, q.attributes); denied != nil {
		q.fail(denied)
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
		q.fail(err)
	}
}

// parse finds out what the request wants. What it returns is an error of the client.
func (q *request) parse() error {
	q.attributes = Attributes{Verb: strings.ToLower(q.r.Method), Path: q.r.URL.Path, Query: q.r.URL.RawQuery}
	target, ok := parsePath(q.r.URL.Path)
	if !ok {
		return nil
	}
	q.target, q.served = target, q.h.find(target)
	a := &q.attributes
	a.Group, a.Version, a.Resource, a.Subresource = target.group, target.version, target.resource, target.subresource
	a.Namespace, a.Name = target.key.Namespace, target.key.Name
	var err error
	switch q.r.Method {
	case http.MethodGet, http.MethodHead:
		a.Verb = "get"
		query := q.r.URL.Query()
		opts, parseErr := listopts.Parse(query)
		if a.Name == "" || opts.Watch {
			a.Verb, err = "list", parseErr
			if opts.Watch {
				a.Verb = "watch"
			}
			if a.Name != "" { // an old form of a watch of one object
				selector := "metadata.name=" + a.Name
				if opts.FieldSelector != "" {
					selector += "," + opts.FieldSelector
				}
				opts.FieldSelector = selector
			}
		}
		q.opts = opts
		a.LabelSelector, a.FieldSelector = opts.LabelSelector, opts.FieldSelector
	case http.MethodPost:
		a.Verb = "create"
	case http.MethodPut:
		a.Verb = "update"
	case http.MethodPatch:
		a.Verb = "patch"
	case http.MethodDelete:
		if a.Verb = "delete"; a.Name == "" {
			a.Verb = "deletecollection"
		}
	}
	return err
}

// authorize returns nil if the request is allowed, else the error to answer with.
func (h *Handler) authorize(r *http.Request, a Attributes) error {
	resource := schema.GroupResource{Group: a.Group, Resource: a.Resource}
	if h.opts.Authorize == nil {
		return apierrors.NewForbidden(resource, a.Name, errors.New("this server has no authorizer, and so refuses all requests"))
	}
	err := h.opts.Authorize(r, a)
	if status := apierrors.APIStatus(nil); err == nil || errors.As(err, &status) {
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
	return apierrors.NewMethodNotSupported(q.served.groupResource(), q.attributes.Verb)
}

// other answers a request for what is not served as a collection.
func (q *request) other() error {
	if q.h.discovery.Serve(q.w, q.r) || q.openAPI() {
		return nil
	}
	if q.h.opts.Forward != nil {
		return q.forward()
	}
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
