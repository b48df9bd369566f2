package lw_test

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/go-lw/lw"
)

// An informer with an index and a handler, on the source of a unit test. With a server, only the source is another.
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

	a, _ := server.Get(lw.Key{Namespace: "default", Name: "a"})
	a.Size = 2
	a, _ = server.Update(a)
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

// A readiness probe. A liveness probe asks whether Phase is PhaseStopped, and nothing else.
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
		server.Delete(ev.Key())
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
	for widgets.Status().Phase != lw.PhaseWaiting {
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
