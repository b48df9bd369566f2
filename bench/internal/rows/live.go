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

const liveEvery = time.Millisecond

// live is a stream of events at a steady rate, and how long each takes to a handler. An event that the informer did not take
// in time counts from when it was due, so that a long stop is felt by all events that fall into it.
type live struct {
	events []*corev1.Pod
	sent   []time.Time // when each was due, or was sent if that was later by the timer's fault
	took   []time.Duration
	next   int
	seen   atomic.Int64 // how many the handler has been told
}

// newLive returns a stream of the versions of list's pods that are sent in twenty seconds.
func newLive(list []*corev1.Pod) *live {
	n := int(20 * time.Second / liveEvery)
	return &live{events: pods.Next(list, n, len(list)+1), sent: make([]time.Time, n), took: make([]time.Duration, n)}
}

// update is the Update function of the handler.
func (l *live) update(old, new *corev1.Pod) {
	i := int(l.seen.Load())
	if old == new || i == len(l.events) || l.events[i] != new {
		return // a resync, or an event of somebody else
	}
	l.took[i] = time.Since(l.sent[i])
	l.seen.Add(1)
}

// during sends while work runs, the first event at once, and returns when all have been told.
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

// worst returns the longest of took, and usual the median of the longest of each n in a row.
func worst(took []time.Duration) time.Duration {
	return measure.Quantile(append([]time.Duration(nil), took...), 1)
}

func usual(took []time.Duration, n int) time.Duration {
	n = min(n, len(took))
	var maxima []time.Duration
	for ; len(took) >= n; took = took[n:] {
		maxima = append(maxima, worst(took[:n]))
	}
	return measure.Quantile(maxima, 0.5)
}
