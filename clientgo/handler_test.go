package clientgo_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	corev1 "k8s.io/api/core/v1"
	utilruntime "k8s.io/apimachinery/pkg/util/runtime"
	"k8s.io/client-go/tools/cache"
	"k8s.io/klog/v2"
	"k8s.io/klog/v2/textlogger"
)

// A handler is told of the first list, of each change and of what a relist shows, and a late one of
// the store and of the changes after it.
func TestHandlerCalls(t *testing.T) {
	overAll(t, func(t *testing.T, impl implementation, server *podMemory) {
		server.create(t, labelled("a", "v=1"), labelled("b", "v=1"))
		inf := impl.new(server, cache.SharedIndexInformerOptions{})
		var early, late calls
		reg := mustAdd(t, inf, &early)
		early.want(t, "before Run")
		if inf.HasSynced() || reg.HasSynced() {
			t.Error("synced before Run")
		}
		runInformer(t, inf)
		early.want(t, "the first list", "add a1 initial", "add b1 initial")
		if !inf.HasSynced() || !reg.HasSynced() {
			t.Error("not synced after the first list")
		}
		server.create(t, labelled("c", "v=1"))
		server.update(t, labelled("a", "v=2"))
		server.delete(t, "b")
		early.want(t, "the watch", "add c1", "update a2 from a1", "delete b1")
		lateReg := mustAdd(t, inf, &late)
		late.want(t, "a late handler", "add a2 initial", "add c1 initial")
		if !lateReg.HasSynced() {
			t.Error("the late handler has not synced")
		}
		server.create(t, labelled("d", "v=1"))
		early.want(t, "the watch, early", "add d1")
		late.want(t, "the watch, late", "add d1")

		// An outage in which all history is lost.
		server.Fail(errors.New("down"))
		server.update(t, labelled("a", "v=3"))
		server.delete(t, "c")
		server.delete(t, "d")
		server.create(t, labelled("d", "v=2"))
		server.Compact()
		server.Fail(nil)
		time.Sleep(time.Minute)
		if impl.clientgo {
			late.want(t, "a relist", "update a3 from a2", "delete tombstone c1", "update d2 from d1")
		} else {
			late.want(t, "a relist", "update a3 from a2", "delete c1", "delete d1", "add d2")
		}
	})
}

// A handler is removed once and for all: by its handle, from within, twice. A handle of another
// informer removes nothing.
func TestRemoveEventHandler(t *testing.T) {
	overAll(t, func(t *testing.T, impl implementation, server *podMemory) {
		inf, other := impl.new(server, cache.SharedIndexInformerOptions{}), impl.new(server, cache.SharedIndexInformerOptions{})
		var stays, goes, within, never calls
		mustAdd(t, inf, &stays)
		reg := mustAdd(t, inf, &goes)
		var self cache.ResourceEventHandlerRegistration
		self = mustAdd(t, inf, cache.ResourceEventHandlerFuncs{AddFunc: func(obj any) {
			within.OnAdd(obj, false)
			if err := inf.RemoveEventHandler(self); err != nil {
				t.Error(err)
			}
		}})
		unstarted := mustAdd(t, inf, &never)
		for range 2 {
			if err := cache.ShutDownEventHandler(inf, unstarted); err != nil {
				t.Errorf("before Run: %v", err)
			}
		}
		runInformer(t, inf)
		synctest.Wait()
		server.create(t, labelled("a"), labelled("b"))
		stays.want(t, "a", "add a", "add b")
		goes.want(t, "a", "add a", "add b")
		if impl.clientgo {
			within.take() // what was queued may still come
		} else {
			within.want(t, "a handler that removed itself", "add a")
		}
		if err := other.RemoveEventHandler(reg); err != nil {
			t.Errorf("foreign handle: %v", err)
		}
		server.create(t, labelled("c"))
		goes.want(t, "after a foreign informer was to remove it", "add c")
		within.want(t, "a handler that removed itself")
		for range 2 {
			if err := inf.RemoveEventHandler(reg); err != nil {
				t.Error(err)
			}
		}
		if err := cache.ShutDownEventHandler(inf, reg); err != nil {
			t.Error(err)
		}
		server.create(t, labelled("d"))
		stays.want(t, "others go on", "add c", "add d")
		goes.want(t, "a removed handler")
		never.want(t, "a handler removed before Run")
		if err := inf.RemoveEventHandler(nil); err == nil {
			t.Error("no error for a nil handle")
		}
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
		if err := cache.ShutDownEventHandler(inf, reg); err != nil {
			t.Errorf("ShutDownEventHandler: %v", err)
		}
		if got := names(inf.GetStore().List()); len(got) != 1 {
			t.Errorf("the store of a stopped informer has %v", got)
		}
		inf.RunWithContext(context.Background())
	})
}

// With ReallyCrash false a panic is logged with its line, the handler pauses for a second, and goes
// on. Others notice nothing.
func TestHandlerPanics(t *testing.T) {
	defer func(before bool) { utilruntime.ReallyCrash = before }(utilruntime.ReallyCrash)
	utilruntime.ReallyCrash = false
	overAll(t, func(t *testing.T, impl implementation, server *podMemory) {
		inf := impl.new(server, cache.SharedIndexInformerOptions{})
		var log logBuffer
		logger := klog.LoggerWithName(textlogger.NewLogger(textlogger.NewConfig(textlogger.Output(&log))), "the-handler")
		var others calls
		var when []time.Duration
		began := time.Now()
		crash := func(any) {
			when = append(when, time.Since(began))
			panic("no " + fmt.Sprint(len(when)))
		}
		reg, err := inf.AddEventHandlerWithOptions(cache.ResourceEventHandlerFuncs{
			AddFunc: crash, UpdateFunc: func(_, obj any) { crash(obj) }, DeleteFunc: crash,
		}, cache.HandlerOptions{Logger: &logger})
		if err != nil {
			t.Fatal(err)
		}
		mustAdd(t, inf, &others)
		stop := runInformer(t, inf)
		synctest.Wait()
		server.create(t, labelled("a"))
		server.update(t, labelled("a", "v=2"))
		server.delete(t, "a")
		server.create(t, labelled("b"))
		others.want(t, "another handler", "add a", "update a2 from a", "delete a2", "add b")
		time.Sleep(3500 * time.Millisecond)
		synctest.Wait()
		if got := fmt.Sprint(when); got != "[0s 1s 2s 3s]" {
			t.Errorf("the handler was called at %v", got)
		}
		for i := range 4 {
			want := fmt.Sprintf(`"Observed a panic" logger="the-handler" panic="no %d"`, i+1)
			if n := strings.Count(log.String(), want); n != 1 {
				t.Errorf("%d times %s in the log:\n%s", n, want, log.String())
			}
		}
		if want := "handler_test.go:"; strings.Count(log.String(), want) < 4 {
			t.Errorf("the log does not name the lines of %s:\n%s", want, log.String())
		}
		if !reg.HasSynced() {
			t.Error("not synced")
		}
		// A pause ends with the informer, unless it is client-go's.
		server.create(t, labelled("c"))
		synctest.Wait()
		server.create(t, labelled("d"))
		synctest.Wait()
		before := time.Now()
		stop()
		if took := time.Since(before); !impl.clientgo && took > 0 {
			t.Errorf("stopped after %v", took)
		}
	})
}

type logBuffer struct {
	mu sync.Mutex
	b  bytes.Buffer
}

func (l *logBuffer) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.b.Write(p)
}

func (l *logBuffer) String() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.b.String()
}

// The periods at which a handler gets its resyncs, by the period of the informer, of the handler,
// and whether it is added late. -1: it asks for none. A lent informer has no period of its own: it
// gives each handler what it asks for.
func TestResync(t *testing.T) {
	const s = time.Second
	for name, tc := range map[string]struct {
		informer, handler time.Duration
		late              bool
		want, lent        time.Duration
	}{
		"of the informer":                 {informer: 5 * s, handler: -1, want: 5 * s},
		"of the handler":                  {informer: 5 * s, handler: 10 * s, want: 10 * s, lent: 10 * s},
		"shorter than the informer's":     {informer: 5 * s, handler: 2 * s, want: 2 * s, lent: 2 * s},
		"shorter, but late":               {informer: 5 * s, handler: 2 * s, late: true, want: 5 * s, lent: 2 * s},
		"less than a second":              {informer: 5 * s, handler: 10 * time.Millisecond, want: s, lent: s},
		"none":                            {informer: 5 * s, handler: 0},
		"an informer that does not":       {informer: 0, handler: 5 * s, lent: 5 * s},
		"an informer below a second":      {informer: s / 2, handler: -1, want: s},
		"of the informer, late":           {informer: 5 * s, handler: -1, late: true, want: 5 * s},
		"an informer that does not, late": {informer: 0, handler: 5 * s, late: true, lent: 5 * s},
	} {
		t.Run(name, func(t *testing.T) {
			overAll(t, func(t *testing.T, impl implementation, server *podMemory) {
				server.create(t, labelled("a"))
				inf := impl.new(server, cache.SharedIndexInformerOptions{ResyncPeriod: tc.informer})
				var got calls
				var resync []time.Duration
				if tc.handler >= 0 {
					resync = append(resync, tc.handler)
				}
				if !tc.late {
					mustAdd(t, inf, &got, resync...)
				}
				runInformer(t, inf)
				synctest.Wait()
				if tc.late {
					mustAdd(t, inf, &got, resync...)
				}
				got.want(t, "the first list", "add a initial")
				want := tc.want
				if impl.lent {
					want = tc.lent
				}
				var lines []string
				if want > 0 {
					for range 60 * s / want {
						lines = append(lines, "update a from a")
					}
				}
				time.Sleep(60*s + s/4)
				got.want(t, "a minute", lines...)
			})
		})
	}
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
