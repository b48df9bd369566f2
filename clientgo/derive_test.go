package clientgo_test

import (
	"context"
	"errors"
	"iter"
	"maps"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/client-go/kubernetes"

	"github.com/go-lw/lw"
	"github.com/go-lw/lw/internal/apiserver"
	"github.com/go-lw/lw/internal/verify/rig"
)

// readyPod is a pod of an app on a node, with an address.
func readyPod(name, app, node string) *corev1.Pod {
	p := pod("shop", name)
	p.Labels = map[string]string{"app": app, "tier": "web"}
	p.Spec.NodeName = node
	p.Status = corev1.PodStatus{PodIP: "ip of " + name, Conditions: []corev1.PodCondition{
		{Type: corev1.PodScheduled, Status: corev1.ConditionTrue}, {Type: corev1.PodReady, Status: corev1.ConditionTrue},
	}}
	return p
}

func service(name string) *corev1.Service {
	return &corev1.Service{
		ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: name},
		Spec:       corev1.ServiceSpec{Selector: map[string]string{"app": name, "tier": "web"}},
	}
}

// shop runs do with a minute of patience and the clientset of a server that has two services, and
// two pods of each. It refuses lists of services if refused is true.
func shop(t *testing.T, refused bool, do func(t *testing.T, patience context.Context, clientset kubernetes.Interface)) {
	synctest.Test(t, func(t *testing.T) {
		server, client := served(t, apiserver.Resource{Resource: "pods", Kind: "Pod"},
			apiserver.Resource{Resource: "services", Kind: "Service"})
		for _, p := range []*corev1.Pod{
			readyPod("cart-1", "cart", "node-1"), readyPod("cart-2", "cart", "node-2"),
			readyPod("till-1", "till", "node-1"), readyPod("till-2", "till", "node-2"),
		} {
			rig.Must[apiserver.Object](t)(server.Collection("pods").Create(p))
		}
		for _, name := range []string{"cart", "till", "none"} {
			rig.Must[apiserver.Object](t)(server.Collection("services").Create(service(name)))
		}
		if refused {
			refuse(server, "services")
		}
		patience, cancel := context.WithTimeout(t.Context(), time.Minute)
		defer cancel()
		do(t, patience, clientsetOf(t, client))
	})
}

// What docs/start.md says of derived collections.
func TestREADMEDerived(t *testing.T) {
	type label struct{ namespace, key, value string }
	selectorPair := func(s *corev1.Service) label { return label{s.Namespace, "app", s.Spec.Selector["app"]} }
	labelPairs := func(p *corev1.Pod) iter.Seq[label] {
		return func(yield func(label) bool) {
			for k, v := range p.Labels {
				if !yield(label{p.Namespace, k, v}) {
					return
				}
			}
		}
	}
	selects := func(s *corev1.Service, p *corev1.Pod) bool {
		return labels.SelectorFromSet(s.Spec.Selector).Matches(labels.Set(p.Labels))
	}
	example := func(ctx, patience context.Context, clientset kubernetes.Interface, queue keys, pod *corev1.Pod) error {
		pods := lw.NewInformer(lw.FromClient(clientset.CoreV1().Pods("")), nil)
		services := lw.NewInformer(lw.FromClient(clientset.CoreV1().Services("")), nil)

		type Endpoints struct {
			lw.Meta
			IPs []string
		}
		graph := lw.NewGraph(nil)
		endpoints := lw.LeftJoin(graph, services, pods, lw.On[label, *corev1.Service, *corev1.Pod]{
			Left:  lw.SingleKey(selectorPair), // one pair of the selector
			Right: labelPairs,                 // all pairs of the labels
			Where: selects,                    // the whole selector
		}, func(s *corev1.Service, pods []*corev1.Pod) *Endpoints {
			e := &Endpoints{Meta: lw.Meta{Namespace: s.Namespace, Name: s.Name}}
			for _, p := range pods {
				e.IPs = append(e.IPs, p.Status.PodIP)
			}
			return e
		})
		endpoints.AddHandler(lw.Handler[*Endpoints]{
			Add:    func(e *Endpoints) { queue.Add(lw.KeyOf(e)) },
			Update: func(old, e *Endpoints) { queue.Add(lw.KeyOf(e)) }, // they differ
			Delete: func(last *Endpoints) { queue.Add(lw.KeyOf(last)) },
		})
		go pods.Run(ctx)
		go services.Run(ctx)
		go graph.Run(ctx)
		if err := graph.WaitForSync(patience); err != nil {
			return err // names the informer that has not synced, and why
		}

		p, err := clientset.CoreV1().Pods("shop").Create(ctx, pod, metav1.CreateOptions{})
		if err != nil {
			return err
		}
		if err := graph.WaitForResourceVersion(patience, pods, p.ResourceVersion); err != nil {
			return err
		}
		e, ok := endpoints.Store().Get(lw.Key{Namespace: "shop", Name: "cart"}) // has p's IP

		if want := []string{"ip of cart-1", "ip of cart-2", "ip of cart-3"}; !ok || !slices.Equal(e.IPs, want) {
			t.Errorf("endpoints %v, want %q", e, want)
		}
		return nil
	}
	shop(t, false, func(t *testing.T, patience context.Context, clientset kubernetes.Interface) {
		queue := make(keys, 10)
		rig.OK(t, example(t.Context(), patience, clientset, queue, readyPod("cart-3", "cart", "node-1")))
		synctest.Wait()
		rig.Same(t, "there are no keys", false, len(queue) == 0)
	})
}

// What docs/derive.md shows: the endpoints and the loads after a write, and why they are not there
// if the server refuses the services.
func TestDerivePage(t *testing.T) {
	example := func(t *testing.T, patience context.Context, clientset kubernetes.Interface, queue keys,
		pod *corev1.Pod) error {
		ctx := t.Context()
		pods := lw.NewInformer(lw.FromClient(clientset.CoreV1().Pods("")), nil)
		services := lw.NewInformer(lw.FromClient(clientset.CoreV1().Services("")), nil)

		type Backend struct {
			lw.Meta
			Labels   map[string]string
			Node, IP string
			Ready    bool
		}
		g := lw.NewGraph(nil)
		backends := lw.Derive(g, pods, func(p *corev1.Pod) *Backend {
			b := &Backend{Meta: lw.MetaOf(p), Labels: p.Labels, Node: p.Spec.NodeName, IP: p.Status.PodIP}
			for _, c := range p.Status.Conditions {
				b.Ready = b.Ready || c.Type == corev1.PodReady && c.Status == corev1.ConditionTrue
			}
			return b
		})

		type label struct{ namespace, key, value string }
		on := lw.On[label, *corev1.Service, *Backend]{
			Left: lw.SingleKey(func(s *corev1.Service) label { // one pair of the selector, always the same
				for _, k := range slices.Sorted(maps.Keys(s.Spec.Selector)) {
					return label{s.Namespace, k, s.Spec.Selector[k]}
				}
				return label{} // of no pod
			}),
			Right: func(b *Backend) iter.Seq[label] {
				return func(yield func(label) bool) {
					for k, v := range b.Labels {
						if !yield(label{b.Namespace, k, v}) {
							return
						}
					}
				}
			},
			Where: func(s *corev1.Service, b *Backend) bool {
				return labels.SelectorFromSet(s.Spec.Selector).Matches(labels.Set(b.Labels))
			},
		}

		type Endpoints struct {
			lw.Meta
			IPs []string
		}
		endpoints := lw.LeftJoin(g, services, backends, on, func(s *corev1.Service, backends []*Backend) *Endpoints {
			e := &Endpoints{Meta: lw.Meta{Namespace: s.Namespace, Name: s.Name}}
			for _, b := range backends { // in the order of their keys; the slice is not to be kept
				if b.Ready {
					e.IPs = append(e.IPs, b.IP)
				}
			}
			return e
		})

		type load struct{ pods, ready int }
		type NodeLoad struct {
			lw.Meta
			Pods, Ready int
		}
		count := func(l load, b *Backend, n int) load {
			l.pods += n
			if b.Ready {
				l.ready += n
			}
			return l
		}
		loads := lw.GroupBy(g, backends,
			func(b *Backend) string { return b.Node },
			lw.Aggregate[*Backend, load]{
				Add:    func(l load, b *Backend) load { return count(l, b, 1) },
				Remove: func(l load, b *Backend) load { return count(l, b, -1) },
			},
			func(node string, l load) *NodeLoad {
				return &NodeLoad{Meta: lw.Meta{Name: node}, Pods: l.pods, Ready: l.ready}
			})

		endpoints.AddHandler(lw.Handler[*Endpoints]{
			Add:    func(e *Endpoints) { queue.Add(lw.KeyOf(e)) },
			Update: func(_, e *Endpoints) { queue.Add(lw.KeyOf(e)) },
			Delete: func(e *Endpoints) { queue.Add(lw.KeyOf(e)) },
		})
		ready := lw.NewIndex(loads, func(l *NodeLoad) bool { return l.Ready == l.Pods })

		go pods.Run(ctx)
		go services.Run(ctx)
		go g.Run(ctx)
		if err := g.WaitForSync(patience); err != nil {
			return err // names the informer that has not synced, and why
		}

		p, err := clientset.CoreV1().Pods("shop").Create(ctx, pod, metav1.CreateOptions{})
		if err != nil {
			return err
		}
		if err := g.WaitForResourceVersion(patience, pods, p.ResourceVersion); err != nil {
			return err
		}

		cart := lw.Key{Namespace: "shop", Name: "cart"}
		served, err := lw.WaitFor(patience, endpoints, cart, func(e *Endpoints) bool { return e != nil && len(e.IPs) > 1 })
		if err != nil {
			return err
		}

		rig.Same(t, "nodes on which all is ready", 1, ready.Len(true))
		rig.Same(t, "addresses that are served", 2, len(served.IPs))

		snap := g.Snapshot()
		e, _ := endpoints.At(snap).Get(lw.Key{Namespace: "shop", Name: "cart"})
		l, _ := loads.At(snap).Get(lw.Key{Name: "node-1"})
		version := snap.ResourceVersion(pods) // of the state of the pods that both are made of

		rig.Same(t, "endpoints", []string{"ip of cart-1", "ip of cart-2"}, e.IPs)
		rig.Same(t, "pods of node-1, and those that are ready", [2]int{3, 2}, [2]int{l.Pods, l.Ready})
		rig.Same(t, "version of the pods", pods.Store().ResourceVersion(), version)

		byPods := lw.NewSortedIndex(loads, func(l *NodeLoad) int { return l.Pods })
		var top []string
		for l := range byPods.Down(0, 10) { // the ten nodes with most pods
			top = append(top, l.Name)
		}
		now := byPods.At(loads.Store().Snapshot()) // one state, for what must agree
		page, of := slices.Collect(now.Up(50, 25)), now.Len()
		crowded := of - now.Before(110) // with 110 pods or more
		rig.Same(t, "the top", []string{"node-1", "node-2"}, top)
		rig.Same(t, "nodes of page three, of all, and that are crowded", [3]int{0, 2, 0}, [3]int{len(page), of, crowded})
		return nil
	}
	shop(t, false, func(t *testing.T, patience context.Context, clientset kubernetes.Interface) {
		queue := make(keys, 10)
		sick := readyPod("cart-3", "cart", "node-1")
		sick.Status.Conditions[1].Status = corev1.ConditionFalse
		rig.OK(t, example(t, patience, clientset, queue, sick))
		synctest.Wait()
		rig.Same(t, "keys: that of each service once, since no endpoints have changed", 3, len(queue))
	})
	shop(t, true, func(t *testing.T, patience context.Context, clientset kubernetes.Interface) {
		err := example(t, patience, clientset, make(keys, 10), readyPod("cart-3", "cart", "node-1"))
		if !apierrors.IsForbidden(err) || !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("error %v, want that of the services", err)
		}
	})
}
