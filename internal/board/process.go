package board

import (
	"math"
	"os"
	"path/filepath"
	"runtime"
	"runtime/metrics"
)

// A Process is the program that has the board. Sizes are in bytes.
type Process struct {
	Program    string `json:"program"`
	Host       string `json:"host,omitempty"`
	Go         string `json:"go"`
	Goroutines uint64 `json:"goroutines"`
	HeapLive   uint64 `json:"heap_live_bytes"`              // after the last garbage collection
	Heap       uint64 `json:"heap_bytes"`                   // and what came since
	Memory     uint64 `json:"memory_bytes"`                 // of the Go runtime
	Limit      uint64 `json:"memory_limit_bytes,omitempty"` // GOMEMLIMIT; 0: none
}

// ThisProcess returns the numbers of now. It does not stop the world.
func ThisProcess() Process {
	samples := []metrics.Sample{
		{Name: "/sched/goroutines:goroutines"},
		{Name: "/gc/heap/live:bytes"},
		{Name: "/memory/classes/heap/objects:bytes"},
		{Name: "/memory/classes/total:bytes"},
		{Name: "/memory/classes/heap/released:bytes"},
		{Name: "/gc/gomemlimit:bytes"},
	}
	metrics.Read(samples)
	value := func(i int) uint64 {
		if samples[i].Value.Kind() != metrics.KindUint64 {
			return 0 // a later Go may have no such metric
		}
		return samples[i].Value.Uint64()
	}
	p := Process{
		Program: filepath.Base(os.Args[0]), Go: runtime.Version(), Goroutines: value(0),
		HeapLive: value(1), Heap: value(2), Memory: value(3) - value(4), Limit: value(5),
	}
	p.Host, _ = os.Hostname()
	if p.Limit == math.MaxInt64 {
		p.Limit = 0
	}
	return p
}
