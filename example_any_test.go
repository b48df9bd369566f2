package lw_test

import (
	"context"
	"fmt"
	"sync"

	"github.com/go-lw/lw"
)

// Informers of different types in one slice: to run them, to wait for them, and to report on them.
func ExampleAnyInformer() {
	type Gadget struct{ lw.Meta }
	widgets := lw.NewInformer(lw.NewMemory(widget("a", 1), widget("b", 2)), nil)
	gadgets := lw.NewInformer(lw.NewMemory(&Gadget{lw.Meta{Name: "g"}}), nil)
	informers := []lw.AnyInformer{widgets, gadgets}

	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	var running sync.WaitGroup
	for _, inf := range informers {
		running.Go(func() {
			if err := inf.Run(ctx); err != nil {
				fmt.Println(err) // no retry can help
			}
		})
	}
	for _, inf := range informers {
		if err := inf.WaitForSync(ctx); err != nil {
			fmt.Println(err)
		}
	}
	for _, inf := range informers {
		status := inf.Status()
		fmt.Println(status.Informer, "has", status.Objects)
	}

	cancel()
	running.Wait()
	for _, inf := range informers {
		fmt.Println(inf.Status().Phase)
	}

	// Output:
	// Widget has 2
	// Gadget has 1
	// stopped
	// stopped
}
