package serve

import (
	"context"
	"fmt"

	apierrors "k8s.io/apimachinery/pkg/api/errors"

	"github.com/go-lw/lw"
)

// Converted returns a store as one of another version of its objects. It is served by [ServeStore]
// beside the store itself, or instead of it, as a Resource of the same Group, Name and Kind and
// another Version. Objects are stored as T, and their versions are those of the store.
//
// from and to keep namespace, name, UID and resource version, and do not change what they are
// given. What the other version cannot say must be kept elsewhere, such as in an annotation, or a
// write of that version loses it. An error of from or to is one of the request, and so is a panic;
// an object that from refuses is missing in lists, which fail meanwhile.
//
// A field manager owns fields by the names that they have in the version it has written. Between
// two versions conflicts are found only where a field is called the same in both.
func Converted[V, T lw.Object](store lw.Writable[T], from func(T) (V, error), to func(V) (T, error)) lw.Writable[V] {
	safely := func(obj T) (out V, err error) {
		defer recovered(&err)
		return from(obj)
	}
	return &converted[V, T]{lw.Transform(lw.Source[T](store), safely), store, safely, to}
}

type converted[V, T lw.Object] struct {
	lw.Source[V]
	store lw.Writable[T]
	from  func(T) (V, error)
	to    func(V) (T, error)
}

// A wrapped store has another one behind it.
type wrapped interface{ behind() any }

func (c *converted[V, T]) behind() any { return c.store }

// behind returns the store that has the objects.
func behind(store any) any {
	for {
		w, ok := store.(wrapped)
		if !ok {
			return store
		}
		store = w.behind()
	}
}

// convert returns an object in another version, which is the same one.
func convert[A, B lw.Object](obj A, to func(A) (B, error)) (out B, err error) {
	defer func() {
		if err != nil && !isStatus(err) {
			err = apierrors.NewInternalError(fmt.Errorf("serve: Converted: %s: %w", lw.KeyOf(obj), err))
		}
	}()
	defer recovered(&err)
	if out, err = to(obj); err != nil {
		return out, err
	}
	if was, is := lw.MetaOf(obj), lw.MetaOf(out); was != is {
		err = fmt.Errorf("%v has become %v", was, is)
	}
	return out, err
}

// Get is part of [lw.Writable], as are the others.
func (c *converted[V, T]) Get(ctx context.Context, key lw.Key) (V, error) {
	obj, err := c.store.Get(ctx, key)
	return c.answer(obj, err)
}

func (c *converted[V, T]) answer(obj T, err error) (V, error) {
	if err != nil {
		var none V
		return none, err
	}
	return convert(obj, c.from)
}

func (c *converted[V, T]) write(ctx context.Context, obj V, write func(context.Context, T) (T, error)) (V, error) {
	stored, err := convert(obj, c.to)
	if err == nil {
		stored, err = write(ctx, stored)
	}
	return c.answer(stored, err)
}

func (c *converted[V, T]) Create(ctx context.Context, obj V) (V, error) {
	return c.write(ctx, obj, c.store.Create)
}

func (c *converted[V, T]) Update(ctx context.Context, obj V) (V, error) {
	return c.write(ctx, obj, c.store.Update)
}

func (c *converted[V, T]) Delete(ctx context.Context, key lw.Key, resourceVersion string) (string, error) {
	return c.store.Delete(ctx, key, resourceVersion)
}
