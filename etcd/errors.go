package etcd

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"slices"
	"strings"

	"go.etcd.io/etcd/api/v3/v3rpc/rpctypes"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/go-lw/lw"
	"github.com/go-lw/lw/internal/listopts"
)

// explain returns err, which a request has ended with, as package lw and its users know it: as the
// Status that an API server has for the case, or as a [net.Error]. Both unwrap to err. An error of
// ctx stays as it is.
func explain(ctx context.Context, resource schema.GroupResource, err error) error {
	if err == nil {
		return nil
	}
	if ctx.Err() != nil {
		return context.Cause(ctx)
	}
	known := rpctypes.Error(err)
	is := func(targets ...error) bool {
		return slices.ContainsFunc(targets, func(t error) bool { return errors.Is(known, t) })
	}
	var answer *apierrors.StatusError
	switch {
	case is(rpctypes.ErrCompacted):
		answer = apierrors.NewResourceExpired("the revision was compacted")
	case is(rpctypes.ErrPermissionDenied):
		answer = apierrors.NewForbidden(resource, "", err)
	case is(rpctypes.ErrAuthFailed, rpctypes.ErrInvalidAuthToken, rpctypes.ErrUserEmpty, rpctypes.ErrAuthOldRevision):
		answer = apierrors.NewUnauthorized(text(err))
	case is(rpctypes.ErrTooManyRequests):
		answer = apierrors.NewTooManyRequests(text(err), 1)
	case is(rpctypes.ErrNoSpace):
		answer = &apierrors.StatusError{ErrStatus: metav1.Status{
			Status: metav1.StatusFailure, Code: http.StatusInsufficientStorage, Message: text(err),
		}}
	case is(rpctypes.ErrRequestTooLarge), tooLargeToSend(err):
		answer = apierrors.NewRequestEntityTooLargeError(text(err))
	default:
		return &networkError{err}
	}
	return &statusError{answer, err}
}

// text returns what err says, without what gRPC puts before it.
func text(err error) string {
	if s, ok := status.FromError(err); ok && s.Code() != codes.OK {
		return s.Message()
	}
	return err.Error()
}

// tooLargeToSend reports whether gRPC has refused a message, at the client, which is larger than
// its MaxCallSendMsgSize allows, or at the server.
func tooLargeToSend(err error) bool {
	return status.Code(err) == codes.ResourceExhausted && strings.Contains(err.Error(), "message larger than max")
}

// canceled returns the error of a watch that the server has ended with that reason.
func canceled(reason string) error {
	for _, known := range []error{
		rpctypes.ErrPermissionDenied, rpctypes.ErrUserEmpty, rpctypes.ErrInvalidAuthToken, rpctypes.ErrAuthOldRevision,
		rpctypes.ErrCompacted, rpctypes.ErrNoLeader, rpctypes.ErrTooManyRequests,
	} {
		if strings.Contains(reason, known.Error()) {
			return known
		}
	}
	if reason == "" {
		reason = "without a reason"
	}
	return fmt.Errorf("the server has ended the watch: %s", reason)
}

// A statusError is an error of the client as an API server would have said it.
type statusError struct {
	*apierrors.StatusError
	cause error
}

func (e *statusError) Unwrap() []error { return []error{e.StatusError, e.cause} }

// A networkError is an error that says nothing about the objects: a server that is away, that has
// no leader, that is too slow.
type networkError struct{ cause error }

var _ net.Error = (*networkError)(nil)

func (e *networkError) Error() string { return e.cause.Error() }

func (e *networkError) Unwrap() error { return e.cause }

// Timeout reports whether time was up.
func (e *networkError) Timeout() bool { return status.Code(e.cause) == codes.DeadlineExceeded }

// Temporary is part of [net.Error].
func (e *networkError) Temporary() bool { return true }

// As makes the error of a client that could not connect a [net.OpError] of a dial, as other clients
// have it. An informer then tries again sooner, since that costs the server nothing.
func (e *networkError) As(target any) bool {
	to, ok := target.(**net.OpError)
	if !ok || status.Code(e.cause) != codes.Unavailable || !strings.Contains(e.cause.Error(), "while dialing") {
		return false
	}
	*to = &net.OpError{Op: "dial", Net: "tcp", Err: e.cause}
	return true
}

// A rewoundError says that the server has another history than the one that was read. It is a 504
// for those who know no [lw.ErrRewound].
type rewoundError struct {
	*apierrors.StatusError
	why string
}

func rewound(version, now int64, format string, args ...any) error {
	s := listopts.TooLarge(uint64(version), uint64(max(now, 0))).(*apierrors.StatusError)
	e := &rewoundError{s, fmt.Sprintf(format, args...)}
	e.ErrStatus.Message = e.why
	return e
}

func (e *rewoundError) Error() string { return fmt.Sprintf("%v: %s", lw.ErrRewound, e.why) }

func (e *rewoundError) Unwrap() []error { return []error{lw.ErrRewound, e.StatusError} }

func badRequest(format string, args ...any) error {
	return apierrors.NewBadRequest("etcd: " + fmt.Sprintf(format, args...))
}

// readError explains the error of a read at a revision.
func readError(ctx context.Context, resource schema.GroupResource, err error, revision int64) error {
	if rpctypes.Error(err) == rpctypes.ErrFutureRev && ctx.Err() == nil {
		return &statusError{listopts.TooLarge(uint64(revision), 0).(*apierrors.StatusError), err}
	}
	return explain(ctx, resource, err)
}
