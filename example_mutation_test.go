package lw_test

import (
	"context"
	"fmt"

	"github.com/go-lw/lw"
)

// DetectMutation finds code that changes the shared objects: here a handler. Switch it on in tests.
func ExampleOptions_detectMutation() {
	server := lw.NewMemory(widget("a", 1))
	found := make(chan error, 1)
	widgets := lw.NewInformer(server, &lw.Options{
		DetectMutation: true,
		OnError:        func(err error) { found <- err },
	})
	reg := widgets.AddHandler(lw.Handler[*Widget]{Add: func(w *Widget) { w.Size = 66 }})
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	go widgets.Run(ctx)
	if err := reg.WaitForSync(ctx); err != nil {
		fmt.Println(err)
		return
	}

	// An object is checked about once in a second, and when it leaves the store.
	server.Delete(lw.Key{Namespace: "default", Name: "a"})
	fmt.Println(<-found)

	// Output:
	// lw: Widget: mutation default/a: a cached object was changed: Size: 1 is now 66
}
