package clientgo_test

import (
	"context"
	"strings"
	"testing"

	"k8s.io/client-go/tools/cache"
)

// A stopped informer takes no handlers and no indexes; removing is no error.
func TestStopped(t *testing.T) {
	overAll(t, func(t *testing.T, impl implementation, server *podMemory) {
		server.create(t, labelled("a"))
		inf := impl.new(server, cache.SharedIndexInformerOptions{})
		var got calls
		reg := mustAdd(t, inf, &got)
		stop := runInformer(t, inf)
		got.want(t, "the first list", "add a initial")
		if inf.IsStopped() {
			t.Error("stopped before it is")
		}
		// A second Run returns at once.
		inf.RunWithContext(context.Background())
		inf.Run(nil)
		stop()
		if !inf.IsStopped() || !inf.HasSynced() || !reg.HasSynced() {
			t.Error("not stopped, or not synced any more")
		}
		_, err := inf.AddEventHandler(&got)
		if err == nil || !strings.HasSuffix(err.Error(), "was not added to shared informer because it has stopped already") {
			t.Errorf("AddEventHandler: %v", err)
		}
		if err := inf.AddIndexers(cache.Indexers{"x": cache.MetaNamespaceIndexFunc}); err == nil || !strings.HasSuffix(err.Error(), "indexer was not added because it has stopped already") {
			t.Errorf("AddIndexers: %v", err)
		}
		if err := inf.RemoveEventHandler(reg); err != nil {
			t.Errorf("RemoveEventHandler: %v", err)
		}
		if err := shutDownHandler(inf, reg); err != nil {
			t.Errorf("shutDownHandler: %v", err)
		}
		if got := names(inf.GetStore().List()); len(got) != 1 {
			t.Errorf("the store of a stopped informer has %v", got)
		}
		inf.RunWithContext(context.Background())
	})
}

// The names of what can be waited for.
func TestSyncedCheckers(t *testing.T) {
	overAll(t, func(t *testing.T, impl implementation, server *podMemory) {
		inf := impl.new(server, cache.SharedIndexInformerOptions{})
		reg := mustAdd(t, inf, &calls{})
		ofFuncs := mustAdd(t, inf, cache.ResourceEventHandlerFuncs{AddFunc: func(any) {}})
		if got, want := inf.HasSyncedChecker().Name(), "SharedIndexInformer *v1.Pod"; got != want {
			t.Errorf("name %q, want %q", got, want)
		}
		if got, want := reg.HasSyncedChecker().Name(), "SharedIndexInformer *v1.Pod + event handler "; !strings.HasPrefix(got, want) || !strings.HasSuffix(got, "calls") {
			t.Errorf("name %q, want %q and the type", got, want)
		}
		if got, want := ofFuncs.HasSyncedChecker().Name(), "clientgo_test.TestSyncedCheckers"; !strings.Contains(got, want) {
			t.Errorf("name %q, want %s in it", got, want)
		}
		checkers := []cache.DoneChecker{inf.HasSyncedChecker(), inf.GetController().HasSyncedChecker(), reg.HasSyncedChecker()}
		for _, c := range checkers {
			if cache.IsDone(c) {
				t.Errorf("%s is done before Run", c.Name())
			}
		}
		runInformer(t, inf)
		if !cache.WaitFor(t.Context(), "", checkers...) || !cache.WaitForCacheSync(nil, inf.HasSynced, reg.HasSynced, inf.GetController().HasSynced) {
			t.Error("not synced")
		}
	})
}
