package clientgo

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"reflect"
	"sync"
	"sync/atomic"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/tools/cache"
	"k8s.io/klog/v2"

	"github.com/go-lw/lw"
	"github.com/go-lw/lw/internal/decode/standard"
	"github.com/go-lw/lw/internal/request"
	"github.com/go-lw/lw/kinds"
)

// A Decoder makes informers of ListerWatchers, as [NewInformer] does, whose objects lw decodes
// instead of client-go. That is where most of the time goes in an informer. The zero value is ready
// for use. Its methods may be called by several goroutines.
//
// The ListerWatcher's requests must go through a client that [Capture] returned. Its functions are
// called for each list and each watch, as client-go calls them. The client sends the request that
// they make, and gives the answer to lw. The function gets an answer without content, which for a
// list is an error; lw ignores what the function returns then. So a request has the URL, the
// selectors, the headers and the preferred encoding that the ListerWatcher gives it at that moment,
// it waits for the client's rate limit, and it shows in client-go's metrics.
//
// client-go decodes, as with [NewInformer], where lw cannot:
//   - the requests of a ListerWatcher whose functions take no context or do not pass it on;
//   - a fake client's answers, or those of any client that is not captured;
//   - a list or watch for which the ListerWatcher asks for two collections;
//   - an encoding that lw does not have, such as CBOR alone;
//   - objects of a type that is not a pointer to a struct with metadata;
//   - the answers of a ListerWatcher that changes them, such as one that filters. Its first list
//     with objects is compared with what the server sent, and so is the type of each watch with
//     that of client-go's.
//
// lw.Status and the board say who decodes, and why if it is client-go. That is logged once, too.
//
// What else a ListerWatcher does to an answer before it returns it is lost: give such a
// ListerWatcher to [NewInformer], or its work to SetTransform. lw sets the options that say how to
// list and watch, so a ListerWatcher that sets ResourceVersion, Limit, TimeoutSeconds or
// AllowWatchBookmarks has no effect.
type Decoder struct {
	// Share, Drop, Whole and Standard are those of lw.HTTP.
	Share    bool
	Drop     []string
	Whole    bool
	Standard bool
	// Only names the fields to keep, as lw.HTTP.Only does. A Decoder with Only is for informers of one
	// type. Objects that client-go decodes are whole.
	Only lw.Fields
	// Scheme tells the kind of a typed object whose kind is not the name of its type. Nil: the kind
	// is the name of the type.
	Scheme *runtime.Scheme
	// Options are the settings of the informers, nil those of [NewInformer]. OnError is called beside
	// the WatchErrorHandler, and alone for what DetectMutation finds. Logger gets the records that
	// else go to klog: of the first sync and of recoveries.
	Options *lw.Options
	// Wanted are the objects of the informers, as [lw.Wanted] says. The informers then have the
	// methods KeyState and WaitForKey of [lw.Informer]. Nil: all.
	Wanted lw.WantedSet
	// Pack keeps the objects of informers as the compressed bytes that the server has sent, as
	// [lw.Pack] does. Readers, handlers and index functions get decoded objects, and need not know.
	// The objects that client-go decodes are not packed, nor are those of [Decoder.Source], of a
	// [Reflector] and of an informer with a transform. docs/memory.md says what it costs.
	Pack bool
	// Limit bounds the memory of the packed objects of all informers whose Decoders share it, as
	// lw.PackLimit says. It implies Pack. Nil: no bound.
	//
	// A Get of an indexer, and a read by an index, ask the server for an object that was let go. They
	// do so for up to ten seconds, and then return an error that names the object. A List, which
	// returns no error, waits as lw.Packed.Open does, and so does a handler for a new object. The old
	// object of an update may have its metadata alone. Several goroutines call the ListerWatcher.
	Limit *lw.PackLimit
	// Kinds lets informers wait for a resource that nobody serves yet, as package kinds says: they are
	// in sync and empty, and make no request until it comes. An informer waits for its kind, if the
	// example or its type in Scheme names one, and otherwise for the resource that the ListerWatcher
	// asks for. Resources of groups without a dot in their names, which are Kubernetes' own, do not
	// wait, nor do clients that [Capture] has not returned, such as fakes. The caller runs the
	// catalog. A zero one takes the server that the first informer asks; informers of other servers do
	// not wait. Nil: no informer waits.
	Kinds *kinds.Catalog
	// Trust says that the ListerWatchers return what the server sends, and change at most the kinds of
	// metadata objects. Then lw does not compare the first answers.
	Trust bool
}

// NewInformer is like [NewInformer], but lw decodes the objects.
func (d Decoder) NewInformer(lister cache.ListerWatcher, example runtime.Object, resync time.Duration, indexers cache.Indexers) cache.SharedIndexInformer {
	return d.NewInformerWithOptions(lister, example, cache.SharedIndexInformerOptions{ResyncPeriod: resync, Indexers: indexers})
}

// NewInformerWithOptions is like [NewInformerWithOptions], but lw decodes the objects.
func (d Decoder) NewInformerWithOptions(lister cache.ListerWatcher, example runtime.Object, opts cache.SharedIndexInformerOptions) cache.SharedIndexInformer {
	if isNil(lister) {
		panic("clientgo: Decoder.NewInformer: nil lister-watcher")
	}
	return newSharedInformer(d.packable(lister, example), example, opts, d.Options, d.Wanted)
}

// Source is like [Source], but lw decodes the objects. Objects of the type
// *metav1.PartialObjectMetadata get the kind and API version that example has, if it has any. It
// makes no request and calls none of lister's functions.
func (d Decoder) Source(lister cache.ListerWatcher, example runtime.Object) lw.Source[metav1.Object] {
	if isNil(lister) {
		panic("clientgo: Decoder.Source: nil lister-watcher")
	}
	return d.source(lister, example, false)
}

// packable is Source for an informer, whose store may have cells.
func (d Decoder) packable(lister cache.ListerWatcher, example runtime.Object) lw.Source[metav1.Object] {
	return d.source(lister, example, d.Pack || d.Limit != nil)
}

// source is Source. With pack it yields cells.
func (d Decoder) source(lister cache.ListerWatcher, example runtime.Object, pack bool) lw.Source[metav1.Object] {
	object, ok := decodedType(example)
	if !ok {
		s := newSource[metav1.Object](lister, example)
		s.decoder = fmt.Sprintf("%s: lw does not decode objects like a %T", byClientGo, example)
		return d.gated(s, lister, example)
	}
	gvk := example.GetObjectKind().GroupVersionKind()
	s := &capturedSource{decoder: d, object: object, kind: gvk.Kind, pack: pack}
	s.teller = sync.OnceValue(func() lw.Teller[metav1.Object] { return s.ofHTTP(s.httpOf("")) })
	if s.kind == "" {
		s.kind = d.kindOf(example)
	}
	if object == metadataType && !gvk.Empty() {
		s.metadata.APIVersion, s.metadata.Kind = gvk.ToAPIVersionAndKind()
	}
	s.plain = Source(&capturedLister{cache.ToListerWatcherWithContext(lister), lister, s}, example)
	return d.gated(s, lister, example)
}

// kindOf returns the kind of example, or "" if the scheme does not tell it: lw.HTTP then takes the
// name of the type for it.
func (d Decoder) kindOf(example runtime.Object) string {
	if d.Scheme == nil {
		return ""
	}
	gvks, _, err := d.Scheme.ObjectKinds(example)
	if err != nil || len(gvks) != 1 {
		return ""
	}
	return gvks[0].Kind
}

// decodedType returns the type that lw decodes the objects of example's collection into.
func decodedType(example runtime.Object) (reflect.Type, bool) {
	switch example.(type) {
	case nil:
		return nil, false
	case runtime.Unstructured:
		// The dynamic client decodes into this one, whatever the type of the example is.
		return unstructuredType, true
	}
	t := reflect.TypeOf(example)
	if t.Kind() != reflect.Pointer || t.Elem().Kind() != reflect.Struct || reflect.ValueOf(example).IsNil() {
		return nil, false
	}
	_, ok := example.(metav1.Object)
	return t, ok
}

// A capturedSource is the source of a ListerWatcher whose requests lw sends where it can decode the
// answers.
type capturedSource struct {
	decoder  Decoder
	object   reflect.Type
	kind     string
	metadata metav1.TypeMeta // of each object; empty: as decoded
	plain    lw.Source[metav1.Object]
	// refused is why the ListerWatcher is not captured any more; nil: it is.
	refused atomic.Pointer[string]
	// compared: a list with objects was found to be returned as the server sent it.
	compared atomic.Bool
	// decodedBy is the Decoder of Hints; nil: nothing was decoded yet.
	decodedBy atomic.Pointer[string]
	// mixed: client-go has decoded objects of this collection, too. That was logged.
	mixed atomic.Bool
	// http decodes the answers for its URL; nil: lw has decoded nothing yet. It is kept as long as
	// the ListerWatcher asks for the same collection, since it learns from what it decodes.
	http atomic.Pointer[lw.HTTP[metav1.Object]]
	// pack: cells are yielded. from is what yields them from http.
	pack bool
	from atomic.Pointer[lw.Teller[metav1.Object]]
	// teller decodes what is told, in any goroutine.
	teller func() lw.Teller[metav1.Object]
}

// Hints returns what is known of the ListerWatcher. If lw sends its requests it is no fake, but may
// still not want its lists to be streamed.
func (s *capturedSource) Hints() lw.SourceHints {
	hints := lw.HintsOf(s.plain)
	if http := s.http.Load(); http != nil {
		hints = lw.SourceHints{NoStream: hints.NoStream, Partial: lw.HintsOf(http).Partial}
	}
	hints.Decoder = ""
	if by := s.decodedBy.Load(); by != nil {
		hints.Decoder = *by
	}
	hints.StillHas = func(ctx context.Context, obj lw.Meta, version string) (bool, error) {
		return lw.StillHasByList(ctx, s, obj, version)
	}
	return hints
}

// decodes notes who decodes an answer, before its objects are yielded, and logs it once if that is
// not lw. why is the reason, or "" if it is lw.
func (s *capturedSource) decodes(ctx context.Context, why string) {
	by := standard.Name(s.decoder.Standard)
	if why != "" {
		by = byClientGo + ": " + why
	}
	s.decodedBy.Store(&by)
	if why != "" && !s.mixed.Swap(true) {
		klog.FromContext(ctx).Info("client-go decodes the objects of an informer that has a Decoder", "type", s.object, "reason", why)
	}
}

// Told is part of lw.Teller. Nothing is told where client-go decodes, since the ListerWatcher may
// change what the server has sent, nor before it is known to change nothing.
func (s *capturedSource) Told(obj lw.Identified) (out metav1.Object, stays bool, err error) {
	if why := s.refused.Load(); why != nil {
		return nil, false, fmt.Errorf("client-go decodes: %s: %w", *why, errors.ErrUnsupported)
	}
	if !s.decoder.Trust && !s.compared.Load() {
		return nil, false, lw.ErrKeep
	}
	if out, stays, err = s.teller().Told(obj); stays && !s.pack {
		s.finish(out)
	}
	return out, stays, err
}

// Reuses is part of [request.Source].
func (s *capturedSource) Reuses(request.Mark) bool {
	return standard.Name(s.decoder.Standard) == standard.LW
}

// lend returns ctx for a request whose answer lw decodes. Objects that client-go has decoded are
// not for lw's decoder, so nothing is lent once there may be one.
func (s *capturedSource) lend(ctx context.Context) context.Context {
	if s.mixed.Load() {
		return request.WithoutLender(ctx)
	}
	return ctx
}

// List calls the ListerWatcher, and decodes the list.
func (s *capturedSource) List(ctx context.Context, opts metav1.ListOptions, yield func(metav1.Object, error) error) (metav1.ListMeta, error) {
	listMeta, err := s.plain.List(ctx, opts, yield)
	own, ok := errors.AsType[*answered](err)
	if !ok {
		return listMeta, err
	}
	return s.of(own).List(s.asking(s.lend(own.probe.ctx)), opts, func(obj metav1.Object, err error) error {
		if !s.pack {
			s.finish(obj)
		}
		return yield(obj, err)
	})
}

// Watch calls the ListerWatcher, and decodes the watch.
func (s *capturedSource) Watch(ctx context.Context, opts metav1.ListOptions, yield func(lw.WatchEvent[metav1.Object]) error) error {
	err := s.plain.Watch(ctx, opts, yield)
	own, ok := errors.AsType[*answered](err)
	if !ok {
		return err
	}
	return s.of(own).Watch(s.asking(s.lend(own.probe.ctx)), opts, func(ev lw.WatchEvent[metav1.Object]) error {
		if !s.pack {
			s.finish(ev.Object)
		}
		return yield(ev)
	})
}

// asking returns ctx for a request whose objects may be let go, and asked for again.
func (s *capturedSource) asking(ctx context.Context) context.Context {
	if s.decoder.Limit == nil {
		return ctx
	}
	return request.WithAsk(ctx, s.ask)
}

// ask has the ListerWatcher make a list of its own, for answer to decode.
func (s *capturedSource) ask(ctx context.Context, opts metav1.ListOptions, answer func(context.Context) error) error {
	_, err := s.plain.List(ctx, opts, func(metav1.Object, error) error { return nil })
	if own, ok := errors.AsType[*answered](err); ok {
		return answer(own.probe.ctx)
	}
	if err == nil {
		err = fmt.Errorf("clientgo: client-go decodes by now: %w", errors.ErrUnsupported)
	}
	return err
}

// of returns what decodes a: an lw.HTTP, perhaps packed.
func (s *capturedSource) of(a *answered) lw.Teller[metav1.Object] {
	if http := s.http.Load(); http != nil && http.URL == a.collection {
		return *s.from.Load()
	}
	http := s.httpOf(a.collection)
	from := s.ofHTTP(http)
	s.from.Store(&from)
	s.http.Store(http)
	return from
}

// ofHTTP returns http, or what packs its objects.
func (s *capturedSource) ofHTTP(http *lw.HTTP[metav1.Object]) lw.Teller[metav1.Object] {
	if s.pack {
		return newPackedSource(http, s.finish, s.decoder.Limit)
	}
	return http
}

func (s *capturedSource) httpOf(url string) *lw.HTTP[metav1.Object] {
	return &lw.HTTP[metav1.Object]{
		URL: url, Client: answersClient,
		Type: s.object, Kind: s.kind, Drop: s.decoder.Drop, Only: s.decoder.Only, Share: s.decoder.Share, Whole: s.decoder.Whole,
		Standard: s.decoder.Standard,
	}
}

// finish gives obj the kind that all objects of the collection have, if the example had one.
func (s *capturedSource) finish(obj metav1.Object) {
	m, ok := obj.(*metav1.PartialObjectMetadata)
	// An object that a list has brought as it was is in the store, where nobody may write to it.
	if ok && s.metadata.Kind != "" && m.TypeMeta != s.metadata {
		m.TypeMeta = s.metadata
	}
}

// A capturedLister is the ListerWatcher that the plain source of a capturedSource has. Its methods
// return an *answered if lw is to decode the answer.
type capturedLister struct {
	cache.ListerWatcherWithContext
	plain  cache.ListerWatcher
	source *capturedSource
}

// answered is the error of a list or watch that lw has sent itself.
type answered struct {
	collection string
	probe      *probe
}

func (a *answered) Error() string { return "clientgo: lw has the answer of " + a.collection }

// List is what client-go's interface demands; ListWithContext takes its place.
func (l *capturedLister) List(opts metav1.ListOptions) (runtime.Object, error) {
	return l.ListWithContext(context.Background(), opts)
}

// Watch is what client-go's interface demands; WatchWithContext takes its place.
func (l *capturedLister) Watch(opts metav1.ListOptions) (watch.Interface, error) {
	return l.WatchWithContext(context.Background(), opts)
}

func (l *capturedLister) ListWithContext(ctx context.Context, opts metav1.ListOptions) (runtime.Object, error) {
	return captured(l, ctx, opts, false, l.ListerWatcherWithContext.ListWithContext, l.source.changedList)
}

func (l *capturedLister) WatchWithContext(ctx context.Context, opts metav1.ListOptions) (watch.Interface, error) {
	return captured(l, ctx, opts, true, l.ListerWatcherWithContext.WatchWithContext, l.source.changedWatch)
}

// captured calls a function of the ListerWatcher. If lw has sent the function's request, it passes
// the function's result to changed, which returns how the function changes what it gets, or "".
func captured[V any](l *capturedLister, ctx context.Context, opts metav1.ListOptions, watching bool, call func(context.Context, metav1.ListOptions) (V, error), changed func(*probe, V) string) (V, error) {
	s := l.source
	if why := s.refused.Load(); why != nil {
		s.decodes(ctx, *why)
		return call(ctx, opts)
	}
	p := newProbe(ctx, s.object, opts)
	p.opts.Watch = watching
	p.compare = !watching && !s.decoder.Trust && !s.compared.Load()
	v, err := call(p.ctx, opts)
	collection, why := p.end()
	if collection == "" && why == "" {
		if err == nil {
			s.decodes(ctx, l.notCaptured(watching))
		}
		return v, err
	}
	again := why != ""
	if err == nil {
		why = cmp.Or(why, changed(p, v))
	}
	if why == "" {
		s.decodes(ctx, "")
		var none V
		return none, &answered{collection, p}
	}
	s.refused.Store(&why)
	s.decodes(ctx, why)
	p.discard()
	if !watching && !again {
		return v, nil // client-go has decoded the list as well
	}
	return call(ctx, opts)
}

// notCaptured says why no request of a list or a watch was captured.
func (l *capturedLister) notCaptured(watching bool) string {
	const noContext = "the ListerWatcher's functions take no context"
	with := false
	if watching {
		_, with = l.plain.(cache.WatcherWithContext)
	} else {
		_, with = l.plain.(cache.ListerWithContext)
	}
	if of, ok := l.plain.(*cache.ListWatch); ok {
		with = !watching && of.ListWithContextFunc != nil || watching && of.WatchFuncWithContext != nil
	}
	if !with {
		return noContext
	}
	return "no request that lw can decode came through a client of Capture, with the context of the call"
}

// IsWatchListSemanticsUnSupported tells what the ListerWatcher tells, for client-go's convention.
func (l *capturedLister) IsWatchListSemanticsUnSupported() bool {
	plain, ok := l.plain.(interface{ IsWatchListSemanticsUnSupported() bool })
	return ok && plain.IsWatchListSemanticsUnSupported()
}
