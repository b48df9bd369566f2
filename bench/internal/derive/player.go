package derive

import (
	"cmp"
	"sync/atomic"

	corev1 "k8s.io/api/core/v1"

	"github.com/go-lw/lw/bench/internal/feed"
)

// A player changes the pods of a world, and knows when the side that follows it has told of that.
type player struct {
	*world
	feed     *feed.Feed
	follower *follower
	fences   chan struct{} // receives each result of the fence
	told     chan struct{} // receives each other result, if it is not nil
	synced   atomic.Bool   // results are waited for
	seen     *seen         // what the handlers have been told of; nil: it is not kept
}

// newPlayer starts a side on a world, and returns when it has told its handlers of the whole world.
// each is whether a result is to be waited for at a time, by [player.one].
func newPlayer(w *world, side string, each bool) *player { return newPlayerSeen(w, side, each, nil) }

// newPlayerSeen is newPlayer, and what the side tells its handlers is kept in seen.
func newPlayerSeen(w *world, side string, each bool, seen *seen) *player {
	p := &player{world: w, fences: make(chan struct{}, 2), seen: seen}
	if each {
		p.told = make(chan struct{}, 2)
	}
	list, version := w.list()
	p.feed = feed.New(list, version, true)
	p.follower = startSide(side, sources{p.feed, w.services}, results{
		endpoints: func(old, e *Endpoints) {
			p.seen.endpoints(old, e)
			if p.synced.Load() {
				p.tell(cmp.Or(e, old).Namespace == fenced)
			}
		},
		load: func(old, l *NodeLoad) {
			p.seen.load(old, l)
			if p.synced.Load() {
				p.tell(cmp.Or(l, old).Name == fenced)
			}
		},
	})
	must(p.follower.sync(p.follower.ctx))
	p.synced.Store(true)
	return p
}

func startSide(side string, src sources, r results) *follower {
	switch side {
	case byHand:
		return startHand(src, r)
	case graph, slim:
		return startGraph(src, side == slim, r)
	}
	return startOther(src, others[side], r)
}

// tell is called by the handlers of the results for each change.
func (p *player) tell(isFence bool) {
	switch {
	case isFence:
		p.fences <- struct{}{}
	case p.told != nil:
		p.told <- struct{}{}
	}
}

// burst sends changes as fast as the informer takes them, and returns when the handlers have been
// told of all that they lead to.
func (p *player) burst(changes []*corev1.Pod, fence *corev1.Pod, version string) {
	p.feed.Send(changes)
	must(p.follower.upTo(p.follower.ctx, version))
	p.feed.Send([]*corev1.Pod{fence})
	<-p.fences
	<-p.fences
}

// one sends a change that leads to one of the endpoints and one load, and returns when both
// handlers have been told.
func (p *player) one(change *corev1.Pod) {
	p.feed.Send([]*corev1.Pod{change})
	<-p.told
	<-p.told
}
