package main

import (
	"fmt"
	"io"
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"github.com/go-lw/lw"
	"github.com/go-lw/lw/bench/internal/simulate"
)

// program is one run.
type program struct {
	out, log io.Writer
	divide   int    // all numbers of clients are divided by this
	only     string // the name of the only part to run; "": all
}

// run prints the tables.
func (p program) run(t *testing.T) error {
	known := false
	for _, part := range []struct {
		name string
		run  func(*testing.T) error
	}{{"starts", p.starts}, {"restarts", p.restarts}, {"outages", p.outages}} {
		if p.only != "" && p.only != part.name {
			continue
		}
		known = true
		if err := part.run(t); err != nil {
			return err
		}
	}
	if !known {
		return fmt.Errorf("no part is named %q", p.only)
	}
	return nil
}

const cores = 16 // of the server

// patience is how long the clients have in a scenario.
const patience = time.Hour

// lists are the ways to begin.
var lists = []struct {
	name   string
	client func() simulate.Client
}{
	{"lw, auto", func() simulate.Client { return simulate.LW(lw.Options{}) }},
	{"lw, SyncBudget 1 min", func() simulate.Client { return simulate.LW(lw.Options{SyncBudget: time.Minute}) }},
	{"lw, pages", func() simulate.Client { return simulate.LW(lw.Options{List: lw.ListPages}) }},
	{"lw, whole", func() simulate.Client { return simulate.LW(lw.Options{List: lw.ListWhole}) }},
	{"client-go", simulate.ClientGo},
}

// starts simulates clients that all start within a second.
func (p program) starts(t *testing.T) error {
	fmt.Fprintln(p.out, "| clients | objects | client | half follow after | all follow after | requests | 429 | most lists at a time | server CPU | sent |")
	fmt.Fprintln(p.out, "|---|---|---|---|---|---|---|---|---|---|")
	for _, size := range []struct{ clients, objects int }{{100, 10_000}, {1000, 10_000}, {10_000, 1000}} {
		clients := size.clients / p.divide
		for _, l := range lists {
			began := time.Now()
			r := simulate.Start{Model: simulate.Kube(cores, size.objects), Clients: clients, Client: l.client(),
				Within: time.Second, Wait: patience}.Run(t)
			p.took(fmt.Sprintf("start %d %s", clients, l.name), began)
			all := r.Requests()
			fmt.Fprintf(p.out, "| %d | %d | %s | %s | %s | %d | %d | %d | %s | %.1f GB |\n", clients, size.objects, l.name,
				seconds(half(r)),
				seconds(r.Watching), sum(all), r.Busy, r.Lists, seconds(r.CPU), float64(r.Bytes)/1e9)
		}
	}
	fmt.Fprintln(p.out)
	return nil
}

// restarts simulates a server that dies and comes back.
func (p program) restarts(t *testing.T) error {
	fmt.Fprintln(p.out,
		"| the server | client | half follow after | all follow after | requests | most in a second | 429 | 410 |")
	fmt.Fprintln(p.out, "|---|---|---|---|---|---|---|---|")
	clients := 1000 / p.divide
	kinds := []struct {
		name        string
		down, fills time.Duration
		lost, quiet bool
	}{
		{"another takes over at once, versions kept", 0, 0, false, false},
		{"the same, without events", 0, 0, false, true},
		{"another takes over at once, versions lost", 0, 0, true, false},
		{"away for 10 s, versions kept", 10 * time.Second, 5 * time.Second, false, false},
		{"away for 10 s, versions lost", 10 * time.Second, 5 * time.Second, true, false},
	}
	for _, kind := range kinds {
		for _, c := range backoffs {
			if kind.down == 0 && c.custom {
				continue // there is nothing to wait for
			}
			model := simulate.Kube(cores, 10_000)
			if kind.quiet {
				model.Events = 0
			}
			began := time.Now()
			r := simulate.Restart{Model: model, Clients: clients, Client: c.client(), Down: kind.down, Fills: kind.fills,
				Lost: kind.lost,
				Wait: patience, After: 30 * time.Second}.Run(t)
			p.took(fmt.Sprintf("%s, %s", kind.name, c.name), began)
			fmt.Fprintf(p.out, "| %s | %s | %s | %s | %d | %d | %d | %d |\n", kind.name, c.name, seconds(half(r)),
				seconds(r.Watching), sum(r.Requests()),
				r.PeakSecond(), r.Busy, r.Expired)
		}
	}
	fmt.Fprintln(p.out)
	return nil
}

// backoffs are clients that wait in different ways.
var backoffs = []struct {
	name   string
	client func() simulate.Client
	custom bool // it has a Backoff of its own
}{
	{"lw", func() simulate.Client { return simulate.LW(lw.Options{}) }, false},
	{"lw, pauses up to 8 s", func() simulate.Client { return simulate.LW(lw.Options{Backoff: upTo(8 * time.Second)}) },
		true},
	{"lw, no random part", func() simulate.Client { return simulate.LW(lw.Options{Backoff: exact}) }, true},
	{"client-go", simulate.ClientGo, false},
}

// exact doubles without a random part.
func exact(failures int) time.Duration {
	return min(800*time.Millisecond<<min(failures-1, 6), 30*time.Second)
}

// upTo returns a backoff that doubles with a random part, and whose base ends at most.
func upTo(most time.Duration) func(int) time.Duration {
	return func(failures int) time.Duration {
		base := min(exact(failures), most)
		return base/2 + rand.N(base)
	}
}

// outages simulates a server that is away for minutes: when do the clients ask?
func (p program) outages(t *testing.T) error {
	fmt.Fprintln(p.out, "| client | requests in 3 min | in the busiest second | in the busiest tenth of a second after the first minute | mean of that time | all follow after |")
	fmt.Fprintln(p.out, "|---|---|---|---|---|---|")
	const away = 3 * time.Minute
	clients := 10_000 / p.divide
	for _, c := range backoffs {
		began := time.Now()
		r := simulate.Restart{Model: simulate.Kube(cores, 100), Clients: clients, Client: c.client(), Down: away,
			Wait: patience}.Run(t)
		p.took("outage, "+c.name, began)
		all := r.Requests()
		first, last := int(time.Minute/tenth), int(away/tenth)
		late := all[first:min(last, len(all))]
		fmt.Fprintf(p.out, "| %s | %d | %d | %d | %.0f | %s |\n", c.name, sum(all[:min(last, len(all))]), r.PeakSecond(),
			slices.Max(late),
			float64(sum(late))/float64(len(late)), seconds(r.Watching))
	}
	fmt.Fprintln(p.out)
	return nil
}

const tenth = time.Second / 10

// half returns when half of the clients watched.
func half(r simulate.Record) time.Duration {
	if len(r.Served) == 0 {
		return 0
	}
	slices.Sort(r.Served)
	return r.Served[(len(r.Served)-1)/2]
}

func sum(values []int) (n int) {
	for _, v := range values {
		n += v
	}
	return n
}

// seconds formats a duration; 0 is one that has not ended.
func seconds(d time.Duration) string {
	switch {
	case d == 0:
		return "never"
	case d < 10*time.Second:
		return fmt.Sprintf("%.1f s", d.Seconds())
	case d < 10*time.Minute:
		return fmt.Sprintf("%.0f s", d.Seconds())
	}
	return fmt.Sprintf("%.0f min", d.Minutes())
}

func (p program) took(what string, began time.Time) {
	fmt.Fprintf(p.log, "%-60s %5.1f s\n", what, time.Since(began).Seconds())
}
