package simulate

import "testing"

// TestPlan writes plans down, and reads them.
func TestPlan(t *testing.T) {
	of := &calmRun{Writes: 9, Watched: []string{"pods", "jobs"}, Actors: []string{garbage}, Kinds: allKinds,
		Stale: []string{"pods"}}
	for n := range 200 {
		p := planOf(3, n, of)
		q, err := parsePlan(p.String())
		if err != nil || q.String() != p.String() {
			t.Fatalf("%q is read as %q, %v", p, q, err)
		}
	}
	for _, bad := range []string{"", "order", "order x", "order 1; explode at 3", "order 1; hold at 3",
		"order 1; slow jobs at 2", "order 1; slow at x", "order 1; slow in 3"} {
		if p, err := parsePlan(bad); err == nil {
			t.Errorf("%q is read as %q", bad, p)
		}
	}
}
