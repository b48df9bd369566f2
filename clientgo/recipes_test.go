package clientgo_test

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"slices"
	"testing"
	"testing/synctest"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	corev1apply "k8s.io/client-go/applyconfigurations/core/v1"
	"k8s.io/client-go/kubernetes/fake"
	clienttesting "k8s.io/client-go/testing"
	"k8s.io/client-go/util/workqueue"

	"github.com/go-lw/lw"
	"github.com/go-lw/lw/clientgo"
	"github.com/go-lw/lw/internal/rig"
)

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
		if diff := cmp.Diff([]string{"web"}, taken(queue)); diff != "" || len(mine) != 1 || mine[0].Name != web.Name {
			t.Error(diff, mine)
		}
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
		site := rig.Must[*corev1.ConfigMap](t)(client.Get(ctx, "web", metav1.GetOptions{}))
		return site
	}
	for range 2 {
		rig.OK(t, reconcile(stored()))
	}
	site := stored()
	if diff := cmp.Diff([]string{finalizer}, site.Finalizers); diff != "" || cleaned != nil {
		t.Error(diff, cleaned)
	}
	now := metav1.Now()
	site.DeletionTimestamp = &now
	rig.OK(t, reconcile(site))
	if diff := cmp.Diff([]string{"web"}, cleaned); diff != "" || len(site.Finalizers) != 1 {
		t.Error(diff, site.Finalizers)
	}
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
	if _, ok := configs.Store().Get(lw.Key{Namespace: "default", Name: "web"}); !ok {
		t.Error("what was applied is not in the store")
	}
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

// What docs/start.md shows of upgrades.
func TestRecipeUpgrades(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const current = "v3"
		by := func(version string) map[string]string { return map[string]string{"example.dev/made-by": version} }
		pages := started(t, configMap("a", by("v1")), configMap("b", by(current)), configMap("c", by("v2")))
		queue := recipeQueue()
		defer queue.ShutDown()
		madeBy := lw.NewIndex(pages, func(p *corev1.ConfigMap) string { return p.Annotations["example.dev/made-by"] })
		for version := range madeBy.Keys() {
			if version != current {
				for p := range madeBy.Lookup(version) {
					queue.Add(lw.KeyOf(p))
				}
			}
		}
		rig.Same(t, "", []string{"a", "c"}, taken(queue))
		if left := fmt.Sprint(madeBy.Len("v1")+madeBy.Len("v2"), " of ", pages.Store().Len()); left != "2 of 3" {
			t.Error(left)
		}
	})
}
