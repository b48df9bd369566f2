// Package progress tells whoever waits for a command that it goes on.
package progress

import (
	"fmt"
	"io"
	"time"
)

// every is how often a line is written.
const every = 10 * time.Second

// Start writes a line to w every ten seconds, with what is being done and for how long, until done
// is called. No line is written after done has returned. What takes less is not mentioned.
func Start(w io.Writer, what string) (done func()) {
	began, quit, ended := time.Now(), make(chan struct{}), make(chan struct{})
	t := time.NewTicker(every)
	go func() {
		defer close(ended)
		for {
			select {
			case <-t.C:
				fmt.Fprintf(w, "%s: %v so far\n", what, time.Since(began).Round(time.Second))
			case <-quit:
				return
			}
		}
	}()
	return func() {
		t.Stop()
		close(quit)
		<-ended
	}
}
