package lw

import (
	"context"
	"errors"
	"sync"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/watch"
)

// Transform returns a Source of f(obj): strip fields in place, or project to a smaller type. The zero U (nil) leaves obj out of
// the collection, an error sets it aside as an object that cannot be decoded.
//
// f runs exactly once per version of an object that is added or modified, before anything else sees it, in the goroutine that
// reads from the server. It may change and return obj, which nobody else holds. It is not called for a deletion: handlers are
// told the last object they know. f may change the name, to what follows from the old one alone; it should keep the UID, and
// the resource version unless memory counts more than cheap relists, which compare it.
func Transform[T, U Object](src Source[T], f func(T) (U, error)) Source[U] {
	if isNil(src) {
		panic("lw: Transform: nil source")
	}
	if f == nil {
		panic("lw: Transform: nil function")
	}
	return &transformed[T, U]{src: src, f: f}
}

type transformed[T, U Object] struct {
	src Source[T]
	f   func(T) (U, error)

	mu      sync.Mutex
	renamed map[Key]Key // keys of T whose U has another one, so that a deletion finds it; guarded by mu, as all below
	listing map[Key]Key // what renamed is going to be when the list that is read has ended; nil: none is
}

// Hints are those of the source, and that objects may be left out.
func (t *transformed[T, U]) Hints() SourceHints {
	h := HintsOf(t.src)
	h.Partial = true
	return h
}

// apply returns f(obj) and whether it stays in the collection.
func (t *transformed[T, U]) apply(obj T) (out U, stays bool, err error) {
	// f may change obj, so its key is taken before.
	key := KeyOf(obj)
	var zero U
	if out, err = t.f(obj); err != nil {
		return zero, false, t.aside(&Error{Op: "transform", Key: key, Err: err})
	}
	if out == zero {
		return zero, false, nil
	}
	if out.GetName() == "" {
		return zero, false, t.aside(&Error{Op: "transform", Key: key, Err: errors.New("the result has no name")})
	}
	t.rename(key, KeyOf(out))
	return out, true, nil
}

func (t *transformed[T, U]) rename(from, to Key) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if from == to {
		delete(t.renamed, from) // a no-op on the nil map that nearly every transform has
		delete(t.listing, from)
		return
	}
	if t.renamed == nil {
		t.renamed = map[Key]Key{}
	}
	t.renamed[from] = to
	if t.listing != nil {
		t.listing[from] = to
	}
}

// lists begins a list: what it does not have is gone without a deletion, and its other key can be forgotten at the end.
func (t *transformed[T, U]) lists() {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.listing = map[Key]Key{}
}

// aside returns err, which is of an object that stays in the collection as it was, with the key that it is known by there.
func (t *transformed[T, U]) aside(err error) error {
	t.mu.Lock()
	defer t.mu.Unlock()
	from := keyOfError(err)
	to, ok := t.renamed[from]
	if !ok {
		return err
	}
	if t.listing != nil {
		t.listing[from] = to
	}
	e, _ := errors.AsType[*Error](err)
	known := *e
	known.Key = to
	return &known
}

// listed ends a list.
func (t *transformed[T, U]) listed() {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.listing != nil {
		t.renamed, t.listing = t.listing, nil
	}
}

// keyOf is the key under which the object of the source's key is known behind f.
func (t *transformed[T, U]) keyOf(key Key) Key {
	t.mu.Lock()
	defer t.mu.Unlock()
	if to, ok := t.renamed[key]; ok {
		return to
	}
	return key
}

func (t *transformed[T, U]) List(ctx context.Context, opts metav1.ListOptions, yield func(U, error) error) (metav1.ListMeta, error) {
	var zero U
	if opts.Continue == "" {
		t.lists()
	}
	omitted := omittedIn(ctx)
	meta, err := t.src.List(ctx, opts, func(obj T, err error) error {
		if err != nil {
			return yield(zero, t.aside(err))
		}
		out, stays, err := t.apply(obj)
		if err != nil {
			return yield(zero, err)
		}
		if !stays {
			omitted()
			return nil
		}
		return yield(out, nil)
	})
	if err == nil && meta.Continue == "" {
		t.listed()
	}
	return meta, err
}

func (t *transformed[T, U]) Watch(ctx context.Context, opts metav1.ListOptions, yield func(WatchEvent[U]) error) error {
	initial := opts.SendInitialEvents != nil && *opts.SendInitialEvents
	if initial {
		t.lists()
	}
	return t.src.Watch(ctx, opts, func(ev WatchEvent[T]) error {
		out := WatchEvent[U]{Type: ev.Type, ResourceVersion: ev.ResourceVersion, InitialEventsEnd: ev.InitialEventsEnd, Err: ev.Err, More: ev.More, Omitted: ev.Omitted}
		var zero T
		switch {
		case ev.Err != nil:
			out.Err = t.aside(ev.Err)
		case ev.Type == watch.Bookmark:
			if initial && ev.InitialEventsEnd {
				t.listed()
			}
		case ev.Object == zero || ev.Type == watch.Deleted:
			out.Identity = t.gone(ev.id())
		default:
			id := MetaOf(ev.Object)
			obj, stays, err := t.apply(ev.Object)
			switch {
			case err != nil:
				out.Err = err
			case stays:
				out.Object = obj
			default:
				// Left out: to those behind f it is deleted, if they ever knew it.
				out.Type, out.Identity, out.Omitted = watch.Deleted, t.gone(id), ev.Type == watch.Added
			}
		}
		return yield(out)
	})
}

// gone is the identity of a deleted object, of which id is that before f, as it is known behind f.
func (t *transformed[T, U]) gone(id Meta) *Meta {
	from := id.Key()
	to := t.keyOf(from)
	t.rename(from, from)
	id.Namespace, id.Name = to.Namespace, to.Name
	return &id
}
