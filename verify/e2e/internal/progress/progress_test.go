package progress

import (
	"strings"
	"testing"
	"testing/synctest"
	"time"
)

func TestStart(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var b strings.Builder
		done := Start(&b, "waiting")
		time.Sleep(9 * time.Second)
		done()
		if b.Len() > 0 {
			t.Errorf("after nine seconds: %q", &b)
		}
		done = Start(&b, "waiting")
		time.Sleep(25 * time.Second)
		done()
		time.Sleep(time.Minute)
		if got, want := b.String(), "waiting: 10s so far\nwaiting: 20s so far\n"; got != want {
			t.Errorf("%q, want %q", got, want)
		}
	})
}
