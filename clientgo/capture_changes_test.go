package clientgo_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"hash/fnv"
	"net/http"
	"reflect"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/cache"

	"github.com/go-lw/lw"
	"github.com/go-lw/lw/clientgo"
	"github.com/go-lw/lw/internal/apiserver"
	"github.com/go-lw/lw/internal/verify/rig"
)

// mine reports whether the pod of this name belongs to the first of two shards.
func mine(name string) bool {
	h := fnv.New32a()
	h.Write([]byte(name))
	return h.Sum32()%2 == 0
}

// filtered changes l so that its lists, its watches or both have the objects of one shard only, as
// kube-state-metrics does.
func filtered(l *cache.ListWatch, lists, watches bool) {
	if lists {
		edited(l, func(pods *corev1.PodList) {
			pods.Items = slices.DeleteFunc(pods.Items, func(p corev1.Pod) bool { return !mine(p.Name) })
		})
	}
	if watching := l.WatchFuncWithContext; watches {
		l.WatchFuncWithContext = func(ctx context.Context, opts metav1.ListOptions) (watch.Interface, error) {
			w, err := watching(ctx, opts)
			if err != nil {
				return nil, err
			}
			return watch.Filter(w, func(ev watch.Event) (watch.Event, bool) {
				p, ok := ev.Object.(*corev1.Pod)
				if !ok {
					// Nobody reads what comes after the end of the context, and a Filter would wait for that.
					return ev, ctx.Err() == nil
				}
				return ev, ev.Type == watch.Bookmark || mine(p.Name)
			}), nil
		}
	}
}

// edited changes l so that it does edit to its lists.
func edited(l *cache.ListWatch, edit func(*corev1.PodList)) {
	list := l.ListWithContextFunc
	l.ListWithContextFunc = func(ctx context.Context, opts metav1.ListOptions) (runtime.Object, error) {
		got, err := list(ctx, opts)
		if err == nil {
			edit(got.(*corev1.PodList))
		}
		return got, err
	}
}

// listingTwo changes l so that it lists another collection as well.
func listingTwo(l *cache.ListWatch) {
	list := l.ListWithContextFunc
	l.ListWithContextFunc = func(ctx context.Context, opts metav1.ListOptions) (runtime.Object, error) {
		other := opts
		other.LabelSelector = "app=none"
		_, errOther := list(ctx, other)
		got, err := list(ctx, opts)
		return got, errors.Join(errOther, err)
	}
}

// announcing changes l so that its first watch is a watch.Filter that has an event of its own, for
// which its goroutine needs a reader also when it is stopped.
func announcing(l *cache.ListWatch) {
	watching, announced := l.WatchFuncWithContext, false
	l.WatchFuncWithContext = func(ctx context.Context, opts metav1.ListOptions) (watch.Interface, error) {
		w, err := watching(ctx, opts)
		if err != nil || announced {
			return w, err
		}
		announced = true
		w.Stop()
		own := watch.NewFakeWithOptions(watch.FakeOptions{ChannelSize: 1})
		own.Add(&corev1.Pod{})
		return watch.Filter(own, func(ev watch.Event) (watch.Event, bool) { return ev, true }), nil
	}
}

// What a ListerWatcher does to an answer is not lost: it is noticed, client-go decodes, and Status
// and the log say so, once.
func TestDecoderOfAListerWatcherThatChanges(t *testing.T) {
	lists := "client-go: the ListerWatcher returns 1 of the 3 objects of a list"
	watches := "client-go: the ListerWatcher returns a *watch.filteredWatch, which may change the events"
	plain := []string{"list default", "watch default"}
	asIs := func(*cache.ListWatch) {}
	both := func(l *cache.ListWatch) { filtered(l, true, true) }
	announced := func(l *cache.ListWatch) {
		filtered(l, false, true)
		announcing(l)
	}
	for _, tt := range []struct {
		name    string
		change  func(*cache.ListWatch)
		capture bool
		mode    lw.ListMode
		trust   bool
		decoder string
		sharded bool // the store has one shard
		wire    []string
	}{
		{"nothing", asIs, true, lw.ListPages, false, "lw", false, plain},
		{"nothing, streamed", asIs, true, lw.ListAuto, false, "lw", false, []string{"stream default"}},
		{"lists and watches", both, true, lw.ListPages, false, lists, true, plain},
		// The first streamed list was sent before the watch was seen.
		{"lists and watches, streamed", both, true, lw.ListAuto, false, watches, true, []string{"stream default", "stream default"}},
		{"watches", func(l *cache.ListWatch) { filtered(l, false, true) }, true, lw.ListPages, false,
			watches, false, []string{"list default", "watch default", "watch default"}},
		{"watches, with an event of its own", announced, true, lw.ListPages, false,
			watches, false, []string{"list default", "watch default", "watch default"}},
		{"an object", func(l *cache.ListWatch) {
			edited(l, func(pods *corev1.PodList) { pods.Items[1].Labels["app"] = "changed" })
		}, true, lw.ListPages, false,
			"client-go: the ListerWatcher changes default/pod-1, or the order of the objects", false, plain},
		{"lists and watches, trusted", both, true, lw.ListPages, true, "lw", false, plain},
		{"without a context", func(l *cache.ListWatch) { l.ListWithContextFunc, l.WatchFuncWithContext = nil, nil }, true, lw.ListPages, false,
			"client-go: the ListerWatcher's functions take no context", false, plain},
		{"not captured", asIs, false, lw.ListPages, false,
			"client-go: no request that lw can decode came through a client of Capture, with the context of the call", false, plain},
	} {
		rig.Subtest(t, tt.name, func(t *testing.T) {
			s := newCaptureServer(t)
			config := &rest.Config{}
			client := s.client(t, config)
			if tt.capture {
				client = clientgo.Capture(client)
			}
			lister, opts := typedPods(t, config, client, noTweak), strict(t)
			tt.change(lister)
			opts.List = tt.mode
			inf := lw.NewInformer(clientgo.Decoder{Drop: onlyByLW, Trust: tt.trust}.Source(lister, &corev1.Pod{}), opts)
			var book bytes.Buffer
			go inf.Run(loggedTo(t, &book))
			rig.OK(t, inf.WaitForSync(t.Context()))
			for _, name := range []string{"a", "b", "c", "d"} {
				s.create(t, name, nil)
			}
			synctest.Wait()
			var want []string
			for _, name := range []string{"a", "b", "c", "d", "pod-0", "pod-1", "pod-2"} {
				created := len(name) == 1
				if mine(name) || !tt.sharded && (!created || tt.decoder == "lw" || tt.decoder != watches) {
					want = append(want, name)
				}
			}
			rig.Same(t, "names", want, names(inf.Store().List()))
			rig.Same(t, "decoder", tt.decoder, inf.Status().Decoder)
			rig.Same(t, "requests", tt.wire, s.took())
			records := 1
			if tt.decoder == "lw" {
				records = 0
			}
			if n := strings.Count(book.String(), "client-go decodes the objects"); n != records || strings.Count(book.String(), "\n") != n {
				t.Errorf("%d records, want %d:\n%s", n, records, &book)
			}
		})
	}
	if !mine("pod-0") && !mine("pod-1") && !mine("pod-2") || mine("pod-0") && mine("pod-1") && mine("pod-2") {
		t.Error("all pods of the server are of one shard")
	}
}

// What a Decoder decodes takes from the last version what did not change. It never takes anything
// from an object that client-go has decoded, which has no notes for lw.
func TestDecoderReuse(t *testing.T) {
	for _, tt := range []struct {
		name    string
		decoder clientgo.Decoder
		list    bool // client-go decodes the lists
		want    bool
	}{
		{"captured", clientgo.Decoder{}, false, true},
		{"Whole", clientgo.Decoder{Whole: true}, false, false},
		{"lists of client-go", clientgo.Decoder{}, true, false},
	} {
		rig.Subtest(t, tt.name, func(t *testing.T) {
			s := newCaptureServer(t)
			config := &rest.Config{}
			client := s.client(t, config)
			pods := typedPods(t, config, clientgo.Capture(client), noTweak)
			if tt.list {
				pods.ListWithContextFunc = typedPods(t, config, client, noTweak).ListWithContextFunc
			}
			opts := strict(t)
			opts.List = lw.ListWhole
			inf := synced(t, tt.decoder.Source(pods, &corev1.Pod{}), opts)
			version := func(phase corev1.PodPhase) metav1.Object {
				p := pod("default", "pod-1")
				p.Labels = map[string]string{"app": "web"}
				p.Spec.Containers = []corev1.Container{{Name: "main", Image: "image:pod-1"}}
				p.Status.Phase = phase
				rig.Must[apiserver.Object](t)(s.pods.Update(p))
				synctest.Wait()
				now, _ := inf.Store().Get(lw.KeyOf(metav1.Object(p)))
				rig.Same(t, "phase in the store", phase, now.(*corev1.Pod).Status.Phase)
				return now
			}
			before, after := version("Pending"), version("Running")
			same := reflect.ValueOf(before.GetLabels()).Pointer() == reflect.ValueOf(after.GetLabels()).Pointer()
			rig.Same(t, "the labels are those of the last version", tt.want, same)
		})
	}
}

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
	return rig.Must[*http.Client](t)(rest.HTTPClientFor(config))
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
	*cache.ListWatch
	calls []string
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

func (w *witness) ListWithContext(ctx context.Context, opts metav1.ListOptions) (runtime.Object, error) {
	list, err := w.ListWatch.ListWithContext(ctx, opts)
	w.log("list", err)
	return list, err
}

func (w *witness) WatchWithContext(ctx context.Context, opts metav1.ListOptions) (watch.Interface, error) {
	watching, err := w.ListWatch.WatchWithContext(ctx, opts)
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
