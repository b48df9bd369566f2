package clientgo

import (
	"context"
	"errors"
	"fmt"
	"sync"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/tools/cache"
	"k8s.io/klog/v2"

	"github.com/go-lw/lw"
	"github.com/go-lw/lw/internal/request"
)

// A RetryWatcher is a watch.Interface that goes on when its connection ends: a watch from a
// version, without a list. [NewRetryWatcher] makes it.
type RetryWatcher struct {
	cancel context.CancelFunc
	events chan watch.Event
	done   chan struct{}
}

// NewRetryWatcher returns the events of watcher since resourceVersion, in place of
// watch.NewRetryWatcherWithContext of client-go's tools/watch. It never lists. A connection that
// ends is followed by another one, from the version of the last event or bookmark, with the pauses
// of a lw.Reflector, so that no event is lost and none comes twice.
//
// The watch ends with an event of type watch.Error, which has a *metav1.Status, where the server
// has forgotten the version (410), or does not permit to watch (401, 403). Without such an event it
// ends when ctx is done or Stop is called. Then ResultChan and Done are closed.
//
// NewRetryWatcher returns an error if resourceVersion is "" or "0", which are no versions to begin
// at, and panics if watcher is nil.
func NewRetryWatcher(ctx context.Context, resourceVersion string, watcher cache.WatcherWithContext) (*RetryWatcher, error) {
	if isNil(watcher) {
		panic("clientgo: NewRetryWatcher: nil watcher")
	}
	if resourceVersion == "" || resourceVersion == "0" {
		return nil, fmt.Errorf("clientgo: NewRetryWatcher: %q is no resource version to begin at", resourceVersion)
	}
	ctx, cancel := context.WithCancel(ctx)
	w := &RetryWatcher{cancel: cancel, events: make(chan watch.Event), done: make(chan struct{})}
	src := &sinceSource{version: resourceVersion, requests: lw.ListWatch[metav1.Object, runtime.Object]{
		WatchFunc: func(ctx context.Context, opts metav1.ListOptions) (watch.Interface, error) {
			return await(ctx, func() (watch.Interface, error) { return watcher.WatchWithContext(ctx, opts) }, watch.Interface.Stop)
		},
	}}
	r := lw.NewReflector[metav1.Object](src, &eventSink{ctx, w.events}, &lw.Options{Name: "RetryWatcher", OnError: func(err error) {
		klog.FromContext(ctx).V(1).Info("A watch has failed, and is resumed if it can be", "err", err)
	}})
	go func() {
		defer close(w.done)
		defer close(w.events)
		defer cancel()
		if err := r.Run(ctx); err != nil {
			send(ctx, w.events, watch.Event{Type: watch.Error, Object: statusOf(err)})
		}
	}()
	return w, nil
}

// ResultChan returns the events. Bookmarks are not among them.
func (w *RetryWatcher) ResultChan() <-chan watch.Event { return w.events }

// Stop ends the watch. It may be called several times.
func (w *RetryWatcher) Stop() { w.cancel() }

// Done is closed when the watch has ended.
func (w *RetryWatcher) Done() <-chan struct{} { return w.done }

// send sends ev, unless ctx is done.
func send(ctx context.Context, to chan<- watch.Event, ev watch.Event) {
	select {
	case to <- ev:
	case <-ctx.Done():
	}
}

// statusOf returns the status of an answer of the server, or else one with the text of err.
func statusOf(err error) *metav1.Status {
	var status apierrors.APIStatus
	if errors.As(err, &status) {
		s := status.Status()
		return &s
	}
	return &apierrors.NewInternalError(err).ErrStatus
}

// An eventSink sends each event, and has no store.
type eventSink struct {
	ctx context.Context
	to  chan<- watch.Event
}

// Replace gets the empty list of a sinceSource.
func (s *eventSink) Replace([]metav1.Object, string) {}

func (s *eventSink) Apply(ev lw.WatchEvent[metav1.Object]) {
	if obj, ok := ev.Object.(runtime.Object); ok && ev.Type != watch.Bookmark {
		send(s.ctx, s.to, watch.Event{Type: ev.Type, Object: obj})
	}
}

// A sinceSource is a source that cannot list. To the reflector it says that the list at version is
// empty; the second list would be needed where the watch cannot go on.
type sinceSource struct {
	requests lw.ListWatch[metav1.Object, runtime.Object]
	version  string

	mu     sync.Mutex
	listed bool
	cause  error // of the last watch
}

func (s *sinceSource) Hints() lw.SourceHints {
	return lw.SourceHints{NoStream: true, Partial: true, Decoder: byClientGo}
}

func (s *sinceSource) List(ctx context.Context, _ metav1.ListOptions, _ func(metav1.Object, error) error) (metav1.ListMeta, error) {
	if request.IsProbe(ctx) {
		return metav1.ListMeta{}, apierrors.NewMethodNotSupported(schema.GroupResource{}, "list")
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if !s.listed {
		s.listed = true
		return metav1.ListMeta{ResourceVersion: s.version}, nil
	}
	cause := s.cause
	if cause == nil {
		cause = apierrors.NewResourceExpired("the watch cannot go on from its resource version")
	}
	return metav1.ListMeta{}, fmt.Errorf("%w: %w", lw.ErrPermanent, cause)
}

func (s *sinceSource) Watch(ctx context.Context, opts metav1.ListOptions, yield func(lw.WatchEvent[metav1.Object]) error) error {
	err := s.requests.Watch(ctx, opts, yield)
	if apierrors.IsForbidden(err) || apierrors.IsUnauthorized(err) {
		err = fmt.Errorf("%w: %w", lw.ErrPermanent, err)
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.cause = err
	return err
}
