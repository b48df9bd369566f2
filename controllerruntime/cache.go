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
//   - NewInformer: an informer that the caller makes is the caller's, and has nothing of lw. It is
//     for tests that fake the informers.
//   - EnableWatchBookmarks and its default have no effect: lw always asks for bookmarks, without
//     which it could neither stream a list nor resume a quiet watch.
//
// A transform that returns nil leaves the object out of the cache.
//
// The versions of an object share what an event did not change, unless its kind is read without
// deep copies by UnsafeDisableDeepCopy of the options: then each is decoded whole, so that the next
// event heals what a program has changed against the rules. What a program changes after a single
// read with client.UnsafeDisableDeepCopy stays in later versions; see [Options].Whole.
//
// With LW=off in the environment the cache is controller-runtime's own, so that a deployment can go
// back without a build.
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

// Options are options of lw for the informers of a cache. The zero value is [NewCache]'s.
type Options struct {
	// Share lets objects share equal parts, as lw.HTTP.Share says. The cache's readers get deep
	// copies, which share nothing, unless an option of controller-runtime says not to copy. Handlers,
	// predicates and transforms get the objects themselves: a transform that changes the inside of
	// a map, slice or pointer, rather than to replace it, would change other objects with it.
	Share bool
	// Drop names fields that no controller of the manager needs, as lw.HTTP.Drop says. All objects
	// are without them: typed and unstructured ones, and metadata. A path that a typed object does
	// not have is an error of its informer, which ends it.
	Drop []string
	// Whole decodes each version of an object whole, as lw.HTTP.Whole says. By default the versions
	// of an object share what did not change, but for kinds that are read without deep copies. That
	// is safe for those who get deep copies. Handlers and predicates must not change the objects
	// that they get in any case.
	Whole bool

	// Pack keeps the objects as the compressed bytes that the server has sent, as lw.Pack does: a
	// small part of the memory, and no field and no object is missing. A Get decodes into the object
	// of the caller, in the place of a copy; a List decodes one object after the other, and only those
	// that its labels and its field match, of several fields those that the first matches. Handlers,
	// predicates and functions of indexes get the objects decoded; so does a kind that is read without
	// deep copies by UnsafeDisableDeepCopy of the cache's options. An object that a single read with
	// client.UnsafeDisableDeepCopy returns is a copy all the same. Objects of a kind with a transform
	// stay decoded. docs/memory.md says what it costs.
	Pack bool
	// PackByObject says otherwise than Pack for some kinds. Keys are examples, as in ByObject.
	PackByObject map[client.Object]bool
	// Limit bounds the memory of all packed objects of the cache, in bytes, as lw.PackLimit says. It
	// implies Pack. A Get asks the server for an object that was let go, and fails as that request
	// does, or with ctx; a List asks for those that its namespace and its labels select, some at the
	// same time. By a field selector, and in a function of an index, an object that cannot be read is
	// waited for, for up to a minute; a List that has waited in vain is an error. The old object of an
	// update, in a handler or a predicate, may have its metadata alone. Default: all objects are kept.
	Limit int64

	// TellWrites shows what the server answers to a write of the manager's client when the client
	// returns: to every read of the cache, by fields as well, and to handlers, predicates and what is
	// derived from the informers. Nothing waits for a watch; see [clientgo.TellWrites] and [NotTold].
	// Give the Options to [NewClient] as well.
	TellWrites bool

	// OnDemand are examples of kinds of which the cache has those objects only that are read by their
	// names, such as Secrets that users name: see lw.Wanted. The first Get of an object waits for one
	// request, later ones read the copy, which a watch keeps new, and an absent one is NotFound at
	// once. A List is an error. Controllers that watch the kind get the events of these objects. An
	// example stands for the form that it has: typed, unstructured, or as metadata. A client with
	// EnableReadYourWritesConsistency waits for an event of each write, which an object that nobody
	// has read does not have: use TellWrites.
	OnDemand []client.Object
	// OnDemandFor is how long an object of OnDemand is kept that nobody reads. Default: 30 minutes.
	OnDemandFor time.Duration
	// Namespaces are those whose objects the cache has, of all kinds that have namespaces but those of
	// OnDemand. The set may change while the manager runs: one that is added is listed alone, and the
	// objects of one that is removed are Deleted. One watch of each kind follows all namespaces, which
	// the program must be allowed to read. A Get or a List in another namespace is an error, and one
	// in a new namespace waits until that has been read. In one that was removed, Get says NotFound,
	// as the Deletes have said, and the error of List is a reconcile.TerminalError: the requests of
	// its objects end. It is in the place of the namespaces of cache.Options.
	Namespaces *lw.NamespaceSet

	// Kinds has the informers of kinds wait that nobody serves yet, as package kinds says: a manager
	// starts before its CustomResourceDefinitions and outlives them, with For, Owns, Watches and
	// IndexField of these kinds as they are. An informer of an absent kind is in step and empty, and
	// makes no request. The cache runs the catalog; the zero one takes its server from the cache.
	// Groups whose names have no dot, as Kubernetes' own, are asked for at once.
	//
	// A cached Get of an absent kind is NotFound and a List is empty, if an informer was asked for, as
	// a controller does. Else both are a NoKindMatchError, and so is every write: see [Mapper]. Where
	// the cache is of some namespaces, a kind that comes without any is a failure of its informers,
	// and no request.
	//
	// nil: a manager ends where a kind is missing. So it does with LW=off.
	Kinds *kinds.Catalog

	// Reasons has the reconcilers of [Explain] know why they are called, and the Board show it.
	Reasons bool

	// Board lists the informers of the cache while they run: give it to lwdebug.Handler for a page,
	// and to prom.Collector for series, unless Metrics is set. Default: that of the process if
	// Metrics is set, and else none.
	Board *lw.Board
	// Metrics is where the series of the Board are registered, once for each Board: metrics.Registry
	// of controller-runtime, whose server then has them beside its own. Default: nowhere. A registry
	// takes the series of one Board, so two caches with one registry have one Board.
	Metrics prometheus.Registerer
	// Name precedes the names of the informers, which are the kinds of their objects, with a slash:
	// "tenant/Pod". It distinguishes the caches of two clusters.
	Name string
	// OnError is called once for every failure, with an *lw.Error, as that of lw.Options. The cache's
	// DefaultWatchErrorHandler is called, too.
	OnError func(err error)
	// Logger gets the first sync and each recovery of an informer, in the place of klog. Failures go
	// to the DefaultWatchErrorHandler, which logs them.
	Logger *slog.Logger
	// ByObject are settings of lw for the informers of some kinds. Keys are examples, as in
	// cache.Options.ByObject, and hold for a kind in the form that the example has: typed,
	// unstructured, or as metadata. A setting that is zero there is the one above.
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
