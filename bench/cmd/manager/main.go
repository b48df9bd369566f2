// Command manager measures a controller-runtime manager with many pods in its cache: its own cache
// and lw's in turn, in one run, each in a process of its own.
package main

import (
	"flag"
	"fmt"
	"os"

	"github.com/go-lw/lw/bench/internal/compare"
	"github.com/go-lw/lw/bench/internal/manager"
	"github.com/go-lw/lw/bench/internal/wire"
)

func main() {
	wire.Child()
	if err := run(); err != nil {
		fmt.Fprintln(os.Stderr, "manager:", err)
		os.Exit(1)
	}
}

func run() error {
	pods := flag.Int("pods", 0, "how many pods the cache has; default: 10000, with -short 2000")
	cfg, err := compare.ParseFlags()
	if err != nil {
		return err
	}
	report := cfg.Measure(manager.Cases(*pods))
	report.Base = "own cache"
	return report.Print()
}
