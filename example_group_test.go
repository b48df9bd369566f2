package lw_test

import (
	"context"
	"errors"
	"fmt"
	"syscall"

	"github.com/go-lw/lw"
)

// Two controllers use the widgets of one namespace. They share an informer, which starts with the
// group.
func ExampleShare() {
	server := lw.NewMemory(widget("a", 1), widget("b", 2))
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()

	var group lw.Group
	widgets := func() (*lw.Informer[*Widget], func()) {
		return lw.Share(&group, "default", func() lw.Source[*Widget] {
			fmt.Println("the source is made once")
			return server
		}, nil)
	}
	one, releaseOne := widgets()
	two, releaseTwo := widgets()
	go group.Run(ctx)
	if err := group.WaitForSync(ctx); err != nil {
		fmt.Println(err)
		return
	}
	fmt.Println(one == two, one.Store().Len(), "widgets")

	releaseOne() // the other controller goes on
	for _, s := range group.Status() {
		fmt.Println(s.Informer, "is healthy:", s.Healthy() == nil)
	}
	releaseTwo() // stops the informer, and waits until it has
	fmt.Println(len(group.Status()), "informers,", one.Status().Phase)

	// Output:
	// the source is made once
	// true 2 widgets
	// Widget[default] is healthy: true
	// 0 informers, stopped
}

// Informers of different types run together. An informer is added when its kind has come, and is
// removed when the kind has gone.
func ExampleGroup() {
	server := lw.NewMemory(widget("a", 1))
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()

	var group lw.Group
	group.Add(lw.NewInformer(server, nil))
	ended := make(chan error)
	go func() { ended <- group.Run(ctx) }()

	door := &Sprocket{}
	door.Namespace, door.Name = "shop", "door"
	sprockets := lw.NewInformer(lw.NewMemory(door), nil)
	remove := group.Add(sprockets)
	if err := group.WaitForSync(ctx); err != nil {
		fmt.Println(err)
		return
	}
	for _, s := range group.Status() {
		fmt.Println(s.Informer, "has", s.Objects)
	}
	remove()
	cancel()
	fmt.Println(<-ended, len(group.Status()))

	// Output:
	// Widget has 1
	// Sprocket has 1
	// <nil> 1
}

// The error of a wait for several informers names those that have not synced.
func ExampleSyncError() {
	down := lw.NewMemory[*Widget]()
	down.Fail(syscall.ECONNREFUSED)
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	wait, giveUp := context.WithCancel(ctx) // a program has a context with a timeout here
	near := lw.NewInformer(lw.NewMemory(widget("a", 1)), &lw.Options{Name: "near"})
	far := lw.NewInformer(down, &lw.Options{Name: "far", OnError: func(error) { giveUp() }})

	var group lw.Group
	group.Add(near)
	group.Add(far)
	go group.Run(ctx)
	if err := near.WaitForSync(ctx); err != nil {
		fmt.Println(err)
		return
	}
	err := group.WaitForSync(wait)
	if e, ok := errors.AsType[*lw.SyncError](err); ok {
		for _, u := range e.Unsynced {
			fmt.Println(u.Informer, errors.Is(u.Err, syscall.ECONNREFUSED), errors.Is(u.Err, context.Canceled))
		}
	}
	// Output: far true true
}
