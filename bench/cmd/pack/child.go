package main

import (
	"context"
	"errors"
	"math/rand/v2"
	"net/http"
	"runtime"
	"runtime/metrics"
	"slices"
	"time"

	"github.com/go-lw/lw/bench/internal/child"
	"github.com/go-lw/lw/bench/internal/compare"
	"github.com/go-lw/lw/bench/internal/measure"
	"github.com/go-lw/lw/bench/internal/pods"
	"github.com/go-lw/lw/bench/internal/wire"
)

// measure follows the server's objects, then its events, then reads.
func (j job) measure() (compare.Sample, error) {
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	added, all := 0, make(chan struct{})
	updated, last := make(chan struct{}), make(chan string, 1) // last has the version to wait for
	until := ""
	s, err := j.side(told{
		add: func() {
			if added++; added == j.N {
				close(all)
			}
		},
		update: func(version string) {
			if until == "" {
				until = <-last
			}
			if version == until {
				until = ""
				updated <- struct{}{}
			}
		},
	})
	if err != nil {
		return nil, err
	}
	sample := compare.Sample{}
	before, _ := measure.Live()
	do(sample, "sync", j.N, func() {
		s.start(ctx)
		<-all
	})
	if sample["peak"], err = wire.Memory("VmHWM"); err != nil {
		return nil, err
	}
	live, _ := measure.Live()
	sample["heap"] = (float64(live) - float64(before)) / float64(j.N)
	const collections = 3
	do(sample, "collection", collections, func() {
		for range collections {
			runtime.GC()
		}
	})
	versions := j.N // that the server has given
	emit := func(n int, change string) error {
		versions += n
		return child.Emit(http.DefaultClient, j.URL, n, change)
	}
	for _, change := range []string{"status", "version"} {
		last <- pods.Version(versions + j.Events - 1)
		do(sample, change, j.Events, func() {
			if err = emit(j.Events, change); err == nil {
				<-updated
			}
		})
		if err != nil {
			return nil, err
		}
	}
	if err := j.reads(s, sample); err != nil || !j.Minute {
		return sample, err
	}
	const second = 1000 // events
	last <- pods.Version(versions + 60*second - 1)
	do(sample, "minute", 1, func() {
		for tick := time.NewTicker(100 * time.Millisecond); versions < j.N+2*j.Events+60*second && err == nil; {
			err = emit(second/10, "status")
			<-tick.C
		}
		if err == nil {
			<-updated
		}
	})
	return sample, err
}

// reads measures Get: of objects that somebody has, and of those that nobody has.
func (j job) reads(s side, sample compare.Sample) (err error) {
	keys := s.keys()
	if len(keys) != j.N {
		return errors.New("objects are missing")
	}
	rand.New(rand.NewPCG(1, 2)).Shuffle(len(keys), func(a, b int) { keys[a], keys[b] = keys[b], keys[a] })
	held := make([]any, 64)
	for i := range held {
		held[i] = s.get(keys[i])
	}
	hot := 2_000_000
	if managers[j.Side] != nil {
		hot = 50_000 // each makes an object
	}
	do(sample, "hot", hot, func() {
		for i := range hot {
			if s.get(keys[i%len(held)]) == nil {
				err = errors.New("an object is gone")
			}
		}
	})
	runtime.KeepAlive(held)
	clear(held)
	runtime.GC()
	runtime.GC()
	times := make([]time.Duration, min(5000, len(keys)))
	do(sample, "cold", len(times), func() {
		for i := range times {
			start := time.Now()
			if s.get(keys[i]) == nil {
				err = errors.New("an object is gone")
			}
			times[i] = time.Since(start)
		}
	})
	sample["cold.p50"] = float64(measure.Quantile(slices.Clone(times), .5))
	sample["cold.p99"] = float64(measure.Quantile(times, .99))
	return err
}

// do puts into s the CPU time of work for each of n, and the share of the collector; if n is 1, its
// time.
func do(s compare.Sample, key string, n int, work func()) {
	before := collector()
	u := measure.Do(work)
	runtime.GC() // the figure is that of the last collection
	gc := collector() - before
	s[key+".cpu"] = float64(u.CPU) / float64(n)
	s[key+".gc"] = gc / float64(u.CPU)
	if n == 1 {
		s[key+".gc"] = gc
	}
}

// collector returns the CPU time of the garbage collector in ns, without what it does on idle
// processors.
func collector() float64 {
	s := []metrics.Sample{{Name: "/cpu/classes/gc/total:cpu-seconds"}, {Name: "/cpu/classes/gc/mark/idle:cpu-seconds"}}
	metrics.Read(s)
	return (s[0].Value.Float64() - s[1].Value.Float64()) * 1e9
}
