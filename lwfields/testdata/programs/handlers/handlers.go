// Package handlers is a golden program: see ../README.md.
package handlers

import (
	"fmt"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	listers "k8s.io/client-go/listers/core/v1"
	"k8s.io/client-go/tools/cache"
	"k8s.io/klog/v2"
)

// Watch is told of objects by an informer, as any.
func Watch(informer cache.SharedIndexInformer, lister listers.PodLister, log klog.Logger) error {
	if _, err := informer.AddEventHandler(cache.ResourceEventHandlerFuncs{
		AddFunc: func(obj any) {
			if key, err := cache.MetaNamespaceKeyFunc(obj); err == nil {
				log.Info("added", "key", key)
			}
			pod, ok := obj.(*corev1.Pod)
			if !ok {
				log.Info("unexpected object", "object", obj)
				return
			}
			fmt.Println(pod.Spec.NodeName) // want "spec.nodeName"
		},
		DeleteFunc: func(obj any) {
			if d, ok := obj.(cache.DeletedFinalStateUnknown); ok {
				obj = d.Obj
			}
			if m, ok := obj.(metav1.Object); ok {
				fmt.Println(m.GetLabels()) // want "metadata.labels"
			}
		},
	}); err != nil {
		return err
	}
	if _, err := informer.AddEventHandler(handler{}); err != nil {
		return err
	}
	pods, err := lister.List(labels.Everything())
	if err != nil {
		return err
	}
	fmt.Println(len(pods))
	for _, obj := range informer.GetStore().List() {
		m, err := meta.Accessor(obj)
		if err != nil {
			return err
		}
		fmt.Println(m.GetAnnotations()) // want "metadata.annotations"
	}
	return informer.AddIndexers(cache.Indexers{"node": func(obj any) ([]string, error) {
		return []string{obj.(*corev1.Pod).Spec.Hostname}, nil // want "spec.hostname"
	}})
}

type handler struct{}

func (handler) OnAdd(obj any, _ bool) {}
func (handler) OnUpdate(_, obj any) {
	fmt.Println(obj.(metav1.Object).GetFinalizers()) // want "metadata.finalizers"
}
func (handler) OnDelete(any) {}
