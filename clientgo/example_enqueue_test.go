package clientgo_test

import (
	"context"
	"fmt"
	"iter"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/util/workqueue"

	"github.com/go-lw/lw"
	"github.com/go-lw/lw/clientgo"
)

// A controller reconciles keys from a queue of client-go.
func ExampleEnqueue() {
	queue := workqueue.NewTypedRateLimitingQueue(workqueue.DefaultTypedControllerRateLimiter[lw.Key]())
	pods := lw.NewInformer(lw.NewMemory(pod("default", "web")), nil)
	pods.AddHandler(clientgo.Enqueue[*corev1.Pod](queue))

	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	go pods.Run(ctx)
	key, _ := queue.Get()
	p, ok := pods.Store().Get(key)
	fmt.Println(key, ok, p.Name)
	queue.Done(key)
	queue.ShutDown()
	// Output: default/web true web
}

// A change of a pod makes the controller of replica sets look at the pod's replica set.
func ExampleEnqueueOwner() {
	queue := workqueue.NewTypedRateLimitingQueue(workqueue.DefaultTypedControllerRateLimiter[lw.Key]())
	isController := true
	web := pod("default", "web-x7k2p")
	web.OwnerReferences = []metav1.OwnerReference{{APIVersion: "apps/v1", Kind: "ReplicaSet", Name: "web", Controller: &isController}}
	pods := lw.NewInformer(lw.NewMemory(web, pod("default", "alone")), nil)
	pods.AddHandler(clientgo.EnqueueOwner[*corev1.Pod](queue, schema.GroupKind{Group: "apps", Kind: "ReplicaSet"}))

	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	go pods.Run(ctx)
	key, _ := queue.Get()
	fmt.Println(key)
	queue.ShutDown()
	// Output: default/web
}

// A controller of nodes looks at a node again when one of its pods comes, changes or goes.
func ExampleEnqueueMapped() {
	queue := workqueue.NewTypedRateLimitingQueue(workqueue.DefaultTypedControllerRateLimiter[string]())
	web := pod("default", "web")
	web.Spec.NodeName = "node-1"
	pods := lw.NewInformer(lw.NewMemory(web, pod("default", "pending")), nil)
	pods.AddHandler(clientgo.EnqueueMapped(queue, func(p *corev1.Pod) iter.Seq[string] {
		return func(yield func(string) bool) {
			if p.Spec.NodeName != "" {
				yield(p.Spec.NodeName)
			}
		}
	}))

	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	go pods.Run(ctx)
	node, _ := queue.Get()
	fmt.Println(node)
	queue.ShutDown()
	// Output: node-1
}
