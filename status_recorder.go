package lw

import (
	"maps"
	"sync"
	"sync/atomic"
	"time"
)

// A statusRecorder has what Status shows. The goroutine of Run writes it, and any goroutine reads
// it.
type statusRecorder struct {
	events    atomic.Uint64
	started   time.Time
	lastEvent atomic.Int64 // nanoseconds after started; 0: none. It costs half of the time of day.

	mu       sync.Mutex
	phase    Phase     // guarded by mu, as all below
	synced   bool      // a whole list was taken over
	lists    uint64    // requests, as Status names them
	probes   uint64    //
	watches  uint64    //
	streams  uint64    // included in watches
	relists  uint64    //
	failed   uint64    // requests that ended with an error
	failures int       // in a row
	err      error     // the last failure
	since    time.Time // of the first failure in a row; zero while failures is 0
	mode     ListMode  //
	epoch    int       //
	// setAside is changed by the goroutine of Run alone, which reads it without mu.
	setAside map[Key]error
}

func (b *statusRecorder) status(mode ListMode) Status {
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
		s.LastEvent = b.started.Add(time.Duration(at))
	}
	return s
}

// now returns the time since the recorder was made.
func (b *statusRecorder) now() time.Duration { return time.Since(b.started) }

// heard notes n events, of which the last has just been applied, and returns the time.
func (b *statusRecorder) heard(n uint64) time.Duration {
	now := b.now()
	b.events.Add(n)
	b.lastEvent.Store(max(1, int64(now)))
	return now
}

func (b *statusRecorder) setPhase(p Phase) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.phase = p
}

func (b *statusRecorder) setMode(m ListMode) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.mode = m
}

func (b *statusRecorder) requested(op string) {
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

func (b *statusRecorder) fail(failures int, err error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.failures, b.err = failures, err
	if b.since.IsZero() {
		b.since = time.Now()
	}
}

func (b *statusRecorder) requestFailed() {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.failed++
}

func (b *statusRecorder) recovered() {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.recoveredLocked()
}

func (b *statusRecorder) recoveredLocked() { b.failures, b.err, b.since = 0, nil, time.Time{} }

// replaced notes that a whole list has been taken over. It is called before anybody can notice that
// in another way.
func (b *statusRecorder) replaced(epoch bool) {
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

func (b *statusRecorder) addAside(key Key, err error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.setAside == nil {
		b.setAside = map[Key]error{}
	}
	b.setAside[key] = err
}

func (b *statusRecorder) removeAside(key Key) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if delete(b.setAside, key); len(b.setAside) == 0 {
		b.setAside = nil
	}
}
