package lw

import (
	"fmt"
	"maps"
	"sync"
	"sync/atomic"
	"time"
)

// Status is what an [Informer] or a [Reflector] is doing, as of one moment. Who has waited (for the sync, or for a version)
// finds in it what the wait has promised.
//
// [Status.Healthy] is what a readiness probe wants to know. It is red until Synced, when Phase is PhaseStopped, and once requests
// have failed for a minute on end, which Since tells: then the store is whole, but may be out of date. Nothing else makes
// it red. A watch that breaks is resumed, and the objects of SetAside hide no others: those are for an alert, as is a Pending
// that only grows, which is that of a handler that hangs. A quiet collection has an old LastEvent.
//
// A liveness probe wants no more than that Phase is not PhaseStopped: a restart mends no server, and costs it a list.
type Status struct {
	Informer        string // Options.Name
	Phase           Phase
	Synced          bool          // a whole list of a real state is in the store
	ResourceVersion string        // the store's: every event up to it has been applied
	Objects         int           // in the store
	LastEvent       time.Time     // when the server was last heard on a watch; zero: never
	Failures        int           // requests that failed in a row; 0 once the server makes progress, as by a whole list
	Err             error         // the last failure, an *Error; nil while Failures is 0
	Since           time.Time     // of the first failure since the server made progress; zero while Failures is 0
	SetAside        map[Key]error // objects that could not be decoded, transformed or indexed, and why; nil: none
	Lists           uint64        // requests for a list, of which each page is one
	Probes          uint64        // requests for the server's version: lists of at most one object
	Watches         uint64        // requests for a watch or a streamed list
	Streams         uint64        // those of Watches for a streamed list
	Relists         uint64        // whole lists that replaced the content, without the first
	Failed          uint64        // requests that ended with an error, watches that were resumed included
	Events          uint64        // watch events, bookmarks and initial ones included
	Mode            ListMode      // how the last list was asked for; before the first: Options.List
	Pending         int           // changes that wait for the slowest handler
	Epoch           int           // how often the server went back in time
}

// Phase is what a reflector is doing.
type Phase int

const (
	PhaseIdle      Phase = iota // Run has not been called
	PhaseListing                // a list was asked for
	PhaseStreaming              // the initial events of a streamed list come in
	PhaseWatching               // changes come in
	PhaseWaiting                // after a failure, before the next attempt
	PhaseStopped                // Run has returned, or is about to
)

func (p Phase) String() string {
	switch p {
	case PhaseIdle:
		return "idle"
	case PhaseListing:
		return "listing"
	case PhaseStreaming:
		return "streaming"
	case PhaseWatching:
		return "watching"
	case PhaseWaiting:
		return "waiting"
	case PhaseStopped:
		return "stopped"
	}
	return fmt.Sprintf("Phase(%d)", int(p))
}

// board is where a reflector's goroutine notes what Status tells.
type board struct {
	events    atomic.Uint64
	born      time.Time
	lastEvent atomic.Int64 // nanoseconds after born, which costs half of what the time of day does; 0: none

	mu       sync.Mutex
	phase    Phase         // guarded by mu, as all below
	synced   bool          //
	lists    uint64        //
	probes   uint64        //
	watches  uint64        //
	streams  uint64        // of watches
	relists  uint64        //
	failed   uint64        // requests that ended with an error
	failures int           //
	err      error         //
	since    time.Time     // of the first failure; zero while failures is 0
	mode     ListMode      //
	setAside map[Key]error // changed by the reflector's goroutine alone, which reads it without mu
	epoch    int           //
}

func (b *board) status(mode ListMode) Status {
	b.mu.Lock()
	defer b.mu.Unlock()
	s := Status{
		Phase: b.phase, Synced: b.synced, Failures: b.failures, Err: b.err, Since: b.since,
		SetAside: maps.Clone(b.setAside), Lists: b.lists, Probes: b.probes, Watches: b.watches, Streams: b.streams, Relists: b.relists, Failed: b.failed, Events: b.events.Load(), Mode: b.mode, Epoch: b.epoch,
	}
	if s.Mode == ListAuto {
		s.Mode = mode
	}
	if at := b.lastEvent.Load(); at != 0 {
		s.LastEvent = b.born.Add(time.Duration(at))
	}
	return s
}

// now is the time since the board was made.
func (b *board) now() time.Duration { return time.Since(b.born) }

// heard notes n events, of which the last has just been applied, and returns the time.
func (b *board) heard(n uint64) time.Duration {
	now := b.now()
	b.events.Add(n)
	b.lastEvent.Store(max(1, int64(now)))
	return now
}

func (b *board) setPhase(p Phase) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.phase = p
}

func (b *board) setMode(m ListMode) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.mode = m
}

func (b *board) requested(op string) {
	b.mu.Lock()
	defer b.mu.Unlock()
	switch op {
	case opList:
		b.lists++
	case opProbe:
		b.probes++
	case opStream:
		b.streams++
		b.watches++
	default:
		b.watches++
	}
}

func (b *board) fail(failures int, err error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.failures, b.err = failures, err
	if b.since.IsZero() {
		b.since = time.Now()
	}
}

func (b *board) requestFailed() {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.failed++
}

func (b *board) recovered() {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.recoveredLocked()
}

func (b *board) recoveredLocked() { b.failures, b.err, b.since = 0, nil, time.Time{} }

// replaced notes that a whole list has been taken over. It comes before anybody can learn of that in another way.
func (b *board) replaced(epoch bool) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.synced {
		b.relists++
	}
	b.synced, b.phase = true, PhaseWatching
	b.recoveredLocked()
	if epoch {
		b.epoch++
	}
}

func (b *board) addAside(key Key, err error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.setAside == nil {
		b.setAside = map[Key]error{}
	}
	b.setAside[key] = err
}

func (b *board) removeAside(key Key) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if delete(b.setAside, key); len(b.setAside) == 0 {
		b.setAside = nil
	}
}

// versionCell is a resource version that one goroutine sets and any may read.
type versionCell struct {
	mu      sync.Mutex
	version string
}

func (c *versionCell) set(version string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.version = version
}

func (c *versionCell) get() string {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.version
}
