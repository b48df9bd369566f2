package main

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"runtime/pprof"
	"slices"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// A meter measures the lag of each handler call in a storm.
type meter struct {
	mu    sync.Mutex      // guards what follows
	began bool            // the storm has begun
	lags  []time.Duration // from the write to the handler call
	last  time.Time       // of the last handler call
	ends  int             // number of collections whose last write has come
	done  chan struct{}   // closed when the last writes of both collections have come
}

// observe is called by the handlers. Every write of a storm has the time at which it was sent in an
// annotation. The last write of a collection is one of the object lastName.
func (m *meter) observe(obj metav1.Object) {
	now := time.Now()
	m.mu.Lock()
	defer m.mu.Unlock()
	if !m.began {
		return
	}
	sent, err := strconv.ParseInt(obj.GetAnnotations()[sentAnnotation], 10, 64)
	if err != nil {
		return
	}
	m.lags = append(m.lags, now.Sub(time.Unix(0, sent)))
	m.last = now
	if obj.GetName() == lastName {
		if m.ends++; m.ends == 2 {
			close(m.done)
		}
	}
}

// follow is the main function of a child: it syncs, measures a storm, and prints the result.
func follow(ctx context.Context, arg string) error {
	var a assignment
	if err := json.Unmarshal([]byte(arg), &a); err != nil {
		return err
	}
	start, ok := followers[a.Follower]
	if !ok {
		return fmt.Errorf("no follower is named %q", a.Follower)
	}
	c, err := newConnection(a)
	if err != nil {
		return err
	}
	m := &meter{done: make(chan struct{})}
	r := result{Follower: a.Follower, Encoding: a.Encoding}
	began, cpu := time.Now(), cpuTime()
	if err := start(ctx, c, m.observe); err != nil {
		return err
	}
	r.Sync, r.SyncCPU = time.Since(began).Seconds(), (cpuTime() - cpu).Seconds()
	r.PeakRSS = peakRSS()
	runtime.GC()
	var mem runtime.MemStats
	runtime.ReadMemStats(&mem)
	r.LiveHeap = float64(mem.HeapAlloc)
	fmt.Println("synced")

	in := bufio.NewScanner(os.Stdin)
	if !in.Scan() || in.Text() != "begin" {
		return fmt.Errorf("the parent is gone")
	}
	go func() {
		in.Scan() // returns when the parent is gone
		os.Exit(1)
	}()
	m.mu.Lock()
	m.began = true
	m.mu.Unlock()
	stopProfile, err := profile(a)
	if err != nil {
		return err
	}
	began, cpu = time.Now(), cpuTime()
	fmt.Println("begun")
	select {
	case <-m.done:
	case <-ctx.Done():
		return ctx.Err()
	}
	r.StormCPU = (cpuTime() - cpu).Seconds()
	stopProfile()
	m.mu.Lock()
	defer m.mu.Unlock()
	r.Told, r.Took = float64(len(m.lags)), m.last.Sub(began).Seconds()
	slices.Sort(m.lags)
	r.LagP50, r.LagP99 = m.lags[len(m.lags)/2].Seconds(), m.lags[len(m.lags)*99/100].Seconds()
	r.Watches, r.Lists = float64(c.watches.Load()), float64(c.lists.Load())
	return json.NewEncoder(os.Stdout).Encode(r)
}

// profile starts a CPU profile if one is wanted. stop ends it.
func profile(a assignment) (stop func(), err error) {
	if a.Profiles == "" {
		return func() {}, nil
	}
	file, err := os.Create(filepath.Join(a.Profiles, a.Follower+"-"+a.Encoding+".pprof"))
	if err != nil {
		return nil, err
	}
	if err := pprof.StartCPUProfile(file); err != nil {
		return nil, err
	}
	return func() {
		pprof.StopCPUProfile()
		file.Close()
	}, nil
}

// cpuTime returns the CPU time, user and system, that this process has used.
func cpuTime() time.Duration {
	var use syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &use); err != nil {
		panic(err)
	}
	return time.Duration(use.Utime.Nano() + use.Stime.Nano())
}

// peakRSS returns the peak resident memory of this process in bytes.
func peakRSS() float64 {
	status, err := os.ReadFile("/proc/self/status")
	if err != nil {
		return 0
	}
	for line := range strings.Lines(string(status)) {
		if rest, ok := strings.CutPrefix(line, "VmHWM:"); ok {
			kb, _ := strconv.ParseFloat(strings.TrimSuffix(strings.TrimSpace(rest), " kB"), 64)
			return kb * 1024
		}
	}
	return 0
}
