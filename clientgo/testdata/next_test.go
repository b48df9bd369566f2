package clientgo_test

import (
	"context"
	"errors"
	"strings"
	"testing"
	"testing/synctest"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/dynamic/dynamicinformer"
	"k8s.io/client-go/informers"
	"k8s.io/client-go/kubernetes/fake"
	"k8s.io/client-go/tools/cache"
	"k8s.io/client-go/util/consistency"

	"github.com/go-lw/lw"
	"github.com/go-lw/lw/clientgo"
	"github.com/go-lw/lw/clientgo/factories"
	"github.com/go-lw/lw/internal/verify/rig"
)

// What client-go has since v0.38: .ci/next runs the tests of this file with its betas.

func init() {
	shardDoors["SharedIndexInformerOptions.ShardSelector"] = func(c *shardClients) cache.SharedIndexInformer {
		return clientgo.NewInformerWithOptions(c.lister(), &corev1.Pod{}, cache.SharedIndexInformerOptions{ShardSelector: upperHalf})
	}
	shardDoors["ShardSelector of a Decoder"] = func(c *shardClients) cache.SharedIndexInformer {
		return clientgo.Decoder{}.NewInformerWithOptions(c.lister(), &corev1.Pod{}, cache.SharedIndexInformerOptions{ShardSelector: upperHalf})
	}
	shardDoors["NewShardedListWatch"] = func(c *shardClients) cache.SharedIndexInformer {
		return clientgo.NewInformer(cache.NewShardedListWatch(c.lister(), upperHalf), &corev1.Pod{}, 0, nil)
	}
	shardDoors["NewShardedListWatch of a Decoder"] = func(c *shardClients) cache.SharedIndexInformer {
		return clientgo.Decoder{}.NewInformer(cache.NewShardedListWatch(c.lister(), upperHalf), &corev1.Pod{}, 0, nil)
	}
	shardDoors["UseAll WithShardSelector"] = func(c *shardClients) cache.SharedIndexInformer {
		factory := informers.NewSharedInformerFactoryWithOptions(c.typed, 0, informers.WithShardSelector(upperHalf))
		clientgo.UseAll(factory, &clientgo.FactoryOptions{Decoder: &clientgo.Decoder{}})
		return factory.Core().V1().Pods().Informer()
	}
}

// A factory with a shard selector cannot use an informer that was made elsewhere.
func TestUseWithShardSelector(t *testing.T) {
	defer func() {
		if got, _ := recover().(string); !strings.Contains(got, "SetShardSelector: the shard of this informer is set where it is made") {
			t.Errorf("the panic is %q", got)
		}
	}()
	factory := informers.NewSharedInformerFactoryWithOptions(fake.NewClientset(), 0, informers.WithShardSelector(upperHalf))
	clientgo.Use(factory, lw.NewInformer(lw.NewMemory[*corev1.Pod](), nil))
}

// The wait with a context names what has not synced.
func TestWaitForCacheSyncWithContext(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		pods := corev1.SchemeGroupVersion.WithResource("pods")
		var factory dynamicinformer.DynamicSharedInformerFactory = factories.Dynamic(&podsClient{}, 0, nil)
		factory.ForResource(pods)
		rig.Same(t, "before Start", cache.GVRSyncResult{Synced: map[schema.GroupVersionResource]bool{}}, factory.WaitForCacheSyncWithContext(t.Context()))
		ctx, stop := context.WithCancel(t.Context())
		factory.StartWithContext(ctx)
		rig.Same(t, "of what runs", cache.GVRSyncResult{Synced: map[schema.GroupVersionResource]bool{pods: true}}, factory.WaitForCacheSyncWithContext(ctx))
		stop()
		factory.Shutdown()
	})
	synctest.Test(t, func(t *testing.T) {
		pods := corev1.SchemeGroupVersion.WithResource("pods")
		hangs := &podsClient{hang: true}
		factory := factories.Dynamic(hangs, 0, nil)
		factory.ForResource(pods)
		ctx, stop := context.WithCancelCause(t.Context())
		factory.StartWithContext(ctx)
		why := errors.New("no patience")
		synctest.Wait()
		stop(why)
		got := factory.WaitForCacheSyncWithContext(ctx)
		rig.Same(t, "synced", map[schema.GroupVersionResource]bool{pods: false}, got.Synced)
		if err := got.AsError(); !errors.Is(err, why) {
			t.Errorf("error %v, want one of %v", err, why)
		}
		factory.Shutdown()
	})
}

// client-go's store of written versions works over lw's indexers: a reconcile of an owner waits
// until the informer has what the owner's last one wrote.
func TestConsistency(t *testing.T) {
	overAll(t, func(t *testing.T, impl implementation, server *podMemory) {
		inf := impl.new(server, cache.SharedIndexInformerOptions{})
		runInformer(t, inf)
		synctest.Wait()
		resource, owner := schema.GroupResource{Resource: "pods"}, types.NamespacedName{Namespace: "ns", Name: "owner"}
		store := consistency.NewConsistencyStore(map[schema.GroupResource]consistency.LastSyncRVGetter{resource: inf.GetIndexer()})
		store.WroteAt(owner, "uid", resource, "1000000")
		if err := store.EnsureReady(owner); err == nil {
			t.Error("ready before the write is there")
		}
		server.create(t, labelled("a"))
		synctest.Wait()
		store.Clear(owner, "uid")
		store.WroteAt(owner, "uid", resource, inf.GetIndexer().LastStoreSyncResourceVersion())
		if err := store.EnsureReady(owner); err != nil {
			t.Errorf("the indexer has the version, and is not ready: %v", err)
		}
	})
}

// A podsClient is a dynamic client of no pods.
type podsClient struct {
	dynamic.Interface
	hang bool
}

func (c *podsClient) Resource(schema.GroupVersionResource) dynamic.NamespaceableResourceInterface {
	return podsResource{hang: c.hang}
}

type podsResource struct {
	dynamic.NamespaceableResourceInterface
	hang bool
}

func (r podsResource) Namespace(string) dynamic.ResourceInterface { return r }

func (r podsResource) List(ctx context.Context, _ metav1.ListOptions) (*unstructured.UnstructuredList, error) {
	if r.hang {
		<-ctx.Done()
		return nil, ctx.Err()
	}
	list := &unstructured.UnstructuredList{}
	list.SetResourceVersion("1")
	return list, nil
}

func (r podsResource) Watch(ctx context.Context, o metav1.ListOptions) (watch.Interface, error) {
	if o.SendInitialEvents != nil {
		return nil, apierrors.NewInvalid(schema.GroupKind{}, "", nil)
	}
	return watch.NewFake(), nil
}
