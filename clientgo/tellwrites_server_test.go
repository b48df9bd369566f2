package clientgo_test

import (
	"context"
	"io"
	"net/http"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/metadata"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/cache"

	"github.com/go-lw/lw"
	"github.com/go-lw/lw/clientgo"
	"github.com/go-lw/lw/internal/apiserver"
	"github.com/go-lw/lw/internal/rig"
)

// lateWatches is a transport that tells watches everything late.
type lateWatches struct {
	http.RoundTripper
	answered func(*http.Request) // is called before a client gets the answer to a write; may be nil
	single   time.Duration       // by which lists of single objects are late
}

const watchDelay = 5 * time.Second

func (l *lateWatches) RoundTrip(r *http.Request) (*http.Response, error) {
	resp, err := l.RoundTripper.RoundTrip(r)
	switch {
	case err != nil:
	case r.URL.Query().Get("watch") != "":
		resp.Body = lateBody{resp.Body}
	case r.URL.Query().Get("fieldSelector") != "":
		time.Sleep(l.single)
	case r.Method != http.MethodGet && l.answered != nil:
		l.answered(r)
	}
	return resp, err
}

type lateBody struct{ io.ReadCloser }

func (b lateBody) Read(p []byte) (int, error) {
	n, err := b.ReadCloser.Read(p)
	time.Sleep(watchDelay)
	return n, err
}

// A tellServer is a server of pods whose watches are late.
type tellServer struct {
	server *apiserver.Server
	late   lateWatches
	config *rest.Config
	told   *http.Client // of TellWrites
	// own writes through told, and foreign through a client that nobody sees.
	own, foreign kubernetes.Interface
}

func newTellServer(t *testing.T, accept string) *tellServer {
	t.Helper()
	server := apiserver.New(apiserver.Options{Resources: []apiserver.Resource{
		{Resource: "pods", Kind: "Pod", Status: true, Proto: apiserver.Proto[corev1.Pod]()},
	}})
	t.Cleanup(server.Close)
	direct := server.Client()
	t.Cleanup(direct.CloseIdleConnections)
	s := &tellServer{server: server, late: lateWatches{RoundTripper: direct.Transport}}
	s.config = &rest.Config{Host: "http://apiserver", Transport: &s.late, ContentConfig: rest.ContentConfig{ContentType: "application/json", AcceptContentTypes: accept}}
	client, err := rest.HTTPClientFor(s.config)
	rig.OK(t, err)
	s.told = clientgo.TellWrites(clientgo.Capture(client))
	if s.own, err = kubernetes.NewForConfigAndClient(s.config, s.told); err == nil {
		s.foreign, err = kubernetes.NewForConfigAndClient(s.config, direct)
	}
	rig.OK(t, err)
	return s
}

// A slimPod is a projection.
type slimPod struct {
	lw.Meta `json:"metadata" protobuf:"bytes,1,opt,name=metadata"`
	Spec    struct {
		NodeName string `json:"nodeName" protobuf:"bytes,10,opt,name=nodeName"`
	} `json:"spec" protobuf:"bytes,2,opt,name=spec"`
}

// A content is an informer of pods, and what it shows.
type content struct {
	lw.AnyInformer
	objects func() map[string]any
}

func contentOf[T lw.Object](src lw.Source[T]) content {
	inf := lw.NewInformer(src, nil)
	return content{inf, func() map[string]any {
		all := map[string]any{}
		for obj := range inf.Store().All() {
			all[obj.GetName()] = obj
		}
		return all
	}}
}

func fromDecoder[L runtime.Object](example runtime.Object, c interface {
	List(context.Context, metav1.ListOptions) (L, error)
	Watch(context.Context, metav1.ListOptions) (watch.Interface, error)
}) content {
	return contentOf(clientgo.Decoder{Trust: true}.Source(&cache.ListWatch{
		ListWithContextFunc:  func(ctx context.Context, opts metav1.ListOptions) (runtime.Object, error) { return c.List(ctx, opts) },
		WatchFuncWithContext: c.Watch,
	}, example))
}

// informers returns one of each kind.
func (s *tellServer) informers(t *testing.T) map[string]content {
	t.Helper()
	url, gvr := "http://apiserver/api/v1/pods", corev1.SchemeGroupVersion.WithResource("pods")
	kind := metav1.TypeMeta{APIVersion: "v1", Kind: "Pod"}
	untyped := rig.Must[*dynamic.DynamicClient](t)(dynamic.NewForConfigAndClient(s.config, s.told))
	partial := rig.Must[metadata.Interface](t)(metadata.NewForConfigAndClient(s.config, s.told))
	return map[string]content{
		"HTTP":                 contentOf(&lw.HTTP[*corev1.Pod]{URL: url, Client: s.told}),
		"HTTP of a namespace":  contentOf(&lw.HTTP[*corev1.Pod]{URL: "http://apiserver/api/v1/namespaces/default/pods", Client: s.told, Only: lw.Fields{"metadata.labels", "spec"}}),
		"projection":           contentOf(&lw.HTTP[*slimPod]{URL: url, Client: s.told}),
		"HTTP of unstructured": contentOf(&lw.HTTP[*unstructured.Unstructured]{URL: url, Client: s.told}),
		"HTTP of metadata":     contentOf(&lw.HTTP[*metav1.PartialObjectMetadata]{URL: url, Client: s.told}),
		"FromClient":           contentOf(lw.FromClient(s.own.CoreV1().Pods(""))),
		"Transform": contentOf(lw.Transform(lw.FromClient(s.own.CoreV1().Pods("")), func(p *corev1.Pod) (*corev1.Pod, error) {
			p.ManagedFields = nil
			return p, nil
		})),
		"Decoder":           fromDecoder(&corev1.Pod{}, s.own.CoreV1().Pods("")),
		"Decoder, dynamic":  fromDecoder(&unstructured.Unstructured{Object: map[string]any{"apiVersion": "v1", "kind": "Pod"}}, untyped.Resource(gvr)),
		"Decoder, metadata": fromDecoder(&metav1.PartialObjectMetadata{TypeMeta: kind}, partial.Resource(gvr)),
	}
}

// start runs the informers until the test ends, or stop is called.
func start(t *testing.T, all map[string]content) (stop func()) {
	t.Helper()
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan struct{}, len(all))
	for _, c := range all {
		go func() { _ = c.Run(ctx); done <- struct{}{} }()
	}
	stop = func() {
		cancel()
		for range cap(done) {
			<-done
		}
		time.Sleep(2 * watchDelay) // client-go does not wait for its watches
	}
	for name, c := range all {
		if err := c.WaitForSync(ctx); err != nil {
			t.Errorf("%s: %v", name, err)
		}
	}
	return stop
}

// Informers of every kind show what the server has answered when the client returns, long before the
// watch does, and what they show is what they would have listed.
func TestTellWrites(t *testing.T) {
	for name, accept := range map[string]string{"JSON": "application/json", "protobuf": "application/vnd.kubernetes.protobuf,application/json"} {
		rig.Bubble(t, name, func(t *testing.T) {
			s := newTellServer(t, accept)
			pods := s.own.CoreV1().Pods("default")
			all := s.informers(t)
			stop := start(t, all)
			defer stop()
			p := pod("default", "a")
			p.Spec.Containers = []corev1.Container{{Name: "main", Image: "image"}}
			steps := []struct {
				name string
				do   func() error
			}{
				{"create", func() (err error) { p, err = pods.Create(t.Context(), p, metav1.CreateOptions{}); return err }},
				{"update", func() (err error) {
					p.Spec.NodeName, p.Labels = "n1", map[string]string{"v": "1"}
					p, err = pods.Update(t.Context(), p, metav1.UpdateOptions{})
					return err
				}},
				{"status", func() (err error) {
					p.Status.Phase = corev1.PodRunning
					p, err = pods.UpdateStatus(t.Context(), p, metav1.UpdateOptions{})
					return err
				}},
				{"patch", func() (err error) {
					p, err = pods.Patch(t.Context(), "a", types.MergePatchType, []byte(`{"metadata":{"labels":{"v":"2"},"finalizers":["example.com/stay"]}}`), metav1.PatchOptions{})
					return err
				}},
				{"delete, with a finalizer", func() error { return pods.Delete(t.Context(), "a", metav1.DeleteOptions{}) }},
				{"the last finalizer", func() error {
					_, err := pods.Patch(t.Context(), "a", types.MergePatchType, []byte(`{"metadata":{"finalizers":null,"labels":{"v":"3"}}}`), metav1.PatchOptions{})
					return err
				}},
				{"another", func() error {
					_, err := pods.Create(t.Context(), pod("default", "b"), metav1.CreateOptions{})
					return err
				}},
				{"delete", func() error { return pods.Delete(t.Context(), "b", metav1.DeleteOptions{}) }},
			}
			for i, step := range steps {
				began := time.Now()
				if err := step.do(); err != nil {
					t.Fatalf("%s: %v", step.name, err)
				}
				if took := time.Since(began); took > 0 {
					t.Errorf("%s took %v", step.name, took)
				}
				shown := map[string]map[string]any{}
				for name, c := range all {
					shown[name] = c.objects()
					if n := len(shown[name]); n != 1 && i < 5 || i == len(steps)-1 && n > 1 {
						t.Errorf("%s: %s shows %d pods", step.name, name, n)
					}
				}
				if i == 4 || i == 5 { // what is deleted with its last finalizer is gone with the watch
					continue
				}
				fresh := s.informers(t)
				stopFresh := start(t, fresh)
				for name, c := range fresh {
					want := c.objects()
					if i == len(steps)-1 {
						delete(shown[name], "a")
					} else if i == len(steps)-2 {
						want, shown[name] = map[string]any{"b": want["b"]}, map[string]any{"b": shown[name]["b"]}
					}
					for key, obj := range shown[name] { // a server in memory does not fill in what is empty
						if u, ok := obj.(*unstructured.Unstructured); ok {
							if status, _, _ := unstructured.NestedMap(u.Object, "status"); len(status) == 0 {
								u = u.DeepCopy() // readers share it
								delete(u.Object, "status")
								shown[name][key] = u
							}
						}
					}
					if diff := cmp.Diff(want, shown[name]); diff != "" {
						t.Errorf("%s: %s (-listed +told):\n%s", step.name, name, diff)
					}
				}
				stopFresh()
			}
			time.Sleep(3 * watchDelay)
			for name, c := range all {
				if n := len(c.objects()); n > 0 || c.Status().Ahead > 0 {
					t.Errorf("at the end %s shows %d pods, %d ahead", name, n, c.Status().Ahead)
				}
			}
		})
	}
}

// Informers that ask for single objects are told of the others as ever: after an outage they ask
// for their newest one, to know whether the server is the same, and Wanted for what becomes wanted.
func TestTellWritesDuringOtherRequests(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newTellServer(t, "application/json")
		keys := new(lw.KeySet)
		keys.Set("test", lw.Key{Namespace: "default", Name: "a"}, lw.Key{Namespace: "default", Name: "b"}, lw.Key{Namespace: "default", Name: "c"})
		all := s.informers(t)
		all["Wanted"] = contentOf(lw.Wanted[*corev1.Pod](&lw.HTTP[*corev1.Pod]{URL: "http://apiserver/api/v1/pods", Client: s.told}, keys))
		defer start(t, all)()
		create := func(name string) {
			t.Helper()
			rig.Must[*corev1.Pod](t)(s.own.CoreV1().Pods("default").Create(t.Context(), pod("default", name), metav1.CreateOptions{}))
			for of, c := range all {
				if c.objects()[name] == nil {
					t.Errorf("%s does not show %s", of, name)
				}
			}
		}
		create("a")
		time.Sleep(3 * watchDelay)
		s.late.single = time.Hour
		keys.Set("another", lw.Key{Namespace: "default", Name: "d"})
		time.Sleep(time.Second)
		create("b")
		s.server.SetDown(true)
		time.Sleep(time.Minute)
		s.server.SetDown(false)
		time.Sleep(time.Minute)
		create("c")
		s.late.single = 0
	})
}
