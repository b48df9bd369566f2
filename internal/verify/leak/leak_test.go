package leak

import (
	"fmt"
	"strings"
	"sync"
	"testing"
	"time"
)

func TestMain(m *testing.M) { Main(m) }

func TestStatus(t *testing.T) {
	block := make(chan struct{})
	var started, blocked sync.WaitGroup
	started.Add(3)
	for range 3 {
		blocked.Go(func() { started.Done(); waitFor(block) })
	}
	started.Wait()
	for code, want := range map[int]int{0: 1, 7: 7} {
		var out strings.Builder
		if got := status(code, 50*time.Millisecond, &out); got != want {
			t.Errorf("with goroutines left %d is %d, want %d", code, got, want)
		}
		if text := out.String(); code == 0 != (strings.Contains(text, "FAIL: 3 goroutines") &&
			strings.Count(text, "leak.TestStatus.func") >= 3) {
			t.Errorf("with goroutines left %d prints:\n%s", code, text)
		}
	}
	close(block)
	blocked.Wait()
	var out strings.Builder
	if got := status(0, time.Minute, &out); got != 0 || out.Len() > 0 {
		t.Errorf("with none left 0 is %d, and prints:\n%s", got, &out)
	}
}

// All are found, though their stacks are longer than the first buffer.
func TestLeftMany(t *testing.T) {
	const n = 4000
	block := make(chan struct{})
	var blocked sync.WaitGroup
	for range n {
		blocked.Go(func() { waitFor(block) })
	}
	if got := left(0); len(got) != n {
		t.Errorf("%d goroutines are found, want %d", len(got), n)
	}
	close(block)
	blocked.Wait()
	if got := left(time.Minute); len(got) > 0 {
		t.Errorf("goroutines that have ended, or that are not ours, are found:\n%s", fmt.Sprint(got))
	}
}

func waitFor(block chan struct{}) { <-block }
