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
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/watch"

	"github.com/go-lw/lw/internal/history"
)

// Memory is a [Source] held in memory, with the semantics of a real API server: one line of resource versions, every version
// kept until [Memory.Compact], lists in pages of one version, watches from any kept version, streamed lists, bookmarks, and
// a server's errors (those of k8s.io/apimachinery/pkg/api/errors). A watch that starts at a list's resource version misses
// nothing that was written in between, so that a test with it does not race.
//
// It is safe for concurrent use by any number of informers and writers. It keeps copies and hands out copies, so that what it
// was given and has handed out belongs to the caller; where T has no DeepCopyObject the copy is of the struct alone, and what
// its maps, slices and pointers hold must not be changed. It has no goroutine and needs no closing. Label selectors work for
// a T with GetLabels, field selectors for metadata.name and metadata.namespace.
type Memory[T Object] struct {
	line    *history.Line
	objects *history.Collection[T]
	copier  copier[T]

	mu      sync.Mutex
	failure error // what requests fail with; guarded by mu
}

// NewMemory returns a Memory that holds objs, each created in turn. T must be able to take a UID and a resource version: it
// is a metav1.Object, as every API type is, or a pointer to a struct that embeds [Meta]. NewMemory panics where it is
// neither, and where an object of objs cannot be created.
func NewMemory[T Object](objs ...T) *Memory[T] {
	copier, err := newCopier[T]()
	if err != nil {
		panic("lw: NewMemory: " + err.Error())
	}
	plural, _ := meta.UnsafeGuessKindToResource(schema.GroupVersionKind{Kind: typeName[T]()})
	m := &Memory[T]{line: history.NewLine(), copier: copier}
	m.objects = history.NewCollection(m.line, history.Options[T]{
		Resource: plural.GroupResource(),
		// What is kept has neither UID nor resource version, so this compares what a user can write.
		Same: func(old, new *history.Object[T]) bool { return reflect.DeepEqual(old.Value, new.Value) },
	})
	for _, obj := range objs {
		if _, err := m.Create(obj); err != nil {
			panic("lw: NewMemory: " + err.Error())
		}
	}
	return m
}

// Create adds a copy of obj, with the next resource version and, where obj has none, a UID, and returns a copy of that. It
// fails with AlreadyExists, or with Invalid where obj has no name.
func (m *Memory[T]) Create(obj T) (T, error) {
	return m.write("create", obj, m.objects.Create)
}

// Update replaces the object of obj's key by a copy of obj with the next resource version and returns a copy of that. An
// update that changes nothing makes no version. It fails with NotFound; with Conflict where obj carries another resource
// version than the current object's, or another UID; obj may leave out either.
func (m *Memory[T]) Update(obj T) (T, error) {
	return m.write("update", obj, func(o history.Object[T]) (*history.Object[T], error) {
		version, err := history.ParseVersion(obj.GetResourceVersion())
		if err != nil {
			return nil, apierrors.NewBadRequest(fmt.Sprintf("lw: Memory: update %s: %v", keyString(o.Key), err))
		}
		return m.objects.Update(o, history.Preconditions{Version: version})
	})
}

func (m *Memory[T]) write(op string, obj T, store func(history.Object[T]) (*history.Object[T], error)) (T, error) {
	var zero T
	if obj == zero {
		return zero, apierrors.NewBadRequest(fmt.Sprintf("lw: Memory: %s: nil %s", op, typeName[T]()))
	}
	key := KeyOf(obj)
	if key.Name == "" {
		return zero, apierrors.NewInvalid(schema.GroupKind{Kind: typeName[T]()}, "", nameRequired)
	}
	value, err := m.copier.stamped(obj, "", "")
	if err != nil {
		return zero, fmt.Errorf("lw: Memory: %s %s: %w", op, keyString(key), err)
	}
	stored, err := store(history.Object[T]{Key: key, UID: obj.GetUID(), Labels: labelsOf(value), Value: value})
	if err != nil {
		return zero, err
	}
	return m.handOut(stored, stored.Version), nil
}

// Delete removes the object of key at once: finalizers are not looked at. It fails with NotFound.
func (m *Memory[T]) Delete(key Key) error {
	_, _, err := m.objects.Delete(key, history.Preconditions{})
	return err
}

// Get returns a copy of the current object of key.
func (m *Memory[T]) Get(key Key) (obj T, ok bool) {
	stored, err := m.objects.Get(key)
	if err != nil {
		return obj, false
	}
	return m.handOut(stored, stored.Version), true
}

// All returns copies of the objects of one state, that of the call, in the order of their keys.
func (m *Memory[T]) All() iter.Seq[T] {
	page, err := m.objects.List("", metav1.ListOptions{})
	if err != nil {
		panic("lw: Memory: All: " + err.Error()) // the plainest list cannot fail
	}
	return func(yield func(T) bool) {
		for _, obj := range page.Items {
			if !yield(m.handOut(obj, obj.Version)) {
				return
			}
		}
	}
}

// ResourceVersion returns the version of the last write.
func (m *Memory[T]) ResourceVersion() string { return history.FormatVersion(m.line.Version()) }

// Compact forgets all states but the current one: a list or watch from an older resource version fails with 410 Expired, and
// so does an open watch that has not told of all changes yet.
func (m *Memory[T]) Compact() { m.line.Compact(m.line.Version()) }

// Disconnect ends every open watch, as a server does at the end of a watch's time.
func (m *Memory[T]) Disconnect() { m.line.Disconnect() }

// Bookmark makes every open watch that allows bookmarks send one now. By themselves they are sent every minute and two
// seconds before the end of a watch's time.
func (m *Memory[T]) Bookmark() { m.line.Bookmark() }

// Rewind goes back to the state of an older resource version and ends every open watch, as a server does that is restored
// from a backup. It fails with Expired where that state was compacted.
func (m *Memory[T]) Rewind(resourceVersion string) error {
	version, err := history.ParseVersion(resourceVersion)
	if err != nil {
		return fmt.Errorf("lw: Memory: rewind: %w", err)
	}
	return m.line.Rewind(version)
}

// Fail makes every List and Watch from now on fail with err, until Fail(nil), and ends every open watch. Writes go on.
func (m *Memory[T]) Fail(err error) {
	m.mu.Lock()
	m.failure = err
	m.mu.Unlock()
	if err != nil {
		m.line.Disconnect()
	}
}

func (m *Memory[T]) failing() error {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.failure
}

// List yields a copy of each object of the list or page that opts asks for, in the order of their keys.
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
		ResourceVersion:    history.FormatVersion(page.Version),
		Continue:           page.Continue,
		RemainingItemCount: page.Remaining,
	}, nil
}

// Watch yields each event, with a copy of its object, until ctx is done, opts.TimeoutSeconds have passed, or the watch is
// ended by Disconnect, Fail, Rewind or Compact. A slow yield loses nothing, but for a Compact in the meantime.
func (m *Memory[T]) Watch(ctx context.Context, opts metav1.ListOptions, yield func(WatchEvent[T]) error) error {
	if err := selectable[T](opts); err != nil {
		return err
	}
	w, err := m.objects.Watch("", opts)
	if err != nil {
		return err
	}
	// After the watch is open, so that a Fail at the same time either is seen here or ends the watch.
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
			ResourceVersion:  history.FormatVersion(ev.Version),
			InitialEventsEnd: ev.InitialEventsEnd,
		}
		if ev.Type != watch.Bookmark {
			out.Object = m.handOut(ev.Object, ev.Version)
		}
		if err := yield(out); err != nil {
			return err
		}
	}
}

// handOut returns a copy of a kept object as of version.
func (m *Memory[T]) handOut(obj *history.Object[T], version uint64) T {
	out, err := m.copier.stamped(obj.Value, obj.UID, history.FormatVersion(version))
	if err != nil {
		panic("lw: Memory: " + err.Error()) // what is kept is itself such a copy
	}
	return out
}
