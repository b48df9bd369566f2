package clientgo_test

import (
	"context"
	"errors"
	"runtime"
	"strings"
	"testing"
	"testing/synctest"
	"time"
	"weak"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/tools/cache"

	"github.com/go-lw/lw/clientgo"
	"github.com/go-lw/lw/internal/rig"
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

// The periods at which a handler gets its resyncs, by the period of the informer, of the handler,
// and whether it is added late. -1: it asks for none. A lent informer has no period of its own: it
// gives each handler what it asks for.
func TestResync(t *testing.T) {
	const s = time.Second
	for name, tc := range map[string]struct {
		informer, handler time.Duration
		late              bool
		other             time.Duration // of another handler, from the beginning; 0: there is none
		want, lent        time.Duration
	}{
		"of the informer":                   {informer: 5 * s, handler: -1, want: 5 * s},
		"of the handler":                    {informer: 5 * s, handler: 10 * s, want: 10 * s, lent: 10 * s},
		"shorter than the informer's":       {informer: 5 * s, handler: 2 * s, want: 2 * s, lent: 2 * s},
		"shorter, but late":                 {informer: 5 * s, handler: 2 * s, late: true, want: 5 * s, lent: 2 * s},
		"late, but another one is as short": {informer: 5 * s, handler: 2 * s, late: true, other: 2 * s, want: 2 * s, lent: 2 * s},
		"less than a second":                {informer: 5 * s, handler: 10 * time.Millisecond, want: s, lent: s},
		"none":                              {informer: 5 * s, handler: 0},
		"an informer that does not":         {informer: 0, handler: 5 * s, lent: 5 * s},
		"an informer below a second":        {informer: s / 2, handler: -1, want: s},
		"of the informer, late":             {informer: 5 * s, handler: -1, late: true, want: 5 * s},
		"an informer that does not, late":   {informer: 0, handler: 5 * s, late: true, lent: 5 * s},
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
				if tc.other > 0 {
					mustAdd(t, inf, &calls{}, tc.other)
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
		rig.Sleep(5 * time.Minute)
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

// A transform is set until Run, and sees every object once, from the first list on. Its result may
// be of another type.
func TestSetTransform(t *testing.T) {
	overAll(t, func(t *testing.T, impl implementation, server *podMemory) {
		inf := impl.new(server, cache.SharedIndexInformerOptions{})
		if impl.lent {
			err := inf.SetTransform(func(obj any) (any, error) { return obj, nil })
			if err == nil || !strings.Contains(err.Error(), "lw.Transform") {
				t.Errorf("error %v", err)
			}
			if err := inf.SetTransform(nil); err != nil {
				t.Errorf("no transform: %v", err)
			}
			return
		}
		server.create(t, labelled("a", "v=1"))
		var seen []string
		for _, f := range []cache.TransformFunc{
			func(any) (any, error) { return nil, errors.New("replaced before Run") },
			func(obj any) (any, error) {
				p, ok := obj.(*corev1.Pod)
				if !ok && impl.clientgo {
					return obj, nil // client-go transforms a streamed object twice
				}
				seen = append(seen, describe(obj))
				return &metav1.PartialObjectMetadata{ObjectMeta: metav1.ObjectMeta{Name: p.Name, Namespace: p.Namespace, UID: p.UID, ResourceVersion: p.ResourceVersion}}, nil
			},
		} {
			rig.OK(t, inf.SetTransform(f))
		}
		var got calls
		mustAdd(t, inf, &got)
		runInformer(t, inf)
		synctest.Wait()
		if err := inf.SetTransform(nil); err == nil || !strings.HasSuffix(err.Error(), "informer has already started") {
			t.Errorf("after Run: %v", err)
		}
		server.create(t, labelled("b", "v=1"))
		got.want(t, "all", "add *v1.PartialObjectMetadata initial", "add *v1.PartialObjectMetadata")
		rig.Same(t, "the transform saw", []string{"a1", "b1"}, seen)
		rig.Same(t, "the store has", []string{"a", "b"}, names(inf.GetStore().List()))
	})
}

// What a transform leaves out is not there, and what it cannot do is reported; neither hides the
// other objects. With client-go they do: see TestTransformNilOfClientGo.
func TestTransformLeavesOut(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		errs := handleErrors(t)
		server := newPodMemory(labelled("a"), labelled("b"), labelled("nil"), labelled("typed-nil"), labelled("fails"), labelled("fails-whole"), labelled("no-object"))
		inf := clientgo.NewInformer(server, &corev1.Pod{}, 0, nil)
		rig.OK(t, inf.SetTransform(func(obj any) (any, error) {
			switch p := obj.(*corev1.Pod); p.Name {
			case "nil":
				return nil, nil
			case "typed-nil":
				return (*corev1.Pod)(nil), nil
			case "fails":
				return nil, errors.New("it is broken")
			case "fails-whole":
				return p, errors.New("it is broken")
			case "no-object":
				return "a string", nil
			default:
				return p, nil
			}
		}))
		stop := runInformer(t, inf)
		synctest.Wait()
		if diff := cmp.Diff([]string{"a", "b"}, names(inf.GetStore().List())); diff != "" || !inf.HasSynced() {
			t.Errorf("the store has (-want +got):\n%s", diff)
		}
		stop()
		errs.want(t, "lw: Pod: transform ns/fails-whole: it is broken", "lw: Pod: transform ns/fails: it is broken", "lw: Pod: transform ns/no-object: the transform returned a string, which has no metadata")
	})
}

// What docs/migrate.md says of client-go: one object that a transform leaves out hides all others,
// and it counts as synced.
func TestTransformNilOfClientGo(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		inf := cache.NewSharedIndexInformer(newPodMemory(labelled("a"), labelled("nil")), &corev1.Pod{}, 0, nil)
		rig.OK(t, inf.SetTransform(func(obj any) (any, error) {
			if p, ok := obj.(*corev1.Pod); ok && p.Name == "nil" {
				return nil, nil
			}
			return obj, nil
		}))
		runInformer(t, inf)
		time.Sleep(time.Hour)
		if got := inf.GetStore().ListKeys(); len(got) != 0 || !inf.HasSynced() {
			t.Errorf("it has synced: %t, with %q: say so in docs/migrate.md", inf.HasSynced(), got)
		}
	})
}
