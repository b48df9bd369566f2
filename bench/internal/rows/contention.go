package rows

import (
	"sync"
	"sync/atomic"
	"time"

	corev1 "k8s.io/api/core/v1"

	"github.com/go-lw/lw/bench/internal/compare"
	"github.com/go-lw/lw/bench/internal/measure"
	"github.com/go-lw/lw/bench/internal/pods"
)

// load is the result of busy.
type load struct {
	measure.Histogram        // the durations of the reads that were timed
	reads, writes     uint64 // the numbers of all reads and writes
	took              time.Duration
}

// busy calls read in many goroutines, and background in one, again and again. It ends when work has
// returned and atLeast is over. Of oneOf reads only one is timed, because reading the clock takes
// longer than a Get.
func busy(readers, oneOf int, read func(i int), background func(i int), work func(), atLeast time.Duration) *load {
	var stop atomic.Bool
	var all sync.WaitGroup
	loads := make([]load, readers)
	writes := uint64(0)
	start := time.Now()
	for r := range readers {
		all.Go(func() {
			for i := r * 7919; !stop.Load(); i += oneOf {
				start := time.Now()
				read(i)
				loads[r].Add(time.Since(start))
				for more := 1; more < oneOf; more++ {
					read(i + more)
				}
				loads[r].reads += uint64(oneOf)
			}
		})
	}
	if background != nil {
		all.Go(func() {
			for i := 0; !stop.Load(); i++ {
				background(i)
				writes++
			}
		})
	}
	if work != nil {
		work()
	}
	if rest := atLeast - time.Since(start); rest > 0 {
		time.Sleep(rest)
	}
	stop.Store(true)
	all.Wait()
	l := &loads[0]
	for i := 1; i < readers; i++ {
		l.Merge(&loads[i].Histogram)
		l.reads += loads[i].reads
	}
	l.writes, l.took = writes, time.Since(start)
	return l
}

// ReplaceStall measures the longest read while all objects are replaced. One goroutine gets random
// objects of 100k, with three indexes, while another replaces all of them by new versions. The
// longest read includes the delays by the scheduler and the garbage collector.
func ReplaceStall() compare.Case {
	const n = 100_000
	return compare.Case{
		Name: "reads during Replace",
		Lines: []compare.Line{
			{Row: 18, What: "longest read during Replace of 100k, 3 indexes", Unit: compare.Nanoseconds, Key: "max", Goal: compare.Times(20), Chart: true},
			{Row: 18, What: "Replace of 100k by new versions, 3 indexes: CPU an object", Unit: compare.Nanoseconds, Key: "cpu"},
		},
		Setup: func(compare.Config) ([]compare.Side, func()) {
			s := newStores(pods.Light(n), 3)
			generations := [2][]*corev1.Pod{pods.Next(s.pods, n, n), pods.Next(s.pods, n, 2*n)}
			lists := [2][]any{boxed(generations[0]), boxed(generations[1])}
			measured := func(read func(i int), replace func(generation int)) compare.Sample {
				sample := measure.Do(func() { replace(0) }).Sample(n)
				sample["max"] = float64(busy(1, 1, read, nil, func() { replace(1) }, 0).Max())
				return sample
			}
			return both(func(side string) compare.Sample {
				if side == compare.ClientGo {
					return measured(func(i int) {
						_, ok, _ := s.clientGo.GetByKey(s.strings[i%n])
						check(ok, "GetByKey")
					}, func(g int) { check(s.clientGo.Replace(lists[g], "") == nil, "Replace") })
				}
				return measured(func(i int) {
					_, ok := s.lw.Get(s.keys[i%n])
					check(ok, "Get")
				}, func(g int) { s.lw.Replace(generations[g], pods.Version((g+2)*n)) })
			}), nil
		},
	}
}

// GetWhileWriting measures reads beside a writer. For a fixed time 16 goroutines get random objects
// of 100k, and one stores new versions, all as fast as they can.
func GetWhileWriting() compare.Case {
	const n = 100_000
	return compare.Case{
		Name: "reads and a writer",
		Lines: []compare.Line{
			{Row: 21, What: "16 readers and a writer: reads", Unit: compare.PerSecond, Key: "reads", Goal: compare.Times(1.3)},
			{Row: 21, What: "16 readers and a writer: p99.9 of a read", Unit: compare.Nanoseconds, Key: "p999", Goal: compare.Times(100)},
			{Row: 21, What: "16 readers and a writer: p99.99 of a read", Unit: compare.Nanoseconds, Key: "p9999"},
			{Row: 21, What: "16 readers and a writer: writes", Unit: compare.PerSecond, Key: "writes"},
		},
		Setup: func(c compare.Config) ([]compare.Side, func()) {
			s := newStores(pods.Light(n), 0)
			next := pods.Next(s.pods, n, n)
			window := time.Duration(c.N(600, 250)) * time.Millisecond
			return both(func(side string) compare.Sample {
				read := func(i int) { _, _, _ = s.clientGo.GetByKey(s.strings[i%n]) }
				write := func(i int) { check(s.clientGo.Update(next[i%n]) == nil, "Update") }
				if side == compare.LW {
					read = func(i int) { s.lw.Get(s.keys[i%n]) }
					write = func(i int) { s.lw.Set(next[i%n]) }
				}
				l := busy(16, 16, read, write, nil, window)
				return compare.Sample{
					"reads": float64(l.reads) / l.took.Seconds(), "writes": float64(l.writes) / l.took.Seconds(), "p999": float64(l.Quantile(0.999)), "p9999": float64(l.Quantile(0.9999)),
				}
			}), nil
		},
	}
}

// WriteWhileListing measures writes beside lists. For a fixed time four goroutines list all of 200k
// objects as slices, and one stores new versions, all as fast as they can.
func WriteWhileListing() compare.Case {
	return compare.Case{
		Name: "lists and a writer",
		Lines: []compare.Line{
			{Row: 28, What: "writes with 4 readers that list 200k", Unit: compare.PerSecond, Key: "writes", Goal: compare.Times(50), Chart: true},
			{Row: 28, What: "lists of 200k with a writer", Unit: compare.PerSecond, Key: "lists"},
		},
		Setup: func(c compare.Config) ([]compare.Side, func()) {
			const n = 200_000
			s := newStores(pods.Light(n), 1)
			next := pods.Next(s.pods[:10_000], 20_000, n)
			window := time.Duration(c.N(1500, 700)) * time.Millisecond
			return both(func(side string) compare.Sample {
				list := func(int) { check(len(s.clientGo.List()) == n, "Indexer.List") }
				write := func(i int) { check(s.clientGo.Update(next[i%len(next)]) == nil, "Update") }
				if side == compare.LW {
					list = func(int) { check(len(s.lw.List()) == n, "List") }
					write = func(i int) { s.lw.Set(next[i%len(next)]) }
				}
				l := busy(4, 1, list, write, nil, window)
				return compare.Sample{"writes": float64(l.writes) / l.took.Seconds(), "lists": float64(l.reads) / l.took.Seconds()}
			}), nil
		},
	}
}
