package lw_test

import (
	"context"
	"fmt"
	"time"

	"github.com/go-lw/lw"
)

// Wait until an object is as you want it, and until it is gone.
func ExampleWaitFor() {
	server := lw.NewMemory(widget("a", 1))
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	widgets := lw.NewInformer(server, nil)
	go widgets.Run(ctx)
	a := lw.Key{Namespace: "default", Name: "a"}
	patience, done := context.WithTimeout(ctx, time.Minute)
	defer done()

	go func() { // somebody else, such as a controller
		w, _ := server.Get(a)
		w.Size = 3
		server.Update(w)
	}()
	w, err := lw.WaitFor(patience, widgets, a, func(w *Widget) bool { return w != nil && w.Size > 2 })
	if err != nil {
		fmt.Println(err)
		return
	}
	fmt.Println("size", w.Size)

	// A delete returns no version to wait for. The object is gone if there is none, or another one.
	if err := server.Delete(a); err != nil {
		fmt.Println(err)
		return
	}
	_, err = lw.WaitFor(patience, widgets, a, func(now *Widget) bool { return now == nil || now.UID != w.UID })
	if err != nil {
		fmt.Println(err)
		return
	}
	_, ok := widgets.Store().Get(a)
	fmt.Println("found", ok)
	// Output:
	// size 3
	// found false
}

// Follow one object in a select, beside all else that a goroutine waits for.
func ExampleInformer_Changed() {
	server := lw.NewMemory(widget("a", 1))
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	widgets := lw.NewInformer(server, nil)
	go widgets.Run(ctx)
	a := lw.Key{Namespace: "default", Name: "a"}

	for {
		changed := widgets.Changed(ctx, a) // before the read, so that no change is missed
		if w, ok := widgets.Store().Get(a); ok {
			fmt.Println("size", w.Size)
			if w.Size == 3 {
				return
			}
			w, _ = server.Get(a)
			w.Size++
			server.Update(w)
		}
		select {
		case <-changed:
		case <-widgets.Stopped():
			return
		case <-ctx.Done():
			return
		}
	}
	// Output:
	// size 1
	// size 2
	// size 3
}

// Wait until a group of an index has what you need.
func ExampleIndex_Changed() {
	hosts := lw.NewIndexer(newHost("a", "r1"))
	byRack := lw.NewIndex(hosts, func(h *host) string { return h.Rack })
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()

	go func() {
		hosts.Set(newHost("b", "r2")) // of another rack
		hosts.Set(newHost("c", "r1"))
	}()
	for {
		changed := byRack.Changed(ctx, "r1") // before the read, so that no change is missed
		if byRack.Len("r1") == 2 {
			break
		}
		<-changed
	}
	fmt.Println(names(byRack.Lookup("r1")))
	// Output:
	// [a c]
}
