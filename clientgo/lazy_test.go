package clientgo_test

import (
	"context"
	"errors"
	"fmt"
	"reflect"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/informers"
	coreinformers "k8s.io/client-go/informers/core/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/kubernetes/fake"
	corelisters "k8s.io/client-go/listers/core/v1"
	clienttesting "k8s.io/client-go/testing"
	"k8s.io/client-go/tools/cache"

	"github.com/go-lw/lw/clientgo"
	"github.com/go-lw/lw/internal/verify/rig"
)

// A podFactory is what these tests need of a factory, whatever informer-gen it was made by.
type podFactory interface {
	InformerFor(runtime.Object, func(kubernetes.Interface, time.Duration) cache.SharedIndexInformer) cache.SharedIndexInformer
	Start(stop <-chan struct{})
	WaitForCacheSync(stop <-chan struct{}) map[reflect.Type]bool
	Shutdown()
}

// generated is a factory of the informer-gen of today.
type generated struct {
	informers.SharedInformerFactory
}

func (g generated) InformerFor(obj runtime.Object, newFunc func(kubernetes.Interface, time.Duration) cache.SharedIndexInformer) cache.SharedIndexInformer {
	return g.SharedInformerFactory.InformerFor(obj, newFunc)
}

// older is a factory as informer-gen made them before client-go v0.26: it does not know the methods
// with a context, and waits by HasSynced.
type older struct {
	client kubernetes.Interface
	//lint:ignore U1000 UseAll reads it
	namespace string
	//lint:ignore U1000 UseAll reads it
	tweakListOptions func(*metav1.ListOptions)

	mu        sync.Mutex
	informers map[reflect.Type]cache.SharedIndexInformer
	started   map[reflect.Type]bool
	running   sync.WaitGroup
}

func (f *older) InformerFor(obj runtime.Object, newFunc func(kubernetes.Interface, time.Duration) cache.SharedIndexInformer) cache.SharedIndexInformer {
	f.mu.Lock()
	defer f.mu.Unlock()
	t := reflect.TypeOf(obj)
	if _, ok := f.informers[t]; !ok {
		f.informers[t] = newFunc(f.client, 0)
	}
	return f.informers[t]
}

func (f *older) Start(stop <-chan struct{}) {
	f.mu.Lock()
	defer f.mu.Unlock()
	for t, inf := range f.informers {
		if !f.started[t] {
			f.started[t] = true
			f.running.Go(func() { inf.Run(stop) })
		}
	}
}

func (f *older) WaitForCacheSync(stop <-chan struct{}) map[reflect.Type]bool {
	f.mu.Lock()
	started := map[reflect.Type]cache.SharedIndexInformer{}
	for t := range f.started {
		started[t] = f.informers[t]
	}
	f.mu.Unlock()
	synced := map[reflect.Type]bool{}
	for t, inf := range started {
		synced[t] = cache.WaitForCacheSync(stop, inf.HasSynced)
	}
	return synced
}

func (f *older) Shutdown() { f.running.Wait() }

// podFactories make the same factory of the two generations, of client-go's informers or of lw's.
var podFactories = map[string]func(client kubernetes.Interface, useAll bool) podFactory{
	"generated": func(client kubernetes.Interface, useAll bool) podFactory {
		f := informers.NewSharedInformerFactory(client, 0)
		if useAll {
			clientgo.UseAll(f, nil)
		}
		return generated{f}
	},
	"older": func(client kubernetes.Interface, useAll bool) podFactory {
		f := &older{client: client, informers: map[reflect.Type]cache.SharedIndexInformer{}, started: map[reflect.Type]bool{}}
		if useAll {
			clientgo.UseAll(f, nil)
		}
		return f
	},
}

func podsOf(f podFactory) cache.SharedIndexInformer {
	return f.InformerFor(&corev1.Pod{}, func(client kubernetes.Interface, resync time.Duration) cache.SharedIndexInformer {
		return coreinformers.NewPodInformer(client, "", resync, cache.Indexers{cache.NamespaceIndex: cache.MetaNamespaceIndexFunc})
	})
}

// waits are what programs wait with. Nil channels and a context without an end wait for ever.
var waits = map[string]func(ctx context.Context, f podFactory, inf cache.SharedIndexInformer) bool{
	"HasSynced": func(ctx context.Context, _ podFactory, inf cache.SharedIndexInformer) bool {
		return cache.WaitForCacheSync(ctx.Done(), inf.HasSynced)
	},
	"HasSyncedChecker": func(ctx context.Context, _ podFactory, inf cache.SharedIndexInformer) bool {
		return cache.WaitFor(ctx, "", inf.HasSyncedChecker())
	},
	"WaitForCacheSync": func(ctx context.Context, f podFactory, _ cache.SharedIndexInformer) bool {
		return f.WaitForCacheSync(ctx.Done())[reflect.TypeFor[*corev1.Pod]()]
	},
	"WaitForCacheSync twice": func(ctx context.Context, f podFactory, inf cache.SharedIndexInformer) bool {
		f.WaitForCacheSync(ctx.Done())
		inf.GetStore()
		return f.WaitForCacheSync(ctx.Done())[reflect.TypeFor[*corev1.Pod]()]
	},
	"WaitForCacheSyncWithContext": func(ctx context.Context, f podFactory, _ cache.SharedIndexInformer) bool {
		if g, ok := f.(generated); ok {
			return g.WaitForCacheSyncWithContext(ctx).AsError() == nil
		}
		return f.WaitForCacheSync(ctx.Done())[reflect.TypeFor[*corev1.Pod]()]
	},
	"Start twice": func(ctx context.Context, f podFactory, _ cache.SharedIndexInformer) bool {
		f.Start(ctx.Done())
		return f.WaitForCacheSync(ctx.Done())[reflect.TypeFor[*corev1.Pod]()]
	},
}

// uses are all ways to read an informer that has synced.
var uses = map[string]func(inf cache.SharedIndexInformer) any{
	"HasSynced": func(inf cache.SharedIndexInformer) any { return inf.HasSynced() },
	"HasSyncedChecker": func(inf cache.SharedIndexInformer) any {
		return cache.WaitFor(context.Background(), "", inf.HasSyncedChecker())
	},
	"LastSyncResourceVersion": func(inf cache.SharedIndexInformer) any { return inf.LastSyncResourceVersion() != "" },
	"List":                    func(inf cache.SharedIndexInformer) any { return len(inf.GetStore().List()) },
	"ListKeys":                func(inf cache.SharedIndexInformer) any { return inf.GetStore().ListKeys() },
	"Get": func(inf cache.SharedIndexInformer) any {
		_, ok, err := inf.GetStore().Get(pod("shop", "web"))
		return fmt.Sprint(ok, err)
	},
	"GetByKey": func(inf cache.SharedIndexInformer) any {
		_, ok, err := inf.GetStore().GetByKey("shop/web")
		return fmt.Sprint(ok, err)
	},
	"LastStoreSyncResourceVersion": func(inf cache.SharedIndexInformer) any {
		return inf.GetStore().LastStoreSyncResourceVersion() != ""
	},
	"Index": func(inf cache.SharedIndexInformer) any {
		got, err := inf.GetIndexer().Index(cache.NamespaceIndex, pod("shop", ""))
		return fmt.Sprint(len(got), err)
	},
	"ByIndex": func(inf cache.SharedIndexInformer) any {
		got, err := inf.GetIndexer().ByIndex(cache.NamespaceIndex, "shop")
		return fmt.Sprint(len(got), err)
	},
	"IndexKeys": func(inf cache.SharedIndexInformer) any {
		return fmt.Sprint(inf.GetIndexer().IndexKeys(cache.NamespaceIndex, "shop"))
	},
	"ListIndexFuncValues": func(inf cache.SharedIndexInformer) any {
		return inf.GetIndexer().ListIndexFuncValues(cache.NamespaceIndex)
	},
	"Lister": func(inf cache.SharedIndexInformer) any {
		all, err := corelisters.NewPodLister(inf.GetIndexer()).List(labels.Everything())
		one, errOne := corelisters.NewPodLister(inf.GetIndexer()).Pods("shop").Get("web")
		return fmt.Sprint(len(all), err, one.GetName(), errOne)
	},
	"AddEventHandler": func(inf cache.SharedIndexInformer) any {
		var told calls
		reg, err := inf.AddEventHandler(cache.ResourceEventHandlerFuncs{AddFunc: func(obj any) { told.note("%s", obj.(*corev1.Pod).Name) }})
		return fmt.Sprint(err, cache.WaitFor(context.Background(), "", reg.HasSyncedChecker()), told.lines)
	},
}

// A program asks for an informer, starts the factory, waits in one of many ways and only then does
// something with the informer. With UseAll it sees what it sees with client-go, and HasSynced never
// takes back what it or a wait has said.
func TestUseAllAfterAWait(t *testing.T) {
	for generation, newFactory := range podFactories {
		for wait, waitFor := range waits {
			t.Run(generation+"/"+wait, func(t *testing.T) {
				for use, read := range uses {
					var want any
					for _, useAll := range []bool{false, true} {
						synctest.Test(t, func(t *testing.T) {
							client := fake.NewClientset(pod("shop", "web"))
							client.PrependReactor("list", "pods", func(clienttesting.Action) (bool, runtime.Object, error) {
								time.Sleep(3 * time.Second)
								return false, nil, nil
							})
							f := newFactory(client, useAll)
							inf := podsOf(f)
							ctx, cancel := context.WithCancel(t.Context())
							defer f.Shutdown()
							defer cancel()
							f.Start(ctx.Done())
							what := fmt.Sprintf("UseAll %t, %s: ", useAll, use)
							rig.Same(t, what+"the wait ends well", true, waitFor(ctx, f, inf))
							if got := read(inf); useAll {
								rig.Same(t, what+"client-go and lw", want, got)
							} else {
								want = got
							}
							rig.Same(t, what+"HasSynced after the wait", true, inf.HasSynced())
							for _, a := range client.Actions() {
								rig.Same(t, what+"a request", "pods", a.GetResource().Resource)
							}
						})
					}
				}
			})
		}
	}
}

// failLists has client fail to list pods.
func failLists(client *fake.Clientset, err error) {
	client.PrependReactor("list", "pods", func(clienttesting.Action) (bool, runtime.Object, error) { return true, nil, err })
}

// Before the factory runs an informer is as empty as client-go's, and a test may fill it.
func TestUseAllBeforeTheStart(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		client := fake.NewClientset(pod("shop", "web"))
		for _, useAll := range []bool{false, true} {
			f := podFactories["generated"](client, useAll)
			inf := podsOf(f)
			if inf.HasSynced() || isClosed(inf.HasSyncedChecker().Done()) || len(inf.GetStore().List()) != 0 {
				t.Errorf("UseAll %t: it has synced before it runs", useAll)
			}
			rig.OK(t, inf.GetStore().Add(pod("test", "fixture")))
			rig.Same(t, "it has", []string{"test/fixture"}, inf.GetStore().ListKeys())
		}
	})
}

// An informer whose server refuses has not synced, whatever a wait of the factory was promised
// before anybody wanted it. Its reads wait, and end with it.
func TestUseAllWithoutAnAnswer(t *testing.T) {
	for _, promised := range []bool{false, true} {
		rig.Subtest(t, fmt.Sprintf("promised=%t", promised), func(t *testing.T) {
			handleErrors(t)
			client := fake.NewClientset()
			failLists(client, apierrors.NewForbidden(corev1.Resource("pods"), "", errors.New("no")))
			f := podFactories["generated"](client, true)
			inf := podsOf(f)
			ctx, cancel := context.WithCancel(t.Context())
			defer f.Shutdown() // it reports errors until it has stopped
			defer cancel()
			f.Start(ctx.Done())
			if promised && !f.WaitForCacheSync(ctx.Done())[reflect.TypeFor[*corev1.Pod]()] {
				t.Error("the factory waits for what nobody wants")
			}
			for range 3 {
				rig.Same(t, "HasSynced", false, inf.HasSynced())
			}
			patience, enough := context.WithTimeout(ctx, time.Minute)
			defer enough()
			if cache.WaitFor(patience, "", inf.HasSyncedChecker()) || f.WaitForCacheSync(patience.Done())[reflect.TypeFor[*corev1.Pod]()] != promised {
				t.Error("a wait was told that the informer has synced")
			}
			if !promised {
				return
			}
			done := make(chan struct{})
			go func() {
				defer close(done)
				store := inf.GetIndexer()
				_ = store.List()
				_, _, errGet := store.Get(pod("shop", "web"))
				_, _, errKey := store.GetByKey("shop/web")
				_, errIndex := store.Index(cache.NamespaceIndex, pod("shop", ""))
				_, errBy := store.ByIndex(cache.NamespaceIndex, "shop")
				_, errKeys := store.IndexKeys(cache.NamespaceIndex, "shop")
				for _, err := range []error{errGet, errKey, errIndex, errBy, errKeys} {
					fails(t, err, `^clientgo: \*v1\.Pod: `)
				}
			}()
			time.Sleep(time.Hour)
			rig.Same(t, "a read has not waited", false, isClosed(done))
			cancel()
			f.Shutdown()
			<-done
			if inf.HasSynced() || inf.LastSyncResourceVersion() != "" {
				t.Error("it has synced after its end")
			}
		})
	}
}

// Whoever sets a handler of errors wants the informer whose errors they are.
func TestUseAllWatchErrorHandler(t *testing.T) {
	for name, set := range map[string]func(cache.SharedIndexInformer, func(error)) error{
		"plain": func(inf cache.SharedIndexInformer, to func(error)) error {
			return inf.SetWatchErrorHandler(func(_ *cache.Reflector, err error) { to(err) })
		},
		"with a context": func(inf cache.SharedIndexInformer, to func(error)) error {
			return inf.SetWatchErrorHandlerWithContext(func(_ context.Context, _ *cache.Reflector, err error) { to(err) })
		},
	} {
		rig.Subtest(t, name, func(t *testing.T) {
			client := fake.NewClientset()
			failLists(client, errors.New("no pods"))
			f := podFactories["generated"](client, true)
			var told calls
			rig.OK(t, set(podsOf(f), func(err error) { told.note("%t", strings.Contains(err.Error(), "no pods")) }))
			ctx, cancel := context.WithTimeout(t.Context(), 100*time.Millisecond)
			defer cancel()
			f.Start(ctx.Done())
			f.WaitForCacheSync(ctx.Done())
			f.Shutdown()
			told.want(t, "its errors", "true")
		})
	}
}

// An informer that runs refuses what comes too late, as client-go's does, and takes the rest.
func TestUseAllAfterTheStart(t *testing.T) {
	const started, conflict, stopped = "informer has already started", "indexer conflict", "it has stopped already"
	indexers := cache.Indexers{"late": cache.MetaNamespaceIndexFunc}
	for _, useAll := range []bool{false, true} {
		rig.Subtest(t, fmt.Sprintf("UseAll=%t", useAll), func(t *testing.T) {
			f := podFactories["generated"](fake.NewClientset(pod("shop", "web")), useAll)
			inf := podsOf(f)
			_, err := inf.AddEventHandler(cache.ResourceEventHandlerFuncs{})
			rig.OK(t, err)
			ctx, cancel := context.WithCancel(t.Context())
			f.Start(ctx.Done())
			f.WaitForCacheSync(ctx.Done())
			fails(t, inf.SetWatchErrorHandler(func(*cache.Reflector, error) {}), started)
			fails(t, inf.SetWatchErrorHandler(nil), started)
			fails(t, inf.SetWatchErrorHandlerWithContext(func(context.Context, *cache.Reflector, error) {}), started)
			fails(t, inf.SetWatchErrorHandlerWithContext(nil), started)
			fails(t, inf.SetTransform(func(obj any) (any, error) { return obj, nil }), started)
			rig.OK(t, inf.AddIndexers(indexers))
			fails(t, inf.AddIndexers(indexers), conflict)
			cancel()
			f.Shutdown()
			_, err = inf.AddEventHandler(cache.ResourceEventHandlerFuncs{})
			fails(t, err, stopped)
			fails(t, inf.AddIndexers(cache.Indexers{"later": cache.MetaNamespaceIndexFunc}), stopped)
		})
	}
}

// A wait that runs while another goroutine begins to want the informer is told one thing only.
func TestUseAllWantedDuringAWait(t *testing.T) {
	for range 20 {
		synctest.Test(t, func(t *testing.T) {
			f := podFactories["generated"](fake.NewClientset(pod("shop", "web")), true)
			inf := podsOf(f)
			ctx, cancel := context.WithCancel(t.Context())
			defer f.Shutdown()
			defer cancel()
			var all sync.WaitGroup
			all.Go(func() { f.Start(ctx.Done()) })
			all.Go(func() {
				for _, ok := range f.WaitForCacheSync(ctx.Done()) {
					rig.Same(t, "the wait ends well", true, ok)
				}
			})
			all.Go(func() {
				if !cache.WaitForCacheSync(ctx.Done(), inf.HasSynced) || len(inf.GetStore().List()) != 1 {
					t.Error("HasSynced without the pod")
				}
			})
			all.Wait()
			rig.Same(t, "pods", 1, len(inf.GetStore().List()))
		})
	}
}
