package lwtest

import (
	"context"
	"fmt"
	"sync"
	"time"

	"github.com/go-lw/lw"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/watch"
	"pgregory.net/rapid"
)

// A follower is a watch, resumed where it ended for as long as the history goes on.
type follower[T lw.Object] struct {
	id       int
	opts     metav1.ListOptions
	selects  func(T) bool
	position string // all up to it was told; "" while the initial events of a stream come in
	next     int    // the first change that was not told, or need not be
	ends     int    // in a row, without an event
	more     bool   // the last event has said that another one is at hand

	// Of a streamed list: what its initial events add up to, in no order.
	initial map[lw.Key]T
	least   int // so many changes must be in it

	cancel context.CancelFunc
	ended  chan struct{} // closed when Watch has returned

	mu     sync.Mutex
	events []lw.WatchEvent[T] // that were not looked at yet; guarded by mu, as all below
	came   chan struct{}      // is sent to when one has come
	err    error              // what Watch has returned
	wrong  string
}

func (f *follower[T]) String() string {
	return fmt.Sprintf("watch %d (%s)", f.id, describe(f.opts))
}

// watch opens a watch from a version that was seen.
func (h *history[T]) watch(rt *rapid.T) {
	sel := h.drawSelector(rt)
	h.open(&follower[T]{selects: sel.Matches, position: h.drawVersion(rt), opts: metav1.ListOptions{
		LabelSelector: sel.Labels, FieldSelector: sel.Fields, AllowWatchBookmarks: rapid.Bool().Draw(rt, "bookmarks"),
	}})
}

// stream opens a streamed list, while the collection is written to.
func (h *history[T]) stream(rt *rapid.T) {
	sel, yes := h.drawSelector(rt), true
	f := &follower[T]{selects: sel.Matches, initial: map[lw.Key]T{}, opts: metav1.ListOptions{
		LabelSelector: sel.Labels, FieldSelector: sel.Fields, AllowWatchBookmarks: true,
		SendInitialEvents: &yes, ResourceVersionMatch: metav1.ResourceVersionMatchNotOlderThan,
	}}
	if rapid.Bool().Draw(rt, "not older") {
		f.opts.ResourceVersion = h.drawVersion(rt)
	} else {
		f.least = len(h.changes)
	}
	writes := h.writes(rt, 2)
	h.open(f)
	for _, write := range writes {
		write()
	}
	h.catchUp()
}

// stop cancels one of the watches.
func (h *history[T]) stop(rt *rapid.T) {
	if len(h.follows) == 0 {
		rt.Skip("no watch")
	}
	i := rapid.IntRange(0, len(h.follows)-1).Draw(rt, "watch")
	f := h.follows[i]
	f.cancel()
	h.step("cancel %v", f)
	if !f.wait(h.Patience, f.ended) {
		h.rt.Fatal(h.report("%v goes on after its context was cancelled", f))
	}
	h.follows = append(h.follows[:i], h.follows[i+1:]...)
}

// maxFollowers is how many watches are open at a time.
const maxFollowers = 4

func (h *history[T]) open(f *follower[T]) {
	if len(h.follows) == maxFollowers {
		h.follows[0].cancel()
		h.follows = h.follows[1:]
	}
	h.follow++
	f.id = h.follow
	f.opts.Watch = true
	h.follows = append(h.follows, f)
	h.resume(f)
}

// resume calls Watch from where f stands.
func (h *history[T]) resume(f *follower[T]) {
	if f.initial == nil {
		f.opts.ResourceVersion = f.position
		f.opts.SendInitialEvents, f.opts.ResourceVersionMatch = nil, ""
		for f.next < len(h.changes) && h.changes[f.next].may(f.position) {
			f.next++
		}
		// A deletion at an unknown version may come or not.
		for f.next > 0 && !h.changes[f.next-1].must(f.position) {
			f.next--
		}
	}
	h.step("open %v", f)
	ctx, cancel := context.WithCancel(context.Background())
	f.cancel = cancel
	ended, came := make(chan struct{}), make(chan struct{}, 1)
	f.mu.Lock()
	f.ended, f.came, f.err = ended, came, nil
	f.mu.Unlock()
	opts := f.opts
	go func() {
		err := h.Source().Watch(ctx, opts, func(ev lw.WatchEvent[T]) error {
			f.mu.Lock()
			defer f.mu.Unlock()
			select {
			case <-ended:
				f.wrong = "it has yielded after it had returned"
			default:
			}
			f.events = append(f.events, ev)
			select {
			case came <- struct{}{}:
			default:
			}
			return nil
		})
		f.mu.Lock()
		defer f.mu.Unlock()
		f.err = err
		close(ended)
	}()
}

// wait waits for c.
func (f *follower[T]) wait(d time.Duration, c <-chan struct{}) bool {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-c:
		return true
	case <-t.C:
		return false
	}
}

// take returns what has come, and whether the watch has ended before that.
func (f *follower[T]) take() (events []lw.WatchEvent[T], ended bool, err error, wrong string) {
	f.mu.Lock()
	defer f.mu.Unlock()
	events, f.events = f.events, nil
	select {
	case <-f.ended:
		ended = true
	default:
	}
	return events, ended, f.err, f.wrong
}

// catchUp waits until every watch has told all changes.
func (h *history[T]) catchUp() {
	for i := 0; i < len(h.follows); {
		if f := h.follows[i]; h.catch(f) {
			i++
		} else {
			h.follows = append(h.follows[:i], h.follows[i+1:]...)
		}
	}
}

// catch waits until f has told all changes. It returns false if f has ended for good, as it may.
func (h *history[T]) catch(f *follower[T]) bool {
	deadline := time.NewTimer(h.Patience)
	defer deadline.Stop()
	for {
		events, ended, err, wrong := f.take()
		for _, ev := range events {
			f.ends, f.more = 0, ev.More
			if err := h.told(f, ev); err != nil {
				h.rt.Fatal(h.report("%v: %v", f, err))
			}
		}
		if wrong != "" {
			h.rt.Fatal(h.report("%v: %s", f, wrong))
		}
		all := f.initial == nil && h.pending(f) == nil && !ended
		if all && !f.more {
			return true
		}
		if ended {
			if !h.again(f, err) {
				return false
			}
			continue
		}
		select {
		case <-f.came:
		case <-f.ended:
		case <-deadline.C:
			if all {
				h.rt.Fatal(h.report("%v: an event says that there are more at hand, of which none has come after %v", f, h.Patience))
			}
			if f.initial != nil {
				h.rt.Fatal(h.report("%v: no bookmark has ended the initial events after %v", f, h.Patience))
			}
			h.rt.Fatal(h.report("%v at %s: nothing tells of the %v after %v", f, f.position, h.pending(f), h.Patience))
		}
	}
}

// again resumes a watch that has ended with err, if it may.
func (h *history[T]) again(f *follower[T], err error) bool {
	version := f.position
	if f.initial != nil {
		version = f.opts.ResourceVersion
	}
	if err != nil {
		if f.initial != nil && refusesStreams(err) {
			h.unstreamed.Store(true)
			h.step("%v is refused: %v", f, err)
			return false
		}
		if h.expired(f.String(), version, err) {
			return false
		}
	}
	h.step("%v has ended: %v", f, err)
	if f.ends++; f.ends > 10 {
		h.rt.Fatal(h.report("%v has ended %d times in a row without an event: %v", f, f.ends, err))
	}
	if f.initial != nil {
		f.initial = map[lw.Key]T{}
	}
	h.resume(f)
	return true
}

// refusesStreams reports whether err is the answer of a server that cannot stream lists.
func refusesStreams(err error) bool {
	return apierrors.IsInvalid(err) || apierrors.IsBadRequest(err) || apierrors.IsMethodNotSupported(err) || apierrors.IsForbidden(err)
}

// pending returns the first change that f has to tell and has not.
func (h *history[T]) pending(f *follower[T]) *change[T] {
	for ; f.next < len(h.changes); f.next++ {
		c := h.changes[f.next]
		if typ, _ := f.sees(c); typ == "" || f.optional(c) && f.next == len(h.changes)-1 {
			continue
		}
		return c
	}
	return nil
}

// optional reports whether c is a deletion that may have been before f began, as far as is known.
func (f *follower[T]) optional(c *change[T]) bool { return c.version == "" && c.may(f.position) }

// sees returns the type of the event that tells f of a change and its object; "" for none.
func (f *follower[T]) sees(c *change[T]) (watch.EventType, T) {
	var zero T
	was, is := c.old != zero && f.selects(c.old), c.new != zero && f.selects(c.new)
	switch {
	case was && is:
		return watch.Modified, c.new
	case is:
		return watch.Added, c.new
	case was:
		return watch.Deleted, c.old
	}
	return "", zero
}

// told compares an event with what is to come. The error says what is wrong with it.
func (h *history[T]) told(f *follower[T], ev lw.WatchEvent[T]) error {
	switch {
	case ev.Err != nil:
		return fmt.Errorf("event with an error: %w", ev.Err)
	case f.initial != nil:
		return h.toldInitial(f, ev)
	}
	what := fmt.Sprintf("%s event of %v at %q", ev.Type, ev.Key(), ev.ResourceVersion)
	if err := valid(ev.ResourceVersion); err != nil {
		return fmt.Errorf("%s: %w", what, err)
	}
	if ev.Type == watch.Bookmark {
		return h.toldBookmark(f, ev)
	}
	if compare(ev.ResourceVersion, f.position) <= 0 {
		return fmt.Errorf("%s, after %s", what, f.position)
	}
	for c := h.pending(f); c != nil; c = h.pending(f) {
		if f.optional(c) && !(ev.Type == watch.Deleted && ev.Key() == c.key) {
			f.next++
			continue
		}
		break
	}
	if f.next == len(h.changes) {
		// The last change may be a deletion of an unknown version, which pending passes over.
		if n := len(h.changes); n > 0 && ev.Type == watch.Deleted && ev.Key() == h.changes[n-1].key && f.optional(h.changes[n-1]) {
			f.next = n - 1
		} else {
			return fmt.Errorf("%s, of which nothing was written", what)
		}
	}
	c := h.changes[f.next]
	typ, obj := f.sees(c)
	switch {
	case ev.Type != typ || ev.Key() != c.key:
		return fmt.Errorf("%s, want %s of the %v", what, typ, c)
	case c.version != "" && ev.ResourceVersion != c.version:
		return fmt.Errorf("%s, want it of the %v", what, c)
	case c.version == "" && !c.can(ev.ResourceVersion):
		return fmt.Errorf("%s, want it of the %v and not after %s", what, c, c.until)
	}
	if typ != watch.Deleted {
		if err := h.same(obj, ev.Object); err != nil {
			return fmt.Errorf("%s: %w", what, err)
		}
	}
	var zero T
	if typ == watch.Deleted && ev.Object != zero && ev.Object.GetUID() != obj.GetUID() {
		return fmt.Errorf("%s has UID %q, want %s", what, ev.Object.GetUID(), obj.GetUID())
	}
	if c.version == "" {
		c.version = ev.ResourceVersion
	}
	f.next++
	f.position = ev.ResourceVersion
	h.saw(f.position)
	return nil
}

func (h *history[T]) toldBookmark(f *follower[T], ev lw.WatchEvent[T]) error {
	c := h.pending(f)
	switch {
	case !f.opts.AllowWatchBookmarks:
		return fmt.Errorf("a bookmark at %s that was not asked for", ev.ResourceVersion)
	case ev.InitialEventsEnd:
		return fmt.Errorf("the bookmark at %s ends initial events that were not asked for", ev.ResourceVersion)
	case compare(ev.ResourceVersion, f.position) < 0:
		return fmt.Errorf("a bookmark at %s, after %s", ev.ResourceVersion, f.position)
	case c != nil && c.must(ev.ResourceVersion):
		return fmt.Errorf("a bookmark at %s that is ahead of the %v, which was not told", ev.ResourceVersion, c)
	}
	f.position = ev.ResourceVersion
	h.saw(f.position)
	return nil
}

// toldInitial takes an event of a streamed list that has not ended: of the list, or of a change that came in between.
func (h *history[T]) toldInitial(f *follower[T], ev lw.WatchEvent[T]) error {
	switch ev.Type {
	case watch.Deleted:
		delete(f.initial, ev.Key())
		return nil
	case watch.Added, watch.Modified:
		if last, ok := f.initial[ev.Key()]; ok && compare(ev.ResourceVersion, last.GetResourceVersion()) <= 0 {
			return fmt.Errorf("the initial events have %v twice", ev.Key())
		}
		f.initial[ev.Key()] = ev.Object
		return nil
	case watch.Bookmark:
	default:
		return fmt.Errorf("an event of type %q", ev.Type)
	}
	if !ev.InitialEventsEnd {
		return nil
	}
	version := ev.ResourceVersion
	if err := valid(version); err != nil {
		return fmt.Errorf("the bookmark that ends the initial events: %w", err)
	}
	if since := f.opts.ResourceVersion; since != "" && compare(version, since) < 0 {
		return fmt.Errorf("the initial events are of version %s, which is older", version)
	}
	objs := make([]T, 0, len(f.initial))
	for _, obj := range f.initial {
		objs = append(objs, obj)
	}
	if err := h.matches(version, objs, f.selects, f.least); err != nil {
		return fmt.Errorf("the initial events at %s: %w", version, err)
	}
	f.initial, f.position, f.next = nil, version, 0
	for f.next < len(h.changes) && h.changes[f.next].must(version) {
		f.next++
	}
	h.saw(version)
	return nil
}
