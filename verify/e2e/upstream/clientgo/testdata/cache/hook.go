package cache

import (
	"context"
	"reflect"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
)

// NewSharedIndexInformerHook makes all shared informers if it is set and returns one.
var NewSharedIndexInformerHook func(ListerWatcher, runtime.Object, SharedIndexInformerOptions) SharedIndexInformer

// RunReflectorHook runs all reflectors if it is set and returns true.
var RunReflectorHook func(context.Context, ListerWatcher, runtime.Object, ReflectorStore, ReflectorOptions) bool

// ranByHook reports whether RunReflectorHook has run r.
func (r *Reflector) ranByHook(ctx context.Context) bool {
	if RunReflectorHook == nil {
		return false
	}
	var example runtime.Object
	if r.expectedType != nil {
		example, _ = reflect.New(r.expectedType.Elem()).Interface().(runtime.Object)
	}
	if u, ok := example.(*unstructured.Unstructured); ok && r.expectedGVK != nil {
		u.SetGroupVersionKind(*r.expectedGVK)
	}
	return RunReflectorHook(ctx, withoutContext{r.listerWatcher, !r.useWatchList}, example, r.store, ReflectorOptions{
		Name: r.name, TypeDescription: r.typeDescription, ResyncPeriod: r.resyncPeriod, MinWatchTimeout: r.minWatchTimeout,
	})
}
