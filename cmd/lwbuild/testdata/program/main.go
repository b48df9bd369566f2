// Program prints the pods of the server that it is given, as client-go's informers of several kinds
// see them.
package main

import (
	"context"
	"fmt"
	"os"
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/dynamic/dynamicinformer"
	"k8s.io/client-go/informers"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/metadata"
	"k8s.io/client-go/metadata/metadatainformer"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/cache"
)

func main() {
	if len(os.Args) != 2 {
		fmt.Fprintln(os.Stderr, "usage: program url")
		os.Exit(2)
	}
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	if err := run(ctx, &rest.Config{Host: os.Args[1], ContentConfig: rest.ContentConfig{ContentType: "application/json"}}); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(code(err))
	}
}

func code(error) int { return 1 }

func run(ctx context.Context, config *rest.Config) error {
	client, err := kubernetes.NewForConfig(config)
	if err != nil {
		return err
	}
	dyn, err := dynamic.NewForConfig(config)
	if err != nil {
		return err
	}
	meta, err := metadata.NewForConfig(config)
	if err != nil {
		return err
	}
	pods := corev1.SchemeGroupVersion.WithResource("pods")
	typed := informers.NewSharedInformerFactory(client, 0)
	unstructured := dynamicinformer.NewDynamicSharedInformerFactory(dyn, 0)
	partial := metadatainformer.NewSharedInformerFactory(meta, 0)
	lister := cache.NewListWatchFromClient(client.CoreV1().RESTClient(), "pods", metav1.NamespaceAll, fields.Everything())
	kept := cache.NewStore(cache.MetaNamespaceKeyFunc)
	old, controller := cache.NewIndexerInformer(lister, &corev1.Pod{}, 0, cache.ResourceEventHandlerFuncs{}, cache.Indexers{})
	withoutContext := cache.NewSharedIndexInformer(&cache.ListWatch{ListFunc: lister.ListFunc, WatchFunc: lister.WatchFunc}, &corev1.Pod{}, 0, nil)
	stores := map[string]cache.Store{
		"typed": typed.Core().V1().Pods().Informer().GetStore(), "dynamic": unstructured.ForResource(pods).Informer().GetStore(),
		"metadata": partial.ForResource(pods).Informer().GetStore(), "reflector": kept, "controller": old, "without context": withoutContext.GetStore(),
	}
	typed.Start(ctx.Done())
	unstructured.Start(ctx.Done())
	partial.Start(ctx.Done())
	go cache.NewReflector(lister, &corev1.Pod{}, kept, 0).Run(ctx.Done())
	go controller.Run(ctx.Done())
	go withoutContext.Run(ctx.Done())
	for name, store := range stores {
		for len(store.ListKeys()) < 3 {
			if ctx.Err() != nil {
				return fmt.Errorf("%s has %v: %w", name, store.ListKeys(), ctx.Err())
			}
			time.Sleep(time.Millisecond)
		}
	}
	for _, name := range []string{"typed", "dynamic", "metadata", "reflector", "controller", "without context"} {
		keys := stores[name].ListKeys()
		slices.Sort(keys)
		fmt.Printf("%s: %s %T\n", name, strings.Join(keys, " "), stores[name].List()[0])
	}
	return nil
}
