package main

import (
	"os"
	"testing"

	"github.com/go-lw/lw/bench/internal/child"
)

func TestMain(m *testing.M) {
	child.Serve(childVariable, job.measure)
	os.Exit(m.Run())
}

// Each side measures every column, and a packed object takes the least.
func TestSides(t *testing.T) {
	heap := map[string]float64{}
	for _, kind := range []string{"pods", "widgets"} {
		for _, side := range allSides {
			sample, err := measured(kind, "json", side, 600)
			if err != nil {
				t.Fatal(err)
			}
			for _, c := range columns {
				if _, ok := sample[c.key]; !ok && c.key != "minute.gc" && c.key != "minute.cpu" {
					t.Errorf("%s of %s has no %q", side, kind, c.title)
				}
			}
			heap[side] = sample["heap"]
		}
		if heap[packed] > heap[plain]/3 || heap[plain] > heap[clientGo] || heap[packedManager] > heap[manager]/3 {
			t.Errorf("%s: the heap is %v", kind, heap)
		}
	}
}

func measured(kind, format, side string, n int) (sample map[string]float64, err error) {
	err = each(kind, format, []string{side}, n, false, func(_ string, s map[string]float64) { sample = s })
	return sample, err
}
