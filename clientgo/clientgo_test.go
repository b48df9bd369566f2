package clientgo_test

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/dynamic"
	dynamicfake "k8s.io/client-go/dynamic/fake"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/kubernetes/fake"
	"k8s.io/client-go/metadata"
	"k8s.io/client-go/rest"

	"github.com/go-lw/lw"
	"github.com/go-lw/lw/clientgo"
	"github.com/go-lw/lw/internal/rig"
)

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
		var told []string
		inf.AddHandler(lw.Handler[*corev1.Pod]{
			Add:    func(p *corev1.Pod) { told = append(told, "add "+p.Name) },
			Update: func(_, p *corev1.Pod) { told = append(told, "update "+p.Name) },
			Delete: func(p *corev1.Pod) { told = append(told, "delete "+p.Name) },
		})
		rig.Start(t, inf)
		began := time.Now()
		rig.OK(t, inf.WaitForSync(t.Context()))
		if took := time.Since(began); took > 0 {
			t.Errorf("synced after %v", took)
		}
		if got := inf.Store().Len(); got != 150 {
			t.Errorf("%d pods, want 150", got)
		}
		synctest.Wait()
		told = nil
		ctx := t.Context()
		api := c.CoreV1().Pods("default")
		p := rig.Must[*corev1.Pod](t)(api.Create(ctx, pod("default", "new"), metav1.CreateOptions{}))
		p.Spec.NodeName = "n1"
		rig.Must[*corev1.Pod](t)(api.Update(ctx, p, metav1.UpdateOptions{}))
		p.Spec.NodeName = "n2"
		rig.Must[*corev1.Pod](t)(api.Update(ctx, p, metav1.UpdateOptions{}))
		rig.OK(t, api.Delete(ctx, "new", metav1.DeleteOptions{}))
		synctest.Wait()
		if want := []string{"add new", "update new", "update new", "delete new"}; !slices.Equal(want, told) {
			t.Errorf("told %v, want %v", told, want)
		}
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
			if _, err := c.CoreV1().Pods("default").Create(ctx, pod("default", "b"), metav1.CreateOptions{}); err != nil {
				t.Error(err)
			}
			return l, err
		}
		inf := synced(t, src, nil)
		synctest.Wait()
		if _, ok := inf.Store().Get(lw.Key{Namespace: "default", Name: "b"}); !ok {
			t.Error("what was created between list and watch is lost")
		}
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
		if got := inf.Store().Len(); got != 1 {
			t.Errorf("%d widgets, want 1", got)
		}
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
		inf := lw.NewInformer(src, nil)
		ctx, cancel := context.WithTimeout(t.Context(), 5*time.Minute) // on a busy machine; at once otherwise
		done := make(chan error, 1)
		go func() { done <- inf.Run(ctx) }()
		if err := inf.WaitForSync(ctx); err != nil {
			t.Errorf("%s: %v", name, err)
		}
		if _, ok := inf.Store().Get(lw.Key{Namespace: "d", Name: "a"}); !ok || inf.Store().ResourceVersion() != "7" {
			t.Errorf("%s: %d objects at %s", name, inf.Store().Len(), inf.Store().ResourceVersion())
		}
		cancel()
		<-done
	}
	secrets := lw.NewInformer(lw.FromClient(clientset.CoreV1().Secrets("")), &lw.Options{OnError: func(error) {}})
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	go secrets.Run(ctx)
	rig.Met(t, time.Minute, "no error is reported", func() bool { return secrets.Status().Err != nil })
	cancel()
	var e *lw.Error
	if err := secrets.WaitForSync(ctx); !errors.As(err, &e) || !strings.Contains(err.Error(), "secrets is forbidden") {
		t.Errorf("WaitForSync: %v", err)
	}
}

func TestHTTPNeedsAResource(t *testing.T) {
	if _, err := clientgo.HTTP[*corev1.Pod](&rest.Config{Host: "http://127.0.0.1"}, schema.GroupVersionResource{}, ""); err == nil {
		t.Error("no error without a resource")
	}
	pods := corev1.SchemeGroupVersion.WithResource("pods")
	if _, err := clientgo.HTTP[*corev1.Pod](nil, pods, ""); err == nil || err.Error() != "clientgo: HTTP: nil config" {
		t.Errorf("without a config: %v", err)
	}
	for name, config := range map[string]*rest.Config{
		"a host":        {Host: "http://[::1"},
		"a certificate": {Host: "https://h", TLSClientConfig: rest.TLSClientConfig{CAFile: "/no/such/file"}},
	} {
		if _, err := clientgo.HTTP[*corev1.Pod](config, pods, ""); err == nil || !strings.HasPrefix(err.Error(), "clientgo: HTTP: ") {
			t.Errorf("%s that is none: %v", name, err)
		}
	}
	for _, resource := range []schema.GroupVersionResource{{Version: "v1"}, {Resource: "pods"}} {
		if _, err := clientgo.HTTP[*corev1.Pod](&rest.Config{Host: "http://h"}, resource, ""); err == nil || !strings.Contains(err.Error(), "needs a version and a resource") {
			t.Errorf("%v: %v", resource, err)
		}
	}
	src := rig.Must[*lw.HTTP[*corev1.Pod]](t)(clientgo.HTTP[*corev1.Pod](&rest.Config{Host: "http://127.0.0.1:8001/k8s/clusters/c1"}, schema.GroupVersionResource{Group: "apps", Version: "v1", Resource: "deployments"}, "ns"))
	if src.URL != "http://127.0.0.1:8001/k8s/clusters/c1/apis/apps/v1/namespaces/ns/deployments" {
		t.Errorf("URL %q", src.URL)
	}
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
