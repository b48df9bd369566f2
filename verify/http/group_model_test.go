package http_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"pgregory.net/rapid"

	"github.com/go-lw/lw"
	"github.com/go-lw/lw/internal/verify/rig"
	"github.com/go-lw/lw/verify/internal/inside"
)

// A groupModel is a group and what is expected of it. Its informers have names of their own.
type groupModel struct {
	group   lw.Group
	phase   string        // "idle" before Run, "watching", and "stopped" after it
	cancel  func()        // ends Run
	ran     chan error    // what Run has returned
	made    int           // informers so far, for their names
	members []*modelled   // those in the group, in their order
	all     []*modelled   // all that ever were
	handles []modelHandle // of all calls of Share and Add, also those that were released
	seen    map[string]int
}

// A modelled is an informer, or a graph if graph is set.
type modelled struct {
	lw.AnyInformer
	graph *lw.Graph
	board *lw.Board // of graph
	name  string
	key   string // "": of Add
	users int
	bad   bool   // its source has a permanent error
	want  string // when it is not in the group any more
}

type modelHandle struct {
	of      *modelled
	release func()
	used    *bool
}

func (m *groupModel) phaseOf(x *modelled) string {
	if x.users == 0 {
		return x.want
	}
	if m.phase == "watching" && x.bad {
		return "stopped"
	}
	return m.phase
}

// isIn returns the phase of x. A graph says it by its board and by what a wait returns at once.
func (x *modelled) isIn() string {
	if x.graph == nil {
		return x.Status().Phase
	}
	for range x.board.Graphs() {
		return "watching"
	}
	ctx, cancel := context.WithCancel(context.Background())
	waited := make(chan error, 1)
	go func() { waited <- x.graph.WaitForSync(ctx) }()
	synctest.Wait()
	cancel()
	if errors.Is(<-waited, lw.ErrStopped) {
		return "stopped"
	}
	return "idle"
}

func (m *groupModel) newName() string {
	m.made++
	return fmt.Sprint("i", m.made)
}

// add notes that an informer has come into the group.
func (m *groupModel) add(x *modelled) {
	m.members, m.all = append(m.members, x), append(m.all, x)
}

func (m *groupModel) handle(x *modelled, release func()) {
	x.users++
	m.handles = append(m.handles, modelHandle{x, release, new(bool)})
}

// Share asks for the informer of a key and one of two types.
func (m *groupModel) Share(t *rapid.T) {
	key := rapid.IntRange(0, 2).Draw(t, "key")
	bad := rapid.IntRange(0, 4).Draw(t, "bad") == 4
	if rapid.Bool().Draw(t, "gadgets") {
		modelShare[*rig.Gadget](t, m, key, bad, func() lw.Source[*rig.Gadget] { return lw.NewMemory[*rig.Gadget]() })
	} else {
		modelShare[*rig.Widget](t, m, key, bad, func() lw.Source[*rig.Widget] { return lw.NewMemory[*rig.Widget]() })
	}
}

func modelShare[T lw.Object](t *rapid.T, m *groupModel, key int, bad bool, source func() lw.Source[T]) {
	var zero T
	k := fmt.Sprintf("%T %d", zero, key)
	i := slices.IndexFunc(m.members, func(x *modelled) bool { return x.key == k })
	name, called := m.newName(), false
	inf, release := lw.Share(&m.group, key, func() lw.Source[T] {
		called = true
		if bad {
			return &lw.HTTP[T]{}
		}
		return source()
	}, named(name))
	if called != (i < 0) {
		t.Fatalf("%s: the source was called: %t, though the group has the informer: %t", k, called, i >= 0)
	}
	if i >= 0 {
		m.seen["shared"]++
		if m.members[i].AnyInformer != lw.AnyInformer(inf) {
			t.Fatalf("%s: another informer", k)
		}
		m.handle(m.members[i], release)
		return
	}
	for _, x := range m.all {
		if x.AnyInformer == lw.AnyInformer(inf) {
			t.Fatalf("%s: got %s, which was released", k, x.name)
		}
	}
	x := &modelled{AnyInformer: inf, name: name, key: k, bad: bad, want: "stopped"}
	m.add(x)
	m.handle(x, release)
}

// Add adds an informer.
func (m *groupModel) Add(t *rapid.T) {
	x := &modelled{name: m.newName(), bad: rapid.IntRange(0, 4).Draw(t, "bad") == 4}
	var src lw.Source[*rig.Widget] = lw.NewMemory[*rig.Widget]()
	if x.bad {
		src = permanent()
	}
	x.AnyInformer = lw.NewInformer(src, named(x.name))
	m.add(x)
	m.handle(x, m.group.Add(x.AnyInformer))
}

// AddGraph adds a graph, of an informer that does not run.
func (m *groupModel) AddGraph(*rapid.T) {
	x := &modelled{name: m.newName(), board: new(lw.Board)}
	x.graph = lw.NewGraph(&lw.GraphOptions{Name: x.name, Board: x.board})
	lw.Derive(x.graph, lw.NewInformer(lw.NewMemory[*rig.Widget](), nil), rig.SumOf)
	m.add(x)
	m.handle(x, m.group.Add(x.graph))
	m.seen["graph while "+m.phase]++
}

// Release calls the release of Share or the remove of Add, perhaps not for the first time.
func (m *groupModel) Release(t *rapid.T) {
	if len(m.handles) == 0 {
		t.Skip("there is none")
	}
	h := rapid.SampledFrom(m.handles).Draw(t, "handle")
	m.release(h)
}

func (m *groupModel) release(h modelHandle) {
	h.release()
	if *h.used {
		m.seen["released twice"]++
		return
	}
	*h.used = true
	x := h.of
	if x.users--; x.users > 0 {
		return
	}
	m.seen["left while "+m.phase]++
	if x.key == "" {
		// The group leaves one of Add as it is if it has not started it.
		if x.want = "stopped"; m.phase == "idle" {
			x.want = "idle"
		}
	}
	m.members = slices.DeleteFunc(m.members, func(o *modelled) bool { return o == x })
	// It has ended when release returns.
	if got := x.isIn(); got != x.want {
		panic(fmt.Sprintf("%s is %s after the last release, want %s", x.name, got, x.want))
	}
}

func (m *groupModel) Run(t *rapid.T) {
	if m.phase != "idle" {
		if err := m.group.Run(context.Background()); err != lw.ErrStarted {
			t.Fatalf("a second Run: %v", err)
		}
		return
	}
	m.phase = "watching"
	ctx, cancel := context.WithCancel(context.Background())
	m.cancel, m.ran = cancel, make(chan error, 1)
	go func() { m.ran <- m.group.Run(ctx) }()
}

func (m *groupModel) Stop(t *rapid.T) {
	if m.phase != "watching" {
		t.Skip("it does not run")
	}
	synctest.Wait() // so that those that end by themselves have ended
	m.phase = "stopped"
	m.cancel()
	err := <-m.ran
	var want []string
	for _, x := range m.members {
		if x.bad {
			want = append(want, "lw: "+x.name+": ")
		}
	}
	var got []string
	if err != nil {
		got = strings.Split(err.Error(), "\n")
	}
	if !slices.EqualFunc(want, got, func(want, got string) bool { return strings.HasPrefix(got, want) }) {
		t.Fatalf("Run returned %q, want %q", got, want)
	}
}

// end ends Run if it goes on, as after a failure: goroutines that are left would hide what failed.
func (m *groupModel) end() {
	if m.phase == "watching" {
		m.phase = "stopped"
		m.cancel()
		<-m.ran
	}
}

func (m *groupModel) Check(t *rapid.T) {
	synctest.Wait()
	var want []string
	keys := map[string]bool{}
	sick := 0
	for _, x := range m.members {
		if x.graph == nil {
			want = append(want, x.name+" "+m.phaseOf(x))
		}
		if x.graph != nil || m.phaseOf(x) != "watching" {
			sick++
		}
		if x.key != "" {
			keys[x.key] = true
		}
	}
	if got := phases(&m.group); got != strings.Join(want, " ") {
		t.Fatalf("the informers are %q, want %q", got, want)
	}
	if members, kept := inside.Kept(&m.group); members != len(m.members) || kept != len(keys) {
		t.Fatalf("the group has %d informers and %d keys, want %d and %d", members, kept, len(m.members), len(keys))
	}
	var causes []error
	if joined, ok := m.group.Healthy(time.Minute).(interface{ Unwrap() []error }); ok {
		causes = joined.Unwrap()
	}
	if len(causes) != sick {
		t.Fatalf("not healthy: %q, want %d", causes, sick)
	}
	for _, x := range m.all {
		if got := x.isIn(); got != m.phaseOf(x) {
			t.Fatalf("%s is %s, want %s", x.name, got, m.phaseOf(x))
		}
	}
}

// TestGroupModel compares a group with a model, whatever comes in whatever order.
func TestGroupModel(t *testing.T) {
	seen := map[string]int{}
	histories := 0
	rapid.Check(t, func(t *rapid.T) {
		histories++
		rapid.SyncTest(t, func(t *rapid.T) {
			m := &groupModel{phase: "idle", seen: seen}
			defer m.end()
			t.Repeat(map[string]func(*rapid.T){
				"share": m.Share, "share too": m.Share, "add": m.Add, "add graph": m.AddGraph, "release": m.Release,
				"release too": m.Release,
				"run":         m.Run, "stop": func(t *rapid.T) {
					if rapid.IntRange(0, 3).Draw(t, "stop") == 3 {
						m.Stop(t)
					}
				},
				"": m.Check,
			})
			for _, h := range m.handles {
				m.release(h)
			}
			m.Check(t)
			if m.phase == "watching" {
				m.Stop(t)
			}
		})
	})
	t.Log(seen)
	if histories < 80 {
		return // too few to tell, as with -short
	}
	for _, what := range []string{"shared", "released twice", "left while idle", "left while watching",
		"left while stopped", "graph while idle", "graph while watching", "graph while stopped"} {
		if seen[what] < 10 {
			t.Errorf("%s: only %d times", what, seen[what])
		}
	}
}
