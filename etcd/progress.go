package etcd

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"time"
)

// A heartbeat asks the server of one watch for its revision, now and then, and ends the watch if
// nothing comes. The answer is a response without events, which the watch yields as a bookmark.
// Servers send such responses by themselves too, but only every ten minutes, and a kube-apiserver's
// etcd is compacted every five.
type heartbeat struct {
	every time.Duration
	now   chan struct{} // has a value if somebody asks for a bookmark

	heard atomic.Uint64 // how many responses have come
	// waiting is when the wait for the next response began, in nanoseconds since start; 0: nobody
	// waits, because the events of the last one are being handled.
	waiting atomic.Int64
	start   time.Time
}

func newHeartbeat(every time.Duration) *heartbeat {
	// start is a moment ago, so that no wait begins at 0.
	return &heartbeat{every: every, now: make(chan struct{}, 1), start: time.Now().Add(-time.Millisecond)}
}

// errSilent ends a watch on which no answer has come.
var errSilent = errors.New("etcd: the server does not answer on the watch")

// waits is called before the wait for a response, and came after it.
func (h *heartbeat) waits() { h.waiting.Store(int64(time.Since(h.start))) }

func (h *heartbeat) came() {
	h.waiting.Store(0)
	h.heard.Add(1)
}

// asks is how often the server is asked within every. It does not answer while it still has old
// events for the watch, or looks for them.
const asks = 4

// soon has run call ask now.
func (h *heartbeat) soon() {
	select {
	case h.now <- struct{}{}:
	default: // somebody has asked, and the request was not made yet
	}
}

// run calls ask every so often, and when somebody asks. It ends when ctx is done, and cancels the
// watch if no answer has come in time. ask fails only if the stream is broken, and then whoever
// reads from it knows.
func (h *heartbeat) run(ctx context.Context, ask func() error, cancel context.CancelCauseFunc) {
	ticker := time.NewTicker(max(h.every/asks, 1))
	defer ticker.Stop()
	q := question{answered: true}
	for turn := 1; ; turn++ {
		select {
		case <-ctx.Done():
			return
		case <-h.now:
			turn--
		case <-ticker.C:
			if q.answered = q.answered || h.answers(q); q.answered {
				if turn%asks != 0 {
					continue
				}
				q = question{asked: time.Now(), heard: h.heard.Load()}
			} else if time.Since(q.asked) >= h.every {
				cancel(fmt.Errorf("%w for %v", errSilent, h.every))
				return
			}
		}
		if ask() != nil {
			return
		}
	}
}

// A question is one that the server must answer in time.
type question struct {
	asked    time.Time
	heard    uint64 // how many responses had come
	answered bool
}

// answers reports whether something has come since q, or could not come because nobody waited for
// it all the time.
func (h *heartbeat) answers(q question) bool {
	waiting := h.waiting.Load()
	return h.heard.Load() != q.heard || waiting == 0 || !h.start.Add(time.Duration(waiting)).Before(q.asked)
}

// heartbeats are those of the open watches of a collection.
type heartbeats struct {
	mu   sync.Mutex
	open map[*heartbeat]struct{} // guarded by mu
}

func (all *heartbeats) add(h *heartbeat) {
	all.mu.Lock()
	defer all.mu.Unlock()
	all.open[h] = struct{}{}
}

func (all *heartbeats) remove(h *heartbeat) {
	all.mu.Lock()
	defer all.mu.Unlock()
	delete(all.open, h)
}

// soon has every open watch yield a bookmark soon.
func (all *heartbeats) soon() {
	all.mu.Lock()
	defer all.mu.Unlock()
	for h := range all.open {
		h.soon()
	}
}
