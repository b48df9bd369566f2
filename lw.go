package lw

import (
	"context"
	"fmt"
	"iter"
	"reflect"
	"slices"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/resourceversion"
	"k8s.io/apimachinery/pkg/watch"

	"github.com/go-lw/lw/internal/demand"
	"github.com/go-lw/lw/internal/equal"
	"github.com/go-lw/lw/internal/graph/arrange"
	"github.com/go-lw/lw/internal/request"
	"github.com/go-lw/lw/internal/table"
)

// Object is the constraint on the objects of a collection: a comparable type, in practice a
// pointer, that knows its identity. Every Kubernetes API type is one, and so is a pointer to a
// struct of your own that embeds [Meta].
type Object interface {
	comparable
	Identified
}

// Identified is to be read as [Object], which the constructors ask for.
type Identified interface {
	// It is apart from Object because without comparable all pointers share the compiler's code.

	GetNamespace() string
	GetName() string
	GetUID() types.UID
	GetResourceVersion() string
}

// Key names an object within its collection. Namespace is empty if it has none.
type Key = types.NamespacedName

// KeyOf returns the key of obj.
func KeyOf[T Identified](obj T) Key {
	return Key{Namespace: obj.GetNamespace(), Name: obj.GetName()}
}

// Meta is an object's identity. Embed it in a struct to make a pointer to that struct an [Object],
// as the result of a [Transform] or for [HTTP] to decode into:
//
//	lw.Meta `json:"metadata" protobuf:"bytes,1,opt,name=metadata"`
type Meta struct {
	Namespace       string    `json:"namespace,omitempty" protobuf:"bytes,3,opt,name=namespace"`
	Name            string    `json:"name" protobuf:"bytes,1,opt,name=name"`
	UID             types.UID `json:"uid,omitempty" protobuf:"bytes,5,opt,name=uid"`
	ResourceVersion string    `json:"resourceVersion,omitempty" protobuf:"bytes,6,opt,name=resourceVersion"`
}

// GetNamespace returns the namespace.
func (m *Meta) GetNamespace() string { return m.Namespace }

// GetName returns the name.
func (m *Meta) GetName() string { return m.Name }

// GetUID returns the UID.
func (m *Meta) GetUID() types.UID { return m.UID }

// GetResourceVersion returns the resource version.
func (m *Meta) GetResourceVersion() string { return m.ResourceVersion }

// key returns the key.
func (m *Meta) key() Key { return Key{Namespace: m.Namespace, Name: m.Name} }

// MetaOf returns a copy of the identity of obj.
func MetaOf[T Identified](obj T) Meta {
	return Meta{
		Namespace:       obj.GetNamespace(),
		Name:            obj.GetName(),
		UID:             obj.GetUID(),
		ResourceVersion: obj.GetResourceVersion(),
	}
}

// A Source lists and watches one collection. [*ListWatch], [*HTTP] and [*Memory] are Sources, and
// so are the results of [WithListOptions], [Transform], [Shard], [Poll] and [Feed].
//
// One [Reflector] at a time uses a Source, for one request at a time; but [Informer.CatchUp] calls
// List in another goroutine, also during a Watch. List and Watch call yield in the goroutine that
// called them, and return soon after ctx is done. If yield returns an error, they end and return
// it. The fields of opts are those of https://kubernetes.io/docs/reference/using-api/api-concepts/.
// A Source that wraps another one passes ctx and opts on, and the events as they are or with all
// their fields, and its Hints returns [HintsOf] the other.
type Source[T Identified] interface {
	// List calls yield for each object of the collection, or of the page that opts asks for, and
	// returns the metadata of the list. For an object that cannot be decoded it passes err instead
	// of obj: an [*Error], with its Key if that is known.
	List(ctx context.Context, opts metav1.ListOptions, yield func(obj T, err error) error) (metav1.ListMeta, error)
	// Watch calls yield for each event, in the order of their resource versions; the objects of a
	// streamed list come before them, in any order, as Added. It returns nil when the server has
	// ended the stream, and an error if the stream breaks.
	Watch(ctx context.Context, opts metav1.ListOptions, yield func(WatchEvent[T]) error) error
}

// A Teller is a [Source] for [Informer.Tell]: of an object that the server has answered to a write
// or a get, it makes what List and Watch would have yielded. [*HTTP], [*ListWatch] and [*Memory]
// are Tellers, and so are the results of [Transform], [Shard] and [WithListOptions] if their source
// is. See [Informer.Tell].
type Teller[T Identified] interface {
	Source[T]
	// Told returns an object that shares nothing with obj, whatever type that has. stays is false if
	// the collection leaves it out. The error wraps [ErrKeep] if it is not to be shown, and
	// errors.ErrUnsupported if the source cannot do that. Any goroutine may call Told, also during a
	// List or a Watch.
	Told(obj Identified) (out T, stays bool, err error)
}

// A WatchEvent is one event of a watch, as a [Source] yields it.
type WatchEvent[T Identified] struct {
	Type watch.EventType // Added, Modified, Deleted or Bookmark; an ERROR event is the error of Watch
	// Object is the object after the event, or the last state of a Deleted one. It is zero for a
	// Bookmark, if Err is set, and for a Deleted with an Identity.
	Object           T
	ResourceVersion  string // of the collection, right after this event
	InitialEventsEnd bool   // a Bookmark that ends the initial events of a streamed list
	// More says that the source already has the next event and yields it without waiting. Handlers
	// are then woken once for several events, of at most 1024 or about half a millisecond.
	More bool
	// Open says that more events of this version follow at once, such as those of one transaction.
	// They are shown together when one without Open has come, which may be a Bookmark of the version;
	// a Watch that ends before has said nothing of it.
	Open bool
	// Filtered marks a Deleted that stands for an Added of an object which was left out by a
	// [Transform] or a [Shard]: there may be nothing to delete. Of a Bookmark it says that objects
	// which nobody wants have come; see [Wanted].
	Filtered bool
	Err      error // why the object could not be decoded or transformed, an *[Error]
	// Identity is that of a Deleted without an Object, as a [Transform] yields it. Do not change it.
	Identity *Meta
}

// Key returns the key of Object, Identity or Err; zero if none of these has one.
func (e *WatchEvent[T]) Key() Key {
	switch {
	case !equal.IsZero(e.Object):
		return KeyOf(e.Object)
	case e.Identity != nil:
		return e.Identity.key()
	case e.Err != nil:
		return keyOfError(e.Err)
	}
	return Key{}
}

// id returns the identity of the event's object, or the zero Meta if the event has none.
func (e *WatchEvent[T]) id() (id Meta) {
	if !equal.IsZero(e.Object) {
		id = MetaOf(e.Object)
	} else if e.Identity != nil {
		id = *e.Identity
	}
	return id
}

// An EventType says what happened to an object of a store. The events of a server are a
// watch.EventType, in other words: Added, Modified, Deleted and Bookmark; see [WatchEvent].
type EventType uint8

const (
	Added   EventType = iota + 1 // the object is new, or new to this consumer
	Updated                      // the object has another version, and the same UID
	Deleted                      // the object is gone
)

func (t EventType) String() string {
	switch t {
	case Added:
		return "added"
	case Updated:
		return "updated"
	case Deleted:
		return "deleted"
	}
	return fmt.Sprintf("EventType(%d)", uint8(t))
}

// A Cause says how a change became known.
type Cause uint8

const (
	CauseInitial Cause = iota + 1 // the first list, or the snapshot that a late handler starts with
	CauseWatch                    // an event of a watch
	CauseRelist                   // the comparison of a later list with what was known
	CauseResync                   // nothing changed: it was time for the Resync of a handler
	CauseDerived                  // a step of a [Graph]
	CauseTold                     // [Informer.Tell] or [Informer.TellDeleted]
	CauseWanted                   // the object is wanted, or nobody wants it any more; see [Wanted]
)

func (c Cause) String() string {
	switch c {
	case CauseInitial:
		return "initial"
	case CauseWatch:
		return "watch"
	case CauseRelist:
		return "relist"
	case CauseResync:
		return "resync"
	case CauseDerived:
		return "derived"
	case CauseTold:
		return "told"
	case CauseWanted:
		return "wanted"
	}
	return fmt.Sprintf("Cause(%d)", uint8(c))
}

// defaultLimit is how many deltas a consumer may be behind before its backlog is folded.
const defaultLimit = 1024

// A Delta is one change of one object, as [Informer.Events] yields it, a [Cursor] returns it and
// [Handler.Change] gets it. Its objects are shared.
type Delta[T Identified] struct {
	Type            EventType
	Cause           Cause  // if changes were folded, that of the last one which is not CauseTold, if any
	Initial         bool   // an Added of the content that the consumer begins with
	Old             T      // the version before, as this consumer has it; zero for Added
	New             T      // zero for Deleted
	ResourceVersion string // of the collection, after the change
}

// Object returns New, or Old of a Deleted.
func (d Delta[T]) Object() T {
	if d.Type == Deleted {
		return d.Old
	}
	return d.New
}

// Key returns the key of the object.
func (d Delta[T]) Key() Key { return KeyOf(d.Object()) }

// as returns d as a change of that type, which a Filter has made of it.
func (d Delta[T]) as(typ EventType) Delta[T] {
	var zero T
	switch d.Type = typ; typ {
	case Added:
		d.Old = zero
	case Deleted:
		d.New = zero
	}
	return d
}

// emit calls yield with the deltas that lead from d.Old to d.New, and sets their types. There is
// none if both are one object. There are two if the UID differs, because the object was deleted and
// created again. In all other cases there is one. A zero Old or New means that there is no object.
func emit[T Identified](d Delta[T], yield func(Delta[T])) {
	var zero T
	switch {
	case equal.Same(d.Old, d.New):
	case equal.IsZero(d.Old):
		d.Type = Added
		yield(d)
	case equal.IsZero(d.New):
		d.Type, d.Initial = Deleted, false
		yield(d)
	case d.Old.GetUID() == d.New.GetUID():
		d.Type, d.Initial = Updated, false
		yield(d)
	default:
		gone, came := d, d
		gone.Type, gone.Initial, gone.New = Deleted, false, zero
		came.Type, came.Old = Added, zero
		yield(gone)
		yield(came)
	}
}

// initialEventsEnd is the annotation of the bookmark that ends the initial events of a streamed
// list (https://kep.k8s.io/3157).
const initialEventsEnd = metav1.InitialEventsAnnotationKey

// typeName returns T's name without its package and pointer, such as Pod.
func typeName[T any]() string { return nameOf(reflect.TypeFor[T]()) }

// nameOf returns the name of t without its package and pointer.
func nameOf(t reflect.Type) string {
	for t.Kind() == reflect.Pointer {
		t = t.Elem()
	}
	if t.Name() == "" {
		return t.String()
	}
	return t.Name()
}

// SourceHints are what a [Source] can tell beside its answers, by a method Hints() SourceHints. It
// is called during each list and each watch, and by waits for a version, in any goroutine, so it
// must be quick. Its answer may change.
type SourceHints struct {
	NoStream bool // the source cannot stream a list, and trying would only cost time
	// Unversioned: the resource versions mean nothing, as in a fake clientset. Events then count as
	// they arrive, and a list follows whenever Watch returns, at most once in 2.2 s.
	Unversioned bool
	unnamed     bool   // objects may have no name, as in a fake clientset; else that is an error
	Partial     bool   // objects are left out, so an event may be about one that was never Added
	Decoder     string // who decodes the objects: "lw", "apimachinery" or "client-go"; see Status.Decoder
	Unserved    string // why nobody serves the collection, which is empty then; "": it is served; see package kinds
	// StillHas, if it is set, tells whether the server still has the history that was read: whether
	// obj, by its resource version and, unless that is empty, its UID, was the newest state of its key
	// when the collection was at version. After an outage a [Reflector] asks about the newest object
	// that it has, and begins a new epoch if the answer is no; see [ErrRewound]. An error leaves it
	// open: 410 Expired if that state is too old for the server, errors.ErrUnsupported if the source
	// cannot tell. It is not called during a List or a Watch. See [StillHasByList].
	StillHas func(ctx context.Context, obj Meta, version string) (bool, error)
	// Progress, if it is set, has the open Watch yield a Bookmark soon. It does not wait for it. A
	// wait for a version calls it, in any goroutine, where it would else end the watch.
	Progress func()
	// polled, if it is set, tells when the last whole list began and the next is due, for Status.
	polled func() (last, due time.Time)
}

// HintsOf returns the hints of src, or the zero value if it gives none.
func HintsOf[T Identified](src Source[T]) SourceHints {
	if h, ok := src.(interface{ Hints() SourceHints }); ok {
		return h.Hints()
	}
	return SourceHints{}
}

// tellerOf returns src as a Teller, or nil. A source that wraps another has a method which says
// whether that is one.
func tellerOf[T Identified](src Source[T]) Teller[T] {
	if w, ok := src.(interface{ tells() bool }); ok && !w.tells() {
		return nil
	}
	to, _ := src.(Teller[T])
	return to
}

// demandOf returns the demand of a Wanted in src, or nil.
func demandOf[T Identified](src Source[T]) *demand.Demand {
	if w, ok := src.(interface{ demands() *demand.Demand }); ok {
		return w.demands()
	}
	return nil
}

// isNil reports whether v is nil, or holds a nil pointer.
func isNil(v any) bool {
	r := reflect.ValueOf(v)
	return !r.IsValid() || r.Kind() == reflect.Pointer && r.IsNil()
}

// orNone returns what a function of the user's has returned; nil means that there is nothing.
func orNone[T any](seq iter.Seq[T]) iter.Seq[T] {
	if seq == nil {
		return func(func(T) bool) {}
	}
	return seq
}

// without returns s without the first v in it. It changes s in place.
func without[T comparable](s []T, v T) []T {
	if i := slices.Index(s, v); i >= 0 {
		return slices.Delete(s, i, i+1)
	}
	return s
}

// compareKeys orders by namespace, then by name.
func compareKeys(a, b Key) int { return arrange.Compare(a, b) }

// reuses reports whether src decodes objects for which it can use the last versions, and yields
// them as it has decoded them.
func reuses[T Identified](src Source[T]) bool {
	if own, ok := src.(interface{ reuses() bool }); ok {
		return own.reuses()
	}
	return request.Reuses(src)
}

// OwnerUIDs yields the UIDs of the owners of obj, for [NewMultiIndex].
func OwnerUIDs[T metav1.Object](obj T) iter.Seq[types.UID] {
	return func(yield func(types.UID) bool) {
		for _, owner := range obj.GetOwnerReferences() {
			if !yield(owner.UID) {
				return
			}
		}
	}
}

// This file has every rule about resource versions: which of two is older, and when two objects are
// the same. A server promises only that versions of one collection can be compared for equality.
// Versions that are decimal numbers without a leading zero also have an order, as of Kubernetes
// 1.35 (https://kep.k8s.io/5504). No order is assumed for any other version, such as "" or "0".

// A position is a resource version together with its number, so that each version is parsed once,
// however often it is compared.
type position struct {
	version string
	number  uint64 // decimal(version)
}

func positionAt(version string) position { return position{version, decimal(version)} }

// before reports whether p is older than q. If known is false, one of them has no order.
func (p position) before(q position) (older, known bool) {
	// The fast path: each event is compared, and nearly every version fits a word.
	if p.number != 0 && q.number != 0 {
		return p.number < q.number, true
	}
	c, err := resourceversion.CompareResourceVersion(p.version, q.version)
	return c < 0, err == nil
}

// ordered reports whether p has an order: it can be compared with itself.
func (p position) ordered() bool {
	_, known := p.before(p)
	return known
}

// covers reports whether q is certainly not newer than p.
func (p position) covers(q position) bool {
	older, known := p.before(q)
	return known && !older
}

// lacks reports whether version is certainly newer than p.
func (p position) lacks(version string) bool {
	older, known := p.before(positionAt(version))
	return known && older
}

// after reports whether p is certainly newer than version.
func (p position) after(version string) bool {
	c, err := resourceversion.CompareResourceVersion(p.version, version)
	return err == nil && c > 0
}

// newestOf returns the identity of the object with the newest version; the zero Meta if there is
// none, or no version has an order. It passes over the keys of which skip is true.
func newestOf[T Identified](objs iter.Seq[T], skip func(Key) bool) (id Meta) {
	var newest position
	for obj := range objs {
		at := positionAt(obj.GetResourceVersion())
		than := newest
		if than.version == "" {
			than = at
		}
		older, ordered := than.before(at)
		if ordered && (older || newest.version == "") && !skip(KeyOf(obj)) {
			newest, id = at, MetaOf(obj)
		}
	}
	return id
}

// decimal returns version as a number. It returns 0 if version has no order or has more than 19
// digits.
func decimal(version string) (n uint64) {
	const fits = 19 // every number of 19 digits fits a uint64
	if version == "" || len(version) > fits || version[0] == '0' {
		return 0
	}
	for i := range len(version) {
		digit := version[i] - '0'
		if digit > 9 {
			return 0
		}
		n = 10*n + uint64(digit)
	}
	return n
}

// older reports whether a is certainly an older version than b.
func older[T Identified](a, b T) bool {
	c, err := resourceversion.CompareResourceVersion(a.GetResourceVersion(), b.GetResourceVersion())
	return err == nil && c < 0
}

// notOlder reports whether b is not older than a, as far as their versions have an order.
func notOlder[T Identified](a, b T) bool { return !older(b, a) }

// sameVersion reports whether a and b say that they are the same version of the same object. Two
// objects without a resource version say nothing, so they are the same by this rule.
func sameVersion[T Identified](a, b T) bool {
	return a.GetResourceVersion() == b.GetResourceVersion() && a.GetUID() == b.GetUID()
}

// unchanged reports whether b is the version that a is. Two objects without a resource version
// count as different unless they are one object: otherwise a change would be lost if the source
// sets no versions.
func unchanged[T Identified](a, b T) bool {
	return equal.Same(a, b) || a.GetResourceVersion() != "" && sameVersion(a, b)
}

// sameContent is like unchanged, but compares the whole objects where equal versions prove nothing:
// if the objects have no versions, or if distrust is true. distrust means that equal versions may
// belong to different content, because the server went back in time or is a fake.
func sameContent[T Identified](a, b T, distrust bool) bool {
	if !distrust && unchanged(a, b) {
		return true
	}
	return equal.Same(a, b) || sameVersion(a, b) && sameDeep(a, b)
}

// sameDeep reports whether a and b are equal in all that they lead to: of what is packed, whether the
// objects are.
func sameDeep(a, b any) bool {
	if p, ok := a.(packedObject); ok {
		return p.sameAs(b)
	}
	if p, ok := b.(packedObject); ok {
		return p.sameAs(a)
	}
	return reflect.DeepEqual(a, b)
}

// A packedObject is a *Packed, or a struct that embeds one, as package clientgo has.
type packedObject interface {
	Identified
	self() any // the *Packed
	sameAs(other any) bool
	peekAny() any           // what Peek returns; nil: nobody has the object
	copyAny() any           // what Copy returns; nil: it was let go
	memo() *table.Memo      // of the values in indexes; nil: the object is always there
	left()                  // is called when the store does not have it any more
	watch(func(p, obj any)) // has what is decoded be shown before it is shared
}

// mayBePacked reports whether a T may be a packedObject.
func mayBePacked[T Identified]() bool {
	_, packed := any(*new(T)).(packedObject)
	return packed || reflect.TypeFor[T]().Kind() == reflect.Interface
}
