package lw

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"maps"
	"net"
	"net/http"
	"slices"
	"strings"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/go-lw/lw/internal/decode"
	"github.com/go-lw/lw/internal/listopts"
)

// maxRetryAfter is the longest pause that a server may ask for. A longer one must be a mistake.
const maxRetryAfter = 5 * time.Minute

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

const (
	// maxReasons is how many different reasons an error names, and maxReason is how many bytes of
	// each.
	maxReasons = 3
	maxReason  = 300
)

// reasons is what is wrong with n objects: the first few reasons that differ.
type reasons struct {
	errs []error
	n    int
}

func (r *reasons) add(err error) {
	r.n++
	if len(r.errs) >= maxReasons {
		return
	}
	text := err.Error()
	for _, known := range r.errs {
		if known.Error() == text {
			return
		}
	}
	r.errs = append(r.errs, err)
}

func (r *reasons) String() string {
	var b strings.Builder
	for i, err := range r.errs {
		if i > 0 {
			b.WriteString("; ")
		}
		text := strings.TrimPrefix(err.Error(), "lw: ")
		if len(text) > maxReason {
			text = strings.ToValidUTF8(text[:maxReason], "") + "..."
		}
		b.WriteString(text)
	}
	return b.String()
}

// manyErrors is what is wrong with several objects whose keys are unknown. They are reported as
// one, because a list may be full of them.
type manyErrors struct{ reasons }

func (m *manyErrors) Error() string {
	if more := m.n - len(m.errs); more > 0 {
		return fmt.Sprintf("%s (and %d more without a key)", &m.reasons, more)
	}
	return m.String()
}

func (m *manyErrors) Unwrap() []error { return m.errs }

// oneMore returns a manyErrors of err and of what known has: one error, or a manyErrors.
func oneMore(known, err error) error {
	m, ok := known.(*manyErrors)
	if !ok {
		m = &manyErrors{}
		m.add(causeOfObject(known))
	}
	m.add(causeOfObject(err))
	return m
}

// causeOfObject returns the cause of an *Error that has no key, and any other err as it is. What an
// Error says beside its cause is the same for all such objects.
func causeOfObject(err error) error {
	if e, ok := err.(*Error); ok && e.Key == (Key{}) {
		return e.Err
	}
	return err
}

// A uselessError says that a list has objects, but none that can be used.
type uselessError struct{ reasons }

func newUselessError(bad map[Key]error) error {
	e := &uselessError{}
	keys := slices.SortedFunc(maps.Keys(bad), func(a, b Key) int {
		return cmp.Or(cmp.Compare(a.Namespace, b.Namespace), cmp.Compare(a.Name, b.Name))
	})
	for _, key := range keys {
		if m, ok := bad[key].(*manyErrors); ok {
			for _, err := range m.errs {
				e.add(err)
			}
			e.n += m.n - len(m.errs)
			continue
		}
		e.add(asError(key, bad[key]))
	}
	return e
}

func (e *uselessError) Error() string {
	if e.n == 1 {
		return fmt.Sprintf("the list has one object, which cannot be used: %s", &e.reasons)
	}
	return fmt.Sprintf("the list has %d objects, of which none can be used, such as: %s", e.n, &e.reasons)
}

func (e *uselessError) Unwrap() []error { return e.errs }

// isLost reports whether a watch cannot go on from the position, so that only a list can help. The
// server has no history from there on, or has not reached the position yet. Or it has an object
// that it cannot read: every watch that starts before the removal of that object fails. Or it has
// sent what no correct server sends.
func isLost(err error) bool {
	var proto *protocolError
	return isExpired(err) || isTooLarge(err) || apierrors.IsStoreReadError(err) || errors.As(err, &proto)
}

// isOutOfOrder reports whether an event was not newer than the position.
func isOutOfOrder(err error) bool {
	proto, ok := errors.AsType[*protocolError](err)
	return ok && proto.old
}

// isExpired reports whether the server no longer has the history or the pages of a version (410).
// It may say so as the response, or in an ERROR event, and gives the reason Expired or Gone.
func isExpired(err error) bool { return apierrors.IsResourceExpired(err) || apierrors.IsGone(err) }

// isTooLarge reports whether the server has not reached the version that was asked for.
func isTooLarge(err error) bool {
	return apierrors.HasStatusCause(err, metav1.CauseTypeResourceVersionTooLarge)
}

// isStatus reports whether err is an answer of the server. If it is not, the network may have
// broken, or the answer could not be read.
func isStatus(err error) bool {
	var status apierrors.APIStatus
	return errors.As(err, &status)
}

// isFinal reports whether err is how the request has ended, and not that nothing more comes from it:
// the server has said it, or no connection was made.
func isFinal(err error) bool {
	_, garbled := errors.AsType[*decode.SyntaxError](err)
	return isStatus(err) || garbled || isUnreachable(err) && !errors.Is(err, context.Canceled)
}

// isUnreachable reports whether no connection was made.
func isUnreachable(err error) bool {
	network, ok := errors.AsType[*net.OpError](err)
	return ok && network.Op == "dial"
}

// isNetwork reports whether the network broke, or the server went away.
func isNetwork(err error) bool {
	var network net.Error // also a url.Error, which is what http.Client returns
	return errors.As(err, &network) || errors.Is(err, io.ErrUnexpectedEOF) || errors.Is(err, io.EOF)
}

// isBusy reports whether the server asked for patience. That says nothing about the position.
func isBusy(err error) bool {
	return apierrors.IsTooManyRequests(err) || apierrors.IsServiceUnavailable(err) || apierrors.IsServerTimeout(err)
}

// isRefusal reports whether the server refuses to stream lists: it answered with a 4xx status that
// does not mean that it is busy or has lost the version. sure says that the status is one for a
// request that the server does not know. If sure is false there may be another reason, such as a
// missing permission, and then pages fail as well.
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

// refusesWatch reports whether err is a refusal of a watch that says nothing about lists: a right
// that is missing, or a server or a proxy that has no watches.
func refusesWatch(err error) bool {
	refused, _ := isRefusal(err)
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

// retryAfter returns the pause that the server asked for, at most maxRetryAfter; 0 if it asked for
// none.
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

// setAsideObjects are the objects that could not be decoded, transformed or indexed. The target
// keeps each as it was, until a later version or a list can be applied. Only the goroutine of Run
// uses it.
type setAsideObjects struct {
	// recorder has the keys of these objects and their errors, because Status shows them.
	recorder *statusRecorder
	// holding has those keys for which the target may have an older object than it should: an event
	// or an item of a list was not applied. While there is one, the reported version stays before
	// that event or list. Other objects may be newer than the reported version, but no read is
	// older than it.
	holding map[Key]struct{}
}

// holds reports whether an object holds back the reported version.
func (s *setAsideObjects) holds() bool { return len(s.holding) > 0 }

// empty reports whether nothing is set aside.
func (s *setAsideObjects) empty() bool { return len(s.recorder.setAside) == 0 }

// has reports whether key is set aside.
func (s *setAsideObjects) has(key Key) bool {
	_, ok := s.recorder.setAside[key]
	return ok
}

// add sets key aside because of err, and calls report with that. If hold is true, key holds back
// the reported version. If hold is false, which is so for an item of a list, report is not called
// for a key that is set aside already because of the same error.
func (s *setAsideObjects) add(key Key, err error, hold bool, report func(*Error)) {
	known := s.recorder.setAside[key]
	s.recorder.addAside(key, err)
	if hold {
		s.hold(key)
	}
	if known == nil || hold || known.Error() != err.Error() {
		report(asError(key, err))
	}
}

// hold makes key, which is set aside, hold back the reported version.
func (s *setAsideObjects) hold(key Key) {
	if s.holding == nil {
		s.holding = map[Key]struct{}{}
	}
	s.holding[key] = struct{}{}
}

// remove removes key, and reports whether it was set aside. It must be called before the change is
// applied: a goroutine that sees the change must not find the object in Status.SetAside any more.
func (s *setAsideObjects) remove(key Key) bool {
	if _, ok := s.recorder.setAside[key]; !ok {
		return false
	}
	delete(s.holding, key)
	s.recorder.removeAside(key)
	return true
}

// listed replaces the set-aside objects by bad, the failures of a new list. Keys that still fail go
// on holding back the version if they did before.
func (s *setAsideObjects) listed(bad map[Key]error, report func(*Error)) {
	for key := range s.recorder.setAside {
		if _, ok := bad[key]; !ok {
			s.remove(key)
		}
	}
	for key, err := range bad {
		s.add(key, err, false, report)
	}
}

// release ends the holding back of the reported version. It is called in a new epoch, in which the
// version before means nothing. The objects stay set aside.
func (s *setAsideObjects) release() { clear(s.holding) }
