package clientgo

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"reflect"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/watch"
	clientfeatures "k8s.io/client-go/features"
	"k8s.io/client-go/tools/cache"
	"k8s.io/client-go/util/watchlist"

	"github.com/go-lw/lw"
)

// Source returns a source of what listerWatcher lists and watches. It is for code that has a
// ListerWatcher anyway, and whose types are known at run time only: [SourceOf] keeps the type, and
// [HTTP] decodes several times faster.
//
// If example is not nil, an object of another type than example's is set aside, as one that cannot
// be decoded. So is an object of another kind, if example is an *unstructured.Unstructured with a
// kind. Source panics if listerWatcher is nil.
func Source(listerWatcher cache.ListerWatcher, example runtime.Object) lw.Source[metav1.Object] {
	if isNil(listerWatcher) {
		panic("clientgo: Source: nil lister-watcher")
	}
	return newSource[metav1.Object](listerWatcher, example)
}

// SourceOf is like [Source], for objects of the type T. An object of another type is set aside.
func SourceOf[T lw.Object](listerWatcher cache.ListerWatcher) lw.Source[T] {
	if isNil(listerWatcher) {
		panic("clientgo: SourceOf: nil lister-watcher")
	}
	return newSource[T](listerWatcher, nil)
}

func newSource[T lw.Object](listerWatcher cache.ListerWatcher, example runtime.Object) *source[T] {
	from := cache.ToListerWatcherWithContext(listerWatcher)
	s := &source[T]{
		requests: lw.ListWatch[T, runtime.Object]{
			ListFunc: func(ctx context.Context, opts metav1.ListOptions) (runtime.Object, error) {
				return await(ctx, func() (runtime.Object, error) { return from.ListWithContext(ctx, opts) }, nil)
			},
			WatchFunc: func(ctx context.Context, opts metav1.ListOptions) (watch.Interface, error) {
				w, err := await(ctx, func() (watch.Interface, error) { return from.WatchWithContext(ctx, opts) }, watch.Interface.Stop)
				if err != nil && opts.SendInitialEvents != nil && *opts.SendInitialEvents && isUnknown(err) {
					err = noStreamError{err}
				}
				return w, err
			},
		},
		stream: clientfeatures.FeatureGates().Enabled(clientfeatures.WatchListClient) &&
			!watchlist.DoesClientNotSupportWatchListSemantics(listerWatcher),
		decoder: byClientGo,
	}
	if example != nil {
		s.want = reflect.TypeOf(example)
		if u, ok := example.(*unstructured.Unstructured); ok {
			s.kind = u.GroupVersionKind()
		}
	}
	return s
}

// byClientGo is the lw.SourceHints.Decoder of what client-go decodes. With a Decoder the reason
// follows.
const byClientGo = "client-go"

// source is the Source of a ListerWatcher.
type source[T lw.Object] struct {
	requests lw.ListWatch[T, runtime.Object]
	stream   bool                    // client-go would stream lists; see Hints
	decoder  string                  // for the hints
	want     reflect.Type            // of the objects; nil: any
	kind     schema.GroupVersionKind // of unstructured objects; empty: any
}

// A noStreamError says that a watch with a streamed list failed in the client. Many a ListerWatcher
// that was written by hand does not know of such watches, and reads a resource version where there
// is none. client-go lists at once then. The status makes lw do the same.
type noStreamError struct{ error }

func (e noStreamError) Unwrap() error { return e.error }

func (e noStreamError) Status() metav1.Status {
	return metav1.Status{Status: metav1.StatusFailure, Code: http.StatusBadRequest, Reason: metav1.StatusReasonBadRequest, Message: e.Error()}
}

// isUnknown reports whether err is neither an answer of the server nor a failure of the network.
func isUnknown(err error) bool {
	var status apierrors.APIStatus
	var network net.Error
	return !errors.As(err, &status) && !errors.As(err, &network) && !errors.Is(err, io.EOF) && !errors.Is(err, io.ErrUnexpectedEOF)
}

// Hints returns those of client-go's fakes, which its lists and watches tell. Lists are not
// streamed either if client-go's feature gate WatchListClient is off, or if the ListerWatcher opts
// out of it. That does not make it a fake: kube-state-metrics opts out with a real client.
func (s *source[T]) Hints() lw.SourceHints {
	h := s.requests.Hints()
	h.NoStream = h.NoStream || !s.stream
	h.Decoder = s.decoder
	h.StillHas = func(ctx context.Context, obj lw.Meta, version string) (bool, error) {
		return lw.StillHasByList(ctx, s, obj, version)
	}
	return h
}

func (s *source[T]) List(ctx context.Context, opts metav1.ListOptions, yield func(T, error) error) (metav1.ListMeta, error) {
	if s.want == nil {
		return s.requests.List(ctx, opts, yield)
	}
	return s.requests.List(ctx, opts, func(obj T, err error) error {
		if err == nil {
			if err = s.check(obj); err != nil {
				var none T
				obj = none
			}
		}
		return yield(obj, err)
	})
}

func (s *source[T]) Watch(ctx context.Context, opts metav1.ListOptions, yield func(lw.WatchEvent[T]) error) error {
	if s.want == nil {
		return s.requests.Watch(ctx, opts, yield)
	}
	return s.requests.Watch(ctx, opts, func(ev lw.WatchEvent[T]) error {
		if ev.Err == nil && ev.Type != watch.Bookmark {
			if err := s.check(ev.Object); err != nil {
				var none T
				ev.Object, ev.Err = none, err
			}
		}
		return yield(ev)
	})
}

// check returns the error of an object that is not of the type or kind of the example.
func (s *source[T]) check(obj T) error {
	if got := reflect.TypeOf(obj); got != s.want {
		return &lw.Error{Op: "decode", Key: lw.KeyOf(obj), Err: fmt.Errorf("the object is a %v, not a %v as the example", got, s.want)}
	}
	if !s.kind.Empty() {
		if got := any(obj).(*unstructured.Unstructured).GroupVersionKind(); got != s.kind {
			return &lw.Error{Op: "decode", Key: lw.KeyOf(obj), Err: fmt.Errorf("the object is a %v, not a %v as the example", got, s.kind)}
		}
	}
	return nil
}

// patience is how long a request may go on after its context is done. Many functions of a
// ListerWatcher get no context, or pass on another one.
const patience = 100 * time.Millisecond

// await returns the result of request. If request does not return within patience after ctx is
// done, await returns the cause of ctx, and discard gets what request returns later.
func await[V any](ctx context.Context, request func() (V, error), discard func(V)) (V, error) {
	type result struct {
		v   V
		err error
	}
	done := make(chan result, 1)
	go func() {
		v, err := request()
		done <- result{v, err}
	}()
	select {
	case r := <-done:
		return r.v, r.err
	case <-ctx.Done():
	}
	grace := time.NewTimer(patience)
	defer grace.Stop()
	select {
	case r := <-done:
		return r.v, r.err
	case <-grace.C:
	}
	if discard != nil {
		go func() {
			if r := <-done; r.err == nil {
				discard(r.v)
			}
		}()
	}
	var none V
	return none, context.Cause(ctx)
}

// isNil reports whether v is nil, or an interface that holds a nil pointer, map or function.
func isNil(v any) bool {
	if v == nil {
		return true
	}
	switch r := reflect.ValueOf(v); r.Kind() {
	case reflect.Pointer, reflect.Map, reflect.Func, reflect.Interface, reflect.Slice, reflect.Chan:
		return r.IsNil()
	}
	return false
}
