package serve

import (
	"testing"
	"testing/synctest"
	"time"

	"github.com/go-lw/lw/internal/order"
)

// testWatcher returns a watch of a collection without objects, and its stream, which takes all.
func testWatcher(t *testing.T, bookmarkEvery time.Duration) (*served, *watcher, *stream) {
	t.Helper()
	s := newServed(New(&Options{BookmarkEvery: bookmarkEvery}), &resource{name: "things", kind: "Thing", version: "v1"}, HistoryLimits{})
	s.begin(order.List[*item]{}, 1, false)
	now := time.Now()
	w := &watcher{served: s, format: format{codec: s.codecs[0]}, bookmarks: true, deadline: now.Add(time.Hour)}
	w.bookmark = w.nextBookmark(now)
	var err error
	if w.place, err = s.open(1); err != nil {
		t.Fatal(err)
	}
	return s, w, &stream{served: s, format: w.format, put: func(frame) error { return nil }}
}

// A watch that must end, because the history has begun anew, sleeps until then, also if a bookmark
// is due before. It used to be awake until it ended.
func TestStaleWatchSleeps(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		for range 20 { // each ends at another time, most of them after their bookmark is due
			s, w, out := testWatcher(t, time.Second)
			s.begin(order.List[*item]{}, 5, false)
			for r, err := w.step(out, nil); err == nil; r, err = w.step(out, nil) {
				sleep := time.Until(w.wake())
				if !r.stale || sleep <= 0 {
					t.Fatalf("it does not end, and is to wake up in %v: %+v", sleep, r)
				}
				time.Sleep(sleep)
			}
		}
	})
}
