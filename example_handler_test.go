package lw_test

import (
	"context"
	"fmt"

	"github.com/go-lw/lw"
)

// The functions of a Handler are called one at a time, so what only they use needs no lock.
func ExampleHandler() {
	server := lw.NewMemory(widget("a", 1))
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()

	widgets := lw.NewInformer(server, nil)
	deleted := make(chan struct{})
	reg := widgets.AddHandler(lw.Handler[*Widget]{
		Add:    func(w *Widget) { fmt.Println("add", w.Name, w.Size) },
		Update: func(old, w *Widget) { fmt.Println("update", w.Name, old.Size, "to", w.Size) },
		Delete: func(last *Widget) { fmt.Println("delete", last.Name, last.Size); close(deleted) },
		Synced: func() { fmt.Println("synced") },
	})
	go widgets.Run(ctx)
	if err := reg.WaitForSync(ctx); err != nil {
		fmt.Println(err)
		return
	}

	a, _ := server.Get(lw.Key{Namespace: "default", Name: "a"})
	a.Size = 2
	server.Update(a)
	server.Delete(lw.KeyOf(a))
	<-deleted

	// Output:
	// add a 1
	// synced
	// update a 1 to 2
	// delete a 2
}

// A filter hides objects. A change that makes an object visible is an Add, one that hides it a
// Delete.
func ExampleHandler_filter() {
	server := lw.NewMemory(widget("a", 1), widget("b", 1))
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()

	widgets := lw.NewInformer(server, nil)
	hidden := make(chan struct{})
	reg := widgets.AddHandler(lw.Handler[*Widget]{
		Filter: func(w *Widget) bool { return w.Size >= 10 },
		Add:    func(w *Widget) { fmt.Println("large:", w.Name) },
		Delete: func(w *Widget) { fmt.Println("no longer large:", w.Name); close(hidden) },
	})
	go widgets.Run(ctx)
	if err := reg.WaitForSync(ctx); err != nil {
		fmt.Println(err)
		return
	}

	for _, size := range []int{10, 2} {
		a, _ := server.Get(lw.Key{Namespace: "default", Name: "a"})
		a.Size = size
		server.Update(a)
	}
	<-hidden

	// Output:
	// large: a
	// no longer large: a
}

// A handler may come and go while the informer runs. It begins with what the store has.
func ExampleInformer_AddHandler() {
	server := lw.NewMemory(widget("a", 1))
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	widgets := lw.NewInformer(server, nil)
	go widgets.Run(ctx)
	if err := widgets.WaitForSync(ctx); err != nil {
		fmt.Println(err)
		return
	}

	added := make(chan string)
	reg := widgets.AddHandler(lw.Handler[*Widget]{Add: func(w *Widget) { added <- w.Name }})
	fmt.Println(<-added)
	server.Create(widget("b", 1))
	fmt.Println(<-added)

	reg.Remove()
	<-reg.Done() // no call is running, and none will start
	server.Create(widget("c", 1))

	// Output:
	// a
	// b
}
