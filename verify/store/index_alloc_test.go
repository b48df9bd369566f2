//go:build !race

package store_test

import (
	"iter"
	"slices"
	"strconv"
	"testing"

	"github.com/go-lw/lw"
)

// TestIndexerAllocations are goals of performance as tests: none of these allocates.
func TestIndexerAllocations(t *testing.T) {
	var rows []*row
	for i := range 1000 {
		rows = append(rows, newRow(strconv.Itoa(i), "1", "n"+strconv.Itoa(i%10)))
	}
	x := lw.NewIndexer(rows...)
	nodes := lw.NewIndex(x, (*row).node)
	lw.NewIndex(x, (*row).GetNamespace)
	tags := slices.Values([]string{"a", "b"}) // what the function itself allocates is not the store's
	lw.NewMultiIndex(x, func(*row) iter.Seq[string] { return tags })
	next := make([]*row, len(rows))
	for i, r := range rows {
		copied := *r
		copied.ResourceVersion = "2"
		next[i] = &copied
	}
	snap := x.Snapshot()
	i, n := 0, 0
	for name, f := range map[string]func(){
		"Get":          func() { x.Get(lw.KeyOf(rows[i%1000])) },
		"Snapshot.Get": func() { snap.Get(lw.KeyOf(rows[i%1000])) },
		"Len":          func() { n += x.Len() },
		"Snapshot":     func() { n += x.Snapshot().Len() },
		"Lookup":       func() { n += countOf(nodes, "n3") },
		"Index.Len":    func() { n += nodes.Len("n3") },
		"All":          func() { n += countAll(x) },
		"Set":          func() { x.Set([][]*row{rows, next}[i/1000%2][i%1000]) },
	} {
		for range 2000 { // a Set copies, once, what a snapshot shows
			f()
			i++
		}
		if got := testing.AllocsPerRun(2000, func() { f(); i++ }); got != 0 {
			t.Errorf("%s: %v allocations", name, got)
		}
	}
}

// TestLoadAllocations is another: what a load allocates grows with the logarithm of the objects,
// and their memory.
func TestLoadAllocations(t *testing.T) {
	var rows []*row
	for i := range 5000 {
		rows = append(rows, newRow(strconv.Itoa(i), "1", "n"+strconv.Itoa(i%10)))
	}
	x := lw.NewIndexer[*row]()
	load := func() {
		x.Replace(nil, "1")
		x.Replace(rows, "2")
	}
	load()
	if got := testing.AllocsPerRun(10, load); got > float64(len(rows))/10 {
		t.Errorf("%v allocations for %d objects", got, len(rows))
	}
}

// countAll and countOf are functions of their own, as a caller has them.
func countAll(x *lw.Indexer[*row]) (n int) {
	for r := range x.All() {
		if r != nil {
			n++
		}
	}
	return n
}

func countOf(nodes *lw.Index[string, *row], node string) (n int) {
	for r := range nodes.Lookup(node) {
		if r != nil {
			n++
		}
	}
	return n
}
