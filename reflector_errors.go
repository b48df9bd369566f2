package lw

import (
	"context"
	"errors"
	"fmt"
	"net/http"

	apierrors "k8s.io/apimachinery/pkg/api/errors"

	"github.com/go-lw/lw/internal/decode"
	"github.com/go-lw/lw/internal/listopts"
	"github.com/go-lw/lw/internal/pace"
)

var (
	errEmptyWatch = errors.New("the server closed the watch early, without an event")
	// errSilent ends a watch on which nothing was heard.
	errSilent = errors.New("nothing was heard on the watch")
	// errStalled ends a list that makes no progress.
	errStalled = errors.New("the server made no progress")
	errNoEnd   = errors.New("the server did not end the initial events of the streamed list")
	errCut     = errors.New("the stream ended before its initial events did")
)

// An olderError says that the server answered with an older state than one that was seen before.
type olderError struct{ got, seen string }

func (e *olderError) Error() string {
	return fmt.Sprintf("the server answered with resource version %s, which is older than %s seen before", e.got, e.seen)
}

// ServerIsOlder is what package serve looks for: a client that is sent to that server would go back.
func (e *olderError) ServerIsOlder() {}

// isLost reports whether a watch cannot go on from the position, so that only a list can help. The
// server has no history from there on, or has not reached the position yet. Or it has an object
// that it cannot read: every watch that starts before the removal of that object fails. Or it has
// sent what no correct server sends.
func isLost(err error) bool {
	var proto *protocolError
	return pace.IsExpired(err) || pace.IsTooLarge(err) || apierrors.IsStoreReadError(err) || errors.As(err, &proto)
}

// isOutOfOrder reports whether an event was not newer than the position.
func isOutOfOrder(err error) bool {
	proto, ok := errors.AsType[*protocolError](err)
	return ok && proto.old
}

// isFinal reports whether err is how the request has ended, and not that nothing more comes from it:
// the server has said it, or no connection was made.
func isFinal(err error) bool {
	_, garbled := errors.AsType[*decode.SyntaxError](err)
	return pace.IsStatus(err) || garbled || pace.IsUnreachable(err) && !errors.Is(err, context.Canceled)
}

// refusesWatch reports whether err is a refusal of a watch that says nothing about lists: a right
// that is missing, or a server or a proxy that has no watches.
func refusesWatch(err error) bool {
	refused, _ := pace.IsRefusal(err)
	return refused || codeOf(err) == http.StatusNotImplemented
}

// A watchRefusedError says what follows from a refusal of the watch.
type watchRefusedError struct{ err error }

func (e *watchRefusedError) Error() string {
	return fmt.Sprintf("the list is answered, but the watch is refused, so that only lists show changes: %v", e.err)
}

func (e *watchRefusedError) Unwrap() error { return e.err }

// A finalError is an [ErrPermanent] that has ended Run. Other failures have the same texts, and are
// retried.
type finalError struct{ err error }

func (e *finalError) Error() string {
	return fmt.Sprintf("%v (no retry can help, so Run has ended)", e.err)
}

func (e *finalError) Unwrap() error { return e.err }

// isOwnCause reports whether err is why the reflector itself ends a request, be it a failure or not.
func isOwnCause(err error) bool {
	return isOwnEnd(err) || errors.Is(err, errSilent) || errors.Is(err, errStalled) || errors.Is(err, errNoEnd)
}

// causeOf returns why ctx was cancelled, if that ended the request, or else err. What the server has
// said stands, even if the reflector was about to end the request for a reason of its own: the next
// one may be to a server that does not know it, and only err says what was wrong. So do an answer
// that cannot be read and a server that cannot be reached. The answer of a server that has another
// history is an [ErrRewound] too.
func causeOf(ctx context.Context, err error) error {
	cause := context.Cause(ctx)
	switch {
	case err != nil && cause != nil && !(isOwnCause(cause) && isFinal(err)):
		return cause
	case apierrors.HasStatusCause(err, listopts.CauseReplaced):
		return fmt.Errorf("%w: %w", ErrRewound, err)
	}
	return err
}
