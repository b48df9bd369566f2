package derive

import (
	"context"
	"fmt"
	"runtime"
	"time"

	corev1 "k8s.io/api/core/v1"

	"github.com/go-lw/lw"
	"github.com/go-lw/lw/bench/internal/compare"
	"github.com/go-lw/lw/bench/internal/feed"
	"github.com/go-lw/lw/bench/internal/measure"
)

// Size measures what a change costs as the pods, the services and the groups of pods that have a
// label in common grow: readiness flips in bursts of a hundred, each of another service and node.
// What the maps by hand cost more then says what the processor's cache costs.
func Size() compare.Case {
	type of struct {
		side string
		pods int
	}
	name := func(o of) string { return fmt.Sprintf("%s of %dk", o.side, o.pods/1000) }
	line := func(side string, pods int, goal compare.Goal) compare.Line {
		o := of{side, pods}
		return compare.Line{
			Row: rowSize, What: "endpoints and loads, " + name(o) + " pods beside 1k, a readiness flip: CPU",
			Unit: compare.Nanoseconds, Key: "cpu", Base: name(of{side, 1_000}), Side: name(o), Goal: goal,
		}
	}
	return compare.Case{
		Name: "endpoints and loads, by the number of pods",
		Lines: []compare.Line{
			line(graph, 10_000, compare.Times(1/1.2)), line(graph, 100_000, compare.Times(1/1.2)),
			line(byHand, 10_000, compare.Goal{}), line(byHand, 100_000, compare.Goal{}),
		},
		Setup: func(cfg compare.Config) (sides []compare.Side, done func()) {
			for _, side := range []string{graph, byHand} {
				for _, pods := range []int{1_000, 10_000, 100_000} {
					sides = append(sides, compare.Side{Name: name(of{side, pods}), Measure: func() compare.Sample {
						p := newPlayer(newWorld(pods), side, false)
						defer p.follower.stop()
						n := cfg.N(100, 30)
						return p.flips(n).Sample(100 * n)
					}})
				}
			}
			return sides, nil
		},
	}
}

// flips returns the usage of n bursts of a hundred flips. The collector runs once, before them.
func (p *player) flips(n int) measure.Usage {
	p.bursts(0, 100, flip)
	type round struct {
		changes []*corev1.Pod
		version string
		fence   *corev1.Pod
	}
	rounds := make([]round, n)
	for i := range rounds {
		rounds[i].changes = p.next(100, flip)
		rounds[i].version = p.version()
		rounds[i].fence = p.passFence()
	}
	return measure.Do(func() {
		for _, r := range rounds {
			p.burst(r.changes, r.fence, r.version)
		}
	})
}

// Event measures the CPU of the one thread that writes the events of a burst into an informer with
// a handler: with a graph that derives from it, and with another handler instead.
func Event() compare.Case {
	return compare.Case{
		Name: "an informer's event beside a graph",
		Lines: []compare.Line{
			{Row: rowEvent, What: "an informer's event with a graph, beside that with another handler: CPU of the thread", Unit: compare.Nanoseconds, Key: "cpu", Base: another, Side: graph, Goal: compare.Times(1 / 1.05)},
		},
		Setup: func(cfg compare.Config) ([]compare.Side, func()) {
			n := cfg.N(100, 20)
			return []compare.Side{
				{Name: another, Measure: func() compare.Sample { return event(false, n) }},
				{Name: graph, Measure: func() compare.Sample { return event(true, n) }},
			}, nil
		},
	}
}

// event returns the CPU of n bursts of events of 10,000 pods. The graph or the other handler has
// taken a burst before the next one comes.
func event(withGraph bool, n int) compare.Sample {
	w := newWorld(10_000)
	list, version := w.list()
	fd := feed.New(list, version, true)
	f := newFollower(sources{fd, nil})
	handler := lw.Handler[*corev1.Pod]{Update: func(_, _ *corev1.Pod) {}}
	regs := []*lw.Registration{f.pods.AddHandler(handler)}
	upTo := f.pods.WaitForResourceVersion
	if withGraph {
		g := lw.NewGraph(nil)
		lw.Derive(g, f.pods, newBackend)
		f.run = append(f.run, g.Run)
		upTo = func(ctx context.Context, version string) error {
			return g.WaitForResourceVersion(ctx, f.pods, version)
		}
	} else {
		regs = append(regs, f.pods.AddHandler(handler))
	}
	f.start()
	defer f.stop()
	var sum time.Duration
	const each = 1000
	for range n {
		changes := w.next(each, heartbeat)
		runtime.GC()
		sum += fd.SendTimed(changes)
		must(upTo(f.ctx, w.version()))
		for _, reg := range regs {
			for reg.Pending() > 0 {
				time.Sleep(time.Millisecond)
			}
		}
	}
	return compare.Sample{"cpu": float64(sum) / float64(n*each)}
}
