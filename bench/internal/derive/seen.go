package derive

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"sync"

	corev1 "k8s.io/api/core/v1"

	"github.com/go-lw/lw"
)

// seen is the results that handlers have been told of.
type seen struct {
	mu     sync.Mutex
	shown  map[lw.Key]*Endpoints // guarded by mu, as loads is
	loaded map[string]*NodeLoad
}

func newSeen() *seen { return &seen{shown: map[lw.Key]*Endpoints{}, loaded: map[string]*NodeLoad{}} }

func (s *seen) endpoints(old, e *Endpoints) {
	if s == nil {
		return
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if e == nil {
		delete(s.shown, lw.KeyOf(old))
	} else {
		s.shown[lw.KeyOf(e)] = e
	}
}

func (s *seen) load(old, l *NodeLoad) {
	if s == nil {
		return
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if l == nil {
		delete(s.loaded, old.Name)
	} else {
		s.loaded[l.Name] = l
	}
}

// content returns a copy of the results.
func (s *seen) content() (map[lw.Key]*Endpoints, map[string]*NodeLoad) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return maps.Clone(s.shown), maps.Clone(s.loaded)
}

// results computes what all sides must show, by a loop over the pods for each service.
func (w *world) results() (map[lw.Key]*Endpoints, map[string]*NodeLoad) {
	pods := append([]*corev1.Pod{w.fence}, w.pods...)
	slices.SortFunc(pods, func(a, b *corev1.Pod) int { return cmp.Compare(a.Name, b.Name) })
	endpoints, loads := map[lw.Key]*Endpoints{}, map[string]*NodeLoad{}
	for _, s := range w.services {
		var addresses []Address
		for _, pod := range pods {
			if pod.Namespace == s.Namespace && pod.Labels["app"] == s.Spec.Selector["app"] &&
				pod.Labels["tier"] == s.Spec.Selector["tier"] {
				addresses = append(addresses, AddressOf(pod))
			}
		}
		endpoints[lw.KeyOf(s)] = newEndpoints(s, addresses)
	}
	for _, pod := range pods {
		l := loads[pod.Spec.NodeName]
		if l == nil {
			l = newNodeLoad(pod.Spec.NodeName, load{})
			loads[pod.Spec.NodeName] = l
		}
		l.load = addPod(l.load, pod)
	}
	return endpoints, loads
}

// Check returns an error if the sides of [Against] do not tell their handlers what the pods and
// services amount to, after bursts of each change.
func Check() error {
	for side := range others {
		told := newSeen()
		p := newPlayerSeen(newWorld(400), side, false, told)
		for _, c := range []change{flip, move, heartbeat, flip, move, unselected} {
			next, version := p.next(300, c), p.version()
			p.burst(next, p.passFence(), version)
			wantEndpoints, wantLoads := p.world.results()
			endpoints, loads := told.content()
			if !maps.EqualFunc(wantEndpoints, endpoints, (*Endpoints).Equal) || !maps.EqualFunc(wantLoads, loads,
				(*NodeLoad).Equal) {
				return fmt.Errorf("%s tells its handlers of %d endpoints and %d loads, which are not those of the pods and services",
					side, len(endpoints), len(loads))
			}
		}
		p.follower.stop()
	}
	return nil
}
