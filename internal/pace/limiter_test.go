package pace

import (
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
)

// However fast it is asked, the limiter lets through 5 at once and then one each 1.1 s; time that nobody used is not saved up.
func TestLimiter(t *testing.T) {
	var p Limiter
	begin := time.Date(2000, 1, 1, 0, 0, 0, 0, time.UTC)
	now := begin
	var at []time.Duration
	ask := func(n int) {
		for range n {
			now = now.Add(p.Wait(now))
			p.Spend(now)
			at = append(at, now.Sub(begin).Round(time.Millisecond))
		}
	}
	ask(7)
	now = now.Add(time.Hour)
	ask(6)
	ms := time.Millisecond
	later := time.Hour + 2200*ms
	want := []time.Duration{0, 0, 0, 0, 0, 1100 * ms, 2200 * ms, later, later, later, later, later, later + 1100*ms}
	if diff := cmp.Diff(want, at); diff != "" {
		t.Errorf("requests (-want +got):\n%s", diff)
	}
}
