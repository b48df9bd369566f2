package simulate

import (
	"context"
	"sync"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/informers"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/cache"
	"k8s.io/client-go/util/workqueue"
)

// listed is a controller of client-go alone, without a manager: it makes a Secret for each
// ConfigMap, with what that wants.
func listed(ctx context.Context, c *rest.Config) error {
	client, err := kubernetes.NewForConfig(c)
	if err != nil {
		return err
	}
	factory := informers.NewSharedInformerFactory(client, 0)
	parents, children := factory.Core().V1().ConfigMaps(), factory.Core().V1().Secrets()
	queue := workqueue.NewTypedRateLimitingQueue(workqueue.DefaultTypedControllerRateLimiter[cache.ObjectName]())
	add := func(obj any) {
		if name, err := cache.DeletionHandlingObjectToName(obj); err == nil {
			queue.Add(name)
		}
	}
	handler := cache.ResourceEventHandlerFuncs{AddFunc: add, UpdateFunc: func(_, obj any) { add(obj) }, DeleteFunc: add}
	for _, informer := range []cache.SharedIndexInformer{parents.Informer(), children.Informer()} {
		if _, err := informer.AddEventHandler(handler); err != nil { // a child has its parent's name
			return err
		}
	}
	factory.Start(ctx.Done())
	factory.WaitForCacheSync(ctx.Done())
	reconcile := func(name cache.ObjectName) error {
		m, err := parents.Lister().ConfigMaps(name.Namespace).Get(name.Name)
		if err != nil {
			return ignoreNotFound(err)
		}
		old, err := children.Lister().Secrets(name.Namespace).Get(name.Name)
		switch {
		case apierrors.IsNotFound(err):
			child := &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Name: m.Name, OwnerReferences: owner(m)}, StringData: m.Data}
			child.Labels = map[string]string{"want": m.Data["want"]}
			_, err = client.CoreV1().Secrets(m.Namespace).Create(ctx, child, metav1.CreateOptions{})
		case err == nil && metav1.IsControlledBy(old, m) && old.Labels["want"] != m.Data["want"]:
			child := old.DeepCopy()
			metav1.SetMetaDataLabel(&child.ObjectMeta, "want", m.Data["want"])
			_, err = client.CoreV1().Secrets(m.Namespace).Update(ctx, child, metav1.UpdateOptions{})
		}
		return err
	}
	var workers sync.WaitGroup
	workers.Go(func() {
		for {
			name, down := queue.Get()
			if down {
				return
			}
			if err := reconcile(name); err != nil {
				queue.AddRateLimited(name)
			} else {
				queue.Forget(name)
			}
			queue.Done(name)
		}
	})
	<-ctx.Done()
	queue.ShutDown()
	workers.Wait()
	factory.Shutdown()
	return nil
}

func ignoreNotFound(err error) error {
	if apierrors.IsNotFound(err) {
		return nil
	}
	return err
}

// TestClientGo runs a program without a manager.
func TestClientGo(t *testing.T) {
	Run(t, World{Start: listed, Steps: func(w *W) {
		w.Apply(one)
		w.Settle()
		w.Apply(two)
		w.Pass(time.Second)
		w.Delete(one)
		w.Settle()
		w.Apply(one)
	}})
}
