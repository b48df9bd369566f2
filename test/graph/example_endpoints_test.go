package graph_test

import (
	"context"
	"fmt"
	"iter"
	"maps"
	"slices"
	"strings"

	"github.com/go-lw/lw"
)

// A Pod and a Service have the fields of API types that the example needs.
type (
	Pod struct {
		lw.Meta
		Labels    map[string]string
		Node, IP  string
		Ready     bool
		Heartbeat int // and much else that endpoints do not depend on
	}
	Service struct {
		lw.Meta
		Selector map[string]string
	}
)

// A Backend is what endpoints and loads need of a pod.
type Backend struct {
	lw.Meta
	Labels   map[string]string
	Node, IP string
	Ready    bool
}

// Equal ends a change of a pod that changes nothing here. It leaves the resource version aside.
func (b *Backend) Equal(o *Backend) bool {
	return b.UID == o.UID && b.Node == o.Node && b.IP == o.IP && b.Ready == o.Ready && maps.Equal(b.Labels, o.Labels)
}

// Endpoints are the addresses of the ready pods of a service.
type Endpoints struct {
	lw.Meta
	IPs []string
}

// A NodeLoad is how many pods a node has, and how many of them are ready.
type NodeLoad struct {
	lw.Meta
	Pods, Ready int
}

// A label is a pair of a selector or of the labels of an object, in its namespace.
type label struct{ namespace, key, value string }

// selectorPair returns one pair of the selector; which one does not matter, as long as it is always
// the same.
func selectorPair(s *Service) label {
	key := slices.Min(slices.Collect(maps.Keys(s.Selector)))
	return label{s.Namespace, key, s.Selector[key]}
}

// labelPairs yields all pairs of the labels.
func labelPairs(b *Backend) iter.Seq[label] {
	return func(yield func(label) bool) {
		for k, v := range b.Labels {
			if !yield(label{b.Namespace, k, v}) {
				return
			}
		}
	}
}

// selects reports whether b has all pairs of the selector. They are of one namespace, since they
// share a label.
func selects(s *Service, b *Backend) bool {
	for k, v := range s.Selector {
		if b.Labels[k] != v {
			return false
		}
	}
	return true
}

// The endpoints of each service and the load of each node, of the same state of the pods. What a
// change costs is what it touches: a heartbeat ends at the backend, a pod that becomes ready
// computes its services and its node, and nothing else.
func Example_endpoints() {
	pod := func(name, node, app string) *Pod {
		return &Pod{
			Meta: lw.Meta{Namespace: "shop", Name: name}, Node: node, IP: "10.0.0." + name[len(name)-1:], Ready: true,
			Labels: map[string]string{"app": app, "tier": "web"},
		}
	}
	podServer := lw.NewMemory(pod("cart-1", "north", "cart"), pod("cart-2", "south", "cart"), pod("till-3", "south", "till"))
	serviceServer := lw.NewMemory(
		&Service{Meta: lw.Meta{Namespace: "shop", Name: "cart"}, Selector: map[string]string{"app": "cart", "tier": "web"}},
		&Service{Meta: lw.Meta{Namespace: "shop", Name: "till"}, Selector: map[string]string{"app": "till"}},
	)
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	pods, services := lw.NewInformer(podServer, nil), lw.NewInformer(serviceServer, nil)

	g := lw.NewGraph(nil)
	backends := lw.Derive(g, pods, func(p *Pod) *Backend {
		return &Backend{Meta: lw.MetaOf(p), Labels: p.Labels, Node: p.Node, IP: p.IP, Ready: p.Ready}
	})
	endpoints := lw.LeftJoin(g, services, backends, lw.On[label, *Service, *Backend]{
		Left: lw.SingleKey(selectorPair), Right: labelPairs, Where: selects,
	}, func(s *Service, backends []*Backend) *Endpoints {
		e := &Endpoints{Meta: lw.Meta{Namespace: s.Namespace, Name: s.Name}}
		for _, b := range backends {
			if b.Ready {
				e.IPs = append(e.IPs, b.IP)
			}
		}
		return e
	})
	type load struct{ pods, ready int }
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

	go pods.Run(ctx)
	go services.Run(ctx)
	go g.Run(ctx)
	if err := g.WaitForSync(ctx); err != nil {
		fmt.Println(err)
		return
	}
	show := func() {
		snap := g.Snapshot() // both are of one state
		for _, e := range sortedByName(endpoints.At(snap)) {
			fmt.Println("service", e.Name, e.IPs)
		}
		for _, l := range sortedByName(loads.At(snap)) {
			fmt.Printf("node %s: %d pods, %d ready\n", l.Name, l.Pods, l.Ready)
		}
	}
	show()

	sick, _ := podServer.Get(ctx, lw.Key{Namespace: "shop", Name: "cart-2"})
	sick.Ready = false
	sick, err := podServer.Update(ctx, sick)
	if err != nil {
		fmt.Println(err)
		return
	}
	if err := g.WaitForResourceVersion(ctx, pods, sick.ResourceVersion); err != nil {
		fmt.Println(err)
		return
	}
	fmt.Println("cart-2 is not ready:")
	show()
	// Output:
	// service cart [10.0.0.1 10.0.0.2]
	// service till [10.0.0.3]
	// node north: 1 pods, 1 ready
	// node south: 2 pods, 2 ready
	// cart-2 is not ready:
	// service cart [10.0.0.1]
	// service till [10.0.0.3]
	// node north: 1 pods, 1 ready
	// node south: 2 pods, 1 ready
}

// sortedByName returns the objects of a snapshot in the order of their names.
func sortedByName[T lw.Object](snap *lw.Snapshot[T]) []T {
	return slices.SortedFunc(snap.All(), func(a, b T) int { return strings.Compare(a.GetName(), b.GetName()) })
}
