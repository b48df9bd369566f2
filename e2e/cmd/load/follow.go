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

// A meter takes what handlers are told in a storm.
type meter struct {
	mu    sync.Mutex
	began bool            // guarded by mu, as all below
	lags  []time.Duration //
	last  time.Time       //
	ends  int             // collections whose last write has been told
	done  chan struct{}
}

// told is called by the handlers. Every write of a storm says when it was sent, and the last one of a collection that it is.
func (m *meter) told(obj metav1.Object) {
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

// follow is what a child does.
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
	if err := start(ctx, c, m.told); err != nil {
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
		in.Scan() // until the parent is gone
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

// profile starts a CPU profile if one is asked for.
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

// cpuTime is what this process has used, user and system.
func cpuTime() time.Duration {
	var use syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &use); err != nil {
		panic(err)
	}
	return time.Duration(use.Utime.Nano() + use.Stime.Nano())
}

// peakRSS is the most memory that this process has had, in bytes.
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
