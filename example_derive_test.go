package lw_test

import (
	"context"
	"fmt"
	"iter"
	"slices"
	"strings"

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
	anvil, _ := all.Store().Get(key("anvil")) // of the collection that came first
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
