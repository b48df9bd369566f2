package handlers_test

import (
	"context"
	"errors"
	"iter"
	"testing"
	"testing/synctest"

	"github.com/go-lw/lw"
	"github.com/go-lw/lw/internal/verify/rig"
)

// namesOn returns the names that a sequence of a board yields.
func namesOn[S any](seq iter.Seq2[string, S]) (all []string) {
	for name := range seq {
		all = append(all, name)
	}
	return all
}

// mustList checks the names on b.
func mustList(t *testing.T, b *lw.Board, informers, graphs []string) {
	t.Helper()
	rig.Same(t, "informers", informers, namesOn(b.Informers()))
	rig.Same(t, "graphs", graphs, namesOn(b.Graphs()))
}

// begin runs an informer of one widget, which is on b.
func begin(t *testing.T, b *lw.Board, name string) (stop func()) {
	t.Helper()
	_, inf := ofMemory("a1", &lw.Options{Name: name, Board: b, OnError: func(error) {}})
	return rig.Begin(t, inf)
}

// An informer, a reflector and a graph are on their board while they run, and neither before nor
// after.
func TestBoardListsWhatRuns(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var b lw.Board
		m := lw.NewMemory(rig.NewWidget("a", 1), rig.NewWidget("b", 2))
		opts := &lw.Options{Board: &b, OnError: func(error) {}}
		inf := lw.NewInformer(m, opts)
		g := lw.NewGraph(&lw.GraphOptions{Board: &b})
		lw.Derive(g, inf, rig.SumOf, "sums")
		opts.Name = "plain"
		r := lw.NewReflector(m, lw.Sink[*rig.Widget](lw.NewIndexer[*rig.Widget]()), opts)
		lw.NewInformer(m, rig.Quiet()) // of no board
		mustList(t, &b, nil, nil)

		stopInformer := rig.Begin(t, inf)
		mustList(t, &b, []string{"Widget"}, nil)
		stopGraph, stopReflector := rig.Begin(t, g), rig.Begin(t, r)
		mustList(t, &b, []string{"Widget", "plain"}, []string{"graph"})
		for name, s := range b.Informers() {
			if !s.Synced || s.Name != name || s.Phase != "watching" || name == "Widget" && s.Objects != 2 {
				t.Errorf("%s: %+v", name, s)
			}
		}
		for name, s := range b.Graphs() {
			if !s.Synced || name != "graph" || len(s.Collections) != 1 || s.Collections[0].Objects != 2 {
				t.Errorf("%+v", s)
			}
		}

		// A second Run changes nothing.
		for _, again := range []interface{ Run(context.Context) error }{inf, g, r} {
			if err := again.Run(t.Context()); !errors.Is(err, lw.ErrStarted) {
				t.Error(err)
			}
		}
		mustList(t, &b, []string{"Widget", "plain"}, []string{"graph"})

		stopGraph()
		mustList(t, &b, []string{"Widget", "plain"}, nil)
		stopInformer()
		mustList(t, &b, []string{"plain"}, nil)
		stopReflector()
		mustList(t, &b, nil, nil)
	})
}

// What waits for a handler at its end still runs, and the board says so.
func TestBoardListsWhatIsStopping(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var b lw.Board
		inf := lw.NewInformer(lw.NewMemory(rig.NewWidget("a", 1)), &lw.Options{Board: &b, OnError: func(error) {}})
		release := make(chan struct{})
		inf.AddHandler(lw.Handler[*rig.Widget]{Add: func(*rig.Widget) { <-release }})
		stop := rig.Begin(t, inf)
		stopped := make(chan struct{})
		go func() { stop(); close(stopped) }()
		synctest.Wait()
		mustList(t, &b, []string{"Widget"}, nil)
		for _, s := range b.Informers() {
			rig.Same(t, "phase", "stopped", s.Phase)
		}
		close(release)
		<-stopped
		mustList(t, &b, nil, nil)
	})
}

// A Run that ends with an error leaves the board too.
func TestBoardAfterAPermanentError(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var b lw.Board
		inf := lw.NewInformer(&lw.HTTP[*rig.Widget]{URL: "://"}, &lw.Options{Board: &b, OnError: func(error) {}})
		if err := inf.Run(t.Context()); !errors.Is(err, lw.ErrPermanent) {
			t.Fatal(err)
		}
		mustList(t, &b, nil, nil)
	})
}

// Names are told apart by numbers. A name stays as long as its informer runs, and its number is
// free after that.
func TestBoardOfEqualNames(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var b lw.Board
		run := func(name string) (stop func()) { return begin(t, &b, name) }
		stops := []func(){run("b"), run("a"), run("b"), run("c")}
		mustList(t, &b, []string{"a", "b", "b#2", "c"}, nil)
		for name, s := range b.Informers() {
			rig.Same(t, "the Status.Name of "+name, name[:1], s.Name)
		}
		stops[0]()
		mustList(t, &b, []string{"a", "b#2", "c"}, nil)
		stops[0] = run("b")
		mustList(t, &b, []string{"a", "b", "b#2", "c"}, nil)
		// A name that looks like one with a number is no exception.
		stops = append(stops, run("b#2"), run("b#3"), run("b"))
		mustList(t, &b, []string{"a", "b", "b#2", "b#4", "b#2#2", "b#3", "c"}, nil)
		for range 8 {
			stops = append(stops, run("c"))
		}
		want := []string{"c", "c#2", "c#3", "c#4", "c#5", "c#6", "c#7", "c#8", "c#9"}
		rig.Same(t, "", want, namesOn(b.Informers())[6:])
		stops = append(stops, run("c"))
		if got := namesOn(b.Informers()); got[len(got)-1] != "c#10" {
			t.Errorf("the last one is %s, want c#10", got[len(got)-1])
		}

		// The two lists know nothing of each other.
		stops = append(stops, rig.Begin(t, lw.NewGraph(&lw.GraphOptions{Name: "a", Board: &b})),
			rig.Begin(t, lw.NewGraph(&lw.GraphOptions{Name: "a", Board: &b})))
		rig.Same(t, "graphs", []string{"a", "a#2"}, namesOn(b.Graphs()))
		for _, stop := range stops {
			stop()
		}
		mustList(t, &b, nil, nil)
	})
}

// A loop over a board is of what ran when it began, and its body may start and stop what it likes.
func TestBoardChangesInALoop(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var b lw.Board
		stops := []func(){begin(t, &b, "a"), begin(t, &b, "b"), begin(t, &b, "c")}
		var phases []string
		for name, s := range b.Informers() {
			phases = append(phases, s.Phase)
			if name == "a" {
				stops[0]()
				stops[1]()
				stops[0] = begin(t, &b, "0")
			}
		}
		rig.Same(t, "phases", []string{"watching", "stopped", "watching"}, phases)
		mustList(t, &b, []string{"0", "c"}, nil)
		for range b.Informers() {
			break
		}
		stops[0]()
		stops[2]()
	})
}

// A name with a slash may be of a graph, or of a collection. Both are asked.
func TestBoardObjectsOfNamesWithSlashes(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var b lw.Board
		inf := lw.NewInformer(lw.NewMemory(rig.NewWidget("a", 1)), nil)
		outer, inner := lw.NewGraph(&lw.GraphOptions{Name: "g", Board: &b}),
			lw.NewGraph(&lw.GraphOptions{Name: "g/x", Board: &b})
		lw.Derive(outer, inf, rig.SumOf, "x/outer")
		lw.Derive(inner, inf, rig.SumOf, "inner")
		defer rig.Begin(t, inf)()
		defer rig.Begin(t, outer)()
		defer rig.Begin(t, inner)()
		for name, want := range map[string]bool{"g/x/outer": true, "g/x/inner": true, "g/x": false, "g/inner": false,
			"x/outer": false} {
			_, ok := b.Object(name, rig.Key("a"))
			rig.Same(t, "an object of "+name, want, ok)
		}
	})
}
