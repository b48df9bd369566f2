package feed

import (
	"context"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/tools/cache"

	"github.com/go-lw/lw"
)

// A Handler is what both kinds of handlers can do.
type Handler struct {
	Add    func(pod *corev1.Pod)
	Update func(old, new *corev1.Pod)
	Resync time.Duration
	// EveryUpdate is lw's; client-go's handlers are always told of everything.
	EveryUpdate bool
}

// An Informer is one of either kind that runs on a feed.
type Informer interface {
	// AddHandler returns when the handler is registered; synced waits until it has been told the whole collection.
	AddHandler(h Handler) (synced func())
	// WaitForSync waits until the store has the whole list.
	WaitForSync()
	// Stop returns when all its goroutines have ended.
	Stop()
}

// LW returns lw's informer on src, which is f or what it is wrapped in. It runs.
func LW(src lw.Source[*corev1.Pod]) Informer {
	inf := lw.NewInformer(src, &lw.Options{OnError: func(error) {}})
	i := &lwInformer{Informer: inf}
	i.ctx, i.stop = start(func(ctx context.Context) { _ = inf.Run(ctx) })
	return i
}

type lwInformer struct {
	*lw.Informer[*corev1.Pod]
	ctx  context.Context
	stop func()
}

func (i *lwInformer) AddHandler(h Handler) (synced func()) {
	reg := i.Informer.AddHandler(lw.Handler[*corev1.Pod]{
		Add: h.Add, Update: h.Update, Delete: func(*corev1.Pod) {}, Resync: h.Resync, EveryUpdate: h.EveryUpdate,
	})
	return func() { must(reg.WaitForSync(i.ctx)) }
}

func (i *lwInformer) WaitForSync() { must(i.Informer.WaitForSync(i.ctx)) }
func (i *lwInformer) Stop()        { i.stop() }

// ClientGo returns a SharedIndexInformer on f, with default feature gates and no index, as the factory of an API group makes
// one but for its index by namespace. It looks each resync period for handlers that want a resync; 0: never. It runs.
func ClientGo(f *Feed, resync time.Duration) Informer {
	inf := NewSharedInformer(f, resync)
	i := &clientGo{SharedIndexInformer: inf}
	i.ctx, i.stop = start(inf.RunWithContext)
	return i
}

// NewSharedInformer returns a SharedIndexInformer on f that has not been started.
func NewSharedInformer(f *Feed, resync time.Duration) cache.SharedIndexInformer {
	return cache.NewSharedIndexInformer(&cache.ListWatch{
		ListWithContextFunc: func(ctx context.Context, opts metav1.ListOptions) (runtime.Object, error) {
			return f.listPods(ctx, opts)
		},
		WatchFuncWithContext: func(ctx context.Context, opts metav1.ListOptions) (watch.Interface, error) {
			return f.watchPods(ctx, opts)
		},
	}, &corev1.Pod{}, resync, cache.Indexers{})
}

type clientGo struct {
	cache.SharedIndexInformer
	ctx  context.Context
	stop func()
}

func (i *clientGo) AddHandler(h Handler) (synced func()) {
	reg, err := i.AddEventHandlerWithResyncPeriod(cache.ResourceEventHandlerFuncs{
		AddFunc: func(obj any) {
			if h.Add != nil {
				h.Add(obj.(*corev1.Pod))
			}
		},
		UpdateFunc: func(old, new any) {
			if h.Update != nil {
				h.Update(old.(*corev1.Pod), new.(*corev1.Pod))
			}
		},
		DeleteFunc: func(any) {},
	}, h.Resync)
	must(err)
	return func() { i.wait(reg.HasSynced) }
}

func (i *clientGo) WaitForSync() { i.wait(i.HasSynced) }

func (i *clientGo) wait(synced cache.InformerSynced) {
	for !synced() {
		if i.ctx.Err() != nil {
			panic("feed: stopped before sync")
		}
		time.Sleep(time.Millisecond)
	}
}

func (i *clientGo) Stop() { i.stop() }

// start runs in the background until stop is called, which waits for its end. ctx ends then, or after minutes: what has
// not happened until then hangs.
func start(run func(context.Context)) (ctx context.Context, stop func()) {
	ctx, cancel := context.WithTimeout(context.Background(), 5*time.Minute)
	done := make(chan struct{})
	go func() {
		defer close(done)
		run(ctx)
	}()
	return ctx, func() {
		cancel()
		<-done
	}
}

func must(err error) {
	if err != nil {
		panic("feed: " + err.Error())
	}
}
