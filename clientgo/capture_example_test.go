package clientgo_test

import (
	"context"
	"fmt"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/cache"

	"github.com/go-lw/lw/clientgo"
	"github.com/go-lw/lw/lwtest"
)

// A ListerWatcher of client-go stays as it is, and lw decodes what it lists and watches.
func ExampleDecoder() {
	server := lwtest.StartServer(lwtest.Resource{Plural: "pods", Kind: "Pod"})
	defer server.Close()
	if _, err := lwtest.Objects[*corev1.Pod](server, "pods").Create(pod("default", "a")); err != nil {
		fmt.Println(err)
		return
	}
	config := &rest.Config{Host: server.URL(), Transport: server.Client().Transport}

	client, err := rest.HTTPClientFor(config)
	if err != nil {
		fmt.Println(err)
		return
	}
	clientset, err := kubernetes.NewForConfigAndClient(config, clientgo.Capture(client))
	if err != nil {
		fmt.Println(err)
		return
	}
	pods := cache.NewListWatchFromClient(clientset.CoreV1().RESTClient(), "pods", "default", fields.Everything())
	informer := clientgo.Decoder{Share: true}.NewInformer(pods, &corev1.Pod{}, 0, cache.Indexers{})

	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan struct{})
	go func() { defer close(done); informer.RunWithContext(ctx) }()
	cache.WaitForCacheSync(ctx.Done(), informer.HasSynced)
	fmt.Println(informer.GetIndexer().ListKeys())
	cancel()
	<-done
	// Output: [default/a]
}
