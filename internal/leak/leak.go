// Package leak fails a package's tests when they leave goroutines behind. Tests in a synctest bubble are checked by the bubble
// itself; this is for all the others.
package leak

import (
	"fmt"
	"os"
	"runtime"
	"strings"
	"testing"
	"time"
)

// patience is how long goroutines that are about to end may take, on a busy machine.
const patience = 5 * time.Second

// Main runs the tests of a package and exits, with 1 if goroutines are left: call it from TestMain.
func Main(m *testing.M) {
	code := m.Run()
	if code == 0 {
		if left := left(patience); len(left) > 0 {
			fmt.Printf("FAIL: %d goroutines are left after the tests:\n\n%s\n", len(left), strings.Join(left, "\n\n"))
			code = 1
		}
	}
	os.Exit(code)
}

// left returns the stacks of the goroutines that do not end within d, but for this one and those of the runtime and of package
// testing.
func left(d time.Duration) []string {
	for deadline := time.Now().Add(d); ; time.Sleep(10 * time.Millisecond) {
		stacks := running()
		if len(stacks) == 0 || time.Now().After(deadline) {
			return stacks
		}
	}
}

func running() (stacks []string) {
	buf := make([]byte, 1<<20)
	for {
		n := runtime.Stack(buf, true)
		if n < len(buf) {
			buf = buf[:n]
			break
		}
		buf = make([]byte, 2*len(buf))
	}
	for i, stack := range strings.Split(strings.TrimSpace(string(buf)), "\n\n") {
		if i > 0 && !ours(stack) { // the first is this one
			stacks = append(stacks, stack)
		}
	}
	return stacks
}

// ours reports whether a goroutine belongs to what runs the tests.
func ours(stack string) bool {
	for _, f := range []string{"testing.(*M).", "testing.runFuzzing(", "testing.tRunner.func", "os/signal.", "runtime.ensureSigM", "runtime/trace."} {
		if strings.Contains(stack, f) {
			return true
		}
	}
	return false
}
