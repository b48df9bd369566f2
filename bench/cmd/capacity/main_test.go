package main

import (
	"bytes"
	"os"
	"strings"
	"testing"

	"github.com/go-lw/lw/bench/internal/capacity"
)

func TestMain(m *testing.M) {
	capacity.Child()
	os.Exit(m.Run())
}

// TestRun measures a little of everything, and checks that bench/results/scale.md has these tables.
func TestRun(t *testing.T) {
	if testing.Short() {
		t.Skip("waits for processes that must be idle")
	}
	doc, err := os.ReadFile("../../results/scale.md")
	if err != nil {
		t.Fatal(err)
	}
	var out bytes.Buffer
	if err := run(&out, 1000); err != nil {
		t.Fatal(err)
	}
	for table := range strings.SplitSeq(strings.TrimSpace(out.String()), "\n\n") {
		head, rows, _ := strings.Cut(table, "\n")
		if got := strings.Count(rows, "\n"); got != 3 {
			t.Errorf("%d rows of\n%s", got, table)
		}
		if !strings.Contains(string(doc), head) {
			t.Errorf("bench/results/scale.md has no table with the head\n%s", head)
		}
	}
}
