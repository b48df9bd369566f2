// Command scale measures how the cost of lw and of client-go grows with the number of objects,
// handlers and indexes, and draws the results.
package main

import (
	"flag"
	"fmt"
	"os"

	"github.com/go-lw/lw/bench/internal/chart"
	"github.com/go-lw/lw/bench/internal/compare"
	"github.com/go-lw/lw/bench/internal/rows"
)

func main() {
	if err := run(); err != nil {
		fmt.Fprintln(os.Stderr, "scale:", err)
		os.Exit(1)
	}
}

func run() error {
	short := flag.Bool("short", false, "measure less: up to 100k objects, fewer events and rounds")
	svg := flag.String("svg", "", "draw the plots to `file`")
	flag.Parse()
	cfg := compare.Config{Short: *short, Log: os.Stderr}
	cfg.Rounds = cfg.N(3, 1)
	panels := rows.Scale(cfg)
	for _, p := range panels {
		fmt.Printf("%s (ns), by %s %v\n", p.Title, p.X, p.Steps)
		for _, l := range p.Lines {
			fmt.Printf("  %-22s", l.Name)
			for _, v := range l.Values {
				fmt.Printf(" %12.5g", v)
			}
			fmt.Println()
		}
	}
	if *svg == "" {
		return nil
	}
	f, err := os.Create(*svg)
	if err != nil {
		return err
	}
	defer f.Close()
	if err := chart.Panels(f, "How cost grows: lw and client-go", 2, panels); err != nil {
		return err
	}
	return f.Close()
}
