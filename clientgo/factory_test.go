package clientgo_test

import (
	"context"
	"errors"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/client-go/informers"
	"k8s.io/client-go/kubernetes/fake"
	"k8s.io/client-go/tools/cache"

	"github.com/go-lw/lw"
	"github.com/go-lw/lw/clientgo"
	"github.com/go-lw/lw/internal/rig"
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
		list, err := factory.Core().V1().Pods().Lister().Pods("ns").List(labels.Everything())
		if err != nil || len(list) != 1 || list[0].Name != "a" {
			t.Errorf("the lister lists %v, %v", list, err)
		}
		if first, _ := pods.Store().Get(lw.Key{Namespace: "ns", Name: "a"}); first != list[0] {
			t.Error("the lister has another object than lw's informer")
		}
		if s, err := services.Services("ns").Get("s"); err != nil || s.Name != "s" {
			t.Errorf("services: %v, %v", s, err)
		}
		if !typed.HasSynced() {
			t.Error("the typed informer has not synced")
		}
		time.Sleep(10 * time.Second)
		got.want(t, "the factory's resync period", "update a from a")
		cancel()
		factory.Shutdown()
		if !inf.IsStopped() {
			t.Error("not stopped after Shutdown")
		}
	})
}

// What Use cannot do is a panic at the start of the program, not a surprise later.
func TestUseTooLate(t *testing.T) {
	clientset := fake.NewClientset()
	pods := lw.NewInformer(lw.FromClient(clientset.CoreV1().Pods("")), nil)
	asked := informers.NewSharedInformerFactory(clientset, 0)
	asked.Core().V1().Pods().Informer()
	transforming := informers.NewSharedInformerFactoryWithOptions(clientset, 0, informers.WithTransform(func(obj any) (any, error) { return obj, nil }))
	for want, f := range map[string]func(){
		"clientgo: Use: the factory has an informer of *v1.Pod already": func() { clientgo.Use(asked, pods) },
		"clientgo: Use: the factory has a transform":                    func() { clientgo.Use(transforming, pods) },
		"clientgo: Use: nil collection": func() {
			clientgo.Use[*corev1.Pod](informers.NewSharedInformerFactory(clientset, 0), nil)
		},
	} {
		func() {
			defer func() {
				if got, _ := recover().(string); !strings.HasPrefix(got, want) {
					t.Errorf("panic %q, want %s", got, want)
				}
			}()
			f()
		}()
	}
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
		if err := one.AddIndexers(cache.Indexers{"x": byLabels}); err != nil {
			t.Error(err)
		}
		if err := two.AddIndexers(cache.Indexers{"x": cache.MetaNamespaceIndexFunc}); err != nil {
			t.Errorf("the indexes of one adapter are not its own: %v", err)
		}
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
// read a union of two namespaces. Its store refuses writes, and Run waits for the owner of the graph.
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
		if objs, err := inf.GetIndexer().ByIndex("labels", "x"); err != nil || len(objs) != 1 {
			t.Errorf("by label: %v, %v", objs, err)
		}
		if list, err := factory.Core().V1().Pods().Lister().Pods("ns").List(labels.Everything()); err != nil || len(list) != 1 {
			t.Errorf("the lister has %v, %v", list, err)
		}
		store := inf.GetStore()
		for what, err := range map[string]error{
			"Add": store.Add(labelled("c")), "Delete": store.Delete(labelled("a")), "Replace": store.Replace([]any{labelled("c")}, "9"),
		} {
			if !errors.Is(err, errors.ErrUnsupported) {
				t.Errorf("%s of a derived store: %v", what, err)
			}
		}
		if keys := store.ListKeys(); len(keys) != 1 || keys[0] != "ns/a" {
			t.Errorf("the store has %v", keys)
		}
		if s, ok := clientgo.Status(clientgo.SharedIndexInformer(union)); !ok || !s.Synced || s.Phase != "watching" {
			t.Errorf("status %+v, %t", s, ok)
		}
		cancel()
		factory.Shutdown()
		synctest.Wait()
		if !inf.IsStopped() {
			t.Error("not stopped with the graph")
		}
	})
}
