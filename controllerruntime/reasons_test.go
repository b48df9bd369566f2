package controllerruntime_test

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/go-logr/logr"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/util/workqueue"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/config"
	"sigs.k8s.io/controller-runtime/pkg/controller"
	"sigs.k8s.io/controller-runtime/pkg/handler"
	"sigs.k8s.io/controller-runtime/pkg/log"
	metricsserver "sigs.k8s.io/controller-runtime/pkg/metrics/server"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"github.com/go-lw/lw"
	"github.com/go-lw/lw/controllerruntime"
	"github.com/go-lw/lw/internal/verify/rig"
	"github.com/go-lw/lw/lwtest"
)

// newReasonsManager returns a manager with options, of a server of pods and of config maps.
func newReasonsManager(t testing.TB, options controllerruntime.Options) (ctrl.Manager, *lwtest.Server) {
	t.Helper()
	server := lwtest.NewServer(t, lwtest.Resource{Plural: "pods", Kind: "Pod"}, lwtest.Resource{Plural: "configmaps",
		Kind: "ConfigMap"})
	mgr, err := ctrl.NewManager(&rest.Config{Host: server.URL(), Transport: server.Client().Transport}, ctrl.Options{
		NewCache: controllerruntime.NewCacheWith(options), Logger: logr.Discard(),
		Metrics:    metricsserver.Options{BindAddress: "0"},
		Controller: config.Controller{SkipNameValidation: new(true)},
		MapperProvider: func(*rest.Config, *http.Client) (meta.RESTMapper, error) {
			mapper := meta.NewDefaultRESTMapper(nil)
			mapper.Add(podKind, meta.RESTScopeNamespace)
			mapper.Add(corev1.SchemeGroupVersion.WithKind("ConfigMap"), meta.RESTScopeNamespace)
			return mapper, nil
		},
	})
	rig.OK(t, err)
	return mgr, server
}

// The reconciler of a manager knows what it is called for: objects of For, Owns and Watches, those
// of a Source, its own errors and requeues, with each sort of queue.
func TestReasons(t *testing.T) {
	plain := func(_ string,
		limiter workqueue.TypedRateLimiter[reconcile.Request]) workqueue.TypedRateLimitingInterface[reconcile.Request] {
		return workqueue.NewTypedRateLimitingQueue(limiter)
	}
	for name, queue := range map[string]func(string,
		workqueue.TypedRateLimiter[reconcile.Request]) workqueue.TypedRateLimitingInterface[reconcile.Request]{"priorities": nil, "plain": plain} {
		rig.Subtest(t, name, func(t *testing.T) {
			options := controllerruntime.Options{Reasons: true}
			mgr, server := newReasonsManager(t, options)
			nodes := lw.NewInformer(lw.NewMemory(&corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: "n1"}}),
				&lw.Options{Name: "Node"})
			var mu sync.Mutex // guards the variables below
			var got []string
			result, fails := reconcile.Result{}, error(nil)
			set := func(r reconcile.Result, err error) {
				mu.Lock()
				defer mu.Unlock()
				result, fails = r, err
			}
			explained := controllerruntime.Explain(options,
				reconcile.Func(func(ctx context.Context, r reconcile.Request) (reconcile.Result, error) {
					mu.Lock()
					defer mu.Unlock()
					got = append(got, r.Name+": "+controllerruntime.Reasons(ctx).String())
					return result, fails
				}))
			explained.Queue = queue
			err := ctrl.NewControllerManagedBy(mgr).For(&corev1.Pod{}).Owns(&corev1.ConfigMap{}).
				WatchesRawSource(controllerruntime.Source(nodes, handler.TypedEnqueueRequestsFromMapFunc(func(_ context.Context,
					n *corev1.Node) []reconcile.Request {
					return []reconcile.Request{{NamespacedName: lw.Key{Name: n.Name}}}
				}))).
				WithOptions(controller.Options{NewQueue: explained.NewQueue}).Complete(explained)
			rig.OK(t, err)
			rig.OK(t, mgr.Add(controllerruntime.Runnable(nodes)))
			rig.Start(t, runner(mgr.Start))
			expect := func(want ...string) {
				t.Helper()
				rig.Sleep(time.Minute)
				mu.Lock()
				defer mu.Unlock()
				rig.Same(t, "", want, got)
				got = nil
			}
			expect("n1: Node n1 added (initial)")
			pods, maps := lwtest.Objects[*corev1.Pod](server, "pods"), lwtest.Objects[*corev1.ConfigMap](server, "configmaps")
			web, err := pods.Create(namedPod("web", "n1"))
			rig.OK(t, err)
			expect("web: Pod default/web added (watch)")
			owned := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "settings",
				OwnerReferences: []metav1.OwnerReference{{APIVersion: "v1", Kind: "Pod", Name: "web", UID: web.UID,
					Controller: new(true)}}}}
			owned, err = maps.Create(owned)
			rig.OK(t, err)
			expect("web: ConfigMap default/settings added (watch)")
			set(reconcile.Result{}, errors.New("no quota"))
			owned = owned.DeepCopy()
			owned.Data = map[string]string{"size": "2"}
			rig.Must[*corev1.ConfigMap](t)(maps.Update(owned))
			rig.Sleep(time.Millisecond)
			set(reconcile.Result{RequeueAfter: 40 * time.Second}, nil)
			rig.Sleep(time.Second)
			set(reconcile.Result{}, nil)
			expect("web: ConfigMap default/settings updated (watch): data.size", "web: added after an error: no quota",
				"web: added after 40s")
		})
	}
}

// Without the option nothing is known, and the queue is controller-runtime's.
func TestReasonsOff(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var list any = "not called"
		explained := controllerruntime.Explain(controllerruntime.Options{},
			reconcile.Func(func(ctx context.Context, _ reconcile.Request) (reconcile.Result, error) {
				list = controllerruntime.Reasons(ctx)
				return reconcile.Result{}, nil
			}))
		queue := explained.NewQueue("pods", workqueue.DefaultTypedControllerRateLimiter[reconcile.Request]())
		defer queue.ShutDown()
		if _, err := explained.Reconcile(t.Context(), reconcile.Request{}); err != nil || fmt.Sprint(list) != "" {
			t.Errorf("%v, %v", list, err)
		}
	})
}

// A reconciler knows why it is called, and may log that.
func ExampleReasons() {
	server := lwtest.StartServer(lwtest.Resource{Plural: "pods", Kind: "Pod"})
	defer server.Close()
	if _, err := lwtest.Objects[*corev1.Pod](server, "pods").Create(namedPod("a", "n1")); err != nil {
		fmt.Println(err)
		return
	}
	var board lw.Board
	options := controllerruntime.Options{Reasons: true, Board: &board}
	mgr, err := ctrl.NewManager(&rest.Config{Host: server.URL(), Transport: server.Client().Transport}, ctrl.Options{
		NewCache: controllerruntime.NewCacheWith(options), Logger: logr.Discard(),
		Metrics: metricsserver.Options{BindAddress: "0"},
		MapperProvider: func(*rest.Config, *http.Client) (meta.RESTMapper, error) { // this server has no discovery
			mapper := meta.NewDefaultRESTMapper(nil)
			mapper.Add(podKind, meta.RESTScopeNamespace)
			return mapper, nil
		},
	})
	if err != nil {
		fmt.Println(err)
		return
	}
	ctx, stop := context.WithCancel(context.Background())
	defer stop()
	reconciler := reconcile.Func(func(ctx context.Context, _ reconcile.Request) (reconcile.Result, error) {
		log.FromContext(ctx).Info("reconciling", "reasons", controllerruntime.Reasons(ctx))
		fmt.Println(controllerruntime.Reasons(ctx))
		stop()
		return reconcile.Result{}, nil
	})
	explained := controllerruntime.Explain(options, reconciler) // Options{Reasons: true}, as for NewCacheWith
	err = ctrl.NewControllerManagedBy(mgr).For(&corev1.Pod{}).Named("explained").
		WithOptions(controller.Options{NewQueue: explained.NewQueue}).Complete(explained)
	if err != nil {
		fmt.Println(err)
		return
	}
	if err := mgr.Start(ctx); err != nil {
		fmt.Println(err)
	}
	// Output: Pod default/a added (initial)
}
