// Package rows is the table of what is compared: one function a case, whose doc comment says what each side does.
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
		Pipeline(1), Pipeline(4), Pipeline(16), Latency(),
		Sync(), LateHandler(), Resync(), Relist(),
		ReplaceStall(),
		Get(1_000), Get(10_000), Get(100_000), GetWhileWriting(),
		List(), Lookup(10_000), Lookup(100_000),
		Update(0), Update(1), Update(3), Load(0), Load(1), Load(3),
		BlockedHandler(), IdleHandler(), WriteWhileListing(), Overhead(),
	}
}

// startOn returns a running informer of the side on f. LW's takes each event in the goroutine that would have decoded it.
func startOn(f *feed.Feed, side string) feed.Informer {
	if side == compare.LW {
		return feed.LW(f)
	}
	return feed.ClientGo(f, 0)
}

// synced returns a running informer on a streaming feed of list, of which each of the handlers has been told all.
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

// both returns client-go's side and lw's, which do the same.
func both(measure func(side string) compare.Sample) []compare.Side {
	return []compare.Side{
		{Name: compare.ClientGo, Measure: func() compare.Sample { return measure(compare.ClientGo) }},
		{Name: compare.LW, Measure: func() compare.Sample { return measure(compare.LW) }},
	}
}

// until is an Update function that ends wg's wait for it at the version last.
func until(last *corev1.Pod, wg *sync.WaitGroup) func(old, new *corev1.Pod) {
	return func(_, new *corev1.Pod) {
		if new == last {
			wg.Done()
		}
	}
}

// A fence is a version of a pod that is sent behind others: the handler that has been told of it has been told of all.
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

// pass sends a version of pod, that of the i-th write, and waits until the handler has been told of it.
func (f *fence) pass(fd *feed.Feed, pod *corev1.Pod, i int) {
	next := pods.Touch(pod, i)
	f.mu.Lock()
	f.want = next
	f.mu.Unlock()
	fd.Send([]*corev1.Pod{next})
	<-f.seen
}
