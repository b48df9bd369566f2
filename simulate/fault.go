package simulate

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"strconv"
	"strings"
)

// A fault is one thing that goes wrong in a history. At counts the writes that the program tries.
type fault struct {
	what string // one of the kinds below
	on   string // the plural of a hold, a cut and a stale start, and an absent actor
	at   int
	long int // for how many changes of the server a watch is held; 0: until nothing else is left to do
}

// The kinds of faults.
const (
	hold        = "hold"         // the watches of a resource show nothing
	cut         = "cut"          // the watches of a resource end with 410, so they list again
	conflict    = "conflict"     // another manager writes before a write, which is answered with 409
	refuse      = "refuse"       // a write is answered with 503, and is not done
	lose        = "lose"         // a write is done, and its answer is lost
	slow        = "slow"         // a write is done, and its answer comes after all else
	crashBefore = "crash-before" // the program crashes, and the write is not done
	crashAfter  = "crash-after"  // the write is done, and the program crashes
	lease       = "lease"        // the program loses its leadership before a write, and starts again
	foreign     = "foreign"      // another manager annotates and labels an object
	keep        = "keep"         // another manager's finalizer keeps a child until the steps are done
	stale       = "stale"        // the next start after this write lists a resource as it was some changes before
)

// absent is an actor that does nothing until all steps are done.
const absent = "absent"

// allKinds are the kinds of faults, as -simulate.without and World.Without name them.
var allKinds = []string{absent, hold, cut, conflict, refuse, lose, slow, crashBefore, crashAfter, lease, foreign, keep, stale}

func onWatch(what string) bool {
	return what == hold || what == cut || what == stale || what == foreign || what == keep || what == absent
}

func (f fault) String() string {
	s := f.what
	if f.on != "" {
		s += " " + f.on
	}
	s += fmt.Sprintf(" at %d", f.at)
	if f.long > 0 {
		s += fmt.Sprintf(" for %d", f.long)
	}
	return s
}

// A plan is all that makes a history what it is.
type plan struct {
	order  uint64 // the seed of the order; 0: first come, first served
	faults []fault
	sweep  sweep
}

// String returns the plan as World.History and the files in testdata have it.
func (p plan) String() string {
	parts := []string{fmt.Sprintf("order %d", p.order)}
	for _, f := range p.faults {
		parts = append(parts, f.String())
	}
	return strings.Join(parts, "; ")
}

// parsePlan is the inverse of String.
func parsePlan(s string) (p plan, err error) {
	for i, part := range strings.Split(s, ";") {
		words := strings.Fields(part)
		bad := fmt.Errorf("simulate: %q in the history %q is no order and no fault", part, s)
		if i == 0 {
			if len(words) != 2 || words[0] != "order" {
				return p, bad
			}
			if p.order, err = strconv.ParseUint(words[1], 10, 64); err != nil {
				return p, bad
			}
			continue
		}
		f := fault{}
		if len(words) > 0 {
			f.what, words = words[0], words[1:]
		}
		if len(words)%2 == 1 {
			f.on, words = words[0], words[1:]
		}
		for ; len(words) > 0; words = words[2:] {
			to := map[string]*int{"at": &f.at, "for": &f.long}[words[0]]
			if to == nil {
				return p, bad
			}
			if *to, err = strconv.Atoi(words[1]); err != nil {
				return p, bad
			}
		}
		if !slices.Contains(allKinds, f.what) || onWatch(f.what) != (f.on != "") {
			return p, bad
		}
		p.faults = append(p.faults, f)
	}
	return p, nil
}

// planOf draws history n of a seed. The first has only another order than the calm run; then come
// some with one fault, with two and with three, of which half keep the order, and some with more.
func planOf(seed uint64, n int, of *calmRun) plan {
	rng := rand.New(rand.NewPCG(seed, uint64(n)))
	budget := [...]int{1, 1, 2, 2, 1, 0, 2, 3, 3, 4}[n%10]
	if budget == 4 {
		budget += rng.IntN(4)
	}
	kinds := of.Kinds
	var p plan
	if len(kinds) == 0 {
		budget = 0 // another order alone
	}
	if budget == 0 || rng.IntN(2) == 0 {
		p.order = 1 + rng.Uint64N(1<<32)
	}
	for range budget {
		f := fault{what: kinds[rng.IntN(len(kinds))], at: rng.IntN(of.Writes + 3)}
		if f.what == absent {
			f.on = of.Actors[rng.IntN(len(of.Actors))]
		} else if f.what == stale {
			if len(of.Stale) == 0 {
				continue
			}
			f.on = of.Stale[rng.IntN(len(of.Stale))]
		} else if onWatch(f.what) {
			if len(of.Watched) == 0 {
				continue
			}
			f.on = of.Watched[rng.IntN(len(of.Watched))]
		}
		if f.what == hold && rng.IntN(3) == 0 || f.what == stale {
			f.long = 1 + rng.IntN(6)
		}
		if f.what == stale { // it shows only in a start
			starts := slices.DeleteFunc([]string{crashBefore, crashAfter, lease}, func(what string) bool { return !slices.Contains(kinds, what) })
			if len(starts) == 0 {
				continue
			}
			p.faults = append(p.faults, fault{what: starts[rng.IntN(len(starts))], at: f.at})
		}
		p.faults = append(p.faults, f)
	}
	return p
}

// smaller yields plans that say less than p: without a fault, in plain order, with earlier and
// shorter faults.
func (p plan) smaller(yield func(plan) bool) {
	with := func(i int, f fault) plan {
		faults := append([]fault(nil), p.faults...)
		faults[i] = f
		return plan{order: p.order, faults: faults}
	}
	if p.order != 0 && !yield(plan{faults: p.faults}) {
		return
	}
	for i := range p.faults {
		if !yield(plan{order: p.order, faults: append(append([]fault(nil), p.faults[:i]...), p.faults[i+1:]...)}) {
			return
		}
	}
	for i, f := range p.faults {
		for _, at := range []int{f.at / 2, f.at - 1} {
			if at >= 0 && at < f.at {
				g := f
				g.at = at
				if !yield(with(i, g)) {
					return
				}
			}
		}
		if f.long > 1 {
			g := f
			g.long = f.long / 2
			if !yield(with(i, g)) {
				return
			}
		}
	}
}

// kindsOf returns the kinds of faults without those that are left out.
func kindsOf(without []string) ([]string, error) {
	for _, what := range without {
		if !slices.Contains(allKinds, what) {
			return nil, fmt.Errorf("simulate: there is no kind of fault %q to leave out: they are %s", what, strings.Join(allKinds, ", "))
		}
	}
	return slices.DeleteFunc(slices.Clone(allKinds), func(what string) bool { return slices.Contains(without, what) }), nil
}
