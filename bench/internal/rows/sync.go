package rows

import (
	corev1 "k8s.io/api/core/v1"

	"github.com/go-lw/lw/bench/internal/compare"
	"github.com/go-lw/lw/bench/internal/feed"
	"github.com/go-lw/lw/bench/internal/measure"
	"github.com/go-lw/lw/bench/internal/pods"
)

// Sync measures an informer's first list of 100k pods, which are decoded already, until its one
// handler has received all of them: as a streamed list, and as one response. The peak heap is the
// memory beside these pods, garbage included: garbage is part of the cost, and only the collector
// decides when it goes.
func Sync() compare.Case {
	const list = " list"
	return compare.Case{
		Name: "initial sync",
		Lines: []compare.Line{
			{Row: 13, What: "initial sync of 100k, no decode, streamed: CPU an object", Unit: compare.Nanoseconds, Key: "cpu",
				Goal: compare.Times(7), Chart: true},
			{Row: 13, What: "initial sync of 100k, no decode, list: CPU an object", Unit: compare.Nanoseconds, Key: "cpu",
				Base: compare.ClientGo + list, Side: compare.LW + list, Goal: compare.Times(7)},
			{Row: 14, What: "initial sync of 100k, no decode, streamed: peak heap", Unit: compare.Bytes, Key: "peak",
				Goal: compare.Times(1 / 0.3)},
			{Row: 14, What: "initial sync of 100k, no decode, list: peak heap", Unit: compare.Bytes, Key: "peak",
				Base: compare.ClientGo + list, Side: compare.LW + list, Goal: compare.Times(1 / 0.15)},
		},
		Setup: func(c compare.Config) ([]compare.Side, func()) {
			objects := pods.Light(c.N(100_000, 100_000))
			streamed := both(func(side string) compare.Sample { return syncOnce(objects, side, true) })
			listed := both(func(side string) compare.Sample { return syncOnce(objects, side, false) })
			for i := range listed {
				listed[i].Name += list
			}
			return append(streamed, listed...), nil
		},
	}
}

func syncOnce(objects []*corev1.Pod, side string, stream bool) compare.Sample {
	f := feed.New(objects, pods.Version(len(objects)), stream)
	run := func() {
		added := 0
		all := make(chan struct{})
		inf := startOn(f, side)
		defer inf.Stop()
		inf.AddHandler(feed.Handler{Add: func(*corev1.Pod) {
			if added++; added == len(objects) {
				close(all)
			}
		}})
		<-all
		inf.WaitForSync()
	}
	sample := measure.Do(run).Sample(len(objects))
	sample["peak"] = float64(measure.Peak(run))
	return sample
}
