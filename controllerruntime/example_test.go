package controllerruntime_test

import (
	"context"
	"fmt"
	"net/http"
	"strings"
	"testing"
	"testing/synctest"

	"github.com/go-logr/logr"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/client-go/rest"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/builder"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller"
	"sigs.k8s.io/controller-runtime/pkg/handler"
	"sigs.k8s.io/controller-runtime/pkg/metrics"
	metricsserver "sigs.k8s.io/controller-runtime/pkg/metrics/server"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"github.com/go-lw/lw"
	"github.com/go-lw/lw/controllerruntime"
	"github.com/go-lw/lw/internal/verify/rig"
	"github.com/go-lw/lw/lwdebug"
	"github.com/go-lw/lw/lwtest"
)

// One line gives a manager lw's informers and lw's decoder. Nothing else changes.
func ExampleNewCache() {
	server := lwtest.StartServer(lwtest.Resource{Plural: "pods", Kind: "Pod"})
	defer server.Close()
	if _, err := lwtest.Objects[*corev1.Pod](server, "pods").Create(namedPod("a", "n1")); err != nil {
		fmt.Println(err)
		return
	}
	config := &rest.Config{Host: server.URL(), Transport: server.Client().Transport}

	ctrl.SetLogger(logr.Discard())
	mgr, err := ctrl.NewManager(config, ctrl.Options{
		NewCache: controllerruntime.NewCache, // the line

		// This server has no discovery. With a real one leave the mapper out.
		MapperProvider: func(*rest.Config, *http.Client) (meta.RESTMapper, error) {
			mapper := meta.NewDefaultRESTMapper(nil)
			mapper.Add(podKind, meta.RESTScopeNamespace)
			return mapper, nil
		},
		Metrics: metricsserver.Options{BindAddress: "0"},
	})
	if err != nil {
		fmt.Println(err)
		return
	}
	ctx, stop := context.WithCancel(context.Background())
	defer stop()
	err = ctrl.NewControllerManagedBy(mgr).For(&corev1.Pod{}).Complete(reconcile.Func(func(ctx context.Context, r reconcile.Request) (reconcile.Result, error) {
		var pod corev1.Pod
		if err := mgr.GetClient().Get(ctx, r.NamespacedName, &pod); err != nil {
			return reconcile.Result{}, err
		}
		fmt.Println(pod.Name, "on", pod.Spec.NodeName)
		stop()
		return reconcile.Result{}, nil
	}))
	if err != nil {
		fmt.Println(err)
		return
	}
	if err := mgr.Start(ctx); err != nil {
		fmt.Println(err)
	}
	// Output: a on n1
}

// Equal parts of objects are stored once, and a field that nobody needs not at all.
func ExampleNewCacheWith() {
	_ = func(config *rest.Config) (ctrl.Manager, error) {
		return ctrl.NewManager(config, ctrl.Options{
			NewCache: controllerruntime.NewCacheWith(controllerruntime.Options{Share: true, Drop: []string{"metadata.managedFields"}}),
		})
	}
}

// The manager's own server shows what the cache does: /metrics has its series, and /debug/lw its
// page.
func ExampleOptions() {
	_ = func(config *rest.Config) (ctrl.Manager, error) {
		var board lw.Board
		return ctrl.NewManager(config, ctrl.Options{
			NewCache: controllerruntime.NewCacheWith(controllerruntime.Options{Board: &board, Metrics: metrics.Registry}),
			Metrics:  metricsserver.Options{ExtraHandlers: map[string]http.Handler{"/debug/lw": lwdebug.Handler(&board)}},
		})
	}
}

// Of a thousand ConfigMaps the cache keeps the compressed bytes, and a reconciler sees no
// difference. Pods, of which this manager walks all again and again, stay decoded.
func ExampleOptions_pack() {
	server := lwtest.StartServer(lwtest.Resource{Plural: "configmaps", Kind: "ConfigMap"})
	defer server.Close()
	maps := lwtest.Objects[*corev1.ConfigMap](server, "configmaps")
	for i := range 1000 {
		m := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: fmt.Sprint("settings-", i)},
			Data: map[string]string{"text": strings.Repeat("a setting\n", 100)}}
		if _, err := maps.Create(m); err != nil {
			fmt.Println(err)
			return
		}
	}
	config := &rest.Config{Host: server.URL(), Transport: server.Client().Transport}
	options := controllerruntime.Options{Pack: true, PackByObject: map[client.Object]bool{&corev1.Pod{}: false}}
	c, err := controllerruntime.NewCacheWith(options)(config, cache.Options{}) // a manager calls it
	if err != nil {
		fmt.Println(err)
		return
	}
	ctx, stop := context.WithCancel(context.Background())
	defer stop()
	go func() { _ = c.Start(ctx) }()
	c.WaitForCacheSync(ctx)

	var one corev1.ConfigMap
	if err := c.Get(ctx, client.ObjectKey{Namespace: "default", Name: "settings-7"}, &one); err != nil {
		fmt.Println(err)
		return
	}
	fmt.Println(one.Name, len(one.Data["text"]))
	var all corev1.ConfigMapList
	if err := c.List(ctx, &all); err != nil {
		fmt.Println(err)
		return
	}
	fmt.Println(len(all.Items))
	// Output:
	// settings-7 1000
	// 1000
}

// Whoever may edit a namespace may fill it with ConfigMaps. The manager's objects take no more than
// 256 MiB all the same, and each read has a whole object, or an error.
func ExampleOptions_limit() {
	_ = func(config *rest.Config) (ctrl.Manager, error) {
		limited := controllerruntime.Options{Limit: 256 << 20}
		return ctrl.NewManager(config, ctrl.Options{NewCache: controllerruntime.NewCacheWith(limited)})
	}
}

// The cache has no Secret but those that a reconciler has read by name in the last half hour.
func ExampleOptions_onDemand() {
	server := lwtest.StartServer(lwtest.Resource{Plural: "secrets", Kind: "Secret"})
	defer server.Close()
	secrets := lwtest.Objects[*corev1.Secret](server, "secrets")
	for _, name := range []string{"named", "other"} {
		if _, err := secrets.Create(&corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: name}}); err != nil {
			fmt.Println(err)
			return
		}
	}
	config := &rest.Config{Host: server.URL(), Transport: server.Client().Transport}
	options := controllerruntime.Options{OnDemand: []client.Object{&corev1.Secret{}}}
	c, err := controllerruntime.NewCacheWith(options)(config, cache.Options{}) // a manager calls it
	if err != nil {
		fmt.Println(err)
		return
	}
	ctx, stop := context.WithCancel(context.Background())
	defer stop()
	go func() { _ = c.Start(ctx) }()
	c.WaitForCacheSync(ctx)

	var secret corev1.Secret
	if err := c.Get(ctx, client.ObjectKey{Namespace: "default", Name: "named"}, &secret); err != nil {
		fmt.Println(err)
		return
	}
	fmt.Println(secret.Name)
	// Output: named
}

// The namespaces of the manager may change while it runs.
func ExampleOptions_namespaces() {
	_ = func(config *rest.Config) (ctrl.Manager, error) {
		var namespaces lw.NamespaceSet
		options := controllerruntime.Options{Namespaces: &namespaces}
		mgr, err := ctrl.NewManager(config, ctrl.Options{
			NewCache:  controllerruntime.NewCacheWith(options),
			NewClient: controllerruntime.NewClient(options),
		})
		namespaces.Set("the configuration", "default", "team-a") // at any time
		return mgr, err
	}
}

// The reconciler reads its own writes at once, and is not called for them.
func ExampleNotTold() {
	_ = func(config *rest.Config, r reconcile.Reconciler) error {
		options := controllerruntime.Options{TellWrites: true}
		mgr, err := ctrl.NewManager(config, ctrl.Options{
			NewCache: controllerruntime.NewCacheWith(options), NewClient: controllerruntime.NewClient(options),
		})
		if err != nil {
			return err
		}
		return ctrl.NewControllerManagedBy(mgr).For(&corev1.Pod{}, builder.WithPredicates(controllerruntime.NotTold())).Complete(r)
	}
}

// The manager runs typed informers, and a controller watches one of them.
func ExampleRunnable() {
	_ = func(mgr ctrl.Manager, pods *lw.Informer[*corev1.Pod], nodes *lw.Informer[*corev1.Node], r reconcile.Reconciler) error {
		if err := mgr.Add(controllerruntime.Runnable(pods, nodes)); err != nil {
			return err
		}
		return builder.ControllerManagedBy(mgr).Named("pods").
			WatchesRawSource(controllerruntime.Source(pods, &handler.TypedEnqueueRequestForObject[*corev1.Pod]{})).
			Complete(r)
	}
}

// An orphan is a pod that no service selects. It has the name of the pod.
type orphan struct{ lw.Meta }

// orphansOf keeps the orphans in step with pods and services.
func orphansOf(g *lw.Graph, pods lw.Collection[*corev1.Pod], services lw.Collection[*corev1.Service]) *lw.Derived[*orphan] {
	return lw.LeftJoin(g, pods, services, lw.On[string, *corev1.Pod, *corev1.Service]{
		Left:  lw.SingleKey((*corev1.Pod).GetNamespace),
		Right: lw.SingleKey((*corev1.Service).GetNamespace),
		Where: func(p *corev1.Pod, s *corev1.Service) bool {
			return len(s.Spec.Selector) > 0 && labels.SelectorFromSet(s.Spec.Selector).Matches(labels.Set(p.Labels))
		},
	}, func(p *corev1.Pod, selecting []*corev1.Service) *orphan {
		if len(selecting) > 0 {
			return nil
		}
		return &orphan{lw.Meta{Namespace: p.Namespace, Name: p.Name, UID: p.UID}}
	})
}

// newOrphanController returns a controller that is asked about a pod when it becomes an orphan, and
// when it is none any more.
func newOrphanController(orphans *lw.Derived[*orphan], told func(pod lw.Key, alone bool)) (controller.Controller, error) {
	c, err := controller.NewUnmanaged("orphans", controller.Options{
		SkipNameValidation: new(true),
		Reconciler: reconcile.Func(func(_ context.Context, r reconcile.Request) (reconcile.Result, error) {
			_, alone := orphans.Store().Get(r.NamespacedName)
			told(r.NamespacedName, alone)
			return reconcile.Result{}, nil
		}),
	})
	if err != nil {
		return nil, err
	}
	enqueue := handler.TypedEnqueueRequestsFromMapFunc(func(_ context.Context, o *orphan) []reconcile.Request {
		return []reconcile.Request{{NamespacedName: lw.KeyOf(o)}}
	})
	return c, c.Watch(controllerruntime.Source(orphans, enqueue))
}

func selecting(name, app string) *corev1.Service {
	return &corev1.Service{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: name}, Spec: corev1.ServiceSpec{Selector: map[string]string{"app": app}}}
}

func appPod(name, app string) *corev1.Pod {
	p := namedPod(name, "n1")
	p.Labels = map[string]string{"app": app}
	return p
}

// A controller watches what a graph derives of two informers: the pods that no service selects.
// With a manager: mgr.Add(controllerruntime.Runnable(pods, services, graph)).
func ExampleSource_derived() {
	pods := lw.NewInformer(lw.NewMemory(appPod("a", "web"), appPod("b", "db")), nil)
	services := lw.NewInformer(lw.NewMemory(selecting("web", "web")), nil)
	graph := lw.NewGraph(nil)
	ctx, cancel := context.WithCancel(context.Background())
	c, err := newOrphanController(orphansOf(graph, pods, services), func(pod lw.Key, alone bool) {
		fmt.Println(pod, alone)
		cancel()
	})
	if err != nil {
		fmt.Println(err)
		return
	}
	if err := controllerruntime.Runnable(pods, services, graph, runner(c.Start)).Start(ctx); err != nil {
		fmt.Println(err)
	}
	// Output: default/b true
}

// The controller of the example learns of each pod that becomes an orphan or stops to be one,
// whether a pod or a service has changed, and of nothing else.
func TestSourceOfADerivedCollection(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		podServer, serviceServer := lw.NewMemory(appPod("a", "web"), appPod("b", "db")), lw.NewMemory(selecting("web", "web"))
		pods, services := lw.NewInformer(podServer, nil), lw.NewInformer(serviceServer, nil)
		graph := lw.NewGraph(nil)
		got := map[string]bool{}
		c := rig.Must[controller.Controller](t)(newOrphanController(orphansOf(graph, pods, services), func(pod lw.Key, alone bool) { got[pod.Name] = alone }))
		runInBubble(t, pods, services, graph, runner(c.Start))
		for _, step := range []struct {
			name string
			do   func() error
			want map[string]bool
		}{
			{"the beginning", func() error { return nil }, map[string]bool{"b": true}},
			{"a service comes", func() error { _, err := serviceServer.Create(t.Context(), selecting("db", "db")); return err }, map[string]bool{"b": false}},
			{"a pod changes, and is selected as before", func() error {
				p := appPod("a", "web")
				p.Spec.NodeName = "n2"
				_, err := podServer.Update(t.Context(), p)
				return err
			}, map[string]bool{}},
			{"a service goes", func() error {
				_, err := serviceServer.Delete(t.Context(), lw.Key{Namespace: "default", Name: "web"}, "")
				return err
			}, map[string]bool{"a": true}},
			{"an orphan goes", func() error {
				_, err := podServer.Delete(t.Context(), lw.Key{Namespace: "default", Name: "a"}, "")
				return err
			}, map[string]bool{"a": false}},
		} {
			rig.OK(t, step.do())
			synctest.Wait()
			rig.Same(t, step.name, step.want, got)
			clear(got)
		}
	})
}

// A Reader reads a union as it reads an informer, with its fields, and says at once that nobody
// runs the graph.
func TestReaderOfAUnion(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		one, two := lw.NewInformer(lw.NewMemory(newPod("a", 0), newPod("a", 2)), nil), lw.NewInformer(lw.NewMemory(newPod("b", 2)), nil)
		graph := lw.NewGraph(nil)
		reader := controllerruntime.NewReader(nil)
		rig.OK(t, controllerruntime.Serve(reader, lw.NewUnion(graph, one, two), podFields))
		if err := reader.Get(t.Context(), client.ObjectKey{Namespace: "b", Name: "pod-2"}, &corev1.Pod{}); err == nil {
			t.Error("no error of a read before the graph runs")
		}
		runInBubble(t, one, two, graph)
		var list corev1.PodList
		rig.OK(t, reader.List(t.Context(), &list, client.MatchingFields{"spec.nodeName": "n1"}))
		got := map[string]string{}
		for _, p := range list.Items {
			got[p.Namespace] = p.Name
		}
		rig.Same(t, "", map[string]string{"a": "pod-2", "b": "pod-2"}, got)
	})
}
