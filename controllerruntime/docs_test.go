package controllerruntime_test

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	"github.com/go-logr/logr"
	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/util/workqueue"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/event"
	"sigs.k8s.io/controller-runtime/pkg/handler"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"github.com/go-lw/lw"
	"github.com/go-lw/lw/controllerruntime"
	"github.com/go-lw/lw/internal/rig"
	"github.com/go-lw/lw/lwtest"
)

// What README.md and docs/migrate.md say of a manager: it runs on lw by one line, and watches a projection by another.
func TestMigrationPage(t *testing.T) {
	ctrl.SetLogger(logr.Discard())
	synctest.Test(t, func(t *testing.T) {
		server := lwtest.NewServer(t, lwtest.Resource{Plural: "pods", Kind: "Pod"})
		pods := lwtest.Objects[*corev1.Pod](server, "pods")
		rig.Must[*corev1.Pod](t)(pods.Create(namedPod("web", "n1")))
		type place struct {
			lw.Meta
			Node string
		}
		places := lw.NewInformer(lw.Transform(pods.Source(), func(p *corev1.Pod) (*place, error) {
			return &place{lw.MetaOf(p), p.Spec.NodeName}, nil
		}), nil)
		enqueue := handler.TypedFuncs[*place, reconcile.Request]{CreateFunc: enqueueCreated[*place]}

		config := &rest.Config{Host: server.URL(), Transport: server.Client().Transport, ContentConfig: rest.ContentConfig{ContentType: "application/json"}}
		mgr, err := ctrl.NewManager(config, ctrl.Options{NewCache: controllerruntime.NewCache})
		rig.OK(t, err)
		rig.OK(t, mgr.Add(controllerruntime.Runnable(places)))
		var read []string
		reconciler := reconcile.Func(func(ctx context.Context, r reconcile.Request) (reconcile.Result, error) {
			var pod corev1.Pod
			err := mgr.GetClient().Get(ctx, r.NamespacedName, &pod, &client.GetOptions{})
			read = append(read, r.String()+" "+pod.Spec.NodeName)
			return reconcile.Result{}, err
		})
		err = ctrl.NewControllerManagedBy(mgr).Named("places").
			WatchesRawSource(controllerruntime.Source(places, enqueue)).
			Complete(reconciler)
		rig.OK(t, err)
		ctx, cancel := context.WithCancel(t.Context())
		ended := make(chan error, 1)
		go func() { ended <- mgr.Start(ctx) }()
		time.Sleep(time.Minute)
		synctest.Wait()
		if diff := cmp.Diff([]string{"default/web n1"}, read); diff != "" {
			t.Errorf("reconciled (-want +got):\n%s", diff)
		}
		cancel()
		if err := <-ended; err != nil {
			t.Error(err)
		}
	})
}

// TestOwnWritesPage: the block of docs/migrate.md, whose manager reads what it wrote at once.
func TestOwnWritesPage(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		server := lwtest.NewServer(t, lwtest.Resource{Plural: "pods", Kind: "Pod"})
		config := &rest.Config{Host: server.URL(), Transport: server.Client().Transport, ContentConfig: rest.ContentConfig{ContentType: "application/json"}}
		options := controllerruntime.Options{TellWrites: true}
		mgr, err := ctrl.NewManager(config, ctrl.Options{
			NewCache: controllerruntime.NewCacheWith(options), NewClient: controllerruntime.NewClient(options),
		})
		rig.OK(t, err)
		ctx, cancel := context.WithTimeout(t.Context(), 10*time.Minute) // what does not come fails
		ended := make(chan error, 1)
		go func() { ended <- mgr.Start(ctx) }()
		time.Sleep(time.Minute) // a manager that is ended while it starts does not end
		if _, err := mgr.GetCache().GetInformer(ctx, &corev1.Pod{}); err != nil {
			t.Fatal(err)
		}
		pod := namedPod("a", "n1")
		server.Stall() // the watch has nothing to say
		rig.OK(t, mgr.GetClient().Create(ctx, pod))
		if err := mgr.GetClient().Get(ctx, client.ObjectKeyFromObject(pod), new(corev1.Pod)); err != nil {
			t.Errorf("right after the create: %v", err)
		}
		cancel()
		if err := <-ended; err != nil {
			t.Error(err)
		}
	})
}

// enqueueCreated adds the key of an object that has come.
func enqueueCreated[T lw.Object](_ context.Context, e event.TypedCreateEvent[T], queue workqueue.TypedRateLimitingInterface[reconcile.Request]) {
	queue.Add(reconcile.Request{NamespacedName: lw.KeyOf(e.Object)})
}
