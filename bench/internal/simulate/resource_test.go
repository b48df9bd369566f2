package simulate

import (
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"
)

// TestCores checks that work is done in its order, on as many cores as there are.
func TestCores(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := &cores{free: make([]time.Time, 2)}
		start := time.Now()
		var got []time.Duration
		for _, work := range []time.Duration{4, 1, 1, 5} {
			got = append(got, c.done(work*time.Second).Sub(start))
		}
		time.Sleep(time.Minute)
		got = append(got, c.done(time.Second).Sub(start))
		want := []time.Duration{4 * time.Second, time.Second, 2 * time.Second, 7 * time.Second, 61 * time.Second}
		if diff := cmp.Diff(want, got); diff != "" {
			t.Errorf("when work was done (-want +got)\n%s", diff)
		}
		if got, want := c.used(), 12*time.Second; got != want {
			t.Errorf("used %v, want %v", got, want)
		}
	})
}

// TestSeats checks who gets seats, and when a request waits no more.
func TestSeats(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := &seats{}
		s.reset(3, 2)
		if !s.take(2, time.Second) {
			t.Fatal("no seats although some are free")
		}
		type end struct {
			Got   bool
			After time.Duration
		}
		start := time.Now()
		take := func(width int, patience time.Duration) *end {
			e := &end{}
			go func() {
				e.Got = s.take(width, patience)
				e.After = time.Since(start)
			}()
			synctest.Wait()
			return e
		}
		wide := take(2, 10*time.Second)
		narrow := take(1, 2*time.Second) // would fit, but is behind the other one
		full := take(1, 10*time.Second)
		time.Sleep(3 * time.Second)
		later := take(1, 10*time.Second) // there is room in the queue again
		time.Sleep(time.Second)
		s.give(2)
		synctest.Wait()
		want := []end{{true, 4 * time.Second}, {false, 2 * time.Second}, {false, 0}, {true, 4 * time.Second}}
		if diff := cmp.Diff(want, []end{*wide, *narrow, *full, *later}); diff != "" {
			t.Errorf("(-want +got)\n%s", diff)
		}
		if got := s.mostQueued(); got != 2 {
			t.Errorf("%d were queued at most, want 2", got)
		}
	})
}
