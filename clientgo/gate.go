package clientgo

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"strings"
	"sync"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/cache"
	"k8s.io/klog/v2"

	"github.com/go-lw/lw"
	"github.com/go-lw/lw/internal/request"
	"github.com/go-lw/lw/kinds"
)

// Kinds returns a catalog of the kinds that the server of config serves, for [Decoder] and
// kinds.Source. The caller runs it. Kinds does not change config, and makes no request. It ignores
// config's rate limits and its timeout, as [HTTP] does.
func Kinds(config *rest.Config) (*kinds.Catalog, error) {
	if config == nil {
		return nil, errors.New("clientgo: Kinds: nil config")
	}
	config = rest.CopyConfig(config)
	config.Timeout = 0
	client, err := rest.HTTPClientFor(config)
	if err != nil {
		return nil, fmt.Errorf("clientgo: Kinds: %w", err)
	}
	base, _, err := rest.DefaultServerUrlFor(config)
	if err != nil {
		return nil, fmt.Errorf("clientgo: Kinds: %w", err)
	}
	return kinds.New(base.String(), client), nil
}

// gated returns src, of a ListerWatcher, behind the gate of its kind, if d has any.
func (d Decoder) gated(src lw.Source[metav1.Object], lister cache.ListerWatcher,
	example runtime.Object) lw.Source[metav1.Object] {
	if d.Kinds == nil {
		return src
	}
	g := &lateGate{src: src, catalog: d.Kinds, kind: d.groupVersionKind(example), lister: lister}
	if _, ok := d.Wanted.(*lw.NamespaceSet); ok {
		g.namespace = "that Decoder.Wanted has"
	}
	return g
}

// groupVersionKind returns the kind of objects like example, which is empty if nobody says it.
func (d Decoder) groupVersionKind(example runtime.Object) schema.GroupVersionKind {
	if isNil(example) {
		return schema.GroupVersionKind{}
	}
	gvk := example.GetObjectKind().GroupVersionKind()
	if gvk.Empty() && d.Scheme != nil {
		if gvks, _, err := d.Scheme.ObjectKinds(example); err == nil && len(gvks) == 1 {
			gvk = gvks[0]
		}
	}
	return gvk
}

// A lateGate is a source that has a gate from its first request on. Only the ListerWatcher knows
// what it asks for, and no function of it is called before.
type lateGate struct {
	src       lw.Source[metav1.Object]
	catalog   *kinds.Catalog
	kind      schema.GroupVersionKind // empty: that of the resource
	namespace string                  // of the objects; "": as the ListerWatcher asks
	lister    cache.ListerWatcher

	mu sync.Mutex
	to lw.Source[metav1.Object] // the gate, or src; nil: there was no request yet; guarded by mu
}

// present returns the gate, or src while it is not known whether there is one.
func (g *lateGate) present() lw.Source[metav1.Object] {
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.to == nil {
		return g.src
	}
	return g.to
}

// source returns the source of a request.
func (g *lateGate) source(ctx context.Context) lw.Source[metav1.Object] {
	g.mu.Lock()
	to := g.to
	g.mu.Unlock()
	if to != nil {
		return to
	}
	to = g.src
	at, err := addressOf(ctx, g.lister)
	switch {
	case at == nil && err != nil:
		return to // which reports the failure, and the next request asks again
	case at != nil && strings.Contains(at.resource.Group, "."):
		to = g.gate(ctx, at)
	}
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.to == nil {
		g.to = to
	}
	return g.to
}

func (g *lateGate) gate(ctx context.Context, at *address) lw.Source[metav1.Object] {
	if err := g.catalog.Bind(request.Mark{}, at.server, at.client, nil); err != nil {
		klog.FromContext(ctx).Info("An informer has no gate", "resource", at.resource, "reason", err)
		return g.src
	}
	name := kinds.GVR(at.resource)
	if g.kind.Group == at.resource.Group && g.kind.Version == at.resource.Version {
		name = kinds.GVK(g.kind)
	}
	opts := &kinds.SourceOptions[metav1.Object]{
		Namespace: at.namespace, Make: func(kinds.State) lw.Source[metav1.Object] { return g.src },
	}
	if g.namespace != "" {
		opts.Namespace = g.namespace
	}
	return kinds.Source(g.catalog, name, opts)
}

func (g *lateGate) Hints() lw.SourceHints { return lw.HintsOf(g.present()) }

// Told is part of lw.Teller.
func (g *lateGate) Told(obj lw.Identified) (metav1.Object, bool, error) {
	return told(g.present(), obj)
}

// Reuses is part of [request.Source]. A gate lends what its source can use.
func (g *lateGate) Reuses(request.Mark) bool { return request.Reuses(g.src) }

func (g *lateGate) List(ctx context.Context, opts metav1.ListOptions,
	yield func(metav1.Object, error) error) (metav1.ListMeta, error) {
	return g.source(ctx).List(ctx, opts, yield)
}

func (g *lateGate) Watch(ctx context.Context, opts metav1.ListOptions,
	yield func(lw.WatchEvent[metav1.Object]) error) error {
	return g.source(ctx).Watch(ctx, opts, yield)
}

// An address is what a ListerWatcher asks for, and through which client.
type address struct {
	server    string // the URL before the path of the API
	client    *http.Client
	resource  schema.GroupVersionResource
	namespace string // "": all, or the resource has none
}

// A question goes with the context of a call whose request is not sent, but noted.
type question struct {
	mu     sync.Mutex
	answer *address // guarded by mu
}

type questionKey struct{}

// errNotSent is what client-go sees of the request that a question has noted.
var errNotSent = errors.New("clientgo: lw has not sent this request")

// addressOf returns what lister asks for; nil without an error if its client is none of [Capture].
func addressOf(ctx context.Context, lister cache.ListerWatcher) (*address, error) {
	if !takesContext(lister) {
		return nil, nil // it would send the request
	}
	q := &question{}
	ctx = context.WithValue(ctx, questionKey{}, q)
	from := cache.ToListerWatcherWithContext(lister)
	_, err := await(ctx, func() (runtime.Object, error) { return from.ListWithContext(ctx, metav1.ListOptions{Limit: 1}) }, nil)
	q.mu.Lock()
	defer q.mu.Unlock()
	return q.answer, err
}

// takesContext reports whether the lists of lister get a context.
func takesContext(lister cache.ListerWatcher) bool {
	if of, ok := lister.(*cache.ListWatch); ok {
		return of.ListWithContextFunc != nil
	}
	_, ok := lister.(cache.ListerWithContext)
	return ok
}

// note notes r, which is made through client. It reports false, and r is to be sent, if r is not
// for a collection: a ListerWatcher may ask discovery before, and needs the answer.
func (q *question) note(r *http.Request, client *http.Client) bool {
	at := addressIn(r.URL)
	if at == nil {
		return false
	}
	at.client = client
	q.mu.Lock()
	defer q.mu.Unlock()
	q.answer = at
	return true
}

// addressIn returns what u, the URL of a collection in a namespace or not, says; nil if it is none.
func addressIn(u *url.URL) *address {
	names := strings.Split(u.Path, "/")
	for i, name := range names {
		var gvr schema.GroupVersionResource
		rest := names[i+1:]
		switch {
		case name == "api" && len(rest) > 1:
			gvr.Version, rest = rest[0], rest[1:]
		case name == "apis" && len(rest) > 2:
			gvr.Group, gvr.Version, rest = rest[0], rest[1], rest[2:]
		default:
			continue
		}
		if len(rest) != 1 && (len(rest) != 3 || rest[0] != "namespaces") {
			continue
		}
		gvr.Resource = rest[len(rest)-1]
		at := &address{server: u.Scheme + "://" + u.Host + strings.Join(names[:i], "/"), resource: gvr}
		if len(rest) == 3 {
			at.namespace = rest[1]
		}
		return at
	}
	return nil
}

// withTruePlural returns r with the plural that a gate knows, where the path has a guess.
func withTruePlural(r *http.Request) *http.Request {
	gvr := request.ResourceOf(r.Context())
	if gvr.Empty() || r.Method != http.MethodGet {
		return r
	}
	at := addressIn(r.URL)
	if at == nil || at.resource.GroupVersion() != gvr.GroupVersion() || at.resource.Resource == gvr.Resource {
		return r
	}
	r = r.Clone(r.Context())
	r.URL.Path = r.URL.Path[:strings.LastIndexByte(r.URL.Path, '/')+1] + gvr.Resource
	r.URL.RawPath = ""
	return r
}
