package derive

import (
	"slices"
	"testing"
	"testing/synctest"

	gocmp "github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/watch"

	"github.com/go-lw/lw"
	"github.com/go-lw/lw/bench/internal/feed"
)

// What all sides show and tell their handlers is what a plain loop over the pods and
// services computes, after bursts of each change, single changes, and pods that are gone or new.
func TestSidesAgree(t *testing.T) {
	for _, side := range []string{byHand, graph, slim} {
		t.Run(side, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				w := newWorld(400)
				p := newPlayerSeen(w, side, false, newSeen())
				defer p.follower.stop()
				p.check(t, "the first state")
				for _, c := range []struct {
					name string
					change
				}{{"flips", flip}, {"moves", move}, {"heartbeats", heartbeat}, {"moves back", move},
					{"out of services", unselected}} {
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
	for _, side := range []string{byHand, graph, slim} {
		synctest.Test(t, func(t *testing.T) {
			p := newPlayerSeen(newWorld(400), side, true, newSeen())
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
	endpoints, loads := p.world.results()
	gotEndpoints, gotLoads := p.follower.content()
	toldEndpoints, toldLoads := p.seen.content()
	equalEndpoints := gocmp.Comparer((*Endpoints).Equal)
	equalLoads := gocmp.Comparer((*NodeLoad).Equal)
	for what, of := range map[string]struct {
		endpoints map[lw.Key]*Endpoints
		loads     map[string]*NodeLoad
	}{"shown": {gotEndpoints, gotLoads}, "told": {toldEndpoints, toldLoads}} {
		if diff := gocmp.Diff(endpoints, of.endpoints, equalEndpoints); diff != "" {
			t.Errorf("%s: endpoints that are %s (-want +got):\n%s", when, what, diff)
		}
		if diff := gocmp.Diff(loads, of.loads, equalLoads); diff != "" {
			t.Errorf("%s: loads that are %s (-want +got):\n%s", when, what, diff)
		}
	}
}
