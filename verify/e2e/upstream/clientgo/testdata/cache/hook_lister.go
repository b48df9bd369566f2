package cache

import (
	"context"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/watch"
)

// withoutContext is the ListerWatcher of a reflector, which has only the methods with a context, as
// its constructor got it.
type withoutContext struct {
	ListerWatcherWithContext
	noStream bool
}

func (l withoutContext) List(o metav1.ListOptions) (runtime.Object, error) {
	return l.ListWithContext(context.Background(), o)
}

func (l withoutContext) Watch(o metav1.ListOptions) (watch.Interface, error) {
	return l.WatchWithContext(context.Background(), o)
}

// IsWatchListSemanticsUnSupported tells what the constructor was told. The reflector has a wrapper
// of the ListerWatcher only, which does not say it.
func (l withoutContext) IsWatchListSemanticsUnSupported() bool { return l.noStream }
