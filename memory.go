package lw

import (
	"context"
	"fmt"
	"io"
	"iter"
	"reflect"
	"sync"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/validation/field"
	"k8s.io/apimachinery/pkg/watch"

	"github.com/go-lw/lw/internal/equal"
	"github.com/go-lw/lw/internal/history"
	"github.com/go-lw/lw/internal/listopts"
)

// Memory is a [Source] whose objects are in memory. It behaves as an API server does: one sequence
// of resource versions orders all writes. All are kept until [Memory.Compact], and a watch may
// start from any that is kept. It supports pages, streamed lists, bookmarks, label selectors for a
// T with GetLabels, field selectors for metadata.name and metadata.namespace, and shard selectors.
// It is a [Writable]: a write whose context is done is not made.
//
// Its versions begin at the time, and its UIDs are random, so that neither comes again when the
// program does. A test that wants the versions 2, 3 and 4 calls Rewind("1") before its first write.
//
// All methods are safe for concurrent use. A Memory copies the objects that it is given and those
// that it returns. A T without DeepCopyObject is copied as a struct only: what its maps, slices and
// pointers refer to is shared, and must not be changed.
type Memory[T Identified] struct {
	line    *history.Line          // the counter of resource versions; it has its own lock
	objects *history.Collection[T] // the objects with all their versions, under the lock of line
	copier  copier[T]

	mu      sync.Mutex
	failure error // the error of every List and Watch, set by Fail; guarded by mu
}

// NewMemory returns a Memory that contains objs, created one after the other. It panics if one
// cannot be created, and unless T is a metav1.Object, as every API type is, or a pointer to a
// struct that embeds [Meta]: a Memory writes UIDs and resource versions.
func NewMemory[T Object](objs ...T) *Memory[T] {
	copier, err := newCopier[T]()
	if err != nil {
		panic("lw: NewMemory: " + err.Error())
	}
	plural, _ := meta.UnsafeGuessKindToResource(schema.GroupVersionKind{Kind: typeName[T]()})
	m := &Memory[T]{line: history.NewLineNow(), copier: copier}
	m.objects = history.NewCollection(m.line, history.Options[T]{
		Resource: plural.GroupResource(),
		// Stored values have neither UID nor resource version (see write), so this compares only
		// what a caller can change.
		Same: func(old, new *history.Object[T]) bool { return reflect.DeepEqual(old.Value, new.Value) },
	})
	for _, obj := range objs {
		if _, err := m.Create(context.Background(), obj); err != nil {
			panic("lw: NewMemory: " + err.Error())
		}
	}
	return m
}

// Create stores a copy of obj under the next resource version, with a new UID if it has none, and
// returns another copy. It fails with AlreadyExists, with Invalid if obj has no name, and with
// BadRequest if it is nil.
func (m *Memory[T]) Create(ctx context.Context, obj T) (T, error) {
	return m.write(ctx, "create", obj, m.objects.Create)
}

// Update replaces the object that has obj's key by a copy of obj, under the next resource version
// unless nothing changes, and returns another copy. It fails with NotFound; with Conflict if obj's
// resource version or UID is neither empty nor that of the current object; and with BadRequest if
// obj is nil or its version is not a decimal number.
func (m *Memory[T]) Update(ctx context.Context, obj T) (T, error) {
	return m.write(ctx, "update", obj, func(o history.Object[T]) (*history.Object[T], error) {
		version, err := m.parse("update", o.Key, obj.GetResourceVersion())
		if err != nil {
			return nil, err
		}
		return m.objects.Update(o, history.Preconditions{Version: version})
	})
}

// Transact creates or updates each object of puts and removes those of gone, at one resource
// version, which it returns. It does all of it or, if one write fails as it would alone, nothing.
func (m *Memory[T]) Transact(ctx context.Context, puts []T, gone ...Key) (resourceVersion string, err error) {
	if err := ctx.Err(); err != nil {
		return "", err
	}
	var writes []history.Write[T]
	for _, obj := range puts {
		o, err := m.take("transact", obj)
		if err != nil {
			return "", err
		}
		version, err := m.parse("transact", o.Key, obj.GetResourceVersion())
		if err != nil {
			return "", err
		}
		writes = append(writes, history.Write[T]{Object: o, Pre: history.Preconditions{Version: version}})
	}
	for _, key := range gone {
		writes = append(writes, history.Write[T]{Object: history.Object[T]{Key: key}, Delete: true})
	}
	version, err := m.objects.Transact(writes...)
	if err != nil {
		return "", err
	}
	return listopts.FormatVersion(version), nil
}

// write passes a copy of obj to store. op names the operation in errors.
func (m *Memory[T]) write(ctx context.Context, op string, obj T, store func(history.Object[T]) (*history.Object[T], error)) (T, error) {
	var zero T
	if err := ctx.Err(); err != nil {
		return zero, err
	}
	o, err := m.take(op, obj)
	if err != nil {
		return zero, err
	}
	stored, err := store(o)
	if err != nil {
		return zero, err
	}
	return m.handOut(stored, stored.Version), nil
}

// take copies obj without its UID and resource version.
func (m *Memory[T]) take(op string, obj T) (o history.Object[T], err error) {
	if equal.IsZero(obj) {
		return o, apierrors.NewBadRequest(fmt.Sprintf("lw: Memory: %s: nil %s", op, typeName[T]()))
	}
	key := KeyOf(obj)
	if key.Name == "" {
		return o, apierrors.NewInvalid(schema.GroupKind{Kind: typeName[T]()}, "", nameRequired)
	}
	value, err := m.copier.withIdentity(obj, "", "")
	if err != nil {
		return o, fmt.Errorf("lw: Memory: %s %s: %w", op, keyString(key), err)
	}
	return history.Object[T]{Key: key, UID: obj.GetUID(), Labels: labelsOf(value), Value: value}, nil
}

// parse returns a resource version that a caller of op has given.
func (m *Memory[T]) parse(op string, key Key, resourceVersion string) (uint64, error) {
	version, err := listopts.ParseVersion(resourceVersion)
	if err != nil {
		return 0, apierrors.NewBadRequest(fmt.Sprintf("lw: Memory: %s %s: %v", op, keyString(key), err))
	}
	return version, nil
}

// Delete removes the object of key, also with finalizers; if resourceVersion is not empty, only in
// that version. It returns the version of the deletion, or fails with NotFound or Conflict.
func (m *Memory[T]) Delete(ctx context.Context, key Key, resourceVersion string) (string, error) {
	if err := ctx.Err(); err != nil {
		return "", err
	}
	version, err := m.parse("delete", key, resourceVersion)
	if err != nil {
		return "", err
	}
	_, at, err := m.objects.Delete(key, history.Preconditions{Version: version})
	if err != nil {
		return "", err
	}
	return listopts.FormatVersion(at), nil
}

// Get returns a copy of the current object of key, or NotFound.
func (m *Memory[T]) Get(ctx context.Context, key Key) (obj T, err error) {
	if err := ctx.Err(); err != nil {
		return obj, err
	}
	stored, err := m.objects.Get(key)
	if err != nil {
		return obj, err
	}
	return m.handOut(stored, stored.Version), nil
}

// All returns copies of the objects, in the order of their keys.
func (m *Memory[T]) All() iter.Seq[T] {
	page, err := m.objects.List("", metav1.ListOptions{})
	if err != nil {
		// A list without options has nothing that could be invalid or expired.
		panic("lw: Memory: All: " + err.Error())
	}
	return func(yield func(T) bool) {
		for _, obj := range page.Items {
			if !yield(m.handOut(obj, obj.Version)) {
				return
			}
		}
	}
}

// ResourceVersion returns the resource version of the last write.
func (m *Memory[T]) ResourceVersion() string { return listopts.FormatVersion(m.line.Version()) }

// Compact forgets all versions but the current one. A list or watch from an older one then fails
// with 410 Expired, also an open watch that is behind.
func (m *Memory[T]) Compact() { m.line.Compact(m.line.Version()) }

// Oldest returns the oldest resource version whose state is kept.
func (m *Memory[T]) Oldest() string { return listopts.FormatVersion(m.objects.Oldest()) }

// Disconnect ends every open watch, as a server does when its time is over.
func (m *Memory[T]) Disconnect() { m.line.Disconnect() }

// Bookmark makes each open watch that allows bookmarks send one, as it also does every minute and
// two seconds before its end.
func (m *Memory[T]) Bookmark() { m.line.Bookmark() }

// Rewind returns to the state of an older resource version and ends every open watch, as a server
// does when it is restored from a backup. It fails with Expired if that state was compacted. An
// informer that should find that it was passed again must have an outage: see Fail.
func (m *Memory[T]) Rewind(resourceVersion string) error {
	version, err := listopts.ParseVersion(resourceVersion)
	if err != nil {
		return fmt.Errorf("lw: Memory: rewind: %w", err)
	}
	return m.line.Rewind(version)
}

// Hints says that StillHas can be asked.
func (m *Memory[T]) Hints() SourceHints { return SourceHints{StillHas: m.had} }

// Told is part of [Teller]. obj must be a T.
func (m *Memory[T]) Told(obj Identified) (out T, stays bool, err error) {
	own, ok := obj.(T)
	if !ok {
		return out, false, fmt.Errorf("lw: Memory: %s is told of a %T", typeName[T](), obj)
	}
	out, err = m.copier.withIdentity(own, own.GetUID(), own.GetResourceVersion())
	return out, err == nil, err
}

func (m *Memory[T]) had(_ context.Context, obj Meta, resourceVersion string) (bool, error) {
	if err := m.failing(); err != nil {
		return false, err
	}
	version, err := listopts.ParseVersion(resourceVersion)
	if err != nil {
		return false, apierrors.NewBadRequest("lw: Memory: " + err.Error())
	}
	was, err := m.objects.At(obj.key(), version)
	if err != nil {
		return false, err
	}
	return was != nil && listopts.FormatVersion(was.Version) == obj.ResourceVersion && (obj.UID == "" || was.UID == obj.UID), nil
}

// Fail makes every List, Watch and SourceHints.StillHas fail with err, and ends every open watch,
// until Fail(nil) is called. Get and writes are not affected.
func (m *Memory[T]) Fail(err error) {
	m.mu.Lock()
	m.failure = err
	m.mu.Unlock()
	if err != nil {
		m.line.Disconnect()
	}
}

// failing returns the error that Fail has set, or nil.
func (m *Memory[T]) failing() error {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.failure
}

// List yields copies of the objects, in the order of their keys.
func (m *Memory[T]) List(ctx context.Context, opts metav1.ListOptions, yield func(T, error) error) (metav1.ListMeta, error) {
	if err := m.failing(); err != nil {
		return metav1.ListMeta{}, err
	}
	if err := selectable[T](opts); err != nil {
		return metav1.ListMeta{}, err
	}
	page, err := m.objects.List("", opts)
	if err != nil {
		return metav1.ListMeta{}, err
	}
	for _, obj := range page.Items {
		if err := ctx.Err(); err != nil {
			return metav1.ListMeta{}, err
		}
		if err := yield(m.handOut(obj, obj.Version), nil); err != nil {
			return metav1.ListMeta{}, err
		}
	}
	return metav1.ListMeta{
		ResourceVersion:    listopts.FormatVersion(page.Version),
		Continue:           page.Continue,
		RemainingItemCount: page.Remaining,
		ShardInfo:          page.Shard,
	}, nil
}

// Watch yields each event, with a copy of its object, until ctx is done, opts.TimeoutSeconds have
// passed, or another method ends it. A slow yield loses none.
func (m *Memory[T]) Watch(ctx context.Context, opts metav1.ListOptions, yield func(WatchEvent[T]) error) error {
	if err := selectable[T](opts); err != nil {
		return err
	}
	w, err := m.objects.Watch("", opts)
	if err != nil {
		return err
	}
	// Open the watch first, then look for a failure. Fail sets the failure first, then ends the
	// open watches. So either this line finds the failure, or Fail finds the watch.
	if err := m.failing(); err != nil {
		return err
	}
	for {
		ev, err := w.Next(ctx)
		if err == io.EOF {
			return nil
		}
		if err != nil {
			return err
		}
		out := WatchEvent[T]{
			Type:             ev.Type,
			ResourceVersion:  listopts.FormatVersion(ev.Version),
			InitialEventsEnd: ev.InitialEventsEnd,
			Open:             ev.Open,
		}
		if ev.Type != watch.Bookmark {
			out.Object = m.handOut(ev.Object, ev.Version)
		}
		if err := yield(out); err != nil {
			return err
		}
	}
}

// A Writable is a [Source] with typed writes, such as a [Memory] or a collection of module etcd. A
// write that fails because ctx is done may have been made. The other errors are those of
// k8s.io/apimachinery/pkg/api/errors. [Informer.WaitForResourceVersion] waits for what is returned.
type Writable[T Identified] interface {
	Source[T]
	// Get returns the object as it is now, or NotFound.
	Get(ctx context.Context, key Key) (T, error)
	// Create returns obj as it is stored, with a UID and a resource version, or AlreadyExists.
	Create(ctx context.Context, obj T) (T, error)
	// Update replaces the object; if obj has a resource version or a UID, only the one that has
	// them. It returns obj as it is stored, NotFound or Conflict.
	Update(ctx context.Context, obj T) (T, error)
	// Delete removes the object; if version is not empty, only in that version. It returns the
	// version of the deletion, NotFound or Conflict.
	Delete(ctx context.Context, key Key, version string) (string, error)
}

// handOut returns a copy of a stored object, with its UID and with version as resource version. The
// version is that of the object, except for a Deleted event: its object has the version of the
// deletion, as on a server.
func (m *Memory[T]) handOut(obj *history.Object[T], version uint64) T {
	out, err := m.copier.withIdentity(obj.Value, obj.UID, listopts.FormatVersion(version))
	if err != nil {
		// The stored value was made by withIdentity itself, so it can be copied again.
		panic("lw: Memory: " + err.Error())
	}
	return out
}

// A copier copies a T and writes a UID and a resource version into the copy.
type copier[T Identified] struct {
	meta []int // the reflect index of the embedded Meta; nil if T is a metav1.Object
}

// newCopier fails if T cannot be copied, or has no UID and resource version to write. A
// metav1.Object is copied by its DeepCopyObject if it is a runtime.Object, else as a struct; any
// other T is a pointer to a struct that embeds Meta.
func newCopier[T Identified]() (copier[T], error) {
	t := reflect.TypeFor[T]()
	if t.Implements(reflect.TypeFor[metav1.Object]()) {
		if t.Implements(reflect.TypeFor[runtime.Object]()) || t.Kind() == reflect.Pointer && t.Elem().Kind() == reflect.Struct {
			return copier[T]{}, nil
		}
	}
	if t.Kind() == reflect.Pointer && t.Elem().Kind() == reflect.Struct {
		if index := embeddedMeta(t.Elem()); index != nil {
			return copier[T]{meta: index}, nil
		}
	}
	return copier[T]{}, fmt.Errorf("%s has neither metav1.Object nor an embedded lw.Meta", typeName[T]())
}

// embeddedMeta returns the reflect index of the Meta that struct t embeds, directly or through
// other embedded structs, or nil. It does not follow pointers: two copies would share what they
// point to.
func embeddedMeta(t reflect.Type) []int {
	for i := range t.NumField() {
		f := t.Field(i)
		if !f.Anonymous || f.Type.Kind() != reflect.Struct {
			continue
		}
		if f.Type == reflect.TypeFor[Meta]() {
			return f.Index
		}
		// Only through an exported field: reflect cannot write into an unexported one.
		if index := embeddedMeta(f.Type); index != nil && f.IsExported() {
			return append([]int{i}, index...)
		}
	}
	return nil
}

// withIdentity returns a copy of obj that has uid and resourceVersion.
func (c copier[T]) withIdentity(obj T, uid types.UID, resourceVersion string) (T, error) {
	if c.meta != nil {
		out, v := shallow(obj)
		m := v.FieldByIndex(c.meta).Addr().Interface().(*Meta)
		m.UID, m.ResourceVersion = uid, resourceVersion
		return out, nil
	}
	var out T
	if o, ok := any(obj).(runtime.Object); ok {
		copied := o.DeepCopyObject()
		if out, ok = copied.(T); !ok {
			return out, fmt.Errorf("DeepCopyObject of %T returned %T", obj, copied)
		}
	} else {
		out, _ = shallow(obj)
	}
	m := any(out).(metav1.Object)
	m.SetUID(uid)
	m.SetResourceVersion(resourceVersion)
	return out, nil
}

// stamper returns a function that copies an object and writes a resource version into the copy, or
// nil if none can be written.
func stamper[T Identified]() func(obj T, resourceVersion string) (T, error) {
	c, err := newCopier[T]()
	if err != nil {
		return nil
	}
	return func(obj T, resourceVersion string) (T, error) {
		return c.withIdentity(obj, obj.GetUID(), resourceVersion)
	}
}

// shallow copies the struct that obj points to. It returns the pointer to the copy, and the copy as
// a settable Value.
func shallow[T any](obj T) (T, reflect.Value) {
	from := reflect.ValueOf(obj)
	to := reflect.New(from.Type().Elem())
	to.Elem().Set(from.Elem())
	return to.Interface().(T), to.Elem()
}

// labeled is implemented by objects that have labels.
type labeled interface{ GetLabels() map[string]string }

// labelsOf returns the labels of obj, or nil if T has no GetLabels.
func labelsOf[T any](obj T) map[string]string {
	if l, ok := any(obj).(labeled); ok {
		return l.GetLabels()
	}
	return nil
}

// selectable returns an error if opts has a label selector and T has no labels. Without this error
// such a selector would silently select nothing.
func selectable[T Identified](opts metav1.ListOptions) error {
	if opts.LabelSelector == "" || reflect.TypeFor[T]().Implements(reflect.TypeFor[labeled]()) {
		return nil
	}
	return apierrors.NewBadRequest(fmt.Sprintf("label selector %q: %s has no GetLabels", opts.LabelSelector, typeName[T]()))
}

// nameRequired is what an API server answers to an object without a name.
var nameRequired = field.ErrorList{field.Required(field.NewPath("metadata", "name"), "an object needs a name")}
