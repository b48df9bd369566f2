// Package controllerruntime joins lw to sigs.k8s.io/controller-runtime.
//
// [NewCache] moves a whole manager to lw with one line. [Source] makes a controller watch a
// typed informer of lw, and [Reader] reads such informers through controller-runtime's
// client.Reader. The package is a module of its own, so that neither lw nor clientgo depends on
// controller-runtime.
package controllerruntime

import (
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"os"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/kubernetes/scheme"
	"k8s.io/client-go/rest"
	toolscache "k8s.io/client-go/tools/cache"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/apiutil"

	"github.com/go-lw/lw"
	"github.com/go-lw/lw/clientgo"
	"github.com/go-lw/lw/kinds"
)

// NewCache returns a cache of controller-runtime whose informers are lw's, and whose objects lw
// decodes. It fits the NewCache of manager.Options and of cluster.Options:
//
//	mgr, err := ctrl.NewManager(config, ctrl.Options{NewCache: controllerruntime.NewCache})
//
// All options keep their meaning, except these:
//   - NewInformer: the cache uses the informers that it returns as they are, without lw. It is for
//     tests that fake the informers.
//   - EnableWatchBookmarks and its default have no effect. lw always asks for bookmarks, since it
//     needs them to stream a list and to resume a quiet watch.
//
// A transform that returns nil leaves the object out of the cache.
//
// The versions of an object share what an event did not change. So if a program changes an object
// that it has read with client.UnsafeDisableDeepCopy, which it must not do, later versions have the
// change, too; see [Options].Whole. If the cache options disable deep copies of a kind, each
// version of it is decoded whole, and the next event heals such a change.
//
// With LW=off in the environment the cache is controller-runtime's own, so that a deployment can go
// back without a new build.
func NewCache(config *rest.Config, opts cache.Options) (cache.Cache, error) {
	return newCache(Options{}, config, opts)
}

// NewCacheWith returns a function like [NewCache], with options of lw.
//
//	ctrl.Options{NewCache: controllerruntime.NewCacheWith(controllerruntime.Options{Share: true})}
func NewCacheWith(o Options) cache.NewCacheFunc {
	return func(config *rest.Config, opts cache.Options) (cache.Cache, error) {
		return newCache(o, config, opts)
	}
}

// Options configure the informers of a cache. The zero value is that of [NewCache].
type Options struct {
	// Share lets objects share equal parts, as lw.HTTP.Share says. The cache's readers get deep
	// copies, which share nothing, unless an option of controller-runtime disables them. Handlers,
	// predicates and transforms get the objects themselves. A transform must replace a map, slice or
	// pointer: if it changes what is inside, it changes other objects, too.
	Share bool
	// Drop names fields that no controller of the manager needs, as lw.HTTP.Drop says. Typed objects,
	// unstructured ones and metadata all lack them. If a typed object has no such path, its informer
	// ends with an error.
	Drop []string
	// Whole decodes each version of an object whole, as lw.HTTP.Whole says. By default the versions of
	// an object share what did not change, unless the kind is read without deep copies. Handlers and
	// predicates must not change the objects that they get in either case.
	Whole bool

	// Pack keeps the objects as the compressed bytes that the server has sent, as lw.Pack does. That
	// takes a small part of the memory, and no field and no object is missing. docs/memory.md says
	// what it costs.
	//
	// A Get decodes into the caller's object instead of copying. A List decodes one object after the
	// other, and only those that match its labels and the first of its fields. Handlers, predicates
	// and index functions get decoded objects. So do all readers of a kind whose deep copies the
	// cache options disable. A single read with client.UnsafeDisableDeepCopy returns a copy all the
	// same. Objects of a kind with a transform stay decoded.
	Pack bool
	// PackByObject overrides Pack for some kinds. Keys are examples, as in ByObject.
	PackByObject map[client.Object]bool
	// Limit bounds the memory of all packed objects of the cache, in bytes, as lw.PackLimit says. It
	// implies Pack. Default: no bound.
	//
	// A Get of an object that was let go asks the server for it, and returns the error of the request
	// or of ctx. A List asks for those that its namespace and its labels select, several at a time. A
	// field selector and an index function wait up to a minute for an object that cannot be read, and
	// the List then returns an error. The old object of an update, in a handler or a predicate, may
	// have its metadata alone.
	Limit int64

	// TellWrites makes own writes visible at once: when the manager's client returns, the answer of
	// the server is in every read of the cache, and handlers, predicates and derived collections get
	// it without waiting for a watch. See [clientgo.TellWrites] and [NotTold]. Give the Options to
	// [NewClient] as well.
	TellWrites bool

	// OnDemand has examples of kinds of which the cache keeps only the objects that somebody reads by
	// name, such as Secrets that users refer to; see lw.Wanted. The first Get of an object waits for
	// one request. Later ones read the copy, which a watch keeps up to date; if there is no object,
	// they return NotFound at once. A List is an error. Controllers that watch the kind get the events
	// of the objects that the cache has. An example stands for its form: typed, unstructured, or
	// metadata.
	//
	// A client with EnableReadYourWritesConsistency waits for an event of each write, and there is
	// none of an object that nobody has read: use TellWrites instead.
	OnDemand []client.Object
	// OnDemandFor is how long the cache keeps an object of OnDemand that nobody reads. Default: 30
	// minutes.
	OnDemandFor time.Duration
	// Namespaces limits the cache to the objects of some namespaces, for all kinds that have
	// namespaces and are not OnDemand. It replaces the namespaces of cache.Options. The set may change
	// while the manager runs. A namespace that is added is listed alone, and a Get or a List in it
	// waits for that list. The objects of a namespace that is removed are Deleted: a Get then returns
	// NotFound, and the error of a List is a reconcile.TerminalError, so that the requests for its
	// objects end. In any other namespace, a Get or a List is an error. One watch of each kind follows
	// all namespaces, which the program must be allowed to read.
	Namespaces *lw.NamespaceSet

	// Kinds lets a manager start before its CustomResourceDefinitions, and keep running when they go,
	// as package kinds says. For, Owns, Watches and IndexField stay as they are. The informer of a
	// kind that nobody serves is in sync and empty, and makes no request. The cache runs the catalog,
	// and gives its server to a zero one. A group without a dot in its name is Kubernetes' own, and
	// its informers do not wait.
	//
	// If there is an informer of an absent kind, as a controller makes one, a cached Get returns
	// NotFound and a List is empty. Otherwise both return a NoKindMatchError, as every write does; see
	// [Mapper]. If the cache is limited to some namespaces, the informers of a kind without namespaces
	// fail, and make no request.
	//
	// Default: nil. Then a manager ends if a kind is missing, as it does with LW=off.
	Kinds *kinds.Catalog

	// Reasons lets the reconcilers of [Explain] know why they are called, and the Board show it.
	Reasons bool

	// Board lists the informers of the cache while they run. Give it to lwdebug.Handler for a page,
	// and to prom.Collector for series, unless Metrics is set. Default: the Board of the process if
	// Metrics is set, and otherwise none.
	Board *lw.Board
	// Metrics registers the series of the Board, once for each Board. With metrics.Registry of
	// controller-runtime, the manager's server has them beside its own. A registry takes the series of
	// one Board, so two caches with one registry need one Board. Default: no series.
	Metrics prometheus.Registerer
	// Name comes before the name of each informer, with a slash: "tenant/Pod". It tells apart the
	// caches of two clusters.
	Name string
	// OnError is called once for every failure, with an *lw.Error, as that of lw.Options. The cache's
	// DefaultWatchErrorHandler is called, too.
	OnError func(err error)
	// Logger logs the first sync and each recovery of an informer. Default: klog. Failures go to the
	// DefaultWatchErrorHandler, which logs them.
	Logger *slog.Logger
	// ByObject has settings of lw for the informers of some kinds. Keys are examples, as in
	// cache.Options.ByObject, and stand for the kind in their form: typed, unstructured, or metadata.
	// A setting that is zero is the one above.
	ByObject map[client.Object]lw.Options
}

// processBoard is the Board of caches that have Metrics alone.
var processBoard lw.Board

// off reports whether the environment asks for controller-runtime's own cache.
func off() bool { return os.Getenv("LW") == "off" }

func newCache(o Options, config *rest.Config, opts cache.Options) (cache.Cache, error) {
	if off() {
		if o.Namespaces != nil || len(o.OnDemand) > 0 {
			return nil, errors.New("controllerruntime: NewCache: LW=off: " +
				"controller-runtime's cache has no OnDemand and no Namespaces")
		}
		return cache.New(config, opts)
	}
	httpClient := opts.HTTPClient
	if httpClient == nil {
		var err error
		if httpClient, err = newHTTPClient(config); err != nil {
			return nil, fmt.Errorf("controllerruntime: NewCache: %w", err)
		}
	}
	p, err := o.plan(config, httpClient, &opts)
	if err != nil {
		return nil, fmt.Errorf("controllerruntime: NewCache: %w", err)
	}
	var told *http.Client
	if o.TellWrites {
		told = clientgo.TellWrites(httpClient)
		httpClient = told
	}
	opts.HTTPClient = clientgo.Capture(httpClient)
	if opts.NewInformer == nil {
		opts.NewInformer = p.informers(opts)
	}
	c, err := cache.New(config, opts)
	c = o.behind(p.guess, c, err)
	if err == nil && p.packs.any() {
		c = &packedCache{c, p.packs, opts.Scheme, p.limited}
	}
	if err != nil || told == nil && p.part == nil {
		return c, err
	}
	return &ownCache{Cache: c, told: told, part: p.part}, nil
}

// A plan is what Options ask of a cache.
type plan struct {
	Options
	packs    packs
	settings settings
	part     *part     // nil: the cache has all objects
	guess    *guessing // nil: no kind comes later
	limited  *limited  // nil: there is no limit
}

// plan returns the plan of o, and completes opts.
func (o Options) plan(config *rest.Config, httpClient *http.Client, opts *cache.Options) (p *plan, err error) {
	p = &plan{Options: o}
	if p.packs, err = o.packs(); err != nil {
		return nil, err
	}
	if o.Limit > 0 {
		p.limited = &limited{limit: lw.PackLimit{Bytes: o.Limit}, informers: map[form][]toolscache.SharedIndexInformer{}}
	}
	if p.settings, err = o.settings(); err != nil {
		return nil, err
	}
	if (o.Namespaces != nil || len(o.OnDemand) > 0) && opts.Mapper == nil {
		if opts.Mapper, err = apiutil.NewDynamicRESTMapper(config, httpClient); err != nil {
			return nil, err
		}
	}
	if opts.Scheme == nil {
		opts.Scheme = scheme.Scheme
	}
	if p.part, err = partOf(o, *opts); err != nil {
		return nil, err
	}
	if p.guess, err = o.waiting(config, httpClient, opts); err != nil {
		//lint:ignore ST1005 Kinds is the name of an option.
		return nil, fmt.Errorf("Kinds: %w", err)
	}
	if p.part != nil && p.guess != nil {
		p.part.namespaced = p.guess.namespaced
	}
	return p, nil
}

// informers returns the NewInformer of the cache of opts.
func (p *plan) informers(opts cache.Options) func(toolscache.ListerWatcher, runtime.Object, time.Duration,
	toolscache.Indexers) toolscache.SharedIndexInformer {
	return func(lister toolscache.ListerWatcher, example runtime.Object, resync time.Duration,
		indexers toolscache.Indexers) toolscache.SharedIndexInformer {
		p.guess.ask(example)
		decoder := clientgo.Decoder{
			Share: p.Share, Drop: p.Drop, Whole: p.Whole || uncopied(opts, example), Scheme: opts.Scheme,
			Options: p.settings.of(example), Pack: p.packs.of(formOf(example)), Wanted: p.part.setOf(example), Kinds: p.Kinds,
			Trust: true, // controller-runtime makes the ListerWatchers, which change nothing
		}
		if decoder.Pack && p.limited != nil {
			decoder.Limit = &p.limited.limit
		}
		inf := decoder.NewInformer(lister, example, resync, indexers)
		if decoder.Pack && !uncopied(opts, example) {
			inf.(interface{ PackedReads() }).PackedReads()
			p.limited.add(formOf(example), inf)
		}
		if decoder.Wanted != nil {
			return p.part.add(example, inf)
		}
		return inf
	}
}

// uncopied reports whether opts have the objects like example read without deep copies.
func uncopied(opts cache.Options, example runtime.Object) bool {
	of := opts.DefaultUnsafeDisableDeepCopy
	gvk, err := apiutil.GVKForObject(example, opts.Scheme)
	for obj, by := range opts.ByObject {
		if other, wrong := apiutil.GVKForObject(obj, opts.Scheme); err == nil && wrong == nil && other == gvk && by.UnsafeDisableDeepCopy != nil {
			of = by.UnsafeDisableDeepCopy
		}
	}
	return of != nil && *of
}

// newHTTPClient returns the client that cache.New makes where its options have none.
func newHTTPClient(config *rest.Config) (*http.Client, error) {
	config = rest.CopyConfig(config)
	if config.UserAgent == "" {
		config.UserAgent = rest.DefaultKubernetesUserAgent()
	}
	return rest.HTTPClientFor(config)
}
