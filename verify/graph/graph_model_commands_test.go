package graph_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"testing/synctest"
	"time"

	"k8s.io/apimachinery/pkg/util/resourceversion"
	"pgregory.net/rapid"

	"github.com/go-lw/lw"
	"github.com/go-lw/lw/internal/verify/rig"
)

// change writes to an input, and notes its new state.
func (w *graphWorld) change(in *graphInput, f func() error) error {
	w.mu.Lock()
	defer w.mu.Unlock()
	err := f()
	if err != nil {
		return err
	}
	now := whole{}
	for a := range in.mem.All() {
		now.put(a)
	}
	version := in.mem.ResourceVersion()
	in.states[version] = append(in.states[version], now)
	return nil
}

// put updates an object, or creates it.
func (in *graphInput) put(a *atom) error {
	_, err := in.mem.Update(a)
	if err != nil {
		_, err = in.mem.Create(a)
	}
	return err
}

// pick draws one of all, and skips the command if there is none.
func pick[E any](t *rapid.T, what string, all []E) E {
	if len(all) == 0 {
		t.Skip("there is none")
	}
	return all[rapid.IntRange(0, len(all)-1).Draw(t, what)]
}

func (w *graphWorld) input(t *rapid.T) *graphInput { return pick(t, "input", w.ins) }

// write makes one change of an input.
func (w *graphWorld) write(t *rapid.T, in *graphInput) {
	a := newAtom(rapid.SampledFrom([]string{"a", "b", "c", "d"}).Draw(t, "name"), rapid.IntRange(0, 6).Draw(t, "n"))
	action := rapid.SampledFrom([]string{"set", "set", "set", "recreate", "delete"}).Draw(t, "action")
	if action != "set" {
		w.change(in, func() error { return in.mem.Delete(lw.KeyOf(a)) })
	}
	if action != "delete" {
		w.change(in, func() error { return in.put(a) })
	}
}

// stir has the readers read, and mostly the graph make a step, while the command goes on.
func (w *graphWorld) stir(t *rapid.T) {
	w.tick()
	for range rapid.IntRange(0, 2).Draw(t, "stir") {
		w.write(t, w.input(t))
	}
}

// Write makes some changes of one or several inputs.
func (w *graphWorld) Write(t *rapid.T) {
	w.tick()
	for range rapid.IntRange(1, 4).Draw(t, "writes") {
		w.write(t, w.input(t))
	}
}

// Relist makes changes of which an informer sees only the outcome.
func (w *graphWorld) Relist(t *rapid.T) {
	w.tick()
	in := w.input(t)
	if in.failing || in.ended {
		t.Skip("it fails already")
	}
	in.mem.Fail(errors.New("away"))
	for range rapid.IntRange(2, 6).Draw(t, "writes") {
		w.write(t, in)
	}
	in.mem.Compact()
	in.mem.Fail(nil)
	w.tick()
	rig.Sleep(2 * time.Minute)
	w.seen["relist"]++
}

// Break ends watches, or makes the server fail until the next call.
func (w *graphWorld) Break(t *rapid.T) {
	w.tick()
	in := w.input(t)
	switch rapid.IntRange(0, 3).Draw(t, "how") {
	case 0:
		in.mem.Disconnect()
	case 1:
		in.mem.Compact()
		in.mem.Disconnect()
	default:
		if in.failing = !in.failing; in.failing {
			in.mem.Fail(errors.New("away"))
		} else {
			in.mem.Fail(nil)
		}
	}
}

func (w *graphWorld) Sleep(t *rapid.T) {
	rig.Sleep(time.Duration(rapid.IntRange(1, 100).Draw(t, "seconds")) * time.Second)
}

// Rewind restores a backup of a server. The informer learns of it before the server goes on.
func (w *graphWorld) Rewind(t *rapid.T) {
	in := w.input(t)
	if w.held || in.failing || in.ended || rapid.IntRange(0, 3).Draw(t, "rewind") > 0 {
		t.Skip("not now")
	}
	w.panics.fuse.Store(nil) // the objects that come back were there before
	rig.Sleep(10 * time.Minute)
	now := in.mem.ResourceVersion()
	version, _ := strconv.Atoi(now)
	to := fmt.Sprint(max(1, version-rapid.IntRange(1, 3).Draw(t, "back")))
	epoch := in.inf.Status().Epoch
	w.mu.Lock()
	err := in.mem.Rewind(to)
	if err == nil && to != now {
		in.rewinds++
	}
	w.mu.Unlock()
	rig.Sleep(10 * time.Minute)
	if err == nil && to != now && in.inf.Status().Epoch == epoch {
		t.Fatalf("%s has not noticed the way back from %s to %s", in.name, now, to)
	}
	w.seen["rewind"]++
}

// Hold keeps the graph from its next step until the next call, so that one step takes much.
func (w *graphWorld) Hold(t *rapid.T) {
	if w.held = !w.held; w.held {
		w.gate <- struct{}{}
		w.seen["hold"]++
	} else {
		w.tick()
		<-w.gate
	}
}

// Wait waits until the graph shows a write.
func (w *graphWorld) Wait(t *rapid.T) {
	in := w.input(t)
	// The last command may just have closed all that is derived from the input.
	derived := slices.ContainsFunc(w.open(), func(n *graphNode) bool { return n.derivedFrom(in) })
	if w.held || in.failing || in.ended || !derived || w.g.Snapshot().ResourceVersion(in.inf) == "" {
		t.Skip("not now")
	}
	w.stir(t)
	w.write(t, in)
	version := in.mem.ResourceVersion()
	ctx, cancel := context.WithTimeout(context.Background(), 10*time.Minute)
	defer cancel()
	if err := w.g.WaitForResourceVersion(ctx, in.inf, version); err != nil {
		t.Fatal(err)
	}
	shown := w.g.Snapshot().ResourceVersion(in.inf)
	if c, err := resourceversion.CompareResourceVersion(shown, version); err != nil || c < 0 {
		t.Fatalf("after a wait for %s of %s the graph is at %s", version, in.name, shown)
	}
	w.seen["wait"]++
}

// Flood makes more changes than a cursor keeps apart.
func (w *graphWorld) Flood(t *rapid.T) {
	if rapid.IntRange(0, 9).Draw(t, "flood") > 0 {
		t.Skip("rarely")
	}
	in := w.input(t)
	w.tick()
	for i := range 2200 {
		w.change(in, func() error { return in.put(newAtom([]string{"a", "b", "c"}[i%3], i%7)) })
	}
	w.seen["flood"]++
}

// AddNode makes a collection of inputs and other collections.
func (w *graphWorld) AddNode(t *rapid.T) {
	open := w.open()
	if len(open) >= 9 {
		t.Skip("enough")
	}
	op := operations[slices.Index(operationNames, rapid.SampledFrom(operationNames).Draw(t, "operation"))]
	k := drawKit(t)
	count := 1
	switch op.name {
	case "join", "leftjoin":
		count = 2
	case opUnion:
		count = rapid.IntRange(0, 3).Draw(t, "members")
	}
	var ins []*graphSource
	for range count {
		ins = append(ins, w.source(t, open))
	}
	w.place(t, op, k, ins)
}

// place makes a collection of ins.
func (w *graphWorld) place(t *rapid.T, op operation, k kit, ins []*graphSource) *graphNode {
	if op.name == "join" && ins[0].objects()*ins[1].objects() > 40 {
		k.b = max(k.b, 1) // so that it makes few objects
	}
	if len(w.cancel) > 0 {
		w.stir(t)
		w.seen["late node"]++
	}
	w.made++
	n := w.build(w.g, fmt.Sprint(op.name, w.made), op, k, ins)
	n.late = true
	n.stories = append(n.stories, w.newStory(n, false))
	if rapid.IntRange(0, 4).Draw(t, "blocked") == 4 {
		w.newStory(n, true)
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	w.nodes = append(w.nodes, n)
	// The steps up to now were not checked for the conflicts of n.
	for id := range w.reported {
		if strings.HasPrefix(id, "graph/"+n.name+" ") {
			w.rivals[id] = true
		}
	}
	return n
}

func (w *graphWorld) open() []*graphNode {
	return slices.DeleteFunc(slices.Clone(w.nodes), func(n *graphNode) bool { return n.closed })
}

// source draws what a node is made of.
func (w *graphWorld) source(t *rapid.T, open []*graphNode) *graphSource {
	i := rapid.IntRange(-len(w.ins), len(open)-1).Draw(t, "source")
	if i < 0 {
		return &graphSource{input: w.ins[-i-1]}
	}
	return &graphSource{node: open[i]}
}

func (s *graphSource) objects() int {
	if s.node != nil {
		return s.node.objects
	}
	return 4
}

// build makes a collection in the present graph.
func (w *graphWorld) build(g *lw.Graph, name string, op operation, k kit, ins []*graphSource) *graphNode {
	n := &graphNode{name: name, op: op, kit: k, ins: ins, first: len(ins), objects: 3}
	var from []lw.Collection[*atom]
	for _, s := range ins {
		from = append(from, s.collection())
	}
	switch op.name {
	case opUnion:
		n.union = lw.NewUnion(g, from...)
		n.d, n.objects = n.union.Derived, 0
		for _, s := range ins {
			n.objects += s.objects()
		}
	default:
		if g == w.g {
			k.call, k.key, k.remove = w.call, w.keyed(n), func() { w.removed(n) }
		}
		n.d = op.build(g, k, name, from)
	}
	switch {
	case op.name == "derive", op.name == "leftjoin":
		n.objects = ins[0].objects()
	case op.name == "many" && k.c == 2:
		n.objects = 3 * ins[0].objects()
	case op.name == "join" && k.b == 0:
		n.objects = ins[0].objects() * ins[1].objects()
	}
	n.byN = lw.NewIndex(n.d, func(a *atom) int {
		if n.indexed.Load() {
			w.panics.index(n, a)
		}
		return a.N % 3
	})
	n.indexed.Store(g == w.g)
	return n
}

// Close closes a collection, and with it those that are derived from it.
func (w *graphWorld) Close(t *rapid.T) {
	open := w.open()
	if len(open) < 4 {
		t.Skip("not now")
	}
	n := pick(t, "node", open)
	w.stir(t)
	w.close(t, n)
	w.seen["closed"+w.during()]++
}

// close closes n, and checks what that takes along.
func (w *graphWorld) close(t *rapid.T, n *graphNode) {
	w.mu.Lock()
	n.closed = true
	behind := 0
	for _, o := range w.nodes {
		// Members are added to unions, so that a node may be before one that it reads.
		if !o.closed && o.dependsOn(n) {
			o.closed = true
			behind++
		}
	}
	w.mu.Unlock()
	if got := n.d.Close(); len(got) != behind {
		t.Fatalf("Close of %s has closed %v too, want %d", n.name, got, behind)
	}
}

// during says when a command comes.
func (w *graphWorld) during() string {
	if w.braked {
		return " during a step"
	}
	return ""
}

// call is called with each call of a function of the graph.
func (w *graphWorld) call() {
	if w.armed.Swap(false) {
		<-w.brake
	}
}

// Brake holds the graph in a function, so that commands come during a step.
func (w *graphWorld) Brake(t *rapid.T) {
	if w.held {
		t.Skip("not now")
	}
	w.armed.Store(true)
	w.Write(t)
	synctest.Wait()
	if w.armed.Swap(false) {
		return // no function was called
	}
	w.braked = true
	defer func() {
		w.braked = false
		w.tick()
		w.brake <- struct{}{}
	}()
	w.seen["held in a step"]++
	commands := []func(*rapid.T){
		w.Retire, w.Close, w.Relist, w.AddNode, w.AddMember, w.RemoveMember, w.Break, w.AddHandler, w.RemoveHandler, w.EndInformer, w.Write, w.Fuse,
	}
	for range rapid.IntRange(1, 3).Draw(t, "commands") {
		pick(t, "command", commands)(t)
	}
}

// Chain makes collections in a row, each of which reads the one before in two ways.
func (w *graphWorld) Chain(t *rapid.T) {
	open := w.open()
	if len(open) > 6 || rapid.IntRange(0, 5).Draw(t, "chain") > 0 {
		t.Skip("rarely")
	}
	s := w.source(t, open)
	for range rapid.IntRange(2, 5).Draw(t, "length") {
		op := operations[slices.Index(operationNames, rapid.SampledFrom([]string{"join", "leftjoin", opUnion}).Draw(t, "operation"))]
		again := *s
		s = &graphSource{node: w.place(t, op, drawKit(t), []*graphSource{s, &again})}
	}
	w.seen["chain"]++
}

// Crowd makes thousands of objects, and takes them away again, in one list each.
func (w *graphWorld) Crowd(t *rapid.T) {
	in := w.input(t)
	if w.held || in.failing || in.ended || rapid.IntRange(0, 4).Draw(t, "crowd") > 0 {
		t.Skip("rarely")
	}
	for _, n := range w.nodes {
		if (n.op.name == "join" || n.op.name == "leftjoin") && n.reads(in) {
			t.Skip("too many pairs")
		}
	}
	objects := rapid.IntRange(1000, 3000).Draw(t, "objects")
	list := func(f func(i int) error) {
		in.mem.Fail(errors.New("away"))
		w.change(in, func() error {
			for i := range objects {
				if err := f(i); err != nil {
					t.Fatal(err)
				}
			}
			return nil
		})
		in.mem.Compact()
		in.mem.Fail(nil)
		rig.Sleep(2 * time.Minute)
	}
	for _, n := range []int{7, 5} { // they come, and they change
		list(func(i int) error { return in.put(newAtom(fmt.Sprint("crowd", i), i%n)) })
	}
	list(func(i int) error { return in.mem.Delete(lw.KeyOf(newAtom(fmt.Sprint("crowd", i), 0))) })
	w.seen["crowd"]++
}

// reads reports whether n was ever derived from in.
func (n *graphNode) reads(in *graphInput) bool {
	for o := range n.everMadeOf() {
		if slices.ContainsFunc(o.ins, func(s *graphSource) bool { return s.input == in }) {
			return true
		}
	}
	return false
}

// everMadeOf returns n and all nodes that it is or was made of. Two unions may have had each other,
// one after the other.
func (n *graphNode) everMadeOf() map[*graphNode]bool {
	all := map[*graphNode]bool{}
	var visit func(n *graphNode)
	visit = func(n *graphNode) {
		if all[n] {
			return
		}
		all[n] = true
		for _, s := range n.ins {
			if s.node != nil {
				visit(s.node)
			}
		}
	}
	visit(n)
	return all
}

// derivedFrom reports whether n is derived from in now.
func (n *graphNode) derivedFrom(in *graphInput) bool {
	return slices.ContainsFunc(n.ins, func(s *graphSource) bool {
		return !s.gone && (s.input == in || s.node != nil && s.node.derivedFrom(in))
	})
}

// EndInformer ends an informer that has synced.
func (w *graphWorld) EndInformer(t *rapid.T) {
	in := w.input(t)
	if slices.ContainsFunc(w.ins, func(in *graphInput) bool { return in.ended }) || !in.inf.Status().Synced || rapid.IntRange(0, 9).Draw(t, "end") > 0 {
		t.Skip("rarely")
	}
	w.stir(t)
	in.ended = true
	in.stop()
	w.seen["informer ended"]++
}

// Retire takes a collection out of a union and closes it at once.
func (w *graphWorld) Retire(t *rapid.T) {
	n := w.union(t)
	added := slices.DeleteFunc(slices.Clone(n.ins), func(s *graphSource) bool { return s.remove == nil || s.gone || s.node == nil || s.node.closed })
	if len(added) == 0 {
		if len(n.ins) > 5 {
			t.Skip("enough")
		}
		w.addMember(t, n, &graphSource{node: w.place(t, operations[0], drawKit(t), []*graphSource{{input: w.input(t)}})})
		if !rapid.Bool().Draw(t, "at once") {
			return // it is there for the next time
		}
		added = n.ins[len(n.ins)-1:]
	}
	s := pick(t, "member", added)
	w.leave(t, s)
	w.close(t, s.node)
	if n.closed {
		return // it had the member twice
	}
	w.seen["retired"+w.during()]++
}

func (w *graphWorld) union(t *rapid.T) *graphNode {
	return pick(t, "union", slices.DeleteFunc(w.open(), func(n *graphNode) bool { return n.union == nil }))
}

// AddMember adds a member to a union, perhaps once more.
func (w *graphWorld) AddMember(t *rapid.T) {
	n := w.union(t)
	if len(n.ins) > 5 {
		t.Skip("enough")
	}
	w.addMember(t, n, w.source(t, slices.DeleteFunc(w.open(), func(o *graphNode) bool { return o.dependsOn(n) || o.objects+n.objects > 30 })))
}

func (w *graphWorld) addMember(t *rapid.T, n *graphNode, s *graphSource) {
	w.mu.Lock()
	s.pending = true
	n.ins = append(n.ins, s)
	n.objects += s.objects()
	w.mu.Unlock()
	w.stir(t)
	s.remove = n.union.Add(s.collection())
	w.seen["member"]++
}

func (n *graphNode) dependsOn(other *graphNode) bool {
	return n == other || slices.ContainsFunc(n.ins, func(s *graphSource) bool { return s.node != nil && !s.gone && s.node.dependsOn(other) })
}

// RemoveMember removes a member that was added.
func (w *graphWorld) RemoveMember(t *rapid.T) {
	n := w.union(t)
	s := pick(t, "member", slices.DeleteFunc(slices.Clone(n.ins), func(s *graphSource) bool { return s.remove == nil || s.gone }))
	w.leave(t, s)
	s.remove()
}

// leave removes a member. It may be there until all is calm.
func (w *graphWorld) leave(t *rapid.T, s *graphSource) {
	w.stir(t)
	w.mu.Lock()
	s.pending, s.gone = true, true
	w.mu.Unlock()
	s.remove()
}

// AddHandler adds a handler and an index to a collection that has content.
func (w *graphWorld) AddHandler(t *rapid.T) {
	n := pick(t, "node", w.open())
	w.stir(t)
	n.stories = append(n.stories, w.newStory(n, false))
	n.lateByN = lw.NewIndex(n.d, func(a *atom) int { return a.N % 3 })
	w.seen["late handler"]++
}

// RemoveHandler removes a handler.
func (w *graphWorld) RemoveHandler(t *rapid.T) {
	n := pick(t, "node", slices.DeleteFunc(w.open(), func(n *graphNode) bool { return len(n.stories) == 0 }))
	n.stories[0].reg.Remove()
	n.stories = n.stories[1:]
}
