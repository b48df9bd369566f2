package controllerruntime

import (
	"context"
	"errors"
	"net/http"
	"sync"

	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/apiutil"

	"github.com/go-lw/lw"
	"github.com/go-lw/lw/internal/guess"
	"github.com/go-lw/lw/internal/request"
	"github.com/go-lw/lw/kinds"
)

// waiting gives the catalog of o its server, and opts a mapper of kinds that nobody serves, which it
// returns; nil without a catalog.
func (o Options) waiting(config *rest.Config, httpClient *http.Client, opts *cache.Options) (*guessing, error) {
	if o.Kinds == nil {
		return nil, nil
	}
	if opts.NewInformer != nil {
		return nil, errors.New("needs informers of lw: leave out NewInformer of cache.Options")
	}
	if opts.Mapper == nil {
		var err error
		if opts.Mapper, err = apiutil.NewDynamicRESTMapper(config, httpClient); err != nil {
			return nil, err
		}
	}
	url, _, err := rest.DefaultServerUrlFor(config)
	if err != nil {
		return nil, err
	}
	direct := *httpClient
	direct.Timeout = 0 // which would end every watch
	own := &lw.Options{Board: o.board(), OnError: o.OnError, Logger: o.Logger}
	if o.Name != "" {
		own.Name = o.Name + "/"
	}
	if err := o.Kinds.Bind(request.Mark{}, url.String(), &direct, own); err != nil {
		return nil, err
	}
	narrow := len(opts.DefaultNamespaces) > 0 || opts.DefaultFieldSelector != nil || o.Namespaces != nil
	g := &guessing{guess.New(opts.Mapper, o.Kinds, narrow), opts.Scheme}
	for obj, by := range opts.ByObject {
		gvk, err := apiutil.GVKForObject(obj, opts.Scheme)
		if err != nil {
			continue // cache.New returns it
		}
		g.Ask(gvk) // cache.New asks for its scope
		if len(by.Namespaces) > 0 || by.Field != nil {
			g.Narrow(gvk)
		}
	}
	opts.Mapper = g
	return g, nil
}

// behind returns c, whose mapper is g, with the gates of its informers; made is the error of c.
func (o Options) behind(g *guessing, c cache.Cache, made error) cache.Cache {
	if g == nil || made != nil {
		return c
	}
	g.ForgetAll() // a kind of ByObject has no informer yet
	return &kindsCache{c, g, o.Kinds}
}

// A kindsCache is a cache whose informers may be of kinds that nobody serves.
type kindsCache struct {
	cache.Cache
	mapper  *guessing
	catalog *kinds.Catalog
}

// NeedLeaderElection is that of controller-runtime's cache.
func (c *kindsCache) NeedLeaderElection() bool { return false }

// Start runs the catalog beside the cache: a manager waits for its caches before it starts anything
// else.
func (c *kindsCache) Start(ctx context.Context) error {
	ctx, cancel := context.WithCancel(ctx)
	var running sync.WaitGroup
	defer running.Wait()
	defer cancel()
	running.Go(func() { _ = c.catalog.Run(ctx) }) // an error says that somebody else runs it
	return c.Cache.Start(ctx)
}

// GetInformer may make an informer of what nobody serves.
func (c *kindsCache) GetInformer(ctx context.Context, obj client.Object, opts ...cache.InformerGetOption) (cache.Informer, error) {
	c.mapper.ask(obj)
	return c.Cache.GetInformer(ctx, obj, opts...)
}

// GetInformerForKind may make an informer of what nobody serves.
func (c *kindsCache) GetInformerForKind(ctx context.Context, gvk schema.GroupVersionKind,
	opts ...cache.InformerGetOption) (cache.Informer, error) {
	c.mapper.Ask(gvk)
	return c.Cache.GetInformerForKind(ctx, gvk, opts...)
}

// IndexField may make an informer of what nobody serves.
func (c *kindsCache) IndexField(ctx context.Context, obj client.Object, field string, extract client.IndexerFunc) error {
	c.mapper.ask(obj)
	return c.Cache.IndexField(ctx, obj, field, extract)
}

// RemoveInformer removes an informer, after which the kind is as one that nobody has asked for.
func (c *kindsCache) RemoveInformer(ctx context.Context, obj client.Object) error {
	err := c.Cache.RemoveInformer(ctx, obj)
	if gvk, wrong := apiutil.GVKForObject(obj, c.mapper.scheme); wrong == nil {
		c.mapper.Forget(gvk)
	}
	return err
}

// Get leaves out the namespace of a kind that has none now. controller-runtime's reader keeps the
// scope that a kind had when its informer was made, which is said to be that with namespaces.
func (c *kindsCache) Get(ctx context.Context, key client.ObjectKey, obj client.Object, opts ...client.GetOption) error {
	if gvk, err := apiutil.GVKForObject(obj, c.mapper.scheme); err == nil && key.Namespace != "" && c.mapper.Global(gvk) {
		key.Namespace = ""
	}
	return c.Cache.Get(ctx, key, obj, opts...)
}

// guessing is the mapper of a cache whose kinds may come later. A nil one is of a cache without.
type guessing struct {
	*guess.Mapper
	scheme *runtime.Scheme
}

// ask notes that an informer of obj was asked for. A nil guessing notes nothing.
func (g *guessing) ask(obj runtime.Object) {
	if g == nil {
		return
	}
	if gvk, err := apiutil.GVKForObject(obj, g.scheme); err == nil {
		g.Ask(gvk)
	}
}

// namespaced reports whether the objects like obj have namespaces.
func (g *guessing) namespaced(obj runtime.Object) (bool, error) {
	gvk, err := apiutil.GVKForObject(obj, g.scheme)
	if err != nil {
		return false, err
	}
	if s, ok := g.Served(gvk); ok {
		return s.Namespaced, nil
	}
	return apiutil.IsGVKNamespaced(gvk, g)
}
