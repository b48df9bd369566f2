package factories

import (
	"context"
	"reflect"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/dynamic/dynamicinformer"
	"k8s.io/client-go/informers"
	"k8s.io/client-go/metadata"
	"k8s.io/client-go/metadata/metadatainformer"
)

// The interfaces of both factories have a method WaitForCacheSyncWithContext since client-go v0.38,
// whose result is a type that older versions lack. No source that names it fits both. So the method
// is that of client-go's own factory, the shadow: it has an informer for each of lw's, whose client
// answers the one list that it makes when lw's informer has synced. Then the shadow's is stopped:
// it stays synced, and costs nothing. With an older client-go nothing of this runs.

// dynamicFactory and metadataFactory are the results of Dynamic and Metadata. The methods of factory
// hide those of the shadow, which lie deeper.
type (
	dynamicFactory struct {
		*factory
		dynamicShadow
	}
	dynamicShadow struct {
		dynamicinformer.DynamicSharedInformerFactory
	}
	metadataFactory struct {
		*factory
		metadataShadow
	}
	metadataShadow struct {
		metadatainformer.SharedInformerFactory
	}
)

// A shadow is a factory of client-go.
type shadow interface {
	ForResource(gvr schema.GroupVersionResource) informers.GenericInformer
	Start(stop <-chan struct{})
	Shutdown()
}

// shadowFor returns theirs if the interface F has a method that lw's factories lack.
func shadowFor[F shadow](theirs F) shadow {
	if _, ok := reflect.TypeFor[F]().MethodByName("WaitForCacheSyncWithContext"); ok {
		return theirs
	}
	return nil
}

// followLocked has the shadow's informer of gvr sync when lw's does.
func (f *factory) followLocked(ctx context.Context, gvr schema.GroupVersionResource) {
	if f.shadow == nil {
		return
	}
	theirs := f.shadow.ForResource(gvr).Informer()
	ctx, stop := context.WithCancel(ctx)
	f.shadow.Start(ctx.Done())
	f.running.Go(func() {
		defer stop()
		select {
		case <-theirs.HasSyncedChecker().Done():
		case <-ctx.Done():
		}
	})
}

// synced waits until the informer of gvr has synced.
func (f *factory) synced(ctx context.Context, gvr schema.GroupVersionResource) error {
	f.mu.Lock()
	i := f.informers[gvr]
	f.mu.Unlock()
	select {
	case <-i.HasSyncedChecker().Done():
		return nil
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}

// emptyList is of a collection that the shadow lists. Nobody reads its store.
var emptyList = metav1.ListMeta{ResourceVersion: "1"}

// A dynamicClient is that of the shadow of a dynamic factory.
type dynamicClient struct{ of *factory }

// IsWatchListSemanticsUnSupported has the shadow list, and not ask for a stream.
func (dynamicClient) IsWatchListSemanticsUnSupported() bool { return true }

func (c dynamicClient) Resource(gvr schema.GroupVersionResource) dynamic.NamespaceableResourceInterface {
	return dynamicResource{of: c.of, gvr: gvr}
}

type dynamicResource struct {
	dynamic.NamespaceableResourceInterface // nil: an informer calls no other method
	of                                     *factory
	gvr                                    schema.GroupVersionResource
}

func (r dynamicResource) Namespace(string) dynamic.ResourceInterface { return r }

func (r dynamicResource) List(ctx context.Context, _ metav1.ListOptions) (*unstructured.UnstructuredList, error) {
	list := &unstructured.UnstructuredList{}
	list.SetResourceVersion(emptyList.ResourceVersion)
	return list, r.of.synced(ctx, r.gvr)
}

func (r dynamicResource) Watch(context.Context, metav1.ListOptions) (watch.Interface, error) {
	return watch.NewFake(), nil
}

// A metadataClient is that of the shadow of a metadata factory.
type metadataClient struct{ of *factory }

// IsWatchListSemanticsUnSupported has the shadow list, and not ask for a stream.
func (metadataClient) IsWatchListSemanticsUnSupported() bool { return true }

func (c metadataClient) Resource(gvr schema.GroupVersionResource) metadata.Getter {
	return metadataResource{of: c.of, gvr: gvr}
}

type metadataResource struct {
	metadata.Getter // nil: an informer calls no other method
	of              *factory
	gvr             schema.GroupVersionResource
}

func (r metadataResource) Namespace(string) metadata.ResourceInterface { return r }

func (r metadataResource) List(ctx context.Context, _ metav1.ListOptions) (*metav1.PartialObjectMetadataList, error) {
	return &metav1.PartialObjectMetadataList{ListMeta: emptyList}, r.of.synced(ctx, r.gvr)
}

func (r metadataResource) Watch(context.Context, metav1.ListOptions) (watch.Interface, error) {
	return watch.NewFake(), nil
}
