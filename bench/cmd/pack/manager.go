package main

import (
	"context"

	"github.com/go-logr/logr"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/client-go/rest"
	toolscache "k8s.io/client-go/tools/cache"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/log"

	"github.com/go-lw/lw"
	"github.com/go-lw/lw/bench/internal/widgets"
	"github.com/go-lw/lw/controllerruntime"
)

// byManager returns the side of a cache of controller-runtime, whose Get makes an object of the
// caller's own: it copies one, or decodes a packed one, whether it has been read before or not.
func byManager(config *rest.Config, widget bool, newCache cache.NewCacheFunc, to told) (side, error) {
	log.SetLogger(logr.Discard())
	example, gvk := client.Object(&corev1.Pod{}), corev1.SchemeGroupVersion.WithKind("Pod")
	if widget {
		example, gvk = widgets.Empty(), widgets.Kind
	}
	mapper := meta.NewDefaultRESTMapper(nil)
	mapper.Add(gvk, meta.RESTScopeNamespace)
	c, err := newCache(config, cache.Options{Mapper: mapper})
	if err != nil {
		return side{}, err
	}
	ctx := context.Background()
	inf, err := c.GetInformer(ctx, example, cache.BlockUntilSynced(false))
	if err != nil {
		return side{}, err
	}
	_, err = inf.AddEventHandler(toolscache.ResourceEventHandlerFuncs{
		AddFunc:    func(any) { to.add() },
		UpdateFunc: func(_, obj any) { to.update(obj.(object).GetResourceVersion()) },
	})
	store := inf.(toolscache.SharedIndexInformer).GetStore()
	return side{
		start: func(ctx context.Context) { go func() { _ = c.Start(ctx) }() },
		keys: func() (keys []lw.Key) {
			for _, key := range store.ListKeys() {
				namespace, name, _ := toolscache.SplitMetaNamespaceKey(key)
				keys = append(keys, lw.Key{Namespace: namespace, Name: name})
			}
			return keys
		},
		get: func(key lw.Key) any {
			var obj client.Object = new(corev1.Pod)
			if widget {
				obj = widgets.Empty()
			}
			if c.Get(ctx, key, obj) != nil {
				return nil
			}
			return obj
		},
	}, err
}

var managers = map[string]cache.NewCacheFunc{
	manager:       cache.New,
	plainManager:  controllerruntime.NewCache,
	packedManager: controllerruntime.NewCacheWith(controllerruntime.Options{Pack: true}),
}
