package clientgo_test

import (
	"runtime"
	"testing"
	"testing/synctest"
	"time"
	"weak"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/client-go/tools/cache"

	"github.com/go-lw/lw/clientgo"
)

// An informer keeps no object that is not there any more, nor a version before the last: not in its
// indexes, and for no handler.
func TestNoObjectIsKept(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		server := newPodMemory(labelled("first"))
		inf := clientgo.NewInformer(server, &corev1.Pod{}, time.Minute, cache.Indexers{
			cache.NamespaceIndex: cache.MetaNamespaceIndexFunc, "labels": byLabels,
		})
		handler := cache.ResourceEventHandlerFuncs{AddFunc: func(any) {}, UpdateFunc: func(_, _ any) {}, DeleteFunc: func(any) {}}
		mustAdd(t, inf, handler)
		mustAdd(t, inf, handler)
		runInformer(t, inf)
		synctest.Wait()
		server.create(t, labelled("a", "v=1"), labelled("b", "v=1"), labelled("c", "v=1"))
		synctest.Wait()
		weakly := func(name string) weak.Pointer[corev1.Pod] {
			obj, ok, err := inf.GetStore().GetByKey("ns/" + name)
			if !ok || err != nil {
				t.Fatalf("no %s: %v", name, err)
			}
			return weak.Make(obj.(*corev1.Pod))
		}
		gone := map[string]weak.Pointer[corev1.Pod]{"the deleted one": weakly("a"), "the version before": weakly("b")}
		kept := weakly("c")
		server.delete(t, "a")
		server.update(t, labelled("b", "v=2"))
		server.create(t, labelled("last")) // the last event is that of another object
		time.Sleep(5 * time.Minute)
		synctest.Wait()
		for range 3 {
			runtime.GC()
		}
		for what, obj := range gone {
			if obj.Value() != nil {
				t.Errorf("%s is kept", what)
			}
		}
		if got := kept.Value(); got == nil || got.Name != "c" {
			t.Errorf("the store has lost an object: %v", got)
		}
		runtime.KeepAlive(inf)
	})
}
