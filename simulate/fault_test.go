package simulate

import (
	"flag"
	"fmt"
	"maps"
	"os"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/go-lw/lw/internal/verify/rig"
)

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
		"order 1; slow jobs at 2", "order 1; slow at x", "order 1; slow in 3", "chaos 1", "order 1 2", "order 1;",
		"order 1; slow at 1 for x"} {
		if p, err := parsePlan(bad); err == nil || !strings.Contains(err.Error(), "is no order and no fault") ||
			!strings.HasSuffix(err.Error(), "in the history \""+bad+"\" is no order and no fault") {
			t.Errorf("%q is read as %q, %v", bad, p, err)
		}
	}
	p := rig.Must[plan](t)(parsePlan("order 7; hold pods at 1 for 2; slow at 3"))
	want := plan{order: 7, faults: []fault{{hold, "pods", 1, 2}, {slow, "", 3, 0}}}
	if diff := cmp.Diff(want, p, cmp.AllowUnexported(plan{}, fault{})); diff != "" {
		t.Errorf("(-want +got)\n%s", diff)
	}
}

// TestDraw draws what the calm run allows: few faults at first, of each kind on what has it, at each
// write and soon after.
func TestDraw(t *testing.T) {
	of := &calmRun{Writes: 4, Watched: []string{"pods", "jobs"}, Actors: []string{garbage, "kubelet"}, Kinds: allKinds,
		Stale: []string{"nodes", "secrets"}}
	on, at, long := map[string]bool{}, map[int]bool{}, map[string]bool{}
	ordered, plain := 0, 0
	for n := range 4000 {
		p := planOf(5, n, of)
		if planOf(5, n, of).String() != p.String() || p.sweep != none {
			t.Fatalf("history %d is drawn in two ways", n)
		}
		starts := 0
		for i, f := range p.faults {
			on[f.what+" "+f.on], at[f.at] = true, true
			if f.long > 0 {
				long[f.what] = true
			}
			if f.what == stale {
				starts++
				before := p.faults[i-1]
				if before.at != f.at || !slices.Contains([]string{crashBefore, crashAfter, lease}, before.what) || f.long < 1 {
					t.Fatalf("%q reads an older state without a start", p)
				}
			}
			if f.long < 0 || f.long > 6 {
				t.Fatalf("%q is too long", p)
			}
		}
		budget := [...]int{1, 1, 2, 2, 1, 0, 2, 3, 3, 7}[n%10]
		if got := len(p.faults) - starts; got > budget || got < min(budget, 4) || budget == 0 && p.order == 0 {
			t.Fatalf("history %d is %q", n, p)
		}
		if p.order > 1<<32 {
			t.Fatalf("the order of %q", p)
		}
		if p.order == 0 {
			plain++
		} else {
			ordered++
		}
	}
	want := map[string]bool{"absent garbage": true, "absent kubelet": true, "stale nodes": true, "stale secrets": true}
	for _, what := range allKinds {
		switch {
		case what == hold || what == cut || what == foreign || what == keep:
			want[what+" pods"], want[what+" jobs"] = true, true
		case !onWatch(what):
			want[what+" "] = true
		}
	}
	rig.Same(t, "the faults", want, on)
	rig.Same(t, "when they come", []int{0, 1, 2, 3, 4, 5, 6}, slices.Sorted(maps.Keys(at)))
	rig.Same(t, "what has a length", map[string]bool{hold: true, stale: true}, long)
	if plain < 1000 || ordered < 1000 {
		t.Errorf("%d in the calm order, and %d in others", plain, ordered)
	}

	// What the calm run has not, or the World leaves out, is not drawn.
	for n := range 400 {
		for _, of := range []*calmRun{
			{Kinds: []string{stale}, Stale: []string{"pods"}}, {Kinds: []string{stale, crashAfter}}, {Kinds: []string{hold, cut}},
			{Watched: []string{"pods"}},
		} {
			if p := planOf(5, n, of); slices.ContainsFunc(p.faults, func(f fault) bool { return f.what != crashAfter }) ||
				len(of.Kinds) == 0 && p.order == 0 {
				t.Fatalf("%+v has %q", of, p)
			}
		}
		for _, f := range planOf(5, n, &calmRun{Kinds: []string{stale, lease}, Stale: []string{"pods"}}).faults {
			if f.what != stale && f.what != lease {
				t.Fatalf("%q is left out", f)
			}
		}
	}
}

// TestSmaller makes a plan smaller in each way, one at a time.
func TestSmaller(t *testing.T) {
	for from, want := range map[string][]string{
		"order 0":            nil,
		"order 5":            {"order 0"},
		"order 5; slow at 1": {"order 0; slow at 1", "order 5", "order 5; slow at 0", "order 5; slow at 0"},
		"order 0; hold pods at 5 for 4; slow at 0": {"order 0; slow at 0", "order 0; hold pods at 5 for 4",
			"order 0; hold pods at 2 for 4; slow at 0", "order 0; hold pods at 4 for 4; slow at 0",
			"order 0; hold pods at 5 for 2; slow at 0"},
		"order 0; hold pods at 0 for 1": {"order 0"},
	} {
		p := rig.Must[plan](t)(parsePlan(from))
		var got []string
		for q := range p.smaller {
			got = append(got, q.String())
		}
		rig.Same(t, from, want, got)
		for n := range want { // who asks for no more gets no more
			left := n
			for range p.smaller {
				if left--; left < 0 {
					break
				}
			}
		}
		rig.Same(t, "the plan", from, p.String())
	}
}

// TestKinds leaves out kinds of faults, and none that there is not.
func TestKinds(t *testing.T) {
	got := rig.Must[[]string](t)(kindsOf([]string{stale, absent}))
	want := []string{hold, cut, conflict, refuse, lose, slow, crashBefore, crashAfter, lease, foreign, keep}
	rig.Same(t, "without two", want, got)
	rig.Same(t, "all", allKinds, rig.Must[[]string](t)(kindsOf(nil)))
	_, err := kindsOf([]string{hold, "fire"})
	if err == nil || err.Error() != `simulate: there is no kind of fault "fire" to leave out: they are `+
		strings.Join(allKinds, ", ") {
		t.Error(err)
	}
}

var rewriteStories = flag.Bool("update", false, "write testdata/stories.txt")

// TestStories tells the whole story of each kind of fault, and of what the program, the users and the
// garbage collector do about it.
func TestStories(t *testing.T) {
	s := begin(t, &World{Kubernetes: "1.31", Start: manage(clean), Steps: func(w *W) {
		steps(w)
		w.Settle()
		w.Delete(one)
		w.Apply(two)
	}})
	var got strings.Builder
	for _, plan := range []string{
		"order 0",
		"order 0; hold secrets at 1 for 2",
		"order 0; cut secrets at 2",
		"order 0; conflict at 1",
		"order 0; refuse at 0",
		"order 0; lose at 0",
		"order 0; slow at 0",
		"order 0; crash-before at 2",
		"order 0; crash-after at 0",
		"order 0; lease at 1",
		"order 0; foreign secrets at 2",
		"order 0; keep secrets at 1",
		"order 0; crash-after at 0; stale secrets at 0 for 1",
		"order 0; absent garbage at 1",
	} {
		var told report
		_, err := spawn(t, task{Plan: plan, Once: true}, s.halt, func(r report) {
			if len(r.Story) > 0 {
				told = r
			}
		})
		rig.OK(t, err)
		// How often a program tries again is its library's.
		fmt.Fprintf(&got, "%s\n%s", plan, story(slices.Compact(told.Story)))
		if told.Failure != nil {
			fmt.Fprintf(&got, "%v\n", told.Failure)
		}
		got.WriteByte('\n')
	}
	const file = "testdata/stories.txt"
	if *rewriteStories {
		rig.OK(t, os.WriteFile(file, []byte(got.String()), 0o666))
	}
	want := rig.Must[[]byte](t)(os.ReadFile(file))
	if diff := cmp.Diff(strings.Split(string(want), "\n"), strings.Split(got.String(), "\n")); diff != "" {
		t.Errorf("-update writes what is told now: (-want +got)\n%s", diff)
	}
}
