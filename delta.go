package lw

import (
	"fmt"

	"github.com/go-lw/lw/internal/equal"
)

// An EventType says what happened to an object of a store. The events of a server are a
// watch.EventType, in other words: Added, Modified, Deleted and Bookmark; see [WatchEvent].
type EventType uint8

const (
	Added   EventType = iota + 1 // the object is new, or new to this consumer
	Updated                      // the object has another version, and the same UID
	Deleted                      // the object is gone
)

func (t EventType) String() string {
	switch t {
	case Added:
		return "added"
	case Updated:
		return "updated"
	case Deleted:
		return "deleted"
	}
	return fmt.Sprintf("EventType(%d)", uint8(t))
}

// A Cause says how a change became known.
type Cause uint8

const (
	CauseInitial Cause = iota + 1 // the first list, or the snapshot that a late handler starts with
	CauseWatch                    // an event of a watch
	CauseRelist                   // the comparison of a later list with what was known
	CauseResync                   // nothing changed: it was time for the Resync of a handler
	CauseDerived                  // a step of a [Graph]
)

func (c Cause) String() string {
	switch c {
	case CauseInitial:
		return "initial"
	case CauseWatch:
		return "watch"
	case CauseRelist:
		return "relist"
	case CauseResync:
		return "resync"
	case CauseDerived:
		return "derived"
	}
	return fmt.Sprintf("Cause(%d)", uint8(c))
}

// defaultLimit is how many deltas a consumer may be behind before its backlog is folded.
const defaultLimit = 1024

// A Delta is one change of one object, as [Informer.Events] yields it and a [Cursor] returns it.
// Its objects are shared.
type Delta[T Identified] struct {
	Type            EventType
	Cause           Cause  // if changes were folded, the cause of the last one
	Initial         bool   // an Added of the content that the consumer begins with
	Old             T      // the version before, as this consumer has it; zero for Added
	New             T      // zero for Deleted
	ResourceVersion string // of the collection, after the change
}

// Object returns New, or Old of a Deleted.
func (d Delta[T]) Object() T {
	if d.Type == Deleted {
		return d.Old
	}
	return d.New
}

// Key returns the key of the object.
func (d Delta[T]) Key() Key { return KeyOf(d.Object()) }

// emit calls yield with the deltas that lead from d.Old to d.New, and sets their types. There is
// none if both are one object. There are two if the UID differs, because the object was deleted and
// created again. In all other cases there is one. A zero Old or New means that there is no object.
func emit[T Identified](d Delta[T], yield func(Delta[T])) {
	var zero T
	switch {
	case equal.Same(d.Old, d.New):
	case equal.IsZero(d.Old):
		d.Type = Added
		yield(d)
	case equal.IsZero(d.New):
		d.Type, d.Initial = Deleted, false
		yield(d)
	case d.Old.GetUID() == d.New.GetUID():
		d.Type, d.Initial = Updated, false
		yield(d)
	default:
		gone, came := d, d
		gone.Type, gone.Initial, gone.New = Deleted, false, zero
		came.Type, came.Old = Added, zero
		yield(gone)
		yield(came)
	}
}
