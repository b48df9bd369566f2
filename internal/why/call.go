// Package why answers why a key of a work queue runs: which objects have changed since it ran last,
// and who has written that. It connects the call of a handler with what is added to a queue in the
// goroutine of that call, whoever wrote the handler. Package clientgo has what users see of it.
package why

import (
	"sync"
	"sync/atomic"
)

// The types of a change, which are those of lw.EventType. None is a change that was undone.
const (
	None = iota
	Added
	Updated
	Deleted
)

// The causes of lw that differ from the others here.
const (
	causeResync = 4
	causeTold   = 6
)

// A Call is what a handler is called for. Only the handler's goroutine uses it.
type Call struct {
	collection string
	active     bool
	number     uint64 // of the calls of this handler
	typ, cause uint8
	old, new   any
}

var (
	wanted atomic.Bool
	// calls has the Call of each goroutine that is a handler's.
	calls sync.Map
)

// Enter returns the Call of the calling goroutine, which makes the calls of a handler of
// collection, until Leave. It returns nil unless a [Queue] was made before, and then the rest costs
// nothing.
func Enter(collection string) *Call {
	if !wanted.Load() {
		return nil
	}
	c := &Call{collection: collection}
	calls.Store(goroutine(), c)
	return c
}

// Leave says that the goroutine makes no more calls.
func (c *Call) Leave() {
	if c != nil {
		calls.Delete(goroutine())
	}
}

// Begin says that a call of the handler begins. old or new is nil if there is none.
func (c *Call) Begin(typ, cause uint8, old, new any) {
	c.number++
	c.active, c.typ, c.cause, c.old, c.new = true, typ, cause, old, new
}

// End says that the call has ended, by a panic perhaps.
func (c *Call) End() { c.active, c.old, c.new = false, nil, nil }

// current returns the call that the calling goroutine is in, or nil.
func current() *Call {
	c, ok := calls.Load(goroutine())
	if call, _ := c.(*Call); ok && call.active {
		return call
	}
	return nil
}
