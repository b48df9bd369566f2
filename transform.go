package lw

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"sync/atomic"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/selection"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/watch"

	"github.com/go-lw/lw/internal/demand"
	"github.com/go-lw/lw/internal/equal"
	"github.com/go-lw/lw/internal/listopts/shard"
	"github.com/go-lw/lw/internal/request"
	"github.com/go-lw/lw/internal/rest"
)

// Transform returns a [Source] of f(obj): f may strip fields in place, or project to a smaller
// type. If f returns the zero U (nil), the object is left out of the collection. If f returns
// [ErrKeep], the object stays as it was, or away. If f returns another error, the object is set
// aside like one that cannot be decoded. f sees what its result drops, such as an annotation that
// says when the object was written.
//
// f runs exactly once per version of an object that is added or modified, and not for a deletion,
// in the goroutine that reads from the server; and once for each [Informer.Tell], in its goroutine.
// It may change obj, which nobody else has unless HTTP.Share is set, and return it. It must keep
// namespace and name (see [Derive] for other names), and should keep the UID, and the resource
// version, with which relists are cheap.
func Transform[T, U Object](src Source[T], f func(T) (U, error)) Source[U] {
	if isNil(src) {
		panic("lw: Transform: nil source")
	}
	if f == nil {
		panic("lw: Transform: nil function")
	}
	return &transformSource[T, U]{src: src, f: f}
}

// A transformSource is the Source of Transform. Below, "downstream" is whatever reads this Source.
type transformSource[T, U Identified] struct {
	src Source[T]
	f   func(T) (U, error)

	// f has made an object with another resource version than it was called with, or with another
	// UID.
	ownVersions, ownUIDs atomic.Bool

	mu sync.Mutex
	// kept has the keys in src of the objects of which downstream has an older version, and
	// keptListing those of the list that is being read. Guarded by mu.
	kept, keptListing map[Key]struct{}
}

// Hints returns those of the source, and that objects may be left out.
func (t *transformSource[T, U]) Hints() SourceHints {
	h := HintsOf(t.src)
	h.Partial = true
	had := h.StillHas
	if had == nil || t.ownVersions.Load() {
		h.StillHas = nil
		return h
	}
	h.StillHas = func(ctx context.Context, obj Meta, version string) (bool, error) {
		if t.ownUIDs.Load() {
			obj.UID = ""
		}
		if key := obj.key(); t.isKept(key) {
			return false, fmt.Errorf("lw: Transform: the version of %s is older than the server's: %w", keyString(key), errors.ErrUnsupported)
		}
		return had(ctx, obj, version)
	}
	return h
}

func (t *transformSource[T, U]) demands() *demand.Demand { return demandOf(t.src) }

func (t *transformSource[T, U]) tells() bool { return tellerOf(t.src) != nil }

// Told is part of [Teller].
func (t *transformSource[T, U]) Told(obj Identified) (out U, stays bool, err error) {
	own, stays, err := told(t.src, obj)
	if err != nil || !stays {
		return out, false, err
	}
	return t.apply(own, false)
}

// apply returns f(obj). stays is false if f leaves the object out of the collection. read says that
// the source has yielded obj. err is an *Error.
func (t *transformSource[T, U]) apply(obj T, read bool) (out U, stays bool, err error) {
	key, uid, version := KeyOf(obj), obj.GetUID(), obj.GetResourceVersion() // before f, which may change obj
	var zero U
	if out, err = t.f(obj); err != nil {
		if isKeep(err) {
			if read {
				t.keep(key)
			}
			if t.ownUIDs.Load() {
				uid = "" // which downstream knows by another one
			}
		}
		return zero, false, &Error{Op: opTransform, Key: key, UID: uid, Err: err}
	}
	if equal.IsZero(out) {
		return zero, false, nil
	}
	if to := KeyOf(out); to != key {
		err = fmt.Errorf("the result has the name %q, and a Transform keeps namespace and name", keyString(to))
		return zero, false, &Error{Op: opTransform, Key: key, UID: uid, Err: err}
	}
	if read {
		t.forget(key)
	}
	if out.GetResourceVersion() != version {
		t.ownVersions.Store(true)
	}
	if out.GetUID() != uid {
		t.ownUIDs.Store(true)
	}
	return out, true, nil
}

// keep notes that downstream keeps an older version of the object of key, until forget is called.
func (t *transformSource[T, U]) keep(key Key) {
	t.mu.Lock()
	defer t.mu.Unlock()
	for _, kept := range []*map[Key]struct{}{&t.kept, &t.keptListing} {
		if *kept == nil {
			*kept = map[Key]struct{}{}
		}
		(*kept)[key] = struct{}{}
	}
}

func (t *transformSource[T, U]) isKept(key Key) bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	_, ok := t.kept[key]
	return ok
}

func (t *transformSource[T, U]) forget(key Key) {
	t.mu.Lock()
	defer t.mu.Unlock()
	delete(t.kept, key)
	delete(t.keptListing, key)
}

// beginList is called before a list, and endList at the end of a whole one: after its last page, or
// at the bookmark that ends the initial events of a stream. What the list does not have is gone.
func (t *transformSource[T, U]) beginList() {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.keptListing = nil
}

func (t *transformSource[T, U]) endList() {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.kept, t.keptListing = t.keptListing, nil
}

func (t *transformSource[T, U]) List(ctx context.Context, opts metav1.ListOptions, yield func(U, error) error) (metav1.ListMeta, error) {
	var zero U
	leftOut := request.LeftOut(ctx)
	if request.IsProbe(ctx) {
		// It may have one object of many, or have none of those that downstream has.
		return t.src.List(ctx, opts, func(T, error) error {
			leftOut()
			return nil
		})
	}
	whole := request.PartOf(ctx) == nil
	if opts.Continue == "" && whole {
		t.beginList()
	}
	meta, err := t.src.List(ctx, opts, func(obj T, err error) error {
		if err != nil {
			return yield(zero, err)
		}
		out, stays, err := t.apply(obj, true)
		if err != nil {
			return yield(zero, err)
		}
		if !stays {
			leftOut()
			return nil
		}
		return yield(out, nil)
	})
	if err == nil && meta.Continue == "" && whole {
		t.endList()
	}
	return meta, err
}

func (t *transformSource[T, U]) Watch(ctx context.Context, opts metav1.ListOptions, yield func(WatchEvent[U]) error) error {
	initial := opts.SendInitialEvents != nil && *opts.SendInitialEvents
	if initial {
		t.beginList()
	}
	return t.src.Watch(ctx, opts, func(ev WatchEvent[T]) error {
		out := WatchEvent[U]{
			Type:             ev.Type,
			ResourceVersion:  ev.ResourceVersion,
			InitialEventsEnd: ev.InitialEventsEnd,
			More:             ev.More,
			Open:             ev.Open,
			Filtered:         ev.Filtered,
		}
		switch {
		case ev.Err != nil:
			out.Err = ev.Err
		case ev.Type == watch.Bookmark:
			if initial && ev.InitialEventsEnd {
				t.endList()
			}
		case equal.IsZero(ev.Object) || ev.Type == watch.Deleted:
			id := ev.id()
			t.forget(id.key())
			out.Identity = &id
		default:
			id := MetaOf(ev.Object)
			obj, stays, err := t.apply(ev.Object, true)
			switch {
			case err != nil:
				out.Err = err
			case stays:
				out.Object = obj
			default:
				// Left out: downstream it is deleted, if it was ever there.
				t.forget(id.key())
				out.Type, out.Identity, out.Filtered = watch.Deleted, &id, ev.Type == watch.Added
			}
		}
		return yield(out)
	})
}

// Shard returns a Source of one of n parts of src, number i from 0 on, as for n replicas of a
// program: lw.Shard(pods, ordinal, replicas).
//
// The hash of an object's UID says to which part it belongs, for ever; all replicas must use the
// same n. A server with shard selectors (https://kep.k8s.io/5866) sends only the objects of the
// part. An object without a UID is set aside as an [Error], so a [Transform] that drops UIDs goes
// around a Shard, and not into it. Shard panics if src is nil, and unless 0 <= i < n.
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
	selector := &shard.Selector{Field: shard.UID, Ranges: []shard.Range{shard.Part(i, n)}}
	return &shardSource[T]{src, shardPart[T]{selector}}
}

// A shardSource is the Source of Shard.
type shardSource[T Identified] struct {
	src  Source[T]
	part shardPart[T]
}

// Hints returns those of the source, and that objects may be left out.
func (s *shardSource[T]) Hints() SourceHints {
	h := HintsOf(s.src)
	h.Partial = true
	return h
}

// Reuses is part of [request.Source].
func (s *shardSource[T]) Reuses(request.Mark) bool { return reuses(s.src) }

func (s *shardSource[T]) demands() *demand.Demand { return demandOf(s.src) }

func (s *shardSource[T]) tells() bool { return tellerOf(s.src) != nil }

// Told is part of [Teller].
func (s *shardSource[T]) Told(obj Identified) (out T, stays bool, err error) {
	if out, stays, err = told(s.src, obj); err == nil && stays {
		var foreign bool
		foreign, err = s.part.check(out, nil)
		stays = !foreign
	}
	return out, stays, err
}

func (s *shardSource[T]) List(ctx context.Context, opts metav1.ListOptions, yield func(T, error) error) (metav1.ListMeta, error) {
	opts.ShardSelector = s.part.String()
	return s.src.List(ctx, opts, s.part.listed(ctx, yield))
}

func (s *shardSource[T]) Watch(ctx context.Context, opts metav1.ListOptions, yield func(WatchEvent[T]) error) error {
	opts.ShardSelector = s.part.String()
	return s.src.Watch(ctx, opts, s.part.watched(yield))
}

// A shardPart is what a shard selector selects. Without one it is everything.
//
// It always selects by itself, because it cannot always know whether the server does: a streamed
// list and a watch echo no selector, and the next request may reach another server.
type shardPart[T Identified] struct{ *shard.Selector }

// parseShard returns nil for "". Its error names the selector, and is an [ErrPermanent].
func parseShard(text string) (*shard.Selector, error) {
	if text == "" {
		return nil, nil
	}
	selector, err := shard.Parse(text)
	if err != nil {
		return nil, permanent(fmt.Errorf("shard selector %q: %w", text, err))
	}
	return selector, nil
}

// check returns whether obj certainly belongs to another part; if err is not nil, whether the
// object that err is about does. The error is err, or that of an obj without a UID.
func (p shardPart[T]) check(obj T, err error) (foreign bool, _ error) {
	var uid types.UID
	var namespace string
	switch {
	case err != nil:
		// An Error without a key could not become an event.
		e, ok := errors.AsType[*Error](err)
		if !ok || e.Key.Name == "" || e.UID == "" && p.Field == shard.UID {
			return false, err
		}
		uid, namespace = e.UID, e.Key.Namespace
	case equal.IsZero(obj):
		return false, nil // the reflector reports it
	default:
		if uid, namespace = obj.GetUID(), obj.GetNamespace(); uid == "" && p.Field == shard.UID {
			return false, &Error{Op: opShard, Key: KeyOf(obj), Err: errNoUID}
		}
	}
	return !p.Matches(string(uid), namespace), err
}

var errNoUID = errors.New("the object has no UID, by which Shard divides")

// listed returns a yield of a List that leaves out what belongs to another part.
func (p shardPart[T]) listed(ctx context.Context, yield func(T, error) error) func(T, error) error {
	if p.Selector == nil {
		return yield
	}
	leftOut := request.LeftOut(ctx)
	return func(obj T, err error) error {
		foreign, err := p.check(obj, err)
		switch {
		case foreign:
			leftOut()
			return nil
		case err != nil:
			var zero T
			return yield(zero, err)
		}
		return yield(obj, nil)
	}
}

// watched returns a yield of a Watch that narrows each event to the part.
func (p shardPart[T]) watched(yield func(WatchEvent[T]) error) func(WatchEvent[T]) error {
	if p.Selector == nil {
		return yield
	}
	return func(ev WatchEvent[T]) error {
		p.narrow(&ev)
		return yield(ev)
	}
}

// narrow turns an event of another part's object into a Deleted of its key. The event is still
// needed: it moves the resource version, and an object of this part that had the key before is
// gone. That is also why a Deleted stays as it is, whichever part its object belongs to.
func (p shardPart[T]) narrow(ev *WatchEvent[T]) {
	if ev.Type != watch.Added && ev.Type != watch.Modified {
		return
	}
	var zero T
	foreign, err := p.check(ev.Object, ev.Err)
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
	ev.Filtered = ev.Type == watch.Added
	ev.Type, ev.Object, ev.Err = watch.Deleted, zero, nil
}

// WithListOptions returns a [Source] that passes the options of every request to each tweak. What
// other options select, around it or within src, still holds: selectors are joined. A selector that
// does not parse is an [ErrPermanent]. The ShardSelector of a tweak, as [Shard] writes one, holds
// whether or not the server knows such selectors.
func WithListOptions[T Object](src Source[T], tweak ...func(*metav1.ListOptions)) Source[T] {
	if isNil(src) {
		panic("lw: WithListOptions: nil source")
	}
	mustBeFuncs("WithListOptions", tweak)
	return &optionSource[T]{src, tweak}
}

// An optionSource is the Source of WithListOptions.
type optionSource[T Identified] struct {
	src   Source[T]
	tweak []func(*metav1.ListOptions)
}

// Hints returns those of the source, and that a shard selector may leave out objects. StillHas
// passes no options: what an object was does not depend on what is selected.
func (o *optionSource[T]) Hints() SourceHints {
	h := HintsOf(o.src)
	opts, _ := tweaked(metav1.ListOptions{}, o.tweak)
	h.Partial = h.Partial || opts.ShardSelector != ""
	return h
}

// Reuses is part of [request.Source].
func (o *optionSource[T]) Reuses(request.Mark) bool { return reuses(o.src) }

func (o *optionSource[T]) demands() *demand.Demand { return demandOf(o.src) }

func (o *optionSource[T]) tells() bool { return tellerOf(o.src) != nil }

// Told is part of [Teller]. What is selected by a field other than the name and the namespace is
// not known.
func (o *optionSource[T]) Told(obj Identified) (out T, stays bool, err error) {
	opts, err := tweaked(metav1.ListOptions{}, o.tweak)
	if err == nil {
		stays, err = selects(opts, obj)
	}
	if err != nil || !stays {
		return out, false, err
	}
	return told(o.src, obj)
}

// told is Told of src, if that is a Teller.
func told[T Identified](src Source[T], obj Identified) (out T, stays bool, err error) {
	if to := tellerOf(src); to != nil {
		return to.Told(obj)
	}
	return out, false, fmt.Errorf("lw: the source is no Teller: %w", errors.ErrUnsupported)
}

// selects reports whether the selectors of opts, as far as they are about labels, name, namespace
// and shard, select obj.
func selects(opts metav1.ListOptions, obj Identified) (bool, error) {
	if opts.LabelSelector != "" {
		of, ok := obj.(labeled)
		if !ok {
			return false, fmt.Errorf("label selector %q: %T has no GetLabels: %w", opts.LabelSelector, obj, errors.ErrUnsupported)
		}
		sel, err := labels.Parse(opts.LabelSelector)
		if err != nil || !sel.Matches(labels.Set(of.GetLabels())) {
			return false, err
		}
	}
	if part, err := parseShard(opts.ShardSelector); err != nil || part != nil && !part.Matches(string(obj.GetUID()), obj.GetNamespace()) {
		return false, err
	}
	if opts.FieldSelector == "" {
		return true, nil
	}
	sel, err := fields.ParseSelector(opts.FieldSelector)
	if err != nil {
		return false, err
	}
	for _, r := range sel.Requirements() {
		var has string
		switch r.Field {
		case "metadata.name":
			has = obj.GetName()
		case "metadata.namespace":
			has = obj.GetNamespace()
		default:
			continue
		}
		if (has == r.Value) == (r.Operator == selection.NotEquals) {
			return false, nil
		}
	}
	return true, nil
}

func (o *optionSource[T]) List(ctx context.Context, opts metav1.ListOptions, yield func(T, error) error) (metav1.ListMeta, error) {
	opts, part, err := narrowed[T](opts, o.tweak)
	if err != nil {
		return metav1.ListMeta{}, fmt.Errorf("lw: WithListOptions: %w", err)
	}
	return o.src.List(ctx, opts, part.listed(ctx, yield))
}

func (o *optionSource[T]) Watch(ctx context.Context, opts metav1.ListOptions, yield func(WatchEvent[T]) error) error {
	opts, part, err := narrowed[T](opts, o.tweak)
	if err != nil {
		return fmt.Errorf("lw: WithListOptions: %w", err)
	}
	return o.src.Watch(ctx, opts, part.watched(yield))
}

// narrowed returns opts as tweaked does, and the part that a tweak asks for.
func narrowed[T Identified](opts metav1.ListOptions, tweak []func(*metav1.ListOptions)) (metav1.ListOptions, shardPart[T], error) {
	before := opts.ShardSelector
	opts, err := tweaked(opts, tweak)
	if err != nil || opts.ShardSelector == before {
		return opts, shardPart[T]{}, err // before is of a Source around this one, which selects by it
	}
	selector, err := parseShard(opts.ShardSelector)
	return opts, shardPart[T]{selector}, err
}

// mustBeFuncs panics if a tweak is nil. The message names the function that was called with it.
func mustBeFuncs(constructor string, tweak []func(*metav1.ListOptions)) {
	for _, f := range tweak {
		if f == nil {
			panic("lw: " + constructor + ": nil function")
		}
	}
}

// tweaked returns opts after each tweak has changed it. The selectors that opts came with hold as
// well: whoever asks for less than the collection, as a ByName does, must not get all of it. If a
// selector does not parse, it fails with an ErrPermanent before anything is sent: no retry would
// help.
func tweaked(opts metav1.ListOptions, tweak []func(*metav1.ListOptions)) (metav1.ListOptions, error) {
	fieldSelector, labelSelector := opts.FieldSelector, opts.LabelSelector
	for _, f := range tweak {
		f(&opts)
	}
	opts.FieldSelector = bothSelectors(fieldSelector, opts.FieldSelector)
	opts.LabelSelector = bothSelectors(labelSelector, opts.LabelSelector)
	if err := rest.CheckSelectors(opts.LabelSelector, opts.FieldSelector); err != nil {
		return opts, permanent(err)
	}
	_, err := parseShard(opts.ShardSelector)
	return opts, err
}

// bothSelectors returns the selector of what both selectors select. A tweak may have joined them
// already.
func bothSelectors(before, after string) string {
	if before == "" || before == after || strings.HasPrefix(after, before+",") || strings.HasSuffix(after, ","+before) {
		return after
	}
	if after == "" {
		return before
	}
	return before + "," + after
}
