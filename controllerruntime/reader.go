package controllerruntime

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"reflect"
	"slices"
	"strings"
	"sync"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/kubernetes/scheme"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/apiutil"

	"github.com/go-lw/lw"
)

// A Reader is a client.Reader over informers and derived collections of lw. [Serve] adds one for
// each type that it shall read. So a reconciler that reads through client.Reader runs on typed
// informers that the program also uses directly, and makes no informer unawares: a read of a type
// that is not served fails with a *cache.ErrResourceNotCached.
//
// It is also the cache of a client that writes to the server and reads from lw:
//
//	client.New(config, client.Options{Cache: &client.CacheOptions{Reader: reader}})
//
// A read waits until its informer has synced, but fails at once with a *cache.ErrCacheNotStarted if
// nobody runs the informer. One List is answered from one state of the collection.
// The objects that it returns are deep copies, with their kind and API version set, unless
// client.UnsafeDisableDeepCopy asks for the shared ones. All methods are safe for concurrent use.
type Reader struct {
	scheme *runtime.Scheme

	mu    sync.RWMutex
	kinds map[kind]reader // guarded by mu
}

// A kind is what a Reader has one informer for. An API kind may be served typed, as unstructured
// objects and as metadata, all at the same time.
type kind struct {
	schema.GroupVersionKind
	sort sort
}

type sort int

const (
	typed sort = iota
	unstructuredObjects
	metadataOnly
)

// NewReader returns a Reader that serves nothing yet. The scheme has the kinds of types; nil is
// client-go's, which has the built-in ones.
func NewReader(s *runtime.Scheme) *Reader {
	if s == nil {
		s = scheme.Scheme
	}
	return &Reader{scheme: s, kinds: map[kind]reader{}}
}

// Object is the constraint on what a [Reader] serves: every API type is one.
type Object interface {
	lw.Object
	client.Object
}

// Fields are the fields that a List may select by, with client.MatchingFields. The key is the name
// of the field, such as spec.nodeName, which need not be a path. The function returns the values
// that an object has: it matches each of them. It is called once for each version of an object and
// must not change it; see [lw.NewMultiIndex].
type Fields[T lw.Object] map[string]func(T) []string

// Serve makes r read the objects of type T from c, an informer or a derived collection. Each of
// fields gets an index. If T is *unstructured.Unstructured or *metav1.PartialObjectMetadata, use
// [ServeKind].
//
// It returns an error if r's scheme does not know T, or if T is served already. It panics if c or
// a function is nil. It does not run c: see [Runnable].
func Serve[T Object](r *Reader, c lw.Collection[T], fields Fields[T]) error {
	gvk, err := apiutil.GVKForObject(reflect.New(reflect.TypeFor[T]().Elem()).Interface().(runtime.Object), r.scheme)
	if err != nil {
		return fmt.Errorf("controllerruntime: Serve: %w", err)
	}
	return ServeKind(r, gvk, c, fields)
}

// ServeKind is like [Serve], for the kind gvk.
func ServeKind[T Object](r *Reader, gvk schema.GroupVersionKind, c lw.Collection[T], fields Fields[T]) error {
	if isNil(c) {
		panic("controllerruntime: Serve: nil collection")
	}
	for name, values := range fields {
		if values == nil {
			panic(fmt.Sprintf("controllerruntime: Serve: field %q: nil function", name))
		}
	}
	k := kind{gvk, sortOf(*new(T))}
	r.mu.Lock()
	defer r.mu.Unlock()
	if _, ok := r.kinds[k]; ok {
		return fmt.Errorf("controllerruntime: Serve: %T of %v is served already", *new(T), gvk)
	}
	s := &served[T]{gvk: gvk, from: c, namespaces: lw.NewIndex(c, T.GetNamespace), fields: map[string]field[T]{}}
	for name, values := range fields {
		s.fields[name] = field[T]{values, lw.NewMultiIndex(c, func(obj T) iter.Seq[string] { return slices.Values(values(obj)) })}
	}
	r.kinds[k] = s
	return nil
}

// sortOf returns how objects like obj, or the items of a list like obj, represent their kind.
func sortOf(obj runtime.Object) sort {
	switch obj.(type) {
	case *unstructured.Unstructured, *unstructured.UnstructuredList:
		return unstructuredObjects
	case *metav1.PartialObjectMetadata, *metav1.PartialObjectMetadataList:
		return metadataOnly
	}
	return typed
}

// Get fills obj with the object that has the key. It fails with NotFound if there is none. Of an
// object without a namespace, the key's namespace is ignored.
func (r *Reader) Get(ctx context.Context, key client.ObjectKey, obj client.Object, opts ...client.GetOption) error {
	from, err := r.of(obj, "")
	if err != nil {
		return err
	}
	var o client.GetOptions
	o.ApplyOptions(opts)
	return from.get(ctx, key, obj, o.UnsafeDisableDeepCopy != nil && *o.UnsafeDisableDeepCopy)
}

// List fills list with the objects that opts select: by namespace, labels, the fields that were
// given to [Serve], and up to a limit. Several fields must all match. Their order is not defined.
// It fails with an error if opts ask for anything else, such as a field that was not given, a field
// selector that names no field, or the continuation of a list: a list that was limited cannot be
// continued.
func (r *Reader) List(ctx context.Context, list client.ObjectList, opts ...client.ListOption) error {
	from, err := r.of(list, "List")
	if err != nil {
		return err
	}
	var o client.ListOptions
	o.ApplyOptions(opts)
	if o.Continue != "" {
		return errors.New("controllerruntime: Reader: a list cannot be continued")
	}
	objs, err := from.list(ctx, &o)
	if err != nil {
		return err
	}
	list.SetContinue("continue-not-supported") // the same words as those of controller-runtime's cache
	return meta.SetList(list, objs)
}

// of returns what serves obj, whose kind ends in suffix.
func (r *Reader) of(obj runtime.Object, suffix string) (reader, error) {
	gvk, err := apiutil.GVKForObject(obj, r.scheme)
	if err != nil {
		return nil, fmt.Errorf("controllerruntime: Reader: %w", err)
	}
	gvk.Kind = strings.TrimSuffix(gvk.Kind, suffix)
	r.mu.RLock()
	from, ok := r.kinds[kind{gvk, sortOf(obj)}]
	r.mu.RUnlock()
	if !ok {
		return nil, fmt.Errorf("controllerruntime: Reader: %T: %w", obj, &cache.ErrResourceNotCached{GVK: gvk})
	}
	return from, nil
}

// A reader reads one kind.
type reader interface {
	get(ctx context.Context, key client.ObjectKey, out client.Object, shared bool) error
	list(ctx context.Context, opts *client.ListOptions) ([]runtime.Object, error)
}

// served is the reader of one collection.
type served[T Object] struct {
	gvk        schema.GroupVersionKind
	from       lw.Collection[T]
	namespaces *lw.Index[string, T]
	fields     map[string]field[T]
}

type field[T Object] struct {
	values func(T) []string
	index  *lw.Index[string, T]
}

// ready waits until the collection has synced. It does not wait for one that nobody runs.
func (s *served[T]) ready(ctx context.Context) error {
	select {
	case <-s.from.Synced():
		return nil
	default:
	}
	if s.from.Status().Phase == "idle" {
		return fmt.Errorf("controllerruntime: Reader: %w: the informer of %v does not run", &cache.ErrCacheNotStarted{}, s.gvk)
	}
	if err := s.from.WaitForSync(ctx); err != nil {
		return fmt.Errorf("controllerruntime: Reader: %w", err)
	}
	return nil
}

func (s *served[T]) get(ctx context.Context, key client.ObjectKey, out client.Object, shared bool) error {
	if err := s.ready(ctx); err != nil {
		return err
	}
	to, ok := out.(T)
	if !ok {
		return fmt.Errorf("controllerruntime: Reader: the informer of %v has %T, not %T", s.gvk, *new(T), out)
	}
	state := s.from.Store().Snapshot()
	obj, ok := state.Get(key)
	if !ok && key.Namespace != "" {
		obj, ok = state.Get(lw.Key{Name: key.Name})
	}
	if !ok {
		// As in controller-runtime, the kind stands in for the resource, which only discovery
		// knows.
		return apierrors.NewNotFound(schema.GroupResource{Group: s.gvk.Group, Resource: s.gvk.Kind}, key.Name)
	}
	if !shared {
		obj = s.copied(obj)
	}
	reflect.ValueOf(to).Elem().Set(reflect.ValueOf(obj).Elem())
	return nil
}

// copied returns a deep copy of obj, with its kind.
func (s *served[T]) copied(obj T) T {
	own := obj.DeepCopyObject().(T)
	own.GetObjectKind().SetGroupVersionKind(s.gvk)
	return own
}

func (s *served[T]) list(ctx context.Context, opts *client.ListOptions) ([]runtime.Object, error) {
	candidates, err := s.candidates(opts)
	if err != nil {
		return nil, err
	}
	if err := s.ready(ctx); err != nil {
		return nil, err
	}
	shared := opts.UnsafeDisableDeepCopy != nil && *opts.UnsafeDisableDeepCopy
	objs := []runtime.Object{}
	for obj := range candidates {
		if opts.Limit > 0 && int64(len(objs)) == opts.Limit {
			break
		}
		if !s.matches(obj, opts) {
			continue
		}
		if !shared {
			obj = s.copied(obj)
		}
		objs = append(objs, obj)
	}
	return objs, nil
}

// candidates returns a sequence of one state of the collection that has all objects that opts
// select, and perhaps others. It comes from the index of the first field, else from that of the
// namespaces.
func (s *served[T]) candidates(opts *client.ListOptions) (iter.Seq[T], error) {
	if opts.FieldSelector != nil {
		requirements := opts.FieldSelector.Requirements()
		if len(requirements) == 0 { // that of everything, and that of nothing
			return nil, errors.New("controllerruntime: Reader: the field selector names no field")
		}
		for _, r := range requirements {
			if _, ok := s.fields[r.Field]; !ok {
				return nil, fmt.Errorf("controllerruntime: Reader: no field %q was given to Serve for %v", r.Field, s.gvk)
			}
			if r.Operator != "=" && r.Operator != "==" {
				return nil, fmt.Errorf("controllerruntime: Reader: field %q: only equality can be asked for, not %q", r.Field, r.Operator)
			}
		}
		return s.fields[requirements[0].Field].index.Lookup(requirements[0].Value), nil
	}
	if opts.Namespace != "" {
		return s.namespaces.Lookup(opts.Namespace), nil
	}
	return s.from.Store().All(), nil
}

// matches reports whether opts select obj.
func (s *served[T]) matches(obj T, opts *client.ListOptions) bool {
	if opts.Namespace != "" && obj.GetNamespace() != opts.Namespace {
		return false
	}
	if opts.LabelSelector != nil && !opts.LabelSelector.Matches(labels.Set(obj.GetLabels())) {
		return false
	}
	if opts.FieldSelector != nil {
		for i, r := range opts.FieldSelector.Requirements() {
			// The objects come from the index of the first field.
			if i > 0 && !slices.Contains(s.fields[r.Field].values(obj), r.Value) {
				return false
			}
		}
	}
	return true
}
