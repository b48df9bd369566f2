package pace

import (
	"context"
	"sync"
	"time"
)

// An SharedQuery asks a server for its version, on behalf of many. Those that come while a request
// is under way share the next one: its answer may be older than they are. Any goroutine may call
// its methods.
type SharedQuery struct {
	mu     sync.Mutex
	next   *Answer   // that of the request that has not begun; nil: nobody waits for one
	asking bool      // there is a goroutine that makes requests
	began  time.Time // when the last one began
}

// queryGap is the least time between the beginnings of two requests.
const queryGap = 100 * time.Millisecond

// An Answer is what a request has brought.
type Answer struct {
	Done    chan struct{} // closed when Version or Err is set
	Version string
	Err     error
}

// Join returns the answer to a request that has not begun. It is made by ask, in a goroutine that
// start starts, unless that returns false. The requests end when stopped is closed. In both cases
// the error is cause.
func (q *SharedQuery) Join(ask func(context.Context) (string, error), start func(func()) bool, stopped <-chan struct{}, cause error) *Answer {
	q.mu.Lock()
	defer q.mu.Unlock()
	if q.next == nil {
		q.next = &Answer{Done: make(chan struct{})}
	}
	a := q.next
	if !q.asking {
		if q.asking = start(func() { q.run(ask, stopped, cause) }); !q.asking {
			q.next = nil
			a.end("", cause)
		}
	}
	return a
}

// run makes requests until nobody waits for one.
func (q *SharedQuery) run(ask func(context.Context) (string, error), stopped <-chan struct{}, cause error) {
	ctx, cancel := context.WithCancelCause(context.Background())
	var watching sync.WaitGroup
	defer watching.Wait()
	defer cancel(nil)
	watching.Go(func() {
		select {
		case <-stopped:
			cancel(cause)
		case <-ctx.Done():
		}
	})
	for {
		pause := time.NewTimer(time.Until(q.began.Add(queryGap))) // only this goroutine sets began
		select {
		case <-pause.C:
		case <-ctx.Done():
			pause.Stop()
		}
		q.mu.Lock()
		a := q.next
		q.next, q.began, q.asking = nil, time.Now(), a != nil
		q.mu.Unlock()
		if a == nil {
			return
		}
		a.end(ask(ctx))
	}
}

func (a *Answer) end(version string, err error) {
	a.Version, a.Err = version, err
	close(a.Done)
}
