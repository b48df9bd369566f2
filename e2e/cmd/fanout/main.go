// Command fanout prints what watchers and lists cost a server: a relay of package serve beside the
// server that it relays, which is k8s.io/apiserver's generic server with its watch cache over etcd.
//
//	go run ./cmd/build generic && go run ./cmd/fanout
//
// CPU time is that of all threads of the server's process, without what the process uses anyway.
// What a relay spends on its own watch is part of it. A relay is a process of its own, as is what
// the "bare write" rows compare with: a program that does no more than one write(2) of an event to
// each socket. Memory is the heap and the stacks after a garbage collection.
//
// The program is in this module because it starts the servers as the tests do.
package main

import (
	"context"
	"flag"
	"fmt"
	"log"
	"os"
	"os/signal"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/go-lw/lw/e2e/internal/measure"
	"github.com/go-lw/lw/e2e/internal/servers"
)

type config struct {
	parts    string
	rows     *regexp.Regexp
	watchers []int
	burst    int
	stalled  int
	objects  int
	clients  int
	lists    int
	protobuf bool
}

func main() {
	log.SetFlags(0)
	if len(os.Args) > 1 && os.Args[1] == "child" {
		if err := child(os.Args[2:]); err != nil {
			log.Fatalf("fanout: child: %v", err)
		}
		return
	}
	var cfg config
	flag.StringVar(&cfg.parts, "parts", "watches,lists,memory", "what to measure")
	rows := flag.String("rows", "", "only the servers whose name matches this regular expression")
	watchers := flag.String("watchers", "10,100,1000", "how many at once, one row each")
	flag.IntVar(&cfg.burst, "burst", 1, "events that are written without waiting for those before")
	flag.IntVar(&cfg.stalled, "stalled", 0, "watchers more that read nothing; they stall after some 300 events")
	flag.IntVar(&cfg.objects, "objects", 10_000, "pods of lists and memory")
	flag.IntVar(&cfg.clients, "clients", 1_000, "that list at once; 0: none")
	flag.IntVar(&cfg.lists, "lists", 0, "the relay's Limits.Lists; 0: its default")
	flag.BoolVar(&cfg.protobuf, "protobuf", false, "lists and memory in protobuf instead of JSON; events are always JSON")
	flag.Parse()
	if cfg.burst < 1 || cfg.stalled < 0 {
		log.Fatalf("fanout: -burst %d, -stalled %d: a burst has an event at least", cfg.burst, cfg.stalled)
	}
	var err error
	if cfg.rows, err = regexp.Compile(*rows); err != nil {
		log.Fatalf("fanout: %v", err)
	}
	for text := range strings.SplitSeq(*watchers, ",") {
		n, err := strconv.Atoi(text)
		if err != nil || n < 1 {
			log.Fatalf("fanout: -watchers: %q is not a number of watchers", text)
		}
		cfg.watchers = append(cfg.watchers, n)
	}
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	defer stop()
	for _, part := range []struct {
		name    string
		measure func(context.Context, *config) error
	}{{"watches", watches}, {"lists", lists}, {"memory", memory}} {
		if !slices.Contains(strings.Split(cfg.parts, ","), part.name) {
			continue
		}
		if err := part.measure(ctx, &cfg); err != nil {
			stop()
			log.Fatalf("fanout: %s: %v", part.name, err)
		}
	}
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
// etcd that has the pods of make.
func (cfg *config) each(ctx context.Context, n int, make func(i, restarts int) []byte, kinds []kind, f func(*server) error) error {
	dir, err := os.MkdirTemp("", "lw-fanout-")
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
		values[measure.PodKey(namespace, i)] = make(i, 0)
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
		s, err := start(ctx, cfg, k, up)
		if err == nil {
			err = f(s)
			s.stop()
		}
		if err != nil {
			return fmt.Errorf("%s: %w", k.name, err)
		}
	}
	return nil
}

// watches measures what each delivery of an event costs, and each watcher that waits.
func watches(ctx context.Context, cfg *config) error {
	fmt.Println("| server | watchers | CPU a delivery | memory a watcher | put to read, p50 | p99 |")
	fmt.Println("|---|---|---|---|---|---|")
	inJSON := *cfg
	inJSON.protobuf = false
	return inJSON.each(ctx, 100, largePod, []kind{bare, kubeH2, kubeH1, relayH2, relayTLS, relayPlain}, func(s *server) error {
		for _, n := range cfg.watchers {
			if err := s.fanOut(ctx, n, min(100, max(10, 40_000/n)), cfg); err != nil {
				return err
			}
		}
		return nil
	})
}

// fanOut measures one row of n watchers, in so many rounds.
func (s *server) fanOut(ctx context.Context, n, rounds int, cfg *config) error {
	warmUp := 2 * cfg.burst // events that fill what the server keeps
	events := rounds * cfg.burst
	before, err := s.memory(ctx)
	if err != nil {
		return err
	}
	c, err := s.watch(ctx, n, warmUp+events)
	if err != nil {
		return err
	}
	defer c.close()
	if cfg.stalled > 0 {
		end, err := s.stall(ctx, cfg.stalled)
		if err != nil {
			return err
		}
		defer end()
	}
	if err := c.rounds(ctx, s, warmUp, cfg.burst); err != nil {
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
	cpu, took, err := s.during(func() error { return c.rounds(ctx, s, events, cfg.burst) })
	if err != nil {
		return err
	}
	cpu -= time.Duration(float64(idle) * took.Seconds() / rest.Seconds())
	latency := c.latencies(warmUp)
	fmt.Printf("| %s | %d | %.1f µs | %.1f KiB | %.1f ms | %.1f ms |\n", s.kind.name, n, micros(cpu)/float64(n*events),
		float64(after.live-before.live)/1024/float64(n), micros(percentile(latency, 50))/1e3, micros(percentile(latency, 99))/1e3)
	return nil
}

func micros(d time.Duration) float64 { return float64(d) / 1e3 }

// percentile returns a percentile of times, which it sorts.
func percentile(times []time.Duration, p int) time.Duration {
	slices.Sort(times)
	return times[(len(times)-1)*p/100]
}

// lists measures one list alone, and many at once.
func lists(ctx context.Context, cfg *config) error {
	fmt.Println("\n| server | list | one alone: CPU | allocates | at once: CPU a list | served | refused | failed | took | peak resident |")
	fmt.Println("|---|---|---|---|---|---|---|---|---|---|")
	return cfg.each(ctx, cfg.objects, smallPod, []kind{kubeH2, relayH2, relayTLS, relayPlain}, func(s *server) error {
		const alone = 7
		var cpus, allocated []float64
		var size int64
		for i := range 2 + alone {
			c := s.newClient(cfg.protobuf)
			before, err := s.memory(ctx)
			if err != nil {
				return err
			}
			cpu, _, err := s.during(func() (err error) {
				size, err = c.list(ctx)
				return err
			})
			if err != nil {
				return err
			}
			after, err := s.memory(ctx)
			if err != nil {
				return err
			}
			c.close()
			if i >= 2 { // the first ones fill what the server keeps
				cpus, allocated = append(cpus, micros(cpu)/1e3), append(allocated, float64(after.allocated-before.allocated)/1e6)
			}
		}
		slices.Sort(cpus)
		slices.Sort(allocated)
		fmt.Printf("| %s | %.1f MB | %.1f ms | %.2f MB |", s.kind.name, float64(size)/1e6, cpus[alone/2], allocated[alone/2])
		if cfg.clients == 0 {
			fmt.Println(" | | | | | |")
			return nil
		}
		var served, refused, failed int64
		cpu, took, err := s.during(func() error {
			served, refused, failed = s.listAtOnce(ctx, cfg.clients, cfg.protobuf)
			return nil
		})
		if err != nil {
			return err
		}
		peak, err := s.status("VmHWM")
		fmt.Printf(" %.1f ms | %d | %d | %d | %.1f s | %d MB |\n", micros(cpu)/1e3/float64(max(served, 1)), served, refused, failed,
			took.Seconds(), peak/1e6)
		return err
	})
}

// memory measures what a collection takes after one list of it.
func memory(ctx context.Context, cfg *config) error {
	fmt.Println("\n| server | list | heap | to the bytes of the list | resident |")
	fmt.Println("|---|---|---|---|---|")
	return cfg.each(ctx, cfg.objects, largePod, []kind{kubeH2, relayPlain}, func(s *server) error {
		c := s.newClient(cfg.protobuf)
		defer c.close()
		size, err := c.list(ctx)
		if err != nil {
			return err
		}
		time.Sleep(time.Second)
		m, err := s.memory(ctx)
		if err != nil {
			return err
		}
		resident, err := s.status("VmRSS")
		fmt.Printf("| %s | %.1f MB | %.1f MB | %.2f | %d MB |\n", s.kind.name, float64(size)/1e6, float64(m.heap)/1e6,
			float64(m.heap)/float64(size), resident/1e6)
		return err
	})
}
