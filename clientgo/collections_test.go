package clientgo_test

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/client-go/informers"
	"k8s.io/client-go/kubernetes/fake"
	"k8s.io/client-go/tools/cache"

	"github.com/go-lw/lw"
	"github.com/go-lw/lw/clientgo"
	"github.com/go-lw/lw/internal/rig"
)

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
