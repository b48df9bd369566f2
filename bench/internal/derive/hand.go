package derive

import (
	"context"
	"maps"
	"slices"
	"strings"
	"sync"

	corev1 "k8s.io/api/core/v1"

	"github.com/go-lw/lw"
)

// hand keeps endpoints and loads in maps of its own, which the handlers of two informers of lw
// write: what a careful program does without derived collections. A change costs what it concerns:
// a pod finds its services by its labels, and a result that has not changed is told to nobody. The
// endpoints of a service are computed from its pods by the function that the graph calls. There is
// one lock. Nothing says which state of the pods and the services a result is of, and the results
// of one change are not there at once.
type hand struct {
	results results

	mu        sync.Mutex // guards what follows; results is called under it
	pods      map[string]map[string]*corev1.Pod
	services  map[label][]*corev1.Service // by one pair of their selectors
	members   map[lw.Key][]*corev1.Pod    // of each service, in the order of their names
	endpoints map[lw.Key]*Endpoints
	loads     map[string]*NodeLoad
}

func startHand(src sources, r results) *follower {
	h := &hand{
		results: r, pods: map[string]map[string]*corev1.Pod{}, services: map[label][]*corev1.Service{},
		members: map[lw.Key][]*corev1.Pod{}, endpoints: map[lw.Key]*Endpoints{}, loads: map[string]*NodeLoad{},
	}
	f := newFollower(src)
	synced := []lw.Syncer{
		f.services.AddHandler(lw.Handler[*corev1.Service]{
			Add:    func(s *corev1.Service) { h.setService(nil, s) },
			Update: h.setService,
			Delete: func(s *corev1.Service) { h.setService(s, nil) },
		}),
		f.pods.AddHandler(lw.Handler[*corev1.Pod]{
			Add:    func(p *corev1.Pod) { h.setPod(nil, p) },
			Update: h.setPod,
			Delete: func(p *corev1.Pod) { h.setPod(p, nil) },
		}),
	}
	f.sync = func(ctx context.Context) error { return lw.WaitForSync(ctx, synced...) }
	f.upTo = func(context.Context, string) error { return nil } // handlers are called in order
	f.content = func() (map[lw.Key]*Endpoints, map[string]*NodeLoad) {
		h.mu.Lock()
		defer h.mu.Unlock()
		return maps.Clone(h.endpoints), maps.Clone(h.loads)
	}
	f.start()
	return f
}

// setPod is told that old has become p; either may be nil.
func (h *hand) setPod(old, p *corev1.Pod) {
	h.mu.Lock()
	defer h.mu.Unlock()
	pod := p
	if p == nil {
		pod = old
		delete(h.pods[pod.Namespace], pod.Name)
	} else {
		of := h.pods[p.Namespace]
		if of == nil {
			of = map[string]*corev1.Pod{}
			h.pods[p.Namespace] = of
		}
		of[p.Name] = p
	}
	if old == nil || p == nil || AddressOf(old) != AddressOf(p) || !maps.Equal(old.Labels, p.Labels) {
		h.count(old, p)
	}
	if old != nil {
		for k, v := range old.Labels {
			for _, s := range h.services[label{old.Namespace, k, v}] {
				stays := p != nil && selects(s, p.Namespace, p.Labels)
				if !stays && selects(s, old.Namespace, old.Labels) {
					h.place(s, old.Name, nil)
				}
			}
		}
	}
	if p != nil {
		for k, v := range p.Labels {
			for _, s := range h.services[label{p.Namespace, k, v}] {
				if selects(s, p.Namespace, p.Labels) {
					h.place(s, p.Name, p)
				}
			}
		}
	}
}

// place puts a pod into the endpoints of s, or takes it out if p is nil.
func (h *hand) place(s *corev1.Service, name string, p *corev1.Pod) {
	key := lw.KeyOf(s)
	old := h.endpoints[key]
	members := h.members[key]
	i, found := slices.BinarySearchFunc(members, name,
		func(p *corev1.Pod, name string) int { return strings.Compare(p.Name, name) })
	switch {
	case p == nil && !found:
		return
	case p == nil:
		members = slices.Delete(members, i, i+1)
	case !found:
		members = slices.Insert(members, i, p)
	default:
		last := members[i]
		members[i] = p
		if AddressOf(last) == AddressOf(p) {
			return
		}
	}
	h.members[key] = members
	h.setEndpoints(old, endpointsOf(s, members, AddressOf))
}

func (h *hand) setEndpoints(old, e *Endpoints) {
	h.endpoints[lw.KeyOf(e)] = e
	h.results.endpoints(old, e)
}

// setService is told that old has become s; either may be nil.
func (h *hand) setService(old, s *corev1.Service) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if old != nil {
		pair := pairOf(old)
		h.services[pair] = slices.DeleteFunc(h.services[pair], func(s *corev1.Service) bool { return s.Name == old.Name })
		if len(h.services[pair]) == 0 {
			delete(h.services, pair)
		}
	}
	if s == nil {
		last := h.endpoints[lw.KeyOf(old)]
		delete(h.endpoints, lw.KeyOf(last))
		delete(h.members, lw.KeyOf(last))
		h.results.endpoints(last, nil)
		return
	}
	pair := pairOf(s)
	h.services[pair] = append(h.services[pair], s)
	var members []*corev1.Pod
	for _, p := range h.pods[s.Namespace] {
		if selects(s, p.Namespace, p.Labels) {
			members = append(members, p)
		}
	}
	slices.SortFunc(members, func(a, b *corev1.Pod) int { return strings.Compare(a.Name, b.Name) })
	e := endpointsOf(s, members, AddressOf)
	h.members[lw.KeyOf(e)] = members
	if last := h.endpoints[lw.KeyOf(e)]; last == nil || !last.Equal(e) {
		h.setEndpoints(last, e)
	}
}

// count moves a pod from the load of one node to that of another.
func (h *hand) count(old, p *corev1.Pod) {
	switch {
	case old == nil:
		h.setLoad(p.Spec.NodeName, func(l load) load { return addPod(l, p) })
	case p == nil:
		h.setLoad(old.Spec.NodeName, func(l load) load { return removePod(l, old) })
	case old.Spec.NodeName == p.Spec.NodeName:
		h.setLoad(p.Spec.NodeName, func(l load) load { return addPod(removePod(l, old), p) })
	default:
		h.setLoad(old.Spec.NodeName, func(l load) load { return removePod(l, old) })
		h.setLoad(p.Spec.NodeName, func(l load) load { return addPod(l, p) })
	}
}

func (h *hand) setLoad(node string, change func(load) load) {
	var before load
	old := h.loads[node]
	if old != nil {
		before = old.load
	}
	after := change(before)
	switch {
	case after == before:
	case after.Pods == 0:
		delete(h.loads, node)
		h.results.load(old, nil)
	default:
		l := newNodeLoad(node, after)
		h.loads[node] = l
		h.results.load(old, l)
	}
}

func addPod(l load, p *corev1.Pod) load    { return l.plus(1, isReady(p)) }
func removePod(l load, p *corev1.Pod) load { return l.plus(-1, isReady(p)) }
