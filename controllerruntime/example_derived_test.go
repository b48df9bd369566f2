package controllerruntime_test

import (
	"context"
	"fmt"
	"testing"
	"testing/synctest"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller"
	"sigs.k8s.io/controller-runtime/pkg/handler"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"github.com/go-lw/lw"
	"github.com/go-lw/lw/controllerruntime"
	"github.com/go-lw/lw/internal/rig"
)

// An orphan is a pod that no service selects. It has the name of the pod.
type orphan struct{ lw.Meta }

// orphansOf keeps the orphans in step with pods and services.
func orphansOf(g *lw.Graph, pods lw.Collection[*corev1.Pod], services lw.Collection[*corev1.Service]) *lw.Derived[*orphan] {
	return lw.LeftJoin(g, pods, services, lw.On[string, *corev1.Pod, *corev1.Service]{
		Left:  lw.SingleKey((*corev1.Pod).GetNamespace),
		Right: lw.SingleKey((*corev1.Service).GetNamespace),
		Where: func(p *corev1.Pod, s *corev1.Service) bool {
			return len(s.Spec.Selector) > 0 && labels.SelectorFromSet(s.Spec.Selector).Matches(labels.Set(p.Labels))
		},
	}, func(p *corev1.Pod, selecting []*corev1.Service) *orphan {
		if len(selecting) > 0 {
			return nil
		}
		return &orphan{lw.Meta{Namespace: p.Namespace, Name: p.Name, UID: p.UID}}
	})
}

// newOrphanController returns a controller that is asked about a pod when it becomes an orphan, and
// when it is none any more.
func newOrphanController(orphans *lw.Derived[*orphan], told func(pod lw.Key, alone bool)) (controller.Controller, error) {
	c, err := controller.NewUnmanaged("orphans", controller.Options{
		SkipNameValidation: new(true),
		Reconciler: reconcile.Func(func(_ context.Context, r reconcile.Request) (reconcile.Result, error) {
			_, alone := orphans.Store().Get(r.NamespacedName)
			told(r.NamespacedName, alone)
			return reconcile.Result{}, nil
		}),
	})
	if err != nil {
		return nil, err
	}
	enqueue := handler.TypedEnqueueRequestsFromMapFunc(func(_ context.Context, o *orphan) []reconcile.Request {
		return []reconcile.Request{{NamespacedName: lw.KeyOf(o)}}
	})
	return c, c.Watch(controllerruntime.Source(orphans, enqueue))
}

func selecting(name, app string) *corev1.Service {
	return &corev1.Service{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: name}, Spec: corev1.ServiceSpec{Selector: map[string]string{"app": app}}}
}

func appPod(name, app string) *corev1.Pod {
	p := namedPod(name, "n1")
	p.Labels = map[string]string{"app": app}
	return p
}

// A controller watches what a graph derives of two informers: the pods that no service selects. With
// a manager: mgr.Add(controllerruntime.Runnable(pods, services, graph)).
func ExampleSource_derived() {
	pods := lw.NewInformer(lw.NewMemory(appPod("a", "web"), appPod("b", "db")), nil)
	services := lw.NewInformer(lw.NewMemory(selecting("web", "web")), nil)
	graph := lw.NewGraph(nil)
	ctx, cancel := context.WithCancel(context.Background())
	c, err := newOrphanController(orphansOf(graph, pods, services), func(pod lw.Key, alone bool) {
		fmt.Println(pod, alone)
		cancel()
	})
	if err != nil {
		fmt.Println(err)
		return
	}
	if err := controllerruntime.Runnable(pods, services, graph, runner(c.Start)).Start(ctx); err != nil {
		fmt.Println(err)
	}
	// Output: default/b true
}

// The controller of the example learns of each pod that becomes an orphan or stops to be one, whether
// a pod or a service has changed, and of nothing else.
func TestSourceOfADerivedCollection(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		podServer, serviceServer := lw.NewMemory(appPod("a", "web"), appPod("b", "db")), lw.NewMemory(selecting("web", "web"))
		pods, services := lw.NewInformer(podServer, nil), lw.NewInformer(serviceServer, nil)
		graph := lw.NewGraph(nil)
		got := map[string]bool{}
		c := rig.Must[controller.Controller](t)(newOrphanController(orphansOf(graph, pods, services), func(pod lw.Key, alone bool) { got[pod.Name] = alone }))
		runInBubble(t, pods, services, graph, runner(c.Start))
		for _, step := range []struct {
			name string
			do   func() error
			want map[string]bool
		}{
			{"the beginning", func() error { return nil }, map[string]bool{"b": true}},
			{"a service comes", func() error { _, err := serviceServer.Create(t.Context(), selecting("db", "db")); return err }, map[string]bool{"b": false}},
			{"a pod changes, and is selected as before", func() error {
				p := appPod("a", "web")
				p.Spec.NodeName = "n2"
				_, err := podServer.Update(t.Context(), p)
				return err
			}, map[string]bool{}},
			{"a service goes", func() error {
				_, err := serviceServer.Delete(t.Context(), lw.Key{Namespace: "default", Name: "web"}, "")
				return err
			}, map[string]bool{"a": true}},
			{"an orphan goes", func() error {
				_, err := podServer.Delete(t.Context(), lw.Key{Namespace: "default", Name: "a"}, "")
				return err
			}, map[string]bool{"a": false}},
		} {
			rig.OK(t, step.do())
			synctest.Wait()
			if diff := cmp.Diff(step.want, got); diff != "" {
				t.Errorf("%s (-want +got):\n%s", step.name, diff)
			}
			clear(got)
		}
	})
}

// A Reader reads a union as it reads an informer, with its fields, and says at once that nobody runs
// the graph.
func TestReaderOfAUnion(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		one, two := lw.NewInformer(lw.NewMemory(newPod("a", 0), newPod("a", 2)), nil), lw.NewInformer(lw.NewMemory(newPod("b", 2)), nil)
		graph := lw.NewGraph(nil)
		reader := controllerruntime.NewReader(nil)
		rig.OK(t, controllerruntime.Serve(reader, lw.NewUnion(graph, one, two), podFields))
		if err := reader.Get(t.Context(), client.ObjectKey{Namespace: "b", Name: "pod-2"}, &corev1.Pod{}); err == nil {
			t.Error("no error of a read before the graph runs")
		}
		runInBubble(t, one, two, graph)
		var list corev1.PodList
		rig.OK(t, reader.List(t.Context(), &list, client.MatchingFields{"spec.nodeName": "n1"}))
		got := map[string]string{}
		for _, p := range list.Items {
			got[p.Namespace] = p.Name
		}
		if diff := cmp.Diff(map[string]string{"a": "pod-2", "b": "pod-2"}, got); diff != "" {
			t.Error(diff)
		}
	})
}
