package clientgo

import (
	"context"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/tools/cache"

	"github.com/go-lw/lw"
)

func Source(l cache.ListerWatcher, example runtime.Object) lw.Source[metav1.Object] {
	c := cache.ToListerWatcherWithContext(l)
	return &lw.ListWatch[metav1.Object, lw.ObjectList]{
		ListFunc: func(ctx context.Context, opts metav1.ListOptions) (lw.ObjectList, error) {
			o, err := c.ListWithContext(ctx, opts)
			if err != nil {
				return nil, err
			}
			return o.(lw.ObjectList), nil
		},
		WatchFunc: func(ctx context.Context, opts metav1.ListOptions) (watch.Interface, error) {
			return c.WatchWithContext(ctx, opts)
		},
	}
}

func newSharedInformer(src lw.Source[metav1.Object], example runtime.Object, opts cache.SharedIndexInformerOptions) cache.SharedIndexInformer {
	panic("tmp")
}
