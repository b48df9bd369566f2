package lwtest_test

import (
	"fmt"
	"runtime"
	"strings"
	"sync"
	"testing"
)

// fakeTB takes what a test that fails says.
type fakeTB struct {
	testing.TB

	mu     sync.Mutex
	failed bool
	out    strings.Builder
}

// run runs f as a test is run, so that FailNow ends it.
func (tb *fakeTB) run(f func()) {
	done := make(chan struct{})
	go func() {
		defer close(done)
		f()
	}()
	<-done
}

func (tb *fakeTB) Errorf(format string, args ...any) {
	tb.mu.Lock()
	defer tb.mu.Unlock()
	tb.failed = true
	fmt.Fprintf(&tb.out, format+"\n", args...)
}

func (tb *fakeTB) Logf(format string, args ...any) {
	tb.mu.Lock()
	defer tb.mu.Unlock()
	fmt.Fprintf(&tb.out, format+"\n", args...)
}

func (tb *fakeTB) Log(args ...any)   { tb.Logf("%s", fmt.Sprint(args...)) }
func (tb *fakeTB) Error(args ...any) { tb.Errorf("%s", fmt.Sprint(args...)) }
func (tb *fakeTB) Fail()             { tb.Errorf("Fail") }
func (tb *fakeTB) Fatal(args ...any) {
	tb.Error(args...)
	tb.FailNow()
}
func (tb *fakeTB) Fatalf(format string, args ...any) {
	tb.Errorf(format, args...)
	tb.FailNow()
}
func (tb *fakeTB) FailNow() {
	tb.Fail()
	runtime.Goexit()
}
func (tb *fakeTB) Failed() bool {
	tb.mu.Lock()
	defer tb.mu.Unlock()
	return tb.failed
}
