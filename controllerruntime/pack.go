package controllerruntime

import (
	"context"
	"fmt"
	"maps"
	stdruntime "runtime"
	"slices"
	"sync"
	"time"

	"golang.org/x/sync/errgroup"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	toolscache "k8s.io/client-go/tools/cache"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/go-lw/lw"
	"github.com/go-lw/lw/internal/request"
)

// packs are the forms of objects that a cache keeps packed.
type packs struct {
	all    bool
	byForm map[form]bool
}

// packs returns what o asks for.
func (o Options) packs() (packs, error) {
	if o.Limit < 0 {
		//lint:ignore ST1005 Limit is the name of an option.
		return packs{}, fmt.Errorf("Limit: %d bytes", o.Limit)
	}
	by, err := byForm("PackByObject", o.PackByObject)
	return packs{o.Pack || o.Limit > 0, by}, err
}

// of reports whether objects of the form are packed.
func (p packs) of(f form) bool {
	if pack, ok := p.byForm[f]; ok {
		return pack
	}
	return p.all
}

// any reports whether objects of some form may be packed.
func (p packs) any() bool {
	return p.all || slices.Contains(slices.Collect(maps.Values(p.byForm)), true)
}

// A packedCache is controller-runtime's cache, whose reader gets packed objects of some forms. The
// reader copies what it returns, and a copy of a packed object is decoded. So it has nothing to
// return without a copy.
type packedCache struct {
	cache.Cache
	packs   packs
	scheme  *runtime.Scheme
	limited *limited // nil: all objects are kept
}

// NeedLeaderElection is that of controller-runtime's cache.
func (c *packedCache) NeedLeaderElection() bool { return false }

const copied = client.UnsafeDisableDeepCopyOption(false)

// Get reads an object.
func (c *packedCache) Get(ctx context.Context, key client.ObjectKey, obj client.Object, opts ...client.GetOption) error {
	f := formOf(obj)
	if len(opts) > 0 && c.packs.of(f) {
		opts = append(slices.Clone(opts), copied)
	}
	if c.limited == nil || !c.packs.of(f) {
		return c.Cache.Get(ctx, key, obj, opts...)
	}
	held, err := c.limited.get(ctx, f, key)
	if err == nil {
		err = c.Cache.Get(ctx, key, obj, opts...)
	}
	if err == nil {
		err = whole(obj)
	}
	stdruntime.KeepAlive(held)
	return err
}

// List reads objects.
func (c *packedCache) List(ctx context.Context, list client.ObjectList, opts ...client.ListOption) error {
	var all client.ListOptions
	all.ApplyOptions(opts)
	if all.UnsafeDisableDeepCopy == nil && c.limited == nil {
		return c.Cache.List(ctx, list, opts...)
	}
	f, err := formOfList(list, c.scheme)
	if err != nil || !c.packs.of(f) {
		return c.Cache.List(ctx, list, opts...)
	}
	if all.UnsafeDisableDeepCopy != nil {
		opts = append(slices.Clone(opts), copied)
	}
	if c.limited == nil {
		return c.Cache.List(ctx, list, opts...)
	}
	for pause := 10 * time.Millisecond; ; pause = min(2*pause, time.Second) {
		held, err := c.limited.list(ctx, f, &all)
		if err == nil {
			err = c.Cache.List(ctx, list, opts...)
		}
		stdruntime.KeepAlive(held)
		if err != nil {
			return err
		}
		err = meta.EachListItem(list, func(item runtime.Object) error { return whole(item.(client.Object)) })
		if !apierrors.IsNotFound(err) {
			return err
		}
		// The watch is about to say that the object is gone.
		select {
		case <-time.After(pause):
		case <-ctx.Done():
			return ctx.Err()
		}
	}
}

// whole returns an error if obj, which a read has returned, has its metadata alone.
func whole(obj client.Object) error {
	switch obj.GetResourceVersion() {
	case request.Gone:
		return apierrors.NewNotFound(schema.GroupResource{Resource: fmt.Sprintf("%T", obj)}, obj.GetName())
	case request.LetGo:
		return fmt.Errorf("controllerruntime: %T %s was let go, and could not be read again", obj, client.ObjectKeyFromObject(obj))
	}
	return nil
}

// fetches is how many objects a List asks for at the same time.
const fetches = 8

// limited is what a cache with a limit has of its informers.
type limited struct {
	limit lw.PackLimit

	mu        sync.Mutex
	informers map[form][]toolscache.SharedIndexInformer // guarded by mu
}

// add notes an informer of packed objects.
func (l *limited) add(f form, inf toolscache.SharedIndexInformer) {
	if l == nil {
		return
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	l.informers[f] = append(slices.DeleteFunc(l.informers[f], toolscache.SharedIndexInformer.IsStopped), inf)
}

func (l *limited) of(f form) []toolscache.SharedIndexInformer {
	l.mu.Lock()
	defer l.mu.Unlock()
	return slices.Clone(l.informers[f])
}

// A packed is an object in the store of such an informer.
type packed interface {
	metav1.Object
	Kept() bool
	OpenContext(ctx context.Context) (metav1.Object, error)
}

// get has the object of key be there for as long as what it returns is kept.
func (l *limited) get(ctx context.Context, f form, key client.ObjectKey) (held any, err error) {
	for _, inf := range l.of(f) {
		obj, ok, err := inf.GetIndexer().GetByKey(toolscache.ObjectName(key).String())
		if p, is := obj.(packed); err == nil && ok && is && !p.Kept() {
			return p.OpenContext(ctx)
		}
	}
	return nil, nil
}

// list has the objects of a List be there for as long as what it returns is kept. What a field
// selects is not known before it is there.
func (l *limited) list(ctx context.Context, f form, opts *client.ListOptions) (held []any, err error) {
	if opts.FieldSelector != nil {
		return nil, nil
	}
	var mu sync.Mutex
	group, ctx := errgroup.WithContext(ctx)
	group.SetLimit(fetches)
	for _, inf := range l.of(f) {
		for _, obj := range inf.GetIndexer().List() {
			p, ok := obj.(packed)
			if !ok || p.Kept() || opts.Namespace != "" && opts.Namespace != p.GetNamespace() ||
				opts.LabelSelector != nil && !opts.LabelSelector.Matches(labels.Set(p.GetLabels())) {
				continue
			}
			group.Go(func() error {
				obj, err := p.OpenContext(ctx)
				mu.Lock()
				defer mu.Unlock()
				held = append(held, obj)
				if apierrors.IsNotFound(err) {
					return nil // the List says it, unless the watch has by then
				}
				return err
			})
		}
	}
	err = group.Wait()
	return held, err
}
