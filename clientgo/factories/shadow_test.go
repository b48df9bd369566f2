package factories

import (
	"context"
	"testing"
	"testing/synctest"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/informers"
	"k8s.io/client-go/metadata"
)

// A late client answers a list once released is closed.
type late struct{ released chan struct{} }

func (l late) wait(ctx context.Context) error {
	select {
	case <-l.released:
		return nil
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}

type lateDynamic struct {
	dynamic.NamespaceableResourceInterface
	late
}

func (l lateDynamic) Resource(schema.GroupVersionResource) dynamic.NamespaceableResourceInterface {
	return l
}

func (l lateDynamic) Namespace(string) dynamic.ResourceInterface { return l }

func (l lateDynamic) List(ctx context.Context, _ metav1.ListOptions) (*unstructured.UnstructuredList, error) {
	list := &unstructured.UnstructuredList{}
	list.SetResourceVersion("1")
	return list, l.wait(ctx)
}

func (l lateDynamic) Watch(context.Context, metav1.ListOptions) (watch.Interface, error) {
	return watch.NewFake(), nil
}

func (lateDynamic) IsWatchListSemanticsUnSupported() bool { return true }

type lateMetadata struct {
	metadata.Getter
	late
}

func (l lateMetadata) Resource(schema.GroupVersionResource) metadata.Getter { return l }

func (l lateMetadata) Namespace(string) metadata.ResourceInterface { return l }

func (l lateMetadata) List(ctx context.Context, _ metav1.ListOptions) (*metav1.PartialObjectMetadataList, error) {
	return &metav1.PartialObjectMetadataList{ListMeta: metav1.ListMeta{ResourceVersion: "1"}}, l.wait(ctx)
}

func (l lateMetadata) Watch(context.Context, metav1.ListOptions) (watch.Interface, error) {
	return watch.NewFake(), nil
}

func (lateMetadata) IsWatchListSemanticsUnSupported() bool { return true }

// A shadow waits for what lw's factory waits for, and has synced when that has. Since client-go
// v0.38 its wait with a context is the factory's. Here the shadow works with an older one, too.
func TestShadow(t *testing.T) {
	pods, nodes := corev1.SchemeGroupVersion.WithResource("pods"), corev1.SchemeGroupVersion.WithResource("nodes")
	type synced = map[schema.GroupVersionResource]bool
	type waits interface {
		WaitForCacheSync(stop <-chan struct{}) map[schema.GroupVersionResource]bool
	}
	type factoryOf interface {
		waits
		ForResource(schema.GroupVersionResource) informers.GenericInformer
		StartWithContext(context.Context)
		Shutdown()
	}
	for name, build := range map[string]func(late) (ours factoryOf, theirs waits){
		"dynamic": func(l late) (factoryOf, waits) {
			f := Dynamic(lateDynamic{late: l}, 0, nil).(dynamicFactory)
			f.shadow = f.dynamicShadow
			return f.factory, f.dynamicShadow
		},
		"metadata": func(l late) (factoryOf, waits) {
			f := Metadata(lateMetadata{late: l}, 0, nil).(metadataFactory)
			f.shadow = f.metadataShadow
			return f.factory, f.metadataShadow
		},
	} {
		for _, answers := range []bool{true, false} {
			t.Run(name, func(t *testing.T) {
				synctest.Test(t, func(t *testing.T) {
					client := late{make(chan struct{})}
					ours, theirs := build(client)
					same := func(when string, want synced, stop <-chan struct{}) {
						t.Helper()
						for _, got := range []synced{ours.WaitForCacheSync(stop), theirs.WaitForCacheSync(stop)} {
							if diff := cmp.Diff(want, got); diff != "" {
								t.Errorf("%s (-want +got):\n%s", when, diff)
							}
						}
					}
					closed := make(chan struct{})
					close(closed)
					ours.ForResource(pods)
					same("before the start", synced{}, nil)
					ctx, stop := context.WithCancel(t.Context())
					ours.StartWithContext(ctx)
					ours.ForResource(nodes)
					synctest.Wait()
					same("before the answer", synced{pods: false}, closed)
					if answers {
						close(client.released)
						same("after it", synced{pods: true}, nil)
						ours.StartWithContext(ctx)
						same("of one more", synced{pods: true, nodes: true}, nil)
						synctest.Wait()
						same("after a pause", synced{pods: true, nodes: true}, closed)
					}
					stop()
					ours.Shutdown()
					if !answers {
						same("after the end", synced{pods: false}, ctx.Done())
					}
				})
			})
		}
	}
}
