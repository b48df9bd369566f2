package controllerruntime_test

import (
	"context"
	"fmt"
	"net/http"

	"github.com/go-logr/logr"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/rest"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/builder"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/handler"
	"sigs.k8s.io/controller-runtime/pkg/metrics"
	metricsserver "sigs.k8s.io/controller-runtime/pkg/metrics/server"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"github.com/go-lw/lw"
	"github.com/go-lw/lw/controllerruntime"
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

// The manager's own server shows what the cache does: /metrics has its series, and /debug/lw its page.
func ExampleOptions() {
	_ = func(config *rest.Config) (ctrl.Manager, error) {
		var board lw.Board
		return ctrl.NewManager(config, ctrl.Options{
			NewCache: controllerruntime.NewCacheWith(controllerruntime.Options{Board: &board, Metrics: metrics.Registry}),
			Metrics:  metricsserver.Options{ExtraHandlers: map[string]http.Handler{"/debug/lw": lwdebug.Handler(&board)}},
		})
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
