package simulate

import (
	"slices"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/go-lw/lw/internal/shard"
)

// TestShares checks that each hash is counted for the part that has it.
func TestShares(t *testing.T) {
	hashes := append(Hashes(1000), 0, 1<<64-1)
	for _, n := range []int{1, 2, 3, 7, 100} {
		want := make([]int, n)
		for i := range n {
			// The bounds of each range are where rounding could go wrong.
			part := shard.Part(i, n)
			hashes := append(slices.Clone(hashes), part.First, part.Last)
			clear(want)
			for _, h := range hashes {
				for part := range n {
					if shard.Part(part, n).Contains(h) {
						want[part]++
					}
				}
			}
			if diff := cmp.Diff(want, Shares(hashes, n)); diff != "" {
				t.Fatalf("%d parts (-want +got)\n%s", n, diff)
			}
		}
	}
}

// TestSharded checks the loads of replicas, with and without a server that selects.
func TestSharded(t *testing.T) {
	m := Model{StreamCPU: 10 * time.Microsecond, EventCPU: 100 * time.Microsecond}
	k := Kept{Bytes: 100, SyncCPU: 20 * time.Microsecond, EventCPU: 50 * time.Microsecond}
	const objects, events, replicas, most = 1_000_000, 1000, 4, 1.5
	for _, test := range []struct {
		name    string
		selects bool
		want    Load
	}{
		{"selects", true, Load{4, 37.5e6, 5 * time.Second, 0.0125, 10 * time.Second, 0.1}},
		{"sends everything", false, Load{4, 37.5e6, 20 * time.Second, 0.05, 40 * time.Second, 0.4}},
	} {
		near := cmp.Comparer(func(x, y float64) bool { return x-y < 1e-9 && y-x < 1e-9 })
		if diff := cmp.Diff(test.want, Sharded(m, k, objects, events, replicas, most, test.selects), near); diff != "" {
			t.Errorf("a server that %s (-want +got)\n%s", test.name, diff)
		}
	}
}
