package kinds

import (
	"context"
	"sync"
	"time"

	"github.com/go-lw/lw/internal/request"
)

// A turn is one request of a gate. It has the state of the kind as it was when the request began,
// and notices when that changes. The kind has moved if it is served in another way, or no longer.
type turn struct {
	State
	moved chan struct{} // closed when the kind has moved
	stop  func()        // ends the calls of heard

	mu     sync.Mutex
	news   bool // the catalog has said something since; guarded by mu, as those below
	gone   bool // moved is closed
	onMove func()
}

// begin begins a turn. The caller must call end or stop.
func (g *gate[T]) begin(ctx context.Context) *turn {
	t := &turn{moved: make(chan struct{})}
	if m := g.memory(ctx); m != nil {
		m.failed.Store(false)
	}
	t.mu.Lock() // until State is set
	defer t.mu.Unlock()
	t.State, t.stop = g.catalog.listen(g.name, t.heard)
	return t
}

// heard gets each change of the kind's state.
func (t *turn) heard(s State) {
	t.mu.Lock()
	t.news = true
	first := !t.gone && (s.stand != t.stand || s.made != t.made || s.Resource != t.Resource ||
		s.Namespaced != t.Namespaced)
	t.gone = t.gone || first
	f := t.onMove
	t.mu.Unlock()
	if first {
		close(t.moved)
		if f != nil {
			f()
		}
	}
}

// then has f called when the kind moves, or at once if it has moved. It replaces the f of an
// earlier call.
func (t *turn) then(f func()) {
	t.mu.Lock()
	t.onMove = f
	gone := t.gone
	t.mu.Unlock()
	if gone {
		f()
	}
}

// end ends the turn. If its request has failed, the next news of the catalog ends the pause of the
// reflector.
func (g *gate[T]) end(ctx context.Context, t *turn, err error) {
	defer t.stop()
	m := g.memory(ctx)
	if err == nil || m == nil || request.IsGate(err) {
		return
	}
	m.failed.Store(true)
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.news { // it came during the request
		request.MemoOf(ctx).Wake()
	}
}

// pause waits until d is over, ctx is done, or the kind moves.
func (t *turn) pause(ctx context.Context, d time.Duration) {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
	case <-t.moved:
	case <-ctx.Done():
	}
}

// has reports whether c is closed.
func has(c <-chan struct{}) bool {
	select {
	case <-c:
		return true
	default:
		return false
	}
}
