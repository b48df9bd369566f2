package rows

import (
	"fmt"
	"time"

	corev1 "k8s.io/api/core/v1"

	"github.com/go-lw/lw/bench/internal/chart"
	"github.com/go-lw/lw/bench/internal/compare"
	"github.com/go-lw/lw/bench/internal/feed"
	"github.com/go-lw/lw/bench/internal/measure"
	"github.com/go-lw/lw/bench/internal/pods"
)

// Scale measures how the cost grows with the number of objects, handlers and indexes. It measures
// in the same way as the cases of the goal table.
func Scale(c compare.Config) []chart.Panel {
	sizes := []int{1_000, 10_000, 100_000, 1_000_000}
	handlers := []int{1, 4, 16, 64}
	indexes := []int{0, 1, 2, 3, 4}
	if c.Short {
		sizes = sizes[:3]
	}
	s := scale{c}
	return []chart.Panel{
		s.panel("Initial sync, streamed, no decode: CPU an object", "objects", sizes, syncSides, pair("cpu")),
		s.panel("Get of a random object: CPU", "objects", sizes, getSides, []curve{
			{"client-go, GetByKey", compare.ClientGo, "cpu"}, {"client-go, lister", lister, "cpu"}, {"lw", compare.LW, "cpu"}}),
		s.panel("All objects: CPU", "objects", sizes, listSides, []curve{
			{"client-go, List", compare.ClientGo, "cpu"}, {"lw, List", compare.LW, "cpu"}, {"lw, Snapshot", snapshot, "cpu"}}),
		s.panel("Late handler: the call", "objects", sizes, lateSides, pair("call")),
		s.panel("Event to handlers, no decode: CPU", "handlers", handlers, eventSides, pair("cpu")),
		s.panel("Update of 10k objects: CPU", "indexes", indexes, updateSides, pair("cpu")),
	}
}

// A curve is one key of a side's samples.
type curve struct{ name, side, key string }

func pair(key string) []curve {
	return []curve{{"client-go", compare.ClientGo, key}, {"lw", compare.LW, key}}
}

type scale struct{ compare.Config }

// panel measures the sides of each step in turn.
func (s scale) panel(title, x string, steps []int, sides func(c compare.Config, step int) []compare.Side, curves []curve) chart.Panel {
	p := chart.Panel{Title: title, X: x}
	for _, cv := range curves {
		p.Lines = append(p.Lines, chart.Line{Name: cv.name, Second: cv.side != compare.LW && cv.side != snapshot, Dashed: cv.side == lister || cv.side == snapshot})
	}
	for _, step := range steps {
		start := time.Now()
		p.Steps = append(p.Steps, short(step))
		samples := map[string][]compare.Sample{}
		made := sides(s.Config, step)
		rounds := s.Rounds
		if step > 100_000 {
			rounds = 1 // collecting so much garbage takes longer than everything else
		}
		for range rounds {
			for _, side := range made {
				samples[side.Name] = append(samples[side.Name], side.Measure())
			}
		}
		for i, cv := range curves {
			var values []float64
			for _, sample := range samples[cv.side] {
				values = append(values, sample[cv.key])
			}
			p.Lines[i].Values = append(p.Lines[i].Values, measure.Quantile(values, 0.5))
		}
		fmt.Fprintf(s.Log, "%-50s %6s %5.1f s\n", title, short(step), time.Since(start).Seconds())
	}
	return p
}

func syncSides(_ compare.Config, n int) []compare.Side {
	objects := pods.Light(n)
	return both(func(side string) compare.Sample { return syncOnce(objects, side, true) })
}

func getSides(_ compare.Config, n int) []compare.Side {
	s := newStores(pods.Light(n), 1)
	return []compare.Side{
		timed(compare.ClientGo, func(i int) {
			_, ok, _ := s.clientGo.GetByKey(s.strings[i%n])
			check(ok, "GetByKey")
		}),
		timed(lister, func(i int) {
			key := &s.keys[i%n]
			_, err := s.lister.Pods(key.Namespace).Get(key.Name)
			check(err == nil, "Lister.Get")
		}),
		timed(compare.LW, func(i int) {
			_, ok := s.lw.Get(s.keys[i%n])
			check(ok, "Get")
		}),
	}
}

func listSides(_ compare.Config, n int) []compare.Side {
	s := newStores(pods.Light(n), 1)
	return []compare.Side{
		timed(compare.ClientGo, func(int) { check(len(s.clientGo.List()) == n, "Indexer.List") }),
		timed(compare.LW, func(int) { check(len(s.lw.List()) == n, "List") }),
		timed(snapshot, func(int) { check(s.lw.Snapshot() != nil, "Snapshot") }),
	}
}

func lateSides(_ compare.Config, n int) []compare.Side {
	list := pods.Light(n)
	return both(func(side string) compare.Sample {
		inf := synced(feed.New(list, pods.Version(n), true), side)
		defer inf.Stop()
		start := time.Now()
		wait := inf.AddHandler(feed.Handler{Add: func(*corev1.Pod) {}})
		call := time.Since(start)
		wait()
		return compare.Sample{"call": float64(call)}
	})
}

func eventSides(c compare.Config, handlers int) []compare.Side {
	list := pods.Light(10_000)
	events := pods.Next(list, c.N(100_000, 20_000), len(list))
	return []compare.Side{
		{Name: compare.ClientGo, Measure: func() compare.Sample {
			return pipeline(list, events, handlers, false, func(f *feed.Feed) feed.Informer { return feed.ClientGo(f, 0) })
		}},
		{Name: compare.LW, Measure: func() compare.Sample {
			return pipeline(list, events, handlers, true, func(f *feed.Feed) feed.Informer { return feed.LW(f) })
		}},
	}
}

func updateSides(_ compare.Config, indexes int) []compare.Side {
	s := newStores(pods.Light(10_000), indexes)
	next := pods.Next(s.pods, 2*len(s.pods), len(s.pods))
	return []compare.Side{
		timed(compare.ClientGo, func(i int) { check(s.clientGo.Update(next[i%len(next)]) == nil, "Update") }),
		timed(compare.LW, func(i int) {
			_, replaced := s.lw.Set(next[i%len(next)])
			check(replaced, "Set")
		}),
	}
}
