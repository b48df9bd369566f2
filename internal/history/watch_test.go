package history_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/watch"

	. "github.com/go-lw/lw/internal/history"
	"github.com/go-lw/lw/internal/verify/rig"
)

// read returns the events of w in the next d, as "ADDED@2 a old", and what it ended with.
func read(t *testing.T, w *Watch[string], d time.Duration) (events []string, err error) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), d)
	defer cancel()
	for {
		ev, err := w.Next(ctx)
		if errors.Is(err, context.DeadlineExceeded) {
			return events, nil
		}
		if err != nil {
			return events, err
		}
		s := fmt.Sprintf("%s@%d", ev.Type, ev.Version)
		if ev.Object != nil {
			s += " " + ev.Object.Value
		}
		if ev.InitialEventsEnd {
			s += " end"
		}
		events = append(events, s)
	}
}

func open(t *testing.T, c *Collection[string], opts metav1.ListOptions) *Watch[string] {
	t.Helper()
	return rig.Must[*Watch[string]](t)(c.Watch("", opts))
}

func TestWatchOptions(t *testing.T) {
	const notOlder = metav1.ResourceVersionMatchNotOlderThan
	tests := []struct {
		name   string
		opts   options
		want   []string // up to the deletion of b at version 7
		code   int32    // of Next
		reject int32    // of Watch
	}{
		{name: "any", want: []string{"ADDED@5 b new", "ADDED@2 c old", "DELETED@7 b new"}},
		{name: "0", opts: options{ResourceVersion: "0"}, want: []string{"ADDED@5 b new", "ADDED@2 c old", "DELETED@7 b new"}},
		{name: "from the start", opts: options{ResourceVersion: "3"},
			want: []string{"ADDED@4 b old", "MODIFIED@5 b new", "DELETED@6 a old", "DELETED@7 b new"}},
		{name: "from now", opts: options{ResourceVersion: "6"}, want: []string{"DELETED@7 b new"}},
		{name: "label", opts: options{ResourceVersion: "3", LabelSelector: "l=new"},
			want: []string{"ADDED@5 b new", "DELETED@7 b new"}},
		{name: "no longer the label", opts: options{ResourceVersion: "3", LabelSelector: "l=old"},
			want: []string{"ADDED@4 b old", "DELETED@5 b old", "DELETED@6 a old"}},
		{name: "name", opts: options{FieldSelector: "metadata.name!=b"}, want: []string{"ADDED@2 c old"}},
		{name: "before what is to come", opts: options{ResourceVersion: "7"}},
		{name: "streamed list",
			opts: options{SendInitialEvents: new(true), ResourceVersionMatch: notOlder, AllowWatchBookmarks: true},
			want: []string{"ADDED@5 b new", "ADDED@2 c old", "BOOKMARK@6 end", "DELETED@7 b new"}},
		{name: "streamed list, not older",
			opts: options{ResourceVersion: "4", SendInitialEvents: new(true), ResourceVersionMatch: notOlder,
				AllowWatchBookmarks: true},
			want: []string{"ADDED@5 b new", "ADDED@2 c old", "BOOKMARK@6 end", "DELETED@7 b new"}},
		{name: "streamed list without bookmarks", opts: options{SendInitialEvents: new(true), ResourceVersionMatch: notOlder},
			want: []string{"ADDED@5 b new", "ADDED@2 c old", "DELETED@7 b new"}},
		{name: "streamed list to come",
			opts: options{ResourceVersion: "7", SendInitialEvents: new(true), ResourceVersionMatch: notOlder}, code: 504},
		{name: "no initial events", opts: options{SendInitialEvents: new(false), ResourceVersionMatch: notOlder},
			want: []string{"DELETED@7 b new"}},
		{name: "no initial events, from a version",
			opts: options{ResourceVersion: "5", SendInitialEvents: new(false), ResourceVersionMatch: notOlder},
			want: []string{"DELETED@6 a old", "DELETED@7 b new"}},
		{name: "compacted", opts: options{ResourceVersion: "2"}, code: 410},
		{name: "no number", opts: options{ResourceVersion: "abc"}, reject: 500},
		{name: "streamed without match", opts: options{SendInitialEvents: new(true)}, reject: 422},
		{name: "match without stream", opts: options{ResourceVersionMatch: notOlder}, reject: 422},
		{name: "exact stream", reject: 422,
			opts: options{SendInitialEvents: new(true), ResourceVersionMatch: metav1.ResourceVersionMatchExact}},
		{name: "stream with continue", opts: options{SendInitialEvents: new(true), ResourceVersionMatch: notOlder,
			Continue: "x"}, reject: 422},
		{name: "label selector", opts: options{LabelSelector: "=="}, reject: 400},
	}
	for _, tt := range tests {
		rig.Subtest(t, tt.name, func(t *testing.T) {
			line, c := newThings(t)
			line.Compact(3)
			w, err := c.Watch("", tt.opts)
			if got, _ := code(err); got != tt.reject {
				t.Fatalf("Watch = %v, want %d", err, tt.reject)
			}
			if tt.reject != 0 {
				return
			}
			remove(t, c, "b")
			events, err := read(t, w, time.Second)
			rig.Same(t, "events", tt.want, events)
			if got, _ := code(err); got != tt.code {
				t.Errorf("the watch ended with %v, want %d", err, tt.code)
			}
			if tt.code == 0 {
				return
			}
			if _, again := w.Next(t.Context()); again != err {
				t.Errorf("then with %v", again)
			}
		})
	}
}

// TestWatchAhead: a watch from a version that the line has not reached sends nothing, not even a
// bookmark, until the line has passed that version.
func TestWatchAhead(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		line, c := newThings(t)
		w := open(t, c, options{ResourceVersion: "9", AllowWatchBookmarks: true})
		create(t, c, "d", "")
		line.Bookmark()
		if got, err := read(t, w, time.Hour); got != nil || err != nil {
			t.Errorf("got %v, %v before the version is there", got, err)
		}
		line.Advance(2)
		create(t, c, "e", "")
		got, err := read(t, w, time.Second)
		if diff := cmp.Diff([]string{"ADDED@10 e ", "BOOKMARK@10"}, got); diff != "" || err != nil {
			t.Errorf("after that (-want +got):\n%s%v", diff, err)
		}
	})
}

func TestBookmarks(t *testing.T) {
	const (
		none  = -1
		extra = time.Millisecond
	)
	tests := []struct {
		name    string
		timeout time.Duration // none: without
		refuse  bool
		want    []time.Duration // when bookmarks come
	}{
		{name: "every minute", timeout: none, want: []time.Duration{time.Minute, 2 * time.Minute, 3 * time.Minute}},
		{name: "not allowed", timeout: none, refuse: true},
		{name: "before the end", timeout: 4 * time.Second, want: []time.Duration{2 * time.Second}},
		{name: "and every minute", timeout: 90 * time.Second, want: []time.Duration{time.Minute, 88 * time.Second}},
		{name: "in three seconds", timeout: 3 * time.Second, want: []time.Duration{time.Second}},
		{name: "not in two seconds", timeout: 2 * time.Second},
	}
	for _, tt := range tests {
		rig.Subtest(t, tt.name, func(t *testing.T) {
			_, c := newThings(t)
			opts := options{ResourceVersion: "6", AllowWatchBookmarks: !tt.refuse}
			end := 3*time.Minute + extra
			if tt.timeout != none {
				end = tt.timeout
				opts.TimeoutSeconds = new(int64(tt.timeout / time.Second))
			}
			start := time.Now()
			w := open(t, c, opts)
			var got []time.Duration
			ctx, cancel := context.WithTimeout(t.Context(), 3*time.Minute+extra)
			defer cancel()
			ev, err := w.Next(ctx)
			for ; err == nil; ev, err = w.Next(ctx) {
				if ev.Type != watch.Bookmark || ev.Version != 6 || ev.InitialEventsEnd {
					t.Errorf("got %+v", ev)
				}
				got = append(got, time.Since(start))
			}
			if (tt.timeout == none) == (err == io.EOF) {
				t.Errorf("the watch ended with %v", err)
			}
			rig.Same(t, "bookmarks", tt.want, got)
			rig.Same(t, "how long the watch lasted", end, time.Since(start))
		})
	}
}

// TestBookmarkOnDemand: a bookmark comes after what it covers, also after other collections'
// versions.
func TestBookmarkOnDemand(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		line, c := newThings(t)
		w := open(t, c, options{ResourceVersion: "6", AllowWatchBookmarks: true})
		silent := open(t, c, options{ResourceVersion: "6"})
		line.Advance(10)
		line.Bookmark()
		create(t, c, "d", "")
		line.Advance(10)
		got, err := read(t, w, time.Second)
		if diff := cmp.Diff([]string{"ADDED@17 d ", "BOOKMARK@27"}, got); diff != "" || err != nil {
			t.Errorf("(-want +got):\n%s%v", diff, err)
		}
		if got, err := read(t, silent, time.Hour); !slices.Equal(got, []string{"ADDED@17 d "}) || err != nil {
			t.Errorf("a watch without bookmarks got %v, %v", got, err)
		}
	})
}

// TestWatchEnds: a watch that waits is woken by what ends it.
func TestWatchEnds(t *testing.T) {
	tests := []struct {
		name string
		end  func(*Line, *Collection[string]) error
		want error
	}{
		{"disconnect", func(line *Line, _ *Collection[string]) error { line.Disconnect(); return nil }, io.EOF},
		{"disconnect the collection", func(_ *Line, c *Collection[string]) error { c.Disconnect(); return nil }, io.EOF},
		{"finish", func(_ *Line, c *Collection[string]) error { c.Finish(); return nil }, io.EOF},
		{"rewind", func(line *Line, _ *Collection[string]) error { return line.Rewind(4) }, io.EOF},
		{"wipe", func(line *Line, _ *Collection[string]) error { line.Wipe(); return nil }, io.EOF},
		{"other collection", func(line *Line, _ *Collection[string]) error {
			NewCollection(line, Options[string]{}).Disconnect()
			return nil
		}, context.Canceled},
		{"compaction of what it has told", func(line *Line, _ *Collection[string]) error { line.Compact(6); return nil },
			context.Canceled},
	}
	for _, tt := range tests {
		rig.Subtest(t, tt.name, func(t *testing.T) {
			line, c := newThings(t)
			w := open(t, c, options{ResourceVersion: "6"})
			ctx, cancel := context.WithCancel(t.Context())
			defer cancel()
			ended := make(chan error, 1)
			go func() { ended <- second(w.Next(ctx)) }()
			synctest.Wait()
			rig.OK(t, tt.end(line, c))
			synctest.Wait()
			cancel()
			if got := <-ended; got != tt.want {
				t.Errorf("the watch ended with %v, want %v", got, tt.want)
			}
		})
	}
}

// TestFinish: a watch that is behind first sends what it has not sent. A later watch is not ended.
func TestFinish(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		_, c := newThings(t)
		w := open(t, c, options{ResourceVersion: "5"})
		create(t, c, "d", "")
		c.Finish()
		later := open(t, c, options{ResourceVersion: "5"})
		got, err := read(t, w, time.Hour)
		want, lateErr := read(t, later, time.Hour)
		if diff := cmp.Diff(want, got); diff != "" || len(want) == 0 || err != io.EOF || lateErr != nil {
			t.Errorf("(-later +finished):\n%s%v, %v", diff, err, lateErr)
		}
	})
}

// TestSlowWatch: a watch that has not read a change before it was compacted ends with Expired,
// after the events that it can still send.
func TestSlowWatch(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		line, c := newThings(t)
		w := open(t, c, options{ResourceVersion: "3"})
		if ev, err := w.Next(t.Context()); err != nil || ev.Version != 4 {
			t.Fatalf("Next = %v, %v", ev, err)
		}
		line.Compact(5)
		if ev, err := w.Next(t.Context()); !apierrors.IsResourceExpired(err) {
			t.Errorf("Next = %v, %v, want Expired", ev, err)
		}
	})
}

// TestManyWatches: each watch sends each change that is written meanwhile, in order and once.
func TestManyWatches(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const watches, writes = 8, 200
		_, c := newThings(t)
		ctx, cancel := context.WithCancel(t.Context())
		defer cancel()
		got := make(chan []uint64, watches)
		for range watches {
			go func() {
				w, err := c.Watch("", options{ResourceVersion: "6"})
				var versions []uint64
				for err == nil && len(versions) < writes {
					var ev Event[string]
					if ev, err = w.Next(ctx); err == nil {
						versions = append(versions, ev.Version)
					}
				}
				got <- versions
			}()
		}
		for range 4 {
			go func() {
				for i := range writes / 4 {
					if _, err := c.Update(thing("b", fmt.Sprint(i)), Preconditions{}); err != nil {
						t.Error(err)
					}
				}
			}()
		}
		var want []uint64
		for i := range writes {
			want = append(want, uint64(7+i))
		}
		for range watches {
			rig.Same(t, "versions", want, <-got)
		}
	})
}
