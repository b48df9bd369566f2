package clientgo_test

import (
	"context"
	"fmt"
	"iter"
	"log/slog"
	"strings"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/informers"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/kubernetes/fake"
	corelisters "k8s.io/client-go/listers/core/v1"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/cache"
	"k8s.io/client-go/util/workqueue"

	"github.com/go-lw/lw"
	"github.com/go-lw/lw/clientgo"
	"github.com/go-lw/lw/lwtest"
)

// Code that wants client-go's interface gets it beside lw's own.
func ExampleSharedIndexInformer() {
	pods := lw.NewInformer(lw.NewMemory(pod("default", "web")), nil)
	byNode := lw.NewIndex(pods, func(p *corev1.Pod) string { return p.Spec.NodeName })

	// What this library of yours takes is a cache.SharedIndexInformer.
	library := func(informer cache.SharedIndexInformer) (cache.ResourceEventHandlerRegistration, error) {
		return informer.AddEventHandler(cache.ResourceEventHandlerFuncs{
			AddFunc: func(obj any) { fmt.Println("added", obj.(*corev1.Pod).Name) },
		})
	}
	handle, err := library(clientgo.SharedIndexInformer(pods))
	if err != nil {
		fmt.Println(err)
		return
	}
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	go pods.Run(ctx)
	cache.WaitFor(ctx, "", handle.HasSyncedChecker())
	fmt.Println("without a node:", byNode.Len(""))
	// Output:
	// added web
	// without a node: 1
}

// listerWatcher is what a program has that makes its informers with cache.NewSharedIndexInformer.
func listerWatcher(clientset kubernetes.Interface) cache.ListerWatcher {
	return listWatchOf(clientset.CoreV1().Pods(""))
}

// NewInformer stands where cache.NewSharedIndexInformer stood.
func ExampleNewInformer() {
	clientset := fake.NewClientset(pod("default", "web"), pod("kube-system", "dns"))
	informer := clientgo.NewInformer(listerWatcher(clientset), &corev1.Pod{}, 0,
		cache.Indexers{cache.NamespaceIndex: cache.MetaNamespaceIndexFunc})

	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	go informer.RunWithContext(ctx)
	cache.WaitFor(ctx, "", informer.HasSyncedChecker())
	pods, err := corelisters.NewPodLister(informer.GetIndexer()).Pods("default").List(labels.Everything())
	if err != nil {
		fmt.Println(err)
		return
	}
	for _, p := range pods {
		fmt.Println(p.Name)
	}
	// Output: web
}

// A test of a controller fills the store of an informer that nobody runs.
func ExampleNewInformerWithOptions() {
	informer := clientgo.NewInformerWithOptions(listerWatcher(fake.NewClientset()), &corev1.Pod{}, cache.SharedIndexInformerOptions{
		Indexers: cache.Indexers{cache.NamespaceIndex: cache.MetaNamespaceIndexFunc},
	})
	if err := informer.GetIndexer().Add(pod("default", "web")); err != nil {
		fmt.Println(err)
		return
	}
	p, err := corelisters.NewPodLister(informer.GetIndexer()).Pods("default").Get("web")
	fmt.Println(p.Name, err)
	// Output: web <nil>
}

// A generated factory takes lw's informer: its listers, and everybody who asks it for pods, get
// this one.
func ExampleUse() {
	clientset := fake.NewClientset(pod("default", "web"))
	factory := informers.NewSharedInformerFactory(clientset, 0)
	pods := lw.NewInformer(lw.FromClient(clientset.CoreV1().Pods("")), nil)
	clientgo.Use(factory, pods)

	lister := factory.Core().V1().Pods().Lister()
	ctx, cancel := context.WithCancel(context.Background())
	defer factory.Shutdown()
	defer cancel()
	factory.StartWithContext(ctx)
	if err := factory.WaitForCacheSyncWithContext(ctx).AsError(); err != nil {
		fmt.Println(err)
		return
	}
	p, err := lister.Pods("default").Get("web")
	fmt.Println(p.Name, err, pods.Status().Synced)
	// Output: web <nil> true
}

// A ListerWatcher becomes a source, whose objects may be of any type.
func ExampleSource() {
	clientset := fake.NewClientset(pod("default", "web"))
	src := clientgo.Source(listerWatcher(clientset), &corev1.Pod{})
	objects := lw.NewInformer(src, &lw.Options{Name: "pods"})

	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	go objects.Run(ctx)
	fmt.Println(objects.WaitForSync(ctx))
	for obj := range objects.Store().All() {
		fmt.Printf("%T %s\n", obj, obj.GetName())
	}
	// Output:
	// <nil>
	// *v1.Pod web
}

// The type is known here, so nothing has to be converted later.
func ExampleSourceOf() {
	clientset := fake.NewClientset(pod("default", "web"))
	pods := lw.NewInformer(clientgo.SourceOf[*corev1.Pod](listerWatcher(clientset)), nil)

	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	go pods.Run(ctx)
	fmt.Println(pods.WaitForSync(ctx))
	for p := range pods.Store().All() {
		fmt.Println(p.Name, p.Spec.NodeName == "")
	}
	// Output:
	// <nil>
	// web true
}

// A health check works with whatever informers a program has.
func ExampleStatus() {
	informer := clientgo.NewInformer(listerWatcher(fake.NewClientset(pod("default", "web"))), &corev1.Pod{}, 0, nil)
	healthy := func() error {
		status, ok := clientgo.Status(informer)
		if !ok {
			return nil // not one of lw's
		}
		return status.Healthy()
	}
	fmt.Println(healthy())
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	go informer.RunWithContext(ctx)
	cache.WaitFor(ctx, "", informer.HasSyncedChecker())
	fmt.Println(healthy())
	// Output:
	// lw: Pod: not synced, since Run has not been called
	// <nil>
}

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

// The informer keeps what the server has sent, compressed. Its lister, its handlers and its indexes
// have pods.
func ExampleDecoder_pack() {
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
	informer := clientgo.Decoder{Pack: true}.NewInformer(pods, &corev1.Pod{}, 0, cache.Indexers{})

	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan struct{})
	go func() { defer close(done); informer.RunWithContext(ctx) }()
	cache.WaitForCacheSync(ctx.Done(), informer.HasSynced)
	a, err := corelisters.NewPodLister(informer.GetIndexer()).Pods("default").Get("a")
	fmt.Println(a.Name, err)
	cancel()
	<-done
	// Output: a <nil>
}

// The Secrets of all informers that share a limit take no more than 64 MiB, whoever makes them.
func ExampleDecoder_limit() {
	limit := &lw.PackLimit{Bytes: 64 << 20}
	informer := func(client kubernetes.Interface, namespace string) cache.SharedIndexInformer {
		secrets := cache.NewListWatchFromClient(client.CoreV1().RESTClient(), "secrets", namespace, fields.Everything())
		return clientgo.Decoder{Limit: limit}.NewInformer(secrets, &corev1.Secret{}, 0, cache.Indexers{})
	}
	_ = informer
	fmt.Println(limit.Usage().LetGo, "of them are let go")
	// Output: 0 of them are let go
}

// What a ListerWatcher does to an answer before it returns it is lost when lw decodes. So the first
// list with objects is compared with what the server sent, and client-go goes on decoding where
// they differ. Trust says that nothing is lost: here lw drops the managed fields itself.
// Status.Decoder tells who decodes.
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
