package clientgo_test

import (
	"context"
	"fmt"
	"log/slog"
	"maps"
	"math/rand/v2"
	"net/http"
	"net/http/httptest"
	"slices"
	"strconv"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/discovery"
	"k8s.io/client-go/discovery/cached/memory"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/dynamic/dynamicinformer"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/metadata"
	"k8s.io/client-go/metadata/metadatainformer"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/restmapper"
	"k8s.io/client-go/tools/cache"

	"github.com/go-lw/lw"
	"github.com/go-lw/lw/clientgo"
	"github.com/go-lw/lw/internal/verify/rig"
	"github.com/go-lw/lw/serve"
)

var servedPods = serve.Resource[*corev1.Pod]{
	Name: "pods", ShortNames: []string{"po"},
	Fields: map[string]func(*corev1.Pod) string{"spec.nodeName": func(p *corev1.Pod) string { return p.Spec.NodeName }},
}

var servedRawPods = serve.Resource[*serve.Object]{
	Name: "pods", Kind: "Pod", ShortNames: []string{"po"},
	Fields: map[string]func(*serve.Object) string{"spec.nodeName": serve.Field("spec.nodeName")},
}

// serveOn runs a server until the end of the test, and returns its URL.
func serveOn(t *testing.T, serveOn func(ctx context.Context, h *serve.Handler) error) (url string) {
	t.Helper()
	ctx, cancel := context.WithCancel(context.Background())
	h := serve.New(&serve.Options{Authorize: serve.AllowAll, Logger: slog.New(slog.DiscardHandler)})
	ended := make(chan error, 1)
	go func() { ended <- serveOn(ctx, h) }()
	rig.Met(t, time.Minute, "nothing is served", func() bool { return len(h.Status()) > 0 })
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

// relayOf runs a relay of what src follows, and returns its URL.
func relayOf[T lw.Object](t *testing.T, src lw.Source[T], r serve.Resource[T]) (url string) {
	t.Helper()
	return serveOn(t, func(ctx context.Context, h *serve.Handler) error {
		inf := lw.NewInformer(src, &lw.Options{Logger: slog.New(slog.DiscardHandler)})
		go inf.Run(ctx)
		return serve.Serve(ctx, h, inf, r)
	})
}

// servers are the ways in which a Memory is served.
var servers = map[string]func(t *testing.T, m *lw.Memory[*corev1.Pod]) (url string){
	"Memory": serveMemoryOfPods,
	"two relays": func(t *testing.T, m *lw.Memory[*corev1.Pod]) string {
		url := serveMemoryOfPods(t, m)
		for range 2 {
			url = relayOf(t, lw.Source[*corev1.Pod](&lw.HTTP[*corev1.Pod]{URL: url + "/api/v1/pods"}), servedPods)
		}
		return url
	},
	"two relays of bytes": func(t *testing.T, m *lw.Memory[*corev1.Pod]) string {
		url := serveMemoryOfPods(t, m)
		for range 2 {
			url = relayOf(t, lw.Source[*serve.Object](serve.Raw(url+"/api/v1/pods", http.DefaultClient)), servedRawPods)
		}
		return url
	},
}

func serveMemoryOfPods(t *testing.T, m *lw.Memory[*corev1.Pod]) string {
	return serveOn(t, func(ctx context.Context, h *serve.Handler) error { return serve.ServeMemory(ctx, h, m, servedPods) })
}

// seen is what the handler of an informer was told.
type seen struct {
	mu      sync.Mutex
	counts  [3]int            // of adds, updates and deletes
	content map[string]string // name to resource version
	faults  []string
}

func (s *seen) handler() cache.ResourceEventHandlerFuncs {
	id := func(obj any) (name, version string) {
		if d, ok := obj.(cache.DeletedFinalStateUnknown); ok {
			obj = d.Obj
		}
		m := obj.(metav1.Object)
		return m.GetNamespace() + "/" + m.GetName(), m.GetResourceVersion()
	}
	told := func(kind int, old, obj any) {
		s.mu.Lock()
		defer s.mu.Unlock()
		name, version := id(obj)
		at, there := s.content[name]
		switch {
		case kind == 0 && there:
			s.faults = append(s.faults, "a second add of "+name)
		case kind == 1:
			if _, before := id(old); at != before {
				s.faults = append(s.faults, fmt.Sprintf("%s was at %s, and an update begins at %s", name, at, before))
			}
		case kind == 2 && !there:
			s.faults = append(s.faults, "a delete of "+name+", which is not there")
		}
		s.counts[kind]++
		if s.content[name] = version; kind == 2 {
			delete(s.content, name)
		}
	}
	return cache.ResourceEventHandlerFuncs{
		AddFunc:    func(obj any) { told(0, nil, obj) },
		UpdateFunc: func(old, obj any) { told(1, old, obj) },
		DeleteFunc: func(obj any) { told(2, nil, obj) },
	}
}

func (s *seen) snapshot() (counts [3]int, content map[string]string, faults []string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.counts, maps.Clone(s.content), slices.Clone(s.faults)
}

// client-go's informers follow what package serve serves: they have the objects that were written,
// and their handlers are told of each write once.
func TestServeInformers(t *testing.T) {
	const writes = 600
	for name, start := range servers {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			m := lw.NewMemory[*corev1.Pod]()
			config := &rest.Config{Host: start(t, m), QPS: -1}
			informers := clientInformers(t, config)
			all := map[string]*seen{}
			for name, inf := range informers {
				s := &seen{content: map[string]string{}}
				all[name] = s
				mustAdd(t, inf, s.handler())
				runInformer(t, inf)
			}
			for name, inf := range informers {
				rig.Met(t, time.Minute, name+" has not synced", inf.HasSynced)
			}
			want, content := randomWrites(t, m, writes)
			// The last write is of an object of its own: who has it has seen all.
			for name, s := range all {
				rig.Met(t, time.Minute, name+" has not seen the last write", func() bool {
					_, has, _ := s.snapshot()
					return has["ns/last"] != ""
				})
				counts, has, faults := s.snapshot()
				rig.Same(t, name+": faults", nil, faults)
				rig.Same(t, name+": what its handler has", content, has)
				rig.Same(t, name+": adds, updates and deletes", want, counts)
				stored := map[string]string{}
				for _, obj := range informers[name].GetStore().List() {
					o := obj.(metav1.Object)
					stored[o.GetNamespace()+"/"+o.GetName()] = o.GetResourceVersion()
				}
				rig.Same(t, name+": its store", content, stored)
			}
		})
	}
}

// clientInformers are informers of client-go: of a generated client in JSON and in protobuf, of
// objects without a type, and of metadata.
func clientInformers(t *testing.T, config *rest.Config) map[string]cache.SharedIndexInformer {
	t.Helper()
	pods := corev1.SchemeGroupVersion.WithResource("pods")
	all := map[string]cache.SharedIndexInformer{}
	for name, accept := range map[string]string{
		"typed": "application/json", "typed, in protobuf": "application/vnd.kubernetes.protobuf,application/json",
	} {
		c := rest.CopyConfig(config)
		c.AcceptContentTypes = accept
		clientset := rig.Must[*kubernetes.Clientset](t)(kubernetes.NewForConfig(c))
		lw := cache.NewListWatchFromClient(clientset.CoreV1().RESTClient(), "pods", "", fields.Everything())
		all[name] = cache.NewSharedIndexInformer(lw, &corev1.Pod{}, 0, cache.Indexers{})
	}
	untyped := rig.Must[*dynamic.DynamicClient](t)(dynamic.NewForConfig(config))
	all["dynamic"] = dynamicinformer.NewDynamicSharedInformerFactory(untyped, 0).ForResource(pods).Informer()
	partial := rig.Must[metadata.Interface](t)(metadata.NewForConfig(config))
	all["metadata"] = metadatainformer.NewSharedInformerFactory(partial, 0).ForResource(pods).Informer()
	return all
}

// randomWrites creates, changes and deletes pods, and returns how many of each, and the versions of
// those that are there in the end.
func randomWrites(t *testing.T, m *lw.Memory[*corev1.Pod], writes int) (counts [3]int, content map[string]string) {
	t.Helper()
	seed := rand.Uint64()
	t.Logf("seed %d", seed)
	rng := rand.New(rand.NewPCG(seed, 1))
	content = map[string]string{}
	for i := range writes {
		name := "p" + strconv.Itoa(rng.IntN(30))
		if i == writes-1 {
			name = "last"
		}
		pod := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: name}, Spec: corev1.PodSpec{NodeName: "n" + strconv.Itoa(i)}}
		key := lw.Key{Namespace: "ns", Name: name}
		_, gone := m.Get(t.Context(), key)
		var err error
		kind := 0
		switch {
		case gone != nil:
			pod, err = m.Create(t.Context(), pod)
		case rng.IntN(3) > 0:
			kind = 1
			pod, err = m.Update(t.Context(), pod)
		default:
			kind = 2
			_, err = m.Delete(t.Context(), key, "")
		}
		rig.OK(t, err)
		counts[kind]++
		if content["ns/"+name] = pod.ResourceVersion; kind == 2 {
			delete(content, "ns/"+name)
		}
	}
	return counts, content
}

// client-go's clients read, watch, discover, map and write what package serve serves.
func TestServeClients(t *testing.T) {
	for name, start := range servers {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			m := lw.NewMemory(
				&corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: "a", Labels: map[string]string{"x": "1"}}, Spec: corev1.PodSpec{NodeName: "n1"}},
				&corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: "b"}, Spec: corev1.PodSpec{NodeName: "n2"}},
				&corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "other", Name: "c"}, Spec: corev1.PodSpec{NodeName: "n1"}})
			config := &rest.Config{Host: start(t, m), QPS: -1}
			ctx, cancel := context.WithTimeout(t.Context(), time.Minute) // for a busy machine
			defer cancel()
			testDiscovery(t, config, name == "Memory")
			testReads(ctx, t, config)
			if name == "Memory" {
				testServedWrites(ctx, t, config)
			}
		})
	}
}

func testDiscovery(t *testing.T, config *rest.Config, writes bool) {
	t.Helper()
	disco := rig.Must[*discovery.DiscoveryClient](t)(discovery.NewDiscoveryClientForConfig(config))
	if v, err := disco.ServerVersion(); err != nil || v.Major != "1" {
		t.Errorf("ServerVersion: %v, %v", v, err)
	}
	_, lists, err := disco.ServerGroupsAndResources()
	rig.OK(t, err)
	verbs := metav1.Verbs{"get", "list", "watch"}
	if writes {
		verbs = metav1.Verbs{"create", "delete", "deletecollection", "get", "list", "patch", "update", "watch"}
	}
	want := []metav1.APIResource{{Name: "pods", SingularName: "pod", Namespaced: true, Kind: "Pod", ShortNames: []string{"po"}, Verbs: verbs}}
	legacy := rig.Must[*metav1.APIResourceList](t)(disco.ServerResourcesForGroupVersion("v1"))
	rig.Same(t, "the resources of v1", want, legacy.APIResources)
	want[0].Version = "v1" // aggregated discovery says it
	if len(lists) != 1 || cmp.Diff(want, lists[0].APIResources) != "" {
		t.Errorf("aggregated discovery: %+v", lists)
	}
	mapper := restmapper.NewShortcutExpander(restmapper.NewDeferredDiscoveryRESTMapper(memory.NewMemCacheClient(disco)), disco, nil)
	if gvk, err := mapper.KindFor(schema.GroupVersionResource{Resource: "po"}); err != nil || gvk != corev1.SchemeGroupVersion.WithKind("Pod") {
		t.Errorf("the kind of po: %v, %v", gvk, err)
	}
	mapping, err := mapper.RESTMapping(schema.GroupKind{Kind: "Pod"}, "v1")
	if err != nil || mapping.Resource.Resource != "pods" || mapping.Scope.Name() != meta.RESTScopeNameNamespace {
		t.Errorf("the mapping of Pod: %+v, %v", mapping, err)
	}
	if _, err := mapper.RESTMapping(schema.GroupKind{Kind: "Secret"}, "v1"); !meta.IsNoMatchError(err) {
		t.Errorf("the mapping of Secret: %v", err)
	}
	if docs, err := disco.OpenAPIV3().Paths(); err != nil || docs["api/v1"] == nil {
		t.Errorf("OpenAPI: %v, %v", docs, err)
	}
}

func testReads(ctx context.Context, t *testing.T, config *rest.Config) {
	t.Helper()
	clientset := rig.Must[*kubernetes.Clientset](t)(kubernetes.NewForConfig(config))
	untyped := rig.Must[*dynamic.DynamicClient](t)(dynamic.NewForConfig(config))
	partial := rig.Must[metadata.Interface](t)(metadata.NewForConfig(config))
	pods := corev1.SchemeGroupVersion.WithResource("pods")
	for client, list := range map[string]func(namespace string, opts metav1.ListOptions) (runtime.Object, error){
		"typed": func(ns string, opts metav1.ListOptions) (runtime.Object, error) {
			return clientset.CoreV1().Pods(ns).List(ctx, opts)
		},
		"dynamic": func(ns string, opts metav1.ListOptions) (runtime.Object, error) {
			return untyped.Resource(pods).Namespace(ns).List(ctx, opts)
		},
		"metadata": func(ns string, opts metav1.ListOptions) (runtime.Object, error) {
			return partial.Resource(pods).Namespace(ns).List(ctx, opts)
		},
	} {
		for _, tt := range []struct {
			namespace string
			opts      metav1.ListOptions
			want      []string
		}{
			{"", metav1.ListOptions{}, []string{"a", "b", "c"}},
			{"ns", metav1.ListOptions{ResourceVersion: "0"}, []string{"a", "b"}},
			{"", metav1.ListOptions{LabelSelector: "x=1"}, []string{"a"}},
			{"", metav1.ListOptions{FieldSelector: "spec.nodeName=n1"}, []string{"a", "c"}},
			{"", metav1.ListOptions{FieldSelector: "metadata.name=b"}, []string{"b"}},
		} {
			// Of all, and in pages of one.
			for _, limit := range []int64{0, 1} {
				var got []string
				opts := tt.opts
				if opts.Limit = limit; limit > 0 {
					opts.ResourceVersion = ""
				}
				for more := true; more; more = opts.Continue != "" {
					obj := rig.Must[runtime.Object](t)(list(tt.namespace, opts))
					for _, item := range rig.Must[[]runtime.Object](t)(meta.ExtractList(obj)) {
						got = append(got, item.(metav1.Object).GetName())
					}
					opts.Continue = rig.Must[meta.List](t)(meta.ListAccessor(obj)).GetContinue()
				}
				rig.Same(t, fmt.Sprintf("%s in %q, %+v", client, tt.namespace, opts), tt.want, got)
			}
		}
	}
	pod := rig.Must[*corev1.Pod](t)(clientset.CoreV1().Pods("other").Get(ctx, "c", metav1.GetOptions{}))
	rig.Same(t, "node", "n1", pod.Spec.NodeName)
	if u, err := untyped.Resource(pods).Namespace("ns").Get(ctx, "a", metav1.GetOptions{}); err != nil || u.GetKind() != "Pod" || u.GetLabels()["x"] != "1" {
		t.Errorf("dynamic get: %+v, %v", u, err)
	}
	p, err := partial.Resource(pods).Namespace("ns").Get(ctx, "a", metav1.GetOptions{})
	rig.OK(t, err)
	rig.Same(t, "label in the metadata", "1", p.Labels["x"])
}

func testServedWrites(ctx context.Context, t *testing.T, config *rest.Config) {
	t.Helper()
	pods := rig.Must[*kubernetes.Clientset](t)(kubernetes.NewForConfig(config)).CoreV1().Pods("ns")
	pod, err := pods.Create(ctx, &corev1.Pod{ObjectMeta: metav1.ObjectMeta{GenerateName: "g-"}}, metav1.CreateOptions{FieldValidation: "Strict"})
	rig.OK(t, err)
	if _, err := pods.Create(ctx, &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Name: pod.Name}}, metav1.CreateOptions{}); !apierrors.IsAlreadyExists(err) {
		t.Errorf("create again: %v", err)
	}
	changed := pod.DeepCopy()
	changed.Spec.NodeName = "n9"
	if changed, err = pods.Update(ctx, changed, metav1.UpdateOptions{}); err != nil || changed.Spec.NodeName != "n9" {
		t.Fatalf("update: %+v, %v", changed, err)
	}
	if _, err := pods.Update(ctx, pod, metav1.UpdateOptions{}); !apierrors.IsConflict(err) {
		t.Errorf("update of an old version: %v", err)
	}
	rig.OK(t, pods.Delete(ctx, pod.Name, metav1.DeleteOptions{Preconditions: metav1.NewUIDPreconditions(string(pod.UID))}))
	if _, err := pods.Get(ctx, pod.Name, metav1.GetOptions{}); !apierrors.IsNotFound(err) {
		t.Errorf("get after delete: %v", err)
	}
	for label, form := range map[string]types.PatchType{"merge": types.MergePatchType, "strategic": types.StrategicMergePatchType} {
		patched, err := pods.Patch(ctx, "a", form, []byte(`{"metadata":{"labels":{"form":"`+label+`"}}}`), metav1.PatchOptions{})
		if err != nil || patched.Labels["form"] != label || patched.Labels["x"] != "1" {
			t.Errorf("%s: %+v, %v", form, patched, err)
		}
	}
}

// Behind a relay of a server that was restored, and is past its old version, whatever follows it
// has what the server has: client-go's own informers, and lw over client-go's clients, which is
// also told that the server went back in time.
func TestRestoredBehindARelay(t *testing.T) {
	t.Parallel()
	pod := func(name, node string) *corev1.Pod {
		return &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: name}, Spec: corev1.PodSpec{NodeName: node}}
	}
	m := lw.NewMemory(pod("a", "one"), pod("b", "one"))
	write := func(p *corev1.Pod) {
		_, err := m.Update(t.Context(), p)
		if err != nil {
			_, err = m.Create(t.Context(), p)
		}
		rig.OK(t, err)
	}
	clientset := kubernetes.NewForConfigOrDie(&rest.Config{Host: relayOf(t, lw.Source[*corev1.Pod](m), servedPods), QPS: -1})
	listerWatcher := cache.NewListWatchFromClient(clientset.CoreV1().RESTClient(), "pods", "", fields.Everything())
	told := map[string]*rig.Errors{}
	stores := map[string]func() []*corev1.Pod{}
	for name, src := range map[string]lw.Source[*corev1.Pod]{
		"FromClient": lw.FromClient(clientset.CoreV1().Pods("")),
		"SourceOf":   clientgo.SourceOf[*corev1.Pod](listerWatcher),
	} {
		told[name] = &rig.Errors{}
		inf := lw.NewInformer(src, &lw.Options{OnError: told[name].Add})
		rig.Start(t, inf)
		stores[name] = inf.Store().List
	}
	theirs := cache.NewSharedIndexInformer(listerWatcher, &corev1.Pod{}, 0, nil)
	runInformer(t, theirs)
	stores["client-go"] = func() (pods []*corev1.Pod) {
		for _, obj := range theirs.GetStore().List() {
			pods = append(pods, obj.(*corev1.Pod))
		}
		return pods
	}
	versions := func(pods []*corev1.Pod) map[string]string {
		all := map[string]string{}
		for _, p := range pods {
			all[p.Name] = p.ResourceVersion + " " + p.Spec.NodeName
		}
		return all
	}
	eventually := func(when string) {
		t.Helper()
		want := versions(slices.Collect(m.All()))
		for name, list := range stores {
			rig.Until(t, time.Minute, func() string {
				if diff := cmp.Diff(want, versions(list())); diff != "" {
					return fmt.Sprintf("%s: %s has (-want +got):\n%s", when, name, diff)
				}
				return ""
			})
		}
	}
	eventually("at first")
	backup := m.ResourceVersion()
	write(pod("a", "two"))
	write(pod("newest", "two"))
	eventually("before the restore")

	m.Fail(syscall.ECONNREFUSED)
	time.Sleep(1500 * time.Millisecond) // no outage of less than a second is one in which a server is restored
	rig.OK(t, m.Rewind(backup))
	write(pod("a", "three")) // at the version that it had before
	for n := range 10 {
		write(pod("other", fmt.Sprint(n)))
	}
	m.Fail(nil)
	eventually("after the restore")
	for name, errs := range told {
		rig.Same(t, name+" was told that the server went back in time", 1, errs.Count(lw.ErrRewound))
	}
}
