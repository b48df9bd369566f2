package clientgo_test

import (
	"context"
	"fmt"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/informers"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/kubernetes/fake"
	corelisters "k8s.io/client-go/listers/core/v1"
	"k8s.io/client-go/tools/cache"

	"github.com/go-lw/lw"
	"github.com/go-lw/lw/clientgo"
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
	return &cache.ListWatch{
		ListWithContextFunc: func(ctx context.Context, opts metav1.ListOptions) (runtime.Object, error) {
			return clientset.CoreV1().Pods("").List(ctx, opts)
		},
		WatchFuncWithContext: func(ctx context.Context, opts metav1.ListOptions) (watch.Interface, error) {
			return clientset.CoreV1().Pods("").Watch(ctx, opts)
		},
	}
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
