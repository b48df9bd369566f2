package main

import (
	"net/http/httptest"
	"os"
	"testing"
	"time"

	"github.com/go-lw/lw/bench/internal/bound"
	"github.com/go-lw/lw/bench/internal/child"
)

func TestMain(m *testing.M) {
	child.Serve(childVariable, job.measure)
	os.Exit(m.Run())
}

// With the limit a program takes less than three quarters of what it takes without, also after a
// relist and a storm of events.
func TestLimit(t *testing.T) {
	s, all, err := server(60, 900_000)
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	url, err := s.Listen()
	if err != nil {
		t.Fatal(err)
	}
	control := httptest.NewServer(storm(s, all, 60, 900_000))
	defer control.Close()
	peak := map[string]float64{}
	for _, side := range []string{packed, limited} {
		got, err := child.Run(childVariable, 2*time.Minute, job{url, control.URL, side, 60, 1, 16 << 20, 0, ""})
		if err != nil {
			t.Fatal(err)
		}
		peak[side] = got["peak"]
		if (got["requests"] > 0) != (side == limited) {
			t.Errorf("%s: %v requests", side, got["requests"])
		}
	}
	if peak[limited] > peak[packed]*3/4 {
		t.Errorf("the peaks are %.0f MiB with the limit and %.0f without", peak[limited]/(1<<20), peak[packed]/(1<<20))
	}
}

// A start that takes more than it may is killed, and that is counted; another one is not.
func TestKill(t *testing.T) {
	s, all, err := server(30, 900_000)
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	defer bound.Release()
	url, err := s.Listen()
	if err != nil {
		t.Fatal(err)
	}
	control := httptest.NewServer(storm(s, all, 30, 900_000))
	defer control.Close()
	for _, c := range []struct {
		kill   int64
		killed bool
	}{{20 << 20, true}, {1 << 30, false}} { // the objects alone take 27 MB
		_, err := child.Run(childVariable, 2*time.Minute, job{url, control.URL, packed, 30, 0, 16 << 20, c.kill, ""})
		if bound.Killed(err) != c.killed || !c.killed && err != nil {
			t.Errorf("in %d MiB: %v", c.kill>>20, err)
		}
	}
}
