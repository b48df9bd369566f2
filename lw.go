package lw

import (
	"context"
	"reflect"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/watch"
)

// Object is what a collection holds: a comparable (pointer) type that knows its identity. Every API type is one, and so is a
// small struct of your own that embeds [Meta]. Objects in a store are shared by all its readers and must not be changed.
type Object interface {
	comparable
	GetNamespace() string
	GetName() string
	GetUID() types.UID
	GetResourceVersion() string
}

// ObjectList is a list type of an API, such as *corev1.PodList or *[ListOf].
type ObjectList interface {
	runtime.Object
	metav1.ListInterface
}

// Key names an object within its collection. Namespace is empty for objects of the cluster's scope.
type Key = types.NamespacedName

// KeyOf returns the key of obj.
func KeyOf[T Object](obj T) Key {
	return Key{Namespace: obj.GetNamespace(), Name: obj.GetName()}
}

// Meta is an object's identity, to embed in the result of a [Transform].
type Meta struct {
	Namespace       string
	Name            string
	UID             types.UID
	ResourceVersion string
}

// GetNamespace returns the namespace, which is empty for an object of the cluster's scope.
func (m *Meta) GetNamespace() string { return m.Namespace }

// GetName returns the name.
func (m *Meta) GetName() string { return m.Name }

// GetUID returns the UID, which tells an object from a later one of the same name.
func (m *Meta) GetUID() types.UID { return m.UID }

// GetResourceVersion returns the version of the collection that wrote this version of the object.
func (m *Meta) GetResourceVersion() string { return m.ResourceVersion }

// Key returns the key.
func (m *Meta) Key() Key { return Key{Namespace: m.Namespace, Name: m.Name} }

// MetaOf returns the identity of obj.
func MetaOf[T Object](obj T) Meta {
	return Meta{
		Namespace:       obj.GetNamespace(),
		Name:            obj.GetName(),
		UID:             obj.GetUID(),
		ResourceVersion: obj.GetResourceVersion(),
	}
}

// A Source lists and watches one collection. [*ListWatch], [*HTTP] and [*Memory] are Sources, and so are the results of
// [WithListOptions] and [Transform].
//
// A Source is used by one [Reflector] at a time, and calls yield from the goroutine that called it. Both methods return soon
// after ctx is done. They pass opts on as they are; the meaning of its fields is that of the Kubernetes API
// (https://kubernetes.io/docs/reference/using-api/api-concepts/).
//
// A Source that wraps another hands on the events as they came, or with all their fields, and is a [Hinter], whose hints are
// [HintsOf] the one inside.
type Source[T Object] interface {
	// List yields each object of the collection, or of the page that opts asks for, in turn; err is set instead of obj for
	// one that cannot be decoded, as an [*Error] with its Key where that is known. It returns the list's metadata. An error
	// from yield ends it and is returned.
	List(ctx context.Context, opts metav1.ListOptions, yield func(obj T, err error) error) (metav1.ListMeta, error)
	// Watch yields each event in turn until the server ends the stream (nil), the stream breaks, or yield returns an error,
	// which is returned. Events come in the order of their versions; only the objects of a streamed list, each an Added one,
	// come before them in any order.
	Watch(ctx context.Context, opts metav1.ListOptions, yield func(WatchEvent[T]) error) error
}

// A WatchEvent is one change that a [Source] saw.
type WatchEvent[T Object] struct {
	Type             watch.EventType // Added, Modified, Deleted or Bookmark; an ERROR event is Watch's error
	Object           T               // zero for a Bookmark and where Err is set; may be zero for Deleted, see Identity
	ResourceVersion  string          // the version of the collection that this event leads to
	InitialEventsEnd bool            // the bookmark that ends the initial events of a streamed list
	// More says that the source has the next event at hand and yields it without waiting, so that handlers may be woken once
	// for both: after 1024 events or about half a millisecond at the latest. Reads show each event at once all the same.
	More bool
	// Omitted says of a Deleted that the server has sent an Added, whose object is left out on the way, as [Transform] may: there
	// need not be anything to delete.
	Omitted bool
	Err     error // the object could not be decoded or transformed: an *Error, with the Key where it is known

	// Identity is that of a Deleted which carries no object, as behind a [Transform]. It is nil where Object is set, and must
	// not be changed.
	Identity *Meta
}

// Key returns the key of the object that the event is about, also of a Deleted that carries no object; it is zero for a
// Bookmark.
func (e *WatchEvent[T]) Key() Key {
	var zero T
	switch {
	case e.Object != zero:
		return KeyOf(e.Object)
	case e.Identity != nil:
		return e.Identity.Key()
	case e.Err != nil:
		return keyOfError(e.Err)
	}
	return Key{}
}

// id returns what is known of the identity of the object that the event is about.
func (e *WatchEvent[T]) id() (id Meta) {
	var zero T
	if e.Object != zero {
		id = MetaOf(e.Object)
	} else if e.Identity != nil {
		id = *e.Identity
	}
	return id
}

// InitialEventsEnd is the annotation of the bookmark that ends the initial events of a streamed list
// (https://kep.k8s.io/3157).
const initialEventsEnd = metav1.InitialEventsAnnotationKey

// typeName is T's name without its package and pointer, as users say it: Pod.
func typeName[T any]() string {
	t := reflect.TypeFor[T]()
	for t.Kind() == reflect.Pointer {
		t = t.Elem()
	}
	if t.Name() == "" {
		return t.String()
	}
	return t.Name()
}

// SourceHints are what a [Source] knows of itself that no answer shows. The zero value says nothing.
type SourceHints struct {
	// NoStream: the source cannot stream its initial list, and to try would only cost time.
	NoStream bool
	// Unversioned: resource versions mean nothing, as those of a fake clientset, which stamps none on its objects. Events are
	// believed in the order of their arrival.
	Unversioned bool
	// Partial: the source leaves objects out, so that one may be modified or deleted that was never added.
	Partial bool
}

// A Hinter is a [Source] that has hints. Hints is called in the goroutine that reads from the server, and is to be quick.
type Hinter interface{ Hints() SourceHints }

// HintsOf returns the hints of src; the zero value where it is no [Hinter].
func HintsOf[T Object](src Source[T]) SourceHints {
	if h, ok := src.(Hinter); ok {
		return h.Hints()
	}
	return SourceHints{}
}

// leftOutKey is the key of leftOutByTransform in a context.
type leftOutKey struct{}

// withLeftOutByTransform returns a context for a List, in which a Transform calls f for each object
// that it leaves out. So a reflector sees that the list makes progress, although none of these
// objects is yielded.
func withLeftOutByTransform(ctx context.Context, f func()) context.Context {
	return context.WithValue(ctx, leftOutKey{}, f)
}

// leftOutByTransform returns the function that ctx has from withLeftOutByTransform, or one that does
// nothing.
func leftOutByTransform(ctx context.Context) func() {
	if f, ok := ctx.Value(leftOutKey{}).(func()); ok {
		return f
	}
	return func() {}
}

// isNil reports whether v is nil, or holds a nil pointer.
func isNil(v any) bool {
	r := reflect.ValueOf(v)
	return !r.IsValid() || r.Kind() == reflect.Pointer && r.IsNil()
}
