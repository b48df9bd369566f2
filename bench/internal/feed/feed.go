// Package feed plays a collection of pods, whose objects exist already, to informers of both kinds.
package feed

import (
	"context"
	"errors"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/watch"

	"github.com/go-lw/lw"
)

// A Feed stands for a server and the decoder in front of it. It is an [lw.Source], which hands over each object in the
// goroutine that would have decoded it, and by [Feed.ListWatch] what client-go's generated clients are: functions that return
// a whole list, and an unbuffered channel of events.
type Feed struct {
	list     []*corev1.Pod
	podList  *corev1.PodList // of list; only where List is asked for by client-go
	version  string
	stream   bool
	watching chan struct{}
	play     chan func(Emit) error
	more     bool // the next event is at hand, as it is to a decoder that has read both from the socket
}

// Emit hands one event to the informer. Its error ends the watch.
type Emit func(typ watch.EventType, pod *corev1.Pod) error

var _ lw.Source[*corev1.Pod] = (*Feed)(nil)

// New returns a feed of list at version. With stream it answers streamed lists, otherwise it refuses them as a server does
// that has none.
func New(list []*corev1.Pod, version string, stream bool) *Feed {
	f := &Feed{stream: stream, watching: make(chan struct{}, 100), play: make(chan func(Emit) error)}
	f.Set(list, version)
	return f
}

// Set makes list what the next list shows. What a list response of client-go's needs is made now: it stands for what the
// decoder has made.
func (f *Feed) Set(list []*corev1.Pod, version string) {
	f.list, f.version = list, version
	f.podList = nil
	if !f.stream {
		f.podList = &corev1.PodList{ListMeta: metav1.ListMeta{ResourceVersion: version}, Items: make([]corev1.Pod, len(list))}
		for i, pod := range list {
			f.podList.Items[i] = *pod
		}
	}
}

// Forget lets go of the list, so that only the informer keeps its objects.
func (f *Feed) Forget() { f.list, f.podList = nil, nil }

// Watching waits until the informer watches; each watch counts once.
func (f *Feed) Watching() { <-f.watching }

// Play runs script in the goroutine that reads from the server. It returns when script has begun.
func (f *Feed) Play(script func(Emit) error) { f.play <- script }

// Send plays pods as modified, and returns at once. Each is in the processor's cache when it is handed over, as a decoder
// leaves it.
func (f *Feed) Send(pods []*corev1.Pod) {
	f.Play(func(emit Emit) error {
		for i, pod := range pods {
			f.more = Warm(pod)+i < len(pods)-1
			if err := emit(watch.Modified, pod); err != nil {
				return err
			}
		}
		return nil
	})
}

// Warm reads what tells the pod from others, and returns 0, which the compiler does not know.
func Warm(pod *corev1.Pod) int {
	sum := 0
	for _, s := range [...]string{pod.Namespace, pod.Name, string(pod.UID), pod.ResourceVersion} {
		sum += int(s[0]) + int(s[len(s)-1])
	}
	return sum >> 32
}

// Expire ends the watch as a server does that has forgotten the version where it stood.
func (f *Feed) Expire() {
	f.Play(func(Emit) error { return apierrors.NewResourceExpired("too old resource version") })
}

var errNoStream = apierrors.NewInvalid(schema.GroupKind{Kind: "ListOptions"}, "", nil)

// List implements [lw.Source].
func (f *Feed) List(_ context.Context, _ metav1.ListOptions, yield func(*corev1.Pod, error) error) (metav1.ListMeta, error) {
	for _, pod := range f.list {
		if err := yield(pod, nil); err != nil {
			return metav1.ListMeta{}, err
		}
	}
	return metav1.ListMeta{ResourceVersion: f.version}, nil
}

// Watch implements [lw.Source].
func (f *Feed) Watch(ctx context.Context, opts metav1.ListOptions, yield func(lw.WatchEvent[*corev1.Pod]) error) error {
	return f.serve(ctx, opts, func(typ watch.EventType, pod *corev1.Pod) error {
		return yield(lw.WatchEvent[*corev1.Pod]{Type: typ, Object: pod, ResourceVersion: pod.ResourceVersion, More: f.more})
	}, func() error {
		return yield(lw.WatchEvent[*corev1.Pod]{Type: watch.Bookmark, ResourceVersion: f.version, InitialEventsEnd: true})
	})
}

// serve is a watch: the initial events, if they are asked for, then what is played.
func (f *Feed) serve(ctx context.Context, opts metav1.ListOptions, emit Emit, end func() error) error {
	if opts.SendInitialEvents != nil && *opts.SendInitialEvents {
		if !f.stream {
			return errNoStream
		}
		for _, pod := range f.list {
			f.more = true // at the latest the end of the initial events
			if err := emit(watch.Added, pod); err != nil {
				return err
			}
		}
		f.more = false
		if err := end(); err != nil {
			return err
		}
	}
	f.watching <- struct{}{}
	for {
		select {
		case script := <-f.play:
			if err := script(emit); err != nil {
				return err
			}
		case <-ctx.Done():
			return ctx.Err()
		}
	}
}

// PodListWatch is the feed as a generated client has it.
func (f *Feed) PodListWatch() *lw.ListWatch[*corev1.Pod, *corev1.PodList] {
	return &lw.ListWatch[*corev1.Pod, *corev1.PodList]{ListFunc: f.listPods, WatchFunc: f.watchPods}
}

func (f *Feed) listPods(context.Context, metav1.ListOptions) (*corev1.PodList, error) {
	return f.podList, nil
}

func (f *Feed) watchPods(ctx context.Context, opts metav1.ListOptions) (watch.Interface, error) {
	if opts.SendInitialEvents != nil && *opts.SendInitialEvents && !f.stream {
		return nil, errNoStream
	}
	ctx, cancel := context.WithCancel(ctx)
	w := &channelWatch{events: make(chan watch.Event), cancel: cancel}
	go func() {
		defer close(w.events)
		send := func(typ watch.EventType, obj runtime.Object) error {
			select {
			case w.events <- watch.Event{Type: typ, Object: obj}:
				return nil
			case <-ctx.Done():
				return ctx.Err()
			}
		}
		err := f.serve(ctx, opts, func(typ watch.EventType, pod *corev1.Pod) error { return send(typ, pod) }, func() error {
			return send(watch.Bookmark, &corev1.Pod{ObjectMeta: metav1.ObjectMeta{
				ResourceVersion: f.version, Annotations: map[string]string{metav1.InitialEventsAnnotationKey: "true"},
			}})
		})
		if status, ok := errors.AsType[*apierrors.StatusError](err); ok {
			_ = send(watch.Error, &status.ErrStatus)
		}
	}()
	return w, nil
}

// channelWatch is as client-go's StreamWatcher: a goroutine that decodes, and a channel without a buffer.
type channelWatch struct {
	events chan watch.Event
	cancel context.CancelFunc
}

func (w *channelWatch) Stop()                          { w.cancel() }
func (w *channelWatch) ResultChan() <-chan watch.Event { return w.events }
