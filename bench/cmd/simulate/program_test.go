package main

import (
	"bytes"
	"encoding/xml"
	"errors"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/go-lw/lw/bench/internal/simulate"
)

// TestProgram runs the whole program with few clients. All of them must follow in the end, and
// bench/results/scale.md must have the tables that the program prints, with the same rows. The tables that
// depend on no clients must be the same in every cell.
func TestProgram(t *testing.T) {
	simulate.Silence()
	doc, err := os.ReadFile("../../results/scale.md")
	if err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	var out bytes.Buffer
	if err := (program{out: &out, log: io.Discard, svg: dir, divide: 100}).run(t); err != nil {
		t.Fatal(err)
	}
	tables := strings.Split(strings.TrimSpace(out.String()), "\n\n")
	const simulated = 3 // the first ones
	if len(tables) < simulated+3 {
		t.Fatalf("%d tables", len(tables))
	}
	for i, table := range tables {
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
		if i < simulated {
			// The numbers of clients are not those of the doc.
			rows, want = names(rows), names(want)
		}
		if diff := cmp.Diff(want, rows); diff != "" {
			t.Errorf("the table with the head\n%s\nis another one in bench/results/scale.md than the program prints (-doc +program)\n%s", head, diff)
		}
	}
	for _, name := range []string{"scale-start.svg", "scale-restart.svg", "scale-backoff.svg", "scale-size.svg"} {
		data, err := os.ReadFile(filepath.Join(dir, name))
		if err != nil {
			t.Error(err)
			continue
		}
		d := xml.NewDecoder(bytes.NewReader(data))
		for {
			if _, err := d.Token(); errors.Is(err, io.EOF) {
				break
			} else if err != nil {
				t.Errorf("%s: %v", name, err)
				break
			}
		}
		if !strings.Contains(string(doc), "("+name+")") {
			t.Errorf("bench/results/scale.md does not show %s", name)
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
