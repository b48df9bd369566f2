package clientgo_test

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"runtime"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"
	"weak"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	kruntime "k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/tools/cache"
	fcache "k8s.io/client-go/tools/cache/testing"

	"github.com/go-lw/lw/clientgo"
	"github.com/go-lw/lw/internal/verify/rig"
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
		rig.Same(t, "stopped before it is", false, inf.IsStopped())
		// A second Run returns at once.
		inf.RunWithContext(context.Background())
		inf.Run(nil)
		stop()
		if !inf.IsStopped() || !inf.HasSynced() || !reg.HasSynced() {
			t.Error("not stopped, or not synced any more")
		}
		_, err := inf.AddEventHandler(&got)
		fails(t, err, "was not added to shared informer because it has stopped already$")
		err = inf.AddIndexers(cache.Indexers{"x": cache.MetaNamespaceIndexFunc})
		fails(t, err, "indexer was not added because it has stopped already$")
		rig.OK(t, inf.RemoveEventHandler(reg))
		rig.OK(t, shutDownHandler(inf, reg))
		rig.Same(t, "the store of a stopped informer has", []string{"a"}, names(inf.GetStore().List()))
		inf.RunWithContext(context.Background())
	})
}

// The names of what can be waited for.
func TestSyncedCheckers(t *testing.T) {
	overAll(t, func(t *testing.T, impl implementation, server *podMemory) {
		inf := impl.new(server, cache.SharedIndexInformerOptions{})
		reg := mustAdd(t, inf, &calls{})
		ofFuncs := mustAdd(t, inf, cache.ResourceEventHandlerFuncs{AddFunc: func(any) {}})
		rig.Same(t, "name", "SharedIndexInformer *v1.Pod", inf.HasSyncedChecker().Name())
		if got, want := reg.HasSyncedChecker().Name(), "SharedIndexInformer *v1.Pod + event handler "; !strings.HasPrefix(got, want) || !strings.HasSuffix(got, "calls") {
			t.Errorf("name %q, want %q and the type", got, want)
		}
		if got, want := ofFuncs.HasSyncedChecker().Name(), "clientgo_test.TestSyncedCheckers"; !strings.Contains(got, want) {
			t.Errorf("name %q, want %s in it", got, want)
		}
		checkers := []cache.DoneChecker{inf.HasSyncedChecker(), inf.GetController().HasSyncedChecker(), reg.HasSyncedChecker()}
		for _, c := range checkers {
			rig.Same(t, c.Name()+" is done before Run", false, cache.IsDone(c))
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
				if tc.late {
					runInformer(t, inf)
					synctest.Wait()
				}
				mustAdd(t, inf, &got, resync...)
				if !tc.late {
					runInformer(t, inf)
				}
				got.want(t, "the first list", "add a initial")
				want := tc.want
				if impl.lent {
					want = tc.lent
				}
				var lines []string
				if want > 0 {
					lines = slices.Repeat([]string{"update a from a"}, int(60*s/want))
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
			obj, _, err := inf.GetStore().GetByKey("ns/" + name)
			rig.OK(t, err)
			return weak.Make(obj.(*corev1.Pod)) // panics unless it is there
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
			rig.Same(t, what+" is kept", nil, obj.Value())
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
			fails(t, inf.SetTransform(func(obj any) (any, error) { return obj, nil }), "lw.Transform")
			rig.OK(t, inf.SetTransform(nil))
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
		fails(t, inf.SetTransform(nil), "informer has already started$")
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
		rig.Same(t, "the store has", []string{"a", "b"}, names(inf.GetStore().List()))
		rig.Same(t, "synced", true, inf.HasSynced())
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

// provider is an InformerMetricsProvider that keeps the last value of each gauge, and the number of
// observations.
type provider struct {
	mu     sync.Mutex
	values map[string]float64
}

func (p *provider) metric(name string, id cache.InformerNameAndResource) metric {
	return metric{p, fmt.Sprintf("%s of %s %s", name, id.Name(), id.GroupVersionResource().Resource)}
}

func (p *provider) NewQueuedItemMetric(id cache.InformerNameAndResource) cache.GaugeMetric {
	return p.metric("queued", id)
}

func (p *provider) NewProcessingLatencyMetric(id cache.InformerNameAndResource) cache.HistogramMetric {
	return p.metric("latency", id)
}

func (p *provider) NewStoreResourceVersionMetric(id cache.InformerNameAndResource) cache.GaugeMetric {
	return p.metric("version", id)
}

type metric struct {
	p    *provider
	name string
}

func (m metric) Set(v float64) {
	m.p.mu.Lock()
	defer m.p.mu.Unlock()
	m.p.values[m.name] = v
}

// Observe adds 1 for an observation of at least a second, as the handler of the test takes, and
// 1000 for a shorter one.
func (m metric) Observe(v float64) {
	m.p.mu.Lock()
	defer m.p.mu.Unlock()
	if v >= 1 {
		m.p.values[m.name]++
	} else {
		m.p.values[m.name] += 1000
	}
}

func (p *provider) want(t *testing.T, when string, want map[string]float64) {
	t.Helper()
	synctest.Wait()
	p.mu.Lock()
	defer p.mu.Unlock()
	rig.Same(t, when+": metrics", want, maps.Clone(p.values))
}

// An informer with an identifier publishes the version of its store, what waits for its handlers
// and how long they take.
func TestMetrics(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		name := rig.Must[*cache.InformerName](t)(cache.NewInformerName("the-informers"))
		defer name.Release()
		p := &provider{values: map[string]float64{}}
		server := newPodMemory(labelled("a"), labelled("b"))
		inf := clientgo.NewInformerWithOptions(server, &corev1.Pod{}, cache.SharedIndexInformerOptions{
			Identifier: name.WithResource(corev1.SchemeGroupVersion.WithResource("pods")), InformerMetricsProvider: p,
		})
		work := make(chan struct{})
		mustAdd(t, inf, cache.ResourceEventHandlerFuncs{AddFunc: func(any) { <-work },
			UpdateFunc: func(_, _ any) { time.Sleep(time.Second) }, DeleteFunc: func(any) { time.Sleep(time.Second) },
		})
		p.want(t, "before Run", map[string]float64{})
		stop := runInformer(t, inf)
		const version, queued, latency = "version of the-informers pods", "queued of the-informers pods", "latency of the-informers pods"
		p.want(t, "the first list", map[string]float64{version: 3, queued: 2})
		for range 2 {
			time.Sleep(time.Second)
			work <- struct{}{}
		}
		time.Sleep(2 * time.Second)
		p.want(t, "when all is done", map[string]float64{version: 3, queued: 0, latency: 2})
		server.update(t, labelled("a", "v=2"))
		server.delete(t, "b")
		time.Sleep(4 * time.Second)
		p.want(t, "two events", map[string]float64{version: 5, queued: 0, latency: 4})
		server.create(t, labelled("c"))
		time.Sleep(2 * time.Second)
		p.want(t, "a handler that works", map[string]float64{version: 6, queued: 1, latency: 4})
		close(work)
		server.update(t, labelled("c", "v=2"))
		stop()
		p.mu.Lock()
		defer p.mu.Unlock()
		if p.values[version] < 6 || p.values[queued] != 0 {
			t.Errorf("metrics after the stop: %v", p.values)
		}
	})
}

// An informer that never had a list publishes no version, also as it ends.
func TestMetricsWithoutAList(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		name := rig.Must[*cache.InformerName](t)(cache.NewInformerName("never-synced"))
		defer name.Release()
		p := &provider{values: map[string]float64{}}
		server := &cache.ListWatch{
			ListWithContextFunc:  func(context.Context, metav1.ListOptions) (kruntime.Object, error) { return nil, errors.New("not now") },
			WatchFuncWithContext: func(context.Context, metav1.ListOptions) (watch.Interface, error) { return nil, errors.New("not now") },
		}
		inf := clientgo.NewInformerWithOptions(server, &corev1.Pod{}, cache.SharedIndexInformerOptions{
			Identifier: name.WithResource(corev1.SchemeGroupVersion.WithResource("pods")), InformerMetricsProvider: p,
		})
		stop := runInformer(t, inf)
		time.Sleep(time.Minute)
		stop()
		p.want(t, "after the stop", map[string]float64{"queued of never-synced pods": 0})
	})
}

// client-go takes the first provider of the process and no other.
var ofTheProcess = &provider{values: map[string]float64{}}

// Without an identifier nothing is published. With one, but without a provider, the process's
// provider gets the version and what is queued.
func TestMetricsOfTheProcess(t *testing.T) {
	p := ofTheProcess
	clear(p.values)
	cache.SetInformerMetricsProvider(p)
	synctest.Test(t, func(t *testing.T) {
		name := rig.Must[*cache.InformerName](t)(cache.NewInformerName("of-the-process"))
		defer name.Release()
		server := fcache.NewFakeControllerSource() // which has no streamed lists
		defer server.Shutdown()
		const many = 1100 // more than a queue of client-go gives at once
		for i := range many {
			server.Add(labelled(fmt.Sprintf("p%d", i)))
		}
		pods := corev1.SchemeGroupVersion.WithResource("pods")
		id, second := name.WithResource(pods), name.WithResource(pods) // only the first counts
		var working cache.SharedIndexInformer
		for _, o := range []cache.SharedIndexInformerOptions{
			{InformerMetricsProvider: p},
			{InformerMetricsProvider: p, Identifier: second},
			{Identifier: id},
		} {
			working = clientgo.NewInformerWithOptions(server, &corev1.Pod{}, o)
			defer runInformer(t, working)()
		}
		const version, queued = "version of of-the-process pods", "queued of of-the-process pods"
		want := func(what string, v, q float64) {
			t.Helper()
			values := map[string]float64{version: v, queued: q}
			if !publishesVersions {
				delete(values, version)
			}
			p.want(t, what, values)
		}
		want("all", many, 0)
		work := make(chan struct{})
		mustAdd(t, working, cache.ResourceEventHandlerFuncs{AddFunc: func(any) { <-work }})
		server.Modify(labelled("p0", "v=2")) // or nobody would look
		time.Sleep(2 * time.Second)
		want("a handler that works", many+1, many+1)
		work <- struct{}{}
		time.Sleep(2 * time.Second)
		want("a handler that works on", many+1, many)
		close(work)
		time.Sleep(2 * time.Second)
		want("when all is done", many+1, 0)
	})
}
