package lw_test

import (
	"context"
	"errors"
	"fmt"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/go-lw/lw"
)

// OnError is called for each failure as it happens. Status says how things are now.
func ExampleStatus() {
	server := lw.NewMemory(widget("a", 1), widget("b", 2))
	server.Fail(apierrors.NewForbidden(schema.GroupResource{Resource: "widgets"}, "", errors.New("no role allows it")))
	widgets := lw.NewInformer(server, &lw.Options{
		List:    lw.ListPages,
		Backoff: func(int) time.Duration { return time.Millisecond },
		OnError: func(err error) {
			fmt.Println(err)
			server.Fail(nil) // somebody grants the role
		},
	})
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()

	fmt.Println(widgets.Status().Phase)
	go widgets.Run(ctx)
	if err := widgets.WaitForSync(ctx); err != nil {
		fmt.Println(err)
		return
	}
	status := widgets.Status()
	fmt.Println(status.Objects, "objects at version", status.ResourceVersion)
	fmt.Println(status.Failed, "request failed,", status.Failures, "in a row now, last failure:", status.Err)

	// Output:
	// idle
	// lw: Widget: list: widgets is forbidden: no role allows it
	// 2 objects at version 3
	// 1 request failed, 0 in a row now, last failure: <nil>
}

// An object that cannot be used is set aside. It is reported once, and Status names it until it can
// be used.
func ExampleStatus_setAside() {
	server := lw.NewMemory(widget("a", 1), widget("b", -1))
	src := lw.Transform(server, func(w *Widget) (*Widget, error) {
		if w.Size < 0 {
			return nil, fmt.Errorf("size is %d", w.Size)
		}
		return w, nil
	})
	widgets := lw.NewInformer(src, &lw.Options{OnError: func(err error) { fmt.Println("reported:", err) }})
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	go widgets.Run(ctx)
	if err := widgets.WaitForSync(ctx); err != nil {
		fmt.Println(err)
		return
	}
	for key, err := range widgets.Status().SetAside {
		fmt.Println("set aside:", key, errors.Unwrap(err))
	}

	b, _ := server.Get(lw.Key{Namespace: "default", Name: "b"})
	b.Size = 2
	b, _ = server.Update(b)
	if err := widgets.WaitForResourceVersion(ctx, b.ResourceVersion); err != nil {
		fmt.Println(err)
		return
	}
	fmt.Println("set aside:", len(widgets.Status().SetAside))

	// Output:
	// reported: lw: Widget: transform default/b: size is -1
	// set aside: default/b size is -1
	// set aside: 0
}
