// Command compare measures lw and client-go in turn, with the same objects, and prints their
// ratios.
package main

import (
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"slices"
	"strconv"
	"strings"

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
	only := flag.String("rows", "",
		"comma-separated numbers or ranges of `rows`, or derive for those of derived collections; default: all")
	pods := flag.Int("pods", 0, "how many pods the rows over HTTP have; default: 10000, with -short 2000")
	svgFile := flag.String("svg", "", "draw the chart to `file`")
	mdFile := flag.String("markdown", "", "write the table to `file`")
	cfg, err := compare.ParseFlags()
	if err != nil {
		return err
	}
	wanted, err := rowSet(*only)
	if err != nil {
		return err
	}
	cases := slices.Concat(wire.Cases(*pods), rows.Cases(), kinds.Cases(), derive.Cases())
	cases = slices.DeleteFunc(cases, func(c compare.Case) bool { return !hasRow(&c, wanted) })
	if len(cases) == 0 {
		return fmt.Errorf("no case has one of these rows")
	}
	report := cfg.Measure(cases)
	return errors.Join(report.Print(), toFile(*svgFile, report.SVG), toFile(*mdFile, report.Markdown))
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
