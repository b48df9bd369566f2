// Command cost prints what lists and watches cost an API server: its CPU time for each listed
// object, for each question of a witness, and for each event and watcher, and the memory that it
// has for each watcher and allocates for each listed object. The simulation of bench/cmd/simulate
// takes these figures.
//
//	go run ./cmd/build generic && go run ./cmd/cost
//
// CPU time is that of the server's process, user and system. The clients read the bytes and decode
// nothing. Each has a connection of its own, as programs in a cluster have.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"log"
	"os"
	"os/signal"
	"slices"
	"time"

	"github.com/go-lw/lw/e2e/internal/servers"
)

type config struct {
	objects, rounds, watchers, events, questions int
}

func main() {
	log.SetFlags(0)
	var cfg config
	flag.IntVar(&cfg.objects, "objects", 20_000, "Pods")
	flag.IntVar(&cfg.rounds, "rounds", 3, "of each list, of which the median is printed; 0: no lists")
	flag.IntVar(&cfg.watchers, "watchers", 1_000, "each with a connection")
	flag.IntVar(&cfg.events, "events", 40, "that every watcher gets")
	flag.IntVar(&cfg.questions, "questions", 50, "of a witness, of each sort; 0: none")
	flag.Parse()
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	defer stop()
	if err := run(ctx, os.Stdout, cfg); err != nil {
		log.Fatalf("cost: %v", err)
	}
}

// run prints all that is measured to out.
func run(ctx context.Context, out io.Writer, cfg config) error {
	if err := onServer(ctx, out, cfg.objects, func(m *meter) error { return m.lists(ctx, out, cfg) }); err != nil {
		return err
	}
	if err := onServer(ctx, out, cfg.objects, func(m *meter) error { return m.witness(ctx, out, cfg) }); err != nil {
		return err
	}
	// Each has a server of its own, so that none finds memory that another has given back.
	const one = stream + "&labelSelector=instance%3Dpod-000000"
	for _, w := range []watching{
		{name: "plain watches"},
		{name: "streamed lists of 1 object", query: one},
		{name: "streamed lists of 1 object, gzip", query: one, gzip: true},
	} {
		if err := onServer(ctx, out, 100, func(m *meter) error { return m.watches(ctx, out, cfg, w) }); err != nil {
			return fmt.Errorf("%s: %w", w.name, err)
		}
	}
	return nil
}

// onServer calls f while a server runs that has so many pods.
func onServer(ctx context.Context, out io.Writer, objects int, f func(m *meter) error) error {
	dir, err := os.MkdirTemp("", "lw-cost-")
	if err != nil {
		return err
	}
	defer os.RemoveAll(dir)
	s, err := servers.New(servers.Generic, dir)
	if err != nil {
		return err
	}
	defer s.Stop()
	start, cancel := context.WithTimeout(ctx, 2*time.Minute)
	defer cancel()
	if err := s.StartEtcd(start); err != nil {
		return err
	}
	if err := seed(start, s, objects); err != nil {
		return err
	}
	before := time.Now()
	if err := s.StartAPI(start); err != nil {
		return err
	}
	m := &meter{s}
	idle, err := m.rss()
	if err != nil {
		return err
	}
	fmt.Fprintf(out, "a server with %d pods: %d MiB resident, after %v\n\n", objects, idle>>20, time.Since(before).Round(10*time.Millisecond))
	return f(m)
}

// A watching is one way to open a watch.
type watching struct {
	name  string
	query string // "": from the newest version
	gzip  bool
}

// A read is one way to read the collection.
type read struct {
	name   string
	query  string
	accept string
	gzip   bool
	pages  bool
}

const (
	collection = "/api/v1/pods"
	protobuf   = "application/vnd.kubernetes.protobuf"
	stream     = "?watch=true&sendInitialEvents=true&allowWatchBookmarks=true&resourceVersionMatch=NotOlderThan&timeoutSeconds=600"
)

var reads = []read{
	{name: "stream, protobuf", query: stream, accept: protobuf + ";stream=watch"},
	{name: "stream, protobuf, gzip", query: stream, accept: protobuf + ";stream=watch", gzip: true},
	{name: "stream, JSON", query: stream, accept: "application/json"},
	{name: "pages of 500, protobuf", query: "?limit=500", accept: protobuf, pages: true},
	{name: "pages of 500, protobuf, gzip", query: "?limit=500", accept: protobuf, pages: true, gzip: true},
	{name: "pages of 500, JSON", query: "?limit=500", accept: "application/json", pages: true},
	{name: "whole, protobuf", accept: protobuf},
	{name: "whole, protobuf, gzip", accept: protobuf, gzip: true},
	{name: "whole, JSON", accept: "application/json"},
}

// lists prints the cost of each way to read the collection.
func (m *meter) lists(ctx context.Context, out io.Writer, cfg config) error {
	if cfg.rounds == 0 {
		return nil
	}
	fmt.Fprintln(out, "| list | bytes an object | server CPU an object | time | server allocates an object |")
	fmt.Fprintln(out, "|---|---|---|---|---|")
	for _, r := range reads {
		c := newClient(m.s, r.gzip)
		var cpus, times, bytes []float64
		var size int64
		for range cfg.rounds + 1 {
			cpu, err := m.cpu()
			if err != nil {
				return err
			}
			allocated, err := m.allocated(ctx)
			if err != nil {
				return err
			}
			began := time.Now()
			if size, err = c.read(ctx, r); err != nil {
				return fmt.Errorf("%s: %w", r.name, err)
			}
			after, err := m.cpu()
			if err != nil {
				return err
			}
			cpus, times = append(cpus, float64(after-cpu)), append(times, time.Since(began).Seconds())
			now, err := m.allocated(ctx)
			if err != nil {
				return err
			}
			bytes = append(bytes, now-allocated)
		}
		// The first round fills what the server caches.
		cpus, times, bytes = cpus[1:], times[1:], bytes[1:]
		n := float64(cfg.objects)
		fmt.Fprintf(out, "| %s | %.0f | %.1f µs | %.2f s | %.0f B |\n", r.name, float64(size)/n, median(cpus)/n/1e3, median(times),
			median(bytes)/n)
		c.close()
	}
	return nil
}

// watches prints what watchers that wait take, and what each event costs.
func (m *meter) watches(ctx context.Context, out io.Writer, cfg config, w watching) error {
	before, err := m.rss()
	if err != nil {
		return err
	}
	cpu, err := m.cpu()
	if err != nil {
		return err
	}
	version, err := m.s.Revision(ctx)
	if err != nil {
		return err
	}
	query := w.query
	if query == "" {
		query = fmt.Sprintf("?watch=true&resourceVersion=%d&timeoutSeconds=600", version)
	}
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	received := make(chan int, cfg.watchers)
	opened := make(chan error, cfg.watchers)
	gate := make(chan struct{}, 16)
	for range cfg.watchers {
		go func() {
			gate <- struct{}{}
			c := newClient(m.s, w.gzip)
			defer c.close()
			body, err := c.open(ctx, collection+query, protobuf+";stream=watch")
			if err == nil && w.query != "" {
				_, err = countFrames(body, 2) // the object, and the bookmark that ends the list
			}
			<-gate
			opened <- err
			if err != nil {
				return
			}
			defer body.Close()
			n, _ := countFrames(body, cfg.events)
			received <- n
		}()
	}
	for range cfg.watchers {
		if err := <-opened; err != nil {
			return err
		}
	}
	time.Sleep(2 * time.Second)
	after, err := m.rss()
	if err != nil {
		return err
	}
	opening, err := m.cpu()
	if err != nil {
		return err
	}
	each := 1 / float64(cfg.watchers)
	fmt.Fprintf(out, "%d watchers, %s: %.1f KiB resident each, %.2f ms CPU to open each with its TLS connection\n", cfg.watchers, w.name,
		float64(after-before)/1024*each, float64(opening-cpu)/1e6*each)
	began := time.Now()
	for i := range cfg.events {
		if err := m.s.Put(ctx, map[string][]byte{objectPath(0): pod(0, i+1)}); err != nil {
			return err
		}
		// The server ends a watch whose buffer of a hundred events is full.
		time.Sleep(time.Duration(cfg.watchers) * 200 * time.Microsecond)
	}
	deliveries := 0
	for range cfg.watchers {
		select {
		case n := <-received:
			deliveries += n
		case <-time.After(time.Minute):
			return errors.New("a watcher has not received all events")
		}
	}
	took := time.Since(began)
	used, err := m.cpu()
	if err != nil {
		return err
	}
	// What the server does anyway in such a time is not the watchers'.
	cancel()
	time.Sleep(5 * time.Second)
	idle, err := m.cpu()
	if err != nil {
		return err
	}
	time.Sleep(5 * time.Second)
	idleEnd, err := m.cpu()
	if err != nil {
		return err
	}
	own := float64(used-opening) - float64(idleEnd-idle)*took.Seconds()/5
	fmt.Fprintf(out, "%d events in %v, %d of %d deliveries: %.1f µs CPU a delivery\n\n", cfg.events, took.Round(time.Millisecond),
		deliveries, cfg.events*cfg.watchers, own/1e3/float64(deliveries))
	return nil
}

func median(values []float64) float64 {
	slices.Sort(values)
	return values[len(values)/2]
}
