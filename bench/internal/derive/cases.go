// Package derive has the cases of derived collections: 10,000 pods in 20 namespaces and on 200
// nodes, 1,000 services that select 10 pods each, and what two handlers want to know of them: the
// endpoints of each service, and the load of each node. It is kept by hand, in maps that handlers
// of lw's informers write, or as collections of a graph. Slim is a graph of which a projection of
// the pods comes first, whose Equal ends what changes nothing. The informers of all sides are lw's,
// and count.
package derive

import (
	"runtime"
	"slices"

	"github.com/go-lw/lw/bench/internal/compare"
	"github.com/go-lw/lw/bench/internal/measure"
)

// The rows of the goal table.
const (
	rowFlips = 35 + iota
	rowHeartbeats
	rowMoves
	rowOne
	rowSync
	rowHeap

	// FirstRow and LastRow are the rows of all cases.
	FirstRow, LastRow = rowFlips, rowHeap
)

// Cases returns all cases, beside maps by hand.
func Cases() []compare.Case {
	return cases("maps by hand", map[string]string{graph: byHand, slim: byHand}, map[int]goals{
		rowFlips:      {graph: {value: compare.Times(1), allocs: compare.Most(6)}},
		rowHeartbeats: {slim: {allocs: compare.Most(1.05)}}, // a backend; the rest is of a whole burst
		rowMoves:      {graph: {value: compare.Times(1 / 0.7)}},
		rowOne:        {graph: {value: compare.Times(1 / 1.3), allocs: compare.Most(8)}},
		rowSync:       {graph: {value: compare.Times(1)}},
	})
}

// goals are those of each side.
type goals map[string]struct{ value, allocs compare.Goal }

// cases returns the cases of all rows. graph and slim are compared with the sides that base names,
// which are called beside.
func cases(beside string, base map[string]string, want map[int]goals) (all []compare.Case) {
	for _, row := range []struct {
		number  int
		what    string
		value   string // what is measured, and allocations in the rows of each change
		key     string
		unit    compare.Unit
		measure func(compare.Config) func(side string) compare.Sample
	}{
		{rowFlips, "burst of readiness flips, ", "CPU", "cpu", compare.Nanoseconds, burst(flip)},
		{rowHeartbeats, "burst of heartbeats, ", "CPU", "cpu", compare.Nanoseconds, burst(heartbeat)},
		{rowMoves, "burst of label moves, ", "CPU", "cpu", compare.Nanoseconds, burst(move)},
		{rowOne, "one readiness flip at a time, ", "CPU", "cpu", compare.Nanoseconds, oneAtATime},
		{rowSync, "first sync, ", "CPU a pod", "cpu", compare.Nanoseconds, firstSync},
		{rowHeap, "", "heap a pod", "heap", compare.Bytes, heap},
	} {
		c := compare.Case{Name: "endpoints and loads, " + row.what + row.value}
		for _, side := range []string{graph, slim} {
			what, goal := "endpoints and loads, "+row.what+side+" beside "+beside+": ", want[row.number][side]
			line := compare.Line{Row: row.number, What: what + row.value, Unit: row.unit, Key: row.key, Base: base[side],
				Side: side, Goal: goal.value}
			c.Lines = append(c.Lines, line)
			if row.number <= rowOne {
				line.What, line.Unit, line.Key, line.Goal = what+"allocations", compare.Count, "allocs", goal.allocs
				c.Lines = append(c.Lines, line)
			}
		}
		c.Setup = func(cfg compare.Config) (sides []compare.Side, done func()) {
			measure := row.measure(cfg)
			for _, name := range slices.Compact([]string{base[graph], base[slim], graph, slim}) {
				sides = append(sides, compare.Side{Name: name, Measure: func() compare.Sample { return measure(name) }})
			}
			return sides, nil
		}
		all = append(all, c)
	}
	return all
}

func size(c compare.Config) int { return c.N(10_000, 2_000) }

// burst measures three bursts of changes, in each of which each pod is changed once, as fast as the
// informer takes the events: the CPU and allocations of the process from the first event until the
// handlers have been told of all results, with those results, for each change. No pod is changed
// twice in a burst, since a graph that is behind leaves out what cancels out. It computes a service
// of which several pods have changed in one step once.
func burst(c change) func(compare.Config) func(side string) compare.Sample {
	return func(cfg compare.Config) func(side string) compare.Sample {
		return func(side string) compare.Sample {
			p := newPlayer(newWorld(size(cfg)), side, false)
			defer p.follower.stop()
			return p.bursts(3, len(p.pods), c).Sample(3 * len(p.pods))
		}
	}
}

// bursts returns the usage of n bursts of so many changes. One burst before them warms up.
func (p *player) bursts(n, changes int, c change) (sum measure.Usage) {
	for i := range n + 1 {
		next, version := p.next(changes, c), p.version()
		fence := p.passFence()
		u := measure.Do(func() { p.burst(next, fence, version) })
		if i > 0 {
			sum = sum.Plus(u)
		}
	}
	return sum
}

// oneAtATime measures readiness flips, of which each is sent when both handlers have been told of
// the one before. Most of what it costs are threads that wake up.
func oneAtATime(cfg compare.Config) func(side string) compare.Sample {
	return func(side string) compare.Sample {
		p := newPlayer(newWorld(size(cfg)), side, true)
		defer p.follower.stop()
		for _, pod := range p.next(len(p.pods)/10, flip) {
			p.one(pod)
		}
		changes := p.next(len(p.pods), flip)
		return measure.Do(func() {
			for _, pod := range changes {
				p.one(pod)
			}
		}).Sample(len(changes))
	}
}

// firstSync measures from the start of the informers until the handlers have been told of all
// endpoints and loads, a pod.
func firstSync(cfg compare.Config) func(side string) compare.Sample {
	return func(side string) compare.Sample {
		w := newWorld(size(cfg))
		var p *player
		u := measure.Do(func() { p = newPlayer(w, side, false) })
		p.follower.stop()
		return u.Sample(len(w.pods))
	}
}

// heap measures the heap in use after the first sync and a collection, beside that of the pods and
// the services: the stores of the informers, what a side keeps to follow changes, and the results.
func heap(cfg compare.Config) func(side string) compare.Sample {
	return func(side string) compare.Sample {
		w := newWorld(size(cfg))
		before, _ := measure.Live()
		p := newPlayer(w, side, false)
		after, _ := measure.Live()
		p.follower.stop()
		runtime.KeepAlive(p)
		return compare.Sample{"heap": (float64(after) - float64(before)) / float64(len(w.pods))}
	}
}
