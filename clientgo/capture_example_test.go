package clientgo_test

import (
	"context"
	"fmt"
	"log/slog"
	"strings"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/cache"

	"github.com/go-lw/lw"
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

// What a ListerWatcher does to an answer before it returns it is lost when lw decodes. So the first
// list with objects is compared with what the server sent, and client-go goes on decoding where they
// differ. Trust says that nothing is lost: here lw drops the managed fields itself. Status.Decoder
// tells who decodes.
func ExampleDecoder_trust() {
	server := lwtest.StartServer(lwtest.Resource{Plural: "pods", Kind: "Pod"})
	defer server.Close()
	managed := pod("default", "a")
	managed.ManagedFields = []metav1.ManagedFieldsEntry{{Manager: "kubectl"}}
	if _, err := lwtest.Objects[*corev1.Pod](server, "pods").Create(managed); err != nil {
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
	pods := &cache.ListWatch{
		ListWithContextFunc: func(ctx context.Context, opts metav1.ListOptions) (runtime.Object, error) {
			list, err := clientset.CoreV1().Pods("default").List(ctx, opts)
			if err == nil {
				for i := range list.Items {
					list.Items[i].ManagedFields = nil
				}
			}
			return list, err
		},
		WatchFuncWithContext: func(ctx context.Context, opts metav1.ListOptions) (watch.Interface, error) {
			return clientset.CoreV1().Pods("default").Watch(ctx, opts)
		},
	}
	for _, trust := range []bool{false, true} {
		decoder := clientgo.Decoder{Drop: []string{"metadata.managedFields"}, Trust: trust}
		informer := lw.NewInformer(decoder.Source(pods, &corev1.Pod{}), &lw.Options{
			List: lw.ListPages, Logger: slog.New(slog.DiscardHandler),
		})
		ctx, cancel := context.WithCancel(context.Background())
		done := make(chan struct{})
		go func() { defer close(done); informer.Run(ctx) }()
		if err := informer.WaitForSync(ctx); err != nil {
			fmt.Println(err)
		}
		who, _, _ := strings.Cut(informer.Status().Decoder, ":") // and, for client-go, why
		fmt.Printf("trust %v: decoded by %s\n", trust, who)
		cancel()
		<-done
	}
	// Output:
	// trust false: decoded by client-go
	// trust true: decoded by lw
}

// What the clientset writes is in the informer when Create returns, whatever the watch does.
func ExampleTellWrites() {
	server := lwtest.StartServer(lwtest.Resource{Plural: "pods", Kind: "Pod"})
	defer server.Close()
	config := &rest.Config{Host: server.URL(), Transport: server.Client().Transport, ContentConfig: rest.ContentConfig{ContentType: "application/json"}}
	client, err := rest.HTTPClientFor(config)
	if err != nil {
		fmt.Println(err)
		return
	}
	client = clientgo.TellWrites(client)
	clientset, err := kubernetes.NewForConfigAndClient(config, client)
	if err != nil {
		fmt.Println(err)
		return
	}
	pods := lw.NewInformer(lw.Source[*corev1.Pod](&lw.HTTP[*corev1.Pod]{URL: server.URL() + "/api/v1/pods", Client: client}), nil)
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	go pods.Run(ctx)
	if err := pods.WaitForSync(ctx); err != nil {
		fmt.Println(err)
		return
	}

	server.Stall() // the watch tells nothing from now on
	if _, err := clientset.CoreV1().Pods("default").Create(ctx, pod("default", "a"), metav1.CreateOptions{}); err != nil {
		fmt.Println(err)
		return
	}
	fmt.Println(pods.Store().Len(), "pods, ahead:", pods.Status().Ahead)
	// Output: 1 pods, ahead: 1
}
