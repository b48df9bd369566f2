package controllerruntime

import (
	"context"
	"fmt"
	"maps"
	"slices"

	"k8s.io/apimachinery/pkg/runtime"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// packs are the forms of objects that a cache keeps packed.
type packs struct {
	all    bool
	byForm map[form]bool
}

// packs returns what o asks for.
func (o Options) packs() (packs, error) {
	p := packs{o.Pack, map[form]bool{}}
	for example, pack := range o.PackByObject {
		f, err := formOfExample(example)
		if err != nil {
			return p, fmt.Errorf("PackByObject: %w", err)
		}
		if _, ok := p.byForm[f]; ok {
			return p, fmt.Errorf("PackByObject: two examples of %v", f)
		}
		p.byForm[f] = pack
	}
	return p, nil
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
	packs  packs
	scheme *runtime.Scheme
}

const copied = client.UnsafeDisableDeepCopyOption(false)

// Get reads an object.
func (c *packedCache) Get(ctx context.Context, key client.ObjectKey, obj client.Object, opts ...client.GetOption) error {
	if len(opts) > 0 && c.packs.of(formOf(obj)) {
		opts = append(slices.Clone(opts), copied)
	}
	return c.Cache.Get(ctx, key, obj, opts...)
}

// List reads objects.
func (c *packedCache) List(ctx context.Context, list client.ObjectList, opts ...client.ListOption) error {
	var all client.ListOptions
	if all.ApplyOptions(opts); all.UnsafeDisableDeepCopy != nil {
		if f, err := formOfList(list, c.scheme); err == nil && c.packs.of(f) {
			opts = append(slices.Clone(opts), copied)
		}
	}
	return c.Cache.List(ctx, list, opts...)
}
