package rows

import (
	"fmt"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/watch"

	"github.com/go-lw/lw/bench/internal/compare"
	"github.com/go-lw/lw/bench/internal/feed"
	"github.com/go-lw/lw/bench/internal/measure"
	"github.com/go-lw/lw/bench/internal/pods"
)

const (
	everyUpdate = "lw" // each handler is called for each event, as with client-go
	netChanges  = "lw, net changes"
	overChannel = "lw, channel"
)

// Pipeline measures events from the decoded object to the last call of the last handler. A watch of
// 10k pods sends Modified events as fast as they are taken, and the handlers do nothing. client-go
// takes the events from an unbuffered channel, as it does from its decoder. lw takes them in its
// source's goroutine, as it does from its HTTP source. lw's handlers ask for every update, so that
// both sides make the same number of calls.
//
// Two more sides show lw with default handlers, which receive the net effect when they are behind,
// and lw fed by the same channel as client-go.
//
// The events do not fit into the processor's cache. So the feed reads each pod before it passes it
// on, as a decoder would have. The cost of that is measured alone and subtracted.
//
// The CPU is what a burst costs, such as the events after a restart of the server. [Paced] is what
// most programs see.
func Pipeline(handlers int) compare.Case {
	name := fmt.Sprintf("%d handlers", handlers)
	if handlers == 1 {
		name = "1 handler"
	}
	what := func(s string) string { return "event to " + name + ", no decode, as fast as they are taken: " + s }
	return compare.Case{
		Name: "pipeline, " + name,
		Lines: []compare.Line{
			{Row: 10, What: what("CPU"), Unit: compare.Nanoseconds, Key: "cpu"},
			{Row: 10, What: what("CPU, default handlers"), Unit: compare.Nanoseconds, Key: "cpu", Side: netChanges},
			{Row: 10, What: what("CPU, fed by client-go's channel"), Unit: compare.Nanoseconds, Key: "cpu", Side: overChannel},
			{Row: 11, What: what("allocations"), Unit: compare.Count, Key: "allocs", Goal: compare.Most(0.05)},
			{Row: 11, What: what("bytes"), Unit: compare.Bytes, Key: "bytes", Goal: compare.Most(64)},
		},
		Setup: func(c compare.Config) ([]compare.Side, func()) { return eventSides(c, handlers), nil },
	}
}

// eventSides are those of [Pipeline]; the first two are client-go and lw that do the same.
func eventSides(c compare.Config, handlers int) []compare.Side {
	list := pods.Light(10_000)
	events := pods.Next(list, c.N(100_000, 40_000), len(list))
	side := func(name string, every bool, start func(*feed.Feed) feed.Informer) compare.Side {
		return compare.Side{Name: name, Measure: func() compare.Sample {
			return pipeline(list, events, handlers, every, start)
		}}
	}
	return []compare.Side{
		side(compare.ClientGo, false, feed.ClientGo),
		side(everyUpdate, true, func(f *feed.Feed) feed.Informer { return feed.LW(f) }),
		side(netChanges, false, func(f *feed.Feed) feed.Informer { return feed.LW(f) }),
		side(overChannel, true, func(f *feed.Feed) feed.Informer { return feed.LW(f.PodListWatch()) }),
	}
}

func pipeline(list, events []*corev1.Pod, handlers int, every bool,
	start func(*feed.Feed) feed.Informer) compare.Sample {
	f := feed.New(list, pods.Version(len(list)), true)
	inf := start(f)
	defer inf.Stop()
	var received sync.WaitGroup
	var waits []func()
	for range handlers {
		waits = append(waits, inf.AddHandler(feed.Handler{Update: until(events[len(events)-1], &received),
			EveryUpdate: every}))
	}
	for _, wait := range waits {
		wait()
	}
	f.Watching()
	received.Add(handlers)
	used := measure.Do(func() {
		f.Send(events)
		received.Wait()
	})
	// Subtract the cost of the feed, which belongs to neither side. As above, each pod is read only
	// when the one before it has been read.
	return used.Less(measure.Do(func() {
		zero := 0
		for i := range events {
			zero = feed.Warm(events[i+zero])
		}
	})).Sample(len(events))
}

// Paced measures events at a rate that clusters have, to one handler: each comes by itself, and the
// threads have gone to sleep meanwhile. The store has an index by namespace, as a factory of
// client-go makes it. Nobody has read the objects before, so they are in main memory, and no event
// says that another is at hand. The cost of the pauses is measured alone and subtracted.
//
// It has no goal: most of what it shows is threads that wake up, which an event from the socket
// costs anyway.
func Paced(perSecond int) compare.Case {
	what := fmt.Sprintf("event to 1 handler, no decode, 1 index, %s a second: CPU", short(perSecond))
	return compare.Case{
		Name:  fmt.Sprintf("pipeline, %s a second", short(perSecond)),
		Lines: []compare.Line{{Row: 10, What: what, Unit: compare.Nanoseconds, Key: "cpu"}},
		Setup: func(c compare.Config) ([]compare.Side, func()) {
			list := pods.Light(10_000)
			events := pods.Next(list, c.N(2*perSecond, perSecond/2), len(list))
			paced := func(emit feed.Emit) error {
				for due, i := time.Now(), 0; i < len(events); i++ {
					due = due.Add(time.Second / time.Duration(perSecond))
					time.Sleep(time.Until(due))
					if err := emit(watch.Modified, events[i]); err != nil {
						return err
					}
				}
				return nil
			}
			return both(func(side string) compare.Sample {
				f := feed.New(list, pods.Version(len(list)), true)
				var received sync.WaitGroup
				inf := synced(f, side, feed.Handler{Update: until(events[len(events)-1], &received), EveryUpdate: true})
				defer inf.Stop()
				inf.IndexByNamespace()
				f.Watching()
				received.Add(1)
				used := measure.Do(func() {
					f.Play(paced)
					received.Wait()
				})
				return used.Less(measure.Do(func() {
					_ = paced(func(watch.EventType, *corev1.Pod) error { return nil })
				})).Sample(len(events))
			}), nil
		},
	}
}

// Latency measures the time from a decoded event to the handler, for one event at a time. Before
// each event there is a pause in which all goroutines go to sleep. On both sides the time begins in
// the goroutine that would have decoded the event.
func Latency() compare.Case {
	return compare.Case{
		Name: "latency",
		Lines: []compare.Line{
			{Row: 12, What: "latency to an idle handler: median", Unit: compare.Nanoseconds, Key: "p50",
				Goal: compare.Times(1.5)},
			{Row: 12, What: "latency to an idle handler: p99", Unit: compare.Nanoseconds, Key: "p99", Goal: compare.Times(2)},
		},
		Setup: func(c compare.Config) ([]compare.Side, func()) {
			list := pods.Light(1_000)
			events := pods.Next(list, c.N(4_000, 1_000), len(list))
			return both(func(side string) compare.Sample {
				f := feed.New(list, pods.Version(len(list)), true)
				took := make([]time.Duration, 0, len(events))
				var sent time.Time
				seen := make(chan struct{})
				inf := synced(f, side, feed.Handler{Update: func(_, _ *corev1.Pod) {
					took = append(took, time.Since(sent))
					seen <- struct{}{}
				}})
				defer inf.Stop()
				for _, pod := range events {
					time.Sleep(100 * time.Microsecond)
					f.Play(func(emit feed.Emit) error {
						time.Sleep(100 * time.Microsecond)
						sent = time.Now()
						return emit(watch.Modified, pod)
					})
					<-seen
				}
				return compare.Sample{
					"p50": float64(measure.Quantile(took, 0.5)), "p99": float64(measure.Quantile(took, 0.99)),
				}
			}), nil
		},
	}
}
