package lw_test

import (
	"context"
	"fmt"
	"sync/atomic"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/watch"

	"github.com/go-lw/lw"
)

// A ListWatch makes a Source of two functions. For those of a generated client there is FromClient.
func ExampleListWatch() {
	node := func(name, version string) *metav1.PartialObjectMetadata {
		return &metav1.PartialObjectMetadata{ObjectMeta: metav1.ObjectMeta{Name: name, ResourceVersion: version}}
	}
	changes := make(chan watch.Event, 1)
	src := &lw.ListWatch[*metav1.PartialObjectMetadata, *metav1.PartialObjectMetadataList]{
		ListFunc: func(context.Context, metav1.ListOptions) (*metav1.PartialObjectMetadataList, error) {
			return &metav1.PartialObjectMetadataList{
				ListMeta: metav1.ListMeta{ResourceVersion: "5"},
				Items:    []metav1.PartialObjectMetadata{*node("one", "3"), *node("two", "5")},
			}, nil
		},
		// A real one sends the changes after opts.ResourceVersion, here 5.
		WatchFunc: func(_ context.Context, opts metav1.ListOptions) (watch.Interface, error) {
			return watch.NewProxyWatcher(changes), nil
		},
	}

	// These functions know neither streamed lists nor pages.
	nodes := lw.NewInformer(src, &lw.Options{List: lw.ListWhole})
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	go nodes.Run(ctx)
	if err := nodes.WaitForSync(ctx); err != nil {
		fmt.Println(err)
		return
	}
	fmt.Println(nodes.Store().Len(), "nodes at version", nodes.Store().ResourceVersion())

	changes <- watch.Event{Type: watch.Added, Object: node("three", "6")}
	if err := nodes.WaitForResourceVersion(ctx, "6"); err != nil {
		fmt.Println(err)
		return
	}
	fmt.Println(nodes.Store().Len(), "nodes at version", nodes.Store().ResourceVersion())

	// Output:
	// 2 nodes at version 5
	// 3 nodes at version 6
}

// A directory is a Source that can only be listed, and has no versions. Its Watch ends, without an
// error, when the next list is due: the source sets the pace.
type directory struct {
	names func() []string
	every time.Duration
}

func (directory) Hints() lw.SourceHints { return lw.SourceHints{NoStream: true, Unversioned: true} }

func (d directory) List(_ context.Context, _ metav1.ListOptions, yield func(*Widget, error) error) (metav1.ListMeta, error) {
	for _, name := range d.names() {
		if err := yield(widget(name, len(name)), nil); err != nil {
			return metav1.ListMeta{}, err
		}
	}
	return metav1.ListMeta{}, nil
}

func (d directory) Watch(ctx context.Context, _ metav1.ListOptions, _ func(lw.WatchEvent[*Widget]) error) error {
	select {
	case <-time.After(d.every):
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

// A source that polls is followed like any other. Status.LastList says how old its content is.
func ExampleSource_polling() {
	var names atomic.Pointer[[]string]
	names.Store(&[]string{"one", "two"})
	src := directory{names: func() []string { return *names.Load() }, every: 10 * time.Millisecond}

	files := lw.NewInformer(lw.Source[*Widget](src), nil)
	files.AddHandler(lw.Handler[*Widget]{Delete: func(w *Widget) { fmt.Println(w.Name, "is gone") }})
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	done := make(chan struct{})
	go func() { defer close(done); files.Run(ctx) }()
	if err := files.WaitForSync(ctx); err != nil {
		fmt.Println(err)
		return
	}
	fmt.Println(files.Store().Len(), "files")

	names.Store(&[]string{"one", "three"})
	three := func(w *Widget) bool { return w != nil }
	if _, err := lw.WaitFor(ctx, files, lw.Key{Namespace: "default", Name: "three"}, three); err != nil {
		fmt.Println(err)
		return
	}
	fmt.Println(files.Store().Len(), "files, as of a minute ago or less:", time.Since(files.Status().LastList) < time.Minute)
	cancel()
	<-done

	// Unordered output:
	// 2 files
	// two is gone
	// 2 files, as of a minute ago or less: true
}
