package clientgo_test

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp/cmpopts"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/apis/meta/internalversion"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/dynamic"
	dynamicfake "k8s.io/client-go/dynamic/fake"
	clientfeatures "k8s.io/client-go/features"
	clientfeaturestesting "k8s.io/client-go/features/testing"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/kubernetes/fake"
	"k8s.io/client-go/metadata"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/cache"
	fcache "k8s.io/client-go/tools/cache/testing"

	"github.com/go-lw/lw"
	"github.com/go-lw/lw/clientgo"
	"github.com/go-lw/lw/internal/verify/rig"
)

// A ListerWatcher that nobody prepared for streamed lists is listed at once, without an error.
func TestSourceOfFakeControllerSource(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		errs := handleErrors(t)
		fake := fcache.NewFakeControllerSource()
		defer fake.Shutdown()
		fake.Add(labelled("a"))
		inf := clientgo.NewInformer(fake, &corev1.Pod{}, 0, nil)
		var got calls
		mustAdd(t, inf, &got)
		stop := runInformer(t, inf)
		got.want(t, "the first list", "add a initial")
		fake.Add(labelled("b"))
		fake.Modify(labelled("a", "v=2"))
		fake.Delete(labelled("b"))
		got.want(t, "the watch", "add b", "update a2 from a", "delete b")
		stop()
		errs.want(t)
	})
}

// SourceOf sets objects of another type aside.
func TestSourceOf(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		list := &internalversion.List{Items: []runtime.Object{labelled("a"), &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Name: "s"}}}}
		list.ResourceVersion = "1"
		var errs rig.Errors
		inf := synced(t, clientgo.SourceOf[*corev1.Pod](lists(list)), &lw.Options{OnError: errs.Add})
		rig.Same(t, "the store has", []string{"a"}, names(inf.Store().List()))
		rig.Same(t, "errors", []string{"lw: Pod: decode s: list *internalversion.List holds a *v1.Secret, not a *v1.Pod"}, errs.Texts())
	})
}

// lists returns a ListerWatcher that has one list, and whose watches are silent.
func lists(list runtime.Object) *cache.ListWatch {
	return &cache.ListWatch{
		ListWithContextFunc:  func(context.Context, metav1.ListOptions) (runtime.Object, error) { return list, nil },
		WatchFuncWithContext: func(context.Context, metav1.ListOptions) (watch.Interface, error) { return watch.NewFake(), nil },
	}
}

// accessed is a list whose metadata is not its own method set, and whose items are not of one type.
type accessed struct {
	metav1.TypeMeta
	Meta  metav1.ListMeta
	Items []runtime.RawExtension
}

func (a *accessed) GetListMeta() metav1.ListInterface { return &a.Meta }
func (a *accessed) DeepCopyObject() runtime.Object    { return a }

// Lists of all forms are read; what is none is an error that says so.
func TestLists(t *testing.T) {
	left := int64(7)
	for name, tc := range map[string]struct {
		list runtime.Object
		want []string
		err  string
	}{
		"typed":            {&corev1.PodList{ListMeta: metav1.ListMeta{ResourceVersion: "5", Continue: "c", RemainingItemCount: &left}, Items: []corev1.Pod{*labelled("a"), *labelled("b")}}, []string{"a", "b"}, ""},
		"unstructured":     {&unstructured.UnstructuredList{Object: map[string]any{"metadata": map[string]any{"resourceVersion": "5", "continue": "c", "remainingItemCount": int64(7)}}, Items: []unstructured.Unstructured{{Object: map[string]any{"metadata": map[string]any{"name": "a"}}}}}, []string{"a"}, ""},
		"with an accessor": {&accessed{Meta: metav1.ListMeta{ResourceVersion: "5", Continue: "c", RemainingItemCount: &left}, Items: []runtime.RawExtension{{Object: labelled("a")}}}, []string{"a"}, ""},
		"nil":              {(*corev1.PodList)(nil), nil, "lw: ListWatch: ListFunc returned a nil *v1.PodList"},
		"an object":        {&corev1.Pod{}, nil, "lw: ListWatch: ListFunc returned a *v1.Pod: object does not implement the List interfaces"},
	} {
		t.Run(name, func(t *testing.T) {
			var got []metav1.Object
			meta, err := clientgo.Source(lists(tc.list), nil).List(t.Context(), metav1.ListOptions{}, func(obj metav1.Object, err error) error {
				got = append(got, obj)
				return err
			})
			if tc.err != "" {
				rig.Same(t, "error", tc.err, fmt.Sprint(err))
				return
			}
			rig.OK(t, err)
			rig.Same(t, "objects", tc.want, names(got))
			rig.Same(t, "metadata", metav1.ListMeta{ResourceVersion: "5", Continue: "c", RemainingItemCount: &left}, meta)
		})
	}
}

// A request that does not heed its context delays the stop hardly, and a watch that comes too late
// is stopped.
func TestStopDuringRequests(t *testing.T) {
	late := watch.NewFake()
	for name, hang := range map[string]func(release <-chan struct{}, from *cache.ListWatch){
		"a list": func(release <-chan struct{}, from *cache.ListWatch) {
			from.ListWithContextFunc = func(context.Context, metav1.ListOptions) (runtime.Object, error) {
				<-release
				return &corev1.PodList{}, nil
			}
			from.WatchFuncWithContext = noStreams
		},
		"a watch": func(release <-chan struct{}, from *cache.ListWatch) {
			from.WatchFuncWithContext = func(context.Context, metav1.ListOptions) (watch.Interface, error) { <-release; return late, nil }
		},
	} {
		rig.Subtest(t, name, func(t *testing.T) {
			release, from := make(chan struct{}), lists(&corev1.PodList{})
			hang(release, from)
			stop := runInformer(t, clientgo.NewInformer(from, &corev1.Pod{}, 0, nil))
			time.Sleep(time.Second)
			began := time.Now()
			stop()
			if took := time.Since(began); took > 100*time.Millisecond {
				t.Errorf("stopped after %v", took)
			}
			close(release)
		})
	}
	rig.Same(t, "the late watch is stopped", true, late.IsStopped())
}

// A request that heeds its context is over when Run returns.
func TestStopWaitsForRequests(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ended := false
		inf := clientgo.NewInformer(&cache.ListWatch{
			ListWithContextFunc: func(ctx context.Context, _ metav1.ListOptions) (runtime.Object, error) {
				<-ctx.Done()
				time.Sleep(10 * time.Millisecond)
				ended = true
				return nil, ctx.Err()
			},
			WatchFuncWithContext: noStreams,
		}, &corev1.Pod{}, 0, nil)
		stop := runInformer(t, inf)
		synctest.Wait()
		stop()
		rig.Same(t, "the request has ended before Run has", true, ended)
	})
}

// A process that has turned client-go's streamed lists off gets none.
func TestWatchListClientGate(t *testing.T) {
	for _, on := range []bool{true, false} {
		clientfeaturestesting.SetFeatureDuringTest(t, clientfeatures.WatchListClient, on)
		if got := lw.HintsOf(clientgo.SourceOf[*corev1.Pod](newPodMemory())); got.NoStream == on || got.Decoder != "client-go" {
			t.Errorf("gate %t: hints %+v", on, got)
		}
	}
}

// optsOut is a client that wants whole lists, as kube-state-metrics says of its real one.
type optsOut struct{}

func (optsOut) IsWatchListSemanticsUnSupported() bool { return true }

// A ListerWatcher that opts out of streamed lists has versions all the same: its watches are
// resumed, and no older state is shown.
func TestOptOutOfStreams(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newCaptureServer(t)
		config := &rest.Config{}
		lister := cache.ToListWatcherWithWatchListSemantics(typedPods(t, config, s.client(t, config), noTweak), optsOut{})
		inf := synced(t, clientgo.Source(lister, &corev1.Pod{}), strict(t))
		for range 3 {
			time.Sleep(time.Minute)
			s.pods.Disconnect()
		}
		time.Sleep(time.Minute)
		if s := inf.Status(); s.Requests["list"].Started != 1 || s.Requests["watch"].Started < 4 {
			t.Errorf("%d lists and %d watches, want 1 and 4 or more", s.Requests["list"].Started, s.Requests["watch"].Started)
		}
		rig.Same(t, "hints", lw.SourceHints{NoStream: true, Decoder: "client-go"}, lw.HintsOf(clientgo.Source(lister, &corev1.Pod{})), cmpopts.IgnoreFields(lw.SourceHints{}, "StillHas", "unnamed", "polled"))
	})
}

// A lagging replica behind such a ListerWatcher is not believed.
func TestOptOutNeverBack(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		versions := []string{"120", "110", "130"}
		lists := 0
		lister := cache.ToListWatcherWithWatchListSemantics(&cache.ListWatch{
			ListWithContextFunc: func(context.Context, metav1.ListOptions) (runtime.Object, error) {
				p := pod("default", "a")
				p.ResourceVersion = versions[lists]
				lists++
				return &corev1.PodList{ListMeta: metav1.ListMeta{ResourceVersion: p.ResourceVersion}, Items: []corev1.Pod{*p}}, nil
			},
			WatchFuncWithContext: func(context.Context, metav1.ListOptions) (watch.Interface, error) {
				if lists == 1 {
					return nil, apierrors.NewResourceExpired("too old")
				}
				return &silentWatch{}, nil
			},
		}, optsOut{})
		inf := lw.NewInformer(clientgo.Source(lister, &corev1.Pod{}), &lw.Options{OnError: func(error) {}})
		var shown []string
		inf.AddHandler(lw.Handler[metav1.Object]{
			Add:    func(obj metav1.Object) { shown = append(shown, obj.GetResourceVersion()) },
			Update: func(_, obj metav1.Object) { shown = append(shown, obj.GetResourceVersion()) },
		})
		rig.Start(t, inf)
		rig.Sleep(time.Minute)
		rig.Same(t, "versions", []string{"120", "130"}, shown)
	})
}

// silentWatch is a watch that is none of apimachinery's fakes.
type silentWatch struct{}

func (*silentWatch) Stop()                          {}
func (*silentWatch) ResultChan() <-chan watch.Event { return nil }

// client-go's own fake of a controller's source refuses a streamed list with an error of strconv:
// neither the API's nor the network's. It is listed then, within a backoff.
func TestFakeControllerSource(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		fake := fcache.NewFakeControllerSource()
		fake.Add(pod("default", "a"))
		fake.Add(pod("default", "b"))
		src := &lw.ListWatch[*corev1.Pod, *corev1.List]{
			ListFunc: func(_ context.Context, opts metav1.ListOptions) (*corev1.List, error) {
				l, err := fake.List(opts)
				list, _ := l.(*corev1.List)
				return list, err
			},
			WatchFunc: func(_ context.Context, opts metav1.ListOptions) (watch.Interface, error) { return fake.Watch(opts) },
		}
		var errs rig.Errors
		inf := lw.NewInformer(src, &lw.Options{OnError: errs.Add})
		var told calls
		inf.AddHandler(told.handler())
		begin := time.Now()
		stop := rig.Begin(t, inf)
		rig.OK(t, inf.WaitForSync(t.Context()))
		if took := time.Since(begin); took > 2*time.Second || len(errs.All()) != 2 {
			t.Errorf("synced after %v and %v", took, errs.All())
		}
		told.want(t, "the list", "add a", "add b")
		fake.Add(pod("default", "c"))
		fake.Modify(pod("default", "a"))
		fake.Delete(pod("default", "b"))
		rig.Sleep(time.Minute)
		rig.Same(t, "told", []string{"add c", "update a from a", "delete b"}, told.take())
		if s := inf.Status(); s.Mode != lw.ListPages || s.Failures != 0 || s.Objects != 2 {
			t.Errorf("status: %+v", s)
		}
		stop()
		fake.Shutdown()
	})
}

// That these compile is the test: every type is inferred, and all kinds of clients fit.
var (
	_ = func(c *kubernetes.Clientset) *lw.Informer[*corev1.Pod] {
		return lw.NewInformer(lw.FromClient(c.CoreV1().Pods("")), nil)
	}
	_ = func(c kubernetes.Interface) *lw.Informer[*corev1.Node] {
		return lw.NewInformer(lw.FromClient(c.CoreV1().Nodes()), nil)
	}
	_ = func(c dynamic.ResourceInterface) *lw.Informer[*unstructured.Unstructured] {
		return lw.NewInformer(&lw.ListWatch[*unstructured.Unstructured, *unstructured.UnstructuredList]{ListFunc: c.List, WatchFunc: c.Watch}, nil)
	}
	_ = func(c metadata.ResourceInterface) *lw.Informer[*metav1.PartialObjectMetadata] {
		return lw.NewInformer(&lw.ListWatch[*metav1.PartialObjectMetadata, *metav1.PartialObjectMetadataList]{ListFunc: c.List, WatchFunc: c.Watch}, nil)
	}
)

func pod(namespace, name string) *corev1.Pod {
	return &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: name}}
}

// A fake clientset streams no lists and stamps no versions. It syncs at once all the same, and what
// is written to it arrives.
func TestFakeClientset(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var pods []runtime.Object
		for i := range 150 { // more than its watches can hold
			pods = append(pods, pod("default", fmt.Sprintf("pod-%03d", i)))
		}
		c := fake.NewClientset(pods...)
		inf := lw.NewInformer(lw.FromClient(c.CoreV1().Pods("")), strict(t))
		var told calls
		inf.AddHandler(told.handler())
		rig.Start(t, inf)
		began := time.Now()
		rig.OK(t, inf.WaitForSync(t.Context()))
		rig.Same(t, "time until it has synced", 0, time.Since(began))
		rig.Same(t, "pods", 150, inf.Store().Len())
		told.take()
		ctx := t.Context()
		api := c.CoreV1().Pods("default")
		p := rig.Must[*corev1.Pod](t)(api.Create(ctx, pod("default", "new"), metav1.CreateOptions{}))
		p.Spec.NodeName = "n1"
		rig.Must[*corev1.Pod](t)(api.Update(ctx, p, metav1.UpdateOptions{}))
		p.Spec.NodeName = "n2"
		rig.Must[*corev1.Pod](t)(api.Update(ctx, p, metav1.UpdateOptions{}))
		rig.OK(t, api.Delete(ctx, "new", metav1.DeleteOptions{}))
		rig.Same(t, "told", []string{"add new", "update new from new", "update new from new", "delete new"}, told.take())
	})
}

// What is written between the list and the watch of a fake clientset must not be lost.
func TestFakeClientsetRace(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := fake.NewClientset(pod("default", "a"))
		src := lw.FromClient(c.CoreV1().Pods(""))
		list := src.ListFunc
		src.ListFunc = func(ctx context.Context, opts metav1.ListOptions) (*corev1.PodList, error) {
			l, err := list(ctx, opts)
			_, failed := c.CoreV1().Pods("default").Create(ctx, pod("default", "b"), metav1.CreateOptions{})
			return l, errors.Join(err, failed)
		}
		inf := synced(t, src, strict(t))
		synctest.Wait()
		rig.Same(t, "pods", []string{"a", "b"}, names(inf.Store().List()))
	})
}

func TestFakeDynamicClient(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		scheme := runtime.NewScheme()
		gvr := schema.GroupVersionResource{Group: "example.org", Version: "v1", Resource: "widgets"}
		c := dynamicfake.NewSimpleDynamicClientWithCustomListKinds(scheme, map[schema.GroupVersionResource]string{gvr: "WidgetList"})
		widget := &unstructured.Unstructured{Object: map[string]any{
			"apiVersion": "example.org/v1", "kind": "Widget", "metadata": map[string]any{"namespace": "default", "name": "a"},
		}}
		api := c.Resource(gvr)
		inf := syncedAtOnce(t, &lw.ListWatch[*unstructured.Unstructured, *unstructured.UnstructuredList]{ListFunc: api.List, WatchFunc: api.Watch}, nil)
		rig.Must[*unstructured.Unstructured](t)(api.Namespace("default").Create(t.Context(), widget, metav1.CreateOptions{}))
		synctest.Wait()
		rig.Same(t, "widgets", 1, inf.Store().Len())
	})
}

// A client of one namespace is told of no object of another one.
func TestFromClientTold(t *testing.T) {
	for name, c := range map[string]kubernetes.Interface{"real": kubernetes.NewForConfigOrDie(&rest.Config{}), "fake": fake.NewClientset()} {
		for namespace, want := range map[string]bool{"": true, "blue": true, "green": false} {
			if _, stays, err := lw.FromClient(c.CoreV1().Pods(namespace)).Told(pod("blue", "a")); stays != want || err != nil {
				t.Errorf("%s client of %q: stays %v, %v", name, namespace, stays, err)
			}
		}
	}
}

// A real clientset and the source of this package see what a server says, and their errors unwrap.
func TestRealClientset(t *testing.T) {
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Type", "application/json")
		if strings.Contains(r.URL.Path, "secrets") {
			w.WriteHeader(http.StatusForbidden)
			fmt.Fprint(w, `{"kind":"Status","apiVersion":"v1","status":"Failure","reason":"Forbidden","code":403,"message":"secrets is forbidden"}`)
			return
		}
		if r.URL.Query().Get("watch") == "" {
			fmt.Fprint(w, `{"kind":"PodList","apiVersion":"v1","metadata":{"resourceVersion":"7"},"items":[{"metadata":{"namespace":"d","name":"a","uid":"u","resourceVersion":"5"}}]}`)
			return
		}
		if r.URL.Query().Get("sendInitialEvents") == "true" {
			fmt.Fprintln(w, `{"type":"ADDED","object":{"kind":"Pod","apiVersion":"v1","metadata":{"namespace":"d","name":"a","uid":"u","resourceVersion":"5"}}}`)
			fmt.Fprintln(w, `{"type":"BOOKMARK","object":{"kind":"Pod","apiVersion":"v1","metadata":{"resourceVersion":"7","annotations":{"k8s.io/initial-events-end":"true"}}}}`)
		}
		w.(http.Flusher).Flush()
		<-r.Context().Done()
	}))
	defer server.Close()
	config := &rest.Config{Host: server.URL, ContentConfig: rest.ContentConfig{ContentType: "application/json", AcceptContentTypes: "application/json"}}
	clientset := kubernetes.NewForConfigOrDie(config)
	viaHTTP := rig.Must[*lw.HTTP[*corev1.Pod]](t)(clientgo.HTTP[*corev1.Pod](config, corev1.SchemeGroupVersion.WithResource("pods"), ""))
	viaHTTP.Accept = "application/json"
	for name, src := range map[string]lw.Source[*corev1.Pod]{"clientset": lw.FromClient(clientset.CoreV1().Pods("")), "HTTP": viaHTTP} {
		t.Run(name, func(t *testing.T) {
			inf := synced(t, src, nil)
			if _, ok := inf.Store().Get(lw.Key{Namespace: "d", Name: "a"}); !ok || inf.Store().ResourceVersion() != "7" {
				t.Errorf("%d objects at %s", inf.Store().Len(), inf.Store().ResourceVersion())
			}
		})
	}
	secrets := lw.NewInformer(lw.FromClient(clientset.CoreV1().Secrets("")), &lw.Options{OnError: func(error) {}})
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	go secrets.Run(ctx)
	rig.Met(t, time.Minute, "no error is reported", func() bool { return secrets.Status().Err != nil })
	cancel()
	err := secrets.WaitForSync(ctx)
	fails(t, err, "secrets is forbidden")
	rig.Same(t, "it is an Error", true, errors.As(err, new(*lw.Error)))
}

func TestHTTPNeedsAResource(t *testing.T) {
	pods, good := corev1.SchemeGroupVersion.WithResource("pods"), &rest.Config{Host: "http://h"}
	badCA := rest.TLSClientConfig{CAFile: "/no/such/file"}
	for _, tt := range []struct {
		config   *rest.Config
		resource schema.GroupVersionResource
		want     string
	}{
		{nil, pods, "^clientgo: HTTP: nil config$"},
		{&rest.Config{Host: "http://[::1"}, pods, "^clientgo: HTTP: "},
		{&rest.Config{Host: "https://h", TLSClientConfig: badCA}, pods, "^clientgo: HTTP: "},
		{good, schema.GroupVersionResource{}, "needs a version and a resource"},
		{good, schema.GroupVersionResource{Version: "v1"}, "needs a version and a resource"},
		{good, schema.GroupVersionResource{Resource: "pods"}, "needs a version and a resource"},
	} {
		_, err := clientgo.HTTP[*corev1.Pod](tt.config, tt.resource, "")
		fails(t, err, tt.want)
	}
	config := &rest.Config{Host: "http://127.0.0.1:8001/k8s/clusters/c1"}
	src, err := clientgo.HTTP[*corev1.Pod](config, appsv1.SchemeGroupVersion.WithResource("deployments"), "ns")
	rig.OK(t, err)
	rig.Same(t, "URL", "http://127.0.0.1:8001/k8s/clusters/c1/apis/apps/v1/namespaces/ns/deployments", src.URL)
}

// The source sends what the config has: its credentials, by its transport.
func TestHTTPSendsTheCredentials(t *testing.T) {
	var sent []string
	config := &rest.Config{Host: "http://h", BearerToken: "token", UserAgent: "agent", Transport: rig.RoundTrip(func(r *http.Request) (*http.Response, error) {
		sent = append(sent, r.Header.Get("Authorization"), r.UserAgent())
		return nil, errors.New("seen")
	})}
	src := rig.Must[*lw.HTTP[*corev1.Pod]](t)(clientgo.HTTP[*corev1.Pod](config, corev1.SchemeGroupVersion.WithResource("pods"), ""))
	_, err := src.List(t.Context(), metav1.ListOptions{}, func(*corev1.Pod, error) error { return nil })
	fails(t, err, "seen")
	rig.Same(t, "sent", []string{"Bearer token", "agent"}, sent)
}

func ExampleHTTP() {
	config := &rest.Config{Host: "http://127.0.0.1:8001"}
	src, err := clientgo.HTTP[*corev1.Pod](config, corev1.SchemeGroupVersion.WithResource("pods"), "kube-system")
	if err != nil {
		fmt.Println(err)
		return
	}
	fmt.Println(src.URL)
	// Output: http://127.0.0.1:8001/api/v1/namespaces/kube-system/pods
}
