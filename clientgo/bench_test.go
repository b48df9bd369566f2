package clientgo_test

import (
	"context"
	"fmt"
	"slices"
	"sync"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/tools/cache"
)

// seeded returns an informer whose store has n pods on 100 nodes, and an index by node.
func seeded(b *testing.B, impl implementation, n int) cache.Indexer {
	x := impl.new(newPodMemory(), cache.SharedIndexInformerOptions{Indexers: cache.Indexers{
		cache.NamespaceIndex: cache.MetaNamespaceIndexFunc,
		"node":               func(obj any) ([]string, error) { return []string{obj.(*corev1.Pod).Spec.NodeName}, nil },
	}}).GetIndexer()
	for i := range n {
		p := labelled(fmt.Sprint("pod-", i))
		p.Spec.NodeName = fmt.Sprint("node-", i%100)
		if err := x.Add(p); err != nil {
			b.Fatal(err)
		}
	}
	return x
}

func benchmarkAll(b *testing.B, bench func(b *testing.B, impl implementation)) {
	for _, name := range []string{"client-go", "NewInformer", "SharedIndexInformer"} {
		b.Run(name, func(b *testing.B) { b.ReportAllocs(); bench(b, implementations[name]) })
	}
}

func BenchmarkList(b *testing.B) {
	benchmarkAll(b, func(b *testing.B, impl implementation) {
		x := seeded(b, impl, 10000)
		for b.Loop() {
			if len(x.List()) != 10000 {
				b.Fatal("not all")
			}
		}
	})
}

func BenchmarkByIndex(b *testing.B) {
	benchmarkAll(b, func(b *testing.B, impl implementation) {
		x := seeded(b, impl, 10000)
		for b.Loop() {
			if objs, err := x.ByIndex("node", "node-7"); err != nil || len(objs) != 100 {
				b.Fatal(len(objs), err)
			}
		}
	})
}

func BenchmarkGetByKey(b *testing.B) {
	benchmarkAll(b, func(b *testing.B, impl implementation) {
		x := seeded(b, impl, 10000)
		for b.Loop() {
			if _, ok, _ := x.GetByKey("ns/pod-77"); !ok {
				b.Fatal("not there")
			}
		}
	})
}

func BenchmarkUpdate(b *testing.B) {
	benchmarkAll(b, func(b *testing.B, impl implementation) {
		x := seeded(b, impl, 10000)
		p := labelled("pod-77")
		p.Spec.NodeName = "node-77"
		for b.Loop() {
			if err := x.Update(p); err != nil {
				b.Fatal(err)
			}
		}
	})
}

// BenchmarkEvents measures an event from the ListerWatcher to three handlers. The objects are there
// already: nothing is decoded or copied.
func BenchmarkEvents(b *testing.B) {
	benchmarkAll(b, func(b *testing.B, impl implementation) {
		const pods, handlers = 1000, 3
		events := make(chan watch.Event, 100)
		list := &corev1.PodList{ListMeta: metav1.ListMeta{ResourceVersion: "1"}}
		for i := range pods {
			list.Items = append(list.Items, *labelled(fmt.Sprint("pod-", i)))
			list.Items[i].ResourceVersion = "1"
		}
		inf := impl.new(&cache.ListWatch{
			ListWithContextFunc: func(context.Context, metav1.ListOptions) (runtime.Object, error) { return list, nil },
			WatchFuncWithContext: func(_ context.Context, opts metav1.ListOptions) (watch.Interface, error) {
				if opts.SendInitialEvents != nil {
					return nil, fmt.Errorf("no streams")
				}
				return watch.NewProxyWatcher(events), nil
			},
		}, cache.SharedIndexInformerOptions{})
		var handled sync.WaitGroup
		handled.Add(handlers * pods)
		for range handlers {
			mustAdd(b, inf, cache.ResourceEventHandlerFuncs{
				AddFunc: func(any) { handled.Done() }, UpdateFunc: func(_, _ any) { handled.Done() },
			})
		}
		runInformer(b, inf)
		handled.Wait()
		n := 0
		b.ResetTimer()
		for i := range slices.Chunk(make([]struct{}, b.N), 100) {
			// A handler that falls far behind would get fewer calls from lw.
			handled.Add(handlers * len(i))
			for range i {
				p := list.Items[n%pods].DeepCopy()
				p.ResourceVersion = fmt.Sprint(n + 2)
				n++
				events <- watch.Event{Type: watch.Modified, Object: p}
			}
			handled.Wait()
		}
	})
}
