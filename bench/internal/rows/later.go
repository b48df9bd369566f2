package rows

import (
	"time"

	corev1 "k8s.io/api/core/v1"

	"github.com/go-lw/lw/bench/internal/compare"
	"github.com/go-lw/lw/bench/internal/feed"
	"github.com/go-lw/lw/bench/internal/measure"
	"github.com/go-lw/lw/bench/internal/pods"
)

// LateHandler adds a handler to an informer of 100k pods. It measures the time of the call, and the
// cost until the new handler has received all pods.
func LateHandler() compare.Case {
	return compare.Case{
		Name: "late handler",
		Lines: []compare.Line{
			{Row: 15, What: "late handler, 100k objects: the call", Unit: compare.Nanoseconds, Key: "call",
				Goal: compare.Most(1e6)},
			{Row: 15, What: "late handler, 100k objects: allocations an object", Unit: compare.Count, Key: "allocs",
				Goal: compare.Most(0.05)},
			{Row: 15, What: "late handler, 100k objects: CPU an object", Unit: compare.Nanoseconds, Key: "cpu"},
		},
		Setup: func(compare.Config) ([]compare.Side, func()) {
			return lateSides(100_000), nil
		},
	}
}

// lateSides are those of [LateHandler].
func lateSides(n int) []compare.Side {
	list := pods.Light(n)
	return both(func(side string) compare.Sample {
		f := feed.New(list, pods.Version(len(list)), true)
		inf := synced(f, side, feed.Handler{Update: func(_, _ *corev1.Pod) {}})
		defer inf.Stop()
		var call time.Duration
		sample := measure.Do(func() {
			start := time.Now()
			synced := inf.AddHandler(feed.Handler{Add: func(*corev1.Pod) {}})
			call = time.Since(start)
			synced()
		}).Sample(len(list))
		sample["call"] = float64(call)
		return sample
	})
}

// Relist measures a relist that changes nothing. The watch ends with 410 Gone, and the list has the
// same 100k pods, decoded again. The measurement ends when an event after the list has reached the
// handler. Afterwards the store has the objects of the first list or of the second, as the side
// prefers.
func Relist() compare.Case {
	return compare.Case{
		Name: "relist",
		Lines: []compare.Line{
			{Row: 17, What: "relist of 100k, unchanged: CPU an object", Unit: compare.Nanoseconds, Key: "cpu",
				Goal: compare.Times(10), Chart: true},
			{Row: 17, What: "relist of 100k, unchanged: allocations an object", Unit: compare.Count, Key: "allocs",
				Goal: compare.Most(0.1)},
			{Row: 17, What: "relist of 100k, unchanged: bytes an object", Unit: compare.Bytes, Key: "bytes"},
		},
		Setup: func(compare.Config) ([]compare.Side, func()) {
			list := pods.Light(100_000)
			return both(func(side string) compare.Sample {
				f := feed.New(list, pods.Version(len(list)), false)
				end := newFence()
				inf := synced(f, side, feed.Handler{Update: end.update})
				defer inf.Stop()
				f.Watching()
				f.Set(pods.Again(list), pods.Version(len(list)+1))
				return measure.Do(func() {
					f.Expire()
					f.Watching()
					end.pass(f, list[0], len(list)+2)
				}).Sample(len(list))
			}), nil
		},
	}
}
