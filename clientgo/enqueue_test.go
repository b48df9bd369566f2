package clientgo_test

import (
	"iter"
	"slices"
	"testing"
	"testing/synctest"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/util/workqueue"

	"github.com/go-lw/lw"
	"github.com/go-lw/lw/clientgo"
	"github.com/go-lw/lw/internal/rig"
)

func owned(p *corev1.Pod, apiVersion, kind, name string, controller bool) *corev1.Pod {
	p = p.DeepCopy()
	p.OwnerReferences = append(p.OwnerReferences, metav1.OwnerReference{APIVersion: apiVersion, Kind: kind, Name: name, UID: "uid", Controller: &controller})
	return p
}

// Each handler adds its keys for what is there, for what is added, changed and deleted; those of
// the old and of the new object.
func TestEnqueue(t *testing.T) {
	replicaSet := schema.GroupKind{Group: "apps", Kind: "ReplicaSet"}
	key := func(name string) lw.Key { return lw.Key{Namespace: "ns", Name: name} }
	const apps = "apps/v1"
	for name, tc := range map[string]struct {
		handler func(clientgo.Queue[lw.Key]) lw.Handler[*corev1.Pod]
		pods    []*corev1.Pod // the versions of one pod; nil: deleted
		want    []lw.Key      // of all versions, in order
	}{
		"keys": {clientgo.Enqueue[*corev1.Pod], []*corev1.Pod{labelled("a"), labelled("a", "v=1"), nil}, []lw.Key{key("a"), key("a"), key("a")}},
		"owners": {
			func(q clientgo.Queue[lw.Key]) lw.Handler[*corev1.Pod] {
				return clientgo.EnqueueOwner[*corev1.Pod](q, replicaSet)
			},
			[]*corev1.Pod{
				labelled("a"), owned(labelled("a"), apps, "ReplicaSet", "x", true), owned(labelled("a"), "apps/v2beta1", "ReplicaSet", "y", true), nil,
			},
			[]lw.Key{key("x"), key("x"), key("y"), key("y")},
		},
		"no owners": {
			func(q clientgo.Queue[lw.Key]) lw.Handler[*corev1.Pod] {
				return clientgo.EnqueueOwner[*corev1.Pod](q, replicaSet)
			},
			[]*corev1.Pod{
				owned(labelled("a"), apps, "ReplicaSet", "x", false), owned(labelled("a"), "other/v1", "ReplicaSet", "x", true),
				owned(labelled("a"), apps, "Deployment", "x", true), owned(labelled("a"), "a/b/c", "ReplicaSet", "x", true), nil,
			}, nil,
		},
		"no owners of a group without a name": {
			func(q clientgo.Queue[lw.Key]) lw.Handler[*corev1.Pod] {
				return clientgo.EnqueueOwner[*corev1.Pod](q, schema.GroupKind{Kind: "Node"})
			},
			[]*corev1.Pod{
				owned(labelled("a"), "v1", "Node", "x", true), owned(labelled("a"), "a/b/c", "Node", "y", true), nil,
			}, []lw.Key{key("x"), key("x")},
		},
		"mapped": {
			func(q clientgo.Queue[lw.Key]) lw.Handler[*corev1.Pod] {
				return clientgo.EnqueueMapped(q, func(p *corev1.Pod) iter.Seq[lw.Key] {
					if len(p.Labels) == 0 {
						return nil
					}
					return func(yield func(lw.Key) bool) {
						for k, v := range p.Labels {
							if !yield(key(k + v)) {
								return
							}
						}
					}
				})
			},
			[]*corev1.Pod{labelled("a", "x=1"), labelled("a", "x=2"), labelled("a"), nil}, []lw.Key{key("x1"), key("x1"), key("x2"), key("x2")},
		},
	} {
		rig.Subtest(t, name, func(t *testing.T) {
			server := lw.NewMemory(tc.pods[0])
			inf := lw.NewInformer(server, &lw.Options{OnError: func(err error) { t.Error(err) }})
			queue := make(keys, 10)
			inf.AddHandler(tc.handler(queue))
			rig.Start(t, inf)
			for _, p := range tc.pods[1:] {
				synctest.Wait()
				var err error
				if p == nil {
					_, err = server.Delete(t.Context(), key("a"), "")
				} else {
					_, err = server.Update(t.Context(), p)
				}
				rig.OK(t, err)
			}
			synctest.Wait()
			close(queue)
			rig.Same(t, "keys", tc.want, slices.Collect(func(yield func(lw.Key) bool) {
				for k := range queue {
					yield(k)
				}
			}))
		})
	}
}

// A resync adds each key once.
func TestEnqueueResync(t *testing.T) {
	queue := make(keys, 10)
	p := owned(labelled("a", "x=1"), "apps/v1", "ReplicaSet", "set", true)
	clientgo.Enqueue[*corev1.Pod](queue).Update(p, p)
	clientgo.EnqueueOwner[*corev1.Pod](queue, schema.GroupKind{Group: "apps", Kind: "ReplicaSet"}).Update(p, p)
	if got := len(queue); got != 2 {
		t.Errorf("%d keys, want 2", got)
	}
}

// That this compiles is the test: the queues of client-go fit, whatever their items are.
var (
	_ = func(q workqueue.TypedRateLimitingInterface[lw.Key]) lw.Handler[*appsv1.Deployment] {
		return clientgo.Enqueue[*appsv1.Deployment](q)
	}
	_ = func(q workqueue.TypedInterface[string]) lw.Handler[*corev1.Pod] {
		return clientgo.EnqueueMapped(q, func(p *corev1.Pod) iter.Seq[string] {
			return func(yield func(string) bool) { yield(p.Spec.NodeName) }
		})
	}
)
