// Package factories has client-go's factories of dynamic and of metadata informers, whose informers
// are those of lw. For generated factories see clientgo.UseAll.
package factories

import (
	"context"
	"maps"
	"sync"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/sharding"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/dynamic/dynamicinformer"
	"k8s.io/client-go/dynamic/dynamiclister"
	"k8s.io/client-go/informers"
	"k8s.io/client-go/metadata"
	"k8s.io/client-go/metadata/metadatainformer"
	"k8s.io/client-go/metadata/metadatalister"
	"k8s.io/client-go/tools/cache"

	"github.com/go-lw/lw/clientgo"
)

// Options configure a factory. The zero value means all namespaces and all objects, as they are.
type Options struct {
	Namespace        string
	TweakListOptions func(*metav1.ListOptions)
	Transform        cache.TransformFunc
	// ShardSelector has the informers hold only what it selects, as WithShardSelector of client-go's
	// factories does. They select by themselves where the server knows no shard selectors.
	// TweakListOptions must not set one.
	ShardSelector sharding.Selector
	// Decoder has lw decode the objects, if the client was made over clientgo.Capture. With its Kinds
	// the informers of resources that nobody serves wait. Nil: client-go decodes.
	Decoder *clientgo.Decoder
}

// Dynamic returns a factory in place of dynamicinformer.NewDynamicSharedInformerFactory, and of
// NewFilteredDynamicSharedInformerFactory. Its informers are those of clientgo.NewInformer. It
// panics if client is nil, or a shard selector is none that a server takes.
func Dynamic(client dynamic.Interface, resync time.Duration, opts *Options) dynamicinformer.DynamicSharedInformerFactory {
	if client == nil {
		panic("lw/clientgo/factories: Dynamic: nil client")
	}
	f := newFactory(client, resync, opts, &unstructured.Unstructured{},
		func(gvr schema.GroupVersionResource, namespace string) collection {
			return collectionOf(client.Resource(gvr).Namespace(namespace))
		},
		func(gvr schema.GroupVersionResource, from cache.Indexer) cache.GenericLister {
			return dynamiclister.NewRuntimeObjectShim(dynamiclister.New(from, gvr))
		})
	theirs := dynamicinformer.NewDynamicSharedInformerFactory(dynamicClient{f}, 0)
	f.shadow = shadowFor(theirs)
	return dynamicFactory{f, dynamicShadow{theirs}}
}

// Metadata returns a factory in place of metadatainformer.NewSharedInformerFactory, and of
// NewFilteredSharedInformerFactory and NewSharedInformerFactoryWithOptions. Its informers are those
// of clientgo.NewInformer. It panics if client is nil, or a shard selector is none that a server
// takes.
func Metadata(client metadata.Interface, resync time.Duration, opts *Options) metadatainformer.SharedInformerFactory {
	if client == nil {
		panic("lw/clientgo/factories: Metadata: nil client")
	}
	f := newFactory(client, resync, opts, &metav1.PartialObjectMetadata{},
		func(gvr schema.GroupVersionResource, namespace string) collection {
			return collectionOf(client.Resource(gvr).Namespace(namespace))
		},
		func(gvr schema.GroupVersionResource, from cache.Indexer) cache.GenericLister {
			return metadatalister.NewRuntimeObjectShim(metadatalister.New(from, gvr))
		})
	theirs := metadatainformer.NewSharedInformerFactory(metadataClient{f}, 0)
	f.shadow = shadowFor(theirs)
	return metadataFactory{f, metadataShadow{theirs}}
}

// A collection makes the requests of one.
type collection struct {
	list  func(context.Context, metav1.ListOptions) (runtime.Object, error)
	watch func(context.Context, metav1.ListOptions) (watch.Interface, error)
}

// collectionOf returns the collection that c has, a dynamic or a metadata client of one resource.
func collectionOf[L runtime.Object](c interface {
	List(context.Context, metav1.ListOptions) (L, error)
	Watch(context.Context, metav1.ListOptions) (watch.Interface, error)
}) collection {
	return collection{
		func(ctx context.Context, o metav1.ListOptions) (runtime.Object, error) { return c.List(ctx, o) }, c.Watch,
	}
}

// A factory is both factories: their interfaces are the same.
type factory struct {
	client  any // whose type says whether it is a fake
	resync  time.Duration
	options Options
	example runtime.Object
	of      func(schema.GroupVersionResource, string) collection
	lister  func(schema.GroupVersionResource, cache.Indexer) cache.GenericLister

	shadow shadow // nil: client-go's has no method that factory lacks

	mu        sync.Mutex
	informers map[schema.GroupVersionResource]*informer
	running   sync.WaitGroup
	shut      bool
}

// An informer is an informers.GenericInformer.
type informer struct {
	cache.SharedIndexInformer
	lister  cache.GenericLister
	started bool // guarded by factory.mu
}

func (i *informer) Informer() cache.SharedIndexInformer { return i.SharedIndexInformer }
func (i *informer) Lister() cache.GenericLister         { return i.lister }

func newFactory(client any, resync time.Duration, opts *Options, example runtime.Object,
	of func(schema.GroupVersionResource, string) collection, lister func(schema.GroupVersionResource, cache.Indexer) cache.GenericLister,
) *factory {
	f := &factory{client: client, resync: resync, example: example, of: of, lister: lister, informers: map[schema.GroupVersionResource]*informer{}}
	if opts != nil {
		f.options = *opts
	}
	if tweak := f.options.TweakListOptions; tweak != nil {
		var o metav1.ListOptions
		if tweak(&o); o.ShardSelector != "" {
			panic("lw/clientgo/factories: TweakListOptions sets a ShardSelector: set Options.ShardSelector")
		}
	}
	return f
}

// ForResource returns the informer of gvr, which Start starts.
func (f *factory) ForResource(gvr schema.GroupVersionResource) informers.GenericInformer {
	f.mu.Lock()
	defer f.mu.Unlock()
	if i, ok := f.informers[gvr]; ok {
		return i
	}
	inf := f.newInformer(gvr)
	i := &informer{SharedIndexInformer: inf, lister: f.lister(gvr, inf.GetIndexer())}
	f.informers[gvr] = i
	return i
}

func (f *factory) newInformer(gvr schema.GroupVersionResource) cache.SharedIndexInformer {
	c, tweak := f.of(gvr, f.options.Namespace), f.options.TweakListOptions
	if tweak == nil {
		tweak = func(*metav1.ListOptions) {}
	}
	list := func(ctx context.Context, o metav1.ListOptions) (runtime.Object, error) {
		tweak(&o)
		return c.list(ctx, o)
	}
	follow := func(ctx context.Context, o metav1.ListOptions) (watch.Interface, error) {
		tweak(&o)
		return c.watch(ctx, o)
	}
	from := cache.ToListWatcherWithWatchListSemantics(&cache.ListWatch{ListWithContextFunc: list, WatchFuncWithContext: follow}, f.client)
	options := cache.SharedIndexInformerOptions{
		ResyncPeriod: f.resync, Indexers: cache.Indexers{cache.NamespaceIndex: cache.MetaNamespaceIndexFunc}, ObjectDescription: gvr.String(),
	}
	var inf cache.SharedIndexInformer
	if f.options.Decoder != nil {
		inf = f.options.Decoder.NewInformerWithOptions(from, f.example, options)
	} else {
		inf = clientgo.NewInformerWithOptions(from, f.example, options)
	}
	if s := f.options.ShardSelector; s != nil {
		// client-go's interface has the method since v0.38.
		if err := inf.(interface{ SetShardSelector(sharding.Selector) error }).SetShardSelector(s); err != nil {
			panic(err) // nobody has started it
		}
	}
	if f.options.Transform != nil {
		if err := inf.SetTransform(f.options.Transform); err != nil {
			panic(err) // nobody has started it
		}
	}
	return inf
}

// Start starts the informers that were asked for and do not run, until stop is closed.
func (f *factory) Start(stop <-chan struct{}) { f.StartWithContext(wait.ContextForChannel(stop)) }

// StartWithContext starts the informers that were asked for and do not run, until ctx is done.
func (f *factory) StartWithContext(ctx context.Context) {
	f.mu.Lock()
	defer f.mu.Unlock()
	for gvr, i := range f.informers {
		if !i.started && !f.shut {
			i.started = true
			f.running.Go(func() { i.RunWithContext(ctx) })
			f.followLocked(ctx, gvr)
		}
	}
}

// WaitForCacheSync waits until the started informers have synced or stop is closed.
func (f *factory) WaitForCacheSync(stop <-chan struct{}) map[schema.GroupVersionResource]bool {
	f.mu.Lock()
	all := maps.Clone(f.informers)
	maps.DeleteFunc(all, func(_ schema.GroupVersionResource, i *informer) bool { return !i.started })
	f.mu.Unlock()
	synced := map[schema.GroupVersionResource]bool{}
	for gvr, i := range all {
		select {
		case <-i.HasSyncedChecker().Done():
		case <-stop:
		}
		synced[gvr] = i.HasSynced()
	}
	return synced
}

// Shutdown waits until the informers have ended. No others are started.
func (f *factory) Shutdown() {
	f.mu.Lock()
	f.shut = true
	f.mu.Unlock()
	f.running.Wait()
	if f.shadow != nil {
		f.shadow.Shutdown()
	}
}
