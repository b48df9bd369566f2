package clientgo_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"regexp"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/cache"
	"k8s.io/klog/v2"
	"k8s.io/klog/v2/textlogger"

	"github.com/go-lw/lw"
	"github.com/go-lw/lw/clientgo"
	"github.com/go-lw/lw/internal/apiserver"
	"github.com/go-lw/lw/internal/verify/layers"
	"github.com/go-lw/lw/internal/verify/rig"
)

// An implementation is one way to get client-go's interface. The tests run over all of them: what
// client-go does is the truth, and a test says where an adapter differs on purpose.
type implementation struct {
	new func(cache.ListerWatcher, cache.SharedIndexInformerOptions) cache.SharedIndexInformer
	// clientgo says that it is client-go's own.
	clientgo bool
	// lent says that the informer is somebody else's, with a transform, options and indexes of its
	// own.
	lent bool
}

var implementations = map[string]implementation{
	"client-go": {clientgo: true, new: func(from cache.ListerWatcher,
		o cache.SharedIndexInformerOptions) cache.SharedIndexInformer {
		if o.Indexers == nil {
			o.Indexers = cache.Indexers{} // client-go's AddIndexers panics without
		}
		return cache.NewSharedIndexInformerWithOptions(from, &corev1.Pod{}, o)
	}},
	"NewInformer": {new: func(from cache.ListerWatcher, o cache.SharedIndexInformerOptions) cache.SharedIndexInformer {
		return clientgo.NewInformerWithOptions(from, &corev1.Pod{}, o)
	}},
	"SharedIndexInformer": {lent: true, new: func(from cache.ListerWatcher,
		o cache.SharedIndexInformerOptions) cache.SharedIndexInformer {
		inf := clientgo.SharedIndexInformer(lw.NewInformer(clientgo.SourceOf[*corev1.Pod](from),
			&lw.Options{OnError: func(error) {}}))
		if err := inf.AddIndexers(o.Indexers); err != nil {
			panic(err)
		}
		return inf
	}},
}

// overAll runs test for each implementation, in a bubble, with a server of its own.
func overAll(t *testing.T, test func(t *testing.T, impl implementation, server *podMemory)) {
	for name, impl := range implementations {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) { test(t, impl, newPodMemory()) })
		})
	}
}

// A podMemory is a cache.ListerWatcher of the pods of a lw.Memory.
type podMemory struct{ *lw.Memory[*corev1.Pod] }

func newPodMemory(pods ...*corev1.Pod) *podMemory { return &podMemory{lw.NewMemory(pods...)} }

// listWatch returns m as the type that takes options of a ListerWatcher.
func (m *podMemory) listWatch() *cache.ListWatch {
	return &cache.ListWatch{ListWithContextFunc: m.ListWithContext, WatchFuncWithContext: m.WatchWithContext}
}

func (m *podMemory) List(opts metav1.ListOptions) (runtime.Object, error) {
	return m.ListWithContext(context.Background(), opts)
}

func (m *podMemory) Watch(opts metav1.ListOptions) (watch.Interface, error) {
	return m.WatchWithContext(context.Background(), opts)
}

func (m *podMemory) ListWithContext(ctx context.Context, opts metav1.ListOptions) (runtime.Object, error) {
	list := &corev1.PodList{}
	meta, err := m.Memory.List(ctx, opts, func(p *corev1.Pod, err error) error {
		list.Items = append(list.Items, *p)
		return err
	})
	list.ListMeta = meta
	return list, err
}

func (m *podMemory) WatchWithContext(ctx context.Context, opts metav1.ListOptions) (watch.Interface, error) {
	w := &podWatch{events: make(chan watch.Event)}
	ctx, w.cancel = context.WithCancel(ctx)
	send := func(ev watch.Event) error {
		select {
		case w.events <- ev:
			return nil
		case <-ctx.Done():
			return ctx.Err()
		}
	}
	go func() {
		defer close(w.events)
		err := m.Memory.Watch(ctx, opts, func(ev lw.WatchEvent[*corev1.Pod]) error {
			p := ev.Object
			if ev.Type == watch.Bookmark {
				p = &corev1.Pod{ObjectMeta: metav1.ObjectMeta{ResourceVersion: ev.ResourceVersion}}
				if ev.InitialEventsEnd {
					p.Annotations = map[string]string{metav1.InitialEventsAnnotationKey: "true"}
				}
			}
			if ev.Type == watch.Deleted {
				p.ResourceVersion = ev.ResourceVersion
			}
			return send(watch.Event{Type: ev.Type, Object: p})
		})
		if status, ok := errors.AsType[*apierrors.StatusError](err); ok {
			_ = send(watch.Event{Type: watch.Error, Object: &status.ErrStatus})
		}
	}()
	return w, nil
}

type podWatch struct {
	events chan watch.Event
	cancel context.CancelFunc
}

func (w *podWatch) Stop()                          { w.cancel() }
func (w *podWatch) ResultChan() <-chan watch.Event { return w.events }

// labelled returns a pod of the namespace "ns" with the labels, each as "key=value".
func labelled(name string, labels ...string) *corev1.Pod {
	p := pod("ns", name)
	p.Labels = map[string]string{}
	for _, l := range labels {
		k, v, _ := strings.Cut(l, "=")
		p.Labels[k] = v
	}
	return p
}

func (m *podMemory) create(t testing.TB, pods ...*corev1.Pod) {
	t.Helper()
	for _, p := range pods {
		rig.Must[*corev1.Pod](t)(m.Create(t.Context(), p))
	}
}

func (m *podMemory) update(t testing.TB, p *corev1.Pod) {
	t.Helper()
	rig.Must[*corev1.Pod](t)(m.Update(t.Context(), p))
}

func (m *podMemory) delete(t testing.TB, name string) {
	t.Helper()
	rig.Must[string](t)(m.Delete(t.Context(), lw.Key{Namespace: "ns", Name: name}, ""))
}

// runInformer runs r, also a controller or a reflector, until the test ends, or until the function
// that it returns is called, which waits for Run.
func runInformer(t testing.TB, r interface{ RunWithContext(context.Context) }) (stop func()) {
	return runIn(t, context.Background(), r)
}

func runIn(t testing.TB, ctx context.Context, r interface{ RunWithContext(context.Context) }) (stop func()) {
	ctx, cancel := context.WithCancel(ctx)
	ended := running(ctx, r)
	stop = func() { cancel(); <-ended }
	t.Cleanup(stop)
	return stop
}

// running runs r, and says when that has ended.
func running(ctx context.Context, r interface{ RunWithContext(context.Context) }) (ended chan struct{}) {
	ended = make(chan struct{})
	go func() { defer close(ended); r.RunWithContext(ctx) }()
	return ended
}

func isClosed(c <-chan struct{}) bool {
	select {
	case <-c:
		return true
	default:
		return false
	}
}

// synced runs an informer of src until the test ends, and returns it when it has synced.
func synced[T lw.Object](t *testing.T, src lw.Source[T], opts *lw.Options) *lw.Informer[T] {
	t.Helper()
	inf := lw.NewInformer(src, opts)
	rig.Start(t, inf)
	rig.OK(t, inf.WaitForSync(t.Context()))
	return inf
}

// served returns a server of resources, which ends with the test, and a client of it.
func served(t *testing.T, resources ...apiserver.Resource) (*apiserver.Server, *http.Client) {
	server := apiserver.New(apiserver.Options{Resources: resources})
	client := server.Client()
	t.Cleanup(func() { server.Close(); client.CloseIdleConnections() })
	return server, client
}

// protoPods are pods of a server, also in protobuf.
var protoPods = apiserver.Resource{Resource: "pods", Kind: "Pod", Proto: apiserver.Proto[corev1.Pod]()}

// clientsetOf returns a clientset over client that asks for JSON, as often as it likes.
func clientsetOf(t *testing.T, client *http.Client) kubernetes.Interface {
	t.Helper()
	return rig.Must[*kubernetes.Clientset](t)(kubernetes.NewForConfig(&rest.Config{
		Host: "http://apiserver", Transport: client.Transport, QPS: -1,
		ContentConfig: rest.ContentConfig{ContentType: "application/json", AcceptContentTypes: "application/json"},
	}))
}

// refusal is the answer to who may not see a resource.
func refusal(resource string) error {
	return apierrors.NewForbidden(schema.GroupResource{Resource: resource}, "", errors.New("no role allows it"))
}

// refuse has server answer to what match finds, each way to follow, that nobody may see resource.
func refuse(server *apiserver.Server, resource string) {
	match := func(r apiserver.Request) bool { return r.Resource == resource }
	for _, verb := range []apiserver.Verb{apiserver.List, apiserver.Watch, apiserver.Stream} {
		server.Inject(apiserver.Fault{Verb: verb, Times: -1, Match: match, Do: apiserver.Fail(refusal(resource))})
	}
}

// syncedAtOnce fails if that takes time.
func syncedAtOnce[T lw.Object](t *testing.T, src lw.Source[T], opts *lw.Options) *lw.Informer[T] {
	t.Helper()
	began := time.Now()
	inf := synced(t, src, opts)
	rig.Same(t, "time until it has synced", 0, time.Since(began))
	return inf
}

// strict are options of an informer whose errors fail the test.
func strict(t *testing.T) *lw.Options {
	return &lw.Options{OnError: func(err error) { t.Error(err) }}
}

// loggedTo is the test's context, with a logger that writes to book.
func loggedTo(t *testing.T, book io.Writer) context.Context {
	return klog.NewContext(t.Context(), loggerTo(book))
}

func loggerTo(book io.Writer) klog.Logger {
	return textlogger.NewLogger(textlogger.NewConfig(textlogger.Output(book)))
}

// calls records what a handler is called with. Each call is a line such as "add ns/a", "add ns/a
// initial" or "update ns/a a b", with the values of the label v.
type calls struct {
	mu    sync.Mutex
	lines []string
}

func (c *calls) note(format string, args ...any) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.lines = append(c.lines, strings.TrimSpace(fmt.Sprintf(format, args...)))
}

func (c *calls) OnAdd(obj any, initial bool) {
	of := ""
	if initial {
		of = "initial"
	}
	c.note("add %s %s", describe(obj), of)
}

func (c *calls) OnUpdate(old, obj any) {
	c.note("update %s from %s", describe(obj), describe(old))
}

func (c *calls) OnDelete(obj any) { c.note("delete %s", describe(obj)) }

// handler is c as one of lw, which does not say what is initial.
func (c *calls) handler() lw.Handler[*corev1.Pod] {
	return lw.Handler[*corev1.Pod]{
		Add:    func(p *corev1.Pod) { c.OnAdd(p, false) },
		Update: func(old, p *corev1.Pod) { c.OnUpdate(old, p) },
		Delete: func(p *corev1.Pod) { c.OnDelete(p) },
	}
}

func describe(obj any) string {
	switch obj := obj.(type) {
	case *corev1.Pod:
		return obj.Name + obj.Labels["v"]
	case cache.DeletedFinalStateUnknown:
		return "tombstone " + describe(obj.Obj)
	default:
		return fmt.Sprintf("%T", obj)
	}
}

// take waits until the bubble is idle, and returns the lines since the last take, those of the same
// kind sorted.
func (c *calls) take() []string {
	synctest.Wait()
	c.mu.Lock()
	defer c.mu.Unlock()
	lines := c.lines
	c.lines = nil
	return lines
}

// want checks that the calls since the last check are these, in any order.
func (c *calls) want(t testing.TB, when string, want ...string) {
	t.Helper()
	got := c.take()
	slices.Sort(got)
	slices.Sort(want)
	rig.Same(t, when+": calls", want, got)
}

// fails checks that err says what a regular expression matches.
func fails(t testing.TB, err error, pattern string) {
	t.Helper()
	if err == nil || !regexp.MustCompile(pattern).MatchString(err.Error()) {
		t.Errorf("error %v, want %s", err, pattern)
	}
}

func mustAdd(t testing.TB, inf cache.SharedIndexInformer, handler cache.ResourceEventHandler,
	resync ...time.Duration) cache.ResourceEventHandlerRegistration {
	t.Helper()
	var o cache.HandlerOptions
	for _, r := range resync {
		o.ResyncPeriod = &r
	}
	return rig.Must[cache.ResourceEventHandlerRegistration](t)(inf.AddEventHandlerWithOptions(handler, o))
}

// names returns the sorted names of objs.
func names[T any](objs []T) []string {
	out := []string{}
	for _, obj := range objs {
		out = append(out, any(obj).(metav1.Object).GetName())
	}
	slices.Sort(out)
	return out
}

// byIndex returns the sorted names of what x has of a value.
func byIndex(t testing.TB, x cache.Indexer, index, value string) []string {
	t.Helper()
	return names(rig.Must[[]any](t)(x.ByIndex(index, value)))
}

func TestMain(m *testing.M) { rig.Main(m) }

// No file uses one of a room above its own.
func TestRooms(t *testing.T) {
	rig.OK(t, layers.HoldModule("..", "clientgo"))
}
