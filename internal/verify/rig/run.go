package rig

import (
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/go-lw/lw"
)

// RunFor runs an informer of src for so long, and on until the test ends.
func RunFor[T lw.Object](t *testing.T, src lw.Source[T], opts *lw.Options, d time.Duration) *lw.Informer[T] {
	t.Helper()
	inf := lw.NewInformer(src, opts)
	Start(t, inf)
	Sleep(d)
	return inf
}

// Positive is the size of w, for an index. It panics with "negative".
func Positive(w *Widget) int {
	if w.Size < 0 {
		panic("negative")
	}
	return w.Size
}

// PanicsWith checks that f panics with this text, and no other.
func PanicsWith(t *testing.T, want string, f func()) {
	t.Helper()
	defer func() {
		t.Helper()
		if got := fmt.Sprint(recover()); got != want {
			t.Errorf("panic %q, want %q", got, want)
		}
	}()
	f()
}

// A Pacer answers as an Options.Backoff, and notes the failures that it was asked about.
type Pacer struct{ asked []int }

// Pause is an Options.Backoff of one pause for each failure.
func (p *Pacer) Pause(d time.Duration) func(int) time.Duration {
	return func(n int) time.Duration { p.asked = append(p.asked, n); return d }
}

// Grow is an Options.Backoff whose pauses are a multiple of d.
func (p *Pacer) Grow(d time.Duration) func(int) time.Duration {
	return func(n int) time.Duration { p.asked = append(p.asked, n); return time.Duration(n) * d }
}

// MustBe checks the numbers of failures that the Pacer was asked about.
func (p *Pacer) MustBe(t *testing.T, want ...int) {
	t.Helper()
	if diff := cmp.Diff(want, p.asked); diff != "" {
		t.Errorf("backoffs (-want +got):\n%s", diff)
	}
}

// MustBegin checks the first of them.
func (p *Pacer) MustBegin(t *testing.T, want ...int) {
	t.Helper()
	if diff := cmp.Diff(want, p.asked[:min(len(want), len(p.asked))]); diff != "" {
		t.Errorf("the first backoffs (-want +got):\n%s", diff)
	}
}

// Texts returns the texts of the errors in their order.
func (l *Errors) Texts() (texts []string) {
	for _, err := range l.All() {
		texts = append(texts, err.Error())
	}
	return texts
}

// Count returns how many of the errors are target.
func (l *Errors) Count(target error) (n int) {
	for _, err := range l.All() {
		if errors.Is(err, target) {
			n++
		}
	}
	return n
}

// MustBeNone checks that there is no error.
func (l *Errors) MustBeNone(t *testing.T) {
	t.Helper()
	if all := l.All(); len(all) != 0 {
		t.Errorf("errors: %v", all)
	}
}
