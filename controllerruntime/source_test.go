package controllerruntime_test

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/util/workqueue"
	"sigs.k8s.io/controller-runtime/pkg/controller"
	"sigs.k8s.io/controller-runtime/pkg/event"
	"sigs.k8s.io/controller-runtime/pkg/handler"
	"sigs.k8s.io/controller-runtime/pkg/predicate"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"github.com/go-lw/lw"
	"github.com/go-lw/lw/controllerruntime"
	"github.com/go-lw/lw/internal/verify/rig"
)

func namedPod(name, node string) *corev1.Pod {
	return &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: name}, Spec: corev1.PodSpec{NodeName: node}}
}

// runInBubble runs inf until the test ends.
func runInBubble(t *testing.T, runners ...controllerruntime.Runner) {
	rig.Start(t, runner(controllerruntime.Runnable(runners...).Start))
	synctest.Wait() // until they have started
}

func newQueue(t *testing.T) workqueue.TypedRateLimitingInterface[reconcile.Request] {
	q := workqueue.NewTypedRateLimitingQueue(workqueue.DefaultTypedControllerRateLimiter[reconcile.Request]())
	t.Cleanup(q.ShutDown)
	return q
}

// The handler is called for each change that all predicates let through, until ctx is done.
func TestSource(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		server := lw.NewMemory(namedPod("a", "n1"), namedPod("b", "n2"))
		pods := lw.NewInformer(server, nil)
		var told []string
		handle := handler.TypedFuncs[*corev1.Pod, reconcile.Request]{
			CreateFunc: func(_ context.Context, e event.TypedCreateEvent[*corev1.Pod], q workqueue.TypedRateLimitingInterface[reconcile.Request]) {
				told = append(told, fmt.Sprintf("create %s initial=%t", e.Object.Name, e.IsInInitialList))
				q.Add(reconcile.Request{NamespacedName: lw.KeyOf(e.Object)})
			},
			UpdateFunc: func(_ context.Context, e event.TypedUpdateEvent[*corev1.Pod], _ workqueue.TypedRateLimitingInterface[reconcile.Request]) {
				told = append(told, fmt.Sprintf("update %s to %s", e.ObjectOld.Spec.NodeName, e.ObjectNew.Spec.NodeName))
			},
			DeleteFunc: func(_ context.Context, e event.TypedDeleteEvent[*corev1.Pod], _ workqueue.TypedRateLimitingInterface[reconcile.Request]) {
				told = append(told, "delete "+e.Object.Name)
			},
		}
		hidden := predicate.NewTypedPredicateFuncs(func(p *corev1.Pod) bool { return p.Spec.NodeName != "hidden" })
		src := controllerruntime.Source(pods, handle, hidden)
		if err := src.WaitForSync(t.Context()); err == nil {
			t.Error("no error of a wait before the start")
		}
		queue := newQueue(t)
		ctx, cancel := context.WithCancel(t.Context())
		rig.OK(t, src.Start(ctx, queue))
		short, stop := context.WithTimeout(ctx, time.Second)
		defer stop()
		if err := src.WaitForSync(short); err == nil || !strings.Contains(err.Error(), "lw source: Pod") {
			t.Errorf("error %v of an informer that does not run", err)
		}
		runInBubble(t, pods)
		rig.OK(t, src.WaitForSync(t.Context()))
		expect := func(want ...string) {
			t.Helper()
			synctest.Wait()
			rig.Same(t, "", want, told)
			told = nil
		}
		synctest.Wait()
		slices.Sort(told) // the order of the first list is not defined
		expect("create a initial=true", "create b initial=true")
		if queue.Len() != 2 {
			t.Errorf("%d requests", queue.Len())
		}
		write := func(_ *corev1.Pod, err error) {
			t.Helper()
			rig.OK(t, err)
		}
		write(server.Create(t.Context(), namedPod("c", "n3")))
		write(server.Create(t.Context(), namedPod("d", "hidden")))
		write(server.Update(t.Context(), namedPod("a", "n4")))
		write(server.Update(t.Context(), namedPod("b", "hidden")))
		expect("create c initial=false", "update n1 to n4")
		rig.Must[string](t)(server.Delete(t.Context(), lw.Key{Namespace: "default", Name: "c"}, ""))
		rig.Must[string](t)(server.Delete(t.Context(), lw.Key{Namespace: "default", Name: "d"}, ""))
		expect("delete c")

		cancel()
		if err := src.WaitForSync(ctx); err != nil {
			t.Errorf("error %v of a controller that stops", err)
		}
		synctest.Wait()
		write(server.Create(t.Context(), namedPod("e", "n5")))
		expect()
	})
}

// A controller of controller-runtime starts its workers when the source has synced, and reconciles
// what changes. The objects may be a projection, which is no API type.
func TestSourceInAController(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		type node struct {
			lw.Meta
			node string
		}
		server := lw.NewMemory(namedPod("a", "n1"), namedPod("b", "n2"))
		pods := lw.NewInformer(lw.Transform(server, func(p *corev1.Pod) (*node, error) {
			return &node{lw.MetaOf(p), p.Spec.NodeName}, nil
		}), nil)
		nodes := make(chan string, 10)
		c := rig.Must[controller.TypedController[string]](t)(controller.NewTypedUnmanaged("pods", controller.TypedOptions[string]{
			SkipNameValidation: new(bool),
			Reconciler: reconcile.TypedFunc[string](func(_ context.Context, name string) (reconcile.Result, error) {
				nodes <- name
				return reconcile.Result{}, nil
			}),
		}))
		byNode := handler.TypedEnqueueRequestsFromMapFunc(func(_ context.Context, n *node) []string { return []string{n.node} })
		rig.OK(t, c.Watch(controllerruntime.TypedSource(pods, byNode)))
		runInBubble(t, pods, runner(c.Start))
		got := map[string]bool{<-nodes: true, <-nodes: true}
		rig.Must[*corev1.Pod](t)(server.Create(t.Context(), namedPod("c", "n3")))
		got[<-nodes] = true
		rig.Same(t, "", map[string]bool{"n1": true, "n2": true, "n3": true}, got)
	})
}

type runner func(context.Context) error

func (r runner) Run(ctx context.Context) error { return r(ctx) }

func TestSourceMisuse(t *testing.T) {
	pods := lw.NewInformer(lw.NewMemory[*corev1.Pod](), nil)
	enqueue := &handler.TypedEnqueueRequestForObject[*corev1.Pod]{}
	for want, f := range map[string]func(){
		"nil collection": func() { controllerruntime.Source(nil, enqueue) },
		"nil handler":    func() { controllerruntime.Source(pods, nil) },
		"nil predicate":  func() { controllerruntime.Source(pods, enqueue, nil) },
	} {
		func() {
			defer func() {
				if got := fmt.Sprint(recover()); got != "controllerruntime: Source: "+want {
					t.Errorf("panic %q, want %s", got, want)
				}
			}()
			f()
		}()
	}
}

// If one runner fails, the others end.
func TestRunnable(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		pods := lw.NewInformer(lw.NewMemory[*corev1.Pod](), nil)
		bad := lw.NewInformer(&lw.HTTP[*corev1.Pod]{URL: "ftp://"}, &lw.Options{OnError: func(error) {}})
		r := controllerruntime.Runnable(pods, bad)
		if err := r.Start(t.Context()); err == nil || !strings.Contains(err.Error(), "want http://host") {
			t.Errorf("error %v", err)
		}
		select {
		case <-pods.Stopped():
		default:
			t.Error("the other informer runs")
		}
		if r.(interface{ NeedLeaderElection() bool }).NeedLeaderElection() {
			t.Error("waits to be the leader")
		}
	})
}

func ExampleSource() {
	server := lw.NewMemory(namedPod("a", "n1"))
	pods := lw.NewInformer(server, nil)
	src := controllerruntime.Source(pods, &handler.TypedEnqueueRequestForObject[*corev1.Pod]{})

	// With a manager:
	//	mgr.Add(controllerruntime.Runnable(pods))
	//	builder.ControllerManagedBy(mgr).Named("pods").WatchesRawSource(src).Complete(reconciler)
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	go controllerruntime.Runnable(pods).Start(ctx)
	queue := workqueue.NewTypedRateLimitingQueue(workqueue.DefaultTypedControllerRateLimiter[reconcile.Request]())
	defer queue.ShutDown()
	if err := src.Start(ctx, queue); err != nil {
		fmt.Println(err)
	}
	request, _ := queue.Get()
	fmt.Println(request)
	// Output: default/a
}
