package main

import (
	"context"
	"errors"
	"log/slog"
	"net/http/httptest"
	"slices"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/go-lw/lw/lwtest"
)

// A bubble has a clock of its own, so that minutes take no time. What goes on in it is over when
// its test ends, or the test fails.

func TestDemo(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		if err := demo(t.Context(), t.Output(), nil); err != nil {
			t.Error(err)
		}
	})
}

// start runs a controller as a pod does: if it ends, another one is started. The controller that
// runs is stopped by stop.
func start(t *testing.T, w *world) (current func() *Controller, stop func()) {
	var c atomic.Pointer[Controller]
	begin := func() *Controller {
		next, err := New(w.config(), "", slog.New(slog.NewTextHandler(t.Output(), nil)))
		if err != nil {
			panic(err)
		}
		c.Store(next)
		return next
	}
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan struct{})
	go func(c *Controller) {
		defer close(ended)
		for err := c.Run(ctx); err != nil; err = begin().Run(ctx) {
			if !errors.Is(err, errLost) {
				t.Errorf("Run: %v", err)
			}
		}
	}(begin())
	return c.Load, func() { cancel(); <-ended }
}

// write creates a Website, or replaces its pages.
func write(t *testing.T, w *world, name string, pages map[string]string) {
	t.Helper()
	if err := w.write(name, pages); err != nil {
		t.Fatal(err)
	}
}

// The controller does its work, whatever befalls its server. This is the test that a controller
// needs most.
func TestOutages(t *testing.T) {
	for _, outage := range lwtest.Outages() {
		t.Run(outage.Name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				w := newWorld()
				defer w.Close()
				write(t, w, "old", map[string]string{"home": "1"})
				current, stop := start(t, w)
				defer stop()
				time.Sleep(time.Minute)
				if err := w.check(current()); err != nil {
					t.Fatal(err)
				}

				outage.Do(w.Server)
				synctest.Wait()
				write(t, w, "old", map[string]string{"home": "2", "more": "3"})
				write(t, w, "new", map[string]string{"home": "4"})
				time.Sleep(outage.Lasts / 2)
				write(t, w, "old", map[string]string{"more": "3"})
				time.Sleep(outage.Lasts + 5*time.Minute)
				if err := w.check(current()); err != nil {
					t.Error(err)
				}
			})
		})
	}
}

// Of two controllers one works. When it stops, the other one goes on at once.
func TestTakeover(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld()
		defer w.Close()
		_, stopFirst := start(t, w)
		time.Sleep(time.Second)
		second, stopSecond := start(t, w)
		defer stopSecond()
		write(t, w, "a", map[string]string{"home": "1"})
		time.Sleep(time.Minute)
		before := len(w.Requests(lwtest.Create))
		if err := w.check(second()); err != nil || before != 2 {
			t.Errorf("%d objects were created, want a lease and a page: %v", before, err)
		}
		stopFirst()
		write(t, w, "a", map[string]string{"home": "2"})
		time.Sleep(5 * time.Second)
		if err := w.check(second()); err != nil {
			t.Error(err)
		}
	})
}

// Although its informers are slow, the controller does nothing twice: it reads its own writes.
func TestReadsItsWrites(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld()
		defer w.Close()
		for _, verb := range []lwtest.Verb{lwtest.Watch, lwtest.Stream} {
			w.Inject(lwtest.Fault{Verb: verb, Plural: "configmaps", Times: -1, Effect: lwtest.Slow(time.Second)})
		}
		current, stop := start(t, w)
		defer stop()
		time.Sleep(time.Minute)
		pages := map[string]string{"a": "1", "b": "2", "c": "3"}
		for range 3 {
			write(t, w, "site", pages)
			time.Sleep(100 * time.Millisecond)
			delete(pages, "a")
		}
		time.Sleep(time.Minute)
		if err := w.check(current()); err != nil {
			t.Error(err)
		}
		var codes []int
		for _, r := range w.Requests(lwtest.Create) {
			if r.Plural == "configmaps" {
				codes = append(codes, r.Code)
			}
		}
		if want := []int{201, 201, 201}; !slices.Equal(want, codes) {
			t.Errorf("the creations of three pages were answered with %d", codes)
		}
	})
}

// A server that is down makes the controller unhealthy after a minute, but not dead.
func TestProbes(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld()
		defer w.Close()
		w.SetDown(true)
		current, stop := start(t, w)
		expect := func(path string, want int) {
			t.Helper()
			answer := httptest.NewRecorder()
			current().Handler().ServeHTTP(answer, httptest.NewRequest("GET", path, nil))
			if answer.Code != want {
				t.Errorf("%s: %d, want %d: %s", path, answer.Code, want, answer.Body)
			}
		}
		expect("/healthz", 503) // not synced
		expect("/livez", 200)
		w.SetDown(false)
		time.Sleep(time.Minute)
		expect("/healthz", 200)
		w.SetDown(true)
		time.Sleep(2 * time.Minute)
		expect("/healthz", 503)
		expect("/livez", 200)
		w.SetDown(false)
		time.Sleep(2 * time.Minute)
		expect("/healthz", 200)
		stop()
		expect("/livez", 503)
	})
}
