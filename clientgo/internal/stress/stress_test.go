package stress

import (
	"flag"
	"sync"
	"testing"
	"time"

	"github.com/go-lw/lw/internal/verify/leak"
)

var (
	duration = flag.Duration("stress.for", time.Second, "how long each test runs")
	seed     = flag.Int64("stress.seed", 1, "the first seed; a failure names its own")
)

// Two decoders decode objects of every form and encoding, and the collector runs.
func TestDecoders(t *testing.T) {
	leak.Collect(t, 0)
	until := time.Now().Add(*duration)
	length := min(max(*duration/20, 50*time.Millisecond), 6*time.Second)
	var c counts
	var wg sync.WaitGroup
	var mu sync.Mutex
	next := *seed
	for range 2 {
		wg.Go(func() {
			for first := true; (first || time.Now().Before(until)) && !t.Failed(); first = false {
				mu.Lock()
				s := next
				next++
				mu.Unlock()
				end := time.Now().Add(length)
				if end.After(until) {
					end = until
				}
				newSession(t, s, &c).run(end)
			}
		})
	}
	wg.Wait()
	t.Logf("%d decoders, %d objects, %d of them again later, %d streams, %d versions lent, %d passed over, %d spoilt, %d stopped",
		c.sessions.Load(), c.objects.Load(), c.again.Load(), c.streams.Load(), c.lent.Load(), c.passed.Load(),
		c.spoilt.Load(), c.stopped.Load())
	if c.objects.Load() == 0 {
		t.Error("nothing was decoded")
	}
}
