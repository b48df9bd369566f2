package storage_test

import (
	"context"
	"errors"
	"log/slog"
	"net/http/httptest"
	"reflect"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/serializer"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/apiserver/pkg/apis/example"
	examplev1 "k8s.io/apiserver/pkg/apis/example/v1"
	"k8s.io/apiserver/pkg/storage"
	"k8s.io/client-go/rest"

	"github.com/go-lw/lw"
	"github.com/go-lw/lw/internal/history"
	"github.com/go-lw/lw/internal/verify/rig"
	"github.com/go-lw/lw/serve"
)

var (
	scheme = runtime.NewScheme()
	codecs = serializer.NewCodecFactory(scheme)
)

func init() {
	metav1.AddToGroupVersion(scheme, metav1.SchemeGroupVersion)
	metav1.AddToGroupVersion(scheme, examplev1.SchemeGroupVersion)
	if err := errors.Join(example.AddToScheme(scheme), examplev1.AddToScheme(scheme)); err != nil {
		panic(err)
	}
}

// A store is a storage.Interface of pods. Its reads are requests by HTTP to what package serve
// serves: a Memory, or a relay of it. Its writes are the Memory's own: what is above a store, such
// as UIDs that clients may not choose, is no matter of these tests.
type store struct {
	memory  *lw.Memory[*examplev1.Pod]
	reads   rest.Interface // of the last relay, or of the Memory
	setting setting
	restart []func() // of the relays, from the Memory on
	made    atomic.Uint64
	oldest  atomic.Int64 // the version of the last compaction
}

// A setting is what is served.
type setting struct {
	relays  int
	cluster bool // pods have no namespace
	// newest makes a list at version 0 that has a limit one of the newest state. At version 0 a
	// server with a cache ignores the limit, and so does package serve.
	newest bool
	// history, if it is not 0, is how many events the relays keep; else they begin anew when the
	// Memory is compacted, of which no server tells its clients.
	history int
	// bookmarks is how often watches get one; 0: once a minute.
	bookmarks time.Duration
}

func newStore(t *testing.T, s setting) *store {
	t.Helper()
	out := &store{memory: lw.NewMemory[*examplev1.Pod](), setting: s}
	url := serveOn(t, s, func(ctx context.Context, h *serve.Handler) error {
		return serve.ServeMemory(ctx, h, out.memory, podsAs[*examplev1.Pod](s))
	})
	for range s.relays {
		src := serve.Raw(url+"/apis/example.apiserver.k8s.io/v1/pods", nil)
		url = serveOn(t, s, func(ctx context.Context, h *serve.Handler) error {
			again := make(chan chan struct{})
			out.restart = append(out.restart, func() {
				done := make(chan struct{})
				again <- done
				<-done
			})
			var done chan struct{}
			for ctx.Err() == nil {
				done = relayUntil(ctx, again, h, src, podsAs[*serve.Object](s), done)
			}
			return ctx.Err()
		})
	}
	out.reads = client(t, url)
	if _, err := out.GetCurrentResourceVersion(t.Context()); err != nil { // then each relay has the history from here on
		t.Fatal(err)
	}
	return out
}

// relayUntil runs a relay until ctx is done, or again says that another one is to begin. It closes
// ready when it has synced.
func relayUntil(ctx context.Context, again chan chan struct{}, h *serve.Handler, src lw.Source[*serve.Object],
	r serve.Resource[*serve.Object], ready chan struct{}) (next chan struct{}) {
	ctx, cancel := context.WithCancel(ctx)
	inf := lw.NewInformer(src, &lw.Options{Logger: slog.New(slog.DiscardHandler)})
	var running sync.WaitGroup
	running.Go(func() { _ = inf.Run(ctx) })
	running.Go(func() { _ = serve.Serve(ctx, h, inf, r) })
	if ready != nil {
		for ctx.Err() == nil && len(h.Status()) == 0 {
			time.Sleep(time.Millisecond)
		}
		_ = h.WaitForSync(ctx) // else ctx is done
		close(ready)
	}
	select {
	case <-ctx.Done():
	case next = <-again:
	}
	cancel()
	running.Wait()
	return next
}

func podsAs[T lw.Object](s setting) serve.Resource[T] {
	return serve.Resource[T]{
		History: serve.HistoryLimits{Events: s.history},
		Group:   examplev1.SchemeGroupVersion.Group, Version: "v1", Name: "pods", Kind: "Pod", Cluster: s.cluster,
		Fields: map[string]func(T) string{"spec.nodeName": func(obj T) string {
			switch p := any(obj).(type) {
			case *examplev1.Pod:
				return p.Spec.NodeName
			case *serve.Object:
				return serve.Field("spec.nodeName")(p)
			}
			return ""
		}},
	}
}

// serveOn runs a server until the end of the test, and returns its URL.
func serveOn(t *testing.T, s setting, run func(ctx context.Context, h *serve.Handler) error) (url string) {
	t.Helper()
	ctx, cancel := context.WithCancel(context.Background())
	h := serve.New(&serve.Options{Authorize: serve.AllowAll, BookmarkEvery: s.bookmarks,
		Logger: slog.New(slog.DiscardHandler)})
	ended := make(chan error, 1)
	go func() { ended <- run(ctx, h) }()
	for len(h.Status()) == 0 {
		select {
		case err := <-ended:
			t.Fatal(err)
		case <-time.After(time.Millisecond):
		}
	}
	rig.OK(t, h.WaitForSync(ctx))
	srv := httptest.NewUnstartedServer(h)
	srv.Listener = serve.Listener(srv.Listener)
	srv.Start()
	t.Cleanup(func() {
		cancel()
		<-ended
		srv.CloseClientConnections()
		srv.Close()
	})
	return srv.URL
}

func client(t *testing.T, url string) rest.Interface {
	t.Helper()
	gv := examplev1.SchemeGroupVersion
	c := rig.Must[*rest.RESTClient](t)(rest.RESTClientFor(&rest.Config{
		Host: url, APIPath: "/apis", QPS: -1,
		ContentConfig: rest.ContentConfig{GroupVersion: &gv, NegotiatedSerializer: codecs.WithoutConversion(),
			ContentType: runtime.ContentTypeJSON},
	}))
	return c
}

// What the store's tests do not expect: the server gives each object a UID and a time of creation.
// The adapter sends its own, and takes them for none.
const madeUID = "made-"

var madeTime = metav1.Date(2001, 1, 1, 0, 0, 0, 0, time.UTC)

// internal returns what was received as the store's tests have it: with its defaults, and in the
// internal version.
func internal(obj runtime.Object, into runtime.Object) error {
	scheme.Default(obj)
	if err := scheme.Convert(obj, into, nil); err != nil {
		return err
	}
	if pod, ok := into.(*example.Pod); ok {
		strip(pod)
	}
	if list, ok := into.(*example.PodList); ok {
		list.TypeMeta = metav1.TypeMeta{}
		for i := range list.Items {
			strip(&list.Items[i])
		}
	}
	return nil
}

func strip(pod *example.Pod) {
	pod.TypeMeta = metav1.TypeMeta{}
	if strings.HasPrefix(string(pod.UID), madeUID) {
		pod.UID = ""
	}
	if pod.CreationTimestamp.Time.Equal(madeTime.Time) {
		pod.CreationTimestamp = metav1.Time{}
	}
}

// split returns what a key of the store names: a namespace, a name, or both.
func (s *store) split(key string) (namespace, name string) {
	parts := strings.Split(strings.Trim(strings.TrimPrefix(key, "/pods"), "/"), "/")
	switch {
	case len(parts) > 1:
		return parts[0], parts[1]
	case s.setting.cluster:
		return "", parts[0]
	}
	return parts[0], ""
}

// named returns the key of an object as the Memory has it.
func (s *store) named(key string) lw.Key {
	namespace, name := s.split(key)
	return lw.Key{Namespace: namespace, Name: name}
}

// of names the object of a key in a request.
func (s *store) of(r *rest.Request, key string) *rest.Request {
	namespace, name := s.split(key)
	return r.NamespaceIfScoped(namespace, !s.setting.cluster).Resource("pods").Name(name)
}

// at names what a list or a watch of a key is of.
func (s *store) at(r *rest.Request, key string, opts storage.ListOptions) *rest.Request {
	namespace, _ := s.split(key)
	list := s.options(key, opts)
	if list.SendInitialEvents != nil && list.ResourceVersionMatch == "" {
		list.ResourceVersionMatch = metav1.ResourceVersionMatchNotOlderThan // a store does not ask for it
	}
	if s.setting.newest && list.ResourceVersion == "0" && (list.Limit > 0 || list.Continue != "") {
		list.ResourceVersion = ""
	}
	return r.NamespaceIfScoped(namespace, namespace != "").Resource("pods").VersionedParams(list, metav1.ParameterCodec)
}

// options are those of a list or a watch of key, but for its namespace.
func (s *store) options(key string, opts storage.ListOptions) *metav1.ListOptions {
	_, name := s.split(key)
	field := ""
	switch {
	case !opts.Recursive && name != "":
		field = "metadata.name=" + name
	case opts.Recursive && name != "", !opts.Recursive:
		field = "metadata.name=" // nothing has a key under that of an object, and nothing the key of a prefix
	}
	p := opts.Predicate
	list := &metav1.ListOptions{
		ResourceVersion: opts.ResourceVersion, ResourceVersionMatch: opts.ResourceVersionMatch,
		Limit: p.Limit, Continue: p.Continue, AllowWatchBookmarks: p.AllowWatchBookmarks,
		SendInitialEvents: opts.SendInitialEvents,
	}
	if p.Label != nil {
		list.LabelSelector = p.Label.String()
	}
	if p.Field != nil && !p.Field.Empty() {
		if field != "" {
			field += ","
		}
		field += p.Field.String()
	}
	list.FieldSelector = field
	return list
}

// storageError is an error as a store returns it.
func storageError(key string, err error) error {
	switch {
	case err == nil:
		return nil
	case apierrors.IsNotFound(err):
		return storage.NewKeyNotFoundError(key, 0)
	case apierrors.IsAlreadyExists(err):
		return storage.NewKeyExistsError(key, 0)
	}
	return err
}

func (s *store) sent(obj runtime.Object) (*examplev1.Pod, error) {
	out := &examplev1.Pod{}
	if err := scheme.Convert(obj.DeepCopyObject(), out, nil); err != nil {
		return nil, err
	}
	if out.ResourceVersion != "" {
		return nil, storage.ErrResourceVersionSetOnCreate
	}
	if out.CreationTimestamp.IsZero() {
		out.CreationTimestamp = madeTime
	}
	return out, nil
}

func (s *store) Create(ctx context.Context, key string, obj, out runtime.Object, _ uint64) error {
	pod, err := s.sent(obj)
	if err != nil {
		return err
	}
	if pod.UID == "" {
		pod.UID = types.UID(madeUID + strconv.FormatUint(s.made.Add(1), 10))
	}
	got, err := s.memory.Create(ctx, pod)
	if err == nil {
		err = s.shown(ctx, got.ResourceVersion)
	}
	if err != nil || out == nil {
		return storageError(key, err)
	}
	return internal(got, out)
}

// current returns the object of a key, as it was received and as the tests have it.
func (s *store) current(ctx context.Context, key string) (*examplev1.Pod, *example.Pod, error) {
	pod := &example.Pod{}
	got, err := s.memory.Get(ctx, s.named(key))
	if err != nil {
		return nil, nil, storageError(key, err)
	}
	return got, pod, internal(got.DeepCopy(), pod)
}

func (s *store) Delete(ctx context.Context, key string, out runtime.Object, pre *storage.Preconditions,
	validate storage.ValidateObjectFunc, _ runtime.Object, _ storage.DeleteOptions) error {
	for {
		got, pod, err := s.current(ctx, key)
		if err == nil {
			err = pre.Check(key, pod)
		}
		if err == nil {
			err = validate(ctx, pod)
		}
		if err != nil {
			return err
		}
		gone, err := s.memory.Delete(ctx, s.named(key), got.ResourceVersion)
		switch {
		case apierrors.IsConflict(err):
			continue
		case err != nil:
			return storageError(key, err)
		}
		pod.ResourceVersion = gone
		pod.DeepCopyInto(out.(*example.Pod))
		return s.shown(ctx, gone)
	}
}

func (s *store) GuaranteedUpdate(ctx context.Context, key string, out runtime.Object, ignoreNotFound bool,
	pre *storage.Preconditions, try storage.UpdateFunc, _ runtime.Object) error {
	for {
		got, pod, err := s.current(ctx, key)
		missing := storage.IsNotFound(err)
		if missing && ignoreNotFound {
			got, pod, err = nil, &example.Pod{}, nil
		}
		if err == nil {
			err = pre.Check(key, pod)
		}
		if err != nil {
			return err
		}
		version, _ := strconv.ParseUint(pod.ResourceVersion, 10, 64)
		next, _, err := try(pod.DeepCopy(), storage.ResponseMeta{ResourceVersion: version})
		if err != nil {
			return err
		}
		bare := next.DeepCopyObject().(*example.Pod)
		bare.ResourceVersion = ""
		if got == nil {
			err = s.Create(ctx, key, bare, out, 0)
			if storage.IsExist(err) {
				continue
			}
			return err
		}
		put, err := s.sent(bare)
		if err != nil {
			return err
		}
		put.ResourceVersion, put.UID = got.ResourceVersion, got.UID
		put.Namespace, put.Name = s.split(key) // some tests have objects without a namespace
		stored, err := s.memory.Update(ctx, put)
		if apierrors.IsConflict(err) || apierrors.IsNotFound(err) {
			continue
		}
		if err == nil {
			err = s.shown(ctx, stored.ResourceVersion)
		}
		if err != nil {
			return err
		}
		return internal(stored, out)
	}
}

// shown waits until the last relay has a write: so it gets each alone, as from clients.
func (s *store) shown(ctx context.Context, version string) error {
	if s.setting.relays == 0 {
		return nil
	}
	return s.reads.Get().Resource("pods").Param("resourceVersion", version).Param("limit", "1").Do(ctx).Error()
}

func (s *store) Get(ctx context.Context, key string, opts storage.GetOptions, out runtime.Object) error {
	got := &examplev1.Pod{}
	if _, name := s.split(key); name == "" {
		return s.missing(key, opts, out)
	}
	params := &metav1.GetOptions{ResourceVersion: opts.ResourceVersion}
	err := s.of(s.reads.Get().MaxRetries(0), key).VersionedParams(params, metav1.ParameterCodec).Do(ctx).Into(got)
	if apierrors.IsNotFound(err) {
		return s.missing(key, opts, out)
	}
	if err != nil {
		return err
	}
	return internal(got, out)
}

func (s *store) missing(key string, opts storage.GetOptions, out runtime.Object) error {
	if opts.IgnoreNotFound {
		return runtime.SetZeroValue(out)
	}
	return storage.NewKeyNotFoundError(key, 0)
}

func (s *store) GetList(ctx context.Context, key string, opts storage.ListOptions, out runtime.Object) error {
	got := &examplev1.PodList{}
	err := s.at(s.reads.Get().MaxRetries(0), key, opts).Do(ctx).Into(got)
	if status := (*apierrors.StatusError)(nil); errors.As(err, &status) && apierrors.IsResourceExpired(err) {
		// The tests look for etcd's words; reason, code and token are the server's.
		what := "The resourceVersion for the provided list is too old: "
		if opts.Predicate.Continue != "" {
			what = "The provided continue parameter is too old to display a consistent list result: "
		}
		status.ErrStatus.Message = what + status.ErrStatus.Message
	}
	if err != nil {
		return err
	}
	return internal(got, out)
}

func (s *store) Watch(ctx context.Context, key string, opts storage.ListOptions) (watch.Interface, error) {
	r := s.at(s.reads.Get().MaxRetries(0), key, opts).Param("watch", "1")
	w, err := r.Watch(ctx)
	if err != nil {
		return nil, err
	}
	return buffered(watch.Filter(w, func(ev watch.Event) (watch.Event, bool) {
		if obj, ok := ev.Object.(*examplev1.Pod); ok {
			pod := &example.Pod{}
			if ev.Type == watch.Bookmark { // no defaults for what is no pod
				pod.ResourceVersion, pod.Annotations = obj.ResourceVersion, obj.Annotations
			} else if err := internal(obj, pod); err != nil {
				return watch.Event{Type: watch.Error, Object: &metav1.Status{Message: err.Error()}}, true
			}
			ev.Object = pod
		}
		return ev, true
	})), nil
}

// A buffer is a watch whose events are received before they are asked for, as far as they fit: a
// store's watch has some at hand, and gives them out also when it was stopped. client-go's watch
// may call its own end an error, which a store's does not.
type buffer struct {
	watch.Interface
	events  chan watch.Event
	stopped atomic.Bool
}

func buffered(w watch.Interface) watch.Interface {
	b := &buffer{Interface: w, events: make(chan watch.Event, 100)}
	go func() {
		defer close(b.events)
		for ev := range w.ResultChan() {
			if ev.Type != watch.Error || !b.stopped.Load() {
				b.events <- ev
			}
		}
	}()
	return b
}

func (b *buffer) Stop() {
	b.stopped.Store(true)
	b.Interface.Stop()
}

func (b *buffer) ResultChan() <-chan watch.Event { return b.events }

func (s *store) Stats(context.Context) (storage.Stats, error) {
	return storage.Stats{}, errors.New("a server tells nobody what its store is like")
}

func (s *store) Versioner() storage.Versioner { return storage.APIObjectVersioner{} }

func (s *store) ReadinessCheck() error { return nil }

func (s *store) RequestWatchProgress(context.Context) error { return nil }

func (s *store) EnableResourceSizeEstimation(storage.KeysFunc) error { return nil }

func (s *store) CompactRevision() int64 { return s.oldest.Load() }

func (s *store) GetCurrentResourceVersion(ctx context.Context) (uint64, error) {
	list := &examplev1.PodList{}
	if err := s.at(s.reads.Get().MaxRetries(0), "/pods", storage.ListOptions{Recursive: true,
		Predicate: storage.SelectionPredicate{Limit: 1}}).Do(ctx).Into(list); err != nil {
		return 0, err
	}
	return strconv.ParseUint(list.ResourceVersion, 10, 64)
}

// line is what the Memory counts its versions by. A program needs no version at which nothing
// changes, so Memory has no method for it.
func (s *store) line() *history.Line {
	return *(**history.Line)(reflect.ValueOf(s.memory).Elem().FieldByName("line").Addr().UnsafePointer())
}

// increase makes a version at which no pod changes.
func (s *store) increase(ctx context.Context, t *testing.T) int64 {
	t.Helper()
	s.line().Advance(1)
	s.memory.Bookmark()
	version, err := strconv.ParseInt(s.memory.ResourceVersion(), 10, 64)
	if err == nil && s.setting.relays == 0 {
		_, err = s.GetCurrentResourceVersion(ctx) // what is served has it then
	}
	if err != nil {
		t.Fatal(err)
	}
	return version
}

// compact has the server forget the versions before version. That makes a version, as with the
// store of kube-apiserver, which notes in etcd what it has compacted.
func (s *store) compact(ctx context.Context, t *testing.T, version string) {
	t.Helper()
	s.increase(ctx, t)
	oldest := rig.Must[int64](t)(strconv.ParseInt(version, 10, 64))
	s.line().Compact(uint64(oldest))
	if s.setting.history == 0 {
		for _, restart := range s.restart {
			restart()
		}
	}
	s.oldest.Store(oldest)
}
