package clientgo_test

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/http/cookiejar"
	"net/url"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/kubernetes/fake"
	"k8s.io/client-go/metadata"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/cache"
	"k8s.io/client-go/tools/metrics"
	"k8s.io/client-go/util/flowcontrol"

	"github.com/go-lw/lw"
	"github.com/go-lw/lw/clientgo"
	"github.com/go-lw/lw/internal/apiserver"
)

// captureServer is a server of pods, in JSON and in protobuf, and a log of the requests that reach it.
type captureServer struct {
	*apiserver.Server
	pods *apiserver.Collection

	mu       sync.Mutex
	requests []*http.Request
}

func newCaptureServer(t *testing.T) *captureServer {
	s := &captureServer{Server: apiserver.New(apiserver.Options{Resources: []apiserver.Resource{
		{Resource: "pods", Kind: "Pod", Fields: []string{"spec.nodeName"}, Proto: apiserver.Proto[corev1.Pod]()},
	}})}
	s.pods = s.Collection("pods")
	for i := range 3 {
		s.create(t, fmt.Sprintf("pod-%d", i), map[string]string{"app": "web"})
	}
	t.Cleanup(s.Close)
	return s
}

func (s *captureServer) create(t *testing.T, name string, labels map[string]string) {
	t.Helper()
	p := pod("default", name)
	p.Labels = labels
	p.Spec.Containers = []corev1.Container{{Name: "main", Image: "image:" + name}}
	if _, err := s.pods.Create(p); err != nil {
		t.Fatal(err)
	}
}

// client returns a client of config whose requests are logged.
func (s *captureServer) client(t *testing.T, config *rest.Config) *http.Client {
	t.Helper()
	transport := s.Server.Client().Transport
	t.Cleanup(transport.(*http.Transport).CloseIdleConnections)
	config.Host = "http://apiserver"
	config.Transport = roundTripper(func(r *http.Request) (*http.Response, error) {
		s.mu.Lock()
		s.requests = append(s.requests, r.Clone(context.Background()))
		s.mu.Unlock()
		return transport.RoundTrip(r)
	})
	client, err := rest.HTTPClientFor(config)
	if err != nil {
		t.Fatal(err)
	}
	return client
}

// took returns the requests since the last call, without the parameters of lists and watches.
func (s *captureServer) took() []string {
	s.mu.Lock()
	defer s.mu.Unlock()
	var out []string
	for _, r := range s.requests {
		q := r.URL.Query()
		line := "list"
		switch {
		case q.Get("sendInitialEvents") != "":
			line = "stream"
		case q.Get("watch") != "":
			line = "watch"
		}
		if r.URL.Path == "/api/v1/namespaces/default/pods" {
			line += " default"
		} else {
			line += " of " + r.URL.Path
		}
		for _, p := range []string{"labelSelector", "fieldSelector", "timeout"} {
			if v := q.Get(p); v != "" {
				line += " " + v
			}
		}
		out = append(out, line)
	}
	s.requests = nil
	return out
}

type roundTripper func(*http.Request) (*http.Response, error)

func (f roundTripper) RoundTrip(r *http.Request) (*http.Response, error) { return f(r) }

// A witness is a ListerWatcher that logs how the calls of another one end.
type witness struct {
	cache.ListerWatcherWithContext
	calls []string
}

func witnessOf(l cache.ListerWatcher) *witness {
	return &witness{ListerWatcherWithContext: cache.ToListerWatcherWithContext(l)}
}

func (w *witness) log(what string, err error) {
	switch {
	case err == nil:
		what += " answered"
	case strings.Contains(err.Error(), "lw has sent this request itself"), strings.Contains(err.Error(), "unexpected end of JSON input"):
		what += " without content"
	default:
		what += " failed: " + err.Error()
	}
	w.calls = append(w.calls, what)
}

func (w *witness) List(opts metav1.ListOptions) (runtime.Object, error) {
	return w.ListWithContext(context.Background(), opts)
}

func (w *witness) Watch(opts metav1.ListOptions) (watch.Interface, error) {
	return w.WatchWithContext(context.Background(), opts)
}

func (w *witness) ListWithContext(ctx context.Context, opts metav1.ListOptions) (runtime.Object, error) {
	list, err := w.ListerWatcherWithContext.ListWithContext(ctx, opts)
	w.log("list", err)
	return list, err
}

func (w *witness) WatchWithContext(ctx context.Context, opts metav1.ListOptions) (watch.Interface, error) {
	watching, err := w.ListerWatcherWithContext.WatchWithContext(ctx, opts)
	w.log("watch", err)
	return watching, err
}

var podResource = schema.GroupVersionResource{Version: "v1", Resource: "pods"}

// typedPods returns a ListerWatcher of the generated client.
func typedPods(t *testing.T, config *rest.Config, client *http.Client, tweak func(*metav1.ListOptions)) *cache.ListWatch {
	t.Helper()
	c, err := kubernetes.NewForConfigAndClient(config, client)
	if err != nil {
		t.Fatal(err)
	}
	return cache.NewFilteredListWatchFromClient(c.CoreV1().RESTClient(), "pods", "default", tweak)
}

func noTweak(*metav1.ListOptions) {}

// onlyByLW is what a Decoder drops so that a test sees who has decoded an object. The server gives
// each object a generation.
var onlyByLW = []string{"metadata.generation"}

// Objects of all of client-go's clients come through lw's decoder as the client itself returns them.
func TestDecoderOverEveryClient(t *testing.T) {
	unstructuredPod := &unstructured.Unstructured{Object: map[string]any{"apiVersion": "v1", "kind": "Pod"}}
	metadataPod := &metav1.PartialObjectMetadata{TypeMeta: metav1.TypeMeta{APIVersion: "v1", Kind: "Pod"}}
	for _, tt := range []struct {
		name    string
		config  rest.Config
		example runtime.Object
		lister  func(*testing.T, *rest.Config, *http.Client) cache.ListerWatcher
		accepts string // of the list
	}{
		{"typed JSON", rest.Config{ContentConfig: rest.ContentConfig{ContentType: runtime.ContentTypeJSON}}, &corev1.Pod{},
			func(t *testing.T, config *rest.Config, client *http.Client) cache.ListerWatcher {
				return typedPods(t, config, client, noTweak)
			}, "application/json"},
		{"typed protobuf", rest.Config{ContentConfig: rest.ContentConfig{ContentType: runtime.ContentTypeProtobuf}}, &corev1.Pod{},
			func(t *testing.T, config *rest.Config, client *http.Client) cache.ListerWatcher {
				return typedPods(t, config, client, noTweak)
			}, "application/vnd.kubernetes.protobuf,application/json"},
		{"dynamic", rest.Config{}, unstructuredPod,
			func(t *testing.T, config *rest.Config, client *http.Client) cache.ListerWatcher {
				c, err := dynamic.NewForConfigAndClient(config, client)
				if err != nil {
					t.Fatal(err)
				}
				r := c.Resource(podResource).Namespace("default")
				return &cache.ListWatch{
					ListWithContextFunc:  func(ctx context.Context, opts metav1.ListOptions) (runtime.Object, error) { return r.List(ctx, opts) },
					WatchFuncWithContext: r.Watch,
				}
			}, "application/json"},
		{"metadata", rest.Config{}, metadataPod,
			func(t *testing.T, config *rest.Config, client *http.Client) cache.ListerWatcher {
				c, err := metadata.NewForConfigAndClient(config, client)
				if err != nil {
					t.Fatal(err)
				}
				r := c.Resource(podResource).Namespace("default")
				return &cache.ListWatch{
					ListWithContextFunc:  func(ctx context.Context, opts metav1.ListOptions) (runtime.Object, error) { return r.List(ctx, opts) },
					WatchFuncWithContext: r.Watch,
				}
			}, "application/vnd.kubernetes.protobuf;as=PartialObjectMetadataList;g=meta.k8s.io;v=v1," +
				"application/json;as=PartialObjectMetadataList;g=meta.k8s.io;v=v1,application/json"},
	} {
		for _, mode := range []lw.ListMode{lw.ListAuto, lw.ListPages} {
			t.Run(tt.name+"/"+mode.String(), func(t *testing.T) {
				synctest.Test(t, func(t *testing.T) {
					s := newCaptureServer(t)
					client := s.client(t, &tt.config)
					direct := tt.lister(t, &tt.config, client)
					lister := witnessOf(tt.lister(t, &tt.config, clientgo.Capture(client)))
					src := clientgo.Decoder{Drop: onlyByLW}.Source(lister, tt.example)
					if len(lister.calls) != 0 || len(s.requests) != 0 {
						t.Fatalf("the constructor called %v", lister.calls)
					}
					inf := lw.NewInformer(src, &lw.Options{List: mode, PageSize: 2, OnError: func(err error) { t.Error(err) }})
					run(t, inf)
					if err := inf.WaitForSync(t.Context()); err != nil {
						t.Fatal(err)
					}
					synctest.Wait()
					if r := s.requests[0]; mode == lw.ListPages && r.Header.Get("Accept") != tt.accepts {
						t.Errorf("Accept %q, want %q", r.Header.Get("Accept"), tt.accepts)
					}
					s.create(t, "new", nil)
					synctest.Wait()
					want, err := direct.List(metav1.ListOptions{})
					if err != nil {
						t.Fatal(err)
					}
					if diff := cmp.Diff(byName(t, want, tt.example), byNameOf(inf.Store().List())); diff != "" {
						t.Errorf("other objects (-client-go +lw):\n%s", diff)
					}
				})
			})
		}
	}
}

// byName returns the items of list, with the kind of example if they are metadata.
func byName(t *testing.T, list, example runtime.Object) map[string]any {
	t.Helper()
	out := map[string]any{}
	if err := eachItem(list, func(obj runtime.Object) {
		if m, ok := obj.(*metav1.PartialObjectMetadata); ok {
			m.TypeMeta = example.(*metav1.PartialObjectMetadata).TypeMeta
		}
		obj.(metav1.Object).SetGeneration(0)
		out[obj.(metav1.Object).GetName()] = obj
	}); err != nil {
		t.Fatal(err)
	}
	return out
}

func byNameOf(objs []metav1.Object) map[string]any {
	out := map[string]any{}
	for _, obj := range objs {
		out[obj.GetName()] = obj
	}
	return out
}

func eachItem(list runtime.Object, f func(runtime.Object)) error {
	return meta.EachListItem(list, func(obj runtime.Object) error { f(obj); return nil })
}

// What the ListerWatcher asks for at that moment is what lw asks for: namespace, selectors, headers.
func TestDecoderAsksWhatTheListerWatcherAsks(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newCaptureServer(t)
		s.create(t, "other", map[string]string{"app": "db"})
		config := &rest.Config{UserAgent: "agent", BearerToken: "token", Timeout: 5 * time.Second}
		client := s.client(t, config)
		client.Jar, _ = cookiejar.New(nil)
		client.Jar.SetCookies(&url.URL{Scheme: "http", Host: "apiserver"}, []*http.Cookie{{Name: "session", Value: "1"}})
		app := "web"
		lister := typedPods(t, config, clientgo.Capture(client), func(opts *metav1.ListOptions) {
			opts.LabelSelector, opts.FieldSelector = "app="+app, "metadata.name!=pod-0"
		})
		inf := lw.NewInformer(clientgo.Decoder{}.Source(lister, &corev1.Pod{}), nil)
		run(t, inf)
		if err := inf.WaitForSync(t.Context()); err != nil {
			t.Fatal(err)
		}
		names := func() []string {
			var names []string
			for obj := range inf.Store().All() {
				names = append(names, obj.GetName())
			}
			slices.Sort(names)
			return names
		}
		if diff := cmp.Diff([]string{"pod-1", "pod-2"}, names()); diff != "" {
			t.Error(diff)
		}
		synctest.Wait()
		for _, r := range s.requests {
			for name, want := range map[string]string{"Cookie": "session=1", "User-Agent": "agent", "Authorization": "Bearer token"} {
				if diff := cmp.Diff([]string{want}, r.Header[name]); diff != "" {
					t.Errorf("header %s:\n%s", name, diff)
				}
			}
		}
		// The client's timeout of 5 s ends no watch.
		time.Sleep(time.Minute)
		if diff := cmp.Diff([]string{"stream default app=web metadata.name!=pod-0"}, s.took()); diff != "" {
			t.Error(diff)
		}

		// A later list asks what the ListerWatcher asks then.
		app = "db"
		s.create(t, "new", nil)
		s.pods.Compact(s.Line.Version())
		s.pods.Disconnect()
		time.Sleep(time.Minute)
		if diff := cmp.Diff([]string{"other"}, names()); diff != "" {
			t.Error(diff)
		}
	})
}

// What lw cannot decode is answered by the client.
func TestDecoderLeavesToClientGo(t *testing.T) {
	answered := []string{"list answered", "watch answered"}
	for _, tt := range []struct {
		name   string
		lister func(*testing.T, *rest.Config, *http.Client) cache.ListerWatcher
		byLW   bool     // lw decodes
		calls  []string // of the ListerWatcher
		wire   []string // what reaches the server
	}{
		{
			"a client that is not captured",
			func(t *testing.T, config *rest.Config, client *http.Client) cache.ListerWatcher {
				return typedPods(t, config, client, noTweak)
			},
			false, answered, []string{"list default", "watch default"},
		},
		{
			"functions without a context",
			func(t *testing.T, config *rest.Config, client *http.Client) cache.ListerWatcher {
				l := typedPods(t, config, clientgo.Capture(client), noTweak)
				l.ListWithContextFunc, l.WatchFuncWithContext = nil, nil
				return l
			},
			false, answered, []string{"list default", "watch default"},
		},
		{
			"an encoding that lw does not have",
			func(t *testing.T, config *rest.Config, client *http.Client) cache.ListerWatcher {
				client.Transport = withHeader(client.Transport, "Accept", "application/json")
				config.AcceptContentTypes = "application/yaml"
				return typedPods(t, config, clientgo.Capture(client), noTweak)
			},
			false, answered, []string{"list default", "watch default"},
		},
		{
			"a list of two requests",
			func(t *testing.T, config *rest.Config, client *http.Client) cache.ListerWatcher {
				l := typedPods(t, config, clientgo.Capture(client), noTweak)
				one, other := l.ListWithContextFunc, typedPods(t, config, clientgo.Capture(client), func(opts *metav1.ListOptions) {
					opts.LabelSelector = "app=none"
				})
				l.ListWithContextFunc = func(ctx context.Context, opts metav1.ListOptions) (runtime.Object, error) {
					_, err := other.ListWithContext(ctx, opts)
					list, err2 := one(ctx, opts)
					return list, errors.Join(err, err2)
				}
				return l
			},
			false, []string{"list without content", "list answered", "watch answered"},
			// The first request was sent before the second one was seen.
			[]string{"list default app=none", "list default app=none", "list default", "watch default"},
		},
		{
			"a request before the list",
			func(t *testing.T, config *rest.Config, client *http.Client) cache.ListerWatcher {
				client = clientgo.Capture(client)
				l := typedPods(t, config, client, noTweak)
				list := l.ListWithContextFunc
				l.ListWithContextFunc = func(ctx context.Context, opts metav1.ListOptions) (runtime.Object, error) {
					r, err := http.NewRequestWithContext(ctx, http.MethodGet, "http://apiserver/api/v1", nil)
					if err != nil {
						return nil, err
					}
					resp, err := client.Do(r)
					if err != nil {
						return nil, err
					}
					resp.Body.Close()
					return list(ctx, opts)
				}
				return l
			},
			true, []string{"list without content", "watch answered"},
			[]string{"list of /api/v1", "list default", "watch default"},
		},
	} {
		t.Run(tt.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				s := newCaptureServer(t)
				config := &rest.Config{}
				lister := witnessOf(tt.lister(t, config, s.client(t, config)))
				inf := lw.NewInformer(clientgo.Decoder{Drop: onlyByLW}.Source(lister, &corev1.Pod{}), &lw.Options{
					List: lw.ListPages, OnError: func(err error) { t.Error(err) },
				})
				run(t, inf)
				if err := inf.WaitForSync(t.Context()); err != nil {
					t.Fatal(err)
				}
				s.create(t, "new", nil)
				synctest.Wait()
				if got := inf.Store().Len(); got != 4 {
					t.Errorf("%d pods, want 4", got)
				}
				for obj := range inf.Store().All() {
					if byLW := obj.GetGeneration() == 0; byLW != tt.byLW {
						t.Errorf("%s is decoded by lw: %t", obj.GetName(), byLW)
					}
				}
				if diff := cmp.Diff(tt.calls, lister.calls); diff != "" {
					t.Errorf("calls (-want +got):\n%s", diff)
				}
				if diff := cmp.Diff(tt.wire, s.took()); diff != "" {
					t.Errorf("requests (-want +got):\n%s", diff)
				}
			})
		})
	}
}

// withHeader returns a transport that sets a header.
func withHeader(next http.RoundTripper, name, value string) http.RoundTripper {
	return roundTripper(func(r *http.Request) (*http.Response, error) {
		r = r.Clone(r.Context())
		r.Header.Set(name, value)
		return next.RoundTrip(r)
	})
}

// A fake client is asked as it is without a Decoder, and known to be one.
func TestDecoderOfAFakeClient(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := fake.NewClientset(pod("default", "a"))
		api := c.CoreV1().Pods("default")
		lister := cache.ToListWatcherWithWatchListSemantics(&cache.ListWatch{
			ListWithContextFunc:  func(ctx context.Context, opts metav1.ListOptions) (runtime.Object, error) { return api.List(ctx, opts) },
			WatchFuncWithContext: api.Watch,
		}, c)
		src := clientgo.Decoder{}.Source(lister, &corev1.Pod{})
		if diff := cmp.Diff(lw.HintsOf(clientgo.Source(lister, &corev1.Pod{})), lw.HintsOf(src)); diff != "" {
			t.Errorf("hints: %s", diff)
		}
		inf := lw.NewInformer(src, &lw.Options{OnError: func(err error) { t.Error(err) }})
		run(t, inf)
		began := time.Now()
		if err := inf.WaitForSync(t.Context()); err != nil || time.Since(began) > 0 {
			t.Fatal(err, time.Since(began))
		}
		if _, err := api.Create(t.Context(), pod("default", "b"), metav1.CreateOptions{}); err != nil {
			t.Fatal(err)
		}
		synctest.Wait()
		if got := inf.Store().Len(); got != 2 {
			t.Errorf("%d pods, want 2", got)
		}
	})
}

// The server's refusal arrives as an API status, once, and a list waits for the client's rate limit.
// client-go's metrics and its handler of warnings see the answer's head.
func TestDecoderErrors(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newCaptureServer(t)
		busy := apierrors.NewTooManyRequests("too many", 3)
		s.Inject(apiserver.Fault{Times: 1, Do: apiserver.All(apiserver.Header("Warning", `299 - "old"`), apiserver.Fail(busy))})
		var codes []string
		defer func(m metrics.ResultMetric) { metrics.RequestResult = m }(metrics.RequestResult)
		metrics.RequestResult = resultMetric(func(code string) { codes = append(codes, code) })
		var warnings []string
		limiter := flowcontrol.NewTokenBucketRateLimiter(0.001, 1)
		config := &rest.Config{RateLimiter: limiter, WarningHandler: warningHandler(func(text string) { warnings = append(warnings, text) })}
		src := clientgo.Decoder{}.Source(typedPods(t, config, clientgo.Capture(s.client(t, config)), noTweak), &corev1.Pod{})
		list := func(ctx context.Context) error {
			_, err := src.List(ctx, metav1.ListOptions{}, func(metav1.Object, error) error { return nil })
			return err
		}
		began := time.Now()
		err := list(t.Context())
		if seconds, ok := apierrors.SuggestsClientDelay(err); !apierrors.IsTooManyRequests(err) || seconds != 3 || !ok || !strings.Contains(err.Error(), "/api/v1/namespaces/default/pods") {
			t.Errorf("error %v, want 429 and the URL", err)
		}
		if time.Since(began) > 0 {
			t.Errorf("client-go has waited for %v", time.Since(began))
		}
		if diff := cmp.Diff([]string{"429"}, codes); diff != "" {
			t.Errorf("metrics: %s", diff)
		}
		if diff := cmp.Diff([]string{"old"}, warnings); diff != "" {
			t.Errorf("warnings: %s", diff)
		}
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		if err := list(ctx); err == nil || !strings.Contains(err.Error(), "rate") {
			t.Errorf("error %v, want that of the rate limiter", err)
		}
		if got := s.took(); len(got) != 1 {
			t.Errorf("requests %v", got)
		}
	})
}

type resultMetric func(code string)

func (f resultMetric) Increment(_ context.Context, code, _, _ string) { f(code) }

type warningHandler func(text string)

func (f warningHandler) HandleWarningHeader(_ int, _, text string) { f(text) }

// A request that fails is not made again by client-go, and its error arrives.
func TestDecoderOfABrokenConnection(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newCaptureServer(t)
		s.Inject(apiserver.Fault{Times: 1, Do: apiserver.Reset})
		config := &rest.Config{}
		src := clientgo.Decoder{}.Source(typedPods(t, config, clientgo.Capture(s.client(t, config)), noTweak), &corev1.Pod{})
		_, err := src.List(t.Context(), metav1.ListOptions{}, func(metav1.Object, error) error { return nil })
		if err == nil || strings.Contains(err.Error(), "itself") || !strings.Contains(err.Error(), "/api/v1/namespaces/default/pods") {
			t.Errorf("error %v, want that of the connection", err)
		}
		if got := s.took(); len(got) != 1 {
			t.Errorf("requests %v", got)
		}
	})
}

// Capture leaves its argument alone, and captures a client once.
func TestCapture(t *testing.T) {
	base := &http.Client{Timeout: time.Second}
	client := clientgo.Capture(base)
	if base.Transport != nil || client.Timeout != time.Second || client.Transport == nil {
		t.Errorf("client %+v of %+v", client, base)
	}
	if again := clientgo.Capture(client); again != client {
		t.Error("captured twice")
	}
	if http.DefaultClient.Transport != nil || clientgo.Capture(nil).Transport == nil {
		t.Error("nil is not the default client")
	}
	if http.DefaultTransport != utilnet(client) {
		t.Error("the transport below is not found")
	}
}

func utilnet(client *http.Client) http.RoundTripper {
	return client.Transport.(interface{ WrappedRoundTripper() http.RoundTripper }).WrappedRoundTripper()
}
