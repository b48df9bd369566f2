package lw_test

import (
	"context"
	"fmt"
	"iter"
	"slices"
	"strings"
	"time"

	"github.com/go-lw/lw"
)

// A Note is what the examples derive from widgets.
type Note struct {
	lw.Meta
	Text string
}

func note(name, format string, args ...any) *Note {
	return &Note{Meta: lw.Meta{Namespace: "default", Name: name}, Text: fmt.Sprintf(format, args...)}
}

// show prints the notes of a collection in the order of their names.
func show(notes lw.Reader[*Note]) {
	sorted := slices.SortedFunc(notes.All(), func(a, b *Note) int { return strings.Compare(a.Name, b.Name) })
	for _, n := range sorted {
		fmt.Printf("%s: %s\n", n.Name, n.Text)
	}
}

// The collection of what a function makes of each widget. What it makes nil of is left out.
func ExampleDerive() {
	server := lw.NewMemory(widget("anvil", 40), widget("bolt", 1))
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	widgets := lw.NewInformer(server, nil)

	g := lw.NewGraph(nil)
	heavy := lw.Derive(g, widgets, func(w *Widget) *Note {
		if w.Size < 10 {
			return nil
		}
		return note(w.Name, "takes two to carry")
	})
	go widgets.Run(ctx)
	go g.Run(ctx)
	if err := heavy.WaitForSync(ctx); err != nil {
		fmt.Println(err)
		return
	}
	show(heavy.Store())
	// Output: anvil: takes two to carry
}

// Each widget is sawn into parts, which are objects with names of their own.
func ExampleDeriveMany() {
	server := lw.NewMemory(widget("beam", 2), widget("bolt", 0))
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	widgets := lw.NewInformer(server, nil)

	g := lw.NewGraph(nil)
	parts := lw.DeriveMany(g, widgets, func(w *Widget) iter.Seq[*Note] {
		return func(yield func(*Note) bool) {
			for i := range w.Size {
				if !yield(note(fmt.Sprintf("%s-%d", w.Name, i), "part %d of %d", i+1, w.Size)) {
					return
				}
			}
		}
	})
	go widgets.Run(ctx)
	go g.Run(ctx)
	if err := parts.WaitForSync(ctx); err != nil {
		fmt.Println(err)
		return
	}
	show(parts.Store())
	// Output:
	// beam-0: part 1 of 2
	// beam-1: part 2 of 2
}

// The widgets of two servers are one collection. Another server joins while the graph runs, and
// leaves again.
func ExampleNewUnion() {
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	follow := func(objs ...*Widget) *lw.Informer[*Widget] {
		inf := lw.NewInformer(lw.NewMemory(objs...), nil)
		go inf.Run(ctx)
		return inf
	}
	near, far := follow(widget("anvil", 40)), follow(widget("anvil", 7), widget("bolt", 1))

	g := lw.NewGraph(nil)
	all := lw.NewUnion(g, near, far)
	go g.Run(ctx)
	if err := g.WaitForSync(ctx); err != nil {
		fmt.Println(err)
		return
	}
	anvil, _ := all.Store().Get(lw.Key{Namespace: "default", Name: "anvil"}) // of the collection that came first
	fmt.Println(all.Store().Len(), "widgets, an anvil of", anvil.Size)

	events, stop := iter.Pull(all.Events(ctx))
	defer stop()
	for range all.Store().Len() {
		events() // the widgets that are there already
	}
	remove := all.Add(follow(widget("crank", 3)))
	added, _ := events()
	remove()
	deleted, _ := events()
	fmt.Println(added.Type, added.Key().Name, "and", deleted.Type, deleted.Key().Name)
	// Output:
	// 2 widgets, an anvil of 40
	// added crank and deleted crank
}

// A server is retired: what is derived from it is taken out of the union, and closed.
func ExampleUnion_Add() {
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	old := lw.NewInformer(lw.NewMemory(widget("anvil", 40)), nil)
	go old.Run(ctx)

	g := lw.NewGraph(nil)
	notes := lw.Derive(g, old, func(w *Widget) *Note { return note(w.Name, "old") }, "old")
	all := lw.NewUnion[*Note](g)
	remove := all.Add(notes)
	lw.Derive(g, all, func(n *Note) *Note { return n }, "behind")
	go g.Run(ctx)

	remove()
	fmt.Println("closed with it:", notes.Close())
	fmt.Println("closed with the union:", all.Close())
	// Output:
	// closed with it: []
	// closed with the union: [behind]
}

// The pairs of boxes and widgets that belong together: those whose sizes are the same.
func ExampleJoin() {
	boxServer := lw.NewMemory(widget("crate", 40), widget("tin", 1))
	widgetServer := lw.NewMemory(widget("anvil", 40), widget("bolt", 1), widget("nut", 1))
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	boxes, widgets := lw.NewInformer(boxServer, nil), lw.NewInformer(widgetServer, nil)

	g := lw.NewGraph(nil)
	size := lw.SingleKey(func(w *Widget) int { return w.Size })
	fits := lw.Join(g, boxes, widgets, lw.On[int, *Widget, *Widget]{Left: size, Right: size},
		func(box, w *Widget) *Note {
			return note(w.Name+"-"+box.Name, "the %s fits into the %s", w.Name, box.Name) // a key of its own
		})
	go boxes.Run(ctx)
	go widgets.Run(ctx)
	go g.Run(ctx)
	if err := fits.WaitForSync(ctx); err != nil {
		fmt.Println(err)
		return
	}
	show(fits.Store())
	// Output:
	// anvil-crate: the anvil fits into the crate
	// bolt-tin: the bolt fits into the tin
	// nut-tin: the nut fits into the tin
}

// Each box, with the widgets that belong to it. A box stays without any.
func ExampleLeftJoin() {
	boxServer := lw.NewMemory(widget("crate", 40), widget("tin", 1))
	widgetServer := lw.NewMemory(widget("bolt", 1), widget("nut", 1))
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	boxes, widgets := lw.NewInformer(boxServer, nil), lw.NewInformer(widgetServer, nil)

	g := lw.NewGraph(nil)
	size := lw.SingleKey(func(w *Widget) int { return w.Size })
	packed := lw.LeftJoin(g, boxes, widgets, lw.On[int, *Widget, *Widget]{Left: size, Right: size},
		func(box *Widget, widgets []*Widget) *Note {
			var names []string
			for _, w := range widgets { // in the order of their keys
				names = append(names, w.Name)
			}
			return note(box.Name, "%q", names)
		})
	go boxes.Run(ctx)
	go widgets.Run(ctx)
	go g.Run(ctx)
	if err := packed.WaitForSync(ctx); err != nil {
		fmt.Println(err)
		return
	}
	show(packed.Store())

	anvil, err := widgetServer.Create(ctx, widget("anvil", 40))
	if err != nil {
		fmt.Println(err)
		return
	}
	if err := g.WaitForResourceVersion(ctx, widgets, anvil.ResourceVersion); err != nil {
		fmt.Println(err)
		return
	}
	show(packed.Store())
	// Output:
	// crate: []
	// tin: ["bolt" "nut"]
	// crate: ["anvil"]
	// tin: ["bolt" "nut"]
}

// How many widgets there are of each size, and how large they are together. A change costs one
// Remove and one Add, however many widgets have that size.
func ExampleGroupBy() {
	server := lw.NewMemory(widget("anvil", 40), widget("bolt", 1), widget("nut", 1))
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	widgets := lw.NewInformer(server, nil)

	type load struct{ widgets, size int }
	g := lw.NewGraph(nil)
	loads := lw.GroupBy(g, widgets,
		func(w *Widget) int { return w.Size },
		lw.Aggregate[*Widget, load]{
			Add:    func(l load, w *Widget) load { return load{l.widgets + 1, l.size + w.Size} },
			Remove: func(l load, w *Widget) load { return load{l.widgets - 1, l.size - w.Size} },
		},
		func(size int, l load) *Note {
			return note(fmt.Sprint("size-", size), "%d widgets, %d in all", l.widgets, l.size)
		})
	go widgets.Run(ctx)
	go g.Run(ctx)
	if err := loads.WaitForSync(ctx); err != nil {
		fmt.Println(err)
		return
	}
	show(loads.Store())
	// Output:
	// size-1: 2 widgets, 2 in all
	// size-40: 1 widgets, 40 in all
}

// The largest widget of each namespace. A maximum cannot be undone, so the function gets the whole
// group.
func ExampleGroupAll() {
	server := lw.NewMemory(widget("anvil", 40), widget("bolt", 1), widget("nut", 2))
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	widgets := lw.NewInformer(server, nil)

	g := lw.NewGraph(nil)
	largest := lw.GroupAll(g, widgets,
		func(w *Widget) string { return w.Namespace },
		func(namespace string, widgets []*Widget) *Note {
			most := widgets[0] // a group has one at least
			for _, w := range widgets {
				if w.Size > most.Size {
					most = w
				}
			}
			return note(namespace, "%s", most.Name)
		})
	go widgets.Run(ctx)
	go g.Run(ctx)
	if err := largest.WaitForSync(ctx); err != nil {
		fmt.Println(err)
		return
	}
	show(largest.Store())

	if _, err := server.Delete(ctx, lw.Key{Namespace: "default", Name: "anvil"}, ""); err != nil {
		fmt.Println(err)
		return
	}
	if err := g.WaitForResourceVersion(ctx, widgets, server.ResourceVersion()); err != nil {
		fmt.Println(err)
		return
	}
	show(largest.Store())
	// Output:
	// default: anvil
	// default: nut
}

// Two collections of one graph are read at one state.
func ExampleGraph_Snapshot() {
	server := lw.NewMemory(widget("anvil", 40), widget("bolt", 1))
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	widgets := lw.NewInformer(server, nil)

	g := lw.NewGraph(nil)
	heavy := lw.Derive(g, widgets, func(w *Widget) *Note {
		if w.Size < 10 {
			return nil
		}
		return note(w.Name, "heavy")
	}, "heavy")
	light := lw.Derive(g, widgets, func(w *Widget) *Note {
		if w.Size >= 10 {
			return nil
		}
		return note(w.Name, "light")
	}, "light")
	go widgets.Run(ctx)
	go g.Run(ctx)
	if err := g.WaitForSync(ctx); err != nil {
		fmt.Println(err)
		return
	}

	// However often the sizes change, no snapshot shows a widget in both or in none.
	snap := g.Snapshot()
	show(heavy.At(snap))
	show(light.At(snap))
	fmt.Println("of the state that the informer had:", snap.ResourceVersion(widgets) == server.ResourceVersion())
	// Output:
	// anvil: heavy
	// bolt: light
	// of the state that the informer had: true
}

// Read your writes: what is derived shows a write after a wait for its version.
func ExampleGraph_WaitForResourceVersion() {
	server := lw.NewMemory(widget("bolt", 1))
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	widgets := lw.NewInformer(server, nil)

	g := lw.NewGraph(nil)
	notes := lw.Derive(g, widgets, func(w *Widget) *Note { return note(w.Name, "of size %d", w.Size) })
	go widgets.Run(ctx)
	go g.Run(ctx)

	anvil, err := server.Create(ctx, widget("anvil", 40))
	if err != nil {
		fmt.Println(err)
		return
	}
	patience, done := context.WithTimeout(ctx, time.Minute) // a version may never come
	defer done()
	if err := g.WaitForResourceVersion(patience, widgets, anvil.ResourceVersion); err != nil {
		fmt.Println(err)
		return
	}
	n, ok := notes.Store().Get(lw.KeyOf(anvil))
	fmt.Println(ok, n.Text)
	// Output: true of size 40
}

// A function that does not return holds up all collections of its graph. Status and the board name
// it, and so do the errors of waits.
func ExampleGraphStatus() {
	widgets := lw.NewInformer(lw.NewMemory(widget("anvil", 40)), nil)
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()

	g := lw.NewGraph(nil)
	called, answer := make(chan struct{}), make(chan struct{})
	lw.Derive(g, widgets, func(w *Widget) *Note {
		close(called)
		<-answer // as of a server that was asked, which a function must not do
		return note(w.Name, "heavy")
	}, "heavy")
	go widgets.Run(ctx)
	go g.Run(ctx)

	<-called
	fmt.Println("the step is in", g.Status().Call)
	close(answer)
	if err := g.WaitForSync(ctx); err != nil {
		fmt.Println(err)
	}
	// Output:
	// the step is in function of heavy at default/anvil
}

// This program may read widgets by their names only, as RBAC's resourceNames allow it.
func ExampleByName() {
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	server := lw.NewMemory(widget("a", 1), widget("b", 2))
	var keys lw.KeySet
	g := lw.NewGraph(nil)
	widgets := lw.NewByName(g, &keys, func(key lw.Key) lw.Source[*Widget] { return server }, nil)
	go g.Run(ctx)
	go widgets.Run(ctx)

	b := lw.Key{Namespace: "default", Name: "b"}
	keys.Set("an owner", b)
	if err := widgets.WaitForKey(ctx, b); err != nil {
		fmt.Println(err)
		return
	}
	for w := range widgets.Store().All() {
		fmt.Println(w.Name, w.Size)
	}

	// Output: b 2
}
