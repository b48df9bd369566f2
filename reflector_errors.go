package lw

import (
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// Names of what a reflector does, in Error.Op and in Metrics.
const (
	opList     = "list"
	opStream   = "stream"
	opWatch    = "watch"
	opDecode   = "decode"
	opIndex    = "index"
	opMutation = "mutation"
)

// maxRetryAfter is the longest pause that a server may ask for; a longer one is taken for a mistake.
const maxRetryAfter = 5 * time.Minute

var (
	errEmptyWatch = errors.New("the server closed the watch at once, without an event")
	// errSilent is the cause of a watch that was ended because nothing was heard on it.
	errSilent = errors.New("nothing was heard on the watch")
	// errDoubt ends a watch whose server is to be asked for its version first. It is no failure.
	errDoubt = errors.New("the watch may be on another server")
	// errStalled is the cause of a list that was ended because it made no progress.
	errStalled = errors.New("the server made no progress")
	errNoEnd   = errors.New("the server did not end the initial events of the streamed list")
	errCut     = errors.New("the stream ended before its initial events did")
)

// protocolError is an answer that no server may give: what it follows can't be trusted, so the collection is listed again.
type protocolError struct{ msg string }

func (e *protocolError) Error() string { return "protocol error: " + e.msg }

func protocolErrorf(format string, args ...any) error {
	return &protocolError{fmt.Sprintf(format, args...)}
}

// olderError says that the server answered with an older state than one that was seen before.
type olderError struct{ got, seen string }

func (e *olderError) Error() string {
	return fmt.Sprintf("the server answered with resource version %s, which is older than %s seen before", e.got, e.seen)
}

// unusable says why obj cannot stand in a collection, or nil.
func unusable[T Object](obj T) error {
	var zero T
	if obj == zero {
		return &Error{Op: opDecode, Err: errors.New("the object is nil")}
	}
	if key := KeyOf(obj); key.Name == "" {
		return &Error{Op: opDecode, Key: key, Err: errors.New("the object has no name")}
	}
	return nil
}

// manyErrors is what is wrong with several objects of which no key is known, and so is told as one: a list may be full of them.
type manyErrors struct {
	first error
	more  int
}

func (m *manyErrors) Error() string {
	return fmt.Sprintf("%v (and %d more without a key)", m.first, m.more)
}

func (m *manyErrors) Unwrap() error { return m.first }

// oneMore adds err to what is known already.
func oneMore(known, err error) error {
	if m, ok := known.(*manyErrors); ok {
		m.more++
		return m
	}
	if e, ok := known.(*Error); ok {
		known = e.Err
	}
	return &manyErrors{first: known, more: 1}
}

// isLost reports whether err means that a watch cannot go on from where it stood. An object that the server cannot read any more
// is in the way of every watch that starts before it was removed.
func isLost(err error) bool {
	var proto *protocolError
	return isExpired(err) || isTooLarge(err) || apierrors.IsStoreReadError(err) || errors.As(err, &proto)
}

func isExpired(err error) bool { return apierrors.IsResourceExpired(err) || apierrors.IsGone(err) }

// isTooLarge reports whether the server has not seen the version that was asked for.
func isTooLarge(err error) bool {
	return apierrors.HasStatusCause(err, metav1.CauseTypeResourceVersionTooLarge)
}

// isStatus reports whether the server itself said no, in contrast to a network that broke.
func isStatus(err error) bool {
	var status apierrors.APIStatus
	return errors.As(err, &status)
}

// isNetwork reports whether the network broke, or the server went away.
func isNetwork(err error) bool {
	var network net.Error // also a url.Error, which is what http.Client returns
	return errors.As(err, &network) || errors.Is(err, io.ErrUnexpectedEOF) || errors.Is(err, io.EOF)
}

// isBusy reports whether the server asked for patience, which says nothing about the position.
func isBusy(err error) bool {
	return apierrors.IsTooManyRequests(err) || apierrors.IsServiceUnavailable(err) || apierrors.IsServerTimeout(err)
}

// isRefusal reports whether the server will not stream lists: it said so (4xx), in contrast to being busy or having lost
// the version. sure is false where it may have said no to more than that.
func isRefusal(err error) (refused, sure bool) {
	var status apierrors.APIStatus
	if !errors.As(err, &status) || isExpired(err) {
		return false, false
	}
	switch code := status.Status().Code; code {
	case http.StatusBadRequest, http.StatusMethodNotAllowed, http.StatusNotAcceptable, http.StatusUnsupportedMediaType,
		http.StatusUnprocessableEntity:
		return true, true
	case http.StatusRequestTimeout, http.StatusTooManyRequests:
		return false, false
	default:
		return code >= 400 && code < 500, false
	}
}

// retryAfter is how long the server asked to stay away.
func retryAfter(err error) time.Duration {
	if err == nil {
		return 0
	}
	seconds, ok := apierrors.SuggestsClientDelay(err)
	if !ok || seconds <= 0 {
		return 0
	}
	return min(time.Duration(seconds)*time.Second, maxRetryAfter)
}
