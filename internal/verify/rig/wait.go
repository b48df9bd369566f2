package rig

import (
	"context"
	"testing/synctest"
	"time"
)

// Sleep lets time pass, and all that it brings about happen. It is for a bubble.
func Sleep(d time.Duration) {
	time.Sleep(d)
	synctest.Wait()
}

// A T is the part of a test that a wait needs: rapid's tests have it too.
type T interface {
	Helper()
	Fatalf(format string, args ...any)
	Context() context.Context
}

// Until waits outside of a bubble, where there are real sockets, until unmet returns "". After d it
// ends the test with what unmet says.
func Until(t T, d time.Duration, unmet func() string) {
	t.Helper()
	for late := time.Now().Add(d); ; time.Sleep(2 * time.Millisecond) {
		what := unmet()
		if what == "" {
			return
		}
		if time.Now().After(late) {
			t.Fatalf("not within %v: %s", d, what)
		}
	}
}

// Met is Until with a condition, and a text that says what has not come.
func Met(t T, d time.Duration, unmet string, met func() bool) {
	t.Helper()
	Until(t, d, func() string {
		if met() {
			return ""
		}
		return unmet
	})
}

// Canceled is a context that is done.
func Canceled(t T) context.Context {
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	return ctx
}
