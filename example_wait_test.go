package lw_test

import (
	"context"
	"fmt"
	"time"

	"github.com/go-lw/lw"
)

// Read your writes: wait for the resource version that a write returned, and then read the store.
func ExampleInformer_WaitForResourceVersion() {
	server := lw.NewMemory(widget("a", 1))
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	widgets := lw.NewInformer(server, nil)
	bySize := lw.NewIndex(widgets, func(w *Widget) int { return w.Size })
	go widgets.Run(ctx)

	b, err := server.Create(widget("b", 7))
	if err != nil {
		fmt.Println(err)
		return
	}
	patience, done := context.WithTimeout(ctx, time.Minute) // a version may never come
	defer done()
	if err := widgets.WaitForResourceVersion(patience, b.ResourceVersion); err != nil {
		fmt.Println(err)
		return
	}
	for w := range bySize.Lookup(7) {
		fmt.Println(w.Name)
	}

	// A version without an order cannot be waited for.
	fmt.Println(widgets.WaitForResourceVersion(patience, "latest") != nil)

	// Output:
	// b
	// true
}
