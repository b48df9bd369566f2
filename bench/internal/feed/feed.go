// Package feed provides a collection of pods to informers of lw and of client-go, without a server
// and without decoding: all objects exist already.
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

// A Feed stands for a server and a decoder. It is an [lw.Source] that yields each object in the
// goroutine that would have decoded it. [Feed.PodListWatch] has the form of client-go's generated
// clients: functions that return a whole list, and an unbuffered channel of events.
type Feed struct {
	list     []*corev1.Pod
	podList  *corev1.PodList // list, in the form that client-go lists; nil if stream is set
	version  string
	stream   bool // streamed lists are answered
	watching chan struct{}
	play     chan func(Emit) error

	// more is the More of the next event: another event follows at once. A decoder knows that if it
	// has read both events from the socket.
	more bool
}

// Emit passes one event to the informer. An error ends the watch.
type Emit func(typ watch.EventType, pod *corev1.Pod) error

var _ lw.Source[*corev1.Pod] = (*Feed)(nil)

// New returns a feed of list at version. If stream is set it answers streamed lists. Otherwise it
// refuses them, as a server without streamed lists does.
func New(list []*corev1.Pod, version string, stream bool) *Feed {
	f := &Feed{stream: stream, watching: make(chan struct{}, 100), play: make(chan func(Emit) error)}
	f.Set(list, version)
	return f
}

// Set sets the content of the next list. It also prepares client-go's form of the list now, so that
// this is not measured: it stands for the work of the decoder.
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

// Forget drops the list, so that only the informer keeps its objects in memory.
func (f *Feed) Forget() { f.list, f.podList = nil, nil }

// Watching waits until the informer watches. Each call waits for another watch.
func (f *Feed) Watching() { <-f.watching }

// Play runs script in the goroutine of the watch. It returns when script has begun.
func (f *Feed) Play(script func(Emit) error) { f.play <- script }

// Send sends pods as Modified events, without waiting for the end. Like a decoder it has each pod
// in the processor's cache when it passes it on.
func (f *Feed) Send(pods []*corev1.Pod) {
	f.Play(func(emit Emit) error { return f.sendAll(pods, emit) })
}

func (f *Feed) sendAll(pods []*corev1.Pod, emit Emit) error {
	for i, pod := range pods {
		f.more = Warm(pod)+i < len(pods)-1
		if err := emit(watch.Modified, pod); err != nil {
			return err
		}
	}
	return nil
}

// Warm reads the fields of a pod that an informer reads, to load them into the processor's cache.
// It returns 0, but the compiler does not know that and cannot remove the reads.
func Warm(pod *corev1.Pod) int {
	sum := 0
	for _, s := range [...]string{pod.Namespace, pod.Name, string(pod.UID), pod.ResourceVersion} {
		sum += int(s[0]) + int(s[len(s)-1])
	}
	return sum >> 32
}

// Expire ends the watch with 410 Expired.
func (f *Feed) Expire() {
	f.Play(func(Emit) error { return apierrors.NewResourceExpired("too old resource version") })
}

var errNoStream = apierrors.NewInvalid(schema.GroupKind{Kind: "ListOptions"}, "", nil)

// List implements [lw.Source].
func (f *Feed) List(_ context.Context, _ metav1.ListOptions, yield func(*corev1.Pod, error) error) (metav1.ListMeta,
	error) {
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

// serve runs a watch: it sends the initial events if opts asks for them, and then runs the scripts
// of Play. end sends the bookmark that ends the initial events.
func (f *Feed) serve(ctx context.Context, opts metav1.ListOptions, emit Emit, end func() error) error {
	if opts.SendInitialEvents != nil && *opts.SendInitialEvents {
		if !f.stream {
			return errNoStream
		}
		for _, pod := range f.list {
			f.more = true // at least the bookmark follows
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

// PodListWatch returns the feed in the form of a generated client.
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

// channelWatch is like client-go's StreamWatcher: a goroutine that decodes, and an unbuffered
// channel.
type channelWatch struct {
	events chan watch.Event
	cancel context.CancelFunc
}

func (w *channelWatch) Stop()                          { w.cancel() }
func (w *channelWatch) ResultChan() <-chan watch.Event { return w.events }
