package clientgo_test

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"regexp"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	corev1apply "k8s.io/client-go/applyconfigurations/core/v1"
	"k8s.io/client-go/informers"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/kubernetes/fake"
	"k8s.io/client-go/rest"
	clienttesting "k8s.io/client-go/testing"
	"k8s.io/client-go/tools/cache"
	"k8s.io/client-go/util/workqueue"

	"github.com/go-lw/lw"
	"github.com/go-lw/lw/clientgo"
	"github.com/go-lw/lw/internal/apiserver"
	"github.com/go-lw/lw/internal/verify/rig"
	"github.com/go-lw/lw/lwtest"
)

// What docs/memory.md shows of Pack.
func TestPackPage(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		server, httpClient := served(t, protoPods)
		rig.Must[apiserver.Object](t)(server.Collection("pods").Create(pod("default", "a")))
		const url = "http://server/api/v1/pods"
		key, used := lw.Key{Namespace: "default", Name: "a"}, ""
		use := func(p *corev1.Pod) { used += p.Name }
		src := lw.Pack(&lw.HTTP[*corev1.Pod]{URL: url, Client: httpClient}, lw.PackOptions{})
		pods := lw.NewInformer(src, nil) // an Informer[*lw.Packed[*corev1.Pod]]
		rig.Start(t, pods)
		rig.OK(t, pods.WaitForSync(t.Context()))
		if p, ok := pods.Store().Get(key); ok {
			use(p.Open())
		}
		if used != "a" {
			t.Errorf("used is %q", used)
		}
	})
}

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
		rig.Same(t, "the lister gets", "web", rig.Must[*corev1.Pod](t)(lister.Pods("default").Get("web")).Name)
		rig.Same(t, "lw's own informer has", []string{"web"}, names(pods.Store().List()))
	})
	synctest.Test(t, func(t *testing.T) {
		listerWatcher := listerWatcher(fake.NewClientset(pod("default", "web")))
		pods := clientgo.NewInformer(listerWatcher, &corev1.Pod{}, 0, cache.Indexers{})

		go pods.RunWithContext(t.Context())
		cache.WaitFor(t.Context(), "", pods.HasSyncedChecker())
		rig.Same(t, "the store has", []string{"default/web"}, pods.GetStore().ListKeys())
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
		pods := rig.Must[*corev1.PodList](t)(client.CoreV1().Pods("").List(t.Context(), metav1.ListOptions{}))
		rig.Same(t, "pods", 1, len(pods.Items))
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
			return err // "lw: Pod: not synced (…): list (failure 5 in a row): FromClient: Pod: pods is forbidden: …: context deadline exceeded"
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
				want := regexp.MustCompile(`^lw: Pod: not synced \(.*\): (list|stream) \(failure \d+ in a row\): FromClient: Pod: pods is forbidden: .*no role.*: context deadline exceeded$`)
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

// started runs an informer of objs, and returns it when it has synced.
func started[T lw.Object](t *testing.T, objs ...T) *lw.Informer[T] {
	return synced(t, lw.Source[T](lw.NewMemory(objs...)), nil)
}

// taken returns what waits in queue.
func taken(queue workqueue.TypedRateLimitingInterface[lw.Key]) (keys []string) {
	synctest.Wait()
	for queue.Len() > 0 {
		key, _ := queue.Get()
		keys = append(keys, key.Name)
		queue.Done(key)
	}
	slices.Sort(keys)
	return keys
}

func recipeQueue() workqueue.TypedRateLimitingInterface[lw.Key] {
	return workqueue.NewTypedRateLimitingQueue(workqueue.DefaultTypedControllerRateLimiter[lw.Key]())
}

// configMap returns a config map with annotations, or nil for labels of the same.
func configMap(name string, about map[string]string) *corev1.ConfigMap {
	return &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{
		Namespace: "default", Name: name, UID: types.UID("uid-" + name), Labels: about, Annotations: about,
	}}
}

// done returns what was asked of a fake client.
func done(client *fake.Clientset) (verbs []string) {
	for _, a := range client.Actions() {
		text := a.GetVerb()
		if d, ok := a.(clienttesting.DeleteAction); ok {
			text += " " + d.GetName()
		}
		verbs = append(verbs, text)
	}
	return verbs
}

// What docs/start.md shows of relations.
func TestRecipeRelations(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		a, b, c := pod("default", "a"), pod("default", "b"), pod("default", "c")
		a.Spec.NodeName, b.Spec.NodeName, c.Spec.NodeName = "node-1", "node-2", "node-1"
		pods, queue := started(t, a, b, c), recipeQueue()
		defer queue.ShutDown()
		nodes := lw.NewInformer(lw.NewMemory(&corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: "node-1"}}), nil)
		byNode := lw.NewIndex(pods, func(p *corev1.Pod) string { return p.Spec.NodeName })
		nodes.AddHandler(clientgo.EnqueueMapped(queue, func(n *corev1.Node) iter.Seq[lw.Key] {
			return func(yield func(lw.Key) bool) {
				for p := range byNode.Lookup(n.Name) {
					if !yield(lw.KeyOf(p)) {
						return
					}
				}
			}
		}))
		go nodes.Run(t.Context())
		rig.Same(t, "", []string{"a", "c"}, taken(queue))
	})
}

// What docs/start.md shows of owners.
func TestRecipeOwners(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		set, yes := &metav1.ObjectMeta{Name: "web", UID: "uid-web"}, true
		web := pod("default", "web-x7k2p")
		web.OwnerReferences = []metav1.OwnerReference{{APIVersion: "apps/v1", Kind: "ReplicaSet", Name: set.Name, UID: set.UID, Controller: &yes}}
		pods, queue := started(t, web, pod("default", "alone")), recipeQueue()
		defer queue.ShutDown()
		pods.AddHandler(clientgo.EnqueueOwner[*corev1.Pod](queue, schema.GroupKind{Group: "apps", Kind: "ReplicaSet"}))
		ownedBy := lw.NewIndex(pods, func(p *corev1.Pod) types.UID {
			if owner := metav1.GetControllerOf(p); owner != nil {
				return owner.UID
			}
			return ""
		})
		mine := ownedBy.List(set.UID)
		rig.Same(t, "keys", []string{"web"}, taken(queue))
		rig.Same(t, "pods of the set", []string{web.Name}, names(mine))
	})
}

// What docs/start.md shows of finalizers.
func TestRecipeFinalizers(t *testing.T) {
	const finalizer = "example.dev/bucket"
	ctx := t.Context()
	var cleaned []string
	cleanUp := func(_ context.Context, c *corev1.ConfigMap) error {
		cleaned = append(cleaned, c.Name)
		return nil
	}
	clientset := fake.NewClientset(configMap("web", nil))
	client := clientset.CoreV1().ConfigMaps("default")
	reconcile := func(site *corev1.ConfigMap) error {
		has := slices.Contains(site.Finalizers, finalizer)
		switch site = site.DeepCopy(); { // the one of the store is not to be changed
		case site.DeletionTimestamp == nil && !has: // before anything is made that has to be cleaned up
			site.Finalizers = append(site.Finalizers, finalizer)
		case site.DeletionTimestamp != nil && has:
			if err := cleanUp(ctx, site); err != nil {
				return err
			}
			site.Finalizers = slices.DeleteFunc(site.Finalizers, func(f string) bool { return f == finalizer })
		default:
			return nil
		}
		_, err := client.Update(ctx, site, metav1.UpdateOptions{}) // a conflict is tried again by the queue
		return err
	}
	stored := func() *corev1.ConfigMap {
		return rig.Must[*corev1.ConfigMap](t)(client.Get(ctx, "web", metav1.GetOptions{}))
	}
	for range 2 {
		rig.OK(t, reconcile(stored()))
	}
	site := stored()
	rig.Same(t, "finalizers", []string{finalizer}, site.Finalizers)
	rig.Same(t, "cleaned", nil, cleaned)
	now := metav1.Now()
	site.DeletionTimestamp = &now
	rig.OK(t, reconcile(site))
	rig.Same(t, "cleaned", []string{"web"}, cleaned)
	rig.Same(t, "finalizers of the object of the store", 1, len(site.Finalizers))
}

// What docs/start.md shows of server-side apply.
func TestRecipeApply(t *testing.T) {
	ctx, server := t.Context(), lw.NewMemory[*corev1.ConfigMap]()
	clientset := fake.NewClientset()
	clientset.PrependReactor("patch", "configmaps", func(a clienttesting.Action) (bool, runtime.Object, error) {
		c, err := server.Create(t.Context(), configMap(a.(clienttesting.PatchAction).GetName(), nil))
		return true, c, err
	})
	client := clientset.CoreV1().ConfigMaps("default")
	configs := lw.NewInformer(server, nil)
	go configs.Run(ctx)
	apply := func() error {
		want := corev1apply.ConfigMap("web", "default").WithData(map[string]string{"index.html": "hello"})
		got, err := client.Apply(ctx, want, metav1.ApplyOptions{FieldManager: "website", Force: true})
		if err != nil {
			return err
		}
		return configs.WaitForResourceVersion(ctx, got.ResourceVersion) // what is read from here on has it
	}
	rig.OK(t, apply())
	rig.Same(t, "the store has", []string{"web"}, names(configs.Store().List()))
}

// What docs/start.md shows of garbage.
func TestRecipeGarbage(t *testing.T) {
	ctx := t.Context()
	of := func(site string) map[string]string { return map[string]string{"example.dev/site": site} }
	sites := started(t, configMap("web", nil))
	pages := started(t, configMap("web-1", of("web")), configMap("old-1", of("old")), configMap("theirs", nil))
	clientset := fake.NewClientset(configMap("web-1", of("web")), configMap("old-1", of("old")), configMap("theirs", nil))
	client := clientset.CoreV1()
	clean := func() (err error) {
		made := pages.Store().Snapshot()
		if _, err := sites.CatchUp(ctx); err != nil { // a site that was there before its pages is seen now
			return err
		}
		for p := range made.All() {
			site, ours := p.Labels["example.dev/site"]
			if _, wanted := sites.Store().Get(lw.Key{Namespace: p.Namespace, Name: site}); ours && !wanted {
				only := metav1.DeleteOptions{Preconditions: metav1.NewUIDPreconditions(string(p.UID))} // not a new one of this name
				err = errors.Join(err, client.ConfigMaps(p.Namespace).Delete(ctx, p.Name, only))
			}
		}
		return err
	}
	rig.OK(t, clean())
	rig.Same(t, "", []string{"delete old-1"}, done(clientset))
}
