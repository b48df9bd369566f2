package lw

import (
	"cmp"
	"fmt"
	"maps"
	"strings"
)

func (d *Derived[T]) status() DerivedStatus {
	s := DerivedStatus{
		Name: d.faults.collection, Synced: isClosed(d.hub.synced),
		Objects: d.hub.store.Len(),
	}
	s.Handlers, s.Pending = d.hub.handlers()
	for in := range d.op.inputs {
		s.From = append(s.From, in.name())
	}
	f := d.faults
	s.SetAside = f.aside()
	f.mu.Lock()
	defer f.mu.Unlock()
	if len(f.conflicts) > 0 {
		s.Conflicts = maps.Clone(f.conflicts)
	}
	s.Computed, s.Unchanged = f.computed.Load(), f.unchanged.Load()
	return s
}

// collectionStatus returns what the errors of waits say of the collection.
func (d *Derived[T]) collectionStatus() Status {
	s := Status{
		Informer: d.hub.opts.Name, Phase: PhaseWatching, Synced: isClosed(d.hub.synced),
		ResourceVersion: d.hub.store.ResourceVersion(),
	}
	switch {
	case isClosed(d.hub.stopped):
		s.Phase = PhaseStopped
	case !d.graph.running():
		s.Phase = PhaseIdle
	}
	return s
}

// explain returns the error of a wait for sync that cause has ended.
func (d *Derived[T]) explain(cause error) error {
	if isClosed(d.hub.synced) { // it was a handler that was waited for
		return fmt.Errorf("lw: %s: handler not synced (%d changes pending): %w", d.hub.opts.Name, d.hub.pending(), cause)
	}
	var names []string
	var errs []error
	outside := d.graph.leafNames()
	d.hub.eachUnsynced(func(before *hubCore) bool {
		name, ok := outside[before]
		if !ok && before.needs != nil {
			return true // another collection of the graph
		}
		names = append(names, cmp.Or(name, before.opts.Name))
		errs = append(errs, before.unsynced(nil))
		return false
	})
	what := "not synced"
	switch {
	case !d.graph.running():
		what += ", since the Run of the graph has not been called"
	case len(names) > 0:
		what += ", since it waits for " + strings.Join(names, ", ")
	}
	if cause != nil {
		errs = append(errs, cause)
	}
	return &derivedError{fmt.Sprintf("lw: %s: %s%s", d.hub.opts.Name, what, d.graph.calls.text()), errs}
}

// A derivedError says why a collection has not synced, with the causes.
type derivedError struct {
	what string
	errs []error
}

func (e *derivedError) Error() string {
	text := []string{e.what}
	for _, err := range e.errs {
		text = append(text, strings.TrimPrefix(err.Error(), "lw: "))
	}
	return strings.Join(text, ": ")
}

func (e *derivedError) Unwrap() []error { return e.errs }
