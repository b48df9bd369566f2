package serve

import (
	"context"
	"net/http"
	"sync"
	"sync/atomic"
	"time"

	"golang.org/x/sync/singleflight"

	"github.com/go-lw/lw/internal/registry"
)

// A collection is what a Handler serves by one name: its history, the encoder of its objects, and
// the watches of its clients.
//
// # Changes
//
// lw.Follow calls a [feed] in the goroutine of Serve. The feed makes an item of each object, and an
// event of each change. It commits the events to the history when everything up to their version is
// there. The history is the present state, and the last events. A commit wakes whoever waits.
//
// # A get, a list
//
// ServeHTTP parses the request (request.go), asks Options.Authorize, and finds the collection and
// the format of the answer (dispatch.go). Then get and list (list.go) wait until the collection is
// as new as the request wants (fresh.go), and take the state from the history (history.go). The
// encoder returns the bytes of each item, which it makes once for all clients (encode.go, table.go,
// frame.go), and answer.go sends them. internal/registry decides about a write (write.go), and a
// store takes it (store.go), from where it comes back as a change.
//
// # A watch
//
// A watch (watch.go) opens a place in the history. A watcher is that place, a filter and a format;
// step reads the events behind its place, and puts their frames into a stream (watcher.go). A
// stream over net/http is written in the goroutine of its request (stream.go). A connection of
// Listener is taken over: a sweeper writes to many of them, and one that does not take all gets a
// goroutine of its own until it has caught up (sweep.go, conn.go). An event has one frame for all
// watches of a format.
//
// # Locks
//
//   - history.mu guards the history, the fields dropped and bytes of its events, and item.over.
//     Only history.go takes it.
//   - event.mu guards the frames of an event, while one goroutine makes one.
//   - encoder.locks has a lock for an item, while one goroutine encodes it.
//   - sweeper.mu guards which watches a sweeper has.
//   - verdicts.mu and turn are for long selectors (match.go), limiter.mu is of the Handler
//     (limit.go), and guard.mu of one stream (stream.go).
//   - Handler.mu guards which collections there are. No other lock is taken under it.
//
// A goroutine takes them in this order: event.mu, one of encoder.locks, history.mu. User code runs
// under the first two at most (Encode, Columns, OnError), never under history.mu; floor, which runs
// under it, reads an lw.Memory.
type collection struct {
	*resource
	history *history
	encoder *encoder
	opts    *Options // of the Handler, as limiter is
	limiter *limiter
	// catchUp returns when the collection is as new as its server was, with its version then. nil:
	// what is here is the newest.
	catchUp func(ctx context.Context) (string, error)
	writes  *writer                 // nil: clients can only read
	stop    context.CancelCauseFunc // ends Serve
	filters filters
	zipping singleflight.Group // lists that are compressed, by format, era and version
	counts  counts

	sweepers sweepers
	// watches are the open watches, and the goroutines that write to them. None begins after the
	// history has ended.
	watches sync.WaitGroup
	ends    ends
}

// ends are the times at which the watches of a collection end.
type ends struct {
	once    sync.Once
	closing context.Context // done when they are to end, within a while
	cut     context.Context // done when those are cut off that have not ended
	close   context.CancelFunc
	cutOff  context.CancelFunc
}

// cutAfter is how long after the end of its time a watch has to send what is left.
const cutAfter = time.Second

// end ends the watches within a while. Those whose clients do not take the end by then are cut off.
func (c *collection) end(within time.Duration) {
	c.history.close(within)
	c.ends.once.Do(func() {
		c.ends.close()
		time.AfterFunc(within+cutAfter, c.ends.cutOff)
	})
}

// beginWatch counts a watch of the client of a request, whose end Serve then waits for.
func (c *collection) beginWatch(r *http.Request) (done func(), err error) {
	leave, err := c.limiter.beginWatch(c.opts.Client(r), &c.opts.Limits)
	if err != nil {
		return nil, err
	}
	if !c.history.unlessEnded(func() { c.watches.Add(1) }) {
		leave()
		return nil, tooSoon("the server is shutting down")
	}
	c.counts.watches.Add(1)
	c.counts.open.Add(1)
	return func() {
		c.counts.open.Add(-1)
		c.watches.Done()
		leave()
	}, nil
}

// counts are what happened to a collection's clients.
type counts struct {
	lists, watches, events, expired atomic.Uint64
	open                            atomic.Int64
}

// A writer is what decides about the writes of clients, and what stores them.
type writer struct {
	kind  *registry.Kind
	store registry.Store
	// catchUp is that of the collection, also of one whose readers want what is here.
	catchUp func(ctx context.Context) (string, error)
	// behind is what has the objects; converted says that they are of another version there.
	behind    any
	converted bool
}

// has reports whether the collection has a subresource.
func (c *collection) has(subresource string) bool {
	switch {
	case c.writes == nil:
		return false
	case subresource == registry.SubStatus:
		return c.writes.kind.Status
	case subresource == registry.SubScale:
		return c.writes.kind.Scale != nil
	}
	return false
}
