package histories_test

import (
	"context"
	"errors"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/watch"

	"github.com/go-lw/lw"
)

// A server is what both informers follow, each with its own.
type server interface {
	list(ctx context.Context, opts metav1.ListOptions) (*corev1.ConfigMapList, error)
	watch(ctx context.Context, opts metav1.ListOptions) (watch.Interface, error)
}

// config is an object; uid tells it from others of its name.
func config(name, uid, version string) *corev1.ConfigMap {
	return &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{
		Namespace: "default", Name: name, UID: types.UID(uid), ResourceVersion: version,
	}}
}

// id is what of an object is compared: uid@version.
func id(c *corev1.ConfigMap) string { return string(c.UID) + "@" + c.ResourceVersion }

// script is a server that says what it was told to, whatever it was asked for.
type script struct {
	lists []answer
	// watches[n] is what watch n sends before it waits. Later watches send what the last one sends.
	watches [][]step
	streams []step // what a streamed list sends; nil: it is refused

	mu      sync.Mutex
	listed  int
	watched int
}

type answer struct {
	version string
	objs    []*corev1.ConfigMap
}

// A step is an event, or a pause, or the end.
type step struct {
	event watch.Event
	pause time.Duration
	end   bool
}

func send(typ watch.EventType, obj runtime.Object) step {
	return step{event: watch.Event{Type: typ, Object: obj}}
}

func bookmark(version string) step {
	return send(watch.Bookmark, &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{ResourceVersion: version}})
}

func pause(d time.Duration) step { return step{pause: d} }

func expire() step {
	status := apierrors.NewResourceExpired("too old resource version").ErrStatus
	return send(watch.Error, &status)
}

var end = step{end: true}

func (s *script) list(context.Context, metav1.ListOptions) (*corev1.ConfigMapList, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	a := s.lists[min(s.listed, len(s.lists)-1)]
	s.listed++
	list := &corev1.ConfigMapList{ListMeta: metav1.ListMeta{ResourceVersion: a.version}}
	for _, c := range a.objs {
		list.Items = append(list.Items, *c.DeepCopy())
	}
	return list, nil
}

func (s *script) watch(ctx context.Context, opts metav1.ListOptions) (watch.Interface, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	var steps []step
	switch {
	case opts.SendInitialEvents != nil && s.streams == nil:
		return nil, apierrors.NewInvalid(corev1.SchemeGroupVersion.WithKind("ListOptions").GroupKind(), "", nil)
	case opts.SendInitialEvents != nil:
		steps = s.streams
	default:
		if len(s.watches) > 0 {
			steps = s.watches[min(s.watched, len(s.watches)-1)]
		}
		s.watched++
	}
	return newStream(ctx, opts, func(ctx context.Context, send func(watch.Event) bool) {
		for _, st := range steps {
			switch {
			case st.end:
				return
			case st.pause > 0:
				select {
				case <-time.After(st.pause):
				case <-ctx.Done():
					return
				}
			case !send(st.event):
				return
			}
		}
		<-ctx.Done()
	}), nil
}

// stream is a watch.Interface of what a function sends until the watch is over, which it is after
// its time.
type stream struct {
	cancel context.CancelFunc
	events chan watch.Event
}

func newStream(ctx context.Context, opts metav1.ListOptions, run func(context.Context, func(watch.Event) bool)) *stream {
	ctx, cancel := context.WithCancel(ctx)
	if opts.TimeoutSeconds != nil {
		ctx, cancel = context.WithTimeout(ctx, time.Duration(*opts.TimeoutSeconds)*time.Second)
	}
	s := &stream{cancel: cancel, events: make(chan watch.Event)}
	go func() {
		defer close(s.events)
		run(ctx, func(ev watch.Event) bool {
			ev.Object = ev.Object.DeepCopyObject()
			select {
			case s.events <- ev:
				return true
			case <-ctx.Done():
				return false
			}
		})
	}()
	return s
}

func (s *stream) Stop()                          { s.cancel() }
func (s *stream) ResultChan() <-chan watch.Event { return s.events }

// memory is a server that is right: lw's own, which is held to the rules of real ones.
type memory struct{ *lw.Memory[*corev1.ConfigMap] }

func (m memory) list(ctx context.Context, opts metav1.ListOptions) (*corev1.ConfigMapList, error) {
	list := &corev1.ConfigMapList{}
	var err error
	list.ListMeta, err = m.List(ctx, opts, func(c *corev1.ConfigMap, err error) error {
		if err == nil {
			list.Items = append(list.Items, *c)
		}
		return err
	})
	return list, err
}

func (m memory) watch(ctx context.Context, opts metav1.ListOptions) (watch.Interface, error) {
	return newStream(ctx, opts, func(ctx context.Context, send func(watch.Event) bool) {
		over := errors.New("the watch is over")
		err := m.Watch(ctx, opts, func(ev lw.WatchEvent[*corev1.ConfigMap]) error {
			if ev.Type == watch.Bookmark {
				ev.Object = config("", "", ev.ResourceVersion)
				if ev.InitialEventsEnd {
					ev.Object.Annotations = map[string]string{metav1.InitialEventsAnnotationKey: "true"}
				}
			}
			if !send(watch.Event{Type: ev.Type, Object: ev.Object}) {
				return over
			}
			return nil
		})
		var status apierrors.APIStatus
		if errors.As(err, &status) {
			s := status.Status()
			send(watch.Event{Type: watch.Error, Object: &s})
		}
	}), nil
}
