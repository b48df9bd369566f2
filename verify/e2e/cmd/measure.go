package main

import (
	"context"
	"flag"
	"fmt"
	"io"
	"os"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/go-lw/lw/verify/e2e/internal/servers"
)

type config struct {
	out       io.Writer
	parts     string
	rows      *regexp.Regexp
	watchers  []int
	objects   int
	clients   int
	questions int
}

// measure prints what watchers and lists cost a server: k8s.io/apiserver's generic server with its
// watch cache over etcd, and beside it a relay of package serve.
//
// CPU time is that of all threads of the server's process, without what the process uses anyway.
// What a relay spends on its own watch is part of it. A relay is a process of its own, as is what
// the "bare write" rows compare with: a program that does no more than one write(2) of an event to
// each socket. Memory is the heap and the stacks after a garbage collection, or what is resident.
// The clients decode nothing, and each has a connection of its own, as programs in a cluster have.
func measure(ctx context.Context, args []string) (err error) {
	cfg := config{out: os.Stdout}
	flags := flag.NewFlagSet("measure", flag.ContinueOnError)
	flags.StringVar(&cfg.parts, "parts", "watches,lists",
		"what to measure: watches, lists, and of the API server alone ways (to list) and questions (of a witness)")
	rows := flags.String("rows", "", "only the servers whose name matches this regular expression")
	watchers := flags.String("watchers", "10,100,1000", "how many at once, one row each")
	flags.IntVar(&cfg.objects, "objects", 10_000, "pods that are listed")
	flags.IntVar(&cfg.clients, "clients", 1_000, "that list at once; 0: none")
	flags.IntVar(&cfg.questions, "questions", 50, "of a witness, of each sort")
	if err := flags.Parse(args); err != nil {
		return err
	}
	if cfg.rows, err = regexp.Compile(*rows); err != nil {
		return err
	}
	for text := range strings.SplitSeq(*watchers, ",") {
		n, err := strconv.Atoi(text)
		if err != nil || n < 1 {
			return fmt.Errorf("-watchers: %q is not a number of watchers", text)
		}
		cfg.watchers = append(cfg.watchers, n)
	}
	return cfg.run(ctx)
}

// run measures the parts that are asked for.
func (cfg *config) run(ctx context.Context) error {
	measured := 0
	for _, part := range []struct {
		name    string
		kinds   []kind
		objects int
		pod     func(i, restarts int) []byte
		head    string
		measure func(*config, context.Context, *server) error
	}{
		{"watches", []kind{bare, kubeH2, kubeH1, relayH2, relayTLS, relayPlain}, 100, largePod,
			"server | watchers | CPU to open one | CPU a delivery | memory a watcher | resident | put to read, p50 | p99",
			(*config).watches},
		{"lists", []kind{kubeH2, relayH2, relayTLS, relayPlain}, cfg.objects, smallPod,
			"server | list | one alone: CPU | allocates | at once: CPU a list | served | refused | failed | took | peak resident", (*config).lists},
		{"ways", []kind{kubeH2}, cfg.objects, largePod,
			"list | bytes an object | server CPU an object | server allocates an object", (*config).ways},
		{"questions", []kind{kubeH2}, cfg.objects, largePod, "question | server and etcd, CPU | time", (*config).ask},
	} {
		if !slices.Contains(strings.Split(cfg.parts, ","), part.name) {
			continue
		}
		measured++
		fmt.Fprintf(cfg.out, "\n| %s |\n|%s\n", part.head, strings.Repeat("---|", strings.Count(part.head, "|")+1))
		if err := cfg.each(ctx, part.objects, part.pod, part.kinds, part.measure); err != nil {
			return fmt.Errorf("%s: %w", part.name, err)
		}
	}
	if measured < len(strings.Split(cfg.parts, ",")) {
		return fmt.Errorf("-parts: %q: watches, lists, ways, questions", cfg.parts)
	}
	return nil
}

// The servers, in the order of their rows.
var (
	kubeH2     = kind{name: "kube-apiserver, TLS, HTTP/2", tls: true, h2: true}
	kubeH1     = kind{name: "kube-apiserver, TLS, HTTP/1.1", tls: true}
	relayH2    = kind{name: "lw, TLS, HTTP/2", child: "relay", tls: true, h2: true}
	relayTLS   = kind{name: "lw, TLS, HTTP/1.1", child: "relay", tls: true}
	relayPlain = kind{name: "lw, plain, HTTP/1.1", child: "relay"}
	bare       = kind{name: "bare write(2)", child: "write"}
)

// each calls f with each server that is asked for: one after the other, each a new process over an
// etcd that has n pods.
func (cfg *config) each(ctx context.Context, n int, pod func(i, restarts int) []byte, kinds []kind,
	f func(*config, context.Context, *server) error) error {
	dir, err := os.MkdirTemp("", "lw-measure-")
	if err != nil {
		return err
	}
	defer os.RemoveAll(dir)
	up, err := servers.New(servers.Generic, dir)
	if err != nil {
		return err
	}
	defer up.Stop()
	if err := os.WriteFile(dir+"/ca.crt", up.CA, 0o600); err != nil {
		return err
	}
	if err := up.StartEtcd(ctx); err != nil {
		return err
	}
	values := map[string][]byte{}
	for i := range n {
		values[podKey(i)] = pod(i, 0)
	}
	if err := up.Put(ctx, values); err != nil {
		return err
	}
	for _, k := range kinds {
		if !cfg.rows.MatchString(k.name) {
			continue
		}
		up.KillAPI()
		if err := up.StartAPI(ctx); err != nil {
			return err
		}
		s, err := start(ctx, k, up)
		if err == nil {
			err = f(cfg, ctx, s)
			s.stop()
		}
		if err != nil {
			return fmt.Errorf("%s: %w", k.name, err)
		}
	}
	return nil
}

// watches measures what each delivery of an event costs, and each watcher that waits.
func (cfg *config) watches(ctx context.Context, s *server) error {
	for _, n := range cfg.watchers {
		if err := cfg.fanOut(ctx, s, n, min(100, max(10, 40_000/n))); err != nil {
			return err
		}
	}
	return nil
}

// fanOut measures one row of n watchers and so many events.
func (cfg *config) fanOut(ctx context.Context, s *server, n, events int) error {
	const warmUp = 2 // events that fill what the server keeps
	before, err := s.memory(ctx)
	if err != nil {
		return err
	}
	var c *crowd
	opening, _, err := s.during(func() (err error) { c, err = s.watch(ctx, n, warmUp+events); return err })
	if err != nil {
		return err
	}
	defer c.close()
	if err := c.rounds(ctx, s, warmUp); err != nil {
		return err
	}
	time.Sleep(time.Second)
	after, err := s.memory(ctx)
	if err != nil {
		return err
	}
	idle, rest, err := s.during(func() error { time.Sleep(2 * time.Second); return nil })
	if err != nil {
		return err
	}
	cpu, took, err := s.during(func() error { return c.rounds(ctx, s, events) })
	if err != nil {
		return err
	}
	cpu -= time.Duration(float64(idle) * took.Seconds() / rest.Seconds())
	latency, each := c.latencies(warmUp), float64(n)
	fmt.Fprintf(cfg.out, "| %s | %d | %.2f ms | %.1f µs | %.1f KiB | %.1f KiB | %.1f ms | %.1f ms |\n", s.kind.name, n,
		micros(opening)/1e3/each,
		micros(cpu)/each/float64(events), float64(after.live-before.live)/1024/each,
		float64(after.resident-before.resident)/1024/each,
		micros(percentile(latency, 50))/1e3, micros(percentile(latency, 99))/1e3)
	return nil
}

func micros(d time.Duration) float64 { return float64(d) / 1e3 }

// percentile returns a percentile of values, which it sorts.
func percentile[T int64 | float64 | time.Duration](values []T, p int) T {
	slices.Sort(values)
	return values[(len(values)-1)*p/100]
}

// alone measures one list after another, and returns the medians. The first ones fill what the
// server keeps.
func (s *server) alone(ctx context.Context, r read, rounds int) (size int64, cpuMillis, allocated float64, err error) {
	var cpus, bytes []float64
	for i := range 2 + rounds {
		c := s.newClient(r.gzip)
		before, err := s.memory(ctx)
		if err != nil {
			return 0, 0, 0, err
		}
		cpu, _, err := s.during(func() (err error) {
			size, err = c.read(ctx, r)
			return err
		})
		c.close()
		if err != nil {
			return 0, 0, 0, fmt.Errorf("%s: %w", r.name, err)
		}
		after, err := s.memory(ctx)
		if err != nil {
			return 0, 0, 0, err
		}
		if i >= 2 {
			cpus, bytes = append(cpus, micros(cpu)/1e3), append(bytes, float64(after.allocated-before.allocated))
		}
	}
	return size, percentile(cpus, 50), percentile(bytes, 50), nil
}

// lists measures one list alone, and many at once.
func (cfg *config) lists(ctx context.Context, s *server) error {
	whole := read{name: "whole, JSON", query: "resourceVersion=0", accept: "application/json"}
	size, cpuMillis, allocated, err := s.alone(ctx, whole, 7)
	if err != nil {
		return err
	}
	fmt.Fprintf(cfg.out, "| %s | %.1f MB | %.1f ms | %.2f MB |", s.kind.name, float64(size)/1e6, cpuMillis, allocated/1e6)
	var served, refused, failed int64
	cpu, took, err := s.during(func() error {
		served, refused, failed = s.listAtOnce(ctx, cfg.clients, whole)
		return nil
	})
	if err != nil {
		return err
	}
	peak, err := s.status("VmHWM")
	fmt.Fprintf(cfg.out, " %.1f ms | %d | %d | %d | %.1f s | %d MB |\n", micros(cpu)/1e3/float64(max(served, 1)), served,
		refused, failed,
		took.Seconds(), peak/1e6)
	return err
}

// ways measures each way to read the collection.
func (cfg *config) ways(ctx context.Context, s *server) error {
	for _, r := range reads {
		size, cpuMillis, allocated, err := s.alone(ctx, r, 3)
		if err != nil {
			return err
		}
		n := float64(cfg.objects)
		fmt.Fprintf(cfg.out, "| %s | %.0f | %.1f µs | %.0f B |\n", r.name, float64(size)/n, cpuMillis*1e3/n, allocated/n)
	}
	return nil
}

// ask measures what it costs to be asked, after an outage, whether an object was there at a
// version: a list of one object by its name. A server that was restarted does not have that version
// in memory, and asks etcd.
func (cfg *config) ask(ctx context.Context, s *server) error {
	version, err := s.up.Revision(ctx)
	if err != nil {
		return err
	}
	for _, when := range []string{"of a server that has run", "of a server that was restarted"} {
		for _, where := range []string{"in its namespace", "in all namespaces"} {
			r := read{accept: protobuf, query: fmt.Sprintf("fieldSelector=metadata.name%%3Dpod-%06d%%2Cmetadata.namespace%%3D%s&resourceVersion=%d&resourceVersionMatch=Exact&limit=1",
				cfg.objects-1, namespace, version)}
			if where == "in its namespace" {
				r.namespace = namespace
			}
			c := s.newClient(false)
			cpu, took, err := s.during(func() error {
				for range cfg.questions {
					if size, err := c.read(ctx, r); err != nil || size < 1000 {
						return fmt.Errorf("no object in an answer of %d bytes: %w", size, err)
					}
				}
				return nil
			})
			c.close()
			if err != nil {
				return err
			}
			n := time.Duration(cfg.questions)
			fmt.Fprintf(cfg.out, "| %s, %s | %v | %v |\n", where, when, (cpu / n).Round(10*time.Microsecond),
				(took / n).Round(10*time.Microsecond))
		}
		s.up.KillAPI()
		if err := s.up.StartAPI(ctx); err != nil {
			return err
		}
		s.pids = []int{s.up.APIProcess(), s.up.EtcdProcess()}
		time.Sleep(5 * time.Second) // what the server does when it starts is none of the question's
	}
	return nil
}
