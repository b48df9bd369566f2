package derive

import (
	"context"

	corev1 "k8s.io/api/core/v1"

	"github.com/go-lw/lw"
	"github.com/go-lw/lw/bench/internal/compare"
)

// A Program is what a side has that is made outside of this package, by another library. Nothing
// runs yet when it is started.
type Program struct {
	Context  context.Context // ends with the side
	Pods     *lw.Informer[*corev1.Pod]
	Services []*corev1.Service
	// Endpoints and Load are told of each change of a result; old or new is nil if there is none.
	Endpoints func(old, new *Endpoints)
	Load      func(old, new *NodeLoad)
}

// A Start starts a side. synced waits until its handlers have been told of the first state.
type Start func(p Program) (synced func(context.Context) error)

// others are the sides of [Against].
var others = map[string]Start{}

// Against returns the cases of the rows 35 to 40 for another library, in the place of the maps by
// hand. plain derives from the pods, and is compared with the graph; projected has a projection of
// them first, and is compared with slim. Only one library can be compared in a process.
func Against(name string, plain, projected Start) []compare.Case {
	base := map[string]string{graph: name, slim: name + ", slim"}
	others[base[graph]], others[base[slim]] = plain, projected
	return cases(name, base, map[int]goals{ // those of the specification
		rowFlips:      {graph: {value: compare.Times(6)}},
		rowHeartbeats: {graph: {value: compare.Times(6)}, slim: {value: compare.Times(3)}},
		rowMoves:      {graph: {value: compare.Times(6)}},
		rowOne:        {graph: {value: compare.Times(3)}},
		rowSync:       {graph: {value: compare.Times(1)}, slim: {value: compare.Times(1.8)}},
		rowHeap:       {graph: {value: compare.Times(1 / 0.7)}, slim: {value: compare.Times(1 / 0.7)}},
	})
}

// startOther starts a side of [Against].
func startOther(src sources, start Start, r results) *follower {
	f := newFollower(src)
	f.run = []func(context.Context) error{f.pods.Run}
	f.sync = start(Program{Context: f.ctx, Pods: f.pods, Services: src.services, Endpoints: r.endpoints, Load: r.load})
	f.upTo = func(context.Context, string) error { return nil } // its handlers are called in order
	f.start()
	return f
}
