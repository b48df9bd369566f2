package main

import (
	"fmt"
	"slices"
	"testing"

	"github.com/go-lw/lw/bench/internal/draw"
	"github.com/go-lw/lw/bench/internal/simulate"
)

const (
	millions   = 10_000_000 // objects
	eventRate  = 2_000      // a second, of all of them
	sampleUIDs = 1_000_000
	gib        = 1 << 30
)

// size computes what a large collection needs. Nothing here is random or depends on the machine.
func (p program) size(*testing.T) error {
	model := simulate.Kube(cores, millions)
	hashes := simulate.Hashes(sampleUIDs)
	// most returns how many times the mean the largest part has.
	most := func(replicas int) float64 {
		return float64(slices.Max(simulate.Shares(hashes, replicas))) * float64(replicas) / sampleUIDs
	}
	fmt.Fprintln(p.out, "| kept of 10,000,000 pods | replicas | heap of each | CPU of the first list | cores for 2,000 events/s |")
	fmt.Fprintln(p.out, "|---|---|---|---|---|")
	for _, k := range simulate.KeptPods {
		for _, n := range []int{1, 10, 100} {
			l := simulate.Sharded(model, k, millions, eventRate, n, most(n), true)
			fmt.Fprintf(p.out, "| %s | %d | %.2f GiB | %s | %.4f |\n", k.Name, n, l.Heap/gib, seconds(l.Sync), l.Cores)
		}
	}
	fmt.Fprintln(p.out)

	fmt.Fprintln(p.out, "| replicas | largest part, of the mean | heap | CPU of the list | cores for events | server CPU of the lists | server cores for events |")
	fmt.Fprintln(p.out, "|---|---|---|---|---|---|---|")
	heap := draw.Chart{Title: "Heap of a replica, projection", X: "replicas", Y: "of 10M pods", Log: true, Bytes: true}
	load := draw.Chart{Title: "Cores for 2,000 events a second", X: "replicas", Y: "cores", Log: true}
	heap.Curves = []draw.Curve{{Name: "sharded"}, {Name: "not sharded", Second: true}}
	load.Curves = []draw.Curve{{Name: "a replica"}, {Name: "the same, gate off", Dash: 1},
		{Name: "the server", Second: true}, {Name: "the same, gate off", Second: true, Dash: 1}}
	projection := simulate.KeptPods[len(simulate.KeptPods)-1]
	for _, n := range []int{1, 2, 5, 10, 20, 50, 100} {
		m := most(n)
		with := simulate.Sharded(model, projection, millions, eventRate, n, m, true)
		without := simulate.Sharded(model, projection, millions, eventRate, n, m, false)
		for _, row := range []struct {
			name string
			simulate.Load
		}{{fmt.Sprint(n), with}, {fmt.Sprintf("%d, gate off", n), without}} {
			fmt.Fprintf(p.out, "| %s | %.3f | %.2f GiB | %s | %.4f | %s | %.2f |\n", row.name, m, row.Heap/gib, seconds(row.Sync), row.Cores,
				seconds(row.ServerSync), row.ServerCores)
		}
		add := func(c *draw.Chart, values ...float64) {
			for i, v := range values {
				c.Curves[i].Points = append(c.Curves[i].Points, [2]float64{float64(n), v})
			}
		}
		add(&heap, with.Heap, millions*projection.Bytes)
		add(&load, with.Cores, without.Cores, with.ServerCores, without.ServerCores)
	}
	fmt.Fprintln(p.out)

	memory := draw.Chart{Title: "Heap of one informer", X: "pods", Y: "live heap", Log: true, Bytes: true}
	for i, k := range simulate.KeptPods {
		c := draw.Curve{Name: []string{"whole pods", "Share", "projection"}[i], Second: i == 0, Dash: i % 2}
		for n := 1000.0; n <= millions; n *= 10 {
			c.Points = append(c.Points, [2]float64{n, n * k.Bytes})
		}
		memory.Curves = append(memory.Curves, c)
	}

	fmt.Fprintln(p.out, "| watchers of a collection | 1 event/s | 10 events/s | 100 events/s | 1,000 events/s | memory of the connections |")
	fmt.Fprintln(p.out, "|---|---|---|---|---|---|")
	fanOut := draw.Chart{Title: "Server cores for deliveries", X: "events a second", Y: "cores", Log: true}
	for i, watchers := range []int{100, 1000, 10_000} {
		fmt.Fprintf(p.out, "| %d |", watchers)
		c := draw.Curve{Name: fmt.Sprintf("%d watchers", watchers), Second: i == 2, Dash: i % 2}
		for _, rate := range []int{1, 10, 100, 1000} {
			busy := float64(watchers) * float64(rate) * model.EventCPU.Seconds()
			fmt.Fprintf(p.out, " %.3g cores |", busy)
			c.Points = append(c.Points, [2]float64{float64(rate), busy})
		}
		fmt.Fprintf(p.out, " %.0f MiB |\n", float64(watchers)*float64(model.WatcherBytes)/(1<<20))
		fanOut.Curves = append(fanOut.Curves, c)
	}
	fmt.Fprintln(p.out)
	return p.draw("scale-size.svg", "What objects, replicas and watchers need (computed from measured costs)", 2, []draw.Chart{memory, heap, load, fanOut})
}
