package controllerruntime

import (
	"context"
	"errors"
	"net/http"
	"strings"
	"sync"

	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/apiutil"

	"github.com/go-lw/lw"
	"github.com/go-lw/lw/internal/request"
	"github.com/go-lw/lw/kinds"
)

// gated reports whether kinds of a group may come later. The names of Kubernetes' own groups, which
// are always served, have no dot.
func gated(group string) bool { return strings.Contains(group, ".") }

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
	g := &guessing{RESTMapper: opts.Mapper, catalog: o.Kinds, scheme: opts.Scheme}
	g.allNarrow = len(opts.DefaultNamespaces) > 0 || opts.DefaultFieldSelector != nil || o.Namespaces != nil
	for obj, by := range opts.ByObject {
		gvk, err := apiutil.GVKForObject(obj, opts.Scheme)
		if err != nil {
			continue // cache.New returns it
		}
		g.asked.Store(gvk, true) // cache.New asks for its scope
		if len(by.Namespaces) > 0 || by.Field != nil {
			g.narrow.Store(gvk, true)
		}
	}
	opts.Mapper = g
	return g, nil
}

// behind returns c with the gates of its informers; made is the error of c.
func (g *guessing) behind(c cache.Cache, made error) cache.Cache {
	if g == nil || made != nil {
		return c
	}
	g.asked.Clear() // a kind of ByObject has no informer yet
	return &kindsCache{Cache: c, mapper: g}
}

// A kindsCache is a cache whose informers may be of kinds that nobody serves.
type kindsCache struct {
	cache.Cache
	mapper *guessing
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
	running.Go(func() { _ = c.mapper.catalog.Run(ctx) }) // an error says that somebody else runs it
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
	c.mapper.asked.Store(gvk, true)
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
		c.mapper.asked.Delete(gvk)
	}
	return err
}

// Get leaves out the namespace of a kind that has none now. controller-runtime's reader keeps the
// scope that a kind had when its informer was made, which is said to be that with namespaces.
func (c *kindsCache) Get(ctx context.Context, key client.ObjectKey, obj client.Object, opts ...client.GetOption) error {
	gvk, err := apiutil.GVKForObject(obj, c.mapper.scheme)
	if err == nil && key.Namespace != "" {
		if of, ok := c.mapper.of(gvk); ok && !c.mapper.isNarrow(of) {
			if s := c.mapper.catalog.Served(kinds.GVK(of)); s.Served && !s.Namespaced {
				key.Namespace = ""
			}
		}
	}
	return c.Cache.Get(ctx, key, obj, opts...)
}

// A guessing mapper answers for kinds that nobody serves, if an informer of them was asked for. It
// cannot tell a Get from that, and a Get alone makes no such informer.
type guessing struct {
	meta.RESTMapper
	catalog *kinds.Catalog
	scheme  *runtime.Scheme
	asked   sync.Map // schema.GroupVersionKind -> true: there is an informer, or will be

	// The cache has the objects of some namespaces only, of all kinds or of those of narrow.
	allNarrow bool
	narrow    sync.Map // schema.GroupVersionKind -> true
	// scopes are those that a narrow cache was told first. It has an informer for each namespace, or
	// one alone, and must read those that it has made.
	scopes sync.Map // schema.GroupVersionKind -> meta.RESTScope
}

// ask notes that an informer of obj was asked for. A nil guessing notes nothing.
func (g *guessing) ask(obj runtime.Object) {
	if g == nil {
		return
	}
	if gvk, err := apiutil.GVKForObject(obj, g.scheme); err == nil {
		g.asked.Store(gvk, true)
	}
}

// of returns the kind that an informer was asked for where a cache asks for gvk, which may be the
// kind of its list. ok is false if there is none.
func (g *guessing) of(gvk schema.GroupVersionKind) (of schema.GroupVersionKind, ok bool) {
	if !gated(gvk.Group) {
		return gvk, false
	}
	if _, ok = g.asked.Load(gvk); ok {
		return gvk, true
	}
	gvk.Kind = strings.TrimSuffix(gvk.Kind, "List")
	_, ok = g.asked.Load(gvk)
	return gvk, ok
}

func (g *guessing) isNarrow(gvk schema.GroupVersionKind) bool {
	_, narrow := g.narrow.Load(gvk)
	return narrow || g.allNarrow
}

// RESTMapping returns the mapping of a kind. A plural that is a guess is replaced in each request by
// that of the gate.
func (g *guessing) RESTMapping(gk schema.GroupKind, versions ...string) (*meta.RESTMapping, error) {
	if len(versions) == 0 || versions[0] == "" {
		return g.RESTMapper.RESTMapping(gk, versions...)
	}
	gvk := gk.WithVersion(versions[0])
	of, ok := g.of(gvk)
	if !ok {
		return g.RESTMapper.RESTMapping(gk, versions...)
	}
	m := &meta.RESTMapping{GroupVersionKind: gvk}
	var scope meta.RESTScope = meta.RESTScopeNamespace
	s := g.catalog.Served(kinds.GVK(of))
	switch {
	case s.Served && !s.Namespaced:
		m.Resource, scope = s.Resource, meta.RESTScopeRoot
	case s.Served:
		m.Resource = s.Resource
	case s.Known:
		m.Resource, _ = meta.UnsafeGuessKindToResource(of)
	default:
		known, err := g.RESTMapper.RESTMapping(gk, versions...)
		switch {
		case err == nil:
			m.Resource, scope = known.Resource, known.Scope
		case meta.IsNoMatchError(err):
			m.Resource, _ = meta.UnsafeGuessKindToResource(of)
		default:
			return nil, err
		}
	}
	// The path of all namespaces is that of a kind without. So only a narrow cache needs the scope.
	m.Scope = meta.RESTScopeNamespace
	if g.isNarrow(of) {
		first, _ := g.scopes.LoadOrStore(of, scope)
		m.Scope = first.(meta.RESTScope)
	}
	return m, nil
}

// namespaced reports whether the objects like obj have namespaces.
func (g *guessing) namespaced(obj runtime.Object) (bool, error) {
	gvk, err := apiutil.GVKForObject(obj, g.scheme)
	if err != nil {
		return false, err
	}
	if of, ok := g.of(gvk); ok && !g.isNarrow(of) {
		if s := g.catalog.Served(kinds.GVK(of)); s.Served {
			return s.Namespaced, nil
		}
	}
	return apiutil.IsGVKNamespaced(gvk, g)
}
