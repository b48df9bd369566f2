package lw_test

import (
	"context"
	"fmt"

	"github.com/go-lw/lw"
)

// The pairs of boxes and widgets that belong together: those whose sizes are the same.
func ExampleJoin() {
	boxServer := lw.NewMemory(widget("crate", 40), widget("tin", 1))
	widgetServer := lw.NewMemory(widget("anvil", 40), widget("bolt", 1), widget("nut", 1))
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	boxes, widgets := lw.NewInformer(boxServer, nil), lw.NewInformer(widgetServer, nil)

	g := lw.NewGraph(nil)
	size := lw.One(func(w *Widget) int { return w.Size })
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
	size := lw.One(func(w *Widget) int { return w.Size })
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

	anvil, err := widgetServer.Create(widget("anvil", 40))
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
