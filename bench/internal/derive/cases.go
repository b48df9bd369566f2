// Package derive has the cases of derived collections: 10,000 pods in 20 namespaces and on 200
// nodes, 1,000 services that select 10 pods each, and what two handlers want to know of them: the
// endpoints of each service, and the load of each node. It is kept by hand, in maps that handlers
// of lw's informers write, or as collections of a graph. Slim is a graph of which a projection of
// the pods comes first, whose Equal ends what changes nothing. The informers of all sides are lw's,
// and count.
package derive

import (
	"runtime"

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

// Cases returns all cases.
func Cases() []compare.Case {
	return []compare.Case{
		burst(rowFlips, "readiness flips", flip, goals{graph: limits{cpu: compare.Times(1), allocs: compare.Most(6)}}),
		burst(rowHeartbeats, "heartbeats", heartbeat, goals{slim: limits{allocs: compare.Most(1.05)}}), // a backend; the rest is of a whole burst
		burst(rowMoves, "label moves", move, goals{graph: limits{cpu: compare.Times(1 / 0.7)}}),
		OneAtATime(), FirstSync(), Heap(),
	}
}

// limits are the goals of a side.
type limits struct{ cpu, allocs compare.Goal }

type goals map[string]limits

// lines returns the lines of the CPU and the allocations that a change costs the graph and slim.
func (g goals) lines(row int, what string) (lines []compare.Line) {
	for _, side := range []string{graph, slim} {
		lines = append(lines,
			compare.Line{Row: row, What: what + ", " + side + " beside maps by hand: CPU", Unit: compare.Nanoseconds, Key: "cpu", Base: byHand, Side: side, Goal: g[side].cpu},
			compare.Line{Row: row, What: what + ", " + side + " beside maps by hand: allocations", Unit: compare.Count, Key: "allocs", Base: byHand, Side: side, Goal: g[side].allocs},
		)
	}
	return lines
}

// sides returns all sides, which all call measure.
func sides(measure func(side string) compare.Sample) []compare.Side {
	return sidesOf(measure, byHand, graph, slim)
}

func sidesOf(measure func(side string) compare.Sample, names ...string) (sides []compare.Side) {
	for _, side := range names {
		sides = append(sides, compare.Side{Name: side, Measure: func() compare.Sample { return measure(side) }})
	}
	return sides
}

func size(c compare.Config) int { return c.N(10_000, 2_000) }

// burst measures three bursts of changes, in each of which each pod is changed once, as fast as the
// informer takes the events: the CPU and allocations of the process from the first event until the
// handlers have been told of all results, with those results, for each change. No pod is changed
// twice in a burst, since a graph that is behind leaves out what cancels out. It computes a service
// of which several pods have changed in one step once.
func burst(row int, name string, c change, g goals) compare.Case {
	return compare.Case{
		Name:  "endpoints and loads, burst of " + name,
		Lines: g.lines(row, "endpoints and loads, burst of "+name),
		Setup: func(cfg compare.Config) ([]compare.Side, func()) { return sides(measureBurst(cfg, c)), nil },
	}
}

func measureBurst(cfg compare.Config, c change) func(side string) compare.Sample {
	return func(side string) compare.Sample {
		p := newPlayer(newWorld(size(cfg)), side, false)
		defer p.follower.stop()
		return p.bursts(3, len(p.pods), c).Sample(3 * len(p.pods))
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

// OneAtATime measures readiness flips, of which each is sent when both handlers have been told of
// the one before. Most of what it costs are threads that wake up.
func OneAtATime() compare.Case {
	const what = "endpoints and loads, one readiness flip at a time"
	g := goals{graph: limits{cpu: compare.Times(1 / 1.3), allocs: compare.Most(8)}}
	return compare.Case{
		Name: what, Lines: g.lines(rowOne, what),
		Setup: func(cfg compare.Config) ([]compare.Side, func()) { return sides(measureOne(cfg)), nil },
	}
}

func measureOne(cfg compare.Config) func(side string) compare.Sample {
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

// FirstSync measures from the start of the informers until the handlers have been told of all
// endpoints and loads, a pod.
func FirstSync() compare.Case {
	line := func(side string, goal compare.Goal) compare.Line {
		return compare.Line{
			Row: rowSync, What: "endpoints and loads, first sync, " + side + " beside maps by hand: CPU a pod",
			Unit: compare.Nanoseconds, Key: "cpu", Base: byHand, Side: side, Goal: goal,
		}
	}
	return compare.Case{
		Name:  "endpoints and loads, first sync",
		Lines: []compare.Line{line(graph, compare.Times(1)), line(slim, compare.Goal{})},
		Setup: func(cfg compare.Config) ([]compare.Side, func()) { return sides(measureSync(cfg)), nil },
	}
}

func measureSync(cfg compare.Config) func(side string) compare.Sample {
	return func(side string) compare.Sample {
		w := newWorld(size(cfg))
		var p *player
		u := measure.Do(func() { p = newPlayer(w, side, false) })
		p.follower.stop()
		return u.Sample(len(w.pods))
	}
}

// Heap measures the heap in use after the first sync and a collection, beside that of the pods and
// the services: the stores of the informers, what a side keeps to follow changes, and the results.
func Heap() compare.Case {
	line := func(side string) compare.Line {
		return compare.Line{
			Row: rowHeap, What: "endpoints and loads, " + side + " beside maps by hand: heap a pod",
			Unit: compare.Bytes, Key: "heap", Base: byHand, Side: side,
		}
	}
	return compare.Case{
		Name: "endpoints and loads, heap", Lines: []compare.Line{line(graph), line(slim)},
		Setup: func(cfg compare.Config) ([]compare.Side, func()) { return sides(measureHeap(cfg)), nil },
	}
}

func measureHeap(cfg compare.Config) func(side string) compare.Sample {
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
