package clientgo_test

import (
	"fmt"
	"maps"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/client-go/tools/cache"
	fcache "k8s.io/client-go/tools/cache/testing"

	"github.com/go-lw/lw/clientgo"
	"github.com/go-lw/lw/internal/rig"
)

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
	n := 1000.
	if v >= 1 {
		n = 1
	}
	m.p.mu.Lock()
	defer m.p.mu.Unlock()
	m.p.values[m.name] += n
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
