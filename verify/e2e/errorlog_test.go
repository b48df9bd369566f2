package e2e_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"

	apierrors "k8s.io/apimachinery/pkg/api/errors"

	"github.com/go-lw/lw"
)

// errorLog is what OnError was told.
type errorLog struct {
	mu   sync.Mutex
	errs []error // guarded by mu
}

func (l *errorLog) add(err error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.errs = append(l.errs, err)
}

func (l *errorLog) all() []error {
	l.mu.Lock()
	defer l.mu.Unlock()
	return append([]error(nil), l.errs...)
}

func (l *errorLog) has(match func(error) bool) bool {
	for _, err := range l.all() {
		if match(err) {
			return true
		}
	}
	return false
}

// misuses returns the errors that are wrong: not a *lw.Error, without a cause or an operation, or
// reported twice.
func (l *errorLog) misuses() []string {
	var wrong []string
	seen := map[error]bool{}
	for _, err := range l.all() {
		e, ok := err.(*lw.Error)
		switch {
		case !ok:
			wrong = append(wrong, fmt.Sprintf("told of a %T: %v", err, err))
		case e.Err == nil || e.Op == "" || e.Informer == "":
			wrong = append(wrong, fmt.Sprintf("told of an incomplete %+v", e))
		case seen[err]:
			wrong = append(wrong, fmt.Sprintf("told twice of %v", e))
		case errors.Is(err, context.Canceled):
			wrong = append(wrong, fmt.Sprintf("told of the cancellation: %v", e))
		}
		seen[err] = true
	}
	return wrong
}

func (l *errorLog) String() string {
	s := ""
	for _, err := range l.all() {
		s += "\t" + err.Error() + "\n"
	}
	return s
}

// lastLines keeps the log of a failure readable.
func lastLines(s fmt.Stringer) string {
	lines := strings.SplitAfter(s.String(), "\n")
	return strings.Join(lines[max(0, len(lines)-20):], "")
}

// isOp reports whether an error is of an operation, such as a list.
func isOp(op string) func(error) bool {
	return func(err error) bool {
		e, ok := errors.AsType[*lw.Error](err)
		return ok && e.Op == op
	}
}

func isExpired(err error) bool {
	return apierrors.IsResourceExpired(err) || apierrors.IsGone(err)
}
