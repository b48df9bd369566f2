package graph_test

import (
	"slices"
	"strings"
	"sync"
	"sync/atomic"

	"pgregory.net/rapid"

	"github.com/go-lw/lw"
)

// Where a function of the random graphs may panic, and what the function is called in a Panic. Each
// of these panics leaves every collection as the model has it, at the latest when all is calm: of
// the others an object is set aside until its next version.
var graphFuses = map[string]string{
	"left":      "Left",      // for what a left was, or a second time
	"right":     "Right",     // the same of a right
	"group":     "key",       // the same of an object of a GroupAll
	"sum group": "aggregate", // for what an object of a GroupBy was
	"remove":    "aggregate", // in Aggregate.Remove
	"equal":     "Equal",
	"index":     "index",
}

// graphPanics are the panics of a graphWorld.
type graphPanics struct {
	fuse  atomic.Pointer[graphFuse] // nil: no function panics
	burnt atomic.Int64              // fuses so far

	// The graph's goroutine alone uses these.
	spoilt  *graphNode // a GroupBy in which a function has panicked in this step
	recount bool       // a GroupBy counts anew in the next step

	mu      sync.Mutex // guards what follows, and comes after graphWorld.mu
	told    []string   // the functions of which OnPanic was told
	excused map[lw.Key]bool
	skipped map[indexed]bool // true: the object is not in the index; false: it was not at first
}

// A graphFuse makes one function panic once, at the last of so many calls.
type graphFuse struct {
	what  string
	calls atomic.Int32
}

// An indexed is an object as a collection's index has it.
type indexed struct {
	n *graphNode
	a *atom
}

// burnt is what the functions panic with.
type burnt struct{ what string }

// mind panics if the fuse is for what, and this is the call for it. It calls first before.
func (p *graphPanics) mind(what string, first func()) {
	if f := p.fuse.Load(); f != nil && f.what == what && f.calls.Add(-1) == 0 {
		first()
		p.burnt.Add(1)
		panic(burnt{what})
	}
}

// Fuse has a function panic, soon or when other commands call it, and deletes objects.
func (w *graphWorld) Fuse(t *rapid.T) {
	if w.verify {
		t.Skip("a new computation does not panic where the first one did")
	}
	what := []string{"equal", "index"}
	for _, n := range w.open() {
		switch n.op.name {
		case "join", "leftjoin":
			what = append(what, "left", "right")
		case "groupall":
			what = append(what, "group", "group")
		case "groupby":
			what = append(what, "sum group", "remove")
		}
	}
	f := &graphFuse{what: rapid.SampledFrom(what).Draw(t, "what")}
	f.calls.Store(rapid.SampledFrom([]int32{1, 1, 1, 2, 3}).Draw(t, "calls"))
	w.panics.fuse.Store(f)
	for range rapid.IntRange(1, 6).Draw(t, "deletions") {
		w.write(t, w.input(t))
		in, name := w.input(t), rapid.SampledFrom([]string{"a", "b", "c", "d"}).Draw(t, "name")
		w.change(in, func() error { return in.mem.Delete(lw.KeyOf(newAtom(name, 0))) })
	}
}

// panicked is GraphOptions.OnPanic.
func (w *graphWorld) panicked(p *lw.Panic) {
	b, ok := p.Value.(burnt)
	if !ok {
		w.fail("a panic that no function has made: %v\n%s", p, p.Stack)
		return
	}
	if p.Handler != graphFuses[b.what] || !strings.HasPrefix(p.Informer, "graph/") {
		w.fail("OnPanic was told of %s of %s, which is %s", p.Handler, p.Informer, b.what)
	}
	w.panics.mu.Lock()
	defer w.panics.mu.Unlock()
	w.panics.told = append(w.panics.told, b.what)
}

// keyed returns what the key functions of n call with each object. what is the function, and from
// what it reads.
func (w *graphWorld) keyed(n *graphNode) func(what string, from int, x *atom) {
	called := map[string]map[*atom]bool{}
	return func(what string, from int, x *atom) {
		if called[what] == nil {
			called[what] = map[*atom]bool{}
		}
		before := called[what][x]
		called[what][x] = true
		if !before || n.op.name == "groupby" && w.panics.recount {
			return
		}
		// An object that comes back, in a union or in the place of another one, is new.
		if s := n.ins[from]; s.node != nil {
			if w.last == nil {
				return
			}
			if was, _ := s.node.d.At(w.last).Get(lw.KeyOf(x)); was != x {
				return
			}
		}
		w.panics.mind(what, func() { w.panics.spoil(n) })
	}
}

// removed is called with each call of Aggregate.Remove of n.
func (w *graphWorld) removed(n *graphNode) {
	if !w.panics.recount {
		w.panics.mind("remove", func() { w.panics.spoil(n) })
	}
}

// spoil notes that the next step counts n anew, if it is a GroupBy.
func (p *graphPanics) spoil(n *graphNode) {
	if n.op.name == "groupby" {
		p.spoilt, p.recount = n, true
	}
}

// steppedLocked ends a step. w.mu is held.
func (p *graphPanics) steppedLocked(w *graphWorld) {
	if p.spoilt == nil {
		p.recount = false
		return
	}
	// The step may have reported conflicts of what it has shown.
	for id := range w.reported {
		if slices.ContainsFunc(w.nodes, func(n *graphNode) bool { return p.spoils(n) && strings.HasPrefix(id, "graph/"+n.name+" ") }) {
			w.rivals[id] = true
		}
	}
	p.spoilt = nil
}

// spoils reports whether n shows in this step what the next one mends.
func (p *graphPanics) spoils(n *graphNode) bool {
	return p.spoilt != nil && n.everMadeOf()[p.spoilt]
}

// equal is called with the new one of two results that are compared.
func (p *graphPanics) equal(a *atom) {
	p.mind("equal", func() {
		p.mu.Lock()
		defer p.mu.Unlock()
		p.excused[lw.KeyOf(a)] = true
	})
}

// excuses reports whether handlers may be told an update of key without a difference.
func (p *graphPanics) excuses(key lw.Key) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.excused[key]
}

// index is called with each object that comes into the index of n.
func (p *graphPanics) index(n *graphNode, a *atom) {
	one := indexed{n, a}
	p.mind("index", func() {
		p.mu.Lock()
		defer p.mu.Unlock()
		p.skipped[one] = true
	})
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.skipped[one] {
		p.skipped[one] = false // it was shown again
	}
}

// skips reports whether the index of n does not have a, or, with ever, did not when it came.
func (p *graphPanics) skips(n *graphNode, a *atom, ever bool) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	now, was := p.skipped[indexed{n, a}]
	return now || ever && was
}

// calmLocked checks that OnPanic was told of every panic once. w.mu is held.
func (p *graphPanics) calmLocked(w *graphWorld) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if n := p.burnt.Swap(0); n != int64(len(p.told)) {
		w.failLocked("%d functions have panicked, and OnPanic was told of %q", n, p.told)
	}
	for _, what := range p.told {
		w.seen["panic in "+graphFuses[what]]++
		w.seen["panic"]++
	}
	p.told = nil
	clear(p.excused)
}

// fused is the world whose atoms' Equal may panic.
var fused atomic.Pointer[graphWorld]

// Equal compares two atoms without their resource versions.
func (a *atom) Equal(b *atom) bool {
	if w := fused.Load(); w != nil {
		w.panics.equal(b)
	}
	x, y := *a, *b
	x.ResourceVersion, y.ResourceVersion = "", ""
	return x == y
}
