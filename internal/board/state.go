package board

import (
	"slices"
	"time"
)

// State is the one word for what is most wrong.
type State string

// The states, the worst first.
const (
	Failing    State = "failing"    // requests have failed for a minute on end
	Incomplete State = "incomplete" // objects are set aside
	Conflict   State = "conflict"   // several inputs make results of one key
	Looping    State = "looping"    // keys of a controller run again and again for what they write themselves
	Behind     State = "behind"     // a handler or a graph has far more to do than it has done, or a step of a graph takes long
	Retrying   State = "retrying"   // requests fail, but not for long
	Stopping   State = "stopping"   // Run is about to return: it waits for a handler
	Syncing    State = "syncing"    // the first whole list has not come
	Waits      State = "waits"      // nobody serves the kind, so there is nothing to follow
	OK         State = "ok"
)

var states = []State{Failing, Incomplete, Conflict, Looping, Behind, Retrying, Stopping, Syncing, Waits, OK}

// rank is smaller for what is worse.
func (s State) rank() int { return slices.Index(states, s) }

// troubled reports whether somebody should look.
func (s State) troubled() bool { return s.rank() < Retrying.rank() }

const (
	// failsAfter is as for Status.Healthy.
	failsAfter = time.Minute
	// behindFrom is how many changes make a backlog. lw folds that of a handler when it is longer
	// than 1024.
	behindFrom = 1024
	// hangsAfter is how long a step of a graph may take. Nothing of what has changed since it began
	// is shown.
	hangsAfter = 10 * time.Second
)

// Judge sets every State.
func (r *Report) Judge() {
	for i := range r.Informers {
		r.Informers[i].State = r.Informers[i].judge()
	}
	for i := range r.Graphs {
		g := &r.Graphs[i]
		for j := range g.Collections {
			g.Collections[j].State = g.Collections[j].judge()
		}
		g.State = g.judge(r.Time)
	}
	for i := range r.Controllers {
		c := &r.Controllers[i]
		if c.State = OK; len(c.Loops) > 0 {
			c.State = Looping
		}
	}
}

func (inf *Informer) judge() State {
	f := inf.Failure
	switch {
	case f != nil && time.Duration(f.ForSeconds) >= failsAfter:
		return Failing
	case inf.SetAside.Total > 0:
		return Incomplete
	case inf.Pending > behindFrom:
		return Behind
	case f != nil:
		return Retrying
	case inf.Phase == "stopped":
		return Stopping
	case !inf.Synced:
		return Syncing
	case inf.Unserved != "":
		return Waits
	}
	return OK
}

func (c *Collection) judge() State {
	switch {
	case c.SetAside.Total > 0:
		return Incomplete
	case c.Conflicts.Total > 0:
		return Conflict
	case c.Pending > behindFrom:
		return Behind
	case !c.Synced:
		return Syncing
	}
	return OK
}

// judge returns the worst state of the graph and its collections.
func (g *Graph) judge(now time.Time) State {
	state := OK
	switch {
	case g.Pending > behindFrom, !g.StepBegan.IsZero() && now.Sub(g.StepBegan) >= hangsAfter:
		state = Behind
	case !g.Synced:
		state = Syncing
	}
	for _, c := range g.Collections {
		if c.State.rank() < state.rank() {
			state = c.State
		}
	}
	return state
}
