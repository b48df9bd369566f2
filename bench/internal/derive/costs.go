package derive

import (
	"context"
	"fmt"
	"math/rand/v2"
	"runtime"
	"sync/atomic"

	corev1 "k8s.io/api/core/v1"

	"github.com/go-lw/lw"
	"github.com/go-lw/lw/bench/internal/compare"
	"github.com/go-lw/lw/bench/internal/feed"
	"github.com/go-lw/lw/bench/internal/measure"
)

// informer and another are sides of cases that measure what a graph adds.
const (
	informer = "informer"
	another  = "another handler"
)

// Get measures a Get of each of 10,000 objects in random order: of a derived collection, and of the
// informer that it is derived from.
func Get() compare.Case {
	return compare.Case{
		Name: "Get of a derived collection",
		Lines: []compare.Line{
			{Row: rowGet, What: "Get of a derived collection beside an informer's: CPU", Unit: compare.Nanoseconds, Key: "cpu", Base: informer, Side: graph, Goal: compare.Times(1 / 1.3)},
			{Row: rowGet, What: "Get of a derived collection beside an informer's: allocations", Unit: compare.Count, Key: "allocs", Base: informer, Side: graph, Goal: compare.Most(0.001)},
		},
		Setup: func(cfg compare.Config) ([]compare.Side, func()) {
			w := newWorld(10_000)
			list, version := w.list()
			f := newFollower(sources{feed.New(list, version, true), w.services})
			g := lw.NewGraph(nil)
			backends := lw.Derive(g, f.pods, newBackend)
			f.run = append(f.run, g.Run)
			f.start()
			must(g.WaitForSync(f.ctx))
			keys := make([]lw.Key, len(list))
			for i, p := range list {
				keys[i] = lw.KeyOf(p)
			}
			rand.New(rand.NewPCG(3, 4)).Shuffle(len(keys), func(i, j int) { keys[i], keys[j] = keys[j], keys[i] })
			times := cfg.N(100, 20)
			return []compare.Side{
				{Name: informer, Measure: func() compare.Sample { return gets(f.pods.Store(), keys, times) }},
				{Name: graph, Measure: func() compare.Sample { return gets(backends.Store(), keys, times) }},
			}, f.stop
		},
	}
}

func gets[T lw.Object](store lw.Reader[T], keys []lw.Key, times int) compare.Sample {
	found := 0
	u := measure.Do(func() {
		for range times {
			for _, key := range keys {
				if _, ok := store.Get(key); ok {
					found++
				}
			}
		}
	})
	if found != times*len(keys) {
		panic("derive: an object was not found")
	}
	return u.Sample(times * len(keys))
}

// Snapshot measures Graph.Snapshot of a graph of ten collections in which nothing has changed since
// the last one, beside a snapshot of each of the collections.
func Snapshot() compare.Case {
	const each = "each"
	return compare.Case{
		Name: "snapshot of a graph",
		Lines: []compare.Line{
			{Row: rowSnapshot, What: "Graph.Snapshot of ten collections beside a snapshot of each: CPU", Unit: compare.Nanoseconds, Key: "cpu", Base: each, Side: graph, Goal: compare.Most(100)},
			{Row: rowSnapshot, What: "Graph.Snapshot of ten collections beside a snapshot of each: allocations", Unit: compare.Count, Key: "allocs", Base: each, Side: graph},
		},
		Setup: func(cfg compare.Config) ([]compare.Side, func()) {
			w := newWorld(1_000)
			list, version := w.list()
			f := newFollower(sources{feed.New(list, version, true), w.services})
			g := lw.NewGraph(nil)
			var collections []*lw.Derived[*backend]
			for i := range 10 {
				collections = append(collections, lw.Derive(g, f.pods, newBackend, fmt.Sprint("backend-", i)))
			}
			f.run = append(f.run, g.Run)
			f.start()
			must(g.WaitForSync(f.ctx))
			n := cfg.N(1_000_000, 100_000)
			do := func(snapshot func()) compare.Sample {
				return measure.Do(func() {
					for range n {
						snapshot()
					}
				}).Sample(n)
			}
			var last *lw.GraphSnapshot
			return []compare.Side{
				{Name: graph, Measure: func() compare.Sample {
					sample := do(func() { last = g.Snapshot() })
					runtime.KeepAlive(last)
					return sample
				}},
				{Name: each, Measure: func() compare.Sample {
					return do(func() {
						for _, c := range collections {
							c.Store().Snapshot()
						}
					})
				}},
			}, f.stop
		},
	}
}

// NoKey measures changes of pods that share no key with a service, in bursts: with a LeftJoin of
// services and pods, and with the informers alone. It counts the calls of the join's function.
func NoKey() compare.Case {
	return compare.Case{
		Name: "a change that no key reaches",
		Lines: []compare.Line{
			{Row: rowNoKey, What: "a change that no key of a join reaches, beside the informer alone: CPU", Unit: compare.Nanoseconds, Key: "cpu", Base: informer, Side: graph, Goal: compare.Most(1500)},
			{Row: rowNoKey, What: "a change that no key of a join reaches, beside the informer alone: allocations", Unit: compare.Count, Key: "allocs", Base: informer, Side: graph},
			{Row: rowNoKey, What: "a change that no key of a join reaches: calls of its function", Unit: compare.Count, Key: "calls", Base: informer, Side: graph, Goal: compare.Most(0)},
		},
		Setup: func(cfg compare.Config) ([]compare.Side, func()) {
			do := func(join bool) compare.Sample {
				w := newWorld(size(cfg))
				list, version := w.list()
				fd := feed.New(list, version, true)
				f := newFollower(sources{fd, w.services})
				upTo := f.pods.WaitForResourceVersion
				var calls atomic.Int64
				if join {
					g := lw.NewGraph(nil)
					leftJoin(g, f.services, f.pods, func(s *corev1.Service, pods []*corev1.Pod) *Endpoints {
						calls.Add(1)
						return endpointsOf(s, pods, addressOf)
					})
					f.run = append(f.run, g.Run)
					upTo = func(ctx context.Context, version string) error {
						return g.WaitForResourceVersion(ctx, f.pods, version)
					}
				}
				f.start()
				defer f.stop()
				burst := func() measure.Usage {
					next := w.next(len(w.pods), unselected)
					return measure.Do(func() {
						fd.Send(next)
						must(upTo(f.ctx, w.version()))
					})
				}
				burst() // takes the pods out of the services
				before := calls.Load()
				var sum measure.Usage
				for range 3 {
					sum = sum.Plus(burst())
				}
				sample := sum.Sample(3 * len(w.pods))
				sample["calls"] = float64(calls.Load() - before)
				return sample
			}
			return []compare.Side{
				{Name: informer, Measure: func() compare.Sample { return do(false) }},
				{Name: graph, Measure: func() compare.Sample { return do(true) }},
			}, nil
		},
	}
}
