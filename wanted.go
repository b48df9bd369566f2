package lw

import (
	"context"
	"errors"
	"fmt"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/watch"

	"github.com/go-lw/lw/internal/demand"
	"github.com/go-lw/lw/internal/request"
)

// A WantedSet is a [*KeySet] or a [*NamespaceSet].
type WantedSet interface{ wanted() *demand.Set }

// Wanted returns a Source of those objects of src that are in set, for an [Informer]. One watch
// follows all of src, and an [HTTP] passes over the others in the bytes: they cost no memory. What
// becomes wanted is read at once, by a list of it alone, and handlers get it as Added, with
// [CauseWanted]. What nobody wants any more is Deleted. A program that may read only some objects
// by their names cannot watch all of them: for that there is [ByName].
//
// An object is shown when it has been read since it is wanted; [Informer.WaitForKey] waits for
// that. Up to 16 reads are under way at a time. For more than 500, or a twentieth of the
// collection, there is one list.
//
// Only an Informer of the Source, or of its [Transform], [Shard] or [WithListOptions], can follow
// it, one at a time. src must be a [Teller], and have versions that are decimal numbers. Otherwise
// Run fails with errors.ErrUnsupported. It cannot be followed ([Follow], package serve). Wanted
// panics if src or set is nil.
func Wanted[T Object](src Source[T], set WantedSet) Source[T] {
	if isNil(src) || isNil(set) {
		panic("lw: Wanted: nil source or set")
	}
	return &wantedSource[T]{src: src, demand: demand.New(set.wanted())}
}

// A wantedSource is the Source of Wanted. The informer does the rest; see demand.go.
type wantedSource[T Identified] struct {
	src    Source[T]
	demand *demand.Demand
}

// Hints returns those of the source, and that objects may be left out.
func (s *wantedSource[T]) Hints() SourceHints {
	h := HintsOf(s.src)
	h.Partial = true
	return h
}

// Reuses is part of [request.Source].
func (s *wantedSource[T]) Reuses(request.Mark) bool { return reuses(s.src) }

func (s *wantedSource[T]) tells() bool { return tellerOf(s.src) != nil }

func (s *wantedSource[T]) demands() *demand.Demand { return s.demand }

// Told is part of [Teller]. The hub refuses what nobody wants.
func (s *wantedSource[T]) Told(obj Identified) (out T, stays bool, err error) {
	return told(s.src, obj)
}

// followed returns an error unless the request is of the informer that follows the set.
func (s *wantedSource[T]) followed(ctx context.Context) error {
	why := ""
	switch {
	case !s.demand.Followed(ctx):
		why = "only one Informer at a time can follow it, and neither a Reflector nor a Source that hides it"
	case !s.tells():
		why = "the source is no Teller"
	case HintsOf(s.src).Unversioned:
		why = "the source has no versions"
	default:
		return nil
	}
	return permanent(fmt.Errorf("lw: Wanted: %s: %w", why, errors.ErrUnsupported))
}

func (s *wantedSource[T]) List(ctx context.Context, opts metav1.ListOptions, yield func(T, error) error) (metav1.ListMeta, error) {
	if request.IsProbe(ctx) {
		return s.src.List(ctx, opts, yield)
	}
	part, leftOut := request.PartOf(ctx), request.LeftOut(ctx)
	wanted, seen := part, func() {}
	if part == nil {
		if err := s.followed(ctx); err != nil {
			return metav1.ListMeta{}, err
		}
		if opts.Continue == "" {
			s.demand.BeginList()
		}
		wanted, seen = s.demand.Passes, s.demand.Seen
	}
	pass := func() {
		seen()
		leftOut()
	}
	ctx = request.WithLeftOut(request.WithWanted(ctx, wanted), pass)
	return s.src.List(ctx, opts, func(obj T, err error) error {
		var key Key
		if err != nil {
			key = keyOfError(err)
		} else if usable(obj) {
			key = KeyOf(obj)
		}
		if key.Name != "" && !wanted(key.Namespace, key.Name) {
			pass()
			return nil
		}
		seen()
		return yield(obj, err)
	})
}

func (s *wantedSource[T]) Watch(ctx context.Context, opts metav1.ListOptions, yield func(WatchEvent[T]) error) error {
	if err := s.followed(ctx); err != nil {
		return err
	}
	initial := opts.SendInitialEvents != nil && *opts.SendInitialEvents
	if initial {
		s.demand.BeginList()
	}
	return s.src.Watch(request.WithWanted(ctx, s.demand.Passes), opts, func(ev WatchEvent[T]) error {
		if key := ev.Key(); ev.Type != watch.Bookmark && key.Name != "" && !s.demand.Passes(key.Namespace, key.Name) {
			ev = WatchEvent[T]{Type: watch.Bookmark, ResourceVersion: ev.ResourceVersion, More: ev.More, Open: ev.Open, Filtered: true}
		}
		if initial && (ev.Filtered || ev.Type == watch.Added) {
			s.demand.Seen()
		}
		initial = initial && !ev.InitialEventsEnd
		return yield(ev)
	})
}
