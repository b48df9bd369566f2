package main

import (
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"time"

	"golang.org/x/sync/errgroup"
)

// A test is one test, example or fuzz target with its seeds.
type test struct {
	suite *suite
	name  string
	took  time.Duration
	seen  map[int]bool // the mutants that it comes by
}

// trace runs each test once, alone and without a mutant. One that fails here is not counted on:
// some count allocations, and the switches of the mutants have changed what is inlined.
func (w *workshop) trace() error {
	var all []*test
	for _, s := range w.suites {
		out, _, err := w.run(s, s.binary, time.Minute, nil, "-test.list", ".")
		if err != nil {
			return err
		}
		for _, name := range strings.Fields(out) {
			if strings.HasPrefix(name, "Test") || strings.HasPrefix(name, "Fuzz") || strings.HasPrefix(name, "Example") {
				s.tests = append(s.tests, &test{suite: s, name: name, seen: map[int]bool{}})
			}
		}
		// What rapid writes of a failure is no part of the tree, and nobody reads a shrunk history.
		if usage, _, _ := w.run(s, s.binary, time.Minute, nil, "-help"); strings.Contains(usage, "-rapid.nofailfile") {
			s.flags = []string{"-rapid.nofailfile", "-rapid.shrinktime=1ms"}
		}
		all = append(all, s.tests...)
	}
	progress("run %d tests of %d packages once each", len(all), len(w.suites))
	var mu sync.Mutex
	each(w.opts.parallel, all, func(i int, t *test) {
		trace := filepath.Join(w.dir, "trace"+strconv.Itoa(i))
		out, took, err := w.run(t.suite, t.suite.binary, 10*time.Minute, []string{traceVariable + "=" + trace}, "-test.run", "^"+t.name+"$")
		t.took = took
		mu.Lock()
		defer mu.Unlock()
		if err != nil {
			w.failing = append(w.failing, t.suite.path+" "+t.name)
			if w.opts.verbose {
				progress("%s fails without a mutant: %s", t.name, out)
			}
			return
		}
		data, _ := os.ReadFile(trace) // none: it comes by nothing
		for _, line := range strings.Fields(string(data)) {
			n, _ := strconv.Atoi(line)
			t.seen[n] = true
		}
	})
	for _, name := range w.failing {
		progress("fails without a mutant, and is left out: %s", name)
	}
	return nil
}

// each calls do for all of list, so many at a time.
func each[T any](parallel int, list []T, do func(i int, v T)) {
	var pool errgroup.Group
	pool.SetLimit(max(1, parallel))
	for i, v := range list {
		pool.Go(func() error {
			do(i, v)
			return nil
		})
	}
	_ = pool.Wait() // no call returns an error
}
