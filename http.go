package lw

import (
	"context"
	"fmt"
	"net/http"
	"reflect"
	"sync"

	"github.com/go-lw/lw/internal/decode"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/watch"
)

// HTTP is a [Source] over an API server's REST interface. It needs no generated client: T is any pointer to a struct with the
// JSON tags of the API's type, *unstructured.Unstructured, or *metav1.PartialObjectMetadata, for which servers send metadata
// only.
//
//	&lw.HTTP[*corev1.Pod]{URL: "http://127.0.0.1:8001/api/v1/pods"} // behind kubectl proxy
//	&lw.HTTP[*v1.Widget]{URL: …, Client: c}                        // c from rest.HTTPClientFor(config)
//
// Bytes become T once, object by object, while they arrive: memory holds neither a response nor a page. An object that does
// not fit T is an error of its own, with its key, and the ones behind it are read on; one of more than 64 MiB ends the request.
// As with a generated client, the Kind and APIVersion of a typed object are empty.
//
// On four cores or more, those of a long list are decoded by up to four goroutines at once, and yielded in order by the caller's
// all the same. Where T has an Unmarshal method of its own, it must bear to be called for different objects at the same time.
//
// Its fields must not be changed once it is in use.
type HTTP[T Object] struct {
	// URL is that of the collection, of all namespaces or of one; it may have a query, to which that of the request is added.
	URL string
	// Client sends the requests; nil: http.DefaultClient. It should have no Timeout, which would cut every watch.
	Client *http.Client
	// Accept is the Accept header; "": protobuf, if T has the Unmarshal method of generated API types, or else JSON.
	Accept string
	// Kind is the kind of the objects; "": what T is called, with a capital letter, if it is a struct with a TypeMeta. A list or
	// an object of another kind is a request that failed: a URL of another collection never looks like an empty one or one
	// of empty objects. A T that does not tell (without a TypeMeta, or *unstructured.Unstructured) is of any kind, but of one
	// kind only; so is the API group of any T. *metav1.PartialObjectMetadata may come as itself in addition.
	Kind string
	// Header is added to every request to the scheme, host and port of URL. It is not sent on to where a redirect leads, since
	// it may hold a key.
	Header http.Header
	// Drop names fields that nobody needs, by their path in JSON: "metadata.managedFields" is often half of an object. They
	// are passed over in the bytes and are empty in T. What follows the path of a map is one key of it, dots and all.
	// The server sends them all the same: as of Kubernetes 1.37 it cannot be asked to leave single fields out.
	Drop []string
	// Share lets objects share equal parts, such as the probes and tolerations of a deployment's pods, which saves memory and
	// time. A change to one object of the store, which is forbidden anyway, then shows in others: find it with
	// Options.DetectMutation before you set Share.
	Share bool

	mu   sync.Mutex
	idle *decode.Decoder // kept between requests for what it knows of the objects; nil while one uses it

	kinds *decode.Kinds // what all requests must agree about; nil before the first one
}

// List lists the collection, or the page that opts asks for. It returns an error that errors.As finds as an APIStatus where the
// server refused, with Retry-After in its details, and never takes a list that is cut off for a whole one. Every error names the
// URL, without a password and with no more of its query than the selectors. It is an [ErrPermanent] where the URL, a selector or
// a path of Drop is wrong, or T is no pointer to a struct.
func (h *HTTP[T]) List(ctx context.Context, opts metav1.ListOptions, yield func(T, error) error) (metav1.ListMeta, error) {
	opts.Watch = false
	var listMeta metav1.ListMeta
	err := h.do(ctx, opts, func(d *decode.Decoder, body *body) (err error) {
		listMeta, err = d.List(body, body.encoding, func(o decode.Object) error {
			obj, err := h.object(o)
			return stop(yield(obj, err))
		})
		return err
	})
	return listMeta, err
}

// Watch watches the collection. An ERROR event is an error that errors.As finds as the APIStatus that it holds. An object without a
// name or a resource version is an event with Err; one of another kind than the source's ends the watch.
func (h *HTTP[T]) Watch(ctx context.Context, opts metav1.ListOptions, yield func(WatchEvent[T]) error) error {
	opts.Watch = true
	return h.do(ctx, opts, func(d *decode.Decoder, body *body) error {
		read := d.Watch
		if opts.SendInitialEvents != nil && *opts.SendInitialEvents {
			read = d.WatchList
		}
		return read(body, body.encoding, func(e decode.Event) error {
			ev := WatchEvent[T]{
				Type:             watch.EventType(e.Type),
				ResourceVersion:  e.ResourceVersion,
				InitialEventsEnd: e.InitialEventsEnd,
				More:             e.More,
			}
			if ev.Type == watch.Bookmark {
				return stop(yield(ev))
			}
			ev.ResourceVersion = e.Object.Ident.ResourceVersion
			if obj, ok := e.Object.Value.(T); ok {
				ev.ResourceVersion = obj.GetResourceVersion()
			}
			// One without a version is an event that no server may send: the reflector refuses it.
			ev.Object, ev.Err = h.object(e.Object)
			return stop(yield(ev))
		})
	})
}

// object returns what was decoded, or an *Error that says why it is none.
func (h *HTTP[T]) object(o decode.Object) (T, error) {
	var zero T
	if o.Err != nil {
		return zero, decodeError(Key{Namespace: o.Ident.Namespace, Name: o.Ident.Name}, o.Err)
	}
	obj := o.Value.(T)
	if obj.GetName() == "" {
		return zero, decodeError(KeyOf(obj), errNoName)
	}
	return obj, nil
}

// do sends a request and passes its response to read.
func (h *HTTP[T]) do(ctx context.Context, opts metav1.ListOptions, read func(*decode.Decoder, *body) error) error {
	d, err := h.take()
	if err != nil {
		return permanent(fmt.Errorf("lw: HTTP: %s: %w", shown(h.URL), err))
	}
	defer h.put(d)
	accept := h.Accept
	if accept == "" {
		accept = acceptFor(reflect.TypeFor[T](), d.Protobuf(), opts.Watch)
	}
	d.StopWhen(ctx.Err)
	defer d.StopWhen(nil)
	r := request{base: h.URL, of: typeName[T](), client: h.Client, accept: accept, header: h.Header, protobuf: d.Protobuf()}
	err = r.do(ctx, opts, func(body *body) error { return read(d, body) })
	if s, ok := err.(stopped); ok {
		return s.error
	}
	return err
}

// stopped is an error that yield returned, which nobody may change.
type stopped struct{ error }

func stop(err error) error {
	if err == nil {
		return nil
	}
	return stopped{err}
}

func (h *HTTP[T]) take() (*decode.Decoder, error) {
	h.mu.Lock()
	d := h.idle
	h.idle = nil
	if h.kinds == nil {
		h.kinds = decode.NewKinds(reflect.TypeFor[T](), h.Kind)
	}
	kinds := h.kinds
	h.mu.Unlock()
	if d != nil {
		return d, nil
	}
	t := reflect.TypeFor[T]()
	if t.Kind() != reflect.Pointer || t.Elem().Kind() != reflect.Struct {
		return nil, fmt.Errorf("cannot decode into %v: want a pointer to a struct", t)
	}
	d, err := decode.New(t, decode.Options{Drop: h.Drop, Share: h.Share, Kinds: kinds})
	if err != nil && len(h.Drop) > 0 {
		err = fmt.Errorf("Drop: %w", err)
	}
	return d, err
}

func (h *HTTP[T]) put(d *decode.Decoder) {
	h.mu.Lock()
	h.idle = d
	h.mu.Unlock()
}
