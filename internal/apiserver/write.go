package apiserver

import (
	"bytes"
	"io"
	"net/http"
	"slices"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	utilnet "k8s.io/apimachinery/pkg/util/net"

	"github.com/go-lw/lw/internal/registry"
	"github.com/go-lw/lw/internal/wire"
)

// get answers with an object, or with its scale.
func (x *exchange) get() error {
	f, err := x.negotiate(wire.WantObject)
	if err != nil {
		return err
	}
	obj, err := x.collection.history.Get(x.key())
	if err != nil {
		return err
	}
	r := &x.collection.Resource
	if x.req.Subresource != registry.SubScale {
		return x.object(f, http.StatusOK, obj, r)
	}
	if obj, err = r.shown(obj); err != nil {
		return err
	}
	scale, err := x.collection.kind.ScaleOf(objectOf(obj, obj.Version))
	if err != nil {
		return err
	}
	wire.WriteBody(x.w, f.ContentType(false), http.StatusOK, scale)
	return nil
}

// object answers with an object of r.
func (x *exchange) object(f wire.Format, code int, obj *stored, r *Resource) error {
	body, frames, err := newCodec(r, f, x.include).object(Unit{Version: obj.Version, obj: obj})
	if err != nil {
		return err
	}
	wire.WriteBody(x.w, f.ContentType(false), code, frames.AppendObject(nil, body))
	return nil
}

// write does what a write wants, and answers.
func (x *exchange) write() error {
	f, err := x.negotiate(wire.WantObject)
	if err != nil {
		return err
	}
	body, err := wire.ReadBody(x.w, x.r)
	if err != nil {
		return err
	}
	kind := x.collection.kind
	w, err := kind.Prepare(registry.Request{
		Verb: registry.Verb(x.req.Verb), Key: x.key(), Subresource: x.req.Subresource, Query: x.r.URL.Query(),
		ContentType: x.r.Header.Get("Content-Type"), Body: body, UserAgent: x.r.UserAgent(),
	})
	if err != nil {
		return err
	}
	out, err := w.Run(x.r.Context(), store{x.collection})
	for _, warning := range w.Warnings {
		if header, err := utilnet.NewWarningHeader(299, "", warning); err == nil {
			x.w.Header().Add("Warning", header)
		}
	}
	if err != nil {
		return err
	}
	return x.answered(func() error {
		switch {
		case out.Gone && !kind.AnswersWhole():
			wire.WriteStatus(x.w, wire.Format{Encoding: f.Encoding}, kind.Success(out.Object))
			return nil
		case out.Scale != nil:
			wire.WriteBody(x.w, f.ContentType(false), http.StatusOK, out.Scale)
			return nil
		}
		obj := storedOf(out.Object)
		return x.object(f, out.Code, &obj, &x.collection.Resource)
	})
}

// answered answers a write that is done, unless a fault says otherwise; see [Written].
func (x *exchange) answered(answer func() error) error {
	if x.written == nil {
		return answer()
	}
	late := &exchange{w: x.w, r: x.r, req: x.req, collection: x.collection}
	x.written(late)
	if late.wait != nil && !late.wait(x.r.Context()) {
		return nil
	}
	if late.instead != nil {
		late.instead()
		return nil
	}
	return answer()
}

// meta returns the metadata in the body of the request, which it leaves to be read again.
func (x *exchange) meta() *metav1.ObjectMeta {
	if !slices.Contains([]Verb{Create, Update, Patch}, x.req.Verb) {
		return nil
	}
	body, err := io.ReadAll(io.LimitReader(x.r.Body, wire.MaxBody+1))
	r := *x.r
	r.Body = readCloser{io.MultiReader(bytes.NewReader(body), x.r.Body), x.r.Body} // an error comes again
	x.r = &r
	if err != nil {
		return nil
	}
	return registry.SentMeta(x.r.Header.Get("Content-Type"), body)
}

// A readCloser is a body that was read, and put together again.
type readCloser struct {
	io.Reader
	io.Closer
}

// removeAll deletes the objects that a list would show, each as a DELETE of it would, and answers
// with that list.
func (x *exchange) removeAll() error {
	f, err := x.negotiate(wire.WantList)
	if err != nil {
		return err
	}
	body, err := wire.ReadBody(x.w, x.r)
	if err != nil {
		return err
	}
	options, err := registry.ParseDeleteOptions(x.r.URL.Query(), x.r.Header.Get("Content-Type"), body)
	if err != nil {
		return err
	}
	page, err := x.collection.history.List(x.req.Namespace, x.req.Options)
	if err != nil {
		return err
	}
	for _, obj := range page.Items {
		if err := x.collection.kind.Remove(x.r.Context(), store{x.collection}, obj.Key, options); err != nil {
			return err
		}
	}
	return x.answered(func() error { return x.sendPage(f, page) })
}
