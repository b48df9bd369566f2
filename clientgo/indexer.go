package clientgo

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"iter"
	"maps"
	"reflect"
	"slices"
	"strings"
	"sync"
	"sync/atomic"

	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/client-go/tools/cache"

	"github.com/go-lw/lw"
)

// An indexer is the store of an informer as a cache.Indexer. Reads take no lock of the indexer. Its
// methods are those of client-go; the comments below say only what client-go's do not.
type indexer[T lw.Object] struct {
	store lw.Reader[T]
	of    lw.Indexed[T]
	own   *lw.Indexer[T] // the store, to write it; nil: it is a derived one
	cells bool           // reads return cells as they are; see PackedReads

	mu      sync.Mutex // of those who write indexes or seeded
	indexes atomic.Pointer[map[string]namedIndex[T]]
	// seeded is the resource version of the last object that a fixture wrote. It is reported as
	// long as the store has no version of its own. Guarded by mu.
	seeded string
}

// A namedIndex is an index with the function that it was made of.
type namedIndex[T lw.Object] struct {
	values cache.IndexFunc
	index  *lw.Index[string, T]
}

func newIndexer[T lw.Object](c lw.Collection[T]) *indexer[T] {
	x := &indexer[T]{store: c.Store(), of: c}
	if inf, ok := c.(*lw.Informer[T]); ok {
		x.own = inf.Fixture()
	}
	x.indexes.Store(&map[string]namedIndex[T]{})
	return x
}

// keyOf returns the key of obj, which may be a cache.DeletedFinalStateUnknown or a
// cache.ExplicitKey. ok is false for a key that no stored object can have.
func keyOf(obj any) (key lw.Key, ok bool, err error) {
	if m, is := obj.(interface {
		GetNamespace() string
		GetName() string
	}); is {
		if isNil(obj) { // client-go panics
			return lw.Key{}, false, cache.KeyError{Obj: obj, Err: fmt.Errorf("a nil %T", obj)}
		}
		return lw.Key{Namespace: m.GetNamespace(), Name: m.GetName()}, true, nil
	}
	s, err := cache.DeletionHandlingMetaNamespaceKeyFunc(obj)
	if err != nil {
		return lw.Key{}, false, cache.KeyError{Obj: obj, Err: err}
	}
	key, ok = parseKey(s)
	return key, ok, nil
}

// parseKey returns the key that s is the text of; ok is false if s is not the text of any key.
func parseKey(s string) (key lw.Key, ok bool) {
	namespace, name, slash := strings.Cut(s, "/")
	switch {
	case !slash:
		return lw.Key{Name: namespace}, true
	case namespace == "":
		return lw.Key{}, false
	}
	return lw.Key{Namespace: namespace, Name: name}, true
}

func keyString(key lw.Key) string { return cache.ObjectName(key).String() }

// object returns obj as a T.
func object[T lw.Object](obj any) (T, error) {
	var none T
	t, ok := obj.(T)
	if !ok || isNil(obj) {
		if _, err := meta.Accessor(obj); err != nil {
			return none, cache.KeyError{Obj: obj, Err: err}
		}
		return none, fmt.Errorf("clientgo: a %T is no object of this informer", obj)
	}
	return t, nil
}

func (x *indexer[T]) Add(obj any) error {
	t, err := object[T](obj)
	if err = cmp.Or(err, x.writable()); err != nil {
		return err
	}
	x.own.Set(t)
	x.seed(t.GetResourceVersion())
	return nil
}

func (x *indexer[T]) Update(obj any) error { return x.Add(obj) }

func (x *indexer[T]) Delete(obj any) error {
	key, ok, err := keyOf(obj)
	if err = cmp.Or(err, x.writable()); err != nil || !ok {
		return err
	}
	x.own.Delete(key)
	if m, err := meta.Accessor(obj); err == nil {
		x.seed(m.GetResourceVersion())
	}
	return nil
}

func (x *indexer[T]) Replace(list []any, resourceVersion string) error {
	objs := make([]T, 0, len(list))
	for _, item := range list {
		obj, err := object[T](item)
		if err != nil {
			return err
		}
		objs = append(objs, obj)
	}
	if err := x.writable(); err != nil {
		return err
	}
	x.own.Replace(objs, x.store.ResourceVersion()) // see Bookmark
	x.seed(resourceVersion)
	return nil
}

// Bookmark does not touch the store, whose version decides where a watch goes on.
func (x *indexer[T]) Bookmark(resourceVersion string) { x.seed(resourceVersion) }

// writable returns the error of a write, if the store is a derived one.
func (x *indexer[T]) writable() error {
	if x.own != nil {
		return nil
	}
	return fmt.Errorf("clientgo: the store of %v cannot be written: %w", reflect.TypeFor[T](), errors.ErrUnsupported)
}

// seed notes the version of what a fixture wrote.
func (x *indexer[T]) seed(resourceVersion string) {
	x.mu.Lock()
	defer x.mu.Unlock()
	x.seeded = resourceVersion
}

func (x *indexer[T]) LastStoreSyncResourceVersion() string {
	if v := x.store.ResourceVersion(); v != "" {
		return v
	}
	x.mu.Lock()
	defer x.mu.Unlock()
	return x.seeded
}

func (x *indexer[T]) Resync() error { return nil }

func (x *indexer[T]) List() []any {
	snap := x.store.Snapshot()
	out := make([]any, 0, snap.Len())
	for obj := range snap.All() {
		out = append(out, x.read(obj))
	}
	return out
}

func (x *indexer[T]) ListKeys() []string {
	snap := x.store.Snapshot()
	out := make([]string, 0, snap.Len())
	for obj := range snap.All() {
		out = append(out, keyString(lw.KeyOf(obj)))
	}
	return out
}

func (x *indexer[T]) Get(obj any) (item any, exists bool, err error) {
	key, ok, err := keyOf(obj)
	if err != nil || !ok {
		return nil, false, err
	}
	return x.get(key)
}

func (x *indexer[T]) GetByKey(s string) (item any, exists bool, err error) {
	key, ok := parseKey(s)
	if !ok {
		return nil, false, nil
	}
	return x.get(key)
}

func (x *indexer[T]) get(key lw.Key) (item any, exists bool, err error) {
	obj, ok := x.store.Get(key)
	if !ok {
		return nil, false, nil // not any(obj), which would be a nil pointer and not nil
	}
	if x.cells {
		return obj, true, nil
	}
	return fetched(obj)
}

func (x *indexer[T]) AddIndexers(indexers cache.Indexers) error {
	x.mu.Lock()
	defer x.mu.Unlock()
	now := *x.indexes.Load()
	var conflicts []string
	for name := range indexers {
		if _, ok := now[name]; ok {
			conflicts = append(conflicts, name)
		}
	}
	if len(conflicts) > 0 {
		slices.Sort(conflicts)
		return fmt.Errorf("clientgo: indexer conflict: %v", conflicts)
	}
	then := maps.Clone(now)
	for name, values := range indexers {
		then[name] = namedIndex[T]{values, newIndex(x.of, name, values)}
	}
	x.indexes.Store(&then)
	return nil
}

// newIndex returns an index of store by values. An error of values panics, with the text that
// client-go panics with.
func newIndex[T lw.Object](store lw.Indexed[T], name string, values cache.IndexFunc) *lw.Index[string, T] {
	if isNamespace(values) {
		return lw.NewIndex(store, T.GetNamespace) // without allocations
	}
	return lw.NewMultiIndex(store, func(obj T) iter.Seq[string] {
		v, err := values(opened(obj))
		if err != nil {
			panic(fmt.Errorf("unable to calculate an index entry for key %q on index %q: %w", keyString(lw.KeyOf(obj)), name, err))
		}
		return slices.Values(v)
	})
}

// isNamespace reports whether values is client-go's index function of namespaces, which nearly
// every informer has.
func isNamespace(values cache.IndexFunc) bool {
	return reflect.ValueOf(values).Pointer() == reflect.ValueOf(cache.MetaNamespaceIndexFunc).Pointer()
}

func (x *indexer[T]) GetIndexers() cache.Indexers {
	now := *x.indexes.Load()
	out := make(cache.Indexers, len(now))
	for name, ix := range now {
		out[name] = x.reading(ix.values)
	}
	return out
}

func (x *indexer[T]) index(name string) (namedIndex[T], error) {
	ix, ok := (*x.indexes.Load())[name]
	if !ok {
		return ix, fmt.Errorf("clientgo: Index with name %s does not exist", name)
	}
	return ix, nil
}

func (x *indexer[T]) Index(name string, obj any) ([]any, error) {
	ix, err := x.index(name)
	if err != nil {
		return nil, err
	}
	values, err := x.reading(ix.values)(obj)
	if err != nil {
		return nil, err
	}
	if len(values) == 1 {
		return x.lookup(ix.index, values[0])
	}
	found := lookupAny(ix.index.Changed, ix.index.Lookup, values)
	return x.readAll(len(found), maps.Values(found))
}

func (x *indexer[T]) ByIndex(name, value string) ([]any, error) {
	ix, err := x.index(name)
	if err != nil {
		return nil, err
	}
	return x.lookup(ix.index, value)
}

func (x *indexer[T]) lookup(index *lw.Index[string, T], value string) ([]any, error) {
	return x.readAll(index.Len(value), index.Lookup(value))
}

// readAll returns what reads have for objs, but for what is gone from the server.
func (x *indexer[T]) readAll(n int, objs iter.Seq[T]) ([]any, error) {
	out := make([]any, 0, n)
	for obj := range objs {
		if x.cells {
			out = append(out, obj)
			continue
		}
		read, there, err := fetched(obj)
		if err != nil {
			return nil, err
		}
		if there {
			out = append(out, read)
		}
	}
	return out, nil
}

// lookupAny returns the objects that lookup has for any of values. Each lookup is answered from a
// state of its own, so an object whose value changes in between could be missed. The channels of
// changed tell: if none is closed after the last lookup, no object has left or joined one of
// values. The version of the store would not: it stays while an object is set aside. Only objects
// that change as fast as they are read need more than a few passes; then the last one must do.
func lookupAny[T lw.Object](changed func(ctx context.Context, value string) <-chan struct{},
	lookup func(value string) iter.Seq[T], values []string) (found map[lw.Key]T) {
	const maxPasses = 8
	for range maxPasses {
		ctx, cancel := context.WithCancel(context.Background())
		var changes []<-chan struct{}
		for _, value := range values {
			changes = append(changes, changed(ctx, value))
		}
		found = map[lw.Key]T{}
		for _, value := range values {
			for obj := range lookup(value) {
				found[lw.KeyOf(obj)] = obj
			}
		}
		same := !slices.ContainsFunc(changes, isClosed)
		cancel()
		if same {
			break
		}
	}
	return found
}

func (x *indexer[T]) IndexKeys(name, value string) ([]string, error) {
	ix, err := x.index(name)
	if err != nil {
		return nil, err
	}
	out := make([]string, 0, ix.index.Len(value))
	for obj := range ix.index.Lookup(value) {
		out = append(out, keyString(lw.KeyOf(obj)))
	}
	slices.Sort(out)
	return out, nil
}

func (x *indexer[T]) ListIndexFuncValues(name string) []string {
	ix, err := x.index(name)
	if err != nil {
		return []string{}
	}
	return slices.AppendSeq([]string{}, ix.index.Keys())
}

// read returns what a read of the indexer has for obj, an object in its store.
func (x *indexer[T]) read(obj T) any {
	if x.cells {
		return obj
	}
	return latest(obj)
}

// reading returns values, the function of an index, for what a read returns.
func (x *indexer[T]) reading(values cache.IndexFunc) cache.IndexFunc {
	if !x.cells {
		return values
	}
	return func(obj any) ([]string, error) {
		if c, ok := obj.(cell); ok {
			obj = c.Open()
		}
		return values(obj)
	}
}
