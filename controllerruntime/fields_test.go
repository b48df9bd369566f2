package controllerruntime_test

import (
	"context"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/go-logr/logr"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes/fake"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/cache"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/go-lw/lw"
	"github.com/go-lw/lw/clientgo"
	"github.com/go-lw/lw/controllerruntime"
	"github.com/go-lw/lw/internal/rig"
	"github.com/go-lw/lw/lwtest"
)

// What docs/memory.md shows: the same fields of the same pods, of an informer, of a manager and of
// client-go's constructor, and a write of a whole object.
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
		ctx, cancel := context.WithCancel(t.Context())
		pods := lw.NewInformer(&lw.HTTP[*corev1.Pod]{URL: url, Client: httpClient, Only: podFields}, nil)
		go pods.Run(ctx)
		rig.OK(t, pods.WaitForSync(ctx))
		key := client.ObjectKeyFromObject(pod)
		check := func(what string, got *corev1.Pod) {
			t.Helper()
			if got.Name != "web" || got.Labels["app"] != "web" || got.Spec.NodeName != "n1" || got.Spec.Hostname != "" || !got.CreationTimestamp.IsZero() {
				t.Errorf("%s has %+v", what, got)
			}
		}
		cached, _ := pods.Store().Get(lw.KeyOf(pod))
		check("the informer", cached)

		config := &rest.Config{Host: server.URL(), Transport: httpClient.Transport, ContentConfig: rest.ContentConfig{ContentType: "application/json"}}
		options := controllerruntime.Options{Only: map[client.Object]lw.Fields{&corev1.Pod{}: podFields}}
		mgr, err := ctrl.NewManager(config, ctrl.Options{
			NewCache:  controllerruntime.NewCacheWith(options),
			NewClient: controllerruntime.NewClient(options),
		})
		rig.OK(t, err)
		ended := make(chan error, 1)
		go func() { ended <- mgr.Start(ctx) }()
		time.Sleep(time.Minute)
		if !mgr.GetCache().WaitForCacheSync(ctx) {
			t.Fatal("not synced")
		}
		var read corev1.Pod
		rig.OK(t, mgr.GetClient().Get(ctx, key, &read))
		check("the manager", &read)
		if err := mgr.GetClient().Update(ctx, &read); err == nil || !strings.Contains(err.Error(), "is refused") {
			t.Errorf("Update of a pod of the cache: %v", err)
		}
		write := func() error {
			var whole corev1.Pod
			if err := mgr.GetAPIReader().Get(ctx, key, &whole); err != nil {
				return err
			}
			whole.Finalizers = append(whole.Finalizers, "example.com/mine")
			return controllerruntime.Unguarded(mgr.GetClient()).Update(ctx, &whole)
		}
		if err := write(); err != nil {
			t.Error(err)
		}
		synctest.Wait()
		if now, err := served.Get(lw.KeyOf(pod)); err != nil || now.Spec.Hostname != "h" || len(now.Finalizers) != 1 {
			t.Errorf("the server has %+v, %v", now, err)
		}

		listerWatcher := &cache.ListWatch{}
		decoder := clientgo.Decoder{Only: podFields}
		informer := decoder.NewInformer(listerWatcher, &corev1.Pod{}, 0, cache.Indexers{})
		_ = informer

		clientset := fake.NewClientset(lwtest.Prune(pod, podFields))
		faked := rig.Must[*corev1.Pod](t)(clientset.CoreV1().Pods(pod.Namespace).Get(ctx, "web", metav1.GetOptions{}))
		check("the fake", faked)
		cancel()
		if err := <-ended; err != nil {
			t.Error(err)
		}
	})
}
