package serve

import "sync/atomic"

// counts are what happened to a collection's clients.
type counts struct {
	encoded, lists, watches, events, expired atomic.Uint64
	open                                     atomic.Int64
}

// Status is the state of a collection that a [Handler] serves.
type Status struct {
	Group, Version, Resource string
	Synced                   bool
	Objects                  int
	// ResourceVersion is the version up to which clients have seen everything; Oldest is the oldest
	// one from which a watch may start.
	ResourceVersion, Oldest uint64
	Events                  int   // of the history
	Bytes                   int64 // of the encoded events of the history, and of the objects that they have ended
	Watches                 int   // open

	// The rest counts from the beginning of Serve.

	Lists, Opened uint64 // lists and watches that were answered
	Sent          uint64 // events that were sent to all clients
	Encoded       uint64 // objects that were encoded; an [Object] never is
	Expired       uint64 // watches that ended because the history had moved past them
}

// Status returns the status of each collection that is served, in the order of the calls of Serve.
func (h *Handler) Status() []Status {
	var all []Status
	for _, s := range h.all() {
		all = append(all, s.status())
	}
	return all
}

func (s *served) status() Status {
	c := &s.counts
	out := Status{
		Group: s.group, Version: s.resource.version, Resource: s.name, Watches: int(c.open.Load()),
		Lists: c.lists.Load(), Opened: c.watches.Load(), Sent: c.events.Load(), Encoded: c.encoded.Load(), Expired: c.expired.Load(),
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	out.Synced, out.Objects, out.Events, out.Bytes = s.begun, s.state.Len(), len(s.events), s.bytes
	out.ResourceVersion, out.Oldest = s.here, s.oldestLocked()
	return out
}
