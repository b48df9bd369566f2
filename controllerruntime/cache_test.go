package controllerruntime_test

import (
	"context"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/rest"
	toolscache "k8s.io/client-go/tools/cache"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"
	metricsserver "sigs.k8s.io/controller-runtime/pkg/metrics/server"

	"github.com/go-lw/lw/controllerruntime"
	"github.com/go-lw/lw/internal/apiserver"
	"github.com/go-lw/lw/internal/verify/leak"
	"github.com/go-lw/lw/internal/verify/rig"
)

var (
	podKind  = corev1.SchemeGroupVersion.WithKind("Pod")
	nodeKind = corev1.SchemeGroupVersion.WithKind("Node")
)

// A bench is a server of pods and nodes.
type bench struct {
	*testing.T
	*apiserver.Server
	pods, nodes *apiserver.Collection
	config      *rest.Config
	mapper      meta.RESTMapper
}

func newBench(t *testing.T) *bench {
	s := apiserver.New(apiserver.Options{Resources: []apiserver.Resource{
		{Resource: "pods", Kind: "Pod", Fields: []string{"spec.nodeName"}, Proto: apiserver.Proto[corev1.Pod]()},
		{Resource: "nodes", Kind: "Node", Cluster: true, Proto: apiserver.Proto[corev1.Node]()},
	}})
	transport := s.Client().Transport
	mapper := meta.NewDefaultRESTMapper(nil)
	for gvk, scope := range map[schema.GroupVersionKind]meta.RESTScope{podKind: meta.RESTScopeNamespace,
		nodeKind: meta.RESTScopeRoot} {
		mapper.Add(gvk, scope)
		mapper.Add(gvk.GroupVersion().WithKind(gvk.Kind+"List"), scope) // as discovery does
	}
	b := &bench{
		T: t, Server: s, pods: s.Collection("pods"), nodes: s.Collection("nodes"), mapper: mapper,
		config: &rest.Config{Host: "http://apiserver", Transport: transport},
	}
	t.Cleanup(func() {
		s.Close()
		transport.(*http.Transport).CloseIdleConnections()
	})
	for _, ns := range []string{"a", "b", "c"} {
		for i := range 4 {
			b.write(b.pods.Create, newPod(ns, i))
		}
	}
	b.write(b.nodes.Create, &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: "n0"}})
	return b
}

func newPod(ns string, i int) *corev1.Pod {
	return &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{
			Namespace: ns, Name: fmt.Sprintf("pod-%d", i), Labels: map[string]string{"app": []string{"web", "db"}[i%2]},
			ManagedFields: []metav1.ManagedFieldsEntry{{Manager: "m", Operation: "Update", FieldsType: "FieldsV1",
				FieldsV1: metav1.NewFieldsV1(`{"f:spec":{}}`)}},
		},
		Spec: corev1.PodSpec{
			NodeName:    fmt.Sprintf("n%d", i/2),
			Containers:  []corev1.Container{{Name: "main", Image: "image"}},
			Tolerations: []corev1.Toleration{{Key: "not-ready", Operator: corev1.TolerationOpExists}},
		},
	}
}

func (b *bench) write(f func(any) (apiserver.Object, error), obj any) {
	b.Helper()
	rig.Must[apiserver.Object](b)(f(obj))
}

// start returns a running cache that newCache makes.
func (b *bench) start(newCache cache.NewCacheFunc, opts cache.Options) cache.Cache {
	b.Helper()
	opts.Mapper = b.mapper
	c := rig.Must[cache.Cache](b)(newCache(b.config, opts))
	rig.Start(b.T, runner(c.Start))
	synctest.Wait() // until it has started
	return c
}

// newDefault is controller-runtime's own cache, but for a leak: apimachinery's watch.Filter,
// through which it watches metadata, leaves a goroutine behind if it is stopped while an event
// waits.
func newDefault(config *rest.Config, opts cache.Options) (cache.Cache, error) {
	opts.NewInformer = func(l toolscache.ListerWatcher, obj runtime.Object, resync time.Duration,
		indexers toolscache.Indexers) toolscache.SharedIndexInformer {
		from := toolscache.ToListerWatcherWithContext(l)
		return toolscache.NewSharedIndexInformer(&toolscache.ListWatch{
			ListWithContextFunc: from.ListWithContext,
			WatchFuncWithContext: func(ctx context.Context, opts metav1.ListOptions) (watch.Interface, error) {
				w, err := from.WatchWithContext(ctx, opts)
				if err != nil {
					return nil, err
				}
				return drained{w}, nil
			},
		}, obj, resync, indexers)
	}
	return cache.New(config, opts)
}

type drained struct{ watch.Interface }

func (d drained) Stop() {
	d.Interface.Stop()
	go func() {
		for range d.ResultChan() {
		}
	}()
}

// examples are the ways to read pods and nodes.
func examples() map[string]client.Object {
	out := map[string]client.Object{"pods": &corev1.Pod{}, "nodes": &corev1.Node{}}
	for what, gvk := range map[string]schema.GroupVersionKind{"pods": podKind, "nodes": nodeKind} {
		u, m := &unstructured.Unstructured{}, &metav1.PartialObjectMetadata{}
		u.SetGroupVersionKind(gvk)
		m.SetGroupVersionKind(gvk)
		out["unstructured "+what], out["metadata of "+what] = u, m
	}
	return out
}

func listLike(obj client.Object) client.ObjectList {
	gvk := obj.GetObjectKind().GroupVersionKind()
	gvk.Kind += "List"
	switch obj.(type) {
	case *corev1.Pod:
		return &corev1.PodList{}
	case *corev1.Node:
		return &corev1.NodeList{}
	case *unstructured.Unstructured:
		list := &unstructured.UnstructuredList{}
		list.SetGroupVersionKind(gvk)
		return list
	}
	list := &metav1.PartialObjectMetadataList{}
	list.SetGroupVersionKind(gvk)
	return list
}

// A view is what a program sees of a cache.
type view struct {
	Gets  map[string]string
	Lists map[string]map[string]runtime.Object
	// Events of each sort of object, in the order in which they came; those of the first list are
	// sorted.
	Events map[string][]string
}

// A watcher sees a cache.
type watcher struct {
	*bench
	cache.Cache
	mu      sync.Mutex
	initial map[string][]string
	later   map[string][]string
}

func (b *bench) watch(c cache.Cache) *watcher {
	b.Helper()
	w := &watcher{bench: b, Cache: c, initial: map[string][]string{}, later: map[string][]string{}}
	for what, example := range examples() {
		inf, err := c.GetInformer(b.Context(), example)
		rig.OK(b, err)
		rig.Must[toolscache.ResourceEventHandlerRegistration](b)(inf.AddEventHandler(toolscache.ResourceEventHandlerDetailedFuncs{
			AddFunc:    func(obj any, initial bool) { w.log(what, initial, "add", obj) },
			UpdateFunc: func(before, obj any) { w.log(what, false, "update", before, obj) },
			DeleteFunc: func(obj any) { w.log(what, false, "delete", obj) },
		}))
	}
	return w
}

func (w *watcher) log(what string, initial bool, event string, objs ...any) {
	for _, obj := range objs {
		m, _ := meta.Accessor(obj)
		version := m.GetResourceVersion()
		if event == "delete" {
			// lw's handlers get the last object that they know, client-go's the one of the event.
			version = "last"
		}
		event += fmt.Sprintf(" %s/%s@%s %v", m.GetNamespace(), m.GetName(), version,
			obj.(runtime.Object).GetObjectKind().GroupVersionKind())
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	if initial {
		w.initial[what] = append(w.initial[what], event)
	} else {
		w.later[what] = append(w.later[what], event)
	}
}

func (w *watcher) view() view {
	v := view{Gets: map[string]string{}, Lists: map[string]map[string]runtime.Object{}, Events: map[string][]string{}}
	ctx := w.Context()
	for what, example := range examples() {
		for _, key := range []client.ObjectKey{{Namespace: "a", Name: "pod-0"}, {Namespace: "b", Name: "pod-3"},
			{Namespace: "a", Name: "none"}, {Name: "n0"}} {
			obj := example.DeepCopyObject().(client.Object)
			err := w.Get(ctx, key, obj)
			v.Gets[what+" "+key.String()] = fmt.Sprintf("%+v %v", obj, err)
		}
		for name, opts := range map[string][]client.ListOption{
			"all":           nil,
			"namespace":     {client.InNamespace("a")},
			"label":         {client.MatchingLabels{"app": "web"}},
			"field":         {client.MatchingFields{"node": "n1"}},
			"field and all": {client.MatchingFields{"node": "n1"}, client.InNamespace("b"), client.MatchingLabels{"app": "db"}},
			"no field":      {client.MatchingFields{"none": "n1"}},
		} {
			list := listLike(example)
			if err := w.List(ctx, list, opts...); err != nil {
				v.Gets[what+" list "+name] = strings.TrimPrefix(err.Error(), "clientgo: ")
				continue
			}
			objs := map[string]runtime.Object{}
			rig.OK(w, meta.EachListItem(list, func(obj runtime.Object) error {
				objs[client.ObjectKeyFromObject(obj.(client.Object)).String()] = obj
				return nil
			}))
			v.Lists[what+" list "+name] = objs
		}
		w.mu.Lock()
		v.Events[what] = append(slices.Sorted(slices.Values(w.initial[what])), w.later[what]...)
		w.mu.Unlock()
	}
	return v
}

// With every option a program sees of NewCache what it sees of controller-runtime's own cache.
func TestNewCacheIsLikeTheDefault(t *testing.T) {
	leak.Collect(t, 5*time.Millisecond)
	yes := true
	node := func(obj client.Object) []string {
		if p, ok := obj.(*corev1.Pod); ok {
			return []string{p.Spec.NodeName}
		}
		return []string{obj.GetName()}
	}
	stamp := func(value string) toolscache.TransformFunc {
		return func(obj any) (any, error) {
			m, err := meta.Accessor(obj)
			if err == nil {
				m.SetAnnotations(map[string]string{"transform": value})
			}
			return obj, err
		}
	}
	for _, tt := range []struct {
		name   string
		config func(*rest.Config)
		opts   cache.Options
		want   int // typed pods in the cache
	}{
		{name: "none", want: 12},
		{name: "JSON", config: func(c *rest.Config) { c.ContentType = runtime.ContentTypeJSON }, want: 12},
		{name: "namespaces", opts: cache.Options{DefaultNamespaces: map[string]cache.Config{
			"a": {}, "b": {LabelSelector: labels.SelectorFromSet(labels.Set{"app": "db"}), Transform: stamp("b")},
		}}, want: 6},
		{name: "all other namespaces", opts: cache.Options{DefaultNamespaces: map[string]cache.Config{
			"a": {}, cache.AllNamespaces: {LabelSelector: labels.SelectorFromSet(labels.Set{"app": "db"})},
		}}, want: 8},
		{name: "selectors", opts: cache.Options{
			DefaultLabelSelector: labels.SelectorFromSet(labels.Set{"app": "web"}),
			ByObject:             map[client.Object]cache.ByObject{&corev1.Node{}: {Label: labels.Everything()}},
		}, want: 6},
		{name: "by object", opts: cache.Options{ByObject: map[client.Object]cache.ByObject{
			&corev1.Pod{}: {
				Namespaces: map[string]cache.Config{"c": {FieldSelector: fields.OneTermEqualSelector("spec.nodeName", "n1")},
					"a": {}},
				Transform: stamp("pod"),
			},
			&corev1.Node{}: {UnsafeDisableDeepCopy: &yes},
		}}, want: 6},
		{name: "transform", opts: cache.Options{DefaultTransform: cache.TransformStripManagedFields()}, want: 12},
		{name: "no deep copy", opts: cache.Options{DefaultUnsafeDisableDeepCopy: &yes}, want: 12},
	} {
		rig.Subtest(t, tt.name, func(t *testing.T) {
			b := newBench(t)
			if tt.config != nil {
				tt.config(b.config)
			}
			var watchers []*watcher
			for _, newCache := range []cache.NewCacheFunc{newDefault, controllerruntime.NewCache,
				controllerruntime.NewCacheWith(controllerruntime.Options{Share: true}),
				controllerruntime.NewCacheWith(controllerruntime.Options{Pack: true})} {
				c := b.start(newCache, tt.opts)
				for _, example := range examples() {
					rig.OK(t, c.IndexField(t.Context(), example, "node", node))
				}
				if !c.WaitForCacheSync(t.Context()) {
					t.Fatal("not synced")
				}
				watchers = append(watchers, b.watch(c))
			}
			compare := func(when string) {
				t.Helper()
				synctest.Wait()
				want := watchers[0].view()
				if got := len(want.Lists["pods list all"]); got != tt.want && when == "first" {
					t.Errorf("%d pods in the default cache, want %d; %s", got, tt.want, want.Gets["pods list all"])
				}
				for _, w := range watchers[1:] {
					if diff := cmp.Diff(want, w.view()); diff != "" {
						t.Errorf("%s (-default +lw):\n%s", when, diff)
					}
				}
			}
			compare("first")
			p := newPod("a", 0)
			p.Spec.NodeName, p.Labels["app"] = "n1", "db"
			b.write(b.pods.Update, p)
			compare("updated")
			b.write(b.pods.Create, newPod("b", 7))
			synctest.Wait() // two namespaces may have two watches
			rig.Must[apiserver.Object](t)(b.pods.Delete(client.ObjectKey{Namespace: "a", Name: "pod-1"}))
			compare("created and deleted")
			for _, w := range watchers {
				rig.OK(t, w.RemoveInformer(t.Context(), &corev1.Pod{}))
			}
			synctest.Wait()
			b.write(b.pods.Create, newPod("c", 8))
			compare("removed and got again")
		})
	}
}

func TestMain(m *testing.M) {
	metricsserver.DefaultBindAddress = "0" // no port: a bubble does not know when a socket waits
	rig.Main(m)
}
