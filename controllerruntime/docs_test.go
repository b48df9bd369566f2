package controllerruntime_test

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	"github.com/go-logr/logr"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes/fake"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/cache"
	"k8s.io/client-go/util/workqueue"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/event"
	"sigs.k8s.io/controller-runtime/pkg/handler"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"github.com/go-lw/lw"
	"github.com/go-lw/lw/clientgo"
	"github.com/go-lw/lw/controllerruntime"
	"github.com/go-lw/lw/internal/verify/rig"
	"github.com/go-lw/lw/lwtest"
)

// What README.md and docs/migrate.md say of a manager: it runs on lw by one line, and watches a
// projection by another.
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
		rig.Start(t, runner(mgr.Start))
		rig.Sleep(time.Minute)
		rig.Same(t, "reconciled", []string{"default/web n1"}, read)
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
		defer cancel()
		rig.Start(t, runner(mgr.Start))
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
	})
}

// enqueueCreated adds the key of an object that has come.
func enqueueCreated[T lw.Object](_ context.Context, e event.TypedCreateEvent[T], queue workqueue.TypedRateLimitingInterface[reconcile.Request]) {
	queue.Add(reconcile.Request{NamespacedName: lw.KeyOf(e.Object)})
}

// What docs/memory.md shows of Pack in a manager.
func TestPackPage(t *testing.T) {
	ctrl.SetLogger(logr.Discard())
	synctest.Test(t, func(t *testing.T) {
		server := lwtest.NewServer(t, lwtest.Resource{Plural: "pods", Kind: "Pod"})
		rig.Must[*corev1.Pod](t)(lwtest.Objects[*corev1.Pod](server, "pods").Create(namedPod("web", "n1")))
		config := &rest.Config{Host: server.URL(), Transport: server.Client().Transport,
			ContentConfig: rest.ContentConfig{ContentType: "application/json"}}
		options := controllerruntime.Options{
			Pack:         true,
			PackByObject: map[client.Object]bool{&corev1.Pod{}: false}, // walked all the time
		}
		mgr, err := ctrl.NewManager(config, ctrl.Options{NewCache: controllerruntime.NewCacheWith(options)})
		rig.OK(t, err)
		rig.Start(t, runner(mgr.Start))
		rig.Sleep(time.Minute)
		var pod corev1.Pod
		rig.OK(t, mgr.GetClient().Get(t.Context(), client.ObjectKey{Namespace: "default", Name: "web"}, &pod))
		if pod.Spec.NodeName != "n1" {
			t.Errorf("the pod is %+v", pod)
		}
	})
}

// What docs/memory.md shows of Only: the same fields of the same pods, of an informer, of client-go's
// constructor and of a fake.
func TestFieldsPage(t *testing.T) {
	ctrl.SetLogger(logr.Discard())
	synctest.Test(t, func(t *testing.T) {
		server := lwtest.NewServer(t, lwtest.Resource{Plural: "pods", Kind: "Pod"})
		served := lwtest.Objects[*corev1.Pod](server, "pods")
		pod := namedPod("web", "n1")
		pod.Labels, pod.Spec.Hostname = map[string]string{"app": "web"}, "h"
		rig.Must[*corev1.Pod](t)(served.Create(pod))
		var podFields = lw.Fields{
			"metadata.labels",
			"spec.nodeName",
			"status.conditions.type",
		}
		url, httpClient := served.URL(""), server.Client()
		ctx := t.Context()
		pods := lw.NewInformer(&lw.HTTP[*corev1.Pod]{URL: url, Client: httpClient, Only: podFields}, nil)
		go pods.Run(ctx)
		rig.OK(t, pods.WaitForSync(ctx))
		check := func(what string, got *corev1.Pod) {
			t.Helper()
			if got.Name != "web" || got.Labels["app"] != "web" || got.Spec.NodeName != "n1" || got.Spec.Hostname != "" || !got.CreationTimestamp.IsZero() {
				t.Errorf("%s has %+v", what, got)
			}
		}
		cached, _ := pods.Store().Get(lw.KeyOf(pod))
		check("the informer", cached)

		listerWatcher := &cache.ListWatch{}
		decoder := clientgo.Decoder{Only: podFields}
		informer := decoder.NewInformer(listerWatcher, &corev1.Pod{}, 0, cache.Indexers{})
		_ = informer

		clientset := fake.NewClientset(lwtest.Prune(pod, podFields))
		faked := rig.Must[*corev1.Pod](t)(clientset.CoreV1().Pods(pod.Namespace).Get(ctx, "web", metav1.GetOptions{}))
		check("the fake", faked)
	})
}
