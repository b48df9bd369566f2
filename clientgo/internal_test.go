package clientgo

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"iter"
	"net"
	"net/http"
	"net/url"
	"reflect"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	utilruntime "k8s.io/apimachinery/pkg/util/runtime"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/tools/cache"
	"k8s.io/klog/v2"
	"k8s.io/klog/v2/textlogger"

	"github.com/go-lw/lw"
	"github.com/go-lw/lw/internal/request"
	"github.com/go-lw/lw/internal/verify/rig"
)

type custom struct {
	metav1.TypeMeta
	metav1.ObjectMeta
}

func TestAcceptFor(t *testing.T) {
	const (
		json     = "application/json"
		protobuf = "application/vnd.kubernetes.protobuf"
		metadata = protobuf + ";as=PartialObjectMetadataList;g=meta.k8s.io;v=v1,application/json;as=PartialObjectMetadataList;g=meta.k8s.io;v=v1,application/json"
		table    = "application/json;as=Table;g=meta.k8s.io;v=v1"
		no       = "no"
		cbor     = "application/cbor"
		asList   = ";as=PartialObjectMetadataList;g=meta.k8s.io;v=v1"
		as       = ";as=PartialObjectMetadata;g=meta.k8s.io;v=v1"
	)
	for _, tt := range []struct {
		header                              string
		pod, custom, unstructured, metadata string
	}{
		{"", json, json, json, no},
		{"*/*", json, json, json, no},
		{"application/json, */*", json, json, json, no},
		{protobuf + ", */*", protobuf + "," + json, json, json, no},
		{protobuf + "," + json, protobuf + "," + json, json, json, no},
		{json + "," + protobuf, json, json, json, no},
		{json + ";q=0.5," + protobuf, protobuf + "," + json, json, json, no},
		{protobuf, protobuf, no, no, no},
		{cbor, cbor, cbor, cbor, no},
		{"application/json;q=0.9,application/cbor", cbor + "," + json, cbor + "," + json, cbor + "," + json, no},
		{"application/json,application/cbor;q=0.9", json, json, json, no},
		{cbor + ";q=1," + protobuf + ";q=0.9", cbor + "," + protobuf, cbor, cbor, no},
		{cbor + asList + "," + cbor + as + "," + json + asList, no, no, no, cbor + "," + json},
		{json + asList + "," + cbor + asList, no, no, no, ""},
		{"application/json;q=0", no, no, no, no},
		{metadata, json, json, json, ""},
		{table, no, no, no, no},
		{"/ ,;", no, no, no, no},
	} {
		for object, want := range map[any]string{
			&corev1.Pod{}: tt.pod, &custom{}: tt.custom, &unstructured.Unstructured{}: tt.unstructured, &metav1.PartialObjectMetadata{}: tt.metadata,
		} {
			got, ok := acceptFor(tt.header, reflect.TypeOf(object))
			if !ok {
				got = no
			}
			rig.Same(t, fmt.Sprintf("%q for %T", tt.header, object), want, got)
		}
	}
}

func TestAddressIn(t *testing.T) {
	for path, want := range map[string]bool{
		"/api/v1/pods":                                 true,
		"/api/v1/namespaces":                           true,
		"/api/v1/namespaces/default/pods":              true,
		"/apis/apps/v1/deployments":                    true,
		"/apis/apps/v1/namespaces/default/deployments": true,
		"/clusters/c1/apis/apps/v1/deployments":        true,
		"/api/clusters/c1/api/v1/namespaces/ns/pods":   true,
		"/api":                              false,
		"/api/v1":                           false,
		"/apis":                             false,
		"/apis/apps/v1":                     false,
		"/openapi/v3":                       false,
		"/version":                          false,
		"/api/v1/namespaces/default":        false,
		"/api/v1/namespaces/default/pods/a": false,
		"/apis/apps/v1/namespaces/default/deployments/": false,
		"": false,
	} {
		rig.Same(t, path, want, addressIn(&url.URL{Path: path}) != nil)
	}
}

func TestCollectionURL(t *testing.T) {
	u := rig.Must[*url.URL](t)(url.Parse("https://host:6443/api/v1/pods?watch=true&allowWatchBookmarks=true&labelSelector=a%3Db&resourceVersion=7&timeout=5s&timeoutSeconds=300&tenant=x&limit=500&continue=c&sendInitialEvents=true&resourceVersionMatch=NotOlderThan"))
	rig.Same(t, "URL", "https://host:6443/api/v1/pods?labelSelector=a%3Db&tenant=x", collectionURL(u))
}

// A clientOf is a client as client-gen makes it, with an answer L of List and W of Watch.
type clientOf[L, W any] interface {
	List(context.Context, metav1.ListOptions) (L, error)
	Watch(context.Context, metav1.ListOptions) (W, error)
}

// A lister and a watcher are a client's halves, with parameters C and O.
type (
	lister[C, O any] interface {
		List(C, O) (*corev1.PodList, error)
	}
	watcher[C, O any] interface {
		Watch(C, O) (watch.Interface, error)
	}
)

// Lists that are none of client-gen: each lacks one thing.
type (
	listBase struct{ metav1.TypeMeta }
	noItems  struct{ listBase }
	oneItem  struct {
		listBase
		Items corev1.Pod
	}
	textItems struct {
		listBase
		Items []string
	}
	statusItems struct { // without metadata
		listBase
		Items []metav1.Status
	}
	metaItems struct { // no runtime.Object
		listBase
		Items []metav1.ObjectMeta
	}
	pointerItems struct {
		listBase
		Items []*corev1.Pod
	}
)

func (*listBase) DeepCopyObject() runtime.Object { return nil }

// A collection is found by the methods of its client alone, whatever else a clientset has.
func TestListedBy(t *testing.T) {
	pods := reflect.TypeFor[*corev1.Pod]()
	type podClient = clientOf[*corev1.PodList, watch.Interface]
	for _, tc := range []struct {
		method any
		want   reflect.Type // nil: none
	}{
		{(func() podClient)(nil), pods},
		{(func(string) podClient)(nil), pods},
		{(func() clientOf[*pointerItems, watch.Interface])(nil), pods},
		{(func(int) podClient)(nil), nil},
		{(func(string, string) podClient)(nil), nil},
		{(func())(nil), nil},
		{(func() (podClient, error))(nil), nil},
		{(func() *corev1.Pod)(nil), nil},
		{(func() lister[context.Context, metav1.ListOptions])(nil), nil},
		{(func() watcher[context.Context, metav1.ListOptions])(nil), nil},
		{(func() interface {
			lister[context.Context, metav1.GetOptions]
			watcher[context.Context, metav1.ListOptions]
		})(nil), nil},
		{(func() interface {
			lister[context.Context, metav1.ListOptions]
			watcher[string, metav1.ListOptions]
		})(nil), nil},
		{(func() clientOf[*corev1.PodList, *watch.FakeWatcher])(nil), nil},
		{(func() clientOf[corev1.PodList, watch.Interface])(nil), nil},
		{(func() clientOf[runtime.Object, watch.Interface])(nil), nil},
		{(func() clientOf[*string, watch.Interface])(nil), nil},
		{(func() clientOf[*metav1.ObjectMeta, watch.Interface])(nil), nil},
		{(func() clientOf[*noItems, watch.Interface])(nil), nil},
		{(func() clientOf[*oneItem, watch.Interface])(nil), nil},
		{(func() clientOf[*textItems, watch.Interface])(nil), nil},
		{(func() clientOf[*statusItems, watch.Interface])(nil), nil},
		{(func() clientOf[*metaItems, watch.Interface])(nil), nil},
	} {
		of := reflect.TypeOf(tc.method)
		got, ok := listedBy(of)
		if ok != (tc.want != nil) || ok && got != tc.want {
			t.Errorf("%v: %v, %t; want %v", of, got, ok, tc.want)
		}
	}
	for _, tc := range []struct {
		f    any
		want bool
	}{
		{(func(context.Context, metav1.ListOptions) (string, error))(nil), true},
		{(func(context.Context) (string, error))(nil), false},
		{(func(context.Context, metav1.ListOptions, int) (string, error))(nil), false},
		{(func(any, metav1.ListOptions) (string, error))(nil), false},
		{(func(context.Context, *metav1.ListOptions) (string, error))(nil), false},
		{(func(context.Context, metav1.ListOptions) error)(nil), false},
		{(func(context.Context, metav1.ListOptions) (string, string))(nil), false},
		{(func(context.Context, metav1.ListOptions) (string, error, error))(nil), false},
	} {
		rig.Same(t, fmt.Sprintf("%T", tc.f), tc.want, isRequest(reflect.TypeOf(tc.f)))
	}
}

// lw decodes into a pointer to a struct with metadata, and into unstructured objects whatever the
// example's own type is. The kind is that of the scheme, if it has one for the type.
func TestDecodedType(t *testing.T) {
	pods := reflect.TypeFor[*corev1.Pod]()
	for _, tc := range []struct {
		example runtime.Object
		want    reflect.Type
	}{
		{&corev1.Pod{}, pods}, {(*corev1.Pod)(nil), nil}, {nil, nil}, {&metav1.Status{}, nil}, {byValue{}, nil},
		{&unstructured.Unstructured{}, unstructuredType}, {&unstructured.UnstructuredList{}, unstructuredType}, {&metav1.PartialObjectMetadata{}, metadataType},
	} {
		got, ok := decodedType(tc.example)
		if ok != (tc.want != nil) || ok && got != tc.want {
			t.Errorf("%T: %v, %t; want %v", tc.example, got, ok, tc.want)
		}
	}
	scheme := func(kinds ...string) *runtime.Scheme {
		s := runtime.NewScheme()
		for _, kind := range kinds {
			s.AddKnownTypeWithName(corev1.SchemeGroupVersion.WithKind(kind), &corev1.Pod{})
		}
		return s
	}
	for _, tc := range []struct {
		scheme *runtime.Scheme
		want   string
	}{{nil, ""}, {scheme(), ""}, {scheme("Machine"), "Machine"}, {scheme("Machine", "Pod"), ""}} {
		rig.Same(t, "kind", tc.want, Decoder{Scheme: tc.scheme}.kindOf(&corev1.Pod{}))
	}
	for _, tc := range []struct {
		example runtime.Object
		scheme  *runtime.Scheme
		want    string
	}{
		{&corev1.Pod{}, nil, ""}, {&corev1.Pod{}, scheme("Machine"), "Machine"},
		{&corev1.Pod{TypeMeta: metav1.TypeMeta{Kind: "Engine"}}, nil, "Engine"},
		{&corev1.Pod{TypeMeta: metav1.TypeMeta{Kind: "Engine"}}, scheme("Machine"), "Engine"},
	} {
		s := Decoder{Scheme: tc.scheme}.Source(nopLister{}, tc.example).(*capturedSource)
		rig.Same(t, "the kind of the source", tc.want, s.kind)
	}
	decoded := metav1.TypeMeta{APIVersion: "meta.k8s.io/v1", Kind: "PartialObjectMetadata"}
	for _, want := range []metav1.TypeMeta{{}, {APIVersion: "v1", Kind: "Pod"}} {
		example := &metav1.PartialObjectMetadata{TypeMeta: want}
		s := Decoder{}.Source(nopLister{}, example).(*capturedSource)
		obj := &metav1.PartialObjectMetadata{TypeMeta: decoded}
		s.finish(obj)
		if want.Kind == "" {
			want = decoded
		}
		rig.Same(t, "kind of metadata", want, obj.TypeMeta)
		s.finish(nil)
	}
}

// The options of a Decoder that are those of lw.HTTP are the ones of its requests.
func TestDecoderOptions(t *testing.T) {
	d := Decoder{Drop: lw.Fields{"spec"}, Only: lw.Fields{"status"}, Share: true, Whole: true, Standard: true}
	h := d.Source(nopLister{}, &corev1.Pod{}).(*capturedSource).httpOf("http://server/api/v1/pods")
	got := Decoder{Drop: h.Drop, Only: h.Only, Share: h.Share, Whole: h.Whole, Standard: h.Standard}
	rig.Same(t, "", d, got)
}

// Whoever would change a packed object is told of that.
func TestCellIsNotChanged(t *testing.T) {
	c := reflect.ValueOf(cell{})
	for i := range c.NumMethod() {
		if set := c.Method(i); strings.HasPrefix(c.Type().Method(i).Name, "Set") {
			rig.MustPanic(t, immutable, func() { set.Call([]reflect.Value{reflect.Zero(set.Type().In(0))}) })
		}
	}
}

// byValue is an object that is no pointer.
type byValue struct{ *corev1.Pod }

type nopLister struct{}

func (nopLister) List(metav1.ListOptions) (runtime.Object, error)   { panic("called") }
func (nopLister) Watch(metav1.ListOptions) (watch.Interface, error) { panic("called") }

// A query for several values finds an object that has one of them all the time, also if the object
// gets another value between two lookups. It ends also if objects change for ever.
func TestLookupAny(t *testing.T) {
	for moves, want := range map[int]int{0: 1, 1: 1, 7: 1, 1000: 0} {
		pod := func(value string) *corev1.Pod {
			return &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Name: "pod", Labels: map[string]string{"v": value}}}
		}
		store := lw.NewIndexer(pod("b"))
		index := lw.NewIndex(store, func(p *corev1.Pod) string { return p.Labels["v"] })
		left := moves
		lookup := func(value string) iter.Seq[*corev1.Pod] {
			return func(yield func(*corev1.Pod) bool) {
				index.Lookup(value)(yield)
				if left == 0 {
					return
				}
				// After a was looked at the object moves there, and back after b.
				if value == "a" {
					store.Set(pod("a"))
					left--
				} else {
					store.Set(pod("b"))
				}
			}
		}
		// The version of the store stays "", as it does while an object is set aside.
		found := lookupAny(index.Changed, lookup, []string{"a", "b"})
		rig.Same(t, fmt.Sprintf("objects found during %d moves", moves), want, len(found))
	}
}

// A failed request after which there is a pause is told to the handler, as it is. One that is made
// again at once is only logged, and what is wrong with an object goes to client-go's ErrorHandlers.
// Nothing is told after the end of the context, and all that waits before that of the informer.
func TestErrorReporter(t *testing.T) {
	cause := errors.New("cause")
	for name, tc := range map[string]struct {
		err  error
		done bool // the context
		want string
	}{
		"a list":                   {&lw.Error{Op: "list", Failures: 1, Err: cause}, false, "handler"},
		"a stream":                 {&lw.Error{Op: "stream", Failures: 2, Err: cause}, false, "handler"},
		"a watch":                  {&lw.Error{Op: "watch", Failures: 1, Err: cause}, false, "handler"},
		"a watch that is resumed":  {&lw.Error{Op: "watch", Err: cause}, false, "log"},
		"a stream that is a list":  {&lw.Error{Op: "stream", Err: cause}, false, "log at 4"},
		"an object":                {&lw.Error{Op: "decode", Failures: 1, Err: cause}, false, "ErrorHandlers"},
		"wrapped":                  {fmt.Errorf("more: %w", &lw.Error{Op: "list", Failures: 1, Err: cause}), false, "handler"},
		"another error":            {cause, false, "ErrorHandlers"},
		"a list, after the end":    {&lw.Error{Op: "list", Failures: 1, Err: cause}, true, ""},
		"an object, after the end": {&lw.Error{Op: "decode", Err: cause}, true, ""},
	} {
		rig.Subtest(t, name, func(t *testing.T) {
			var got []string
			note := func(err error, to string) {
				if !errors.Is(err, cause) {
					t.Errorf("%s gets %v", to, err)
				}
				got = append(got, to)
			}
			rig.Swap(t, &utilruntime.ErrorHandlers, []utilruntime.ErrorHandler{func(_ context.Context, err error, _ string, _ ...any) { note(err, "ErrorHandlers") }})
			r := newErrorReporter(&corev1.Pod{}, "")
			r.handler = func(_ context.Context, of *cache.Reflector, err error) {
				if err != cause || of == nil {
					t.Errorf("the handler gets %#v of %v", err, of)
				}
				note(err, "handler")
			}
			var brief, all bytes.Buffer
			ctx, cancel := context.WithCancel(klog.NewContext(t.Context(), textlogger.NewLogger(textlogger.NewConfig(textlogger.Verbosity(4), textlogger.Output(&all)))))
			if tc.want == "log" {
				ctx = klog.NewContext(ctx, textlogger.NewLogger(textlogger.NewConfig(textlogger.Output(&brief))))
			}
			if tc.done {
				cancel()
			}
			end := r.run(ctx)
			for range 3 {
				r.report(tc.err)
			}
			end()
			cancel()
			got = append(got, slices.Repeat([]string{"log"}, strings.Count(brief.String(), "cause"))...)
			got = append(got, slices.Repeat([]string{"log at 4"}, strings.Count(all.String(), "cause"))...)
			var want []string
			if tc.want != "" {
				want = []string{tc.want, tc.want, tc.want}
			}
			rig.Same(t, "told to", want, got)
		})
	}
	// A streamed list that became a whole one is no news at the usual level.
	var book bytes.Buffer
	newErrorReporter(nil, "pods").handle(klog.NewContext(t.Context(), textlogger.NewLogger(textlogger.NewConfig(textlogger.Output(&book)))), &lw.Error{Op: "stream", Err: cause})
	rig.Same(t, "log", "", book.String())
}

// A changed object crashes the program where it is found. A handler that panics crashes it as
// client-go's panics do: where that is off, later errors are told.
func TestErrorReporterPanics(t *testing.T) {
	changed := &lw.Error{Op: "mutation", Err: errors.New("changed")}
	func() {
		defer func() {
			if p := recover(); p != any(changed) {
				t.Errorf("panic %v", p)
			}
		}()
		newErrorReporter(nil, "").report(changed)
	}()
	rig.Swap(t, &utilruntime.ReallyCrash, false)
	var panics []any
	rig.Swap(t, &utilruntime.PanicHandlers, []func(context.Context, any){func(_ context.Context, v any) { panics = append(panics, v) }})
	r := newErrorReporter(nil, "")
	r.handler = func(_ context.Context, _ *cache.Reflector, err error) { panic(err.Error()) }
	end := r.run(t.Context())
	for _, text := range []string{"one", "two"} {
		r.report(&lw.Error{Op: "list", Failures: 1, Err: errors.New(text)})
	}
	end()
	rig.Same(t, "panics", []any{"one", "two"}, panics)
}

// A streamed list that fails in the client is told as a bad request, so that lw lists at once. What
// the server or the network says stays what it is, and so does the failure of another watch.
func TestNoStreamError(t *testing.T) {
	yes, no := true, false
	for name, tc := range map[string]struct {
		err    error
		stream *bool
		want   bool
	}{
		"the client, streamed":      {errors.New("not a number"), &yes, true},
		"the client, not streamed":  {errors.New("not a number"), &no, false},
		"the client, a plain watch": {errors.New("not a number"), nil, false},
		"the server":                {fmt.Errorf("watch: %w", apierrors.NewServiceUnavailable("down")), &yes, false},
		"the network":               {fmt.Errorf("watch: %w", &net.OpError{Op: "dial", Err: errors.New("refused")}), &yes, false},
		"EOF":                       {fmt.Errorf("watch: %w", io.EOF), &yes, false},
		"half an answer":            {fmt.Errorf("watch: %w", io.ErrUnexpectedEOF), &yes, false},
	} {
		src := SourceOf[*corev1.Pod](&cache.ListWatch{WatchFuncWithContext: func(context.Context, metav1.ListOptions) (watch.Interface, error) { return nil, tc.err }})
		err := src.Watch(t.Context(), metav1.ListOptions{SendInitialEvents: tc.stream}, func(lw.WatchEvent[*corev1.Pod]) error { return nil })
		if got := apierrors.IsBadRequest(err); got != tc.want || !errors.Is(err, tc.err) {
			t.Errorf("%s: a bad request %t, error %v", name, got, err)
		}
	}
}

// A request whose context ends for a reason fails with the reason, or with what it says itself soon
// after that. One that comes later is over for everybody, also if it has failed.
func TestRequestsAfterTheEnd(t *testing.T) {
	reason, own := errors.New("the reason"), errors.New("its own")
	for wait, want := range map[time.Duration]error{patience / 2: own, time.Minute: reason} {
		synctest.Test(t, func(t *testing.T) {
			ctx, cancel := context.WithCancelCause(t.Context())
			cancel(reason)
			src := SourceOf[*corev1.Pod](&cache.ListWatch{
				ListWithContextFunc:  func(context.Context, metav1.ListOptions) (runtime.Object, error) { time.Sleep(wait); return nil, own },
				WatchFuncWithContext: func(context.Context, metav1.ListOptions) (watch.Interface, error) { time.Sleep(wait); return nil, own },
			})
			_, listed := src.List(ctx, metav1.ListOptions{}, nil)
			watched := src.Watch(ctx, metav1.ListOptions{}, nil)
			if !errors.Is(listed, want) || !errors.Is(watched, want) {
				t.Errorf("after %v: a list says %v, a watch %v, want %v", wait, listed, watched, want)
			}
			time.Sleep(2 * wait)
		})
	}
}

// The followers that a write is about to tell stay as they are when one of them ends.
func TestFollowersForget(t *testing.T) {
	fs := &followers{of: map[place][]*follower{}}
	tellers := []*request.Teller{{}, {}, {}}
	r := rig.Must[*http.Request](t)(http.NewRequest("GET", "https://server/api/v1/pods", nil))
	for _, teller := range tellers {
		fs.note(r, teller)
	}
	at, _, _ := placeOf(r.URL)
	told := fs.of[at]
	tellers[0].End()
	rig.Same(t, "those that are left", 2, len(fs.in(at, "default")))
	for i, f := range told {
		if f == nil || f.teller != tellers[i] {
			t.Errorf("follower %d has changed while a write tells it", i)
		}
	}
}

// Without Kinds a Decoder's source has no gate, which costs nothing.
func TestNoGate(t *testing.T) {
	src := Decoder{}.Source(&cache.ListWatch{}, &corev1.Pod{})
	if _, ok := src.(*capturedSource); !ok {
		t.Errorf("the source is a %T", src)
	}
	lister := &cache.ListWatch{}
	if n := testing.AllocsPerRun(100, func() { _ = Decoder{}.gated(src, lister, nil) }); n != 0 {
		t.Errorf("%v allocations", n)
	}
}

// A metaByPointer has its metadata elsewhere, so a copy of the struct shares them.
type metaByPointer struct {
	metav1.TypeMeta
	*metav1.ObjectMeta
}

func (m *metaByPointer) DeepCopyObject() runtime.Object {
	return &metaByPointer{m.TypeMeta, m.ObjectMeta.DeepCopy()}
}

// An object whose metadata cannot be copied stays as it is.
type metaOnly struct{ *metav1.ObjectMeta }

func TestDeletedAt(t *testing.T) {
	meta := func() metav1.ObjectMeta { return metav1.ObjectMeta{Name: "a", ResourceVersion: "1"} }
	own, lost := meta(), meta()
	untyped := map[string]any{"metadata": map[string]any{"resourceVersion": "1"}}
	for name, tt := range map[string]struct {
		obj           metav1.Object
		version, want string
	}{
		"typed":                 {&corev1.Pod{ObjectMeta: meta()}, "2", "2"},
		"metadata":              {&metav1.PartialObjectMetadata{ObjectMeta: meta()}, "2", "2"},
		"unstructured":          {&unstructured.Unstructured{Object: untyped}, "2", "2"},
		"metadata by a pointer": {&metaByPointer{ObjectMeta: &own}, "2", "2"},
		"nothing to copy":       {&metaOnly{&lost}, "2", "1"},
		"no version":            {&corev1.Pod{ObjectMeta: meta()}, "", "1"},
	} {
		got := deletedAt(tt.obj, tt.version).(metav1.Object)
		rig.Same(t, name, tt.want, got.GetResourceVersion())
		rig.Same(t, name+", the object itself", "1", tt.obj.GetResourceVersion())
	}
}
