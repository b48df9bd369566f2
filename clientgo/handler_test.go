package clientgo_test

import (
	"bytes"
	"errors"
	"fmt"
	"iter"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	utilruntime "k8s.io/apimachinery/pkg/util/runtime"
	"k8s.io/client-go/tools/cache"
	"k8s.io/client-go/util/workqueue"
	"k8s.io/klog/v2"
	"k8s.io/klog/v2/textlogger"

	"github.com/go-lw/lw"
	"github.com/go-lw/lw/clientgo"
	"github.com/go-lw/lw/internal/verify/rig"
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
		rig.Same(t, "synced before Run", false, inf.HasSynced() || reg.HasSynced())
		runInformer(t, inf)
		early.want(t, "the first list", "add a1 initial", "add b1 initial")
		rig.Same(t, "synced after the first list", true, inf.HasSynced() && reg.HasSynced())
		server.create(t, labelled("c", "v=1"))
		server.update(t, labelled("a", "v=2"))
		server.delete(t, "b")
		early.want(t, "the watch", "add c1", "update a2 from a1", "delete b1")
		lateReg := mustAdd(t, inf, &late)
		late.want(t, "a late handler", "add a2 initial", "add c1 initial")
		rig.Same(t, "the late handler has synced", true, lateReg.HasSynced())
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

// A deletion has a version of its own, which a program that has deleted the object may wait for. What
// the handler was called with before is not changed by it.
func TestVersionOfDeletion(t *testing.T) {
	overAll(t, func(t *testing.T, impl implementation, server *podMemory) {
		server.create(t, labelled("a"), labelled("b"))
		inf := impl.new(server, cache.SharedIndexInformerOptions{})
		var got []string
		var added *corev1.Pod
		mustAdd(t, inf, cache.ResourceEventHandlerFuncs{
			AddFunc: func(obj any) {
				if p := obj.(*corev1.Pod); p.Name == "b" {
					added = p
				}
			},
			DeleteFunc: func(obj any) { got = append(got, obj.(*corev1.Pod).Name+" "+obj.(*corev1.Pod).ResourceVersion) },
		})
		runInformer(t, inf)
		synctest.Wait()
		before := added.ResourceVersion
		for _, name := range []string{"b", "a"} {
			server.delete(t, name)
			synctest.Wait()
		}
		rig.Same(t, "deletions", []string{"b 4", "a 5"}, got)
		rig.Same(t, "the version that was added", before, added.ResourceVersion)
	})
}

// A handler is removed once and for all: by its handle, from within, twice. A handle of another
// informer removes nothing.
func TestRemoveEventHandler(t *testing.T) {
	overAll(t, func(t *testing.T, impl implementation, server *podMemory) {
		inf, other := impl.new(server, cache.SharedIndexInformerOptions{}),
			impl.new(server, cache.SharedIndexInformerOptions{})
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
			rig.OK(t, shutDownHandler(inf, unstarted))
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
		rig.OK(t, other.RemoveEventHandler(reg))
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
		fails(t, inf.RemoveEventHandler(nil), "")
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
		rig.Same(t, "the handler was called at", "[0s 1s 2s 3s]", fmt.Sprint(when))
		for i := range 4 {
			want := fmt.Sprintf(`"Observed a panic" logger="the-handler" panic="no %d"`, i+1)
			rig.Same(t, want+" in the log", 1, strings.Count(log.String(), want))
		}
		if want := "handler_test.go:"; strings.Count(log.String(), want) < 4 {
			t.Errorf("the log does not name the lines of %s:\n%s", want, log.String())
		}
		rig.Same(t, "synced", true, reg.HasSynced())
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
			reg := mustAdd(t, inf, cache.ResourceEventHandlerFuncs{AddFunc: crash, UpdateFunc: func(_, obj any) { crash(obj) },
				DeleteFunc: crash})
			runInformer(t, inf)
			synctest.Wait()
			next(t, server)
			time.Sleep(500 * time.Millisecond)
			removed := time.Now()
			rig.OK(t, inf.RemoveEventHandler(reg))
			<-reg.(interface{ ShutdownChan() <-chan struct{} }).ShutdownChan()
			rig.Same(t, "the pause goes on for", 0, time.Since(removed))
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

func owned(p *corev1.Pod, apiVersion, kind, name string, controller bool) *corev1.Pod {
	p = p.DeepCopy()
	p.OwnerReferences = append(p.OwnerReferences, metav1.OwnerReference{APIVersion: apiVersion, Kind: kind, Name: name,
		UID: "uid", Controller: &controller})
	return p
}

// Each handler adds its keys for what is there, for what is added, changed and deleted; those of
// the old and of the new object.
func TestEnqueue(t *testing.T) {
	type handlerOf = func(clientgo.Queue[lw.Key]) lw.Handler[*corev1.Pod]
	owners := func(kind schema.GroupKind) handlerOf {
		return func(q clientgo.Queue[lw.Key]) lw.Handler[*corev1.Pod] {
			return clientgo.EnqueueOwner[*corev1.Pod](q, kind)
		}
	}
	replicaSets := owners(schema.GroupKind{Group: "apps", Kind: "ReplicaSet"})
	nodes := owners(schema.GroupKind{Kind: "Node"})
	byLabels := func(q clientgo.Queue[lw.Key]) lw.Handler[*corev1.Pod] {
		return clientgo.EnqueueMapped(q, func(p *corev1.Pod) iter.Seq[lw.Key] {
			if len(p.Labels) == 0 {
				return nil
			}
			return func(yield func(lw.Key) bool) {
				for k, v := range p.Labels {
					if !yield(lw.Key{Namespace: "ns", Name: k + v}) {
						return
					}
				}
			}
		})
	}
	plain := labelled("a")
	const apps = "apps/v1"
	for name, tc := range map[string]struct {
		handler handlerOf
		pods    []*corev1.Pod // the versions of one pod; nil: deleted
		want    string        // the keys of all versions, in order
	}{
		"keys": {clientgo.Enqueue[*corev1.Pod], []*corev1.Pod{plain, labelled("a", "v=1"), nil}, "ns/a ns/a ns/a"},
		"owners": {replicaSets, []*corev1.Pod{
			plain, owned(plain, apps, "ReplicaSet", "x", true), owned(plain, "apps/v2beta1", "ReplicaSet", "y", true), nil,
		}, "ns/x ns/x ns/y ns/y"},
		"no owners": {replicaSets, []*corev1.Pod{
			owned(plain, apps, "ReplicaSet", "x", false), owned(plain, "other/v1", "ReplicaSet", "x", true),
			owned(plain, apps, "Deployment", "x", true), owned(plain, "a/b/c", "ReplicaSet", "x", true), nil,
		}, ""},
		"no owners of a group without a name": {nodes, []*corev1.Pod{
			owned(plain, "v1", "Node", "x", true), owned(plain, "a/b/c", "Node", "y", true), nil,
		}, "ns/x ns/x"},
		"mapped": {byLabels, []*corev1.Pod{labelled("a", "x=1"), labelled("a", "x=2"), plain, nil},
			"ns/x1 ns/x1 ns/x2 ns/x2"},
	} {
		rig.Subtest(t, name, func(t *testing.T) {
			server := newPodMemory(tc.pods[0])
			queue := make(keys, 10)
			inf := lw.NewInformer[*corev1.Pod](server.Memory, strict(t))
			inf.AddHandler(tc.handler(queue))
			rig.Start(t, inf)
			for _, p := range tc.pods[1:] {
				synctest.Wait()
				if p == nil {
					server.delete(t, "a")
				} else {
					server.update(t, p)
				}
			}
			synctest.Wait()
			close(queue)
			var got []string
			for key := range queue {
				got = append(got, key.String())
			}
			rig.Same(t, "keys", tc.want, strings.Join(got, " "))
		})
	}
}

// A resync adds each key once.
func TestEnqueueResync(t *testing.T) {
	queue := make(keys, 10)
	p := owned(labelled("a", "x=1"), "apps/v1", "ReplicaSet", "set", true)
	clientgo.Enqueue[*corev1.Pod](queue).Update(p, p)
	clientgo.EnqueueOwner[*corev1.Pod](queue, schema.GroupKind{Group: "apps", Kind: "ReplicaSet"}).Update(p, p)
	rig.Same(t, "keys", 2, len(queue))
}

// That this compiles is the test: the queues of client-go fit, whatever their items are.
var (
	_ = func(q workqueue.TypedRateLimitingInterface[lw.Key]) lw.Handler[*appsv1.Deployment] {
		return clientgo.Enqueue[*appsv1.Deployment](q)
	}
	_ = func(q workqueue.TypedInterface[string]) lw.Handler[*corev1.Pod] {
		return clientgo.EnqueueMapped(q, func(p *corev1.Pod) iter.Seq[string] {
			return func(yield func(string) bool) { yield(p.Spec.NodeName) }
		})
	}
)
