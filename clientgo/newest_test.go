//go:build newest

package clientgo_test

import (
	"testing"
	"testing/synctest"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/client-go/tools/cache"
)

// What client-go has since v0.37: CI runs the tests with the tag newest and the newest client-go.

// publishesVersions: the provider of the process gets the versions of stores.
const publishesVersions = true

func shutDownHandler(inf cache.SharedInformer, reg cache.ResourceEventHandlerRegistration) error {
	return cache.ShutDownEventHandler(inf, reg)
}

func typedView(inf cache.SharedIndexInformer) cache.SharedIndexInformer {
	return cache.NewTypedSharedIndexInformer[*corev1.Pod](inf)
}

// The typed view that client-go's generated code has of an informer.
func TestTyped(t *testing.T) {
	overAll(t, func(t *testing.T, impl implementation, server *podMemory) {
		server.create(t, labelled("a"))
		inf := cache.NewTypedSharedIndexInformer[*corev1.Pod](impl.new(server, cache.SharedIndexInformerOptions{}))
		var got calls
		if err := inf.AddTypedIndexers(cache.TypedIndexers[*corev1.Pod]{"name": func(p *corev1.Pod) ([]string, error) { return []string{p.Name}, nil }}); err != nil {
			t.Fatal(err)
		}
		if _, err := inf.AddTypedEventHandler(cache.TypedResourceEventHandlerDetailedFuncs[*corev1.Pod]{
			AddFunc:    func(p *corev1.Pod, initial bool) { got.OnAdd(p, initial) },
			DeleteFunc: func(d cache.DeletedObject[*corev1.Pod]) { got.note("delete %s", d.GetKey()) },
		}); err != nil {
			t.Fatal(err)
		}
		runInformer(t, inf)
		got.want(t, "the first list", "add a initial")
		pods, err := inf.GetTypedIndexer().ByTypedIndex("name", "a")
		if err != nil || len(pods) != 1 || pods[0].Name != "a" {
			t.Errorf("by index: %v, %v", pods, err)
		}
		server.delete(t, "a")
		got.want(t, "a deletion", "delete ns/a")
	})
}

// cache.ShutDownEventHandler waits for the call that is running.
func TestShutDownEventHandler(t *testing.T) {
	overAll(t, func(t *testing.T, impl implementation, server *podMemory) {
		server.create(t, labelled("a"))
		inf := impl.new(server, cache.SharedIndexInformerOptions{})
		release := make(chan struct{})
		reg := mustAdd(t, inf, cache.ResourceEventHandlerFuncs{AddFunc: func(any) { <-release }})
		runInformer(t, inf)
		synctest.Wait()
		if reg.HasSynced() {
			t.Error("synced during the first call")
		}
		down := make(chan error, 1)
		go func() { down <- cache.ShutDownEventHandler(inf, reg) }()
		synctest.Wait()
		if len(down) > 0 {
			t.Error("shut down during a call")
		}
		close(release)
		if err := <-down; err != nil {
			t.Error(err)
		}
	})
}
