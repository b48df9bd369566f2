package clientgo_test

import (
	"context"
	"fmt"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	networkingv1 "k8s.io/api/networking/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/informers"
	coreinformers "k8s.io/client-go/informers/core/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/kubernetes/fake"
	clienttesting "k8s.io/client-go/testing"
	"k8s.io/client-go/tools/cache"

	"github.com/go-lw/lw/clientgo"
	"github.com/go-lw/lw/internal/rig"
)

// requests notes which resources a fake is asked to list, and where.
func requests(client *fake.Clientset) func() map[string]bool {
	var mu sync.Mutex
	asked := map[string]bool{}
	client.PrependReactor("list", "*", func(a clienttesting.Action) (bool, runtime.Object, error) {
		mu.Lock()
		defer mu.Unlock()
		l := a.(clienttesting.ListAction).GetListRestrictions()
		asked[strings.TrimSuffix(a.GetResource().Resource+" "+a.GetNamespace()+" "+l.Labels.String(), " ")] = true
		return false, nil, nil
	})
	return func() map[string]bool {
		mu.Lock()
		defer mu.Unlock()
		return asked
	}
}

// All informers of the factory are lw's. Those that nobody wants make no request, and hold up nobody.
func TestUseAll(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		client := fake.NewClientset(pod("shop", "web"), pod("other", "dns"), &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: "n"}})
		asked := requests(client)
		tweak := func(o *metav1.ListOptions) { o.LabelSelector = "!hidden" }
		factory := informers.NewSharedInformerFactoryWithOptions(client, 0,
			informers.WithNamespace("shop"), informers.WithTweakListOptions(tweak), informers.WithTransform(func(obj any) (any, error) {
				if p, ok := obj.(*corev1.Pod); ok {
					p = p.DeepCopy()
					p.Spec.NodeName = "transformed"
					return p, nil
				}
				return obj, nil
			}))
		clientgo.UseAll(factory, &clientgo.FactoryOptions{TweakListOptions: tweak})
		pods := factory.Core().V1().Pods().Lister()
		var told calls
		rig.Must[cache.ResourceEventHandlerRegistration](t)(factory.Core().V1().Nodes().Informer().AddEventHandler(cache.ResourceEventHandlerFuncs{
			AddFunc: func(obj any) { told.note("node %s", obj.(*corev1.Node).Name) },
		}))
		for _, obj := range []runtime.Object{&corev1.Pod{}, &corev1.Secret{}, &appsv1.Deployment{}, &networkingv1.Ingress{}, &rbacv1.ClusterRole{}} {
			if inf := factory.InformerFor(obj, nil); inf == nil {
				t.Errorf("no informer of %T", obj)
			} else if _, ok := clientgo.Status(inf); !ok {
				t.Errorf("the informer of %T is not of lw", obj)
			}
		}
		ctx, cancel := context.WithCancel(t.Context())
		factory.StartWithContext(ctx)
		synced := factory.WaitForCacheSync(ctx.Done())
		if len(synced) < 50 {
			t.Errorf("%d informers", len(synced))
		}
		for of, ok := range synced {
			if !ok {
				t.Errorf("%v has not synced", of)
			}
		}
		told.want(t, "nodes", "node n")
		all, err := pods.List(labels.Everything())
		if err != nil || len(all) != 1 || all[0].Spec.NodeName != "transformed" {
			t.Errorf("pods %v %v", all, err)
		}
		if got := fmt.Sprint(asked()); got != "map[nodes  !hidden:true pods shop !hidden:true]" {
			t.Errorf("requests %s", got)
		}
		// One more is wanted later, and needs no second Start.
		secrets := factory.Core().V1().Secrets()
		_ = secrets.Lister()
		if !cache.WaitForCacheSync(ctx.Done(), secrets.Informer().HasSynced) {
			t.Error("secrets have not synced")
		}
		if got := len(asked()); got != 3 {
			t.Errorf("requests %v", asked())
		}
		cancel()
		factory.Shutdown()
		for _, inf := range []cache.SharedIndexInformer{factory.Core().V1().Pods().Informer(), factory.Core().V1().Events().Informer()} {
			if !inf.IsStopped() {
				t.Error("an informer has not stopped")
			}
		}
	})
}

// What would list other objects than the factory's is refused.
func TestUseAllRefuses(t *testing.T) {
	client := fake.NewClientset()
	panics := func(want string, f func()) {
		t.Helper()
		defer func() {
			if got := fmt.Sprint(recover()); !strings.Contains(got, want) {
				t.Errorf("panic %q, want %q", got, want)
			}
		}()
		f()
	}
	panics("has list options", func() {
		clientgo.UseAll(informers.NewSharedInformerFactoryWithOptions(client, 0, informers.WithTweakListOptions(func(*metav1.ListOptions) {})), nil)
	})
	panics("already", func() {
		factory := informers.NewSharedInformerFactory(client, 0)
		factory.Core().V1().Pods().Informer()
		clientgo.UseAll(factory, nil)
	})
	panics("*v1.Pod already", func() {
		factory := informers.NewSharedInformerFactory(client, 0)
		factory.Core().V1().Pods().Informer()
		clientgo.UseAll(factory, &clientgo.FactoryOptions{Except: []runtime.Object{&corev1.Node{}}})
	})
	panics("*v1.PodList", func() {
		clientgo.UseAll(informers.NewSharedInformerFactory(client, 0), &clientgo.FactoryOptions{Except: []runtime.Object{&corev1.PodList{}}})
	})
	panics("<nil>", func() {
		clientgo.UseAll(informers.NewSharedInformerFactory(client, 0), &clientgo.FactoryOptions{Except: []runtime.Object{nil}})
	})
	panics("no generated factory", func() { clientgo.UseAll(otherFactory{}, nil) })
}

// A type of FactoryOptions.Except is client-go's, or what the program makes it, whether its informer
// is there before UseAll or comes later. The other types are lw's.
func TestUseAllExcept(t *testing.T) {
	for _, before := range []bool{true, false} {
		synctest.Test(t, func(t *testing.T) {
			client := fake.NewClientset(pod("shop", "web"), pod("other", "dns"))
			asked := requests(client)
			factory := informers.NewSharedInformerFactory(client, 0)
			calls := 0
			own := func() cache.SharedIndexInformer {
				return factory.InformerFor(&corev1.Pod{}, func(client kubernetes.Interface, resync time.Duration) cache.SharedIndexInformer {
					calls++
					return coreinformers.NewFilteredPodInformer(client, "shop", resync, cache.Indexers{}, func(o *metav1.ListOptions) { o.LabelSelector = "!done" })
				})
			}
			if before {
				own()
			}
			clientgo.UseAll(factory, &clientgo.FactoryOptions{Except: []runtime.Object{&corev1.Pod{}, &corev1.Secret{}}})
			pods, secrets := own(), factory.Core().V1().Secrets()
			for obj, want := range map[runtime.Object]bool{&corev1.Pod{}: false, &corev1.Secret{}: false, &corev1.Node{}: true} {
				_ = secrets.Lister()
				if _, got := clientgo.Status(factory.InformerFor(obj, nil)); got != want {
					t.Errorf("the informer of %T is lw's: %t", obj, got)
				}
			}
			ctx, cancel := context.WithCancel(t.Context())
			factory.StartWithContext(ctx)
			factory.WaitForCacheSync(ctx.Done())
			if got := pods.GetStore().ListKeys(); calls != 1 || fmt.Sprint(got) != "[shop/web]" {
				t.Errorf("before %t: the function is called %d times, and has %q", before, calls, got)
			}
			if diff := cmp.Diff(map[string]bool{"pods shop !done": true, "secrets ": true}, asked()); diff != "" {
				t.Errorf("before %t: requests (-want +got):\n%s", before, diff)
			}
			cancel()
			factory.Shutdown()
		})
	}
}

type otherFactory struct{}

func (otherFactory) InformerFor(runtime.Object, func(kubernetes.Interface, time.Duration) cache.SharedIndexInformer) cache.SharedIndexInformer {
	return nil
}

// All informers and listers of a program are lw's, by one line.
func ExampleUseAll() {
	clientset := fake.NewClientset(pod("default", "web"))

	factory := informers.NewSharedInformerFactory(clientset, 0)
	clientgo.UseAll(factory, nil)

	lister := factory.Core().V1().Pods().Lister()
	ctx, cancel := context.WithCancel(context.Background())
	defer factory.Shutdown()
	defer cancel()
	factory.StartWithContext(ctx)
	factory.WaitForCacheSync(ctx.Done())
	p, err := lister.Pods("default").Get("web")
	fmt.Println(p.Name, err)
	// Output: web <nil>
}
