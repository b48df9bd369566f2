package main

import (
	"cmp"
	"fmt"
	"io"
	"maps"
	"slices"
	"text/tabwriter"
)

// report prints a table of figures, and each survivor.
func report(out io.Writer, w *workshop, packages []*pkg, chosen []*mutant) {
	known := 0
	for _, p := range packages {
		for _, m := range p.mutants {
			if m.equivalent {
				known++
			}
		}
	}
	fmt.Fprintf(out, "%d mutants drawn; %d are not Go and are left out; %d that are known to change nothing are never drawn\n",
		len(chosen), len(w.stillborn), known)
	if len(w.failing) > 0 {
		fmt.Fprintf(out, "left out, as they fail in these builds without a mutant: %v\n", w.failing)
	}
	table(out, "package", w.mutants, func(m *mutant) string { return m.file.pkg.path })
	table(out, "kind", w.mutants, func(m *mutant) string { return string(m.kind) })
	left := slices.Clone(w.mutants)
	slices.SortStableFunc(left, func(a, b *mutant) int {
		return cmp.Or(cmp.Compare(a.file.name, b.file.name), cmp.Compare(a.line, b.line))
	})
	for _, m := range left {
		if s := m.verdict.state; s == survived || s == unreached || s == caughtRaces {
			fmt.Fprintf(out, "%s\n    %s\n", m, m.verdict)
		}
	}
}

func table(out io.Writer, head string, mutants []*mutant, by func(*mutant) string) {
	counts := map[string]map[state]int{}
	for _, m := range mutants {
		for _, row := range []string{by(m), "all"} {
			if counts[row] == nil {
				counts[row] = map[state]int{}
			}
			counts[row][m.verdict.state]++
		}
	}
	tw := tabwriter.NewWriter(out, 0, 0, 2, ' ', 0)
	fmt.Fprintf(tw, "\n%s\tmutants\tcaught\tof them hung\tby -race only\tnot reached\tsurvived\t%%\n", head)
	for _, row := range slices.SortedFunc(maps.Keys(counts), func(a, b string) int {
		return cmp.Or(cmp.Compare(b2i(a == "all"), b2i(b == "all")), cmp.Compare(a, b))
	}) {
		c, n := counts[row], 0
		for _, k := range c {
			n += k
		}
		left := c[survived] + c[unreached] + c[caughtRaces]
		fmt.Fprintf(tw, "%s\t%d\t%d\t%d\t%d\t%d\t%d\t%.1f\n", row, n, c[caught]+c[hung], c[hung], c[caughtRaces], c[unreached], c[survived],
			100*float64(left)/float64(max(1, n)))
	}
	tw.Flush()
	fmt.Fprintln(out)
}

func b2i(b bool) int {
	if b {
		return 1
	}
	return 0
}
