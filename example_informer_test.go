package lw_test

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"syscall"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/go-lw/lw"
)

// An informer with an index and a handler, on the source of a unit test. With a server, only the
// source is another.
func ExampleNewInformer() {
	server := lw.NewMemory(widget("a", 1), widget("b", 2), widget("c", 2))
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()

	widgets := lw.NewInformer(server, nil)
	bySize := lw.NewIndex(widgets, func(w *Widget) int { return w.Size })
	told := make(chan string)
	reg := widgets.AddHandler(lw.Handler[*Widget]{
		Update: func(old, new *Widget) { told <- fmt.Sprintln(new.Name, "went from", old.Size, "to", new.Size) },
	})
	go widgets.Run(ctx)
	if err := lw.WaitForSync(ctx, widgets, reg); err != nil {
		fmt.Println(err)
		return
	}
	fmt.Println(widgets.Store().Len(), "widgets,", bySize.Len(2), "of size 2")

	a, _ := server.Get(ctx, lw.Key{Namespace: "default", Name: "a"})
	a.Size = 2
	a, _ = server.Update(ctx, a)
	// Read your write: from here on every read shows it.
	if err := widgets.WaitForResourceVersion(ctx, a.ResourceVersion); err != nil {
		fmt.Println(err)
		return
	}
	fmt.Println(bySize.Len(2), "of size 2")
	fmt.Print(<-told)

	// Output:
	// 3 widgets, 2 of size 2
	// 3 of size 2
	// a went from 1 to 2
}

// A readiness probe. A liveness probe asks whether Phase is "stopped", and nothing else.
func ExampleStatus_Healthy() {
	server := lw.NewMemory(widget("a", 1))
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	widgets := lw.NewInformer(server, nil)

	ready := func(w http.ResponseWriter, _ *http.Request) {
		if err := widgets.Status().Healthy(); err != nil {
			http.Error(w, err.Error(), http.StatusServiceUnavailable)
		}
	}
	probe := func() {
		answer := httptest.NewRecorder()
		ready(answer, nil)
		fmt.Println(answer.Code, strings.TrimSpace(answer.Body.String()))
	}

	probe()
	go widgets.Run(ctx)
	if err := widgets.WaitForSync(ctx); err != nil {
		fmt.Println(err)
		return
	}
	probe()

	// Output:
	// 503 lw: Widget: not synced, since Run has not been called
	// 200
}

// Events is what a handler is told, for a loop.
func ExampleInformer_Events() {
	server := lw.NewMemory(widget("a", 1))
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	widgets := lw.NewInformer(server, nil)
	go widgets.Run(ctx)

	for ev := range widgets.Events(ctx) {
		fmt.Println(ev.Type, ev.Key().Name, ev.Cause)
		if ev.Type == lw.Deleted {
			break
		}
		server.Delete(ctx, ev.Key(), "")
	}

	// Output:
	// added a initial
	// deleted a watch
}

// A wait that fails says why, and unwraps to the server's answer.
func ExampleInformer_WaitForSync() {
	server := lw.NewMemory[*Widget]()
	server.Fail(apierrors.NewForbidden(schema.GroupResource{Resource: "widgets"}, "", errors.New("no role allows it")))
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	widgets := lw.NewInformer(server, &lw.Options{
		OnError: func(error) {}, List: lw.ListPages, Backoff: func(int) time.Duration { return time.Hour },
	})
	go widgets.Run(ctx)
	for widgets.Status().Phase != "waiting" {
		time.Sleep(time.Millisecond) // only so that what is printed is the same each time
	}

	patience, done := context.WithTimeout(ctx, 20*time.Millisecond)
	defer done()
	err := widgets.WaitForSync(patience)
	fmt.Println(err)
	var failed *lw.Error
	fmt.Println(errors.As(err, &failed) && apierrors.IsForbidden(failed.Err), errors.Is(err, context.DeadlineExceeded))

	// Output:
	// lw: Widget: not synced (waiting, mode pages): list: widgets is forbidden: no role allows it: context deadline exceeded
	// true true
}

// A projection keeps what is needed of each object; the rest is garbage at once.
func ExampleTransform() {
	type Label struct {
		lw.Meta
		Text string
	}
	server := lw.NewMemory(widget("a", 1), widget("b", 2), widget("c", 3))
	labels := lw.NewInformer(lw.Transform(server, func(w *Widget) (*Label, error) {
		if w.Size > 2 {
			return nil, nil // left out
		}
		return &Label{Meta: lw.MetaOf(w), Text: fmt.Sprintf("%s of size %d", w.Name, w.Size)}, nil
	}), nil)
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	go labels.Run(ctx)
	if err := labels.WaitForSync(ctx); err != nil {
		fmt.Println(err)
	}
	for l := range labels.Store().All() {
		fmt.Println(l.Text)
	}

	// Unordered output:
	// a of size 1
	// b of size 2
}

// Selectors narrow a source on the server.
func ExampleWithListOptions() {
	server := lw.NewMemory(widget("a", 1), widget("b", 2))
	src := lw.WithListOptions(server, func(o *metav1.ListOptions) { o.FieldSelector = "metadata.name=b" })
	widgets := lw.NewInformer(src, nil)
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	go widgets.Run(ctx)
	if err := widgets.WaitForSync(ctx); err != nil {
		fmt.Println(err)
	}
	for w := range widgets.Store().All() {
		fmt.Println(w.Name)
	}
	// Output: b
}

// A Reflector keeps any sink in step: here an Indexer, without handlers and their goroutines.
func ExampleNewReflector() {
	server := lw.NewMemory(widget("a", 1), widget("b", 2))
	store := lw.NewIndexer[*Widget]()
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan error, 1)
	go func() { done <- lw.NewReflector(server, store, nil).Run(ctx) }()
	for store.ResourceVersion() != server.ResourceVersion() {
		time.Sleep(time.Millisecond)
	}
	fmt.Println(store.Len(), "widgets at version", store.ResourceVersion())
	cancel()
	fmt.Println(<-done)
	// Output:
	// 2 widgets at version 3
	// <nil>
}

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

	a, _ := server.Get(ctx, lw.Key{Namespace: "default", Name: "a"})
	a.Size = 2
	server.Update(ctx, a)
	server.Delete(ctx, lw.KeyOf(a), "")
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
		a, _ := server.Get(ctx, lw.Key{Namespace: "default", Name: "a"})
		a.Size = size
		server.Update(ctx, a)
	}
	<-hidden

	// Output:
	// large: a
	// no longer large: a
}

// Change gets each change as a Delta, which says why it came and which version the collection then
// has.
func ExampleHandler_change() {
	server := lw.NewMemory(widget("a", 1))
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()

	widgets := lw.NewInformer(server, nil)
	gone := make(chan struct{})
	reg := widgets.AddHandler(lw.Handler[*Widget]{Change: func(d lw.Delta[*Widget]) {
		fmt.Println(d.Type, d.Key().Name, d.Cause, d.ResourceVersion)
		if d.Type == lw.Deleted {
			close(gone)
		}
	}})
	go widgets.Run(ctx)
	if err := reg.WaitForSync(ctx); err != nil {
		fmt.Println(err)
		return
	}
	server.Delete(ctx, lw.Key{Namespace: "default", Name: "a"}, "")
	<-gone

	// Output:
	// added a initial 2
	// deleted a watch 3
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
	server.Create(ctx, widget("b", 1))
	fmt.Println(<-added)

	reg.Remove()
	<-reg.Done() // no call is running, and none will start
	server.Create(ctx, widget("c", 1))

	// Output:
	// a
	// b
}

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

	b, _ := server.Get(ctx, lw.Key{Namespace: "default", Name: "b"})
	b.Size = 2
	b, _ = server.Update(ctx, b)
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
		fmt.Println(s.Name, "is healthy:", s.Healthy() == nil)
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
	widgets := lw.NewInformer(server, nil)
	group.Add(widgets)
	graph := lw.NewGraph(nil)
	lw.Derive(graph, widgets, func(w *Widget) *Widget { return w }, "copies")
	group.Add(graph)
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
		fmt.Println(s.Name, "has", s.Objects)
	}
	fmt.Println("not healthy:", group.Healthy(time.Minute))
	remove()
	cancel()
	fmt.Println(<-ended, len(group.Status()))

	// Output:
	// Widget has 1
	// Sprocket has 1
	// not healthy: <nil>
	// <nil> 1
}

// The error of a wait for several informers says of each that has not synced what it waits for.
func ExampleWaitForSync() {
	down := lw.NewMemory[*Widget]()
	down.Fail(syscall.ECONNREFUSED)
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	wait, giveUp := context.WithCancel(ctx) // a program has a context with a timeout here
	near := lw.NewInformer(lw.NewMemory(widget("a", 1)), &lw.Options{Name: "near"})
	far := lw.NewInformer(down, &lw.Options{Name: "far", OnError: func(error) { giveUp() }})
	go near.Run(ctx)
	go far.Run(ctx)
	if err := near.WaitForSync(ctx); err != nil {
		fmt.Println(err)
		return
	}
	err := lw.WaitForSync(wait, near, far)
	text, _, _ := strings.Cut(err.Error(), " (")
	fmt.Println(text, errors.Is(err, syscall.ECONNREFUSED), errors.Is(err, context.Canceled))
	// Output: lw: far: not synced true true
}

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
		fmt.Println(status.Name, "has", status.Objects)
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

// A program that tells its informer what the server has answered reads its own writes at once.
func ExampleInformer_Tell() {
	server := lw.NewMemory(widget("a", 1))
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	widgets := lw.NewInformer(server, nil)
	go widgets.Run(ctx)
	if err := widgets.WaitForSync(ctx); err != nil {
		fmt.Println(err)
		return
	}

	made, _ := server.Create(ctx, widget("b", 2))
	if err := widgets.Tell(made); err != nil {
		fmt.Println(err)
		return
	}
	fmt.Println("without a wait:", widgets.Store().Len())

	key := lw.KeyOf(made)
	version, _ := server.Delete(ctx, key, "")
	if err := widgets.TellDeleted(key, made.UID, version); err != nil {
		fmt.Println(err)
		return
	}
	fmt.Println("and after the deletion:", widgets.Store().Len())

	// Output:
	// without a wait: 2
	// and after the deletion: 1
}
