// Command size builds programs that follow collections with lw and with client-go, and prints their
// sizes.
package main

import (
	"flag"
	"fmt"
	"os"

	"github.com/go-lw/lw/bench/internal/compare"
	"github.com/go-lw/lw/bench/internal/size"
)

func main() {
	markdown := flag.Bool("markdown", false, "print the table as Markdown")
	flag.Parse()
	c := size.Case()
	report := compare.NewReport(compare.Config{Rounds: 1}, c.Run(compare.Config{Rounds: 1, Log: os.Stderr}))
	print := report.Table
	if *markdown {
		print = report.Markdown
	}
	if err := print(os.Stdout); err != nil {
		fmt.Fprintln(os.Stderr, "size:", err)
		os.Exit(1)
	}
}
