package serve

import (
	"context"
	"fmt"
	"net/http"
	"sync"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
)

// limiter counts the watches that are open, and lets a number of lists go on at once.
type limiter struct {
	lists chan struct{} // has a token for each list in progress

	mu       sync.Mutex // guards the fields below
	watches  int
	byClient map[string]int
}

// listPatience is how long a list waits for its turn.
const listPatience = 5 * time.Second

// beginList waits until a list may go on. The caller calls done at its end.
func (l *limiter) beginList(ctx context.Context) (done func(), err error) {
	done = func() { <-l.lists }
	select {
	case l.lists <- struct{}{}:
		return done, nil
	default:
	}
	timer := time.NewTimer(listPatience)
	defer timer.Stop()
	select {
	case l.lists <- struct{}{}:
		return done, nil
	case <-timer.C:
		return nil, tooSoon(fmt.Sprintf("%d lists are in progress", cap(l.lists)))
	case <-ctx.Done():
		return nil, context.Cause(ctx)
	}
}

// beginWatch counts a watch of a client. The caller calls done at its end.
func (l *limiter) beginWatch(client string, limits *Limits) (done func(), err error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.watches >= limits.Watches {
		return nil, tooSoon(fmt.Sprintf("%d watches are open", l.watches))
	}
	if n := l.byClient[client]; n >= limits.WatchesPerClient {
		return nil, tooSoon(fmt.Sprintf("%d watches of this client are open", n))
	}
	if l.byClient == nil {
		l.byClient = map[string]int{}
	}
	l.watches++
	l.byClient[client]++
	return func() {
		l.mu.Lock()
		defer l.mu.Unlock()
		l.watches--
		if l.byClient[client]--; l.byClient[client] == 0 {
			delete(l.byClient, client)
		}
	}, nil
}

// beginWatch counts a watch of the client of a request, whose end Serve then waits for.
func (s *served) beginWatch(r *http.Request) (done func(), err error) {
	h := s.handler
	leave, err := h.limiter.beginWatch(h.opts.Client(r), &h.opts.Limits)
	if err != nil {
		return nil, err
	}
	if !s.enter() {
		leave()
		return nil, tooSoon("the server is shutting down")
	}
	s.counts.watches.Add(1)
	s.counts.open.Add(1)
	return func() {
		s.counts.open.Add(-1)
		s.watches.Done()
		leave()
	}, nil
}

// tooSoon is the answer to a request that may succeed a second later.
func tooSoon(text string) error { return apierrors.NewTooManyRequests(text, 1) }
