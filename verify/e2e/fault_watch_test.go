package e2e_test

import (
	"testing"
	"time"

	"github.com/go-lw/lw"
	"github.com/go-lw/lw/verify/e2e/internal/servers"
)

// TestWatchTimeout lets every watch end after a second or two, while somebody writes: each is
// resumed where it ended.
func TestWatchTimeout(t *testing.T) {
	on(t, func(t *testing.T, kind servers.Kind) {
		const namespace = "watch-timeout"
		s, r := shared(t, kind)
		all := followConfigMaps(t, s, namespace, followOptions{Options: lw.Options{WatchTimeout: time.Second}}, faultWires...)
		writes := startChurn(t, s, namespace)
		for _, f := range all {
			f.requested(5, "watches", isVerb(verbWatch))
		}
		writes.stop()
		for _, f := range all {
			f.same(r)
			f.bounded(1, 2+int(time.Since(f.start)/time.Second))
			watchesTimedOut(t, f)
		}
	}, servers.Kinds...)
}

// watchesTimedOut checks that the end of a watch was never reported as an error. That of a streamed
// list may have been: a second is short for a busy server.
func watchesTimedOut[T lw.Object](t *testing.T, f *follower[T]) {
	t.Helper()
	for _, err := range f.errs.all() {
		if !isOp("stream")(err) {
			t.Errorf("%s: a watch that timed out is told as an error: %v", f.name(), err)
		}
	}
}

// TestQuietWatchTimeout lets watches end at their time-out on a collection that nobody writes to:
// that is no failure.
func TestQuietWatchTimeout(t *testing.T) {
	on(t, func(t *testing.T, kind servers.Kind) {
		const namespace = "quiet"
		s, r := shared(t, kind)
		all := followConfigMaps(t, s, namespace, followOptions{Options: lw.Options{WatchTimeout: 2 * time.Second}},
			faultWires...)
		for _, f := range all {
			f.requested(3, "watches", isVerb(verbWatch))
			if st := f.Status(); st.Failures != 0 || st.Err != nil {
				t.Errorf("%s: status after watches that timed out: %+v", f.name(), st)
			}
			watchesTimedOut(t, f)
			f.same(r)
			f.paced()
		}
	}, servers.Kinds...)
}
