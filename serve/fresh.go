package serve

import (
	"context"
	"errors"
	"fmt"
	"sync/atomic"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"

	"github.com/go-lw/lw/internal/listopts"
	"github.com/go-lw/lw/internal/pace"
)

// patience is how long a request waits for a version that is not here yet, as on kube-apiserver.
const patience = 3 * time.Second

// catchUpPatience is how long a collection may take to what its server has answered to have. The
// watch of a kube-apiserver brings its version within two seconds, but it can be made to do so only
// every five or so; see pace.HastenAgain.
const catchUpPatience = 3 * patience

// The causes of the end of a question to the server that has taken too long.
var (
	errSilent = fmt.Errorf("the server has not answered in %v", patience)
	errBehind = fmt.Errorf("its watch has not brought it in %v", catchUpPatience)
)

// withPatience returns a context for catchUp. It ends with errSilent, or, once the server has
// answered, with errBehind.
func withPatience(ctx context.Context) (context.Context, context.CancelFunc) {
	ctx, cancel := context.WithCancelCause(ctx)
	var answered atomic.Bool
	timer := time.AfterFunc(patience, func() {
		if answered.Load() {
			cancel(errBehind)
		}
		cancel(errSilent)
	})
	ctx = pace.WithAnswered(ctx, func() {
		if !answered.Swap(true) {
			timer.Reset(catchUpPatience)
		}
	})
	return ctx, func() { timer.Stop(); cancel(nil) }
}

// newest returns when the collection is as new as its server was when the request came. The error
// says that this cannot be known now.
func (c *collection) newest(ctx context.Context) error {
	if c.catchUp == nil {
		return nil
	}
	return c.caughtUp(ctx, c.catchUp)
}

// caughtUp is newest where catchUp asks the server.
func (c *collection) caughtUp(ctx context.Context, catchUp func(context.Context) (string, error)) error {
	asked, cancel := withPatience(ctx)
	defer cancel()
	version, err := versionOf(catchUp(asked))
	if err == nil {
		err = c.history.waitFor(asked, version, patience)
	}
	if err == nil || ctx.Err() != nil {
		return err
	}
	return errNotFresh(err)
}

// versionOf returns the version of the server that a catchUp has returned.
func versionOf(text string, err error) (uint64, error) {
	if err != nil {
		return 0, err
	}
	return listopts.ParseVersion(text)
}

// reach waits until everything up to version is here, for as long as a request may wait. If that
// takes a while it asks the collection's server, so that a version which no event of the collection
// will ever have does not keep the client waiting.
func (c *collection) reach(ctx context.Context, version uint64) error {
	if c.catchUp == nil {
		return c.history.waitFor(ctx, version, patience)
	}
	if c.history.waitFor(ctx, version, patience/30) == nil {
		return nil
	}
	asked, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	_, _ = c.catchUp(asked) // if it fails, the version does not come
	return c.history.waitFor(ctx, version, patience/30)
}

// maxOlder is how often the server must say that it is older than a version for that to be
// believed. One of its replicas may lag. An informer believes an older list as late.
const maxOlder = 3

// resolve returns when no doubt is left to which history version belongs: it is here, or the server
// has not come to it since its history was replaced. That takes no longer than other requests wait.
// A client that got the error of a replaced history without need would go back to what is here.
func (c *collection) resolve(ctx context.Context, version uint64) error {
	asked, cancel := withPatience(ctx)
	defer cancel()
	for range maxOlder {
		if c.catchUp == nil || !c.history.doubts(version) {
			return nil
		}
		now, err := versionOf(c.catchUp(asked))
		switch {
		case err != nil && ctx.Err() != nil:
			return err
		case err != nil:
			return errNotFresh(err)
		case now >= version:
			return c.history.waitFor(ctx, version, patience)
		}
	}
	return nil
}

// reachExactly is reach for a request that wants the state at version itself. One that cannot come
// is not waited for.
func (c *collection) reachExactly(ctx context.Context, version uint64) error {
	if err := c.resolve(ctx, version); err != nil || !c.history.isAhead(version) {
		return err
	}
	return c.reach(ctx, version)
}

func (c *collection) notSynced() error {
	return tooSoon(fmt.Sprintf("%s are not synced yet", c.name))
}

// A notFreshError is the answer to a request for the newest state while the server of the informer
// does not answer: a timeout, as a server gives it that cannot reach its store. Nothing was written
// yet, so the request can be forwarded.
type notFreshError struct {
	*apierrors.StatusError
	// older says that the server has answered with an older state than what is here. It lags, or has
	// another history, which the informer is finding out. A client that read there now, and then
	// watched here, would get what that server never had.
	older bool
}

func errNotFresh(err error) error {
	status := listopts.TooLarge(0, 0).(*apierrors.StatusError)
	status.ErrStatus.Message = fmt.Sprintf("the newest state cannot be known: %v", err)
	var older interface{ ServerIsOlder() }
	return &notFreshError{status, errors.As(err, &older)}
}
