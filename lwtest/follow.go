package lwtest

//lint:file-ignore ST1008 An error here is often what a call of the source has returned.

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

// A follower is a watch that the history keeps open: when it ends, it is resumed from its position.
// A goroutine of its own runs Watch and collects the events; the history takes and checks them in
// rapid's goroutine.
type follower[T lw.Object] struct {
	id           int
	opts         metav1.ListOptions
	selects      func(T) bool
	position     string // every event up to it was received; "" during the initial events of a stream
	next         int    // index of the first change whose event is to come, or may come
	emptyEnds    int    // how often Watch ended since the last event
	promisedMore bool   // the last event had More or Open set, so another must follow it at once

	group []lw.WatchEvent[T] // the events of a version whose last one has not come

	// For a streamed list, until its initial events end; nil otherwise.
	initial    map[lw.Key]T // the objects that the initial events have shown so far
	minChanges int          // the list must contain at least the first minChanges changes

	cancel context.CancelFunc
	ended  chan struct{} // closed when Watch has returned

	mu      sync.Mutex         // guards what follows
	events  []lw.WatchEvent[T] // received, and not yet checked
	arrived chan struct{}      // receives a value when events is no longer empty
	err     error              // the result of Watch
	wrong   string             // what Watch did that it must not do; "" for nothing
}

func (f *follower[T]) String() string {
	return fmt.Sprintf("watch %d (%s)", f.id, describe(f.opts))
}

// watch opens a watch from a known version.
func (h *history[T]) watch(rt *rapid.T) {
	sel := h.drawSelector(rt)
	h.open(&follower[T]{selects: sel.Matches, position: h.drawVersion(rt), opts: metav1.ListOptions{
		LabelSelector: sel.Labels, FieldSelector: sel.Fields, AllowWatchBookmarks: rapid.Bool().Draw(rt, "bookmarks"),
	}})
}

// stream opens a streamed list and makes writes while it comes in.
func (h *history[T]) stream(rt *rapid.T) {
	sel, yes := h.drawSelector(rt), true
	f := &follower[T]{selects: sel.Matches, initial: map[lw.Key]T{}, opts: metav1.ListOptions{
		LabelSelector: sel.Labels, FieldSelector: sel.Fields, AllowWatchBookmarks: true,
		SendInitialEvents: &yes, ResourceVersionMatch: metav1.ResourceVersionMatchNotOlderThan,
	}}
	if rapid.Bool().Draw(rt, "not older") {
		f.opts.ResourceVersion = h.drawVersion(rt)
	} else {
		f.minChanges = len(h.changes)
	}
	writes := h.writes(rt, 2)
	h.open(f)
	for _, write := range writes {
		write()
	}
	h.catchUp()
}

// stop cancels one of the watches, which must then return.
func (h *history[T]) stop(rt *rapid.T) {
	if len(h.followers) == 0 {
		rt.Skip("no watch")
	}
	i := rapid.IntRange(0, len(h.followers)-1).Draw(rt, "watch")
	f := h.followers[i]
	f.cancel()
	h.step("cancel %v", f)
	if !f.wait(h.Patience, f.ended) {
		h.rt.Fatal(h.report("%v goes on after its context was cancelled", f))
	}
	h.followers = append(h.followers[:i], h.followers[i+1:]...)
}

// maxFollowers is how many watches are open at a time.
const maxFollowers = 4

// open starts f. If there are too many followers it drops the oldest one.
func (h *history[T]) open(f *follower[T]) {
	if len(h.followers) == maxFollowers {
		h.followers[0].cancel()
		h.followers = h.followers[1:]
	}
	h.opened++
	f.id = h.opened
	f.opts.Watch = true
	h.followers = append(h.followers, f)
	h.resume(f)
}

// resume starts Watch in a new goroutine: from f's position, or from the beginning for a streamed
// list whose initial events have not ended.
func (h *history[T]) resume(f *follower[T]) {
	if f.initial == nil {
		f.opts.ResourceVersion = f.position
		f.opts.SendInitialEvents, f.opts.ResourceVersionMatch = nil, ""
		// Skip the changes up to the position. Then step back over deletions whose version is not
		// known: the watch may send such a deletion or not.
		for f.next < len(h.changes) && h.changes[f.next].possibleAt(f.position) {
			f.next++
		}
		for f.next > 0 && !h.changes[f.next-1].certainAt(f.position) {
			f.next--
		}
	}
	h.step("open %v", f)
	ctx, cancel := context.WithCancel(context.Background())
	f.cancel = cancel
	ended, arrived := make(chan struct{}), make(chan struct{}, 1)
	f.mu.Lock()
	f.ended, f.arrived, f.err = ended, arrived, nil
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
			case arrived <- struct{}{}:
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

// wait waits for c, for d at most, and reports whether it came.
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

// takeEvents returns the events since the last call, whether Watch has returned, its error, and
// what it did wrong. If ended is true no further events come.
func (f *follower[T]) takeEvents() (events []lw.WatchEvent[T], ended bool, err error, wrong string) {
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

// catchUp waits until every watch has sent all changes. It drops the watches that cannot be
// resumed.
func (h *history[T]) catchUp() {
	for i := 0; i < len(h.followers); {
		if f := h.followers[i]; h.catchUpOne(f) {
			i++
		} else {
			h.followers = append(h.followers[:i], h.followers[i+1:]...)
		}
	}
}

// catchUpOne waits until f has received all changes, and checks its events. It returns false if f
// has ended and may not be resumed, for example because its version has expired.
func (h *history[T]) catchUpOne(f *follower[T]) bool {
	deadline := time.NewTimer(h.Patience)
	defer deadline.Stop()
	for {
		events, ended, err, wrong := f.takeEvents()
		for _, ev := range events {
			f.emptyEnds, f.promisedMore = 0, ev.More || ev.Open
			if err := h.checkEvent(f, ev); err != nil {
				h.rt.Fatal(h.report("%v: %v", f, err))
			}
		}
		if wrong != "" {
			h.rt.Fatal(h.report("%v: %s", f, wrong))
		}
		if ended && len(f.group) > 0 {
			h.rt.Fatal(h.report("%v: it has ended amid the events of version %s: %v", f, f.group[0].ResourceVersion, err))
		}
		all := f.initial == nil && h.pending(f) == nil && !ended
		if all && !f.promisedMore {
			return true
		}
		if ended {
			if !h.resumeAfter(f, err) {
				return false
			}
			continue
		}
		select {
		case <-f.arrived:
		case <-f.ended:
		case <-deadline.C:
			if all {
				h.rt.Fatal(h.report("%v: an event says that there are more at hand, of which none has come after %v", f, h.Patience))
			}
			if f.initial != nil {
				h.rt.Fatal(h.report("%v: no bookmark has ended the initial events after %v", f, h.Patience))
			}
			h.rt.Fatal(h.report("%v at %s: the %v has not come after %v", f, f.position, h.pending(f), h.Patience))
		}
	}
}

// resumeAfter resumes a watch that has ended with err. It returns false if the watch may not be
// resumed: its version has expired, or the source refuses to stream.
func (h *history[T]) resumeAfter(f *follower[T], err error) bool {
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
	if f.emptyEnds++; f.emptyEnds > 10 {
		h.rt.Fatal(h.report("%v has ended %d times in a row without an event: %v", f, f.emptyEnds, err))
	}
	if f.initial != nil {
		f.initial = map[lw.Key]T{}
	}
	h.resume(f)
	return true
}

// refusesStreams reports whether err is an answer of a server that cannot stream lists.
func refusesStreams(err error) bool {
	return apierrors.IsInvalid(err) || apierrors.IsBadRequest(err) || apierrors.IsMethodNotSupported(err) || apierrors.IsForbidden(err)
}

// pending returns the first change whose event f may receive, or nil if it need not receive any. It
// advances f.next past the changes that f's selector does not see, and past deletions whose version
// became known and is not after f's position. It does not pass an optional one, whose event may
// come after the next write.
func (h *history[T]) pending(f *follower[T]) *change[T] {
	var zero T
	var first *change[T]
	for i := f.next; i < len(h.changes); i++ {
		c := h.changes[i]
		typ, _ := f.eventOf(c)
		if first == nil && (typ == "" || c.new == zero && c.version != "" && c.certainAt(f.position)) {
			f.next++
			continue
		}
		if first == nil {
			first = c
		}
		if typ != "" && !f.optional(c) {
			return first
		}
	}
	return nil
}

// optional reports whether c may have been made before f's position, as far as is known. Only a
// deletion of unknown version can be optional: its event may come or not.
func (f *follower[T]) optional(c *change[T]) bool { return c.version == "" && c.possibleAt(f.position) }

// eventOf returns the type and the object of the event that f must receive for c. The type is "" if
// f's selector matches neither the old nor the new object.
func (f *follower[T]) eventOf(c *change[T]) (watch.EventType, T) {
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

// checkEvent compares an event with the one that must come next. It returns an error that says what
// is wrong, and otherwise moves f's position on.
func (h *history[T]) checkEvent(f *follower[T], ev lw.WatchEvent[T]) error {
	switch {
	case ev.Err != nil:
		return fmt.Errorf("event with an error: %w", ev.Err)
	case f.initial != nil:
		return h.checkInitial(f, ev)
	}
	what := fmt.Sprintf("%s event of %v at %q", ev.Type, ev.Key(), ev.ResourceVersion)
	if err := valid(ev.ResourceVersion); err != nil {
		return fmt.Errorf("%s: %w", what, err)
	}
	if ev.Open || len(f.group) > 0 {
		f.group = append(f.group, ev)
		switch first := f.group[0]; {
		case ev.ResourceVersion != first.ResourceVersion:
			return fmt.Errorf("%s, amid the events of %s: all but the last of a version are Open, and no other", what, first.ResourceVersion)
		case ev.Open:
			return nil
		}
		return h.checkGroup(f)
	}
	if ev.Type == watch.Bookmark {
		return h.checkBookmark(f, ev)
	}
	if compare(ev.ResourceVersion, f.position) <= 0 {
		return fmt.Errorf("%s, after %s", what, f.position)
	}
	// Skip an optional deletion if this is not its event.
	for h.pending(f); f.next < len(h.changes); h.pending(f) {
		if c := h.changes[f.next]; !f.optional(c) || ev.Type == watch.Deleted && ev.Key() == c.key {
			break
		}
		f.next++
	}
	if f.next == len(h.changes) {
		return fmt.Errorf("%s, of which nothing was written", what)
	}
	c := h.changes[f.next]
	if all, _ := h.together(f); len(all) > 1 {
		return fmt.Errorf("%s is not Open, but %d changes of that version are to come, such as the %v: they could not be shown together", what, len(all), all[1])
	}
	typ, obj := f.eventOf(c)
	switch {
	case ev.Type != typ || ev.Key() != c.key:
		return fmt.Errorf("%s, want %s of the %v", what, typ, c)
	case c.version != "" && ev.ResourceVersion != c.version:
		return fmt.Errorf("%s, want it of the %v", what, c)
	case c.version == "" && !c.couldBeAt(ev.ResourceVersion):
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
		// The event has the deletion's version, which Delete does not return.
		c.version = ev.ResourceVersion
	}
	f.next++
	f.position = ev.ResourceVersion
	h.addVersion(f.position)
	return nil
}

// together returns the changes of one version, from f.next on, that must be sent to f, and the
// index of the first change after that version.
func (h *history[T]) together(f *follower[T]) (all []*change[T], next int) {
	next = f.next
	for version := h.changes[next].version; next < len(h.changes) && h.changes[next].version == version && (version != "" || next == f.next); next++ {
		if typ, _ := f.eventOf(h.changes[next]); typ != "" {
			all = append(all, h.changes[next])
		}
	}
	return all, next
}

// checkGroup compares the events of one version with the changes of that version, in any order.
func (h *history[T]) checkGroup(f *follower[T]) error {
	group := f.group
	f.group = nil
	version := group[0].ResourceVersion
	if last := group[len(group)-1]; last.Type == watch.Bookmark {
		group = group[:len(group)-1] // it only ends the others
	}
	for c := h.pending(f); c != nil && f.optional(c) && c.version == ""; c = h.pending(f) {
		f.next++
	}
	if h.pending(f) == nil {
		return fmt.Errorf("%d events of version %s, of which nothing was written", len(group), version)
	}
	all, next := h.together(f)
	if c := h.changes[f.next]; c.version != version || len(all) != len(group) {
		return fmt.Errorf("%d events of version %s, want %d, as of the %v", len(group), version, len(all), c)
	}
	for _, c := range all {
		typ, obj := f.eventOf(c)
		found := false
		for _, ev := range group {
			if ev.Key() != c.key {
				continue
			}
			found = ev.Type == typ
			if found && typ != watch.Deleted {
				if err := h.same(obj, ev.Object); err != nil {
					return fmt.Errorf("%s event at %s: %w", ev.Type, version, err)
				}
			}
		}
		if !found {
			return fmt.Errorf("the events of version %s have no %s of the %v", version, typ, c)
		}
	}
	f.next, f.position = next, version
	h.addVersion(version)
	return nil
}

// checkBookmark checks a bookmark after the initial events: it must be asked for, and must not be
// ahead of an event that has not come.
func (h *history[T]) checkBookmark(f *follower[T], ev lw.WatchEvent[T]) error {
	c := h.pending(f)
	switch {
	case !f.opts.AllowWatchBookmarks:
		return fmt.Errorf("a bookmark at %s that was not asked for", ev.ResourceVersion)
	case ev.InitialEventsEnd:
		return fmt.Errorf("the bookmark at %s ends initial events that were not asked for", ev.ResourceVersion)
	case compare(ev.ResourceVersion, f.position) < 0:
		return fmt.Errorf("a bookmark at %s, after %s", ev.ResourceVersion, f.position)
	case c != nil && c.certainAt(ev.ResourceVersion):
		return fmt.Errorf("a bookmark at %s that is ahead of the %v, which was not sent", ev.ResourceVersion, c)
	}
	f.position = ev.ResourceVersion
	h.addVersion(f.position)
	return nil
}

// checkInitial takes one of the initial events of a streamed list: an object of the list, a change
// that was made meanwhile, or the bookmark that ends them. At that bookmark the objects must be a
// state of the collection at the bookmark's version.
func (h *history[T]) checkInitial(f *follower[T], ev lw.WatchEvent[T]) error {
	if ev.Type != watch.Bookmark {
		f.group = nil
		if ev.Open {
			f.group = []lw.WatchEvent[T]{ev}
		}
	}
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
	if len(f.group) > 0 {
		return fmt.Errorf("the initial events end amid the events of version %s", f.group[0].ResourceVersion)
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
	if err := h.matches(version, objs, f.selects, f.minChanges); err != nil {
		return fmt.Errorf("the initial events at %s: %w", version, err)
	}
	f.initial, f.position, f.next, f.group = nil, version, 0, nil
	for f.next < len(h.changes) && h.changes[f.next].certainAt(version) {
		f.next++
	}
	h.addVersion(version)
	return nil
}
