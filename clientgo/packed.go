package clientgo

import (
	"context"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"

	"github.com/go-lw/lw"
	"github.com/go-lw/lw/internal/request"
)

// A cell is a packed object in the store of an informer, whose objects are metav1.Objects. It never
// leaves this package: whoever reads the store gets what opened returns. An interface has a cell
// without memory of its own, since it is one pointer.
type cell struct {
	*lw.Packed[metav1.Object]
}

// opened returns what a program gets of obj: obj, or what it is packed of.
func opened[T lw.Object](obj T) any {
	if c, ok := any(obj).(cell); ok {
		return c.Open()
	}
	return obj
}

// last is opened for what a store had: of what was let go it has the metadata.
func last[T lw.Object](obj T) any {
	if c, ok := any(obj).(cell); ok {
		obj, _ := c.OpenKept()
		return obj
	}
	return obj
}

// latest is opened for what a store has or a handler is to see as new: if it was let go, and another
// version has replaced it since, it is what is there now.
func latest[T lw.Object](obj T) any {
	if c, ok := any(obj).(cell); ok {
		return c.latest()
	}
	return obj
}

func (c cell) latest() metav1.Object {
	if !c.Kept() {
		ctx, cancel := context.WithTimeout(context.Background(), readPatience)
		defer cancel()
		if obj, err := c.OpenContext(ctx); err == nil {
			return obj
		}
	}
	return c.Open() // which waits longer, and reports it
}

// readPatience is how long a read without a context waits for an object that was let go.
const readPatience = 10 * time.Second

// fetched is opened for a read that can fail. there is false if the object is gone from the server.
func fetched[T lw.Object](obj T) (out any, there bool, err error) {
	c, ok := any(obj).(cell)
	if !ok {
		return obj, true, nil
	}
	ctx, cancel := context.Background(), func() {}
	if !c.Kept() {
		ctx, cancel = context.WithTimeout(ctx, readPatience)
	}
	defer cancel()
	if out, err = c.OpenContext(ctx); apierrors.IsNotFound(err) {
		return nil, false, nil
	}
	return out, err == nil, err
}

// own returns obj for somebody who may change it, before it is in a store.
func own(obj metav1.Object) metav1.Object {
	if c, ok := obj.(cell); ok {
		return c.Copy()
	}
	return obj
}

// A packedSource yields what src does, as cells.
type packedSource struct {
	src lw.Source[*lw.Packed[metav1.Object]]
}

func newPackedSource(http *lw.HTTP[metav1.Object], finish func(metav1.Object), limit *lw.PackLimit) *packedSource {
	return &packedSource{lw.Pack(http, lw.PackOptions{
		Finish: func(obj lw.Identified) { finish(obj.(metav1.Object)) },
		Limit:  limit,
	})}
}

// lent returns ctx for src, whose last versions are in the cells of the store.
func lent(ctx context.Context) context.Context {
	lend := request.LenderOf(ctx)
	if lend == nil {
		return ctx
	}
	return request.WithLender(ctx, func(namespace, name string) any {
		if c, ok := lend(namespace, name).(cell); ok {
			return c.Packed
		}
		return nil
	})
}

func (s *packedSource) List(ctx context.Context, opts metav1.ListOptions,
	yield func(metav1.Object, error) error) (metav1.ListMeta, error) {
	return s.src.List(lent(ctx), opts, func(p *lw.Packed[metav1.Object], err error) error {
		if p == nil {
			return yield(nil, err)
		}
		return yield(cell{p}, err)
	})
}

func (s *packedSource) Watch(ctx context.Context, opts metav1.ListOptions,
	yield func(lw.WatchEvent[metav1.Object]) error) error {
	return s.src.Watch(lent(ctx), opts, func(ev lw.WatchEvent[*lw.Packed[metav1.Object]]) error {
		out := lw.WatchEvent[metav1.Object]{
			Type: ev.Type, ResourceVersion: ev.ResourceVersion, InitialEventsEnd: ev.InitialEventsEnd,
			More: ev.More, Open: ev.Open, Filtered: ev.Filtered, Err: ev.Err, Identity: ev.Identity,
		}
		if ev.Object != nil {
			out.Object = cell{ev.Object}
		}
		return yield(out)
	})
}

// Told is part of lw.Teller.
func (s *packedSource) Told(obj lw.Identified) (metav1.Object, bool, error) {
	p, stays, err := s.src.(lw.Teller[*lw.Packed[metav1.Object]]).Told(obj)
	if p == nil {
		return nil, stays, err
	}
	return cell{p}, stays, err
}

// GetObjectKind is part of runtime.Object, as DeepCopyObject is, for PackedReads.
func (c cell) GetObjectKind() schema.ObjectKind { return c.Open().(runtime.Object).GetObjectKind() }

// DeepCopyObject returns a copy of the object. It is decoded if nobody has one.
func (c cell) DeepCopyObject() runtime.Object {
	if obj, ok := c.Peek(); ok {
		return obj.(runtime.Object).DeepCopyObject()
	}
	if !c.Kept() {
		return c.latest().(runtime.Object).DeepCopyObject()
	}
	return c.Copy().(runtime.Object)
}

// The methods below make a cell a metav1.Object. Those that read open it; nothing is ever set.

func (c cell) GetGenerateName() string                     { return c.Open().GetGenerateName() }
func (c cell) GetGeneration() int64                        { return c.Open().GetGeneration() }
func (c cell) GetSelfLink() string                         { return c.Open().GetSelfLink() }
func (c cell) GetCreationTimestamp() metav1.Time           { return c.Open().GetCreationTimestamp() }
func (c cell) GetDeletionTimestamp() *metav1.Time          { return c.Open().GetDeletionTimestamp() }
func (c cell) GetDeletionGracePeriodSeconds() *int64       { return c.Open().GetDeletionGracePeriodSeconds() }
func (c cell) GetAnnotations() map[string]string           { return c.Open().GetAnnotations() }
func (c cell) GetFinalizers() []string                     { return c.Open().GetFinalizers() }
func (c cell) GetOwnerReferences() []metav1.OwnerReference { return c.Open().GetOwnerReferences() }
func (c cell) GetManagedFields() []metav1.ManagedFieldsEntry {
	return c.Open().GetManagedFields()
}

const immutable = "clientgo: a packed object cannot be changed"

func (cell) SetNamespace(string)                          { panic(immutable) }
func (cell) SetName(string)                               { panic(immutable) }
func (cell) SetGenerateName(string)                       { panic(immutable) }
func (cell) SetUID(types.UID)                             { panic(immutable) }
func (cell) SetResourceVersion(string)                    { panic(immutable) }
func (cell) SetGeneration(int64)                          { panic(immutable) }
func (cell) SetSelfLink(string)                           { panic(immutable) }
func (cell) SetCreationTimestamp(metav1.Time)             { panic(immutable) }
func (cell) SetDeletionTimestamp(*metav1.Time)            { panic(immutable) }
func (cell) SetDeletionGracePeriodSeconds(*int64)         { panic(immutable) }
func (cell) SetLabels(map[string]string)                  { panic(immutable) }
func (cell) SetAnnotations(map[string]string)             { panic(immutable) }
func (cell) SetFinalizers([]string)                       { panic(immutable) }
func (cell) SetOwnerReferences([]metav1.OwnerReference)   { panic(immutable) }
func (cell) SetManagedFields([]metav1.ManagedFieldsEntry) { panic(immutable) }
