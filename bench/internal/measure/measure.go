// Package measure measures the CPU time, wall time, allocations and heap of the process during a
// piece of work.
package measure

import (
	"fmt"
	"math"
	"os"
	"runtime"
	"runtime/metrics"
	"runtime/pprof"
	"slices"
	"time"

	"golang.org/x/sys/unix"
)

// Usage is what a piece of work costs the whole process. CPU is the user and system time of all
// threads, with the garbage collector.
type Usage struct {
	CPU, Wall     time.Duration
	Allocs, Bytes uint64 // everything that was allocated, also if it was freed since
}

// Do collects garbage, then runs work and returns its usage.
func Do(work func()) Usage {
	var before, after runtime.MemStats
	runtime.GC()
	runtime.ReadMemStats(&before)
	cpu, start := CPU(), time.Now()
	work()
	u := Usage{Wall: time.Since(start), CPU: CPU() - cpu}
	runtime.ReadMemStats(&after)
	u.Allocs, u.Bytes = after.Mallocs-before.Mallocs, after.TotalAlloc-before.TotalAlloc
	return u
}

// Less returns u minus o.
func (u Usage) Less(o Usage) Usage {
	return Usage{CPU: u.CPU - o.CPU, Wall: u.Wall - o.Wall, Allocs: u.Allocs - min(u.Allocs, o.Allocs),
		Bytes: u.Bytes - min(u.Bytes, o.Bytes)}
}

// Plus returns the sum of u and o.
func (u Usage) Plus(o Usage) Usage {
	return Usage{CPU: u.CPU + o.CPU, Wall: u.Wall + o.Wall, Allocs: u.Allocs + o.Allocs, Bytes: u.Bytes + o.Bytes}
}

// Profile calls work and writes a CPU profile of it to file.
func Profile(file string, work func()) error {
	f, err := os.Create(file)
	if err != nil {
		return err
	}
	defer f.Close()
	if err := pprof.StartCPUProfile(f); err != nil {
		return err
	}
	work()
	pprof.StopCPUProfile()
	return f.Close()
}

// Sample returns u divided by n operations, in nanoseconds and bytes, with the keys cpu, wall,
// allocs and bytes.
func (u Usage) Sample(n int) map[string]float64 {
	per := 1 / float64(n)
	return map[string]float64{
		"cpu": float64(u.CPU) * per, "wall": float64(u.Wall) * per,
		"allocs": float64(u.Allocs) * per, "bytes": float64(u.Bytes) * per,
	}
}

// CPU returns the CPU time that the process has used. Unlike getrusage it includes the current time
// slice of running threads.
func CPU() time.Duration { return clock(unix.CLOCK_PROCESS_CPUTIME_ID) }

func clock(id int32) time.Duration {
	var ts unix.Timespec
	if err := unix.ClockGettime(id, &ts); err != nil {
		panic(fmt.Sprintf("measure: CPU: %v", err))
	}
	return time.Duration(ts.Nano())
}

// Live returns the bytes of heap and stack in use after a collection. It collects twice, because
// the first collection may only run finalizers and empty pools.
func Live() (heap, stack uint64) {
	runtime.GC()
	runtime.GC()
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return m.HeapAlloc, m.StackInuse
}

// Peak runs work and returns the largest growth of the heap meanwhile, garbage included. It looks
// every half millisecond.
func Peak(work func()) uint64 {
	runtime.GC()
	sample := []metrics.Sample{{Name: "/memory/classes/heap/objects:bytes"}}
	read := func() uint64 {
		metrics.Read(sample)
		return sample[0].Value.Uint64()
	}
	base := read()
	peak := base
	stop, stopped := make(chan struct{}), make(chan struct{})
	go func() {
		defer close(stopped)
		t := time.NewTicker(500 * time.Microsecond)
		defer t.Stop()
		for {
			peak = max(peak, read())
			select {
			case <-t.C:
			case <-stop:
				return
			}
		}
	}()
	work()
	close(stop)
	<-stopped
	return peak - base
}

// Quantile returns the q-quantile of values, which it sorts; q is from 0 to 1.
func Quantile[T float64 | time.Duration](values []T, q float64) T {
	slices.Sort(values)
	return values[max(0, int(math.Ceil(q*float64(len(values))))-1)]
}
