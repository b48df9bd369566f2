package serve

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"sync"
	"time"

	"github.com/go-lw/lw"
	"github.com/go-lw/lw/internal/registry"
	"github.com/go-lw/lw/internal/wire"
)

// A Handler serves collections to clients of the Kubernetes API. It is an http.Handler, and answers
// lists, watches, reads of single objects and discovery. See [Serve] and [ServeStore].
type Handler struct {
	opts Options

	limiter   limiter
	discovery wire.Discovery
	noFlush   sync.Once // that a watch cannot be answered is said once

	mu          sync.Mutex    // guards the fields below
	collections []*collection // in the order of the calls of Serve
	closed      bool
	garbage     *garbage // nil: nobody collects
}

// New returns a Handler that serves nothing yet. nil means the defaults.
func New(opts *Options) *Handler {
	h := &Handler{}
	if opts != nil {
		h.opts = *opts
	}
	h.opts.complete()
	h.discovery = wire.Discovery{Resources: h.resources, Version: wire.ServerVersion}
	h.limiter.lists = make(chan struct{}, h.opts.Limits.Lists)
	return h
}

// Serve serves c as r, until ctx is done or c stops. It returns the cause of that, or the error
// that ends it: r is wrong, the Handler serves something else by that name, or the versions of an
// Informer are not the numbers that a Kubernetes server gives.
//
// Requests before the first sync of c are answered with 429, so a program calls
// [Handler.WaitForSync] before it announces its address. At the end all watches of c end at once,
// as at the end of their time; a client can go on elsewhere from where it was. See also
// [Handler.Close].
func Serve[T lw.Object](ctx context.Context, h *Handler, c lw.Collection[T], r Resource[T]) error {
	res, err := resourceOf(r)
	if err != nil {
		return err
	}
	served := newCollection(h, res, r.History)
	inf, relays := c.(*lw.Informer[T])
	if !relays {
		served.history.own = newStamps(r.Replica)
	} else if r.Fresh != FreshHere {
		served.catchUp = inf.CatchUp
	}
	if !relays && r.Fresh == FreshUpstream {
		return fmt.Errorf("serve: %s: FreshUpstream is for an Informer: a derived collection has no server", r.Name)
	}
	return follow(ctx, h, c, served)
}

// follow serves c until ctx is done, c stops, or c cannot be served.
func follow[T lw.Object](ctx context.Context, h *Handler, c lw.Collection[T], served *collection) error {
	ctx, stop := context.WithCancelCause(ctx)
	defer stop(nil)
	served.stop = stop
	if err := h.add(served); err != nil {
		return err
	}
	defer h.remove(served)
	f := &feed[T]{resource: served.resource, history: served.history, rawProto: &served.encoder.rawProto, fail: stop}
	return lw.Follow(ctx, c, f)
}

func (h *Handler) add(c *collection) error {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.closed {
		return fmt.Errorf("serve: %s: %w", c.name, http.ErrServerClosed)
	}
	for _, other := range h.collections {
		if other.group == c.group && other.version == c.version && (other.name == c.name || other.kind == c.kind) {
			return fmt.Errorf("serve: %s: the Handler serves %s/%s already, as %s", c.name, other.apiVersion(), other.kind, other.name)
		}
	}
	h.collections = append(h.collections, c)
	h.garbage.wakeUp()
	return nil
}

// remove ends the watches of c, and waits until they have ended. Meanwhile requests are refused.
func (h *Handler) remove(c *collection) {
	c.end(0)
	c.watches.Wait()
	c.ends.cutOff()
	h.mu.Lock()
	defer h.mu.Unlock()
	h.collections = slices.DeleteFunc(h.collections, func(other *collection) bool { return other == c })
	h.garbage.wakeUp()
}

// find returns what is served at a path, or nil.
func (h *Handler) find(t wire.Target) *collection {
	h.mu.Lock()
	defer h.mu.Unlock()
	for _, c := range h.collections {
		if c.group == t.Group && c.version == t.Version && c.name == t.Resource {
			named := t.Verb == "watch" && t.Name != "" // kube-apiserver watches no name of all namespaces
			if t.Subresource != "" && !c.has(t.Subresource) || t.Longer || t.Verb == "proxy" || c.cluster && t.Namespaced || named && !c.cluster && !t.Namespaced {
				return nil
			}
			return c
		}
	}
	return nil
}

func (h *Handler) all() []*collection {
	h.mu.Lock()
	defer h.mu.Unlock()
	return slices.Clone(h.collections)
}

// WaitForSync waits until all collections have synced that are served when it is called. It does
// not know of a Serve in another goroutine that has not begun yet: wait for the informer then. Its
// error names the collection that has not synced.
func (h *Handler) WaitForSync(ctx context.Context) error {
	for _, c := range h.all() {
		if err := c.history.waitForBegin(ctx); err != nil {
			return fmt.Errorf("serve: %s: not synced: %w", c.name, err)
		}
	}
	return nil
}

// Close refuses new requests and ends all watches, spread over two seconds, as at the end of their
// time, and with a bookmark for those that allow it. It returns when they have ended. A client that
// has not taken the end of its watch a second after that is cut off. Each Serve then returns
// [http.ErrServerClosed].
//
// The error says that a watch goes on because it could not be cut off: what is between the Handler
// and the server has no write deadlines. It ends with its connection.
func (h *Handler) Close() error {
	h.mu.Lock()
	h.closed = true
	served := slices.Clone(h.collections)
	h.mu.Unlock()
	for _, c := range served {
		c.end(closeSpread)
	}
	var ended sync.WaitGroup
	for _, c := range served {
		c.stop(http.ErrServerClosed)
		ended.Go(c.watches.Wait)
	}
	all := make(chan struct{})
	go func() {
		ended.Wait()
		close(all)
	}()
	// Where a connection cannot be cut off, because a middleware hides it, its client decides when the
	// watch ends. The program's server must not wait for that: it closes the connection.
	timer := time.NewTimer(closeSpread + 5*cutAfter)
	defer timer.Stop()
	select {
	case <-all:
		return nil
	case <-timer.C:
		return errors.New("serve: some watches have not ended: their clients take nothing, and their connections cannot be cut off from here")
	}
}

// resources returns what discovery says of what is served.
func (h *Handler) resources() []wire.Resource {
	var all []wire.Resource
	for _, c := range h.all() {
		verbs, schema, patches := []string{"get", "list", "watch"}, (&registry.Kind{}).OpenAPI, []string(nil)
		if c.writes != nil {
			verbs = []string{"create", "delete", "deletecollection", "get", "list", "patch", "update", "watch"}
			schema, patches = c.writes.kind.OpenAPI, c.writes.kind.PatchTypes()
		}
		r := wire.Resource{
			Group: c.group, Version: c.version, Name: c.name, Singular: c.singular, Kind: c.kind,
			ShortNames: c.shortNames, Namespaced: !c.cluster, Verbs: verbs,
			Schema: schema, Patches: patches,
		}
		var subs []string
		for _, sub := range []string{registry.SubStatus, registry.SubScale} {
			if c.has(sub) {
				subs = append(subs, sub)
			}
		}
		all = append(all, r.With(subs...)...)
	}
	return all
}

func (h *Handler) isClosed() bool {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.closed
}

func newCollection(h *Handler, r *resource, limits HistoryLimits) *collection {
	c := &collection{resource: r, opts: &h.opts, limiter: &h.limiter, history: newHistory(limits)}
	c.encoder = newEncoder(r, c.history, &h.opts)
	c.ends.closing, c.ends.close = context.WithCancel(context.Background())
	c.ends.cut, c.ends.cutOff = context.WithCancel(context.Background())
	c.startSweepers()
	return c
}
