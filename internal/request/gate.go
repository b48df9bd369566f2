package request

import (
	"context"
	"errors"
	"sync"
	"time"

	"k8s.io/apimachinery/pkg/runtime/schema"
)

// ErrMoved is the error of a source whose collection is another one from now on: a list follows at
// once, and nothing has failed. ErrUnasked is the error of one that has asked no server: what was
// counted as a request was none. An error may be both. ErrRenewed is that of one whose collection is
// the same, but whose history begins anew: a list follows at once, and nothing has failed.
var (
	ErrMoved   = errors.New("the source begins anew")
	ErrUnasked = errors.New("no server was asked")
	ErrRenewed = errors.New("the history begins anew")

	ErrMovedUnasked = errors.Join(ErrMoved, ErrUnasked)
)

// IsGate reports whether err is how a gate of package kinds ends a request: nothing has failed.
func IsGate(err error) bool {
	return errors.Is(err, ErrMoved) || errors.Is(err, ErrUnasked) || errors.Is(err, ErrRenewed)
}

// A LateError is a refusal that says nothing of what the server can do: it does not serve the kind
// yet.
type LateError struct{ Err error }

func (e *LateError) Error() string { return e.Err.Error() }

func (e *LateError) Unwrap() error { return e.Err }

// MemoOf returns the Memo of the reflector that asks, or nil.
func MemoOf(ctx context.Context) *Memo {
	memo, _ := ctx.Value(memoKey{}).(*Memo)
	return memo
}

// A nap is a pause of a reflector that a source can end.
type nap struct {
	mu    sync.Mutex
	woken bool          // since the end of the last one; guarded by mu
	ended chan struct{} // of the present pause, or nil; guarded by mu
}

// Sleep waits until d is over, ctx is done, or the source calls Wake, or has since the last Sleep.
func (m *Memo) Sleep(ctx context.Context, d time.Duration) {
	m.nap.mu.Lock()
	ended := make(chan struct{})
	if m.nap.woken {
		close(ended)
	}
	m.nap.ended = ended
	m.nap.mu.Unlock()
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-t.C:
	case <-ended:
	case <-ctx.Done():
	}
	m.nap.mu.Lock()
	defer m.nap.mu.Unlock()
	m.nap.ended, m.nap.woken = nil, false
}

// Wake ends the pause of the reflector, also one that begins later. Any goroutine may call it.
func (m *Memo) Wake() {
	m.nap.mu.Lock()
	defer m.nap.mu.Unlock()
	if m.nap.ended != nil && !m.nap.woken {
		close(m.nap.ended)
	}
	m.nap.woken = true
}

type resourceKey struct{}

// WithResource returns a context for a request of a collection of gvr, whose plural in the URL may
// be a guess.
func WithResource(ctx context.Context, gvr schema.GroupVersionResource) context.Context {
	return context.WithValue(ctx, resourceKey{}, gvr)
}

// ResourceOf returns the resource of WithResource, or the zero one.
func ResourceOf(ctx context.Context) schema.GroupVersionResource {
	gvr, _ := ctx.Value(resourceKey{}).(schema.GroupVersionResource)
	return gvr
}
