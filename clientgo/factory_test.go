package clientgo_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	networkingv1 "k8s.io/api/networking/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/informers"
	coreinformers "k8s.io/client-go/informers/core/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/kubernetes/fake"
	clienttesting "k8s.io/client-go/testing"
	"k8s.io/client-go/tools/cache"

	"github.com/go-lw/lw"
	"github.com/go-lw/lw/clientgo"
	"github.com/go-lw/lw/internal/verify/rig"
)

// Everybody who asks a generated factory gets the informer that it was given: informers, typed
// ones, listers, Start and the waits. Other types stay client-go's.
func TestUse(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		handleErrors(t)
		clientset := fake.NewClientset(pod("other", "x"), &corev1.Service{ObjectMeta: pod("ns", "s").ObjectMeta})
		factory := informers.NewSharedInformerFactory(clientset, 10*time.Second)
		pods := lw.NewInformer[*corev1.Pod](lw.NewMemory(labelled("a")), nil)
		clientgo.Use(factory, pods)
		inf := factory.Core().V1().Pods().Informer()
		var got calls
		mustAdd(t, inf, &got)
		typed := typedView(inf)
		services := factory.Core().V1().Services().Lister()
		ctx, cancel := context.WithCancel(t.Context())
		factory.StartWithContext(ctx)
		rig.OK(t, factory.WaitForCacheSyncWithContext(ctx).AsError())
		got.want(t, "the first list", "add a initial")
		list := rig.Must[[]*corev1.Pod](t)(factory.Core().V1().Pods().Lister().Pods("ns").List(labels.Everything()))
		rig.Same(t, "the lister lists", []string{"a"}, names(list))
		first, _ := pods.Store().Get(lw.Key{Namespace: "ns", Name: "a"})
		rig.Same(t, "its object is that of lw's informer", true, first == list[0])
		rig.Must[*corev1.Service](t)(services.Services("ns").Get("s"))
		rig.Same(t, "the typed informer has synced", true, typed.HasSynced())
		time.Sleep(10 * time.Second)
		got.want(t, "the factory's resync period", "update a from a")
		cancel()
		factory.Shutdown()
		rig.Same(t, "stopped after Shutdown", true, inf.IsStopped())
	})
}

// An adapter may be started beside its informer's owner, and beside other adapters: whoever is
// first runs it, and the others wait until it ends.
func TestRunOfALentInformer(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		inf := lw.NewInformer[*corev1.Pod](lw.NewMemory(labelled("a")), nil)
		one, two := clientgo.SharedIndexInformer(inf), clientgo.SharedIndexInformer(inf)
		ctx, cancel := context.WithCancel(t.Context())
		ended := make(chan string, 9)
		var got calls
		reg := mustAdd(t, one, &got)
		mustAdd(t, two, &got)
		rig.OK(t, one.AddIndexers(cache.Indexers{"x": byLabels}))
		rig.OK(t, two.AddIndexers(cache.Indexers{"x": cache.MetaNamespaceIndexFunc})) // each adapter has its own
		go func() { _ = inf.Run(ctx); ended <- "owner" }()
		synctest.Wait()
		short, stopShort := context.WithCancel(t.Context())
		go func() { one.RunWithContext(short); ended <- "short" }()
		go func() { two.Run(nil); ended <- "endless" }()
		got.want(t, "both", "add a initial", "add a initial")
		stopShort()
		if got := <-ended; got != "short" || one.IsStopped() {
			t.Errorf("%s has ended, stopped %t", got, one.IsStopped())
		}
		if err := two.RemoveEventHandler(reg); err != nil || !reg.HasSynced() {
			t.Errorf("the handle of another adapter: %v", err)
		}
		cancel()
		synctest.Wait()
		if len(ended) != 2 || !one.IsStopped() || !two.IsStopped() {
			t.Errorf("%d of 2 have ended", len(ended))
		}
	})
}

// client-go's interface has a derived collection as well: handlers, indexes and a factory's listers
// read a union of two namespaces. Its store refuses writes, and Run waits for the owner of the
// graph.
func TestSharedIndexInformerOfAUnion(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		one, two := lw.NewMemory(labelled("a")), lw.NewMemory(pod("other", "b"))
		first, second := lw.NewInformer[*corev1.Pod](one, nil), lw.NewInformer[*corev1.Pod](two, nil)
		graph := lw.NewGraph(nil)
		union := lw.NewUnion(graph, lw.Collection[*corev1.Pod](first), second)
		factory := informers.NewSharedInformerFactory(fake.NewClientset(), 0)
		clientgo.Use(factory, union)
		inf := factory.Core().V1().Pods().Informer()
		rig.OK(t, inf.AddIndexers(cache.Indexers{"labels": byLabels}))
		var got calls
		mustAdd(t, inf, &got)
		ctx, cancel := context.WithCancel(t.Context())
		factory.StartWithContext(ctx)
		synctest.Wait()
		if inf.HasSynced() || inf.IsStopped() {
			t.Error("the adapter runs without the graph")
		}
		for _, run := range []func(context.Context) error{first.Run, second.Run, graph.Run} {
			go func() { _ = run(ctx) }()
		}
		rig.OK(t, factory.WaitForCacheSyncWithContext(ctx).AsError())
		got.want(t, "the first content", "add a initial", "add b initial")
		rig.Must[*corev1.Pod](t)(one.Update(t.Context(), labelled("a", "x")))
		rig.Must[string](t)(two.Delete(t.Context(), lw.Key{Namespace: "other", Name: "b"}, ""))
		got.want(t, "the changes", "update a from a", "delete b")
		rig.Same(t, "by label", []string{"a"}, byIndex(t, inf.GetIndexer(), "labels", "x"))
		list := rig.Must[[]*corev1.Pod](t)(factory.Core().V1().Pods().Lister().Pods("ns").List(labels.Everything()))
		rig.Same(t, "the lister lists", []string{"a"}, names(list))
		store := inf.GetStore()
		for what, err := range map[string]error{
			"Add": store.Add(labelled("c")), "Delete": store.Delete(labelled("a")),
			"Replace": store.Replace([]any{labelled("c")}, "9"),
		} {
			rig.Same(t, what+" of a derived store is not supported", true, errors.Is(err, errors.ErrUnsupported))
		}
		rig.Same(t, "the store has", []string{"ns/a"}, store.ListKeys())
		if s, ok := clientgo.Status(clientgo.SharedIndexInformer(union)); !ok || !s.Synced || s.Phase != "watching" {
			t.Errorf("status %+v, %t", s, ok)
		}
		cancel()
		factory.Shutdown()
		synctest.Wait()
		rig.Same(t, "stopped with the graph", true, inf.IsStopped())
	})
}

// requests returns which resources a fake was asked to list, and where.
func requests(client *fake.Clientset) (asked []string) {
	for _, a := range client.Actions() {
		if l, ok := a.(clienttesting.ListAction); ok {
			selector := l.GetListRestrictions().Labels.String()
			asked = append(asked, strings.TrimSpace(a.GetResource().Resource+" "+a.GetNamespace()+" "+selector))
		}
	}
	slices.Sort(asked)
	return slices.Compact(asked)
}

// All informers of the factory are lw's. Those that nobody wants make no request, and hold up
// nobody.
func TestUseAll(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		client := fake.NewClientset(pod("shop", "web"), pod("other", "dns"),
			&corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: "n"}})
		tweak := func(o *metav1.ListOptions) { o.LabelSelector = "!hidden" }
		factory := informers.NewSharedInformerFactoryWithOptions(client, 0,
			informers.WithNamespace("shop"), informers.WithTweakListOptions(tweak),
			informers.WithTransform(func(obj any) (any, error) {
				if p, ok := obj.(*corev1.Pod); ok {
					p = p.DeepCopy()
					p.Spec.NodeName = "transformed"
					return p, nil
				}
				return obj, nil
			}))
		clientgo.UseAll(factory, &clientgo.FactoryOptions{TweakListOptions: tweak})
		pods := factory.Core().V1().Pods().Lister()
		var told calls
		rig.Must[cache.ResourceEventHandlerRegistration](t)(factory.Core().V1().Nodes().Informer().AddEventHandler(cache.ResourceEventHandlerFuncs{
			AddFunc: func(obj any) { told.note("node %s", obj.(*corev1.Node).Name) },
		}))
		for _, obj := range []runtime.Object{&corev1.Pod{}, &corev1.Secret{}, &appsv1.Deployment{}, &networkingv1.Ingress{},
			&rbacv1.ClusterRole{}} {
			if inf := factory.InformerFor(obj, nil); inf == nil {
				t.Errorf("no informer of %T", obj)
			} else if _, ok := clientgo.Status(inf); !ok {
				t.Errorf("the informer of %T is not of lw", obj)
			}
		}
		ctx, cancel := context.WithCancel(t.Context())
		factory.StartWithContext(ctx)
		synced := factory.WaitForCacheSync(ctx.Done())
		if len(synced) < 50 {
			t.Errorf("%d informers", len(synced))
		}
		for of, ok := range synced {
			if !ok {
				t.Errorf("%v has not synced", of)
			}
		}
		told.want(t, "nodes", "node n")
		all := rig.Must[[]*corev1.Pod](t)(pods.List(labels.Everything()))
		if len(all) != 1 || all[0].Spec.NodeName != "transformed" {
			t.Errorf("pods %v", all)
		}
		rig.Same(t, "requests", []string{"nodes  !hidden", "pods shop !hidden"}, requests(client))
		// One more is wanted later, and needs no second Start.
		secrets := factory.Core().V1().Secrets()
		_ = secrets.Lister()
		rig.Same(t, "secrets have synced", true, cache.WaitForCacheSync(ctx.Done(), secrets.Informer().HasSynced))
		rig.Same(t, "resources that were asked for", 3, len(requests(client)))
		cancel()
		factory.Shutdown()
		for _, inf := range []cache.SharedIndexInformer{factory.Core().V1().Pods().Informer(),
			factory.Core().V1().Events().Informer()} {
			rig.Same(t, "stopped", true, inf.IsStopped())
		}
	})
}

// What would list other objects than the factory's is refused.
func TestUseAllRefuses(t *testing.T) {
	client := fake.NewClientset()
	tweaked := informers.NewSharedInformerFactoryWithOptions(client, 0,
		informers.WithTweakListOptions(func(*metav1.ListOptions) {}))
	except := func(obj runtime.Object) *clientgo.FactoryOptions {
		return &clientgo.FactoryOptions{Except: []runtime.Object{obj}}
	}
	rig.MustPanic(t, "has list options", func() { clientgo.UseAll(tweaked, nil) })
	asked := func() informers.SharedInformerFactory {
		factory := informers.NewSharedInformerFactory(client, 0)
		factory.Core().V1().Pods().Informer()
		return factory
	}
	rig.MustPanic(t, "*v1.Pod already", func() { clientgo.UseAll(asked(), nil) })
	rig.MustPanic(t, "*v1.Pod already", func() { clientgo.UseAll(asked(), except(&corev1.Node{})) })
	rig.MustPanic(t, "*v1.PodList", func() { clientgo.UseAll(asked(), except(&corev1.PodList{})) })
	rig.MustPanic(t, "<nil>", func() { clientgo.UseAll(asked(), except(nil)) })
	rig.MustPanic(t, "no generated factory", func() { clientgo.UseAll(otherFactory{}, nil) })
}

// A type of FactoryOptions.Except is client-go's, or what the program makes it, whether its
// informer is there before UseAll or comes later. The other types are lw's.
func TestUseAllExcept(t *testing.T) {
	for _, before := range []bool{true, false} {
		rig.Subtest(t, fmt.Sprintf("before=%t", before), func(t *testing.T) {
			client := fake.NewClientset(pod("shop", "web"), pod("other", "dns"))
			factory := informers.NewSharedInformerFactory(client, 0)
			calls := 0
			own := func() cache.SharedIndexInformer {
				return factory.InformerFor(&corev1.Pod{}, func(client kubernetes.Interface,
					resync time.Duration) cache.SharedIndexInformer {
					calls++
					return coreinformers.NewFilteredPodInformer(client, "shop", resync, cache.Indexers{},
						func(o *metav1.ListOptions) { o.LabelSelector = "!done" })
				})
			}
			if before {
				own()
			}
			clientgo.UseAll(factory, &clientgo.FactoryOptions{Except: []runtime.Object{&corev1.Pod{}, &corev1.Secret{}}})
			pods, secrets := own(), factory.Core().V1().Secrets()
			for obj, want := range map[runtime.Object]bool{&corev1.Pod{}: false, &corev1.Secret{}: false, &corev1.Node{}: true} {
				_ = secrets.Lister()
				_, got := clientgo.Status(factory.InformerFor(obj, nil))
				rig.Same(t, fmt.Sprintf("the informer of %T is lw's", obj), want, got)
			}
			ctx, cancel := context.WithCancel(t.Context())
			factory.StartWithContext(ctx)
			factory.WaitForCacheSync(ctx.Done())
			rig.Same(t, "calls of the function", 1, calls)
			rig.Same(t, "it has", []string{"shop/web"}, pods.GetStore().ListKeys())
			rig.Same(t, "requests", []string{"pods shop !done", "secrets"}, requests(client))
			cancel()
			factory.Shutdown()
		})
	}
}

type otherFactory struct{}

func (otherFactory) InformerFor(runtime.Object,
	func(kubernetes.Interface, time.Duration) cache.SharedIndexInformer) cache.SharedIndexInformer {
	return nil
}

// All informers and listers of a program are lw's, by one line.
func ExampleUseAll() {
	clientset := fake.NewClientset(pod("default", "web"))

	factory := informers.NewSharedInformerFactory(clientset, 0)
	clientgo.UseAll(factory, nil)

	lister := factory.Core().V1().Pods().Lister()
	ctx, cancel := context.WithCancel(context.Background())
	defer factory.Shutdown()
	defer cancel()
	factory.StartWithContext(ctx)
	factory.WaitForCacheSync(ctx.Done())
	p, err := lister.Pods("default").Get("web")
	fmt.Println(p.Name, err)
	// Output: web <nil>
}
