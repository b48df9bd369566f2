package serve

import (
	"context"
	"errors"
	"fmt"
	"reflect"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/types"

	"github.com/go-lw/lw"
	"github.com/go-lw/lw/internal/listopts"
	"github.com/go-lw/lw/internal/registry"
)

// ServeMemory serves m as r: see [ServeStore].
func ServeMemory[T lw.Object](ctx context.Context, h *Handler, m *lw.Memory[T], r Resource[T]) error {
	return ServeStore(ctx, h, m, r)
}

// ServeStore serves w as r, until ctx is done: an API server over that store. Beside what [Serve]
// answers, clients can create, replace, patch, apply and delete objects, as on kube-apiserver. T is
// a pointer to a struct.
//
// The resource versions are those of w. A write is answered when w has it, and a list of the newest
// state that is asked for after it shows it. If w has a method Oldest() string, as a Memory has,
// versions before that one are expired.
func ServeStore[T lw.Object](ctx context.Context, h *Handler, w lw.Writable[T], r Resource[T]) error {
	res, err := resourceOf(r)
	if err != nil {
		return err
	}
	kind, err := kindOf(res, r)
	if err != nil {
		return err
	}
	inf := lw.NewInformer(lw.Source[T](w), &lw.Options{Name: r.Name, Logger: h.opts.Logger, OnError: h.opts.OnError})
	c := newCollection(h, res, r.History)
	catchUp := inf.CatchUp
	if v, ok := behind(w).(interface{ ResourceVersion() string }); ok {
		catchUp = func(context.Context) (string, error) { return v.ResourceVersion(), nil }
	}
	_, converted := w.(wrapped)
	c.writes = &writer{kind, &storage[T]{w, res, kind}, catchUp, behind(w), converted}
	if o, ok := behind(w).(interface{ Oldest() string }); ok {
		c.history.floor = func() uint64 {
			oldest, _ := listopts.ParseVersion(o.Oldest())
			return oldest
		}
	}
	if r.Fresh != FreshHere {
		c.catchUp = catchUp
	}
	// The informer ends after follow, so that what ends follow is ctx.
	running, cancel := context.WithCancel(context.WithoutCancel(ctx))
	ended := make(chan error, 1)
	go func() { ended <- inf.Run(running) }()
	err = follow(ctx, h, inf, c)
	cancel()
	if ran := <-ended; !errors.Is(ran, context.Canceled) {
		err = errors.Join(err, ran)
	}
	return err
}

// kindOf returns what the engine of writes knows of a resource.
func kindOf[T lw.Object](res *resource, r Resource[T]) (*registry.Kind, error) {
	t, err := registry.TypeOf(reflect.TypeFor[T]())
	if err != nil || res.raw {
		return nil, fmt.Errorf("serve: %s: clients cannot write objects of the type %v: it is no pointer to a struct of JSON", r.Name, reflect.TypeFor[T]())
	}
	if r.Encode != nil {
		t.Encode = func(value any) ([]byte, error) { return r.Encode(value.(T)) }
	}
	k := &registry.Kind{
		Group: res.group, Version: res.version, Plural: res.name, Kind: res.kind, Cluster: res.cluster,
		Status: r.Status, Scale: (*registry.Scale)(r.Scale), Managed: r.Managed, Versioned: r.Versioned, Type: t, ValidateName: r.ValidateName,
	}
	if r.Schema != nil {
		if err := k.SetSchema(r.Schema); err != nil {
			return nil, fmt.Errorf("serve: %s: %w", r.Name, err)
		}
	}
	if r.Default != nil {
		k.Default = func(obj *registry.Object) error { return r.Default(obj.Value.(T)) }
	}
	if r.Validate != nil {
		k.Validate = func(ctx context.Context, obj, old *registry.Object) error {
			var values [2]T
			for i, o := range []*registry.Object{obj, old} {
				if o != nil {
					values[i] = o.Value.(T)
				}
			}
			return r.Validate(ctx, values[0], values[1])
		}
	}
	return k, nil
}

// A storage is a Writable as the engine of writes sees it.
type storage[T lw.Object] struct {
	store    lw.Writable[T]
	resource *resource
	kind     *registry.Kind
}

// object returns an object that the store has returned.
func (s *storage[T]) object(obj T, err error) (*registry.Object, error) {
	if err != nil {
		return nil, s.resource.named(err)
	}
	o, err := s.kind.ValueOf(obj)
	if err != nil {
		return nil, apierrors.NewInternalError(fmt.Errorf("serve: %s: encode %s: %w", s.resource.name, lw.KeyOf(obj), err))
	}
	// What the JSON of T does not say, or Encode says otherwise.
	m := lw.MetaOf(obj)
	o.Meta.Namespace, o.Meta.Name, o.Meta.UID, o.Meta.ResourceVersion = m.Namespace, m.Name, m.UID, m.ResourceVersion
	return o, nil
}

// value returns the object to store for o: one of its key, and of that version.
func (s *storage[T]) value(o *registry.Object, version string) (T, error) {
	obj := o.Value.(T)
	if m, key := lw.MetaOf(obj), lw.KeyOf(obj); key != o.Key() || version != "" && m.ResourceVersion != version {
		return obj, apierrors.NewInternalError(fmt.Errorf("serve: %s: the JSON of %T says that %s in version %q is %s in version %q",
			s.resource.name, obj, o.Key(), version, key, m.ResourceVersion))
	}
	return obj, nil
}

// Get implements [registry.Store].
func (s *storage[T]) Get(ctx context.Context, key types.NamespacedName) (*registry.Object, error) {
	obj, err := s.store.Get(ctx, key)
	if apierrors.IsNotFound(err) {
		return nil, nil
	}
	return s.object(obj, err)
}

// Create implements [registry.Store].
func (s *storage[T]) Create(ctx context.Context, o *registry.Object) (*registry.Object, error) {
	obj, err := s.value(o, "")
	if err != nil {
		return nil, err
	}
	return s.object(s.store.Create(ctx, obj))
}

// Replace implements [registry.Store].
func (s *storage[T]) Replace(ctx context.Context, o, old *registry.Object) (*registry.Object, error) {
	obj, err := s.value(o, old.Meta.ResourceVersion)
	if err != nil {
		return nil, err
	}
	return s.object(s.store.Update(ctx, obj))
}

// Delete implements [registry.Store]. The version of the result is that of the deletion.
func (s *storage[T]) Delete(ctx context.Context, old *registry.Object) (*registry.Object, error) {
	version, err := s.store.Delete(ctx, old.Key(), old.Meta.ResourceVersion)
	if err != nil {
		return nil, s.resource.named(err)
	}
	last := *old
	last.Meta.ResourceVersion = version
	return &last, nil
}
