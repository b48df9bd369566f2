package derive

import (
	"cmp"
	"slices"
	"testing"
	"testing/synctest"

	gocmp "github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/watch"

	"github.com/go-lw/lw"
	"github.com/go-lw/lw/bench/internal/feed"
)

// What all sides show, and have told their handlers, is what a plain loop over the pods and
// services computes, after bursts of each change, single changes, and pods that are gone or new.
func TestSidesAgree(t *testing.T) {
	for _, side := range []string{byHand, patches, graph, slim} {
		t.Run(side, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				w := newWorld(400)
				p := newPlayer(w, side, false)
				defer p.follower.stop()
				p.check(t, "the first state")
				for _, c := range []struct {
					name string
					change
				}{{"flips", flip}, {"moves", move}, {"heartbeats", heartbeat}, {"moves back", move}, {"out of services", unselected}} {
					next, version := w.next(300, c.change), w.version()
					p.burst(next, w.passFence(), version)
					p.check(t, c.name)
				}
				p.write(watch.Deleted, w.pods[:50])
				gone := w.pods[:50]
				w.pods = w.pods[50:]
				p.check(t, "deletions")
				w.pods = slices.Concat(gone, w.pods)
				p.write(watch.Added, w.pods[:50])
				p.check(t, "pods that are back")
			})
		})
	}
}

// Each result is waited for, one at a time.
func TestOneAtATime(t *testing.T) {
	for _, side := range []string{byHand, patches, graph, slim} {
		synctest.Test(t, func(t *testing.T) {
			p := newPlayer(newWorld(400), side, true)
			defer p.follower.stop()
			for _, pod := range p.next(100, flip) {
				p.one(pod)
			}
			p.check(t, side)
		})
	}
}

// write sends an event for each of pods, whose version is new.
func (p *player) write(typ watch.EventType, pods []*corev1.Pod) {
	p.feed.Play(func(emit feed.Emit) error {
		for i, pod := range pods {
			next := new(corev1.Pod)
			*next = *pod
			p.writes++
			next.ResourceVersion = p.version()
			pods[i] = next
			if err := emit(typ, next); err != nil {
				return err
			}
		}
		return nil
	})
	synctest.Wait()
}

// check compares what the side shows with the results of the world.
func (p *player) check(t *testing.T, when string) {
	t.Helper()
	synctest.Wait()
	pods := append([]*corev1.Pod{p.fence}, p.pods...)
	slices.SortFunc(pods, func(a, b *corev1.Pod) int { return cmp.Compare(a.Name, b.Name) })
	endpoints, loads := map[lw.Key]*Endpoints{}, map[string]*NodeLoad{}
	for _, s := range p.services {
		var addresses []Address
		for _, pod := range pods {
			if pod.Namespace == s.Namespace && pod.Labels["app"] == s.Spec.Selector["app"] && pod.Labels["tier"] == s.Spec.Selector["tier"] {
				addresses = append(addresses, addressOf(pod))
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
	gotEndpoints, gotLoads := p.follower.content()
	equalEndpoints := gocmp.Comparer(func(a, b *Endpoints) bool { return a.Equal(b) })
	equalLoads := gocmp.Comparer(func(a, b *NodeLoad) bool { return a.Namespace == b.Namespace && a.Name == b.Name && a.load == b.load })
	if diff := gocmp.Diff(endpoints, gotEndpoints, equalEndpoints); diff != "" {
		t.Errorf("%s: endpoints (-want +got):\n%s", when, diff)
	}
	if diff := gocmp.Diff(loads, gotLoads, equalLoads); diff != "" {
		t.Errorf("%s: loads (-want +got):\n%s", when, diff)
	}
}
