package rows

import (
	"sync/atomic"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/watch"

	"github.com/go-lw/lw/bench/internal/feed"
	"github.com/go-lw/lw/bench/internal/measure"
	"github.com/go-lw/lw/bench/internal/pods"
)

// liveEvery is the time between two events of a live stream.
const liveEvery = time.Millisecond

// live is a stream of events at a constant rate, with the latency of each event to a handler. If
// the informer does not take an event in time, the latency counts from the time at which the event
// was due. So a long stop shows in all events that were due during it, not only in the first.
type live struct {
	events []*corev1.Pod
	sent   []time.Time     // when each event was due, or was sent if only the timer was late
	took   []time.Duration // the latency of each event
	next   int             // the next event to send
	seen   atomic.Int64    // number of events that the handler has received
}

// newLive returns a stream with events for twenty seconds, which update the pods of list in turn.
func newLive(list []*corev1.Pod) *live {
	n := int(20 * time.Second / liveEvery)
	return &live{events: pods.Next(list, n, len(list)+1), sent: make([]time.Time, n), took: make([]time.Duration, n)}
}

// update is the Update function of the handler.
func (l *live) update(old, new *corev1.Pod) {
	i := int(l.seen.Load())
	if old == new || i == len(l.events) || l.events[i] != new {
		return // a resync, or an event that is not of this stream
	}
	l.took[i] = time.Since(l.sent[i])
	l.seen.Add(1)
}

// during sends events while work runs, the first one at once. It returns when the handler has
// received all of them.
func (l *live) during(f *feed.Feed, work func()) (sent []time.Time, took []time.Duration) {
	first := l.next
	var stop atomic.Bool
	ended := make(chan struct{})
	begun := make(chan struct{})
	f.Play(func(emit feed.Emit) error {
		defer close(ended)
		due := time.Now()
		for {
			l.sent[l.next] = due
			if err := emit(watch.Modified, l.events[l.next]); err != nil {
				return err
			}
			if l.next == first {
				close(begun)
			}
			l.next++
			if stop.Load() {
				return nil
			}
			due = due.Add(liveEvery)
			if wait := time.Until(due); wait > 0 {
				time.Sleep(wait)
				due = time.Now()
			}
		}
	})
	<-begun
	work()
	stop.Store(true)
	<-ended
	for int(l.seen.Load()) < l.next {
		time.Sleep(liveEvery)
	}
	return l.sent[first:l.next], l.took[first:l.next]
}

// worst returns the longest of took.
func worst(took []time.Duration) time.Duration {
	return measure.Quantile(append([]time.Duration(nil), took...), 1)
}

// usual returns the median of the longest of each n in a row.
func usual(took []time.Duration, n int) time.Duration {
	n = min(n, len(took))
	var maxima []time.Duration
	for ; len(took) >= n; took = took[n:] {
		maxima = append(maxima, worst(took[:n]))
	}
	return measure.Quantile(maxima, 0.5)
}
