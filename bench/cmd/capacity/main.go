// Command capacity measures what one process can hold: an informer of up to five million objects,
// and up to ten thousand informers, each with its connection to lw's embedded server. It prints the
// measured tables of bench/results/scale.md. It takes up to 3 GiB of memory; -short takes less.
package main

import (
	"flag"
	"fmt"
	"io"
	"os"
	"time"

	"github.com/go-lw/lw/bench/internal/capacity"
)

func main() {
	capacity.Child()
	short := flag.Bool("short", false, "measure a hundredth of the numbers")
	flag.Parse()
	divide := 1
	if *short {
		divide = 100
	}
	if err := run(os.Stdout, divide); err != nil {
		fmt.Fprintln(os.Stderr, "capacity:", err)
		os.Exit(1)
	}
}

// run prints the tables. All numbers are divided by divide.
func run(out io.Writer, divide int) error {
	fmt.Fprintln(out, "| objects of one informer | live heap an object | live heap | most resident | first list | CPU an object | one collection, CPU | longest pause |")
	fmt.Fprintln(out, "|---|---|---|---|---|---|---|---|")
	for _, n := range []int{100_000, 1_000_000, 5_000_000} {
		n /= divide
		s, err := capacity.Objects(n)
		if err != nil {
			return err
		}
		fmt.Fprintf(out, "| %d | %.0f B | %.0f MiB | %.0f MiB | %.1f s | %.1f µs | %v | %v |\n", n, s["bytes"], s["bytes"]*float64(n)/mib,
			s["resident"]/mib, s["wall"]*float64(n)/1e9, s["cpu"]/1e3, round(s["gc.cpu"]), round(s["gc.pause"]))
	}
	fmt.Fprintln(out)
	fmt.Fprintln(out, "| informers | heap and stack of one | goroutines of one | all synced after | CPU to start one | CPU of an event | the server: memory of a watcher | CPU of a delivery |")
	fmt.Fprintln(out, "|---|---|---|---|---|---|---|---|")
	for _, n := range []int{100, 1000, 10_000} {
		if n /= divide; n == 0 {
			n = 1
		}
		s, err := capacity.Informers(n, 20)
		if err != nil {
			return err
		}
		fmt.Fprintf(out, "| %d | %.1f KiB | %.1f | %v | %v | %v | %.1f KiB | %v |\n", n, s["memory"]/1024, s["goroutines"], round(s["start"]),
			round(s["start.cpu"]), round(s["event.cpu"]), s["server.memory"]/1024, round(s["server.cpu"]))
	}
	return nil
}

const mib = 1 << 20

// round returns nanoseconds as a duration with about three digits.
func round(ns float64) time.Duration {
	d := time.Duration(ns)
	unit := time.Nanosecond
	for d/unit >= 1000 {
		unit *= 10
	}
	return d.Round(unit)
}
