package cache

import "k8s.io/apimachinery/pkg/runtime"

// NewSharedIndexInformerHook makes all shared informers if it is set and returns one.
var NewSharedIndexInformerHook func(ListerWatcher, runtime.Object, SharedIndexInformerOptions) SharedIndexInformer
