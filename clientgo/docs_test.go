package clientgo_test

import (
	"context"
	"errors"
	"fmt"
	"regexp"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/informers"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/kubernetes/fake"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/cache"
	"k8s.io/client-go/util/workqueue"

	"github.com/go-lw/lw"
	"github.com/go-lw/lw/clientgo"
	"github.com/go-lw/lw/internal/apiserver"
	"github.com/go-lw/lw/internal/rig"
	"github.com/go-lw/lw/lwtest"
)

// What docs/memory.md keeps of a pod, by a podPlace and by a function.
func TestMemoryPage(t *testing.T) {
	type place struct {
		lw.Meta
		Node string
	}
	synctest.Test(t, func(t *testing.T) {
		server, client := served(t, protoPods)
		p := pod("default", "a")
		p.Spec.NodeName, p.Status = "n1", corev1.PodStatus{PodIP: "10.0.0.1", Phase: corev1.PodRunning}
		rig.Must[apiserver.Object](t)(server.Collection("pods").Create(p))
		const url = "http://server/api/v1/pods"
		type podPlace struct {
			lw.Meta `json:"metadata" protobuf:"bytes,1,opt,name=metadata"`
			Spec    struct {
				NodeName string `json:"nodeName" protobuf:"bytes,10,opt,name=nodeName"`
			} `json:"spec" protobuf:"bytes,2,opt,name=spec"`
			Status struct {
				Phase corev1.PodPhase `json:"phase" protobuf:"bytes,1,opt,name=phase"`
				PodIP string          `json:"podIP" protobuf:"bytes,6,opt,name=podIP"`
			} `json:"status" protobuf:"bytes,3,opt,name=status"`
		}
		places := lw.NewInformer(&lw.HTTP[*podPlace]{URL: url, Client: client}, nil)
		lwtest.Projection[*podPlace, *corev1.Pod](t)

		src := lw.Source[*corev1.Pod](&lw.HTTP[*corev1.Pod]{URL: url, Client: client})
		toPlace := func(p *corev1.Pod) (*place, error) {
			return &place{Meta: lw.MetaOf(p), Node: p.Spec.NodeName}, nil
		}
		byNode := lw.NewInformer(lw.Transform(src, toPlace), nil)

		for _, inf := range []lw.AnyInformer{places, byNode} {
			rig.Start(t, inf)
			rig.OK(t, inf.WaitForSync(t.Context()))
		}
		var got []string
		for p := range places.Store().All() {
			got = append(got, lw.KeyOf(p).String(), p.Spec.NodeName, p.Status.PodIP, string(p.Status.Phase))
		}
		for p := range byNode.Store().All() {
			got = append(got, lw.KeyOf(p).String(), p.Node)
		}
		rig.Same(t, "kept", []string{"default/a", "n1", "10.0.0.1", "Running", "default/a", "n1"}, got)
	})
}

// The two ways of docs/migrate.md into client-go's interfaces.
func TestMigrationPage(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		clientset := fake.NewClientset(pod("default", "web"))
		factory := informers.NewSharedInformerFactory(clientset, 0)
		pods := lw.NewInformer(lw.FromClient(clientset.CoreV1().Pods("")), nil)
		clientgo.Use(factory, pods) // before anybody asks the factory for pods
		lister := factory.Core().V1().Pods().Lister()

		factory.StartWithContext(t.Context())
		factory.WaitForCacheSyncWithContext(t.Context())
		if got, err := lister.Pods("default").Get("web"); err != nil || got.Name != "web" {
			t.Errorf("the lister has %v, error %v", got, err)
		}
		if _, ok := pods.Store().Get(lw.Key{Namespace: "default", Name: "web"}); !ok {
			t.Error("lw's own informer does not have it")
		}
	})
	synctest.Test(t, func(t *testing.T) {
		listerWatcher := listerWatcher(fake.NewClientset(pod("default", "web")))
		pods := clientgo.NewInformer(listerWatcher, &corev1.Pod{}, 0, cache.Indexers{})

		go pods.RunWithContext(t.Context())
		cache.WaitFor(t.Context(), "", pods.HasSyncedChecker())
		if got := pods.GetStore().ListKeys(); len(got) != 1 || got[0] != "default/web" {
			t.Errorf("the store has %v", got)
		}
	})
}

// The client of client-go that docs/test.md makes for a server of lwtest.
func TestTestingPage(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		server := lwtest.NewServer(t, lwtest.Resource{Plural: "pods", Kind: "Pod"})
		config := &rest.Config{
			Host: server.URL(), Transport: server.Client().Transport,
			ContentConfig: rest.ContentConfig{ContentType: "application/json"},
		}
		client, err := kubernetes.NewForConfig(config)
		if err != nil {
			t.Fatal(err)
		}
		if _, err := client.CoreV1().Pods("default").Create(t.Context(), pod("default", "a"), metav1.CreateOptions{}); err != nil {
			t.Fatal(err)
		}
		if pods, err := client.CoreV1().Pods("").List(t.Context(), metav1.ListOptions{}); err != nil || len(pods.Items) != 1 {
			t.Errorf("%v, %v", pods, err)
		}
	})
}

// keys is a work queue, as far as a handler sees one.
type keys chan lw.Key

func (k keys) Add(key lw.Key) { k <- key }

// What README.md and docs/start.md begin with, from a clientset to a write that is read; and what
// it returns where the server says no.
func TestREADME(t *testing.T) {
	example := func(ctx context.Context, clientset kubernetes.Interface, queue keys, pod *corev1.Pod) error {
		patience, cancel := context.WithTimeout(ctx, time.Minute)
		defer cancel()
		pods := lw.NewInformer(lw.FromClient(clientset.CoreV1().Pods("")), nil) // every type is inferred
		byNode := lw.NewIndex(pods, func(p *corev1.Pod) string { return p.Spec.NodeName })
		pods.AddHandler(lw.Handler[*corev1.Pod]{
			Add:    func(p *corev1.Pod) { queue.Add(lw.KeyOf(p)) },
			Update: func(old, p *corev1.Pod) { queue.Add(lw.KeyOf(p)) },
			Delete: func(last *corev1.Pod) { queue.Add(lw.KeyOf(last)) }, // never nil, never a tombstone
		})
		go pods.Run(ctx)
		if err := pods.WaitForSync(patience); err != nil {
			return err // "lw: Pod: not synced (…): list (failure 5 in a row): pods is forbidden: …: context deadline exceeded"
		}
		for p := range byNode.Lookup("node-1") {
			fmt.Println(p.Name, p.Status.Phase)
		}
		p, err := clientset.CoreV1().Pods("default").Create(ctx, pod, metav1.CreateOptions{})
		if err != nil {
			return err
		}
		return pods.WaitForResourceVersion(patience, p.ResourceVersion) // read your writes: from here on every read shows it
	}
	for name, refused := range map[string]bool{"as it should": false, "forbidden": true} {
		rig.Subtest(t, name, func(t *testing.T) {
			server, client := served(t, apiserver.Resource{Resource: "pods", Kind: "Pod"})
			if refused {
				refuse(server, "pods")
			}
			queue := make(keys, 10)
			err := example(t.Context(), clientsetOf(t, client), queue, pod("default", "new"))
			synctest.Wait()
			if refused {
				want := regexp.MustCompile(`^lw: Pod: not synced \(.*\): (list|stream) \(failure \d+ in a row\): pods is forbidden: .*no role.*: context deadline exceeded$`)
				if err == nil || !want.MatchString(err.Error()) || !apierrors.IsForbidden(err) || !errors.Is(err, context.DeadlineExceeded) {
					t.Errorf("got  %v\nwant %v", err, want)
				}
				return
			}
			if err != nil || len(queue) != 1 || <-queue != (lw.Key{Namespace: "default", Name: "new"}) {
				t.Errorf("%d keys, error %v", len(queue), err)
			}
		})
	}
}

// The controller of docs/start.md: it reconciles each replica set, also when one of its pods
// changes, and says what it waits for where the server says no.
func TestREADMEController(t *testing.T) {
	example := func(ctx, patience context.Context, clientset kubernetes.Interface, reconcile func(*appsv1.ReplicaSet, []*corev1.Pod)) error {
		replicaSet := schema.GroupKind{Group: "apps", Kind: "ReplicaSet"}
		queue := workqueue.NewTypedRateLimitingQueue(workqueue.DefaultTypedControllerRateLimiter[lw.Key]())
		sets := lw.NewInformer(lw.FromClient(clientset.AppsV1().ReplicaSets("")), nil)
		pods := lw.NewInformer(lw.FromClient(clientset.CoreV1().Pods("")), nil)
		podsOf := lw.NewMultiIndex(pods, lw.OwnerUIDs[*corev1.Pod]) // by the UID of the owner
		sets.AddHandler(clientgo.Enqueue[*appsv1.ReplicaSet](queue))
		pods.AddHandler(clientgo.EnqueueOwner[*corev1.Pod](queue, replicaSet)) // a pod's change concerns its set

		var group lw.Group
		group.Add(sets)
		group.Add(pods)
		go group.Run(ctx) // examples/cluster/controller ends it last, after what is being reconciled
		context.AfterFunc(ctx, queue.ShutDown)
		if err := group.WaitForSync(patience); err != nil {
			return err // says of each informer what it waits for
		}
		for {
			key, stopped := queue.Get()
			if stopped {
				return nil
			}
			if set, ok := sets.Store().Get(key); ok {
				reconcile(set, podsOf.List(set.UID)) // and put the key back if it fails
			}
			queue.Done(key)
		}
	}
	synctest.Test(t, func(t *testing.T) {
		yes := true
		set := &appsv1.ReplicaSet{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "web", UID: "uid-web"}}
		clientset := fake.NewClientset(set)
		ctx, cancel := context.WithCancel(t.Context())
		var got []int
		ended := make(chan error, 1)
		go func() {
			ended <- example(ctx, ctx, clientset, func(_ *appsv1.ReplicaSet, pods []*corev1.Pod) { got = append(got, len(pods)) })
		}()
		synctest.Wait()
		p := pod("default", "web-1")
		p.OwnerReferences = []metav1.OwnerReference{{APIVersion: "apps/v1", Kind: "ReplicaSet", Name: "web", UID: "uid-web", Controller: &yes}}
		rig.Must[*corev1.Pod](t)(clientset.CoreV1().Pods("default").Create(ctx, p, metav1.CreateOptions{}))
		synctest.Wait()
		cancel()
		rig.OK(t, <-ended)
		rig.Same(t, "pods of the set at each reconciliation", []int{0, 1}, got)
	})
	synctest.Test(t, func(t *testing.T) {
		patience, cancel := context.WithTimeout(t.Context(), time.Minute)
		defer cancel()
		clientset := fake.NewClientset()
		failLists(clientset, refusal("pods"))
		err := example(t.Context(), patience, clientset, nil)
		if !apierrors.IsForbidden(err) || !strings.Contains(err.Error(), "lw: Pod: not synced") || strings.Contains(err.Error(), "ReplicaSet") {
			t.Errorf("error %v, want one that names the informer of pods", err)
		}
	})
}
