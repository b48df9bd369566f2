package lw

import (
	"context"
	"strings"
)

// A Syncer is something that can be waited for. An [*Informer], a [*Registration], a [*Group], a
// [*Graph] and a [*Derived] are Syncers.
type Syncer interface {
	WaitForSync(ctx context.Context) error
}

// AnyInformer is the part of an [Informer] that does not depend on the type of its objects. Every
// *Informer is one, whatever its T, so a program can keep informers of different types in one
// slice: to run all of them, to wait for them, and to report their status.
type AnyInformer interface {
	// Run is [Informer.Run].
	Run(ctx context.Context) error
	// WaitForSync is [Informer.WaitForSync].
	WaitForSync(ctx context.Context) error
	// Status is [Informer.Status]. Its field Informer has the informer's name.
	Status() Status
}

// A SyncError is the error of [WaitForSync] and [Group.WaitForSync]. It says of each syncer that
// has not synced which one it is, and why. errors.Is and errors.As find it, and what is in the
// error of any of the syncers; but of a type that several of them have, they find only the first.
//
//	if e, ok := errors.AsType[*lw.SyncError](err); ok {
//		for _, u := range e.Unsynced {
//			log.Print(u.Informer, ": ", u.Err)
//		}
//	}
type SyncError struct {
	Unsynced []Unsynced // at least one, in the order in which they were waited for
}

// An Unsynced is a [Syncer] that has not synced.
type Unsynced struct {
	Syncer   Syncer
	Informer string // the name of its informer; "" for a Syncer that is not one of this package
	Err      error  // what its WaitForSync returned
}

// Error returns the errors of the syncers, each on a line.
func (e *SyncError) Error() string {
	lines := make([]string, len(e.Unsynced))
	for i, u := range e.Unsynced {
		lines[i] = u.Err.Error()
	}
	return strings.Join(lines, "\n")
}

// Unwrap returns the errors of the syncers.
func (e *SyncError) Unwrap() []error {
	errs := make([]error, len(e.Unsynced))
	for i, u := range e.Unsynced {
		errs[i] = u.Err
	}
	return errs
}

// add notes that s has not synced because of err. Of a Group it notes the informers.
func (e *SyncError) add(s Syncer, err error) {
	if group, ok := err.(*SyncError); ok {
		e.Unsynced = append(e.Unsynced, group.Unsynced...)
		return
	}
	u := Unsynced{Syncer: s, Err: err}
	switch s := s.(type) {
	case *Registration:
		u.Informer = s.hub.opts.Name
	case AnyInformer:
		u.Informer = s.Status().Informer
	}
	e.Unsynced = append(e.Unsynced, u)
}

// orNil returns e as an error, or nil if every syncer has synced.
func (e *SyncError) orNil() error {
	if len(e.Unsynced) == 0 {
		return nil
	}
	return e
}
