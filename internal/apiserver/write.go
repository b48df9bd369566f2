package apiserver

import (
	"encoding/json"
	"fmt"
	"io"
	"mime"
	"net/http"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/go-lw/lw/internal/history"
	"github.com/go-lw/lw/internal/listopts"
	"github.com/go-lw/lw/internal/wire"
)

// maxBody is the size in bytes of the largest object that is accepted, as on a real server.
const maxBody = 3 << 20

// get answers with an object.
func (x *exchange) get() error {
	obj, err := x.collection.history.Get(x.key())
	if err != nil {
		return err
	}
	return x.object(http.StatusOK, obj)
}

// object answers with an object, in the format that the client accepts.
func (x *exchange) object(code int, obj *stored) error {
	f, err := x.negotiate(wire.WantObject)
	if err != nil {
		return err
	}
	body, frames, err := newCodec(&x.collection.Resource, f).object(Unit{Version: obj.Version, obj: obj})
	if err != nil {
		return err
	}
	wire.WriteBody(x.w, f.ContentType(false), code, frames.AppendObject(nil, body))
	return nil
}

// put creates or updates the object in the request's body. What the body leaves out is taken from
// the path.
func (x *exchange) put() error {
	body, err := x.body()
	if err != nil {
		return err
	}
	in, version, err := x.collection.decode(body)
	if err != nil {
		return err
	}
	meta := &in.Value.meta
	if meta.Namespace == "" {
		meta.Namespace, in.Key.Namespace = x.req.Namespace, x.req.Namespace
	} else if meta.Namespace != x.req.Namespace {
		return apierrors.NewBadRequest("the namespace of the provided object does not match the namespace sent on the request")
	}
	if x.req.Verb == Create {
		if version != 0 {
			return apierrors.NewBadRequest("resourceVersion should not be set on objects to be created")
		}
		if r := &x.collection.Resource; r.Status && !createdWithStatus[r.groupResource()] {
			x.collection.fill(&in, exceptStatus(&content{}, in.Value))
		}
		obj, err := x.collection.create(in)
		if err != nil {
			return err
		}
		return x.object(http.StatusCreated, obj)
	}
	if meta.Name == "" {
		meta.Name, in.Key.Name = x.req.Name, x.req.Name
	} else if meta.Name != x.req.Name {
		return apierrors.NewBadRequest(fmt.Sprintf("the name of the object (%s) does not match the name on the URL (%s)", meta.Name, x.req.Name))
	}
	obj, err := x.collection.update(in, version, x.part())
	if err != nil {
		return err
	}
	return x.object(http.StatusOK, obj)
}

// remove deletes an object if the preconditions in the request's body hold.
func (x *exchange) remove() error {
	body, err := x.body()
	if err != nil {
		return err
	}
	var opts metav1.DeleteOptions
	if len(body) > 0 {
		if err := json.Unmarshal(body, &opts); err != nil {
			return apierrors.NewBadRequest(fmt.Sprintf("the body cannot be decoded as DeleteOptions: %v", err))
		}
	}
	var pre history.Preconditions
	if p := opts.Preconditions; p != nil {
		if p.UID != nil {
			pre.UID = *p.UID
		}
		if p.ResourceVersion != nil {
			if pre.Version, err = listopts.ParseVersion(*p.ResourceVersion); err != nil {
				return apierrors.NewBadRequest(err.Error())
			}
		}
	}
	last, _, gone, err := x.collection.remove(x.key(), pre)
	if err != nil {
		return err
	}
	if !gone {
		return x.object(http.StatusOK, last)
	}
	f, err := x.negotiate(wire.WantStatus)
	if err != nil {
		return err
	}
	wire.WriteStatus(x.w, f, &metav1.Status{
		TypeMeta: metav1.TypeMeta{APIVersion: "v1", Kind: "Status"},
		Status:   metav1.StatusSuccess,
		Code:     http.StatusOK,
		Details:  details(&x.collection.Resource, last.Key, last.UID),
	})
	return nil
}

// details name an object in a Status.
func details(r *Resource, key types.NamespacedName, uid types.UID) *metav1.StatusDetails {
	return &metav1.StatusDetails{Name: key.Name, Group: r.Group, Kind: r.Resource, UID: uid}
}

// body reads the request's body. If it is not empty it must be JSON.
func (x *exchange) body() ([]byte, error) {
	body, err := io.ReadAll(http.MaxBytesReader(x.w, x.r.Body, maxBody))
	if _, ok := err.(*http.MaxBytesError); ok {
		return nil, apierrors.NewRequestEntityTooLargeError(fmt.Sprintf("limit is %d", maxBody))
	}
	if err != nil {
		return nil, apierrors.NewBadRequest(err.Error())
	}
	if len(body) == 0 {
		return nil, nil
	}
	if t := x.r.Header.Get("Content-Type"); t != "" {
		if mediaType, _, err := mime.ParseMediaType(t); err != nil || mediaType != fullJSON.ContentType(false) {
			return nil, &apierrors.StatusError{ErrStatus: metav1.Status{
				Code:    http.StatusUnsupportedMediaType,
				Reason:  metav1.StatusReasonUnsupportedMediaType,
				Message: fmt.Sprintf("the body of the request was in an unsupported format (%s) - accepted media types include: %s", t, fullJSON.ContentType(false)),
			}}
		}
	}
	return body, nil
}
