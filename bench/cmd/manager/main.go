// Command manager measures a controller-runtime manager with many pods in its cache: its own cache
// and lw's in turn, in one run, each in a process of its own.
package main

import (
	"flag"
	"fmt"
	"os"
	"time"

	"github.com/go-lw/lw/bench/internal/compare"
	"github.com/go-lw/lw/bench/internal/manager"
	"github.com/go-lw/lw/bench/internal/wire"
	"github.com/go-lw/lw/internal/progress"
)

func main() {
	wire.Child()
	if err := run(); err != nil {
		fmt.Fprintln(os.Stderr, "manager:", err)
		os.Exit(1)
	}
}

func run() error {
	short := flag.Bool("short", false, "measure less: fewer rounds, events and pods")
	pods := flag.Int("pods", 0, "how many pods the cache has; default: 10000, with -short 2000")
	rounds := flag.Int("rounds", 0, "how often each side is measured at least; default: 5, with -short 2")
	jsonFile := flag.String("json", "", "write the results to `file`")
	profile := flag.String("profile", "", "write CPU profiles of each side to `directory`")
	flag.Parse()
	if flag.NArg() > 0 {
		return fmt.Errorf("unexpected argument %q", flag.Arg(0))
	}
	cfg := compare.Config{Rounds: *rounds, Short: *short, Log: os.Stderr, Profile: *profile}
	if cfg.Rounds == 0 {
		cfg.Rounds = cfg.N(5, 2)
	}
	var results []compare.Result
	for _, c := range manager.Cases(*pods) {
		start := time.Now()
		done := progress.Start(cfg.Log, c.Name)
		results = append(results, c.Run(cfg)...)
		done()
		fmt.Fprintf(cfg.Log, "%-20s %5.1f s\n", c.Name, time.Since(start).Seconds())
	}
	report := compare.NewReport(cfg, results)
	report.Base = "own cache"
	if err := report.Table(os.Stdout); err != nil {
		return err
	}
	missed, of := report.Missed()
	fmt.Printf("\n%d of %d goals met; medians of %d rounds or more, ratios of each round and their range\n", of-missed, of, report.Rounds)
	if *jsonFile == "" {
		return nil
	}
	f, err := os.Create(*jsonFile)
	if err != nil {
		return err
	}
	if err := report.JSON(f); err != nil {
		f.Close()
		return err
	}
	return f.Close()
}
