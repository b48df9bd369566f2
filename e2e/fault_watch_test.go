package e2e_test

import (
	"errors"
	"testing"
	"time"

	"github.com/go-lw/lw"
	"github.com/go-lw/lw/e2e/internal/servers"
	"github.com/go-lw/lw/internal/rig"
)

// TestWatchTimeout lets every watch end after a second or two, while somebody writes: each is
// resumed where it ended.
func TestWatchTimeout(t *testing.T) {
	on(t, func(t *testing.T, kind servers.Kind) {
		const namespace = "watch-timeout"
		s := sharedServer(t, kind)
		r := s.Reader("")
		defer r.Close()
		all := followConfigMaps(t, s, namespace, followOptions{Options: lw.Options{WatchTimeout: time.Second}}, faultWires...)
		writes := startChurn(t, s, namespace)
		for _, f := range all {
			rig.Until(t, patience, func() string {
				if f.client.count(isVerb(verbWatch)) < 5 {
					return f.name() + ": fewer than 5 watches"
				}
				return ""
			})
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
		if e, ok := errors.AsType[*lw.Error](err); !ok || e.Op != "stream" {
			t.Errorf("%s: a watch that timed out is told as an error: %v", f.name(), err)
		}
	}
}

// TestQuietWatchTimeout lets watches end at their time-out on a collection that nobody writes to:
// that is no failure.
func TestQuietWatchTimeout(t *testing.T) {
	on(t, func(t *testing.T, kind servers.Kind) {
		const namespace = "quiet"
		s := sharedServer(t, kind)
		r := s.Reader("")
		defer r.Close()
		all := followConfigMaps(t, s, namespace, followOptions{Options: lw.Options{WatchTimeout: 2 * time.Second}}, faultWires...)
		for _, f := range all {
			rig.Until(t, patience, func() string {
				if f.client.count(isVerb(verbWatch)) < 3 {
					return f.name() + ": fewer than 3 watches"
				}
				return ""
			})
			if st := f.Status(); st.Failures != 0 || st.Err != nil {
				t.Errorf("%s: status after watches that timed out: %+v", f.name(), st)
			}
			watchesTimedOut(t, f)
			f.same(r)
			f.paced()
		}
	}, servers.Kinds...)
}
