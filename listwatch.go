package lw

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"reflect"
	"sync/atomic"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/watch"

	"github.com/go-lw/lw/internal/equal"
	"github.com/go-lw/lw/internal/request"
	"github.com/go-lw/lw/internal/rest"
)

// Client is the part of a generated client that [FromClient] needs. Get is never called: the
// compiler infers T from it.
type Client[T Identified, L runtime.Object] interface {
	Get(ctx context.Context, name string, opts metav1.GetOptions) (T, error)
	List(ctx context.Context, opts metav1.ListOptions) (L, error)
	Watch(ctx context.Context, opts metav1.ListOptions) (watch.Interface, error)
}

// A ListWatch is a [Source] made of two functions, which must return soon after their context is
// done. L is the list type; runtime.Object is any.
type ListWatch[T Identified, L runtime.Object] struct {
	ListFunc  func(ctx context.Context, opts metav1.ListOptions) (L, error)
	WatchFunc func(ctx context.Context, opts metav1.ListOptions) (watch.Interface, error)

	fake      fakeClient
	decoder   string // for the hints
	tweak     []func(*metav1.ListOptions)
	namespace string // whose objects the client asks for; "": all, or not known
	client    bool   // a client makes the requests, and no function of the program
}

// FromClient returns a Source over a generated client, real or fake, for
// lw.FromClient(clientset.CoreV1().Pods("")). Each tweak may narrow the options of every request,
// as with [WithListOptions]. client-go decodes the objects, and its watch hides that a connection
// broke; an [HTTP] does not, and costs less CPU: package clientgo makes one of a rest.Config.
//
// A dynamic or a metadata client does not fit, since its Get may name subresources: a [ListWatch] of
// its List and its Watch is the Source then.
//
// A client keeps its URL to itself. So the error of a request names what was asked for instead: the
// type, the namespace and the selectors.
func FromClient[T Object, L runtime.Object](c Client[T, L], tweak ...func(*metav1.ListOptions)) *ListWatch[T, L] {
	if isNil(c) {
		panic("lw: FromClient: nil client")
	}
	mustBeFuncs("FromClient", tweak)
	lw := &ListWatch[T, L]{
		tweak: tweak, client: true,
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
	switch c := any(c).(type) { // a client of client-go, and a fake
	case interface{ GetNamespace() string }:
		lw.namespace = c.GetNamespace()
	case interface{ Namespace() string }:
		lw.namespace = c.Namespace()
	}
	lw.fake.of(c)
	if !lw.fake.known.Load() {
		lw.decoder = "client-go"
	}
	return lw
}

// Hints says that client-go decodes, and what client-go's fakes cannot do.
func (lw *ListWatch[T, L]) Hints() SourceHints {
	h := lw.fake.hints()
	h.Decoder = lw.decoder
	opts, _ := tweaked(metav1.ListOptions{}, lw.tweak)
	h.Partial = opts.ShardSelector != ""
	h.StillHas = func(ctx context.Context, obj Meta, version string) (bool, error) {
		return StillHasByList(ctx, lw, obj, version)
	}
	return h
}

// Told is part of [Teller]. obj is a T, or is converted by its JSON.
func (lw *ListWatch[T, L]) Told(obj Identified) (out T, stays bool, err error) {
	opts, err := tweaked(metav1.ListOptions{}, lw.tweak)
	if err == nil && (lw.namespace == "" || lw.namespace == obj.GetNamespace()) {
		stays, err = selects(opts, obj)
	}
	if err != nil || !stays {
		return out, false, err
	}
	if own, ok := obj.(T); ok {
		copier, err := newCopier[T]()
		if err == nil {
			out, err = copier.withIdentity(own, own.GetUID(), own.GetResourceVersion())
		}
		return out, err == nil, err
	}
	t := reflect.TypeFor[T]()
	if a, ok := obj.(*request.Answer); ok {
		got, err := a.Decode(t)
		out, stays = got.(T)
		return out, stays, err
	}
	if t.Kind() != reflect.Pointer {
		return out, false, fmt.Errorf("lw: ListWatch: %s is told of a %T", typeName[T](), obj)
	}
	out = reflect.New(t.Elem()).Interface().(T)
	data, err := json.Marshal(obj)
	if err == nil {
		err = json.Unmarshal(data, out)
	}
	return out, err == nil, err
}

// failed returns err, that of a request with opts, with the words of the server, and if a client made
// the request, with what it asked for.
func (lw *ListWatch[T, L]) failed(opts metav1.ListOptions, err error) error {
	err = rest.WithWords(err)
	if !lw.client {
		return err
	}
	asked := typeName[T]()
	if lw.namespace != "" {
		asked += " in namespace " + lw.namespace
	}
	if opts.LabelSelector != "" {
		asked += fmt.Sprintf(", label selector %q", opts.LabelSelector)
	}
	if opts.FieldSelector != "" {
		asked += fmt.Sprintf(", field selector %q", opts.FieldSelector)
	}
	return fmt.Errorf("lw: FromClient: %s: %w", asked, err)
}

// List calls ListFunc and yields its items, one that is no T as an error.
func (lw *ListWatch[T, L]) List(ctx context.Context, opts metav1.ListOptions, yield func(T, error) error) (metav1.ListMeta, error) {
	if lw.ListFunc == nil {
		return metav1.ListMeta{}, permanent(errors.New("lw: ListWatch: nil ListFunc"))
	}
	asked, part, err := narrowed[T](opts, lw.tweak)
	if err != nil {
		return metav1.ListMeta{}, fmt.Errorf("lw: FromClient: %w", err)
	}
	yield = part.listed(ctx, yield)
	list, err := lw.ListFunc(ctx, opts)
	if err != nil {
		return metav1.ListMeta{}, lw.failed(asked, err)
	}
	if isNil(list) {
		return metav1.ListMeta{}, fmt.Errorf("lw: ListWatch: ListFunc returned %s", aOrNil(list))
	}
	of, err := meta.ListAccessor(list)
	if err != nil {
		return metav1.ListMeta{}, fmt.Errorf("lw: ListWatch: ListFunc returned %s: %w", aOrNil(list), err)
	}
	listMeta := metav1.ListMeta{
		ResourceVersion:    of.GetResourceVersion(),
		Continue:           of.GetContinue(),
		RemainingItemCount: of.GetRemainingItemCount(),
		ShardInfo:          shardInfoOf(list),
	}
	seen := listing{of: &lw.fake}
	err = eachItem(list, func(obj T, err error) error {
		if err == nil && (seen.versions != versioned || obj.GetName() == "") {
			seen.item(obj)
		}
		return yield(obj, err)
	})
	seen.end()
	return listMeta, err
}

// shardInfoOf returns the ShardInfo of list, or nil. The interface of the lists of clients does not
// have it: typed lists have a method, and the lists of dynamic clients only the field.
func shardInfoOf(list runtime.Object) *metav1.ShardInfo {
	switch list := list.(type) {
	case metav1.ShardedListInterface:
		return list.GetShardInfo()
	case *unstructured.UnstructuredList:
		selector, found, err := unstructured.NestedString(list.Object, "metadata", "shardInfo", "selector")
		if found && err == nil {
			return &metav1.ShardInfo{Selector: selector}
		}
	}
	return nil
}

// eachItem yields the items of list. If the list holds them as values, in one array, eachItem
// copies each: a pointer into the array would keep a whole page in memory for as long as the store
// has one of its objects.
func eachItem[T Identified](list runtime.Object, yield func(T, error) error) error {
	var zero T
	// one yields an item whose type is known only at run time.
	one := func(item any) error {
		if obj, ok := item.(T); ok && !equal.IsZero(obj) {
			return yield(obj, nil)
		}
		id := metaOfAny(item)
		return yield(zero, &Error{Op: opDecode, Key: id.key(), UID: id.UID, Err: fmt.Errorf("list %T holds %s, not a %T", list, aOrNil(item), zero)})
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
			if equal.IsZero(obj) {
				if err := yield(zero, &Error{Op: opDecode, Err: fmt.Errorf("item %d of %T is nil", i, list)}); err != nil {
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
	// The items are of some other type, such as runtime.RawExtension. Apimachinery knows how to
	// take the objects out of them.
	return meta.EachListItemWithAlloc(list, func(item runtime.Object) error { return one(item) })
}

// Watch calls WatchFunc and yields the events of its watch until they end, and stops it. A watch of
// a fake that was asked for a streamed list stays open until WatchFunc returns another one.
func (lw *ListWatch[T, L]) Watch(ctx context.Context, opts metav1.ListOptions, yield func(WatchEvent[T]) error) error {
	if lw.WatchFunc == nil {
		return permanent(errors.New("lw: ListWatch: nil WatchFunc"))
	}
	asked, part, err := narrowed[T](opts, lw.tweak)
	if err != nil {
		return fmt.Errorf("lw: FromClient: %w", err)
	}
	yield = part.watched(yield)
	w, err := lw.WatchFunc(ctx, opts)
	if err != nil {
		return lw.failed(asked, err)
	}
	if w == nil {
		return errors.New("lw: ListWatch: WatchFunc returned a nil watch")
	}
	if err := lw.fake.opened(w, opts); err != nil {
		return err
	}
	defer w.Stop()
	events := w.ResultChan()
	for {
		// More is never set. To set it, this loop would have to look for a second event in the
		// channel before it yields the first. That was measured and is slower: client-go's channel
		// has no buffer, so there is one more event at best. If handlers are woken for each event,
		// most of them are still awake from the event before, and need no wake-up. If they are
		// woken for every second event, they fall asleep in between.
		select {
		case <-ctx.Done():
			return ctx.Err()
		case ev, ok := <-events:
			if !ok {
				return nil
			}
			typed, err := typedEvent[T](ev)
			if err != nil {
				return lw.failed(asked, err)
			}
			if !equal.IsZero(typed.Object) {
				lw.fake.came(typed.ResourceVersion)
			}
			if err := yield(typed); err != nil {
				return err
			}
		}
	}
}

// typedEvent converts ev. It fails, and so ends the watch, for an ERROR event, an event of an
// unknown type and a bookmark without metadata. An object that is not a T is an event with Err:
// only that object is lost, and the watch goes on.
func typedEvent[T Identified](ev watch.Event) (WatchEvent[T], error) {
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
	if !ok || equal.IsZero(obj) {
		id := metaOfAny(ev.Object)
		out.ResourceVersion = id.ResourceVersion
		out.Err = &Error{Op: opDecode, Key: id.key(), UID: id.UID, Err: fmt.Errorf("%s event holds %s, not a %T", ev.Type, aOrNil(ev.Object), zero)}
		return out, nil
	}
	out.Object, out.ResourceVersion = obj, obj.GetResourceVersion()
	return out, nil
}

// aOrNil says in an error what v is: its type with an article, or that it is nil.
func aOrNil(v any) string {
	switch {
	case v == nil:
		return "a nil object"
	case isNil(v):
		return fmt.Sprintf("a nil %T", v)
	}
	return fmt.Sprintf("a %T", v)
}

// metaOfAny returns the identity of obj if it has metadata, else the zero Meta.
func metaOfAny(obj any) Meta {
	if isNil(obj) {
		return Meta{}
	}
	m, err := meta.Accessor(obj)
	if err != nil {
		return Meta{}
	}
	return MetaOf(m)
}

// StillHasByList answers SourceHints.StillHas by a list of src, a Source over an API server: of obj
// alone, by its name and namespace, at version exactly. The error is errors.ErrUnsupported if the
// answer shows another version or other objects, as where src sets its own field selector.
func StillHasByList[T Identified](ctx context.Context, src Source[T], obj Meta, version string) (bool, error) {
	opts := metav1.ListOptions{
		FieldSelector:   selectorOf(obj.key()),
		ResourceVersion: version, ResourceVersionMatch: metav1.ResourceVersionMatchExact,
		Limit: 1,
	}
	found, had, other := false, false, false
	listMeta, err := src.List(request.AsProbe(ctx), opts, func(got T, err error) error {
		var bad *Error
		switch {
		case errors.As(err, &bad) && bad.Key == obj.key():
			found = true // obj could be read, so this is another version of it
		case err != nil || equal.IsZero(got) || KeyOf(got) != obj.key():
			other = true
		default:
			found = true
			had = got.GetResourceVersion() == obj.ResourceVersion && (obj.UID == "" || got.GetUID() == obj.UID)
		}
		return nil
	})
	switch {
	case err != nil:
		return false, err
	case listMeta.ResourceVersion != version:
		return false, fmt.Errorf("lw: a list at resource version %s has version %s: %w", version, listMeta.ResourceVersion, errors.ErrUnsupported)
	case !found && other:
		return false, fmt.Errorf("lw: a list of %s has another object: %w", keyString(obj.key()), errors.ErrUnsupported)
	}
	return had, nil
}

// selectorOf returns the field selector of one object.
func selectorOf(key Key) string {
	selector := fields.OneTermEqualSelector("metadata.name", key.Name)
	if key.Namespace != "" {
		selector = fields.AndSelectors(selector, fields.OneTermEqualSelector("metadata.namespace", key.Namespace))
	}
	return selector.String()
}

// A fakeClient is what a ListWatch does differently because its functions are those of a client-go
// fake: a fake clientset, a fake dynamic or metadata client, or a function of a test that returns
// one of apimachinery's fake watches. The package cannot import client-go, so it tells a fake by
// its methods, by the type of its watches, or by its objects. What the fakes do, as of client-go
// v0.37:
//
//   - The generated clients of a fake clientset embed testing.Fake, a recorder of actions that has
//     a method ClearActions. Real clients have none.
//   - Some clients have a method that says whether streamed lists are supported, and its answer
//     counts. Fakes have it, and so have wrappers of real clients that want whole lists. So no
//     means only that lists are not streamed, and yes that the client is no fake.
//   - A watch that asks for a streamed list (sendInitialEvents) sends the objects that exist, but
//     never the bookmark that ends them. A reflector would wait for that bookmark for ever. So
//     such a watch is refused with errNoStream. As soon as a client is known to be a fake, the
//     hints say that there are no streamed lists, and no reflector asks for one.
//   - A list has a version. The objects in it, and those of events, have the versions that the test
//     wrote into them, mostly none. So the hints say that versions mean nothing, and events count
//     in the order of their arrival.
//   - An object may have no name: nobody generates one from its generateName, and nobody refuses an
//     object that has neither. So the hints say that objects may be unnamed. A tracker has at most
//     one such object in a namespace.
//   - The watch of an object tracker has a channel with room for 100 events. If nobody reads them,
//     the next write panics with "channel full", in the goroutine of the test. So a watch that
//     nobody reads must be stopped soon.
//   - A test may have made one watch, and return it from each call of Watch. Once it is stopped its
//     channel is closed, and the test has no other. So a refused watch stays open until WatchFunc
//     returns the next one, and is stopped only if the next one is a different watch.
//
// A watch.ProxyWatcher is a channel of somebody else's. In a test it is a fake watch, so the first
// streamed list over one is refused as well, before an event is lost to it. But it may also wrap a
// real watch. So its versions count if its objects have any, and who asks for a second streamed
// list gets it.
type fakeClient struct {
	// known says that the functions are those of a fake. FromClient sets it, or the first watch
	// that is a fake.
	known atomic.Bool
	// noStream says that lists are not streamed, although this may be no fake.
	noStream atomic.Bool
	// versions is what the objects have shown; see listed and came.
	versions atomic.Uint32
	// unnamed says that a list had an object without a name that no server has created.
	unnamed atomic.Bool
	// refused is the watch that was refused last and is still open; nil: there is none.
	refused atomic.Pointer[watch.Interface]
}

// The values of fakeClient.versions. No server has objects without a resource version.
const (
	noObjects   uint32 = iota // none has come
	versioned                 // they have versions
	unversioned               // they have none
)

// hints returns the hints of the ListWatch.
func (f *fakeClient) hints() SourceHints {
	known := f.known.Load()
	return SourceHints{
		NoStream:    known || f.noStream.Load(),
		Unversioned: known || f.versions.Load() == unversioned,
		unnamed:     known || f.unnamed.Load(),
	}
}

// of notes what the methods of a client say of it.
func (f *fakeClient) of(client any) {
	_, fake := client.(interface{ ClearActions() })
	if c, ok := client.(interface{ IsWatchListSemanticsUnSupported() bool }); ok {
		no := c.IsWatchListSemanticsUnSupported()
		f.noStream.Store(no)
		fake = fake && no
	}
	f.known.Store(fake)
}

// opened is called with each watch that WatchFunc has returned. If it returns errNoStream, the
// caller must neither read nor stop the watch: a later call of opened stops it.
func (f *fakeClient) opened(w watch.Interface, opts metav1.ListOptions) error {
	if before := f.refused.Swap(nil); before != nil && *before != w {
		(*before).Stop()
	}
	refuse := false
	switch w.(type) {
	case *watch.RaceFreeFakeWatcher, *watch.FakeWatcher: // what client-go's fakes return
		f.known.Store(true)
		refuse = true
	case *watch.ProxyWatcher:
		refuse = !f.noStream.Swap(true)
	}
	if refuse && opts.SendInitialEvents != nil && *opts.SendInitialEvents {
		f.refused.Store(&w)
		return errNoStream
	}
	return nil
}

// A listing is what is known of the versions of the objects of one list.
type listing struct {
	of       *fakeClient
	versions uint32
}

// item notes an object of the list. Nothing is to be noted of one with a name after one with a
// version.
func (l *listing) item(obj Identified) {
	if obj.GetResourceVersion() != "" {
		l.versions = versioned
	} else if l.versions == noObjects {
		l.versions = unversioned
	}
	if obj.GetName() == "" && fromNoServer(obj) {
		l.of.unnamed.Store(true)
	}
}

// fromNoServer reports whether no server has created obj, which has no name: a server generates the
// name that obj asks for, and gives it a UID and a version.
func fromNoServer(obj Identified) bool {
	g, ok := obj.(interface{ GetGenerateName() string })
	return ok && g.GetGenerateName() != "" || obj.GetUID() == "" && obj.GetResourceVersion() == ""
}

// end notes the end of the list. A list is believed whatever came before, unless it is empty: an
// object of it that has a version shows that versions mean something.
func (l *listing) end() {
	if l.versions != noObjects {
		l.of.versions.Store(l.versions)
	}
}

// came notes the version of the object of an event. It says something only if no object has come
// before: a server that leaves out the version of one event has made a mistake.
func (f *fakeClient) came(version string) {
	switch {
	case f.versions.Load() != noObjects:
	case version == "":
		f.versions.Store(unversioned)
	default:
		f.versions.Store(versioned)
	}
}
