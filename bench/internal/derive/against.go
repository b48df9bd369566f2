package derive

import (
	"context"

	corev1 "k8s.io/api/core/v1"

	"github.com/go-lw/lw"
	"github.com/go-lw/lw/bench/internal/compare"
)

// A Program is what a side has that is made outside of this package, by another library. Nothing
// runs yet when it is started.
type Program struct {
	Context  context.Context // ends with the side
	Pods     *lw.Informer[*corev1.Pod]
	Services []*corev1.Service
	// Endpoints and Load are told of each change of a result; old or new is nil if there is none.
	Endpoints func(old, new *Endpoints)
	Load      func(old, new *NodeLoad)
}

// A Start starts a side. synced waits until its handlers have been told of the first state.
type Start func(p Program) (synced func(context.Context) error)

// others are the sides of [Against].
var others = map[string]Start{}

// Against returns the cases of the rows 35 to 40 for another library, in the place of the maps by
// hand. plain derives from the pods, and is compared with the graph; projected has a projection of
// them first, and is compared with slim. Only one library can be compared in a process.
func Against(name string, plain, projected Start) []compare.Case {
	names := map[string]string{graph: name, slim: name + ", slim"}
	others[names[graph]], others[names[slim]] = plain, projected
	// The goals are those of the specification.
	type goal = map[string]compare.Goal
	makeCase := func(row int, what, key string, unit compare.Unit, g goal, measure func(compare.Config) func(string) compare.Sample) compare.Case {
		c := compare.Case{Name: what}
		for _, side := range []string{graph, slim} {
			c.Lines = append(c.Lines, compare.Line{
				Row: row, What: what + ", " + side + " beside " + names[side], Unit: unit, Key: key, Base: names[side], Side: side, Goal: g[side],
			})
			if key == "cpu" {
				c.Lines = append(c.Lines, compare.Line{
					Row: row, What: what + ", " + side + " beside " + names[side] + ": allocations", Unit: compare.Count, Key: "allocs",
					Base: names[side], Side: side,
				})
			}
		}
		c.Setup = func(cfg compare.Config) ([]compare.Side, func()) {
			return sidesOf(measure(cfg), names[graph], names[slim], graph, slim), nil
		}
		return c
	}
	burstOf := func(c change) func(compare.Config) func(string) compare.Sample {
		return func(cfg compare.Config) func(string) compare.Sample { return measureBurst(cfg, c) }
	}
	return []compare.Case{
		makeCase(rowFlips, "burst of readiness flips", "cpu", compare.Nanoseconds, goal{graph: compare.Times(6)}, burstOf(flip)),
		makeCase(rowHeartbeats, "burst of heartbeats", "cpu", compare.Nanoseconds, goal{graph: compare.Times(6), slim: compare.Times(3)}, burstOf(heartbeat)),
		makeCase(rowMoves, "burst of label moves", "cpu", compare.Nanoseconds, goal{graph: compare.Times(6)}, burstOf(move)),
		makeCase(rowOne, "one readiness flip at a time", "cpu", compare.Nanoseconds, goal{graph: compare.Times(3)}, measureOne),
		makeCase(rowSync, "first sync", "cpu", compare.Nanoseconds, goal{graph: compare.Times(1), slim: compare.Times(1.8)}, measureSync),
		makeCase(rowHeap, "heap a pod", "heap", compare.Bytes, goal{graph: compare.Times(1 / 0.7), slim: compare.Times(1 / 0.7)}, measureHeap),
	}
}

// startOther starts a side of [Against].
func startOther(src sources, start Start, r results) *follower {
	f := newFollower(src)
	f.run = []func(context.Context) error{f.pods.Run}
	f.sync = start(Program{Context: f.ctx, Pods: f.pods, Services: src.services, Endpoints: r.endpoints, Load: r.load})
	f.upTo = func(context.Context, string) error { return nil } // its handlers are called in order
	f.start()
	return f
}
