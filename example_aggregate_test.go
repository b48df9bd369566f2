package lw_test

import (
	"context"
	"fmt"

	"github.com/go-lw/lw"
)

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
		func(w *Widget) lw.Key { return key(fmt.Sprint("size-", w.Size)) },
		lw.Aggregate[*Widget, load]{
			Add:    func(l load, w *Widget) load { return load{l.widgets + 1, l.size + w.Size} },
			Remove: func(l load, w *Widget) load { return load{l.widgets - 1, l.size - w.Size} },
		},
		func(key lw.Key, l load) *Note { return note(key.Name, "%d widgets, %d in all", l.widgets, l.size) })
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
		func(w *Widget) lw.Key { return key(w.Namespace) },
		func(key lw.Key, widgets []*Widget) *Note {
			most := widgets[0] // a group has one at least
			for _, w := range widgets {
				if w.Size > most.Size {
					most = w
				}
			}
			return note(key.Name, "%s", most.Name)
		})
	go widgets.Run(ctx)
	go g.Run(ctx)
	if err := largest.WaitForSync(ctx); err != nil {
		fmt.Println(err)
		return
	}
	show(largest.Store())

	if err := server.Delete(key("anvil")); err != nil {
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
