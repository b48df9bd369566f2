package pace

import (
	"context"
	"sync"
	"time"
)

const (
	// Brief is the timeout of a watch that is to tell the server's version soon. A kube-apiserver
	// sends a bookmark two seconds before the end of a watch, so after one second here, or up to a
	// second later. A shorter watch gets none.
	Brief = 3 * time.Second
	// HastenAgain is how much later than a brief watch the next one may begin, at the earliest. Then
	// the brief one has had its bookmark, and most of the requests in a minute are left.
	HastenAgain = 3 * time.Second
	// progressGap is the least time between two calls of a source's Progress.
	progressGap = 100 * time.Millisecond
)

// A Refresher is what waits want of a reflector: that it learns soon of a version that the
// collection's events do not show. Then the watch is ended, and resumed as a brief one. Any
// goroutine may call its methods.
type Refresher struct {
	mu     sync.Mutex
	wanted string                  // the newest version that somebody waits for; "": nobody does
	began  time.Time               // when a watch was last ended, or a brief one began
	asked  time.Time               // when the source's Progress was last called
	cancel context.CancelCauseFunc // ends the watch that was opened last; nil: none was
}

// MayAsk returns 0 if the source's Progress may be called now, and notes that it is. Otherwise it
// returns after how long it may be.
func (h *Refresher) MayAsk() (again time.Duration) {
	h.mu.Lock()
	defer h.mu.Unlock()
	now := time.Now()
	if left := h.asked.Add(progressGap).Sub(now); left > 0 {
		return left
	}
	h.asked = now
	return 0
}

// Hasten has the position reach version soon, if the server has: the open watch is ended with
// cause, and the next one is brief. If the last one began not long ago, Hasten does nothing and
// returns after how long it may be called again.
func (h *Refresher) Hasten(version string, cause error) (again time.Duration) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if left := time.Until(h.began.Add(HastenAgain)); left > 0 {
		return left
	}
	h.wanted = version
	h.endLocked(cause)
	return 0
}

// End ends the open watch with that cause, unless one was ended not long ago.
func (h *Refresher) End(cause error) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if time.Until(h.began.Add(HastenAgain)) <= 0 {
		h.endLocked(cause)
	}
}

func (h *Refresher) endLocked(cause error) {
	h.began = time.Now()
	if h.cancel != nil {
		h.cancel(cause)
	}
}

// Open notes that a watch begins, which cancel ends, and reports whether it is to be brief. It does
// both under one lock: a Hasten in between would end the watch before this one. lacks reports
// whether a version is newer than the position.
func (h *Refresher) Open(lacks func(version string) bool, cancel context.CancelCauseFunc) (brief bool) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.cancel = cancel
	if !h.dueLocked(lacks) {
		return false
	}
	h.wanted, h.began = "", time.Now()
	return true
}

// Listed notes that a streamed list has become a plain watch, which cancel ends. It cannot be brief
// any more. So it is ended at once, with cause, if the list did not have what is wanted.
func (h *Refresher) Listed(lacks func(version string) bool, cancel context.CancelCauseFunc, cause error) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.cancel = cancel
	if h.dueLocked(lacks) {
		h.endLocked(cause)
	}
}

// dueLocked reports whether somebody waits for a version that lacks finds newer. If not, nothing is
// wanted any more.
func (h *Refresher) dueLocked(lacks func(version string) bool) bool {
	if h.wanted == "" || !lacks(h.wanted) {
		h.wanted = ""
	}
	return h.wanted != ""
}
