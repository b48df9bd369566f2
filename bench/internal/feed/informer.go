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

// A Handler has what handlers of lw and of client-go have in common.
type Handler struct {
	Add    func(pod *corev1.Pod)
	Update func(old, new *corev1.Pod)
	// EveryUpdate is lw's. client-go's handlers always receive every update.
	EveryUpdate bool
}

// An Informer is a running informer of lw or of client-go on a feed.
type Informer interface {
	// AddHandler registers a handler. synced waits until the handler has received the whole
	// collection.
	AddHandler(h Handler) (synced func())
	// IndexByNamespace adds an index by namespace.
	IndexByNamespace()
	// WaitForSync waits until the store has the whole list.
	WaitForSync()
	// Stop returns when all its goroutines have ended.
	Stop()
}

// LW starts an informer of lw on src, which is a Feed or a wrapper of one.
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
		Add: h.Add, Update: h.Update, Delete: func(*corev1.Pod) {}, EveryUpdate: h.EveryUpdate,
	})
	return func() { must(reg.WaitForSync(i.ctx)) }
}

func (i *lwInformer) IndexByNamespace() { lw.NewIndex(i.Informer, (*corev1.Pod).GetNamespace) }

func (i *lwInformer) WaitForSync() { must(i.Informer.WaitForSync(i.ctx)) }
func (i *lwInformer) Stop()        { i.stop() }

// ClientGo starts a SharedIndexInformer on f, with the default feature gates. It is like one of an
// API group's factory, but without the index by namespace.
func ClientGo(f *Feed) Informer {
	inf := cache.NewSharedIndexInformer(&cache.ListWatch{
		ListWithContextFunc: func(ctx context.Context, opts metav1.ListOptions) (runtime.Object, error) {
			return f.listPods(ctx, opts)
		},
		WatchFuncWithContext: func(ctx context.Context, opts metav1.ListOptions) (watch.Interface, error) {
			return f.watchPods(ctx, opts)
		},
	}, &corev1.Pod{}, 0, cache.Indexers{})
	i := &clientGo{SharedIndexInformer: inf}
	i.ctx, i.stop = start(inf.RunWithContext)
	return i
}

type clientGo struct {
	cache.SharedIndexInformer
	ctx  context.Context
	stop func()
}

func (c *clientGo) AddHandler(h Handler) (synced func()) {
	reg, err := c.AddEventHandler(cache.ResourceEventHandlerFuncs{
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
	})
	must(err)
	return func() { c.wait(reg.HasSynced) }
}

func (c *clientGo) IndexByNamespace() {
	must(c.AddIndexers(cache.Indexers{cache.NamespaceIndex: cache.MetaNamespaceIndexFunc}))
}

func (c *clientGo) WaitForSync() { c.wait(c.HasSynced) }

func (c *clientGo) wait(synced cache.InformerSynced) {
	for !synced() {
		if c.ctx.Err() != nil {
			panic("feed: stopped before sync")
		}
		time.Sleep(time.Millisecond)
	}
}

func (c *clientGo) Stop() { c.stop() }

// start calls run in a goroutine. stop cancels its context and waits for its end. The context ends
// after five minutes at the latest, so that a benchmark that hangs fails.
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
