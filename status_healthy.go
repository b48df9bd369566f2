package lw

import (
	"fmt"
	"strings"
	"time"
)

// staleAfter is how long requests may fail on end, or another whole list be due, until the store
// counts as out of date. It is longer than the longest default pause between two attempts, which is
// 45 s. So normally at least two attempts have failed.
const staleAfter = time.Minute

// Healthy returns nil if the store can be relied on: it has synced, it is not stopped, and for the
// last minute neither have all requests failed nor has it needed a whole list that has not come.
// Otherwise the error says what is wrong; errors.Is and errors.As find [ErrStopped] and Status.Err
// in it.
func (s Status) Healthy() error {
	switch {
	case s.Phase == PhaseStopped:
		return &statusError{status: s, cause: ErrStopped}
	case !s.Synced:
		return &statusError{what: s.unsynced(), status: s}
	case s.Failures > 0 && time.Since(s.Since) >= staleAfter:
		return &statusError{what: "out of date since " + s.Since.Format(time.RFC3339), status: s}
	case !s.ListDue.IsZero() && time.Since(s.ListDue) >= staleAfter:
		return &statusError{what: fmt.Sprintf("out of date since %s (%s, the last whole list came at %s)",
			s.ListDue.Format(time.RFC3339), s.Phase, s.LastList.Format(time.RFC3339)), status: s}
	}
	return nil
}

// unsynced says what an informer that has not synced is doing, for the text of an error.
func (s Status) unsynced() string {
	if s.Phase == PhaseIdle {
		return "not synced, since Run has not been called"
	}
	return fmt.Sprintf("not synced (%s, mode %s)", s.Phase, s.Mode)
}

// A statusError says what is wrong, with the last failure and the cause if there are any.
type statusError struct {
	what   string // may be empty if there is a cause
	status Status
	cause  error
}

// Error returns "lw: <informer>: <what>: <the last failure>: <cause>".
func (e *statusError) Error() string {
	name := "lw: " + e.status.Informer
	text := []string{name}
	if e.what != "" {
		text = append(text, e.what)
	}
	if err := e.status.Err; err != nil {
		// An Error begins with the informer's name too, which is in the text already.
		text = append(text, strings.TrimPrefix(err.Error(), name+": "))
	}
	if e.cause != nil {
		text = append(text, strings.TrimPrefix(e.cause.Error(), "lw: "))
	}
	return strings.Join(text, ": ")
}

// Unwrap returns the last failure and the cause.
func (e *statusError) Unwrap() (errs []error) {
	for _, err := range []error{e.status.Err, e.cause} {
		if err != nil {
			errs = append(errs, err)
		}
	}
	return errs
}
