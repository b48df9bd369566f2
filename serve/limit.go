package serve

import (
	"context"
	"fmt"
	"sync"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
)

// limiter counts the watches that are open, and lets a number of lists go on at once.
type limiter struct {
	lists chan struct{} // has a token for each list in progress

	mu       sync.Mutex // guards the fields below
	listsOf  map[string]*turns
	watches  int
	byClient map[string]int
}

// turns are those of the lists of one client, while it has any.
type turns struct {
	taken chan struct{} // has a token for each list that goes on, or waits for its turn among all
	lists int           // that have a turn or wait for one; guarded by limiter.mu
}

// listPatience is how long a list waits for its turn.
const listPatience = 5 * time.Second

// beginList waits until a list of a client may go on: first for its turn among those of the client,
// so that a client with many slow lists takes no turns of others. The caller calls done at its end.
func (l *limiter) beginList(ctx context.Context, client string, limits *Limits) (done func(), err error) {
	own := l.turnsOf(client, limits)
	timer := time.NewTimer(listPatience)
	defer timer.Stop()
	if err := take(ctx, own.taken, timer, " of this client alone"); err != nil {
		l.leave(client, own)
		return nil, err
	}
	if err := take(ctx, l.lists, timer, ""); err != nil {
		<-own.taken
		l.leave(client, own)
		return nil, err
	}
	return func() {
		<-l.lists
		<-own.taken
		l.leave(client, own)
	}, nil
}

// take puts a token into tokens, for which it waits until the timer fires.
func take(ctx context.Context, tokens chan struct{}, timer *time.Timer, whose string) error {
	select {
	case tokens <- struct{}{}:
		return nil
	default:
	}
	select {
	case tokens <- struct{}{}:
		return nil
	case <-timer.C:
		return tooSoon(fmt.Sprintf("%d lists are in progress%s", cap(tokens), whose))
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}

// turnsOf returns the turns of a client, and counts a list among them until leave.
func (l *limiter) turnsOf(client string, limits *Limits) *turns {
	l.mu.Lock()
	defer l.mu.Unlock()
	own := l.listsOf[client]
	if own == nil {
		if l.listsOf == nil {
			l.listsOf = map[string]*turns{}
		}
		own = &turns{taken: make(chan struct{}, limits.ListsPerClient)}
		l.listsOf[client] = own
	}
	own.lists++
	return own
}

func (l *limiter) leave(client string, own *turns) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if own.lists--; own.lists == 0 {
		delete(l.listsOf, client)
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

// tooSoon is the answer to a request that may succeed a second later.
func tooSoon(text string) error { return apierrors.NewTooManyRequests(text, 1) }
