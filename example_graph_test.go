package lw_test

import (
	"context"
	"fmt"
	"time"

	"github.com/go-lw/lw"
)

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
	show(lw.In(snap, heavy))
	show(lw.In(snap, light))
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

	anvil, err := server.Create(widget("anvil", 40))
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
	call := g.Status().Call
	fmt.Println("the step is in", call.Function, "of", call.Collection, "for", call.Key)
	close(answer)
	if err := g.WaitForSync(ctx); err != nil {
		fmt.Println(err)
	}
	// Output:
	// the step is in function of heavy for default/anvil
}
