package rows

import (
	"fmt"
	"time"

	"github.com/go-lw/lw/bench/internal/chart"
	"github.com/go-lw/lw/bench/internal/compare"
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
		s.panel("Initial sync, streamed, no decode: CPU an object", "objects", sizes, func(n int) []compare.Side {
			objects := pods.Light(n)
			return both(func(side string) compare.Sample { return syncOnce(objects, side, true) })
		}, pair("cpu")),
		s.panel("Get of a random object: CPU", "objects", sizes, getSides, []curve{
			{"client-go, GetByKey", compare.ClientGo, "cpu"}, {"client-go, lister", lister, "cpu"}, {"lw", compare.LW, "cpu"}}),
		s.panel("All objects: CPU", "objects", sizes,
			func(n int) []compare.Side { return listSides(newStores(pods.Light(n), 1)) }, []curve{
				{"client-go, List", compare.ClientGo, "cpu"}, {"lw, List", compare.LW, "cpu"}, {"lw, Snapshot", snapshot, "cpu"}}),
		s.panel("Late handler: the call", "objects", sizes, lateSides, pair("call")),
		s.panel("Event to handlers, no decode: CPU", "handlers", handlers,
			func(n int) []compare.Side { return eventSides(c, n)[:2] }, pair("cpu")),
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
func (s scale) panel(title, x string, steps []int, sides func(step int) []compare.Side, curves []curve) chart.Panel {
	p := chart.Panel{Title: title, X: x}
	for _, cv := range curves {
		p.Lines = append(p.Lines, chart.Line{Name: cv.name, Second: cv.side != compare.LW && cv.side != snapshot,
			Dashed: cv.side == lister || cv.side == snapshot})
	}
	for _, step := range steps {
		start := time.Now()
		p.Steps = append(p.Steps, short(step))
		samples := map[string][]compare.Sample{}
		made := sides(step)
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

func updateSides(indexes int) []compare.Side {
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
