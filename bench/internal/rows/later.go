package rows

import (
	"time"

	corev1 "k8s.io/api/core/v1"

	"github.com/go-lw/lw/bench/internal/compare"
	"github.com/go-lw/lw/bench/internal/feed"
	"github.com/go-lw/lw/bench/internal/measure"
	"github.com/go-lw/lw/bench/internal/pods"
)

// LateHandler adds a handler to an informer of 100k pods while an event comes every millisecond. It
// measures the time of the call, the cost until the new handler has received all pods, and the
// worst latency of an event to the handler that was there before, in that time.
func LateHandler() compare.Case {
	return compare.Case{
		Name: "late handler",
		Lines: []compare.Line{
			{Row: 15, What: "late handler, 100k objects: the call", Unit: compare.Nanoseconds, Key: "call", Goal: compare.Most(1e6)},
			{Row: 15, What: "late handler, 100k objects: worst latency of live events", Unit: compare.Nanoseconds, Key: "live", Goal: compare.Times(100)},
			{Row: 15, What: "late handler, 100k objects: allocations an object", Unit: compare.Count, Key: "allocs", Goal: compare.Most(0.05)},
			{Row: 15, What: "late handler, 100k objects: CPU an object", Unit: compare.Nanoseconds, Key: "cpu"},
		},
		Setup: func(compare.Config) ([]compare.Side, func()) {
			list := pods.Light(100_000)
			return both(func(side string) compare.Sample {
				f := feed.New(list, pods.Version(len(list)), true)
				l := newLive(list)
				inf := synced(f, side, feed.Handler{Update: l.update})
				defer inf.Stop()
				add := func() (call time.Duration) {
					start := time.Now()
					synced := inf.AddHandler(feed.Handler{Add: func(*corev1.Pod) {}})
					call = time.Since(start)
					synced()
					return call
				}
				// Measure the CPU without events, so that theirs is not counted.
				sample := measure.Do(func() { add() }).Sample(len(list))
				_, took := l.during(f, func() { sample["call"] = float64(add()) })
				sample["live"] = float64(worst(took))
				return sample
			}), nil
		},
	}
}

// Resync measures a resync of 100k pods, once a second, with a handler that does nothing. The CPU
// is that of the process from the end of one resync to the end of the next; apart from the resync
// the process is idle. The latency is that of an event every millisecond to another handler, which
// has no resync. It is the worst from 5 ms before the first call of the resync until its last call,
// and is compared with the worst of as many events without a resync.
func Resync() compare.Case {
	return compare.Case{
		Name: "resync",
		Lines: []compare.Line{
			{Row: 16, What: "resync of 100k: CPU an object", Unit: compare.Nanoseconds, Key: "cpu", Goal: compare.Times(50), Chart: true},
			{Row: 16, What: "resync of 100k: worst latency of another handler", Unit: compare.Nanoseconds, Key: "other"},
			{Row: 16, What: "resync of 100k: the same, to that without a resync", Unit: compare.Ratio, Key: "slower", Goal: compare.Most(2)},
		},
		Setup: func(compare.Config) ([]compare.Side, func()) {
			list := pods.Light(100_000)
			return both(func(side string) compare.Sample { return resync(list, side) }), nil
		},
	}
}

func resync(list []*corev1.Pod, side string) compare.Sample {
	f := feed.New(list, pods.Version(len(list)), true)
	l := newLive(list)
	var first time.Time // when the first call of the current resync came
	calls, all := 0, make(chan time.Time, 1)
	h := feed.Handler{Resync: time.Second, Update: func(old, new *corev1.Pod) {
		if old != new {
			return
		}
		if calls++; calls%len(list) == 1 {
			first = time.Now()
		} else if calls%len(list) == 0 {
			all <- first
		}
	}}
	var inf feed.Informer
	if side == compare.LW {
		inf = feed.LW(f)
	} else {
		inf = feed.ClientGo(f, time.Second)
	}
	defer inf.Stop()
	waits := []func(){inf.AddHandler(h), inf.AddHandler(feed.Handler{Update: l.update})}
	for _, wait := range waits {
		wait()
	}
	// From the end of one resync to the end of the next there is exactly one, whenever it begins.
	<-all
	before := measure.CPU()
	<-all
	sample := compare.Sample{"cpu": float64(measure.CPU()-before) / float64(len(list))}
	_, idle := l.during(f, func() { time.Sleep(300 * time.Millisecond) })
	var began time.Time
	sent, took := l.during(f, func() {
		<-all
		began = <-all
	})
	begin := 0
	for begin < len(sent)-1 && sent[begin].Before(began.Add(-5*time.Millisecond)) {
		begin++
	}
	took = took[begin:]
	sample["other"] = float64(worst(took))
	sample["slower"] = float64(worst(took)) / float64(usual(idle, len(took)))
	return sample
}

// Relist measures a relist that changes nothing. The watch ends with 410 Gone, and the list has the
// same 100k pods, decoded again. The measurement ends when an event after the list has reached the
// handler. Afterwards the store has the objects of the first list or of the second, as the side
// prefers.
func Relist() compare.Case {
	return compare.Case{
		Name: "relist",
		Lines: []compare.Line{
			{Row: 17, What: "relist of 100k, unchanged: CPU an object", Unit: compare.Nanoseconds, Key: "cpu", Goal: compare.Times(10), Chart: true},
			{Row: 17, What: "relist of 100k, unchanged: allocations an object", Unit: compare.Count, Key: "allocs", Goal: compare.Most(0.1)},
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
