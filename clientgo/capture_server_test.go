package clientgo_test

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"strings"
	"sync"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/cache"

	"github.com/go-lw/lw/internal/apiserver"
	"github.com/go-lw/lw/internal/rig"
)

// captureServer is a server of pods, in JSON and in protobuf, and a log of the requests that reach
// it.
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
	rig.Must[apiserver.Object](t)(s.pods.Create(p))
}

// client returns a client of config whose requests are logged.
func (s *captureServer) client(t *testing.T, config *rest.Config) *http.Client {
	t.Helper()
	transport := s.Server.Client().Transport
	t.Cleanup(transport.(*http.Transport).CloseIdleConnections)
	config.Host = "http://apiserver"
	config.Transport = rig.RoundTrip(func(r *http.Request) (*http.Response, error) {
		s.mu.Lock()
		s.requests = append(s.requests, r.Clone(context.Background()))
		s.mu.Unlock()
		return transport.RoundTrip(r)
	})
	client := rig.Must[*http.Client](t)(rest.HTTPClientFor(config))
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
	c := rig.Must[*kubernetes.Clientset](t)(kubernetes.NewForConfigAndClient(config, client))
	return cache.NewFilteredListWatchFromClient(c.CoreV1().RESTClient(), "pods", "default", tweak)
}

func noTweak(*metav1.ListOptions) {}

// listWatchOf returns a ListerWatcher of a client of one resource.
func listWatchOf[L runtime.Object](c interface {
	List(context.Context, metav1.ListOptions) (L, error)
	Watch(context.Context, metav1.ListOptions) (watch.Interface, error)
}) *cache.ListWatch {
	return &cache.ListWatch{
		ListWithContextFunc:  func(ctx context.Context, opts metav1.ListOptions) (runtime.Object, error) { return c.List(ctx, opts) },
		WatchFuncWithContext: c.Watch,
	}
}

// noStreams is the function of a ListerWatcher that has no watches.
func noStreams(context.Context, metav1.ListOptions) (watch.Interface, error) {
	return nil, errors.New("no streams")
}

// onlyByLW is what a Decoder drops so that a test sees who has decoded an object. The server gives
// each object a generation.
var onlyByLW = []string{"metadata.generation"}
