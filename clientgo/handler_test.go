package clientgo_test

import (
	"bytes"
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

	"github.com/go-lw/lw/clientgo"
	"github.com/go-lw/lw/internal/rig"
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
			if err := shutDownHandler(inf, unstarted); err != nil {
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
			rig.OK(t, inf.RemoveEventHandler(reg))
		}
		rig.OK(t, shutDownHandler(inf, reg))
		server.create(t, labelled("d"))
		stays.want(t, "others go on", "add c", "add d")
		goes.want(t, "a removed handler")
		never.want(t, "a handler removed before Run")
		if err := inf.RemoveEventHandler(nil); err == nil {
			t.Error("no error for a nil handle")
		}
	})
}

// With ReallyCrash false a panic is logged with its line, the handler pauses for a second, and goes
// on. Others notice nothing.
func TestHandlerPanics(t *testing.T) {
	rig.Swap(t, &utilruntime.ReallyCrash, false)
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
		reg := rig.Must[cache.ResourceEventHandlerRegistration](t)(inf.AddEventHandlerWithOptions(cache.ResourceEventHandlerFuncs{
			AddFunc: crash, UpdateFunc: func(_, obj any) { crash(obj) }, DeleteFunc: crash,
		}, cache.HandlerOptions{Logger: &logger}))
		mustAdd(t, inf, &others)
		stop := runInformer(t, inf)
		synctest.Wait()
		server.create(t, labelled("a"))
		server.update(t, labelled("a", "v=2"))
		server.delete(t, "a")
		server.create(t, labelled("b"))
		others.want(t, "another handler", "add a", "update a2 from a", "delete a2", "add b")
		rig.Sleep(3500 * time.Millisecond)
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

// A handler that is removed while it pauses after a panic is not called again, whatever waits for
// it, and its pause is over.
func TestRemoveEventHandlerAfterAPanic(t *testing.T) {
	rig.Swap(t, &utilruntime.ReallyCrash, false)
	handleErrors(t)
	for name, next := range map[string]func(*testing.T, *podMemory){
		"add":    func(t *testing.T, server *podMemory) { server.create(t, labelled("b")) },
		"update": func(t *testing.T, server *podMemory) { server.update(t, labelled("a", "v=2")) },
		"delete": func(t *testing.T, server *podMemory) { server.delete(t, "a") },
	} {
		rig.Subtest(t, name, func(t *testing.T) {
			server := newPodMemory(labelled("a"))
			inf := clientgo.NewInformer(server, &corev1.Pod{}, 0, nil)
			var got calls
			crash := func(any) { got.note("call"); panic("of the handler") }
			reg := mustAdd(t, inf, cache.ResourceEventHandlerFuncs{AddFunc: crash, UpdateFunc: func(_, obj any) { crash(obj) }, DeleteFunc: crash})
			runInformer(t, inf)
			synctest.Wait()
			next(t, server)
			synctest.Wait()
			time.Sleep(500 * time.Millisecond)
			removed := time.Now()
			rig.OK(t, inf.RemoveEventHandler(reg))
			<-reg.(interface{ ShutdownChan() <-chan struct{} }).ShutdownChan()
			if took := time.Since(removed); took > 0 {
				t.Errorf("the pause goes on for %v", took)
			}
			time.Sleep(time.Minute)
			got.want(t, "calls", "call")
		})
	}
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
