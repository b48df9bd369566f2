// Command compare measures lw and client-go in turn, with the same objects, and prints their
// ratios.
package main

import (
	"flag"
	"fmt"
	"io"
	"os"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/go-lw/lw/bench/internal/compare"
	"github.com/go-lw/lw/bench/internal/derive"
	"github.com/go-lw/lw/bench/internal/kinds"
	"github.com/go-lw/lw/bench/internal/rows"
	"github.com/go-lw/lw/bench/internal/wire"
)

func main() {
	wire.Child()
	kinds.Child()
	if err := run(); err != nil {
		fmt.Fprintln(os.Stderr, "compare:", err)
		os.Exit(1)
	}
}

func run() error {
	short := flag.Bool("short", false, "measure less: fewer rounds, events and pods")
	only := flag.String("rows", "", "comma-separated numbers or ranges of `rows`, or derive for those of derived collections; default: all")
	pods := flag.Int("pods", 0, "how many pods the rows over HTTP have; default: 10000, with -short 2000")
	rounds := flag.Int("rounds", 0, "how often each side is measured, or more often where that is quick; default: 5, with -short 2")
	jsonFile := flag.String("json", "", "write the results to `file`")
	svgFile := flag.String("svg", "", "draw the chart to `file`")
	mdFile := flag.String("markdown", "", "write the table to `file`")
	profile := flag.String("profile", "", "write CPU profiles of each side to `directory`")
	from := flag.String("from", "", "print and draw what earlier runs wrote to these comma-separated `files`, and measure nothing")
	flag.Parse()
	if flag.NArg() > 0 {
		return fmt.Errorf("unexpected argument %q", flag.Arg(0))
	}

	cfg := compare.Config{Rounds: *rounds, Short: *short, Log: os.Stderr, Profile: *profile}
	if cfg.Rounds == 0 {
		cfg.Rounds = cfg.N(5, 2)
	}
	wanted, err := rowSet(*only)
	if err != nil {
		return err
	}
	var report *compare.Report
	if *from != "" {
		report, err = earlier(strings.Split(*from, ","))
	} else {
		report, err = measureAll(cfg, slices.Concat(wire.Cases(*pods), rows.Cases(), kinds.Cases(), derive.Cases()), wanted)
	}
	if err != nil {
		return err
	}
	if err := report.Table(os.Stdout); err != nil {
		return err
	}
	missed, of := report.Missed()
	fmt.Printf("\n%d of %d goals met; medians of %d rounds or more, ratios of each round and their range\n", of-missed, of, report.Rounds)
	for _, out := range []struct {
		file  string
		write func(io.Writer) error
	}{{*jsonFile, report.JSON}, {*svgFile, report.SVG}, {*mdFile, report.Markdown}} {
		if err := toFile(out.file, out.write); err != nil {
			return err
		}
	}
	return nil
}

// measureAll runs the cases that have a wanted row.
func measureAll(cfg compare.Config, cases []compare.Case, wanted func(row int) bool) (*compare.Report, error) {
	var results []compare.Result
	for _, c := range cases {
		if !hasRow(&c, wanted) {
			continue
		}
		start := time.Now()
		results = append(results, c.Run(cfg)...)
		fmt.Fprintf(cfg.Log, "%-50s %5.1f s\n", c.Name, time.Since(start).Seconds())
	}
	if len(results) == 0 {
		return nil, fmt.Errorf("no case has one of these rows")
	}
	return compare.NewReport(cfg, results), nil
}

// earlier reads the reports in files and combines them.
func earlier(files []string) (*compare.Report, error) {
	var all *compare.Report
	for _, name := range files {
		f, err := os.Open(name)
		if err != nil {
			return nil, err
		}
		report, err := compare.Read(f)
		f.Close()
		if err != nil {
			return nil, fmt.Errorf("%s: %w", name, err)
		}
		if all == nil {
			all = report
		} else {
			all.Add(report)
		}
	}
	return all, nil
}

func hasRow(c *compare.Case, wanted func(row int) bool) bool {
	for _, l := range c.Lines {
		if wanted(l.Row) {
			return true
		}
	}
	return false
}

// rowSet parses a list of numbers, ranges and names, such as 1-9,12,derive. An empty list selects
// all rows.
func rowSet(s string) (func(row int) bool, error) {
	if s == "" {
		return func(int) bool { return true }, nil
	}
	set := map[int]bool{}
	for part := range strings.SplitSeq(s, ",") {
		if part == "derive" {
			part = fmt.Sprintf("%d-%d", derive.FirstRow, derive.LastRow)
		}
		from, to, isRange := strings.Cut(part, "-")
		if !isRange {
			to = from
		}
		first, err := strconv.Atoi(strings.TrimSpace(from))
		if err != nil {
			return nil, fmt.Errorf("-rows: %w", err)
		}
		last, err := strconv.Atoi(strings.TrimSpace(to))
		if err != nil {
			return nil, fmt.Errorf("-rows: %w", err)
		}
		for row := first; row <= last; row++ {
			set[row] = true
		}
	}
	return func(row int) bool { return set[row] }, nil
}

func toFile(name string, write func(io.Writer) error) error {
	if name == "" {
		return nil
	}
	f, err := os.Create(name)
	if err != nil {
		return err
	}
	if err := write(f); err != nil {
		f.Close()
		return err
	}
	return f.Close()
}
