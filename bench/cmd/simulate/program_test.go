package main

import (
	"bytes"
	"io"
	"os"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/go-lw/lw/bench/internal/simulate"
	"github.com/go-lw/lw/internal/verify/rig"
)

// TestProgram runs the whole program with few clients. All of them must follow in the end, and
// bench/results/scale.md must have the tables that the program prints, with the same rows.
func TestProgram(t *testing.T) {
	simulate.Silence()
	doc := rig.Must[[]byte](t)(os.ReadFile("../../results/scale.md"))
	var out bytes.Buffer
	rig.OK(t, (program{out: &out, log: io.Discard, divide: 100}).run(t))
	tables := strings.Split(strings.TrimSpace(out.String()), "\n\n")
	if len(tables) != 3 {
		t.Fatalf("%d tables", len(tables))
	}
	for _, table := range tables {
		head, rows, _ := strings.Cut(table, "\n")
		if strings.Contains(table, "never") {
			t.Errorf("some clients do not follow:\n%s", table)
		}
		_, after, found := strings.Cut(string(doc), head+"\n")
		if !found {
			t.Errorf("bench/results/scale.md has no table with the head\n%s", head)
			continue
		}
		want, _, _ := strings.Cut(after, "\n\n")
		// The numbers of clients are not those of the doc.
		if diff := cmp.Diff(names(want), names(rows)); diff != "" {
			t.Errorf("the table with the head\n%s\nis another one in bench/results/scale.md than the program prints (-doc +program)\n%s", head, diff)
		}
	}
}

// names returns the cells of a table that have no number, row by row.
func names(rows string) string {
	var all []string
	for row := range strings.Lines(rows) {
		for cell := range strings.SplitSeq(strings.Trim(row, "|\n "), "|") {
			if cell = strings.TrimSpace(cell); cell != "" && !strings.ContainsAny(cell[:1], "0123456789-") {
				all = append(all, cell)
			}
		}
	}
	return strings.Join(all, "\n")
}
