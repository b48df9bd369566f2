package derive

import (
	"context"
	"iter"

	corev1 "k8s.io/api/core/v1"

	"github.com/go-lw/lw"
)

// startGraph starts the results as collections of a graph: derived from the pods, or from their
// backends alone.
func startGraph(src sources, slim bool, r results) *follower {
	f := newFollower(src)
	g := lw.NewGraph(&lw.GraphOptions{OnError: func(err error) { panic("derive: " + err.Error()) }})
	endpoints, loads := derive(g, f.services, f.pods, slim)
	synced := []lw.Syncer{
		endpoints.AddHandler(lw.Handler[*Endpoints]{
			Add:    func(e *Endpoints) { r.endpoints(nil, e) },
			Update: r.endpoints,
			Delete: func(e *Endpoints) { r.endpoints(e, nil) },
		}),
		loads.AddHandler(lw.Handler[*NodeLoad]{
			Add:    func(l *NodeLoad) { r.load(nil, l) },
			Update: r.load,
			Delete: func(l *NodeLoad) { r.load(l, nil) },
		}),
	}
	f.run = append(f.run, g.Run)
	f.sync = func(ctx context.Context) error { return lw.WaitForSync(ctx, synced...) }
	f.upTo = func(ctx context.Context, version string) error { return g.WaitForResourceVersion(ctx, f.pods, version) }
	f.content = func() (map[lw.Key]*Endpoints, map[string]*NodeLoad) {
		es, ls := map[lw.Key]*Endpoints{}, map[string]*NodeLoad{}
		snap := g.Snapshot()
		for e := range endpoints.At(snap).All() {
			es[lw.KeyOf(e)] = e
		}
		for l := range loads.At(snap).All() {
			ls[l.Name] = l
		}
		return es, ls
	}
	f.start()
	return f
}

// derive makes the collections of endpoints and of loads.
func derive(g *lw.Graph, services lw.Collection[*corev1.Service], pods lw.Collection[*corev1.Pod],
	slim bool) (*lw.Derived[*Endpoints], *lw.Derived[*NodeLoad]) {
	if !slim {
		endpoints := leftJoin(g, services, pods, func(s *corev1.Service, pods []*corev1.Pod) *Endpoints {
			return endpointsOf(s, pods, AddressOf)
		})
		return endpoints, lw.GroupBy(g, pods,
			func(p *corev1.Pod) lw.Key { return lw.Key{Name: p.Spec.NodeName} },
			lw.Aggregate[*corev1.Pod, load]{Add: addPod, Remove: removePod}, loadOf)
	}
	backends := lw.Derive(g, pods, newBackend)
	endpoints := lw.LeftJoin(g, services, backends, lw.On[label, *corev1.Service, *backend]{
		Left:  lw.SingleKey(pairOf),
		Right: func(b *backend) iter.Seq[label] { return pairsOf(b.Namespace, b.labels) },
		Where: func(s *corev1.Service, b *backend) bool { return selects(s, b.Namespace, b.labels) },
	}, func(s *corev1.Service, backends []*backend) *Endpoints {
		return endpointsOf(s, backends, (*backend).address)
	})
	return endpoints, lw.GroupBy(g, backends,
		func(b *backend) lw.Key { return lw.Key{Name: b.node} },
		lw.Aggregate[*backend, load]{Add: addBackend, Remove: removeBackend}, loadOf)
}

// leftJoin makes the collection of f of each service and its pods.
func leftJoin(g *lw.Graph, services lw.Collection[*corev1.Service], pods lw.Collection[*corev1.Pod],
	f func(*corev1.Service, []*corev1.Pod) *Endpoints) *lw.Derived[*Endpoints] {
	return lw.LeftJoin(g, services, pods, lw.On[label, *corev1.Service, *corev1.Pod]{
		Left:  lw.SingleKey(pairOf),
		Right: func(p *corev1.Pod) iter.Seq[label] { return pairsOf(p.Namespace, p.Labels) },
		Where: func(s *corev1.Service, p *corev1.Pod) bool { return selects(s, p.Namespace, p.Labels) },
	}, f)
}

func endpointsOf[T any](s *corev1.Service, of []T, address func(T) Address) *Endpoints {
	addresses := make([]Address, len(of))
	for i, obj := range of {
		addresses[i] = address(obj)
	}
	return newEndpoints(s, addresses)
}

func loadOf(node lw.Key, l load) *NodeLoad { return newNodeLoad(node.Name, l) }

func addBackend(l load, b *backend) load    { return l.plus(1, b.ready) }
func removeBackend(l load, b *backend) load { return l.plus(-1, b.ready) }
