package oracle

import "time"

// A Wait is one call that waited for a version of the copy, or for a sync if Sync is set.
type Wait struct {
	Copy       int
	Who        string
	Sync       bool
	Version    uint64
	Epoch      int      // the epoch of Version
	Handler    *Handler // the handler whose sync was awaited; nil: none
	Graph      bool     // the graph over the copy was awaited
	CopySynced bool     // the copy said so when the wait had ended
	Call, Ret  int
	Err        error
	Took       time.Duration
	Limit      time.Duration // the timeout of the wait's context
}

// Waits records a wait that has ended. If Ret is 0 it ended now.
func (l *Log) Waits(w Wait) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if w.Ret == 0 {
		w.Ret = l.next()
	}
	l.waits = append(l.waits, &w)
}

// checkWaits checks that waits end in time, that no wait for a version ends before the server has
// that version, and that a wait for a handler's sync ends after the sync: W1 to W3, Y2, Y3. Whether
// a read after a wait is new enough (W1, W3, Y1) is checked with the reads.
func (l *Log) checkWaits(r *Result) {
	for _, w := range l.waits {
		r.met("W2")
		if w.Took > w.Limit+time.Second {
			r.fail(w.Ret, "W2", "a wait of %s took %v, its limit is %v", w.Who, w.Took, w.Limit)
		}
		if w.Err == nil && w.Version != 0 {
			r.met("W1")
			r.met("W3")
			if !l.truth.reached(point{w.Epoch, w.Version}, w.Ret) {
				r.fail(w.Ret, "W1", "a wait of %s for %d ended well before the server was there", w.Who, w.Version)
			}
		}
		if w.Handler != nil && w.Err == nil {
			r.met("Y3")
			if s := w.Handler.synced; len(s) == 0 || s[0] > w.Ret {
				r.fail(w.Ret, "Y2", "%s: a wait for its sync ended well before it was synced", w.Handler.Name)
			}
		}
	}
}
