package clientgo_test

import (
	"bytes"
	"context"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/kubernetes/fake"
	"k8s.io/client-go/tools/cache"

	"github.com/go-lw/lw"
	"github.com/go-lw/lw/clientgo"
	"github.com/go-lw/lw/internal/verify/rig"
)

// controllers are the ways to get a store and a controller. client-go's is the truth.
var controllers = map[string]func(cache.InformerOptions) (cache.Store, cache.Controller){
	"client-go": cache.NewInformerWithOptions,
	"NewControllerWithOptions": func(o cache.InformerOptions) (cache.Store, cache.Controller) {
		return clientgo.NewControllerWithOptions(o)
	},
	"Decoder": func(o cache.InformerOptions) (cache.Store, cache.Controller) {
		return clientgo.Decoder{}.NewController(o)
	},
}

var byV = cache.Indexers{"v": func(obj any) ([]string, error) { return []string{obj.(*corev1.Pod).Labels["v"]}, nil }}

// A story is a random history of a server, as a controller told it: after each step the calls of
// the handler, the store, its indexes and its version.
func story(t *testing.T, seed uint64, new func(cache.InformerOptions) (cache.Store, cache.Controller)) (told []string) {
	synctest.Test(t, func(t *testing.T) {
		rnd := rand.New(rand.NewPCG(seed, 1))
		server := newPodMemory(labelled("a", "v=0"), labelled("b", "v=0"))
		var handler calls
		o := cache.InformerOptions{ListerWatcher: server, ObjectType: &corev1.Pod{}, Handler: &handler}
		if rnd.IntN(2) == 0 {
			o.ResyncPeriod = time.Minute
		}
		if rnd.IntN(2) == 0 {
			o.Transform = func(obj any) (any, error) {
				p := obj.(*corev1.Pod).DeepCopy()
				p.Labels["v"] = "t" + strings.TrimPrefix(p.Labels["v"], "t") // client-go transforms a streamed list twice
				return p, nil
			}
		}
		if rnd.IntN(2) == 0 {
			o.Indexers = byV
		}
		store, controller := new(o)
		note := func(step string) {
			calls, version := slices.Sorted(slices.Values(handler.take())), controller.LastSyncResourceVersion()
			lines := fmt.Sprintf("%s: %q store %q synced %v version %s", step, calls, names(store.List()),
				controller.HasSynced(), version)
			if indexer, ok := store.(cache.Indexer); ok && o.Indexers != nil {
				found, err := indexer.ByIndex("v", "1")
				lines += fmt.Sprintf(" index %q %v", names(found), err)
			}
			told = append(told, lines)
		}
		note("before Run")
		stop := runInformer(t, controller)
		note("after Run")
		there := map[string]bool{"a": true, "b": true}
		for i := range 30 {
			name := string(rune('a' + rnd.IntN(4)))
			switch {
			case !there[name]:
				server.create(t, labelled(name, fmt.Sprintf("v=%d", i)))
				there[name] = true
			case rnd.IntN(3) == 0:
				server.delete(t, name)
				delete(there, name)
			default:
				server.update(t, labelled(name, fmt.Sprintf("v=%d", i%3)))
			}
			note(fmt.Sprint("step ", i))
			if rnd.IntN(8) == 0 {
				time.Sleep(time.Minute + time.Millisecond)
				note("a minute later")
			}
		}
		stop()
		server.create(t, labelled("late"))
		note("after the end")
	})
	return told
}

// A controller tells what client-go's tells, history by history. That the object of a deletion has
// another version is not told.
func TestControllerStories(t *testing.T) {
	for seed := range uint64(20) {
		want := story(t, seed, controllers["client-go"])
		for name, new := range controllers {
			rig.Same(t, fmt.Sprintf("seed %d: client-go and %s", seed, name), want, story(t, seed, new))
		}
	}
}

// The two older constructors are replaced by the name alone, also where their results are assigned
// to variables of other types.
func TestNewController(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		server := newPodMemory(labelled("a", "v=1"))
		var handler calls
		var store cache.Store
		var plain, indexed cache.Controller
		store, plain = clientgo.NewController(server, &corev1.Pod{}, 0, &handler)
		indexer, indexed := clientgo.NewController(server, &corev1.Pod{}, 0, cache.ResourceEventHandlerFuncs{}, byV,
			cache.Indexers{cache.NamespaceIndex: cache.MetaNamespaceIndexFunc})
		defer runInformer(t, plain)()
		defer runInformer(t, indexed)()
		handler.want(t, "the first list", "add a1 initial")
		rig.Same(t, "", []string{"a"}, names(store.List()))
		rig.Same(t, "by label", []string{"a"}, byIndex(t, indexer, "v", "1"))
		rig.Same(t, "by namespace", []string{"a"}, byIndex(t, indexer, cache.NamespaceIndex, "ns"))
		if s, ok := clientgo.Status(plain); !ok || !s.Synced {
			t.Errorf("Status is %v, %v", s, ok)
		}
		server.update(t, labelled("a", "v=2"))
		handler.want(t, "an update", "update a2 from a1")
	})
}

// A controller has synced when its handler was told of the whole list. One without a handler has
// when the store has it. Run waits for a call that runs.
func TestControllerSyncs(t *testing.T) {
	for name, new := range controllers {
		rig.Subtest(t, name, func(t *testing.T) {
			work := make(chan struct{})
			_, c := new(cache.InformerOptions{
				ListerWatcher: newPodMemory(labelled("a")), ObjectType: &corev1.Pod{},
				Handler: cache.ResourceEventHandlerFuncs{AddFunc: func(any) { <-work }},
			})
			ctx, cancel := context.WithCancel(t.Context())
			ended := running(ctx, c)
			synctest.Wait()
			rig.Same(t, "synced while its handler works on the list", false, c.HasSynced())
			cancel()
			synctest.Wait()
			rig.Same(t, "Run has returned while the handler works", false, isClosed(ended))
			close(work)
			<-ended
		})
	}
	synctest.Test(t, func(t *testing.T) {
		_, c := clientgo.NewController(newPodMemory(labelled("a")), &corev1.Pod{}, 0, nil)
		defer runInformer(t, c)()
		synctest.Wait()
		if !c.HasSynced() || c.LastSyncResourceVersion() != "2" && c.LastSyncResourceVersion() != "1" {
			t.Errorf("synced %v, version %q", c.HasSynced(), c.LastSyncResourceVersion())
		}
	})
}

// A controller has the metrics and the log that its options say, and leaves their indexers alone.
func TestControllerOptions(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		name := rig.Must[*cache.InformerName](t)(cache.NewInformerName("the-controllers"))
		defer name.Release()
		p := &provider{values: map[string]float64{}}
		var ours, others bytes.Buffer
		own := loggerTo(&ours)
		server := newPodMemory(labelled("a"))
		options := cache.InformerOptions{
			ListerWatcher: server, ObjectType: &corev1.Pod{}, Logger: &own, ResyncPeriod: -time.Second, Handler: &calls{},
			Identifier: name.WithResource(corev1.SchemeGroupVersion.WithResource("pods")), InformerMetricsProvider: p,
			Indexers: cache.Indexers{"v": byLabels},
		}
		indexer, c := clientgo.NewControllerWithOptions(options)
		if err := indexer.AddIndexers(cache.Indexers{"w": byLabels}); err != nil || len(options.Indexers) != 1 {
			t.Errorf("the options have %d indexers: %v", len(options.Indexers), err)
		}
		done := running(loggedTo(t, &others), c)
		time.Sleep(time.Minute)
		p.want(t, "after the list", map[string]float64{"version of the-controllers pods": 2,
			"queued of the-controllers pods": 0, "latency of the-controllers pods": 1000})
		server.Fail(fmt.Errorf("no such field: %w", lw.ErrPermanent))
		<-done
		if !strings.Contains(ours.String(), "no such field") || others.Len() > 0 {
			t.Errorf("log of the options: %s\nof the context: %s", &ours, &others)
		}
	})
	// The indexers of several calls do not mix.
	first := cache.Indexers{"v": byLabels}
	indexer, _ := clientgo.NewController(newPodMemory(), &corev1.Pod{}, 0, nil, first, cache.Indexers{"w": byLabels})
	if len(first) != 1 || len(indexer.GetIndexers()) != 2 {
		t.Errorf("the caller's indexers are %d, the store's %d", len(first), len(indexer.GetIndexers()))
	}
}

// timeouts notes how long the watches are asked to last.
type timeouts struct {
	*podMemory
	seconds atomic.Int64
}

func (s *timeouts) WatchWithContext(ctx context.Context, opts metav1.ListOptions) (watch.Interface, error) {
	s.seconds.Store(*opts.TimeoutSeconds)
	return s.podMemory.WatchWithContext(ctx, opts)
}

func (s *timeouts) last() time.Duration { return time.Duration(s.seconds.Load()) * time.Second }

// The watches last as long as they are asked to, and never less than client-go's.
func TestControllerWatchTimeout(t *testing.T) {
	for asked, least := range map[time.Duration]time.Duration{0: 5 * time.Minute, time.Second: 5 * time.Minute,
		time.Hour: time.Hour} {
		synctest.Test(t, func(t *testing.T) {
			server := &timeouts{podMemory: newPodMemory()}
			_, c := clientgo.NewControllerWithOptions(cache.InformerOptions{ListerWatcher: server, ObjectType: &corev1.Pod{},
				MinWatchTimeout: asked})
			defer runInformer(t, c)()
			synctest.Wait()
			if got := server.last(); got < least || got > 2*least {
				t.Errorf("asked for %v: a watch of %v", asked, got)
			}
		})
	}
}

// A store and a controller, as cache.NewIndexerInformer returned them.
func ExampleNewController() {
	clientset := fake.NewClientset(pod("default", "web"))
	pods, controller := clientgo.NewController(listerWatcher(clientset), &corev1.Pod{}, 0, cache.ResourceEventHandlerFuncs{
		AddFunc: func(obj any) { fmt.Println("added", obj.(*corev1.Pod).Name) },
	}, cache.Indexers{cache.NamespaceIndex: cache.MetaNamespaceIndexFunc})

	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	go controller.RunWithContext(ctx)
	cache.WaitFor(ctx, "", controller.HasSyncedChecker())
	found, err := pods.ByIndex(cache.NamespaceIndex, "default")
	fmt.Println(len(found), err)
	// Output:
	// added web
	// 1 <nil>
}
