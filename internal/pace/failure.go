package pace

import (
	"errors"
	"io"
	"net"
	"net/http"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// This file is what the error of a request says about the next one.

// maxRetryAfter is the longest pause that a server may ask for. A longer one must be a mistake.
const maxRetryAfter = 5 * time.Minute

// IsExpired reports whether the server no longer has the history or the pages of a version (410).
// It may say so as the response, or in an ERROR event, and gives the reason Expired or Gone.
func IsExpired(err error) bool { return apierrors.IsResourceExpired(err) || apierrors.IsGone(err) }

// IsTooLarge reports whether the server has not reached the version that was asked for.
func IsTooLarge(err error) bool {
	return apierrors.HasStatusCause(err, metav1.CauseTypeResourceVersionTooLarge)
}

// IsStatus reports whether err is an answer of the server. If it is not, the network may have
// broken, or the answer could not be read.
func IsStatus(err error) bool {
	var status apierrors.APIStatus
	return errors.As(err, &status)
}

// IsUnreachable reports whether no connection was made.
func IsUnreachable(err error) bool {
	network, ok := errors.AsType[*net.OpError](err)
	return ok && network.Op == "dial"
}

// IsNetwork reports whether the network broke, or the server went away.
func IsNetwork(err error) bool {
	var network net.Error // also a url.Error, which is what http.Client returns
	return errors.As(err, &network) || errors.Is(err, io.ErrUnexpectedEOF) || errors.Is(err, io.EOF)
}

// IsBusy reports whether the server asked for patience. That says nothing about the position.
func IsBusy(err error) bool {
	return apierrors.IsTooManyRequests(err) || apierrors.IsServiceUnavailable(err) || apierrors.IsServerTimeout(err)
}

// IsRefusal reports whether the server refuses to stream lists: it answered with a 4xx status that
// does not mean that it is busy or has lost the version. sure says that the status is one for a
// request that the server does not know. If sure is false there may be another reason, such as a
// missing permission, and then pages fail as well.
func IsRefusal(err error) (refused, sure bool) {
	var status apierrors.APIStatus
	if !errors.As(err, &status) || IsExpired(err) {
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

// RetryAfter returns the pause that the server asked for, at most maxRetryAfter; 0 if it asked for
// none.
func RetryAfter(err error) time.Duration {
	if err == nil {
		return 0
	}
	seconds, ok := apierrors.SuggestsClientDelay(err)
	if !ok || seconds <= 0 {
		return 0
	}
	return min(time.Duration(seconds)*time.Second, maxRetryAfter)
}
