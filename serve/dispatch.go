package serve

import (
	"cmp"
	"context"
	"errors"
	"net/http"
	"strings"

	apierrors "k8s.io/apimachinery/pkg/api/errors"

	"github.com/go-lw/lw/internal/listopts"
	"github.com/go-lw/lw/internal/registry"
	"github.com/go-lw/lw/internal/wire"
)

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
	case err != nil: // not all of the query was understood, and so Authorize was not asked about all
		q.refuse(err)
		return
	case q.collection == nil:
		err = q.other()
	default:
		err = q.answer()
	}
	if h.opts.Forward != nil && q.elsewhere(err) {
		err = q.forward()
	}
	if err != nil {
		q.refuse(err)
	}
}

// elsewhere reports whether the server of Options.Forward may answer what has failed here: it may
// be reached where that of the informer is not, and knows fields and formats that a relay does not.
func (q *request) elsewhere(err error) bool {
	stale, ok := errors.AsType[*notFreshError](err)
	switch c := q.collection; {
	case ok:
		return !stale.older
	case c == nil || c.writes != nil || c.history.own != nil: // it is no relay
		return false
	case apierrors.IsBadRequest(err):
		_, wrong := listopts.NewFilter("", q.opts, func(string) bool { return true })
		return wrong == nil
	}
	return apierrors.IsNotAcceptable(err)
}

// refuse answers with an error, unless what went wrong is that the client has gone, or has said
// that it sends nothing more, which net/http takes for the same. It is owed no answer then: the
// connection ends without one.
func (q *request) refuse(err error) {
	switch ended := q.r.Context().Err(); {
	case errors.Is(ended, context.Canceled) && (errors.Is(err, context.Canceled) || !isStatus(err)):
		panic(http.ErrAbortHandler)
	case ended != nil && !isStatus(err): // somebody has given the request a deadline
		err = apierrors.NewTimeoutError(err.Error(), 1)
	}
	q.fail(err)
}

// answer answers a request for what is served.
func (q *request) answer() error {
	if q.h.isClosed() {
		return tooSoon("the server is shutting down")
	}
	if !q.collection.history.extent().synced {
		return q.collection.notSynced()
	}
	switch q.attributes.Verb {
	case "get":
		if q.target.Subresource == registry.SubScale {
			return q.inFormat(wire.WantObject, q.getScale)
		}
		return q.inFormat(wire.WantObject, q.get)
	case "list":
		return q.inFormat(wire.WantList, q.list)
	case "watch":
		if q.r.Method != http.MethodGet {
			return apierrors.NewMethodNotSupported(q.collection.groupResource(), strings.ToLower(q.r.Method))
		}
		return q.inFormat(wire.WantWatch, q.watch)
	case "create", "update", "patch", "delete":
		if q.collection.writes != nil {
			return q.inFormat(wire.WantObject, q.write)
		}
	case "deletecollection":
		if q.collection.writes != nil {
			return q.inFormat(wire.WantList, q.removeAll)
		}
	}
	if q.h.opts.Forward != nil {
		return q.forward()
	}
	return apierrors.NewMethodNotSupported(q.collection.groupResource(), cmp.Or(q.attributes.Verb, strings.ToLower(q.r.Method)))
}

// other answers a request for what is not served as a collection.
func (q *request) other() error {
	switch {
	case q.h.opts.Forward != nil: // discovery, too: the server there has what clients may find here
		return q.forward()
	case q.h.discovery.Serve(q.w, q.r):
		return nil
	}
	return q.notFound()
}

func (q *request) forward() error {
	q.h.opts.Forward.ServeHTTP(q.w, q.r)
	return nil
}
