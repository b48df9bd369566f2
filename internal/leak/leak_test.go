package leak

import (
	"strings"
	"testing"
	"time"
)

func TestLeft(t *testing.T) {
	block := make(chan struct{})
	done := make(chan struct{})
	go waitFor(block, done)
	if got := strings.Join(left(50*time.Millisecond), "\n"); !strings.Contains(got, "leak.waitFor") {
		t.Errorf("a goroutine that is left was not found in:\n%s", got)
	}
	close(block)
	<-done
	if got := strings.Join(left(time.Second), "\n"); strings.Contains(got, "leak.waitFor") {
		t.Errorf("a goroutine that has ended was found:\n%s", got)
	}
}

func waitFor(block, done chan struct{}) {
	defer close(done)
	<-block
}
