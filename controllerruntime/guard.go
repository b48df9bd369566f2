package controllerruntime

import (
	"context"
	"encoding/json"
	"fmt"
	"log/slog"
	"maps"
	"net/http"
	"reflect"
	"slices"
	"sync"

	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/rest"
	"k8s.io/klog/v2"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/go-lw/lw"
	"github.com/go-lw/lw/internal/decode"
)

// NewClient returns a function that makes the client of a manager whose cache has the Options o. It
// fits the NewClient of manager.Options and of cluster.Options:
//
//	ctrl.Options{
//		NewCache:  controllerruntime.NewCacheWith(o),
//		NewClient: controllerruntime.NewClient(o),
//	}
//
// The client is controller-runtime's own, but for o.TellWrites and the kinds in o.Only. The cache
// has only some fields of these, and to write such an object would delete the others on the server.
// So Update, Patch and Apply of such a kind, and those of its subresources, return an error before
// anything is sent. A merge patch is sent if the mask keeps whole what it changes: that of
// client.MergeFrom is, where a program changes no more than it reads. A subresource with a body of
// its own is sent, too. Objects that are whole are written by the client of [Unguarded].
func NewClient(o Options) client.NewClientFunc {
	return func(config *rest.Config, opts client.Options) (client.Client, error) {
		if off() {
			return client.New(config, opts)
		}
		m, err := masksOf(o.Only)
		if err != nil {
			return nil, fmt.Errorf("controllerruntime: NewClient: Only: %w", err)
		}
		if opts.Cache != nil {
			if of, ok := opts.Cache.Reader.(*ownCache); ok {
				of.guardedBy(m)
			}
		}
		if o.TellWrites {
			if opts.HTTPClient, err = tellingClient(config, opts); err != nil {
				return nil, fmt.Errorf("controllerruntime: NewClient: %w", err)
			}
		}
		c, err := client.New(config, opts)
		if err != nil || len(m) == 0 {
			return c, err
		}
		g := &guarded{Client: c, guard: guard{m, map[schema.GroupVersionKind]lw.Fields{}}}
		for example := range o.Only {
			kind, err := c.GroupVersionKindFor(example)
			if err != nil {
				return nil, fmt.Errorf("controllerruntime: NewClient: Only: %w", err)
			}
			if fields := m.of(example); fields != nil {
				g.kinds[kind] = fields
			}
		}
		return g, nil
	}
}

// Unguarded returns the client that c guards, if it is one of [NewClient], and else c. It is for
// objects that are whole, such as those that were read with the manager's GetAPIReader.
func Unguarded(c client.Client) client.Client {
	if g, ok := c.(*guarded); ok {
		return g.Client
	}
	return c
}

// An ownCache is a cache whose clients must know more of it: that its objects of some kinds lack
// fields, or that writes are told to it. It warns where no client is known to guard the objects.
type ownCache struct {
	cache.Cache
	masks  masks
	logger *slog.Logger // nil: klog
	told   *http.Client // of the informers, made by clientgo.TellWrites; nil: no write is told
	part   *part        // nil: the cache has all objects of a kind

	mu      sync.Mutex
	guarded masks // those of the clients that read the cache
}

// guardedBy notes that a client reads the cache and guards the kinds of m.
func (c *ownCache) guardedBy(m masks) {
	c.mu.Lock()
	defer c.mu.Unlock()
	maps.Copy(c.guarded, m)
}

// unguarded returns the names of the kinds that no client guards.
func (c *ownCache) unguarded() []string {
	c.mu.Lock()
	defer c.mu.Unlock()
	var names []string
	for f, fields := range c.masks {
		if by, ok := c.guarded[f]; !ok || !slices.Equal(by, fields) {
			names = append(names, f.String())
		}
	}
	slices.Sort(names)
	return names
}

// NeedLeaderElection keeps a manager to which the cache is added from waiting until it is the
// leader.
func (c *ownCache) NeedLeaderElection() bool { return false }

// Start runs the cache until ctx is done.
func (c *ownCache) Start(ctx context.Context) error {
	if names := c.unguarded(); len(names) > 0 {
		const warning = "Warning: the cache keeps only some fields of these kinds, and nothing refuses an Update of such an object, which deletes the others on the server: " +
			"give the manager the client that does"
		const option = "NewClient: controllerruntime.NewClient(options)"
		if c.logger != nil {
			c.logger.WarnContext(ctx, warning, "kinds", names, "option", option)
		} else {
			klog.FromContext(ctx).Info(warning, "kinds", names, "option", option)
		}
	}
	return c.Cache.Start(ctx)
}

// A guard refuses writes of objects that lack fields.
type guard struct {
	masks masks
	// kinds are the kinds that have a mask in some form.
	kinds map[schema.GroupVersionKind]lw.Fields
}

// whole returns an error if obj may lack fields. what is what is about to be done with all of it.
func (g guard) whole(what string, obj runtime.Object) error {
	if fields := g.masks.of(obj); fields != nil {
		return refusal(what, nameOf(obj), fields, "what it lacks would be deleted on the server")
	}
	return nil
}

// applied returns an error if ac configures an object of a kind that has a mask.
func (g guard) applied(what string, ac runtime.ApplyConfiguration) error {
	of, ok := ac.(interface {
		GetKind() *string
		GetAPIVersion() *string
	})
	var kind schema.GroupVersionKind
	if u, untyped := ac.(interface {
		GroupVersionKind() schema.GroupVersionKind
	}); untyped {
		kind = u.GroupVersionKind()
	} else if ok && of.GetKind() != nil && of.GetAPIVersion() != nil {
		kind = schema.FromAPIVersionAndKind(*of.GetAPIVersion(), *of.GetKind())
	}
	if fields := g.kinds[kind]; fields != nil {
		return refusal(what, kind.Kind, fields, "a configuration that was made of it would give up what it lacks")
	}
	return nil
}

// patch returns the patch to send in the place of p, or an error if obj, which p patches, may lack
// fields that are in it.
func (g guard) patch(what string, obj client.Object, p client.Patch) (client.Patch, error) {
	fields := g.masks.of(obj)
	if fields == nil {
		return p, nil
	}
	if p.Type() != types.MergePatchType {
		return nil, refusal(what, nameOf(obj), fields, fmt.Sprintf("a patch of type %s may be of what it lacks", p.Type()))
	}
	data, err := p.Data(obj)
	if err != nil {
		return nil, fmt.Errorf("controllerruntime: %s of %s: %w", what, nameOf(obj), err)
	}
	var content any
	if err := json.Unmarshal(data, &content); err != nil {
		return nil, fmt.Errorf("controllerruntime: %s of %s: the patch: %w", what, nameOf(obj), err)
	}
	kept, err := decode.KeptOf(reflect.TypeOf(obj), fields)
	if err != nil {
		return nil, refusal(what, nameOf(obj), fields, err.Error())
	}
	if path, ok := touchesMore(content, "", kept); ok {
		return nil, refusal(what, nameOf(obj), fields, fmt.Sprintf("the patch changes %q, of which it may lack a part", path))
	}
	// What was looked at is what is sent.
	return client.RawPatch(p.Type(), data), nil
}

// touchesMore returns the path of something in patch, a merge patch of what is at path, that is not
// kept whole. A merge patch replaces lists, so a list of which a part is kept counts as well.
func touchesMore(patch any, path string, kept decode.Kept) (string, bool) {
	members, ok := patch.(map[string]any)
	if !ok || path != "" && len(members) == 0 {
		return path, true
	}
	for _, name := range slices.Sorted(maps.Keys(members)) {
		at := name
		if path != "" {
			at = path + "." + name
		}
		of := kept.Member(name)
		if of.All() {
			continue
		}
		if at, more := touchesMore(members[name], at, of); more {
			return at, true
		}
	}
	return "", false
}

func nameOf(obj runtime.Object) string {
	name := formOf(obj).String()
	if of, ok := obj.(client.Object); ok {
		name += " " + client.ObjectKeyFromObject(of).String()
	}
	return name
}

func refusal(what, of string, fields lw.Fields, why string) error {
	return fmt.Errorf("controllerruntime: %s of %s is refused: the cache keeps only %q of the kind, as Options.Only says, and %s; "+
		"read the object with mgr.GetAPIReader() and write it with controllerruntime.Unguarded(mgr.GetClient())", what, of, fields, why)
}

// A guarded is a client with a guard before its writes.
type guarded struct {
	client.Client
	guard
}

func (c *guarded) Update(ctx context.Context, obj client.Object, opts ...client.UpdateOption) error {
	if err := c.whole("Update", obj); err != nil {
		return err
	}
	return c.Client.Update(ctx, obj, opts...)
}

func (c *guarded) Patch(ctx context.Context, obj client.Object, p client.Patch, opts ...client.PatchOption) error {
	p, err := c.patch("Patch", obj, p)
	if err != nil {
		return err
	}
	return c.Client.Patch(ctx, obj, p, opts...)
}

func (c *guarded) Apply(ctx context.Context, ac runtime.ApplyConfiguration, opts ...client.ApplyOption) error {
	if err := c.applied("Apply", ac); err != nil {
		return err
	}
	return c.Client.Apply(ctx, ac, opts...)
}

func (c *guarded) Status() client.SubResourceWriter { return c.SubResource("status") }

func (c *guarded) SubResource(name string) client.SubResourceClient {
	return &guardedPart{c.Client.SubResource(name), name, c.guard}
}

// A guardedPart is the client of a subresource with a guard before its writes.
type guardedPart struct {
	client.SubResourceClient
	name  string
	guard guard
}

func (c *guardedPart) Update(ctx context.Context, obj client.Object, opts ...client.SubResourceUpdateOption) error {
	var all client.SubResourceUpdateOptions
	body := obj
	if all.ApplyOptions(opts); all.SubResourceBody != nil {
		body = all.SubResourceBody
	}
	if err := c.guard.whole("Update of "+c.name, body); err != nil {
		return err
	}
	return c.SubResourceClient.Update(ctx, obj, opts...)
}

func (c *guardedPart) Patch(ctx context.Context, obj client.Object, p client.Patch, opts ...client.SubResourcePatchOption) error {
	var all client.SubResourcePatchOptions
	if all.ApplyOptions(opts); all.SubResourceBody == nil {
		var err error
		if p, err = c.guard.patch("Patch of "+c.name, obj, p); err != nil {
			return err
		}
	} else if err := c.guard.whole("Patch of "+c.name, all.SubResourceBody); err != nil {
		return err
	}
	return c.SubResourceClient.Patch(ctx, obj, p, opts...)
}

func (c *guardedPart) Apply(ctx context.Context, ac runtime.ApplyConfiguration, opts ...client.SubResourceApplyOption) error {
	var all client.SubResourceApplyOptions
	body := ac
	if all.ApplyOpts(opts); all.SubResourceBody != nil {
		body = all.SubResourceBody
	}
	if err := c.guard.applied("Apply of "+c.name, body); err != nil {
		return err
	}
	return c.SubResourceClient.Apply(ctx, ac, opts...)
}
