package serve

import (
	"context"
	"fmt"
	"net/http"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/types"
	utilnet "k8s.io/apimachinery/pkg/util/net"

	"github.com/go-lw/lw/internal/listopts"
	"github.com/go-lw/lw/internal/registry"
	"github.com/go-lw/lw/internal/wire"
)

// warnCode is the code of a warning that stays as long as its cause, of RFC 7234. kube-apiserver
// uses it, too.
const warnCode = 299

// write does what a write to one object wants, and answers. The format of the answer is known
// before the body is read, so nothing is stored for a client that cannot be answered.
func (q *request) write() error {
	body, err := wire.ReadBody(q.w, q.r)
	if err != nil {
		return err
	}
	kind := q.collection.writes.kind
	w, err := kind.Prepare(registry.Request{
		Verb: registry.Verb(q.attributes.Verb), Key: q.key(), Subresource: q.target.Subresource, Query: q.r.URL.Query(),
		ContentType: q.r.Header.Get("Content-Type"), Body: body, UserAgent: q.r.UserAgent(), MayCreate: q.mayCreate,
	})
	if err != nil {
		return err
	}
	out, err := w.Run(q.r.Context(), q.collection.writes.store)
	for _, warning := range w.Warnings {
		if header, err := utilnet.NewWarningHeader(warnCode, "", warning); err == nil {
			q.w.Header().Add("Warning", header)
		}
	}
	switch {
	case err != nil:
		return err
	case out.Gone && !kind.AnswersWhole():
		wire.WriteStatus(q.w, wire.Format{Encoding: q.format.codec.Format().Encoding}, kind.Success(out.Object))
		return nil
	case out.Scale != nil:
		return q.writeScale(out.Scale)
	}
	version, _ := decimal(out.Object.Meta.ResourceVersion)
	i := q.collection.item(out.Object.Value, out.Object.Key(), out.Object.Meta.UID, version)
	return q.writeItem(out.Code, i)
}

// mayCreate asks whether the client of an apply may create what is not there.
func (q *request) mayCreate(context.Context) error {
	a := q.attributes
	a.Verb = string(registry.Create)
	return q.h.authorize(q.r, a)
}

// getScale answers with the scale of an object.
func (q *request) getScale() error {
	writes := q.collection.writes
	obj, err := writes.store.Get(q.r.Context(), q.key())
	if err == nil && obj == nil {
		err = apierrors.NewNotFound(q.collection.groupResource(), q.target.Name)
	}
	if err != nil {
		return err
	}
	scale, err := writes.kind.ScaleOf(obj)
	if err != nil {
		return err
	}
	return q.writeScale(scale)
}

func (q *request) writeScale(scale []byte) error {
	wire.WriteBody(q.w, mediaJSON, http.StatusOK, scale)
	return nil
}

// removeAll deletes the objects that a list would show, each as a DELETE of it would, and answers
// with that list.
func (q *request) removeAll() error {
	c := q.collection
	if c.cluster == q.target.Namespaced {
		return apierrors.NewMethodNotSupported(c.groupResource(), q.attributes.Verb)
	}
	body, err := wire.ReadBody(q.w, q.r)
	if err != nil {
		return err
	}
	options, err := registry.ParseDeleteOptions(q.r.URL.Query(), q.r.Header.Get("Content-Type"), body)
	if err != nil {
		return err
	}
	p, err := q.selected()
	if err != nil {
		return err
	}
	for _, i := range p.items {
		if err := c.writes.kind.Remove(q.r.Context(), c.writes.store, types.NamespacedName(i.key()), options); err != nil {
			return err
		}
	}
	return q.writeList(p)
}

// selected returns what a request for several objects selects of the newest state.
func (q *request) selected() (*page, error) {
	if err := listopts.ValidateList(q.opts); err != nil {
		return nil, err
	}
	f, err := q.filter()
	if err != nil {
		return nil, err
	}
	of, err := q.await(q.r.Context())
	if err != nil {
		return nil, err
	}
	p, err := q.page(f, of)
	if err != nil {
		return nil, err
	}
	for _, i := range p.items {
		if i.failed != nil && f.Selects() { // whether it is selected is not known
			return nil, apierrors.NewInternalError(fmt.Errorf("serve: %s: %s: %w", q.collection.name, i.path, i.failed.err))
		}
	}
	return p, nil
}
