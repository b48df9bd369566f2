package clientgo_test

import (
	"context"
	"fmt"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/client-go/util/workqueue"

	"github.com/go-lw/lw"
	"github.com/go-lw/lw/clientgo"
)

// A worker asks why it runs. What several events have changed since it ran last is one reason.
func ExampleReasons() {
	queue := clientgo.Reasons(workqueue.NewTypedRateLimitingQueue(workqueue.DefaultTypedControllerRateLimiter[lw.Key]()), nil)
	server := lw.NewMemory(pod("default", "web"))
	pods := lw.NewInformer(server, nil)
	pods.AddHandler(clientgo.Enqueue[*corev1.Pod](queue))

	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	go pods.Run(ctx)
	for range 2 {
		key, _ := queue.Get()
		fmt.Println(queue.Of(key))
		for _, reason := range queue.Of(key) {
			for _, field := range reason.Fields() {
				fmt.Println(field.Path)
			}
		}
		queue.Done(key)

		web := pod("default", "web")
		web.Spec.NodeName = "node-1"
		server.Update(ctx, web)
	}
	queue.ShutDown()
	// Output:
	// Pod default/web added (initial)
	// Pod default/web updated (watch): spec.nodeName
	// spec.nodeName
}
