// Package signal tells goroutines that something has changed, by closing the channels that they
// have asked for. It costs a writer one atomic load as long as nobody has asked.
package signal

import (
	"context"
	"sync"
	"sync/atomic"
)

// A Set has the channels that wait for a change of some keys, or of any key. A channel is closed by
// the first change after it was asked for, and then the Set has let go of it. It also lets go of a
// channel whose context is done; such a channel stays open. The zero value is ready. All methods
// are safe for concurrent use.
//
// Nobody misses a change who asks for the channel first and then reads, if the writer first makes
// the change and then fires: either the read shows the change, or the writer finds the channel.
type Set[K comparable] struct {
	// n is the number of channels. It is changed under mu, and is loaded without it: by a writer
	// after each change.
	n atomic.Int64

	mu     sync.Mutex
	at     map[place[K]]map[*signal[K]]struct{} // guarded by mu, as is closed; no map in it is empty
	closed bool
}

// A place is one of what a signal is about: a key, or any key.
type place[K comparable] struct {
	key K
	any bool
}

// A signal is one channel that somebody has asked for.
type signal[K comparable] struct {
	changed chan struct{}
	at      []place[K]  // where it is added; it never changes
	stop    func() bool // ends the context's interest in the signal; nil: there is no context
	over    bool        // nobody needs it any more; guarded by Set.mu
}

// Fired is what is left to do after channels were closed: their contexts have to let go of them.
// nil is nothing.
type Fired []func() bool

// Release does it. It may run code of the user, if a context is of a type of the user's. So the
// caller holds no lock.
func (f Fired) Release() {
	for _, stop := range f {
		stop()
	}
}

// Wait returns a channel that is closed by the next change of one of keys, or of any key if there
// are none. If guard is not nil, the channel is added while guard is held: then a writer that holds
// guard has all channels that it concerns from then on until it releases guard. No lock is held
// when ctx is used.
//
// A key that is not equal to itself (NaN) counts for nothing, since there is nothing that it could
// be about.
func (s *Set[K]) Wait(ctx context.Context, guard sync.Locker, keys ...K) <-chan struct{} {
	sig := newSignal(keys)
	// ctx may be done before the signal is added. Then over says so.
	sig.stop = context.AfterFunc(ctx, func() { s.forget(sig) })
	if !s.add(sig, guard) {
		sig.stop()
	}
	return sig.changed
}

// Take is like Wait, for a caller that lets go of the channel itself: by calling forget, at
// any time.
func (s *Set[K]) Take(key K) (changed <-chan struct{}, forget func()) {
	sig := newSignal([]K{key})
	s.add(sig, nil)
	return sig.changed, func() { s.forget(sig) }
}

func newSignal[K comparable](keys []K) *signal[K] {
	sig := &signal[K]{changed: make(chan struct{}), at: make([]place[K], 0, max(1, len(keys)))}
	for _, key := range keys {
		if key == key {
			sig.at = append(sig.at, place[K]{key: key})
		}
	}
	if len(keys) == 0 {
		sig.at = append(sig.at, place[K]{any: true})
	}
	return sig
}

// add adds sig, unless nothing can come of it. Then it returns false.
func (s *Set[K]) add(sig *signal[K], guard sync.Locker) bool {
	if guard != nil {
		guard.Lock()
		defer guard.Unlock()
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if sig.over || s.closed || len(sig.at) == 0 {
		return false
	}
	if s.at == nil {
		s.at = make(map[place[K]]map[*signal[K]]struct{})
	}
	for _, at := range sig.at {
		if s.at[at] == nil {
			s.at[at] = make(map[*signal[K]]struct{}, 1)
		}
		s.at[at][sig] = struct{}{}
	}
	s.n.Add(1)
	return true
}

// forget lets go of a signal that nobody needs any more, whether it was added, will be, or has
// fired.
func (s *Set[K]) forget(sig *signal[K]) {
	s.mu.Lock()
	defer s.mu.Unlock()
	sig.over = true
	s.removeLocked(sig)
}

// removeLocked removes a signal, if it is there. A map never gives back memory, so an empty one is
// dropped.
func (s *Set[K]) removeLocked(sig *signal[K]) {
	there := false
	for _, at := range sig.at {
		if _, ok := s.at[at][sig]; !ok {
			continue // it was not added, or at is twice in sig.at
		}
		there = true
		if delete(s.at[at], sig); len(s.at[at]) == 0 {
			delete(s.at, at)
		}
	}
	if there {
		s.n.Add(-1)
	}
	if len(s.at) == 0 {
		s.at = nil
	}
}

// Waiting reports whether there is a channel to close. It is inlined, and all that most writes do.
func (s *Set[K]) Waiting() bool { return s.n.Load() > 0 }

// Len returns the number of channels.
func (s *Set[K]) Len() int { return int(s.n.Load()) }

// Fire closes the channels of keys and those of any key, or nothing if there are no keys. The
// writer calls it when every read that begins from then on shows the change. It may hold locks of
// its own, which it has released when it calls Release of what Fire returns.
func (s *Set[K]) Fire(keys ...K) (fired Fired) {
	if !s.Waiting() || len(keys) == 0 {
		return nil
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, key := range keys {
		fired = s.fireLocked(place[K]{key: key}, fired)
	}
	return s.fireLocked(place[K]{any: true}, fired)
}

// FireWhere closes the channels of any key, and those of the keys for which changed returns true.
// It calls changed only for keys that have a channel, and with a lock held: changed must not use s.
func (s *Set[K]) FireWhere(changed func(key K) bool) (fired Fired) {
	if !s.Waiting() {
		return nil
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	for at := range s.at {
		if at.any || changed(at.key) {
			fired = s.fireLocked(at, fired)
		}
	}
	return fired
}

// fireLocked closes the channels of a place, lets go of them, and adds to fired what is left to do.
func (s *Set[K]) fireLocked(at place[K], fired Fired) Fired {
	for sig := range s.at[at] {
		close(sig.changed)
		if sig.stop != nil {
			fired = append(fired, sig.stop)
		}
		s.removeLocked(sig)
	}
	return fired
}

// Close lets go of all channels, which stay open, and of those that are asked for later. It is for
// the end of what changes.
func (s *Set[K]) Close() {
	s.mu.Lock()
	var stops Fired
	for _, signals := range s.at {
		for sig := range signals {
			if sig.stop != nil {
				stops = append(stops, sig.stop)
			}
			s.removeLocked(sig)
		}
	}
	s.closed = true
	s.mu.Unlock()
	stops.Release()
}
