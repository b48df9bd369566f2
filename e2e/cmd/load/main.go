// Command load follows 10,000 Pods and 10,000 ConfigMaps of one real API server with lw and with
// client-go at the same time, while 16 writers update them as fast as they can. It prints what each
// follower costs.
//
//	go run ./cmd/build generic && go run ./cmd/load
//
// Each follower is a process with its own connections. All of them receive the same writes. The
// server, the writers and the followers share the machine, so compare the rows with each other and
// do not quote them as absolute numbers. The lag of a write is the time from just before it is sent
// until the handler is called. It includes the server's share, which is the same for all followers.
package main

import (
	"context"
	"encoding/json"
	"flag"
	"fmt"
	"log"
	"maps"
	"os"
	"os/signal"
	"slices"
	"strings"
	"text/tabwriter"
	"time"

	"github.com/go-lw/lw/e2e/internal/servers"
)

type config struct {
	objects, writers, rounds int
	storm                    time.Duration
	followers, encodings     []string
	profiles                 string
}

func main() {
	log.SetFlags(0)
	kindName := flag.String("server", servers.Generic.Name, "generic or kube")
	var cfg config
	flag.IntVar(&cfg.objects, "objects", 10_000, "Pods, and ConfigMaps")
	flag.IntVar(&cfg.writers, "writers", 16, "that write at the same time")
	flag.IntVar(&cfg.rounds, "rounds", 3, "of which the median is printed")
	flag.DurationVar(&cfg.storm, "storm", 8*time.Second, "how long the writers write in a round")
	names := flag.String("followers", strings.Join(slices.Sorted(maps.Keys(followers)), ","), "that run at the same time")
	encodings := flag.String("encodings", "json,protobuf", "one after the other")
	flag.StringVar(&cfg.profiles, "profiles", "", "write CPU profiles of the storms to this directory")
	child := flag.String("child", "", "used by the command itself")
	flag.Parse()
	cfg.followers, cfg.encodings = strings.Split(*names, ","), strings.Split(*encodings, ",")

	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	defer stop()
	if *child != "" {
		if err := follow(ctx, *child); err != nil {
			log.Fatalf("load: %v", err)
		}
		return
	}
	i := slices.IndexFunc(servers.Kinds, func(k servers.Kind) bool { return k.Name == *kindName })
	if i < 0 {
		log.Fatalf("load: no server is named %q", *kindName)
	}
	if err := run(ctx, servers.Kinds[i], cfg); err != nil {
		log.Fatalf("load: %v", err)
	}
}

func run(ctx context.Context, kind servers.Kind, cfg config) error {
	dir, err := os.MkdirTemp("", "lw-load-")
	if err != nil {
		return err
	}
	defer os.RemoveAll(dir)
	s, err := servers.New(kind, dir)
	if err != nil {
		return err
	}
	defer s.Stop()
	start, cancel := context.WithTimeout(ctx, time.Minute)
	defer cancel()
	if err := s.StartEtcd(start); err != nil {
		return err
	}
	if err := seed(start, s, cfg.objects); err != nil {
		return err
	}
	if err := s.StartAPI(start); err != nil {
		return err
	}
	storm, err := newStorm(ctx, s, cfg.writers)
	if err != nil {
		return err
	}
	rows := map[string][]result{}
	for _, encoding := range cfg.encodings {
		for n := range cfg.rounds {
			log.Printf("%s, round %d of %d", encoding, n+1, cfg.rounds)
			results, err := round(ctx, s, storm, cfg, encoding)
			if err != nil {
				return err
			}
			for _, r := range results {
				rows[r.Encoding+" "+r.Follower] = append(rows[r.Encoding+" "+r.Follower], r)
			}
		}
	}
	fmt.Printf("%s server, %d Pods and %d ConfigMaps, %d writers for %v, median of %d rounds\n\n",
		kind.Name, cfg.objects, cfg.objects, cfg.writers, cfg.storm, cfg.rounds)
	printTable(rows)
	return nil
}

// round starts one process for each follower, waits until all have synced, runs a storm, and
// returns the results of the followers.
func round(ctx context.Context, s *servers.Server, storm *storm, cfg config, encoding string) ([]result, error) {
	ctx, cancel := context.WithTimeout(ctx, 5*time.Minute)
	defer cancel()
	var children []*child
	defer func() {
		for _, c := range children {
			c.kill()
		}
	}()
	for _, name := range cfg.followers {
		// Start them one after the other: the sync of one must not slow down that of another.
		c, err := startChild(ctx, assignment{Follower: name, Encoding: encoding, URL: s.URL, CA: s.CA, Token: servers.AdminToken,
			Profiles: cfg.profiles})
		if err != nil {
			return nil, err
		}
		children = append(children, c)
		if err := c.expect("synced"); err != nil {
			return nil, err
		}
	}
	for _, c := range children {
		if err := c.tell("begin"); err != nil {
			return nil, err
		}
		if err := c.expect("begun"); err != nil {
			return nil, err
		}
	}
	if err := storm.blow(ctx, cfg.storm); err != nil {
		return nil, err
	}
	var results []result
	for _, c := range children {
		r, err := c.result()
		if err != nil {
			return nil, err
		}
		r.Written = float64(storm.written.Load())
		results = append(results, r)
	}
	return results, nil
}

// printTable prints the medians of all rounds.
func printTable(rows map[string][]result) {
	t := tabwriter.NewWriter(os.Stdout, 0, 0, 1, ' ', tabwriter.Debug)
	fmt.Fprintln(t, "| encoding | follower | sync | sync CPU | peak RSS | live heap | updates | told | told/s | CPU/event | lag p50 | lag p99 | watches | lists |")
	fmt.Fprintln(t, "| --- | --- | ---: | ---: | ---: | ---: | ---: | ---: | ---: | ---: | ---: | ---: | ---: | ---: |")
	for _, key := range slices.Sorted(maps.Keys(rows)) {
		all := rows[key]
		at := func(value func(r result) float64) float64 {
			values := make([]float64, len(all))
			for i, r := range all {
				values[i] = value(r)
			}
			slices.Sort(values)
			return values[len(values)/2]
		}
		ms := func(value func(r result) float64) string { return fmt.Sprintf("%.0f ms", at(value)*1000) }
		fmt.Fprintf(t, "| %s | %s | %s | %s | %.0f MB | %.0f MB | %.0f | %.0f | %.0f | %.0f µs | %.1f ms | %.1f ms | %.0f | %.0f |\n",
			all[0].Encoding, all[0].Follower,
			ms(func(r result) float64 { return r.Sync }), ms(func(r result) float64 { return r.SyncCPU }),
			at(func(r result) float64 { return r.PeakRSS / 1e6 }), at(func(r result) float64 { return r.LiveHeap / 1e6 }),
			at(func(r result) float64 { return r.Written }), at(func(r result) float64 { return r.Told }),
			at(func(r result) float64 { return r.Told / r.Took }),
			at(func(r result) float64 { return r.StormCPU / r.Told * 1e6 }),
			at(func(r result) float64 { return r.LagP50 * 1e3 }), at(func(r result) float64 { return r.LagP99 * 1e3 }),
			at(func(r result) float64 { return r.Watches }), at(func(r result) float64 { return r.Lists }))
	}
	t.Flush()
}

// assignment is what a child must do. It is passed to the child as the value of -child.
type assignment struct {
	Follower, Encoding, URL, Token, Profiles string
	CA                                       []byte
}

// result is what a follower costs. Times are in seconds, sizes in bytes.
type result struct {
	Follower, Encoding string

	// From the start of the informers until both have synced and their handlers have all objects.
	Sync, SyncCPU float64

	PeakRSS  float64 // of the process, up to the end of the sync
	LiveHeap float64 // after the sync and a garbage collection
	Written  float64 // updates in the storm

	// Calls of the handlers in the storm. There may be fewer than updates: if updates come too fast
	// lw's handlers get only their net effect.
	Told float64

	Took           float64 // from the start of the storm until the last of these calls
	StormCPU       float64
	LagP50, LagP99 float64
	Watches, Lists float64 // requests since the start
}

func (a assignment) String() string {
	b, err := json.Marshal(a)
	if err != nil {
		panic(err)
	}
	return string(b)
}
