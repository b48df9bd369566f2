package clientgo_test

import (
	"context"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"testing"
	"testing/synctest"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/sharding"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/informers"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/metadata"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/cache"

	"github.com/go-lw/lw"
	"github.com/go-lw/lw/clientgo"
	"github.com/go-lw/lw/clientgo/factories"
	"github.com/go-lw/lw/internal/verify/rig"
	"github.com/go-lw/lw/lwtest"
)

// upperHalf selects the objects whose UIDs have a hash in the upper half.
var upperHalf = sharding.NewSelector(sharding.ShardRangeRequirement{Key: "object.metadata.uid",
	Start: "0x8000000000000000", End: "0x10000000000000000"})

// shardClients are the clients of a server with pods.
type shardClients struct {
	typed    kubernetes.Interface
	dynamic  dynamic.Interface
	metadata metadata.Interface
}

// listWith returns list with the result that client-go's interface has.
func listWith[L runtime.Object](list func(context.Context, metav1.ListOptions) (L, error)) cache.ListWithContextFunc {
	return func(ctx context.Context, o metav1.ListOptions) (runtime.Object, error) { return list(ctx, o) }
}

// lister returns a ListerWatcher of the pods.
func (c *shardClients) lister() cache.ListerWatcher {
	pods := c.typed.CoreV1().Pods("")
	return cache.ToListWatcherWithWatchListSemantics(&cache.ListWatch{
		ListWithContextFunc:  listWith(pods.List),
		WatchFuncWithContext: pods.Watch,
	}, c.typed)
}

// shardSetter is cache.SharedIndexInformer with the method that it has since v0.38.
type shardSetter interface {
	cache.SharedIndexInformer
	SetShardSelector(selector sharding.Selector) error
}

// setShard sets the selector of inf, as a factory of client-go does.
func setShard(inf cache.SharedIndexInformer) cache.SharedIndexInformer {
	_ = inf.(shardSetter).SetShardSelector(upperHalf) // factories do not look at the error
	return inf
}

func setShardOptions(o *metav1.ListOptions) { o.ShardSelector = upperHalf.String() }

// shardDoors are the ways in which a program says which part of the pods its informer holds.
var shardDoors = map[string]func(c *shardClients) cache.SharedIndexInformer{
	"NewInformer": func(c *shardClients) cache.SharedIndexInformer {
		return setShard(clientgo.NewInformer(c.lister(), &corev1.Pod{}, 0, nil))
	},
	"Decoder.NewInformer": func(c *shardClients) cache.SharedIndexInformer {
		return setShard(clientgo.Decoder{}.NewInformer(c.lister(), &corev1.Pod{}, 0, nil))
	},
	"a transform that drops UIDs": func(c *shardClients) cache.SharedIndexInformer {
		inf := setShard(clientgo.Decoder{}.NewInformer(c.lister(), &corev1.Pod{}, 0, nil))
		_ = inf.SetTransform(func(obj any) (any, error) { obj.(metav1.Object).SetUID(""); return obj, nil })
		return inf
	},
	"UseAll": func(c *shardClients) cache.SharedIndexInformer {
		factory := informers.NewSharedInformerFactory(c.typed, 0)
		clientgo.UseAll(factory, nil)
		return setShard(factory.InformerFor(&corev1.Pod{}, nil)) // client-go 0.37 wraps what Pods().Informer() returns
	},
	"UseAll with list options": func(c *shardClients) cache.SharedIndexInformer {
		factory := informers.NewSharedInformerFactoryWithOptions(c.typed, 0, informers.WithTweakListOptions(setShardOptions))
		clientgo.UseAll(factory, &clientgo.FactoryOptions{TweakListOptions: setShardOptions, Decoder: &clientgo.Decoder{}})
		return factory.Core().V1().Pods().Informer()
	},
	"factories.Dynamic": func(c *shardClients) cache.SharedIndexInformer {
		return factories.Dynamic(c.dynamic, 0,
			&factories.Options{ShardSelector: upperHalf}).ForResource(corev1.SchemeGroupVersion.WithResource("pods")).Informer()
	},
	"factories.Metadata": func(c *shardClients) cache.SharedIndexInformer {
		return factories.Metadata(c.metadata, 0, &factories.Options{ShardSelector: upperHalf,
			Decoder: &clientgo.Decoder{}}).ForResource(corev1.SchemeGroupVersion.WithResource("pods")).Informer()
	},
	"a ListerWatcher that sets it": func(c *shardClients) cache.SharedIndexInformer {
		pods := c.typed.CoreV1().Pods("")
		return clientgo.Decoder{}.NewInformer(&cache.ListWatch{
			ListWithContextFunc: listWith(func(ctx context.Context, o metav1.ListOptions) (*corev1.PodList, error) {
				setShardOptions(&o)
				return pods.List(ctx, o)
			}),
			WatchFuncWithContext: func(ctx context.Context, o metav1.ListOptions) (watch.Interface, error) {
				setShardOptions(&o)
				return pods.Watch(ctx, o)
			},
		}, &corev1.Pod{}, 0, nil)
	},
}

// A program that says which part it holds gets that part through every door, from a server that
// selects and from one that does not: it would else write everything twice.
func TestShardDoors(t *testing.T) {
	for door, open := range shardDoors {
		for _, on := range []bool{true, false} {
			t.Run(fmt.Sprintf("%s/shards=%t", door, on), func(t *testing.T) {
				synctest.Test(t, func(t *testing.T) { testShardDoor(t, open, on) })
			})
		}
	}
}

func testShardDoor(t *testing.T, open func(*shardClients) cache.SharedIndexInformer, on bool) {
	server := lwtest.NewServer(t, lwtest.Resource{Plural: "pods", Kind: "Pod", Type: &corev1.Pod{}})
	server.SetShards(on)
	pods := lwtest.Objects[*corev1.Pod](server, "pods")
	var want []string
	create := func(from, to int) {
		for i := from; i < to; i++ {
			p, err := pods.Create(&corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: fmt.Sprint("p", i)}})
			rig.OK(t, err)
			if is, _ := upperHalf.Matches(p); is {
				want = append(want, "ns/"+p.Name)
			}
		}
	}
	create(0, 16)
	var without []string
	client := clientgo.Capture(&http.Client{Transport: rig.RoundTrip(func(r *http.Request) (*http.Response, error) {
		if got := r.URL.Query().Get("shardSelector"); got != upperHalf.String() {
			without = append(without, r.URL.String())
		}
		return server.Client().Do(r)
	})})
	config := &rest.Config{Host: server.URL()}
	inf := open(&shardClients{
		typed:    rig.Must[*kubernetes.Clientset](t)(kubernetes.NewForConfigAndClient(config, client)),
		dynamic:  rig.Must[*dynamic.DynamicClient](t)(dynamic.NewForConfigAndClient(config, client)),
		metadata: rig.Must[metadata.Interface](t)(metadata.NewForConfigAndClient(config, client)),
	})
	inf.HasSynced() // somebody wants it, if it waits for that
	runInformer(t, inf)
	synctest.Wait()
	create(16, 32)
	synctest.Wait()
	got := inf.GetStore().ListKeys()
	slices.Sort(got)
	slices.Sort(want)
	rig.Same(t, "held", want, got)
	rig.Same(t, "requests without the selector", nil, without)
	if len(want) == 0 || len(want) == 32 {
		t.Errorf("the selector selects %d of 32", len(want))
	}
}

// What cannot select by a shard says so, and so does every informer whose selector no server takes.
func TestShardRefused(t *testing.T) {
	memory := lw.NewInformer(lw.NewMemory[*corev1.Pod](), nil)
	odd := sharding.NewSelector(sharding.ShardRangeRequirement{Key: "object.metadata.name", Start: "0x8000000000000000",
		End: "0x10000000000000000"})
	own := clientgo.SharedIndexInformer[*corev1.Pod](memory).(shardSetter)
	source := clientgo.NewInformer(&cache.ListWatch{}, &corev1.Pod{}, 0, nil).(shardSetter)
	for what, tt := range map[string]struct {
		err  error
		want string
	}{
		"an adapter": {own.SetShardSelector(upperHalf),
			"clientgo: *v1.Pod: SetShardSelector: the shard of this informer is set where it is made: lw.NewInformer(lw.Shard(source, i, n), options)"},
		"an adapter, for all": {own.SetShardSelector(sharding.Everything()), "<nil>"},
		"no selector":         {own.SetShardSelector(nil), "<nil>"},
		"an odd selector": {source.SetShardSelector(odd),
			`clientgo: *v1.Pod: SetShardSelector: unsupported field "object.metadata.name": want object.metadata.uid or object.metadata.namespace`},
	} {
		rig.Same(t, what, tt.want, fmt.Sprint(tt.err))
	}
	synctest.Test(t, func(t *testing.T) {
		runInformer(t, source)
		synctest.Wait()
		if status, _ := clientgo.Status(source); status.Synced || source.HasSynced() {
			t.Error("an informer whose selector was refused has synced")
		}
		if err := source.SetShardSelector(upperHalf); err == nil || !strings.Contains(err.Error(),
			"informer has already started") {
			t.Errorf("of an informer that runs: %v", err)
		}
	})
	defer func() {
		rig.Same(t, "the panic",
			any("lw/clientgo/factories: TweakListOptions sets a ShardSelector: set Options.ShardSelector"), recover())
	}()
	factories.Dynamic(struct{ dynamic.Interface }{}, 0, &factories.Options{TweakListOptions: setShardOptions})
}
