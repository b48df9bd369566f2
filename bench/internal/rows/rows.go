// Package rows has the cases of the comparison, apart from those over HTTP. There is one function
// for each case; its doc comment says what each side does.
package rows

import (
	"sync"

	corev1 "k8s.io/api/core/v1"

	"github.com/go-lw/lw/bench/internal/compare"
	"github.com/go-lw/lw/bench/internal/feed"
	"github.com/go-lw/lw/bench/internal/pods"
)

// Cases returns all cases that need no network, in the order of the goal table.
func Cases() []compare.Case {
	return []compare.Case{
		Pipeline(1), Pipeline(4), Pipeline(16), Paced(1_000), Paced(10_000), Latency(),
		Sync(), LateHandler(), Relist(), Get(1_000), Get(10_000), Get(100_000), List(), Lookup(10_000), Lookup(100_000),
		BlockedHandler(),
	}
}

// startOn starts an informer of the side on f. That of lw takes each event in the goroutine that
// would have decoded it.
func startOn(f *feed.Feed, side string) feed.Informer {
	if side == compare.LW {
		return feed.LW(f)
	}
	return feed.ClientGo(f)
}

// synced starts an informer of the side on f, and waits until each of the handlers has received the
// whole collection.
func synced(f *feed.Feed, side string, handlers ...feed.Handler) feed.Informer {
	inf := startOn(f, side)
	var waits []func()
	for _, h := range handlers {
		waits = append(waits, inf.AddHandler(h))
	}
	inf.WaitForSync()
	for _, wait := range waits {
		wait()
	}
	return inf
}

// both returns the sides of client-go and of lw, which both call measure.
func both(measure func(side string) compare.Sample) []compare.Side {
	return []compare.Side{
		{Name: compare.ClientGo, Measure: func() compare.Sample { return measure(compare.ClientGo) }},
		{Name: compare.LW, Measure: func() compare.Sample { return measure(compare.LW) }},
	}
}

// until returns an Update function that calls wg.Done for the update to last.
func until(last *corev1.Pod, wg *sync.WaitGroup) func(old, new *corev1.Pod) {
	return func(_, new *corev1.Pod) {
		if new == last {
			wg.Done()
		}
	}
}

// A fence is an update that is sent after others. A handler that has received it has received all
// of them.
type fence struct {
	mu   sync.Mutex
	want *corev1.Pod
	seen chan struct{}
}

func newFence() *fence { return &fence{seen: make(chan struct{}, 1)} }

func (f *fence) update(_, new *corev1.Pod) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if new == f.want {
		f.seen <- struct{}{}
	}
}

// pass sends a version of pod, that of the i-th write, and waits until the handler has received it.
func (f *fence) pass(fd *feed.Feed, pod *corev1.Pod, i int) {
	next := pods.Touch(pod, i)
	f.mu.Lock()
	f.want = next
	f.mu.Unlock()
	fd.Send([]*corev1.Pod{next})
	<-f.seen
}
