package serve

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
	for _, c := range h.all() {
		all = append(all, c.status())
	}
	return all
}

func (c *collection) status() Status {
	n := &c.counts
	has := c.history.extent()
	return Status{
		Group: c.group, Version: c.version, Resource: c.name, Synced: has.synced, Objects: has.objects,
		ResourceVersion: has.here, Oldest: has.oldest, Events: has.events, Bytes: has.bytes, Watches: int(n.open.Load()),
		Lists: n.lists.Load(), Opened: n.watches.Load(), Sent: n.events.Load(), Encoded: c.encoder.encoded.Load(), Expired: n.expired.Load(),
	}
}
