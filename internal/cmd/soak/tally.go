package main

import (
	"cmp"
	"fmt"
	"maps"
	"runtime"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"
)

// A tally counts what a soak has done so far.
type tally struct {
	histories, steps, reads, calls, errors atomic.Uint64

	mu     sync.Mutex
	faults map[string]int // how often each was injected; guarded by mu
}

func (t *tally) fault(name string) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.faults[name]++
}

func (t *tally) String() string {
	return fmt.Sprintf("%d histories, %d steps, %d faults, %d reads judged, %d handler calls, %d errors reported",
		t.histories.Load(), t.steps.Load(), t.injected(), t.reads.Load(), t.calls.Load(), t.errors.Load())
}

func (t *tally) injected() (n int) {
	t.mu.Lock()
	defer t.mu.Unlock()
	for _, k := range t.faults {
		n += k
	}
	return n
}

// byFault returns how often each fault was injected, as text.
func (t *tally) byFault() string {
	t.mu.Lock()
	defer t.mu.Unlock()
	var out []string
	for _, name := range slices.Sorted(maps.Keys(t.faults)) {
		out = append(out, fmt.Sprintf("%s %d", name, t.faults[name]))
	}
	return strings.Join(out, ", ")
}

// A sample is the memory and the goroutines of the process at one moment.
type sample struct {
	at         time.Time
	heap       uint64 // bytes that are reachable
	goroutines int
}

// takeSample collects garbage and takes a sample.
func takeSample() sample {
	runtime.GC()
	runtime.GC() // a sync.Pool gives its objects up only at the second collection
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return sample{time.Now(), m.HeapAlloc, runtime.NumGoroutine()}
}

// growth compares the medians of the first and the last third of samples. It returns an error if
// the heap has grown by more than a tenth and 4 MiB, or if there are more than 20 goroutines more.
// It does not judge fewer than nine samples.
func growth(samples []sample) error {
	if len(samples) < 9 {
		return nil
	}
	third := len(samples) / 3
	// The first sample is left out: at the start pools and the first world still grow.
	first, last := samples[1:1+third], samples[len(samples)-third:]
	const slackBytes, slackGoroutines = 4 << 20, 20
	h0, h1 := median(first, func(s sample) uint64 { return s.heap }), median(last, func(s sample) uint64 { return s.heap })
	if h1 > h0+h0/10+slackBytes {
		return fmt.Errorf("the heap has grown from %d to %d KiB", h0>>10, h1>>10)
	}
	g0, g1 := median(first, func(s sample) int { return s.goroutines }), median(last, func(s sample) int { return s.goroutines })
	if g1 > g0+slackGoroutines {
		return fmt.Errorf("goroutines have grown from %d to %d", g0, g1)
	}
	return nil
}

func median[N cmp.Ordered](samples []sample, of func(sample) N) N {
	values := make([]N, len(samples))
	for i, s := range samples {
		values[i] = of(s)
	}
	slices.Sort(values)
	return values[len(values)/2]
}
