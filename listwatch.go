package lw

import (
	"context"
	"errors"
	"fmt"
	"reflect"
	"sync/atomic"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/watch"
)

// Client is the part of a generated client that [FromClient] needs; clientset.CoreV1().Pods(namespace) is one.
type Client[T Object, L ObjectList] interface {
	Get(ctx context.Context, name string, opts metav1.GetOptions) (T, error) // makes T inferable; it is not called
	List(ctx context.Context, opts metav1.ListOptions) (L, error)
	Watch(ctx context.Context, opts metav1.ListOptions) (watch.Interface, error)
}

// A ListWatch is a [Source] made of two functions, of which L is the list type. Both functions must return soon after their
// context is done.
type ListWatch[T Object, L ObjectList] struct {
	ListFunc  func(ctx context.Context, opts metav1.ListOptions) (L, error)
	WatchFunc func(ctx context.Context, opts metav1.ListOptions) (watch.Interface, error)

	// fake: the functions are a fake clientset's, whose watches never send the end bookmark of a streamed list, panic when
	// more than a hundred events wait, and whose objects carry no versions.
	fake atomic.Bool
	// refused is a fake watch that was opened for a streamed list. It may be the only one that its test has, of no use once
	// it is stopped: so it is stopped only when the next watch turns out to be another one.
	refused atomic.Pointer[watch.Interface]
}

// FromClient returns a Source over a generated client, real or fake. Each tweak may narrow the options of every request, as
// with [WithListOptions].
//
//	lw.NewInformer(lw.FromClient(clientset.CoreV1().Pods("")), nil)
func FromClient[T Object, L ObjectList](c Client[T, L], tweak ...func(*metav1.ListOptions)) *ListWatch[T, L] {
	if isNil(c) {
		panic("lw: FromClient: nil client")
	}
	mustBeFuncs("FromClient", tweak)
	lw := &ListWatch[T, L]{
		ListFunc: func(ctx context.Context, opts metav1.ListOptions) (list L, err error) {
			if opts, err = tweaked(opts, tweak); err != nil {
				return list, fmt.Errorf("lw: FromClient: %w", err)
			}
			return c.List(ctx, opts)
		},
		WatchFunc: func(ctx context.Context, opts metav1.ListOptions) (w watch.Interface, err error) {
			if opts, err = tweaked(opts, tweak); err != nil {
				return nil, fmt.Errorf("lw: FromClient: %w", err)
			}
			return c.Watch(ctx, opts)
		},
	}
	lw.fake.Store(isFake(c))
	return lw
}

// isFake reports whether c is made of client-go's testing.Fake, which cannot be named here: its recorder of actions tells it
// from a real client, and a fake that knows of streamed lists says itself that it has none.
func isFake(c any) bool {
	if f, ok := c.(interface{ IsWatchListSemanticsUnSupported() bool }); ok {
		return f.IsWatchListSemanticsUnSupported()
	}
	_, ok := c.(interface{ ClearActions() })
	return ok
}

// Hints are what is known of a fake clientset; of another client there are none.
func (lw *ListWatch[T, L]) Hints() SourceHints {
	fake := lw.fake.Load()
	return SourceHints{NoStream: fake, Unversioned: fake}
}

// List calls ListFunc and yields the items of its result. An item of another type than T is yielded as an error that names
// both types.
func (lw *ListWatch[T, L]) List(ctx context.Context, opts metav1.ListOptions, yield func(T, error) error) (metav1.ListMeta, error) {
	if lw.ListFunc == nil {
		return metav1.ListMeta{}, permanent(errors.New("lw: ListWatch: nil ListFunc"))
	}
	list, err := lw.ListFunc(ctx, opts)
	if err != nil {
		return metav1.ListMeta{}, err
	}
	if isNil(list) {
		return metav1.ListMeta{}, fmt.Errorf("lw: ListWatch: ListFunc returned a nil %T", list)
	}
	listMeta := metav1.ListMeta{
		ResourceVersion:    list.GetResourceVersion(),
		Continue:           list.GetContinue(),
		RemainingItemCount: list.GetRemainingItemCount(),
	}
	return listMeta, eachItem(list, yield)
}

// eachItem yields the items of list. Where they stand in the list as values, each is copied to a place of its own, so that one
// object that stays in the store does not keep the whole page in memory.
func eachItem[T Object](list runtime.Object, yield func(T, error) error) error {
	var zero T
	one := func(item any) error {
		if obj, ok := item.(T); ok && obj != zero {
			return yield(obj, nil)
		}
		return yield(zero, &Error{Op: "decode", Key: keyOfAny(item), Err: fmt.Errorf("list %T holds %s, not a %T", list, aOrNil(item), zero)})
	}
	items, err := meta.GetItemsPtr(list)
	if err != nil {
		return fmt.Errorf("lw: ListWatch: %T has no items: %w", list, err)
	}
	v := reflect.ValueOf(items).Elem()
	switch elem, want := v.Type().Elem(), reflect.TypeFor[T](); {
	case elem == want:
		for i := range v.Len() {
			obj := v.Index(i).Interface().(T)
			if obj == zero {
				if err := yield(zero, &Error{Op: "decode", Err: fmt.Errorf("item %d of %T is nil", i, list)}); err != nil {
					return err
				}
			} else if err := yield(obj, nil); err != nil {
				return err
			}
		}
		return nil
	case reflect.PointerTo(elem) == want:
		for i := range v.Len() {
			own := reflect.New(elem)
			own.Elem().Set(v.Index(i))
			if err := yield(own.Interface().(T), nil); err != nil {
				return err
			}
		}
		return nil
	}
	if v.Type().Elem().Kind() == reflect.Interface {
		for i := range v.Len() {
			if err := one(v.Index(i).Interface()); err != nil {
				return err
			}
		}
		return nil
	}
	// Items of a raw type, or a list of something else: apimachinery knows how to take them out.
	return meta.EachListItemWithAlloc(list, func(item runtime.Object) error { return one(item) })
}

// Watch calls WatchFunc and yields its events until they end; the watch is stopped before Watch returns, but for a fake one that
// cannot stream a list.
func (lw *ListWatch[T, L]) Watch(ctx context.Context, opts metav1.ListOptions, yield func(WatchEvent[T]) error) error {
	if lw.WatchFunc == nil {
		return permanent(errors.New("lw: ListWatch: nil WatchFunc"))
	}
	w, err := lw.WatchFunc(ctx, opts)
	if err != nil {
		return err
	}
	if w == nil {
		return errors.New("lw: ListWatch: WatchFunc returned a nil watch")
	}
	if before := lw.refused.Swap(nil); before != nil && *before != w {
		(*before).Stop()
	}
	if isFakeWatch(w) {
		lw.fake.Store(true)
		if opts.SendInitialEvents != nil && *opts.SendInitialEvents {
			lw.refused.Store(&w)
			return errNoStream
		}
	}
	defer w.Stop()
	events := w.ResultChan()
	for {
		// To look for another event that is at hand, and say so, was measured: an unbuffered channel has one at best, and to
		// wake handlers for every second event costs more than for each, when most of them are still awake.
		select {
		case <-ctx.Done():
			return ctx.Err()
		case ev, ok := <-events:
			if !ok {
				return nil
			}
			typed, err := typedEvent[T](ev)
			if err != nil {
				return err
			}
			if err := yield(typed); err != nil {
				return err
			}
		}
	}
}

// errNoStream says that a source cannot stream its initial list.
var errNoStream = errors.New("lw: the source cannot stream its initial list")

// isFakeWatch reports whether w is one of apimachinery's fakes, which stream ADDED but never send the end bookmark.
func isFakeWatch(w watch.Interface) bool {
	switch w.(type) {
	case *watch.RaceFreeFakeWatcher, *watch.FakeWatcher:
		return true
	}
	return false
}

// typedEvent returns ev as a T's. An ERROR event is an error; an object of another type is set in Err.
func typedEvent[T Object](ev watch.Event) (WatchEvent[T], error) {
	out := WatchEvent[T]{Type: ev.Type}
	switch ev.Type {
	case watch.Error:
		return out, apierrors.FromObject(ev.Object)
	case watch.Bookmark:
		m, err := meta.Accessor(ev.Object)
		if err != nil || isNil(ev.Object) {
			return out, fmt.Errorf("lw: bookmark of type %T has no metadata", ev.Object)
		}
		out.ResourceVersion = m.GetResourceVersion()
		out.InitialEventsEnd = m.GetAnnotations()[initialEventsEnd] == "true"
		return out, nil
	case watch.Added, watch.Modified, watch.Deleted:
	default:
		return out, protocolErrorf("event of unknown type %q", ev.Type)
	}
	obj, ok := ev.Object.(T)
	var zero T
	if !ok || obj == zero {
		if m, err := meta.Accessor(ev.Object); err == nil && !isNil(ev.Object) {
			out.ResourceVersion = m.GetResourceVersion()
		}
		out.Err = &Error{Op: "decode", Key: keyOfAny(ev.Object), Err: fmt.Errorf("%s event holds %s, not a %T", ev.Type, aOrNil(ev.Object), zero)}
		return out, nil
	}
	out.Object, out.ResourceVersion = obj, obj.GetResourceVersion()
	return out, nil
}

// isNil reports whether v is nil, or holds a nil pointer.
func isNil(v any) bool {
	r := reflect.ValueOf(v)
	return !r.IsValid() || r.Kind() == reflect.Pointer && r.IsNil()
}

// aOrNil says what v is, for an error.
func aOrNil(v any) string {
	switch {
	case v == nil:
		return "a nil object"
	case isNil(v):
		return fmt.Sprintf("a nil %T", v)
	}
	return fmt.Sprintf("a %T", v)
}

func keyOfAny(obj any) Key {
	if isNil(obj) {
		return Key{}
	}
	m, err := meta.Accessor(obj)
	if err != nil {
		return Key{}
	}
	return Key{Namespace: m.GetNamespace(), Name: m.GetName()}
}

// WithListOptions returns a Source that passes the options of every request through each tweak, to narrow it by a label or
// field selector. A selector that does not parse is an [ErrPermanent].
func WithListOptions[T Object](src Source[T], tweak ...func(*metav1.ListOptions)) Source[T] {
	if isNil(src) {
		panic("lw: WithListOptions: nil source")
	}
	mustBeFuncs("WithListOptions", tweak)
	return &optioned[T]{src, tweak}
}

type optioned[T Object] struct {
	src   Source[T]
	tweak []func(*metav1.ListOptions)
}

func (o *optioned[T]) Hints() SourceHints { return HintsOf(o.src) }

func (o *optioned[T]) List(ctx context.Context, opts metav1.ListOptions, yield func(T, error) error) (metav1.ListMeta, error) {
	opts, err := tweaked(opts, o.tweak)
	if err != nil {
		return metav1.ListMeta{}, fmt.Errorf("lw: WithListOptions: %w", err)
	}
	return o.src.List(ctx, opts, yield)
}

func (o *optioned[T]) Watch(ctx context.Context, opts metav1.ListOptions, yield func(WatchEvent[T]) error) error {
	opts, err := tweaked(opts, o.tweak)
	if err != nil {
		return fmt.Errorf("lw: WithListOptions: %w", err)
	}
	return o.src.Watch(ctx, opts, yield)
}

func mustBeFuncs(constructor string, tweak []func(*metav1.ListOptions)) {
	for _, f := range tweak {
		if f == nil {
			panic("lw: " + constructor + ": nil function")
		}
	}
}

// tweaked returns opts as each tweak has left it. Selectors that no server can parse are an ErrPermanent.
func tweaked(opts metav1.ListOptions, tweak []func(*metav1.ListOptions)) (metav1.ListOptions, error) {
	for _, f := range tweak {
		f(&opts)
	}
	if err := checkSelectors(opts.LabelSelector, opts.FieldSelector); err != nil {
		return opts, permanent(err)
	}
	return opts, nil
}

// checkSelectors parses both as a server does.
func checkSelectors(label, field string) error {
	if label != "" {
		if _, err := labels.Parse(label); err != nil {
			return fmt.Errorf("label selector %q: %w", label, err)
		}
	}
	if field != "" {
		if _, err := fields.ParseSelector(field); err != nil {
			return fmt.Errorf("field selector %q: %w", field, err)
		}
	}
	return nil
}

// ListOf is an [ObjectList] for sources that have no list type of their own.
type ListOf[T runtime.Object] struct {
	metav1.TypeMeta `json:",inline"`
	metav1.ListMeta `json:"metadata,omitempty"`
	Items           []T `json:"items"`
}

// GetObjectKind returns the list's kind, to set and to get.
func (l *ListOf[T]) GetObjectKind() schema.ObjectKind { return &l.TypeMeta }

// DeepCopyObject returns a copy that shares nothing with l.
func (l *ListOf[T]) DeepCopyObject() runtime.Object {
	if l == nil {
		return nil
	}
	out := &ListOf[T]{TypeMeta: l.TypeMeta}
	l.ListMeta.DeepCopyInto(&out.ListMeta)
	if l.Items != nil {
		out.Items = make([]T, len(l.Items))
		for i, item := range l.Items {
			if !isNil(item) {
				out.Items[i] = item.DeepCopyObject().(T)
			}
		}
	}
	return out
}
