package lw

import (
	"context"
	"errors"
	"fmt"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/watch"

	"github.com/go-lw/lw/internal/equal"
	"github.com/go-lw/lw/internal/reuse"
	"github.com/go-lw/lw/internal/shard"
)

// Shard returns a Source of one of n parts of src, number i from 0 on. With it each of n replicas
// of a program has about one n-th of the collection:
//
//	lw.Shard(pods, ordinal, replicas)
//
// The parts have no object in common, and together they have all objects. An object belongs to the
// part in whose range the hash of its UID is, so it never changes its part. The ranges are n equal
// intervals of 64-bit FNV-1a hashes. All replicas must use the same n: while some of them have
// another one, an object may be in two parts or in none.
//
// Each request has the part as its shard selector (https://kep.k8s.io/5866). A server that selects
// by it sends only the objects of the part. Other servers ignore it, as does Kubernetes without the
// feature gate ShardedListAndWatch: they send everything, and the Source drops what belongs to
// other parts. It applies the range to all that comes, whatever the server says, so that a server
// may also change its mind between two requests. To learn what the server does, list once:
// ListMeta.ShardInfo has the selector that the server has applied.
//
// An object without a UID belongs to no part. It is an [Error], and is set aside. So a [Transform]
// that drops UIDs goes around a Shard, and not into it. An object that cannot be decoded is set
// aside in its own part, or in all parts if its UID is unknown.
//
// If n is 1, Shard returns src. Shard panics if src is nil, and unless 0 <= i < n.
func Shard[T Object](src Source[T], i, n int) Source[T] {
	if isNil(src) {
		panic("lw: Shard: nil source")
	}
	if i < 0 || i >= n {
		panic(fmt.Sprintf("lw: Shard: number %d of %d", i, n))
	}
	if n == 1 {
		return src
	}
	part := shard.Part(i, n)
	selector := shard.Selector{Field: shard.UID, Ranges: []shard.Range{part}}
	return &sharded[T]{src: src, part: part, selector: selector.String()}
}

// sharded is the Source of Shard.
//
// It always selects by itself, because it cannot always know whether the server does: a streamed
// list and a watch echo no selector, and the next request may reach another server.
type sharded[T Identified] struct {
	src      Source[T]
	part     shard.Range
	selector string // of part
}

// Hints returns those of the source, and that objects may be left out.
func (s *sharded[T]) Hints() SourceHints {
	h := HintsOf(s.src)
	h.Partial = true
	return h
}

// Reuses is part of [reuse.Source].
func (s *sharded[T]) Reuses(reuse.Mark) bool { return reuses(s.src) }

// Had is part of [Witness].
func (s *sharded[T]) Had(ctx context.Context, obj Meta, version string) (bool, error) {
	return Had(ctx, s.src, obj, version)
}

// check returns whether obj certainly belongs to another part; if err is not nil, whether the
// object that err is about does. The error is err, or that of an obj without a UID.
func (s *sharded[T]) check(obj T, err error) (foreign bool, _ error) {
	var uid types.UID
	switch {
	case err != nil:
		// An Error without a key could not become an event.
		e, ok := errors.AsType[*Error](err)
		if !ok || e.UID == "" || e.Key.Name == "" {
			return false, err
		}
		uid = e.UID
	case equal.IsZero(obj):
		return false, nil // the reflector reports it
	default:
		if uid = obj.GetUID(); uid == "" {
			return false, &Error{Op: opShard, Key: KeyOf(obj), Err: errNoUID}
		}
	}
	return !s.part.Contains(shard.Hash(string(uid))), err
}

var errNoUID = errors.New("the object has no UID, by which Shard divides")

func (s *sharded[T]) List(ctx context.Context, opts metav1.ListOptions, yield func(T, error) error) (metav1.ListMeta, error) {
	opts.ShardSelector = s.selector
	leftOut := leftOutOf(ctx)
	return s.src.List(ctx, opts, func(obj T, err error) error {
		foreign, err := s.check(obj, err)
		switch {
		case foreign:
			leftOut()
			return nil
		case err != nil:
			var zero T
			return yield(zero, err)
		}
		return yield(obj, nil)
	})
}

func (s *sharded[T]) Watch(ctx context.Context, opts metav1.ListOptions, yield func(WatchEvent[T]) error) error {
	opts.ShardSelector = s.selector
	return s.src.Watch(ctx, opts, func(ev WatchEvent[T]) error {
		s.narrow(&ev)
		return yield(ev)
	})
}

// narrow turns an event of another part's object into a Deleted of its key. The event is still
// needed: it moves the resource version, and an object of this part that had the key before is
// gone. That is also why a Deleted stays as it is, whichever part its object belongs to.
func (s *sharded[T]) narrow(ev *WatchEvent[T]) {
	if ev.Type != watch.Added && ev.Type != watch.Modified {
		return
	}
	var zero T
	foreign, err := s.check(ev.Object, ev.Err)
	if err != nil {
		ev.Object, ev.Err = zero, err
	}
	if !foreign {
		return
	}
	if e, ok := errors.AsType[*Error](err); ok {
		ev.Identity = &Meta{Namespace: e.Key.Namespace, Name: e.Key.Name, UID: e.UID, ResourceVersion: ev.ResourceVersion}
	} else {
		id := MetaOf(ev.Object)
		ev.Identity = &id
	}
	ev.Omitted = ev.Type == watch.Added
	ev.Type, ev.Object, ev.Err = watch.Deleted, zero, nil
}
