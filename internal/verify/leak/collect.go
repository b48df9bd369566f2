package leak

import (
	"runtime"
	"testing"
	"time"
)

// Collect runs the garbage collector again and again until the test ends, in a goroutine of its own,
// with a pause of that length between two collections: an address of what is no object is only found
// while somebody has it. Under -short it does nothing. It must not be called in a bubble of
// testing/synctest.
func Collect(t testing.TB, pause time.Duration) {
	if testing.Short() {
		return
	}
	stop, done := make(chan struct{}), make(chan struct{})
	tick := time.NewTicker(max(pause, 1))
	go func() {
		defer close(done)
		for {
			select {
			case <-stop:
				return
			case <-tick.C:
				runtime.GC()
			}
		}
	}()
	t.Cleanup(func() {
		tick.Stop()
		close(stop)
		<-done
	})
}
