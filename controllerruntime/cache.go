// Package controllerruntime joins lw to sigs.k8s.io/controller-runtime.
//
// [NewCache] moves a whole manager to lw with one line. [Source] makes a controller watch a
// typed informer of lw, and [Reader] reads such informers through controller-runtime's
// client.Reader. The package is a module of its own, so that neither lw nor clientgo depends on
// controller-runtime.
package controllerruntime

import (
	"fmt"
	"net/http"

	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/cache"

	"github.com/go-lw/lw/clientgo"
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
	// copies, which share nothing, unless controller-runtime is told not to copy. Handlers,
	// predicates and transforms get the objects themselves: a transform that changes the inside of
	// a map, slice or pointer, rather than to replace it, would change other objects with it.
	Share bool
	// Drop names fields that no controller of the manager needs, as lw.HTTP.Drop says. All objects
	// are without them: typed and unstructured ones, and metadata. A path that a typed object does
	// not have is an error of its informer, which ends it.
	Drop []string
	// Whole decodes each version of an object whole, as lw.HTTP.Whole says. By default the versions
	// of an object share what did not change. That is safe for those who get deep copies; handlers
	// and predicates must not change the objects that they get in any case.
	Whole bool
}

func newCache(o Options, config *rest.Config, opts cache.Options) (cache.Cache, error) {
	client := opts.HTTPClient
	if client == nil {
		var err error
		if client, err = httpClient(config); err != nil {
			return nil, fmt.Errorf("controllerruntime: NewCache: %w", err)
		}
	}
	opts.HTTPClient = clientgo.Capture(client)
	if opts.NewInformer == nil {
		// controller-runtime makes the ListerWatchers, which change nothing.
		decoder := clientgo.Decoder{Share: o.Share, Drop: o.Drop, Whole: o.Whole, Scheme: opts.Scheme, Trust: true}
		opts.NewInformer = decoder.NewInformer
	}
	return cache.New(config, opts)
}

// httpClient returns the client that cache.New makes where its options have none.
func httpClient(config *rest.Config) (*http.Client, error) {
	config = rest.CopyConfig(config)
	if config.UserAgent == "" {
		config.UserAgent = rest.DefaultKubernetesUserAgent()
	}
	return rest.HTTPClientFor(config)
}
