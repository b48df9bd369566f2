package lw_test

import (
	"context"
	"fmt"

	"github.com/go-lw/lw"
)

// A program reads the same from the board's methods.
func ExampleBoard_Informers() {
	server := lw.NewMemory(widget("a", 1))
	var board lw.Board
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	for range 2 {
		widgets := lw.NewInformer(server, &lw.Options{Board: &board})
		go widgets.Run(ctx)
		if err := widgets.WaitForSync(ctx); err != nil {
			fmt.Println(err)
			return
		}
	}
	for name, status := range board.Informers() {
		fmt.Println(name, status.Objects, "objects, healthy:", status.Healthy() == nil)
	}

	// Output:
	// Widget 1 objects, healthy: true
	// Widget#2 1 objects, healthy: true
}
