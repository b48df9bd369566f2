// Package leak fails the tests of a package if they leave goroutines behind. A synctest bubble
// checks that by itself; this package is for all other tests.
package leak

import (
	"fmt"
	"io"
	"os"
	"runtime"
	"strings"
	"testing"
	"time"
)

// patience is how long goroutines may take to end after the tests, on a busy machine.
const patience = 5 * time.Second

// Main runs the tests of a package and exits, with status 1 if goroutines are left. Call it from
// TestMain.
func Main(m *testing.M) { os.Exit(status(m.Run(), patience, os.Stdout)) }

// status returns the status of tests that ended with code: 1 if it was 0 and goroutines are left
// after d, which it tells.
func status(code int, d time.Duration, out io.Writer) int {
	if code != 0 {
		return code
	}
	stacks := left(d)
	if len(stacks) == 0 {
		return 0
	}
	fmt.Fprintf(out, "FAIL: %d goroutines are left after the tests:\n\n%s\n", len(stacks), strings.Join(stacks, "\n\n"))
	return 1
}

// left waits up to d for goroutines to end, and returns the stacks of those that do not. The
// calling goroutine and those of the runtime and of package testing are not among them.
func left(d time.Duration) []string {
	for deadline := time.Now().Add(d); ; time.Sleep(10 * time.Millisecond) {
		stacks := running()
		if len(stacks) == 0 || time.Now().After(deadline) {
			return stacks
		}
	}
}

// running returns the stacks of the goroutines that left counts.
func running() (stacks []string) {
	buf := make([]byte, 1<<20)
	for {
		// Stack truncates without notice: a full buffer means that it was too small.
		n := runtime.Stack(buf, true)
		if n < len(buf) {
			buf = buf[:n]
			break
		}
		buf = make([]byte, 2*len(buf))
	}
	for i, stack := range strings.Split(strings.TrimSpace(string(buf)), "\n\n") {
		if i > 0 && !ours(stack) { // the first stack is that of the calling goroutine
			stacks = append(stacks, stack)
		}
	}
	return stacks
}

// ours reports whether a goroutine belongs to the runtime or to package testing.
func ours(stack string) bool {
	for _, f := range []string{"testing.(*M).", "testing.runFuzzing(", "testing.tRunner.func", "os/signal.",
		"runtime.ensureSigM", "runtime/trace."} {
		if strings.Contains(stack, f) {
			return true
		}
	}
	return false
}
