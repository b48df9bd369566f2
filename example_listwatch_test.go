package lw_test

import (
	"context"
	"fmt"

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
