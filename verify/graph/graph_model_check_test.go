package graph_test

import (
	"cmp"
	"fmt"
	"maps"
	"runtime"
	"slices"
	"strings"
	"sync"
	"testing/synctest"

	gocmp "github.com/google/go-cmp/cmp"
	"k8s.io/apimachinery/pkg/util/resourceversion"
	"pgregory.net/rapid"

	"github.com/go-lw/lw"
)

func containsAll(text string, parts ...string) bool {
	return !slices.ContainsFunc(parts, func(part string) bool { return !strings.Contains(text, part) })
}

// stepped runs in the graph's goroutine after each step.
func (w *graphWorld) stepped() {
	w.last = w.g.Snapshot()
	w.checkStep(w.last)
	w.mu.Lock()
	w.panics.steppedLocked(w)
	w.had = slices.DeleteFunc(slices.Clone(w.nodes), func(n *graphNode) bool { return n.closed })
	w.looked += w.inside
	if w.inside = 0; w.mistaken != "" {
		w.failLocked("%s", w.mistaken)
	}
	w.mu.Unlock()
	w.gate <- struct{}{}
	<-w.gate
}

// inCommit runs in the graph's goroutine when a commit has changed the stores, and before it shows
// that. It takes no lock of the world, whose holders may wait for the commit. Other readers have a
// chance to read meanwhile.
func (w *graphWorld) inCommit() {
	if w.last == nil {
		return // what is shown is of no step
	}
	w.inside++
	w.tick()
	for range 4 {
		runtime.Gosched()
	}
	got := w.g.Snapshot()
	for _, in := range w.ins {
		if a, b := w.last.ResourceVersion(in.inf), got.ResourceVersion(in.inf); a != b && a != "" && b != "" {
			w.mistaken = fmt.Sprintf("in a commit a snapshot is of %s of %s, and the step before of %s", b, in.name, a)
		}
	}
	for _, n := range w.had {
		for how := range 40 {
			if how%4 == 0 {
				continue // Snapshot lacks a collection that is being closed
			}
			if r := w.readAtom(n, how); !r.shown(w.last) {
				w.mistaken = fmt.Sprintf("in a commit %s of %s is not of the step before", r.what, n.name)
			}
		}
	}
}

// checkStep checks that what s shows is made of states that the inputs had.
func (w *graphWorld) checkStep(s *lw.GraphSnapshot) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.failed != "" {
		return
	}
	if n := len(w.steps); n == 0 || w.steps[n-1] != s {
		if n > 0 {
			w.notBackLocked(w.steps[n-1], s)
		}
		w.steps = append(w.steps, s)
	}
	// Mostly an input had one state at a version, and it is known which members a union has.
	var choices []func(int) int // sets one of them, and returns how many there are
	inputs := map[*graphInput]whole{}
	for _, in := range w.ins {
		version := s.ResourceVersion(in.inf)
		states := in.states[version]
		if version != "" && len(states) == 0 {
			w.failLocked("a step is of %s at %s, which it never was", in.name, version)
			return
		}
		if version != "" {
			choices = append(choices, func(i int) int { inputs[in] = states[i]; return len(states) })
		}
	}
	absent := map[*graphSource]bool{}
	shown := w.shownLocked()
	for _, n := range w.nodes {
		for _, m := range n.ins {
			if m.pending && shown[n] {
				choices = append(choices, func(i int) int { absent[m] = i == 0; return 2 })
			}
		}
	}
	first := ""
	var try func(i int) bool
	try = func(i int) bool {
		if i == len(choices) {
			mistake := w.explainLocked(s, inputs, absent)
			if first == "" {
				first = mistake
			}
			return mistake == ""
		}
		for c, n := 0, 1; c < n; c++ {
			if n = choices[i](c); try(i + 1) {
				return true
			}
		}
		return false
	}
	if !try(0) {
		w.failLocked("%s", first)
	}
}

// shownLocked returns the nodes that a step may show, or what a step shows may be made of: those
// that are open, and what may still be a member of one of them.
func (w *graphWorld) shownLocked() map[*graphNode]bool {
	shown := map[*graphNode]bool{}
	var visit func(n *graphNode)
	visit = func(n *graphNode) {
		if shown[n] {
			return
		}
		shown[n] = true
		for _, m := range n.ins {
			if m.node != nil && m.pending {
				visit(m.node)
			}
		}
	}
	for _, n := range w.nodes {
		if !n.closed {
			visit(n)
		}
	}
	return shown
}

// notBackLocked checks that the versions of inputs do not fall from one step to the next.
func (w *graphWorld) notBackLocked(before, after *lw.GraphSnapshot) {
	for _, in := range w.ins {
		was, is := before.ResourceVersion(in.inf), after.ResourceVersion(in.inf)
		if was == "" || is == "" {
			continue // no collection reads it
		}
		if c, err := resourceversion.CompareResourceVersion(was, is); err != nil || c > 0 {
			if in.rewinds--; in.rewinds < 0 || err != nil {
				w.failLocked("%s went back from %s to %s (%v)", in.name, was, is, err)
			}
		}
	}
}

// explainLocked says what in s is not made of the states of the inputs.
func (w *graphWorld) explainLocked(s *lw.GraphSnapshot, inputs map[*graphInput]whole,
	absent map[*graphSource]bool) (mistake string) {
	all := w.modelLocked(inputs, absent)
	for _, n := range w.nodes {
		if n.closed || w.panics.spoils(n) {
			continue
		}
		want := all[n]
		if want == nil {
			want = newMade() // its inputs have not synced
		}
		if mistake = diffOfWhole(n.name, want.objs, wholeOf(n.d.At(s))); mistake != "" {
			return fmt.Sprintf("step %s of %v: %s", n.d.At(s).ResourceVersion(), w.vectorLocked(s), mistake)
		}
	}
	for n, m := range all {
		for key := range m.rivals {
			w.rivals["graph/"+n.name+" "+key.String()] = true
		}
	}
	return ""
}

// modelLocked computes all nodes whose inputs have synced. absent has the members of unions that
// are not there yet, or any more.
func (w *graphWorld) modelLocked(inputs map[*graphInput]whole, absent map[*graphSource]bool) map[*graphNode]*made {
	all := map[*graphNode]*made{}
	begun := map[*graphNode]bool{}
	var visit func(n *graphNode) *made
	visit = func(n *graphNode) *made {
		if m := all[n]; m != nil || begun[n] { // two unions may have each other's old members, but not at once
			return m
		}
		begun[n] = true
		if n.late && !isDone(n.d.Synced()) {
			return nil // it was not there yet when the step began
		}
		var ins []whole
		for i, s := range n.ins {
			if s.gone && !s.pending || absent[s] {
				continue
			}
			objs, synced := inputs[s.input]
			if s.node != nil {
				if before := visit(s.node); before != nil {
					objs, synced = before.objs, true
				}
			}
			if !synced && i < n.first {
				return nil
			}
			ins = append(ins, objs)
		}
		m := newMade()
		n.op.model(n.kit, m, ins)
		all[n] = m
		return m
	}
	for _, n := range w.nodes {
		if !n.closed {
			visit(n)
		}
	}
	return all
}

func (w *graphWorld) vectorLocked(s *lw.GraphSnapshot) (vector []string) {
	for _, in := range w.ins {
		vector = append(vector, s.ResourceVersion(in.inf))
	}
	return vector
}

func diffOfWhole(what string, want, got whole) string {
	if maps.Equal(want, got) {
		return ""
	}
	return fmt.Sprintf("%s (-want +got):\n%s", what, gocmp.Diff(want, got))
}

// An atomRead is what one read has shown.
type atomRead struct {
	what string
	of   *graphNode
	// shown reports whether the read is of the state s.
	shown func(s *lw.GraphSnapshot) bool
}

// tick has the readers read.
func (w *graphWorld) tick() {
	for _, tick := range w.ticks {
		select {
		case tick <- struct{}{}:
		default:
		}
	}
}

// read reads whenever there is a tick.
func (w *graphWorld) read(seed int, ticks chan struct{}) {
	for range ticks {
		var reads []atomRead
		for range 40 {
			w.mu.Lock()
			nodes := slices.DeleteFunc(slices.Clone(w.nodes), func(n *graphNode) bool { return n.closed })
			w.mu.Unlock()
			if seed = (seed*5 + 7) % 1031; len(nodes) > 0 {
				reads = append(reads, w.readAtom(nodes[seed%len(nodes)], seed/7))
			}
			runtime.Gosched()
		}
		w.mu.Lock()
		w.reads = append(w.reads, reads)
		w.mu.Unlock()
	}
}

// readAtom makes one of several reads of n.
func (w *graphWorld) readAtom(n *graphNode, how int) atomRead {
	switch how % 4 {
	case 0:
		got := w.g.Snapshot()
		return atomRead{"Snapshot", n, func(s *lw.GraphSnapshot) bool {
			for _, in := range w.ins {
				// An input that no collection reads any more has no version.
				if a, b := s.ResourceVersion(in.inf), got.ResourceVersion(in.inf); a != b && a != "" && b != "" {
					return false
				}
			}
			return n.d.At(s).ResourceVersion() == n.d.At(got).ResourceVersion() &&
				sameObjects(n.d.At(s).List(), n.d.At(got).List())
		}}
	case 1:
		got := n.d.Store().List()
		return atomRead{"List", n, func(s *lw.GraphSnapshot) bool { return sameObjects(n.d.At(s).List(), got) }}
	case 2:
		got := n.byN.List(how % 3)
		return atomRead{"Index.List", n, func(s *lw.GraphSnapshot) bool {
			skipped := func(a *atom) bool { return w.panics.skips(n, a, true) }
			want := slices.DeleteFunc(n.d.At(s).List(), func(a *atom) bool { return a.N%3 != how%3 || skipped(a) })
			return sameObjects(want, slices.DeleteFunc(slices.Clone(got), skipped))
		}}
	}
	keys := []lw.Key{
		{Namespace: "ns", Name: "a"}, {Namespace: "ns", Name: "b"}, {Namespace: "ns", Name: "k0"},
		{Namespace: "group", Name: "k1"},
		{Namespace: "many", Name: "k0"}, {Namespace: "many", Name: "k1"}, {Namespace: "pair", Name: "k2"},
		{Namespace: "pair", Name: "a-a"},
	}
	key := keys[how/4%len(keys)]
	got, _ := n.d.Store().Get(key)
	return readOf("Get", n, key, got)
}

func readOf(what string, n *graphNode, key lw.Key, got *atom) atomRead {
	return atomRead{what + " " + key.Name, n, func(s *lw.GraphSnapshot) bool {
		obj, _ := n.d.At(s).Get(key)
		return obj == got
	}}
}

// sameObjects reports whether two lists are of the same objects, in whatever order.
func sameObjects(a, b []*atom) bool {
	in := make(map[*atom]int, len(a))
	for _, x := range a {
		in[x]++
	}
	for _, x := range b {
		in[x]--
	}
	for _, n := range in {
		if n != 0 {
			return false
		}
	}
	return true
}

// checkReadsLocked checks that each goroutine's reads are of steps that never go back.
func (w *graphWorld) checkReadsLocked() {
	for _, reads := range w.reads {
		at := 0
		for _, r := range reads {
			if r.of.closed {
				continue
			}
			i := slices.IndexFunc(w.steps[at:], r.shown)
			if i < 0 {
				w.failLocked("%s of %s is of no step from %d of %d on: of none at all: %t", r.what, r.of.name, at, len(w.steps),
					!slices.ContainsFunc(w.steps, r.shown))
				break
			}
			at += i
			w.seen["read"]++
		}
	}
	w.reads = nil
	w.seen["in a commit"] += w.looked
	w.looked = 0
}

// An atomStory checks what a handler is told.
type atomStory struct {
	reg *lw.Registration

	mu      sync.Mutex
	present map[lw.Key]*atom
}

// newStory adds a handler to n. If blocked is true its first call ends with the world.
func (w *graphWorld) newStory(n *graphNode, blocked bool) *atomStory {
	s := &atomStory{present: map[lw.Key]*atom{}}
	tell := func(what string, old, obj *atom) {
		if blocked {
			<-w.opened
			return
		}
		key := lw.KeyOf(cmp.Or(obj, old))
		s.mu.Lock()
		last := s.present[key]
		s.present[key] = obj
		if obj == nil {
			delete(s.present, key)
		}
		s.mu.Unlock()
		if last != old {
			w.fail("%s: %s of %v from %+v, and told before was %+v", n.name, what, key, old, last)
		}
		if what == "Update" && (old.UID != obj.UID || n.union == nil && old.N == obj.N && old.Text == obj.Text &&
			!w.panics.excuses(key)) {
			w.fail("%s: Update of %v from %+v to %+v", n.name, key, old, obj)
		}
		if obj != nil {
			got, _ := n.d.Store().Get(key)
			w.mu.Lock()
			w.reads = append(w.reads, []atomRead{readOf("told "+what, n, key, obj), readOf("Get after "+what, n, key, got)})
			w.mu.Unlock()
		}
	}
	s.reg = n.d.AddHandler(lw.Handler[*atom]{
		Add:    func(a *atom) { tell("Add", nil, a) },
		Update: func(old, a *atom) { tell("Update", old, a) },
		Delete: func(a *atom) { tell("Delete", a, nil) },
	})
	if blocked {
		return nil
	}
	return s
}

// conflictsOf returns the keys of which the status of g names a conflict, by collection.
func conflictsOf(g *lw.Graph) map[string][]string {
	all := map[string][]string{}
	for _, c := range g.Status().Collections {
		if strings.HasPrefix(c.Name, "Union[") {
			continue // all unions have one name
		}
		var keys []string
		for key := range c.Conflicts {
			keys = append(keys, key.String())
		}
		slices.Sort(keys)
		all[c.Name] = keys
	}
	return all
}

// Check checks all that must be so when nothing is going on.
func (w *graphWorld) Check(t *rapid.T) {
	synctest.Wait()
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.failed == "" && !w.held {
		w.checkCalmLocked()
	}
	if w.failed == "" {
		w.checkReadsLocked()
	}
	if w.failed != "" {
		t.Fatal(w.failed)
	}
}
