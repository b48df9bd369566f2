package factories_test

import (
	"context"
	"fmt"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/dynamic/dynamicinformer"
	dynamicfake "k8s.io/client-go/dynamic/fake"
	"k8s.io/client-go/informers"
	"k8s.io/client-go/kubernetes/scheme"
	metadatafake "k8s.io/client-go/metadata/fake"
	"k8s.io/client-go/metadata/metadatainformer"
	"k8s.io/client-go/tools/cache"

	"github.com/go-lw/lw/clientgo"
	"github.com/go-lw/lw/clientgo/factories"
	"github.com/go-lw/lw/internal/verify/rig"
)

var pods, nodes = corev1.SchemeGroupVersion.WithResource("pods"), corev1.SchemeGroupVersion.WithResource("nodes")

type anyFactory interface {
	Start(<-chan struct{})
	ForResource(schema.GroupVersionResource) informers.GenericInformer
	WaitForCacheSync(<-chan struct{}) map[schema.GroupVersionResource]bool
	Shutdown()
}

func pod(namespace, name string) *corev1.Pod {
	return &corev1.Pod{
		TypeMeta:   metav1.TypeMeta{APIVersion: "v1", Kind: "Pod"},
		ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: name},
	}
}

func metadataClient() *metadatafake.FakeMetadataClient {
	s := metadatafake.NewTestScheme()
	if err := metav1.AddMetaToScheme(s); err != nil {
		panic(err)
	}
	partial := func(namespace, name string) runtime.Object {
		p := pod(namespace, name)
		return &metav1.PartialObjectMetadata{TypeMeta: p.TypeMeta, ObjectMeta: p.ObjectMeta}
	}
	return metadatafake.NewSimpleMetadataClient(s, partial("shop", "web"), partial("shop", "dns"), partial("other", "db"))
}

func dynamicClient() dynamic.Interface {
	return dynamicfake.NewSimpleDynamicClient(scheme.Scheme, pod("shop", "web"), pod("shop", "dns"), pod("other", "db"))
}

// What a factory shows is what client-go's shows.
func TestFactories(t *testing.T) {
	shop := &factories.Options{Namespace: "shop"}
	for name, f := range map[string]struct{ theirs, ours func() anyFactory }{
		"dynamic": {
			func() anyFactory {
				return dynamicinformer.NewFilteredDynamicSharedInformerFactory(dynamicClient(), 0, "shop", nil)
			},
			func() anyFactory { return factories.Dynamic(dynamicClient(), 0, shop) },
		},
		"metadata": {
			func() anyFactory {
				return metadatainformer.NewFilteredSharedInformerFactory(metadataClient(), 0, "shop", nil)
			},
			func() anyFactory { return factories.Metadata(metadataClient(), 0, shop) },
		},
		"all namespaces": {
			func() anyFactory { return dynamicinformer.NewDynamicSharedInformerFactory(dynamicClient(), 0) },
			func() anyFactory { return factories.Dynamic(dynamicClient(), 0, nil) },
		},
	} {
		t.Run(name, func(t *testing.T) {
			want := show(t, f.theirs)
			if len(want) < 4 {
				t.Fatalf("client-go shows %q", want)
			}
			rig.Same(t, "client-go and lw", want, show(t, f.ours))
		})
	}
}

// show returns what can be seen of a factory.
func show(t *testing.T, new func() anyFactory) (lines []string) {
	synctest.Test(t, func(t *testing.T) {
		f := new()
		note := func(format string, args ...any) { lines = append(lines, fmt.Sprintf(format, args...)) }
		lister := f.ForResource(pods).Lister()
		note("the same informer %v", f.ForResource(pods).Informer() == f.ForResource(pods).Informer())
		note("synced before %v", f.WaitForCacheSync(nil))
		stop := make(chan struct{})
		f.Start(stop)
		f.Start(stop)
		note("synced %v", f.WaitForCacheSync(stop))
		for _, of := range []cache.GenericNamespaceLister{lister.ByNamespace("shop"), lister.ByNamespace("other"),
			lister.ByNamespace("")} {
			objs, err := of.List(labels.Everything())
			var names []string
			for _, obj := range objs {
				names = append(names, fmt.Sprintf("%T %s", obj, obj.(metav1.Object).GetName()))
			}
			slices.Sort(names)
			note("list %q %v", names, err)
		}
		_, err := lister.ByNamespace("shop").Get("none")
		note("get %v", err)
		close(stop)
		f.Shutdown()
		f.ForResource(nodes)
		f.Start(nil)
		note("after the end %v", f.WaitForCacheSync(stop)[nodes])
		if _, ok := clientgo.Status(f.ForResource(pods).Informer()); ok {
			time.Sleep(time.Minute)
		}
	})
	return lines
}

// A fake client is asked for no stream, as by client-go's factories.
func TestFakeClient(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		client := metadataClient()
		f := factories.Metadata(client, 0, nil)
		f.ForResource(pods)
		stop := make(chan struct{})
		f.Start(stop)
		f.WaitForCacheSync(stop)
		synctest.Wait()
		var verbs []string
		for _, a := range client.Actions() {
			verbs = append(verbs, a.GetVerb())
		}
		rig.Same(t, "requests", []string{"list", "watch"}, verbs)
		close(stop)
		f.Shutdown()
	})
}

// The options reach the requests and the objects.
func TestOptions(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := factories.Dynamic(dynamicClient(), 0, &factories.Options{
			TweakListOptions: func(o *metav1.ListOptions) { o.LabelSelector = "none" },
		})
		g := factories.Metadata(metadataClient(), 0, &factories.Options{Transform: func(obj any) (any, error) {
			m := obj.(*metav1.PartialObjectMetadata).DeepCopy()
			m.Labels = map[string]string{"transformed": "yes"}
			return m, nil
		}})
		none, some := f.ForResource(pods).Informer(), g.ForResource(pods).Informer()
		ctx, cancel := context.WithCancel(t.Context())
		f.Start(ctx.Done())
		g.Start(ctx.Done())
		f.WaitForCacheSync(ctx.Done())
		g.WaitForCacheSync(ctx.Done())
		rig.Same(t, "objects with the list options", 0, len(none.GetStore().List()))
		rig.Same(t, "objects with the transform", 3, len(some.GetStore().List()))
		for _, obj := range some.GetStore().List() {
			rig.Same(t, "transformed", "yes", obj.(metav1.Object).GetLabels()["transformed"])
		}
		for want, inf := range map[string]cache.SharedIndexInformer{"*unstructured.Unstructured": none,
			"*v1.PartialObjectMetadata": some} {
			_, err := inf.AddEventHandler(nil)
			rig.Same(t, "the type of its objects", "clientgo: "+want+": AddEventHandler: nil handler", fmt.Sprint(err))
			_, err = inf.GetIndexer().ByIndex(cache.NamespaceIndex, "shop")
			rig.OK(t, err)
		}
		_, ok := clientgo.Status(none)
		rig.Same(t, "the informers are lw's", true, ok)
		cancel()
		f.Shutdown()
		g.Shutdown()
	})
}

// A dynamic factory, in place of dynamicinformer.NewDynamicSharedInformerFactory.
func ExampleDynamic() {
	factory := factories.Dynamic(dynamicClient(), 0, nil)
	lister := factory.ForResource(corev1.SchemeGroupVersion.WithResource("pods")).Lister()
	stop := make(chan struct{})
	factory.Start(stop)
	factory.WaitForCacheSync(stop)
	found, err := lister.ByNamespace("shop").List(labels.Everything())
	fmt.Println(len(found), err)
	close(stop)
	factory.Shutdown()
	// Output: 2 <nil>
}

// A metadata factory, in place of metadatainformer.NewSharedInformerFactory.
func ExampleMetadata() {
	factory := factories.Metadata(metadataClient(), 0, nil)
	lister := factory.ForResource(corev1.SchemeGroupVersion.WithResource("pods")).Lister()
	stop := make(chan struct{})
	factory.Start(stop)
	factory.WaitForCacheSync(stop)
	found, err := lister.List(labels.Everything())
	fmt.Println(len(found), err)
	close(stop)
	factory.Shutdown()
	// Output: 3 <nil>
}

// A nil client is refused where it is given, by the name of the function.
func TestNil(t *testing.T) {
	rig.MustPanic(t, "factories: Dynamic: nil client", func() { factories.Dynamic(nil, 0, nil) })
	rig.MustPanic(t, "factories: Metadata: nil client", func() { factories.Metadata(nil, 0, nil) })
}
