// Command pack measures informers that keep their objects packed beside those that do not, and
// beside client-go's: memory, CPU time and the time of a Get. Each side runs in a process of its
// own. docs/memory.md has its figures.
//
//	go run ./cmd/pack              # 20,000 objects of each kind
//	go run ./cmd/pack -n 100000 -kinds pods -formats json -minute=false
//
// Bytes and CPU time may be measured beside other work. The columns in ns and p50, p99 are times of
// a clock, and mean something on an idle machine alone.
package main

import (
	"flag"
	"fmt"
	"os"
	"strings"
	"time"

	"github.com/go-lw/lw/bench/internal/child"
	"github.com/go-lw/lw/bench/internal/compare"
	"github.com/go-lw/lw/bench/internal/wire"
)

// A job is what a child process measures.
type job struct {
	URL, Base, Path, Kind, Side string
	Format                      wire.Format
	N, Events                   int
	Minute                      bool
}

const childVariable = "LW_PACK_JOB"

func main() {
	child.Serve(childVariable, job.measure)
	if err := run(); err != nil {
		fmt.Fprintln(os.Stderr, "pack:", err)
		os.Exit(1)
	}
}

var formats = map[string]wire.Format{"json": wire.JSON, "protobuf": wire.Protobuf}

func run() error {
	kinds := flag.String("kinds", "pods,mixed,widgets", "what the server has: pods, mixed, widgets")
	encodings := flag.String("formats", "json,protobuf", "json, protobuf; widgets have JSON alone")
	sides := flag.String("sides", strings.Join(allSides, "; "),
		"who is measured, with a semicolon and a blank between two")
	n := flag.Int("n", 20_000, "how many objects the server has")
	minute := flag.Bool("minute", true, "send 1,000 events a second for a minute, for the CPU time of the collector")
	flag.Parse()
	fmt.Print("| objects | side ")
	for _, c := range columns {
		fmt.Printf("| %s ", c.title)
	}
	fmt.Println("|\n|---|---" + strings.Repeat("|---", len(columns)) + "|")
	for kind := range strings.SplitSeq(*kinds, ",") {
		for format := range strings.SplitSeq(*encodings, ",") {
			if kind == "widgets" && format != "json" {
				continue
			}
			err := each(kind, format, strings.Split(*sides, "; "), *n, *minute, func(side string, sample compare.Sample) {
				fmt.Printf("| %d %s, %s | %s ", *n, kind, format, side)
				for _, c := range columns {
					fmt.Printf("| %s ", c.text(sample))
				}
				fmt.Println("|")
			})
			if err != nil {
				return err
			}
		}
	}
	return nil
}

// each measures the sides in turn, with n objects of one kind in one format.
func each(kind, format string, sides []string, n int, minute bool, print func(string, compare.Sample)) error {
	if formats[format] == "" {
		return fmt.Errorf("-formats: %q is none", format)
	}
	events := min(n, 20_000)
	server, err := wire.Serve(kind, formats[format], n, events)
	if err != nil {
		return err
	}
	defer server.Close()
	for _, side := range sides {
		sample, err := child.Run(childVariable, 10*time.Minute, job{server.URL, server.Base, server.Path, kind, side,
			formats[format], n, events, minute})
		if err != nil {
			return fmt.Errorf("%s: %w", side, err)
		}
		print(side, sample)
	}
	return nil
}

// A column is a key of a sample, in a unit of size.
type column struct {
	title, key string
	size       float64
	digits     int
}

// Keys that end in .cpu and .gc are the CPU time of the process and the share of it that is the
// collector's.
var columns = []column{
	{"heap an object, KiB", "heap", 1 << 10, 2},
	{"peak RSS of the first list, MiB", "peak", 1 << 20, 0},
	{"sync, µs of CPU", "sync.cpu", 1e3, 1},
	{"of it GC, %", "sync.gc", .01, 0},
	{"status event, µs of CPU", "status.cpu", 1e3, 1},
	{"version event, µs of CPU", "version.cpu", 1e3, 1},
	{"Get hot, ns of CPU", "hot.cpu", 1, 0},
	{"Get cold, µs of CPU", "cold.cpu", 1e3, 1},
	{"cold p50, µs", "cold.p50", 1e3, 1},
	{"cold p99, µs", "cold.p99", 1e3, 1},
	{"one collection, ms of CPU", "collection.cpu", 1e6, 1},
	{"GC of a minute, s of CPU", "minute.gc", 1e9, 2},
	{"all of it, s of CPU", "minute.cpu", 1e9, 2},
}

func (c column) text(s compare.Sample) string {
	v, ok := s[c.key]
	if !ok {
		return "–"
	}
	return fmt.Sprintf("%.*f", c.digits, v/c.size)
}
