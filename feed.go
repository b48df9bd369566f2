package lw

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/watch"

	"github.com/go-lw/lw/internal/equal"
	"github.com/go-lw/lw/internal/listopts"
	"github.com/go-lw/lw/internal/request"
)

// Poll returns a [Source] of what can only be listed. list returns all objects, which lw keeps; if
// there are none, a slice that is not nil. It is called again that long after the last call began,
// and at once for a wait for a version, one call at a time. What differs is shown together; objects
// without a resource version are compared as a whole. The versions are the times of the calls in
// Unix milliseconds. docs/sources.md says more.
func Poll[T Object](list func(ctx context.Context) ([]T, error), every time.Duration) Source[T] {
	if list == nil || every <= 0 {
		panic("lw: Poll: nil function, or an interval that is not positive")
	}
	s := &feedSource[T]{name: "Poll", stamped: stamper[T](), every: every, nudge: make(chan struct{}, 1)}
	s.run = func(ctx context.Context, to *Feeder[T]) error { return s.poll(ctx, to, list) }
	return s
}

// Feed returns a [Source] of what reports its changes. run connects, calls Snapshot and then Change
// until ctx is done, and returns why it has ended. It is called again then, and after some minutes
// without a call; informers then get what differs in its snapshot. The versions are as those of
// [Poll].
func Feed[T Object](run func(ctx context.Context, to *Feeder[T]) error) Source[T] {
	if run == nil {
		panic("lw: Feed: nil function")
	}
	return &feedSource[T]{name: "Feed", stamped: stamper[T](), run: run}
}

// A Feeder is what the function of a [Feed] calls, one call at a time. lw keeps the objects. When
// the function has returned, all calls return an error.
type Feeder[T Identified] struct {
	mu        sync.Mutex // held by each call; guards all below, which a Poll has to itself
	of        *feedSource[T]
	yield     func(WatchEvent[T]) error
	bookmarks bool   // they are wanted
	alive     func() // puts off the end of a watch in which nothing happens
	stop      func() // ends the context of the function, which may not look at errors
	// list takes the first snapshot, which is all that is wanted; nil: this is a watch.
	list    func(events []WatchEvent[T], version string) error
	initial bool   // the next snapshot is the initial events of a streamed list
	begun   bool   // there was a snapshot
	version uint64 // which Poll has for the next snapshot; 0: it is made then
	err     error  // of yield or list
}

// Snapshot replaces the whole collection. An empty one is a slice that is not nil.
func (f *Feeder[T]) Snapshot(objs []T) error {
	f.mu.Lock()
	defer f.mu.Unlock()
	if err := f.refuses(objs); err != nil {
		return err
	}
	if objs == nil {
		return fmt.Errorf("lw: %s: nil in place of the objects, and no error: an empty collection is a slice that is not nil", f.of.name)
	}
	version := f.version
	if f.version = 0; version == 0 {
		version = f.of.next()
	}
	text := listopts.FormatVersion(version)
	f.begun = true
	whole := f.initial || f.list != nil
	events, next := f.of.compare(objs, text, whole)
	if !whole {
		if err := f.send(events, text); err != nil {
			return err
		}
		f.of.was, f.of.at = next, version
		return nil
	}
	f.of.was, f.of.at = next, version
	if f.list != nil {
		f.err = f.list(events, text)
		f.stop()
		return f.err
	}
	f.initial = false
	for _, ev := range events {
		ev.More = true
		if err := f.give(ev); err != nil {
			return err
		}
	}
	return f.give(WatchEvent[T]{Type: watch.Bookmark, ResourceVersion: text, InitialEventsEnd: true})
}

// Change adds or replaces puts and removes gone, together. Without any it is a sign of life.
func (f *Feeder[T]) Change(puts []T, gone ...Key) error {
	f.mu.Lock()
	defer f.mu.Unlock()
	if err := f.refuses(puts); err != nil {
		return err
	}
	if !f.begun {
		return fmt.Errorf("lw: %s: a change before the snapshot", f.of.name)
	}
	next := map[Key]T{}
	var order []Key
	var none T
	for _, obj := range puts {
		order, next[KeyOf(obj)] = append(order, KeyOf(obj)), obj
	}
	for _, key := range gone {
		order, next[key] = append(order, key), none
	}
	version := f.of.next()
	at := eventBatch[T]{version: listopts.FormatVersion(version)}
	after := make(map[Key]sentState, len(next))
	for _, key := range order {
		if _, done := after[key]; !done {
			after[key] = f.of.changed(&at, key, next[key], false)
		}
	}
	if err := f.send(at.events, at.version); err != nil {
		return err
	}
	f.of.at = version
	for key, one := range after {
		if f.of.was[key] = one; one == (sentState{}) {
			delete(f.of.was, key)
		}
	}
	return nil
}

// end has all calls from now on return an error. It waits for the one that runs, and returns why
// the watch has ended, if a call has returned that. A call that another goroutine makes later would
// come beside a newer run, and its objects might be older.
func (f *Feeder[T]) end() error {
	f.mu.Lock()
	defer f.mu.Unlock()
	err := f.err
	f.err = fmt.Errorf("lw: %s: the function that was called with this Feeder has returned", f.of.name)
	return err
}

// refuses returns an error if the watch has ended, or if an object is nil or has no name.
func (f *Feeder[T]) refuses(objs []T) error {
	if f.err != nil {
		return f.err
	}
	for i, obj := range objs {
		switch {
		case equal.IsZero(obj):
			return fmt.Errorf("lw: %s: object %d of %d is nil", f.of.name, i+1, len(objs))
		case obj.GetName() == "":
			return fmt.Errorf("lw: %s: object %d of %d has no name", f.of.name, i+1, len(objs))
		}
	}
	return nil
}

// send yields the events of one version, or a bookmark if there are none.
func (f *Feeder[T]) send(events []WatchEvent[T], version string) error {
	if len(events) == 0 {
		if !f.bookmarks {
			f.alive()
			return nil
		}
		events = []WatchEvent[T]{{Type: watch.Bookmark, ResourceVersion: version}}
	}
	for i, ev := range events {
		ev.Open = i < len(events)-1
		if err := f.give(ev); err != nil {
			return err
		}
	}
	return nil
}

func (f *Feeder[T]) give(ev WatchEvent[T]) error {
	f.alive()
	if f.err = f.yield(ev); f.err != nil {
		f.stop()
	}
	return f.err
}

// A feedSource is the Source of Poll and of Feed. It runs run anew for each list and each watch, of
// which there is one at a time.
type feedSource[T Identified] struct {
	name  string
	run   func(ctx context.Context, to *Feeder[T]) error
	every time.Duration // 0: it is a Feed
	// stamped returns a copy of obj that has version; nil: the objects have none that could be
	// written. obj may be in a cache of the user's.
	stamped func(obj T, version string) (T, error)
	nudge   chan struct{} // has a value if a poll is wanted at once; nil: it is a Feed

	// The request that runs uses these two. The reflector has the same, so a watch from another
	// version than this has expired.

	was map[Key]sentState
	at  uint64 // the version of was; 0: there is none

	mu          sync.Mutex
	first, last uint64    // the first and the last version that was made; guarded by mu, as all below
	listed, due time.Time // when the last poll that was good began, and when the next is due
}

// A sentState is what was last sent of a key. The object itself is not kept, since a Transform may
// change it.
type sentState struct {
	there   bool
	twice   bool // several objects had the key, so what is there is that of before
	uid     types.UID
	version string // of the object; "": it had none,
	hash    uint64 // and this is its hash
	stamp   string // the version that was written into the copy that was sent
}

// next returns a new version: the time, but later than any that was made.
func (s *feedSource[T]) next() uint64 {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.last = max(s.last+1, uint64(max(1, time.Now().UnixMilli())))
	if s.first == 0 {
		s.first = s.last
	}
	return s.last
}

// made reports whether an object with that version is one that was shown.
func (s *feedSource[T]) made(version string) bool {
	n, err := listopts.ParseVersion(version)
	s.mu.Lock()
	defer s.mu.Unlock()
	return err == nil && s.first <= n && n <= s.last && s.first > 0
}

// An eventBatch collects the events of a version.
type eventBatch[T Identified] struct {
	events  []WatchEvent[T]
	version string
	whole   bool // all objects are sent, as new ones
}

// compare returns the events of version that lead to objs, or those of all objs if whole is true.
// It also returns what is shown then.
func (s *feedSource[T]) compare(objs []T, version string, whole bool) (events []WatchEvent[T], next map[Key]sentState) {
	at := eventBatch[T]{version: version, whole: whole}
	twice := map[Key]bool{}
	next = make(map[Key]sentState, len(objs))
	for _, obj := range objs {
		key := KeyOf(obj)
		if _, again := next[key]; again {
			twice[key] = true
		}
		next[key] = sentState{}
	}
	for _, obj := range objs {
		if key := KeyOf(obj); next[key] == (sentState{}) {
			next[key] = s.changed(&at, key, obj, twice[key])
		}
	}
	for key := range s.was {
		if _, is := next[key]; !is && !whole {
			var none T
			s.changed(&at, key, none, false)
		}
	}
	return at.events, next
}

// changed appends to batch the event that turns the last sent state of key into obj, if they
// differ; a zero obj is none. It returns the new state.
func (s *feedSource[T]) changed(batch *eventBatch[T], key Key, obj T, twice bool) sentState {
	was := s.was[key]
	ev := WatchEvent[T]{Type: watch.Modified, Object: obj, ResourceVersion: batch.version}
	if !was.there || batch.whole {
		ev.Type = watch.Added
	}
	switch {
	case twice:
		if was.twice && !batch.whole {
			return was
		}
		was.twice = true
		var none T
		ev.Object, ev.Err = none, &Error{Op: opDecode, Key: key, Err: errTwice}
		batch.events = append(batch.events, ev)
		return was
	case equal.IsZero(obj):
		if was == (sentState{}) {
			return was
		}
		ev.Type = watch.Deleted
		ev.Identity = &Meta{Namespace: key.Namespace, Name: key.Name, UID: was.uid, ResourceVersion: batch.version}
		batch.events = append(batch.events, ev)
		return sentState{}
	}
	is := sentState{there: true, uid: obj.GetUID(), version: obj.GetResourceVersion(), stamp: batch.version}
	if was.there && was.version == "" && s.made(is.version) {
		obj, is.version = s.unstamped(obj) // it was made of an object that was shown
	}
	if is.version == "" {
		is.hash = equal.Hash(obj)
	}
	same := is
	same.stamp = was.stamp
	if same == was {
		if is = was; !batch.whole {
			return is
		}
	}
	ev.Object, ev.Err = s.stamp(key, obj, is)
	batch.events = append(batch.events, ev)
	return is
}

// stamp returns obj, or a copy with the version of is if it has none.
func (s *feedSource[T]) stamp(key Key, obj T, is sentState) (T, error) {
	if is.version != "" || s.stamped == nil {
		return obj, nil
	}
	obj, err := s.stamped(obj, is.stamp)
	if err != nil {
		return obj, &Error{Op: opDecode, Key: key, Err: err}
	}
	return obj, nil
}

// unstamped returns a copy of obj without a version, and that. If none can be written, it is obj.
func (s *feedSource[T]) unstamped(obj T) (T, string) {
	if s.stamped != nil {
		if clean, err := s.stamped(obj, ""); err == nil {
			obj = clean
		}
	}
	return obj, obj.GetResourceVersion()
}

var errTwice = errors.New("several objects have this key")

// Hints says that there is no list but the first, that a poll can be had at once, and when the last
// one was.
func (s *feedSource[T]) Hints() SourceHints {
	if s.nudge == nil {
		return SourceHints{}
	}
	return SourceHints{
		NoStream: true,
		Progress: func() {
			select {
			case s.nudge <- struct{}{}:
			default: // one is due already
			}
		},
		polled: func() (last, due time.Time) {
			s.mu.Lock()
			defer s.mu.Unlock()
			return s.listed, s.due
		},
	}
}

// check returns an error if a request is for something that cannot be had.
func (s *feedSource[T]) check(opts metav1.ListOptions) error {
	switch {
	case opts.LabelSelector != "" || opts.FieldSelector != "":
		return permanent(fmt.Errorf("lw: %s: it has no selectors: a Transform leaves objects out", s.name))
	case opts.Continue != "" || opts.ResourceVersionMatch == metav1.ResourceVersionMatchExact:
		return apierrors.NewBadRequest("lw: " + s.name + ": there is no list but the present one")
	}
	return nil
}

// List yields a snapshot. Its version for a probe is one that the next poll passes.
func (s *feedSource[T]) List(ctx context.Context, opts metav1.ListOptions, yield func(T, error) error) (metav1.ListMeta, error) {
	if err := s.check(opts); err != nil {
		return metav1.ListMeta{}, err
	}
	if request.IsProbe(ctx) {
		if s.nudge == nil {
			return metav1.ListMeta{}, fmt.Errorf("lw: %s: nobody can be asked how new it is: %w", s.name, errors.ErrUnsupported)
		}
		return metav1.ListMeta{ResourceVersion: listopts.FormatVersion(s.next())}, nil
	}
	var got *metav1.ListMeta
	var failed error
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	f := &Feeder[T]{of: s, alive: func() {}, stop: cancel}
	f.list = func(events []WatchEvent[T], version string) error {
		got = &metav1.ListMeta{ResourceVersion: version}
		for _, ev := range events {
			if failed = yield(ev.Object, ev.Err); failed != nil {
				return failed
			}
		}
		return errListed
	}
	err := s.run(ctx, f)
	f.end()
	switch {
	case failed != nil:
		return metav1.ListMeta{}, failed
	case got != nil:
		return *got, nil
	case err == nil:
		err = fmt.Errorf("lw: %s: the function has ended without a snapshot", s.name)
	}
	return metav1.ListMeta{}, err
}

// Watch runs the function. It ends when nothing was sent for as long as the watch may take.
func (s *feedSource[T]) Watch(ctx context.Context, opts metav1.ListOptions, yield func(WatchEvent[T]) error) error {
	if err := s.check(opts); err != nil {
		return err
	}
	f := &Feeder[T]{of: s, yield: yield, bookmarks: opts.AllowWatchBookmarks, alive: func() {}}
	f.initial = opts.SendInitialEvents != nil && *opts.SendInitialEvents
	if from, err := listopts.ParseVersion(opts.ResourceVersion); !f.initial && (err != nil || from == 0 || from != s.at) {
		return listopts.TooOld(from, s.at)
	}
	outer := ctx
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	f.stop = func() { cancel(nil) }
	if most := opts.TimeoutSeconds; most != nil && *most > 0 {
		idle := time.Duration(*most) * time.Second
		end := time.AfterFunc(idle, func() { cancel(errIdle) })
		defer end.Stop()
		f.alive = func() { end.Reset(idle) }
	}
	err := s.run(ctx, f)
	ended := f.end()
	switch {
	case ended != nil:
		return ended
	case outer.Err() != nil:
		return outer.Err()
	case context.Cause(ctx) == errIdle:
		return nil
	}
	return err
}

var (
	errListed = errors.New("lw: the list is there")
	errIdle   = errors.New("lw: there was no change for as long as a watch may last; the function is called again")
)

// poll is the run of a Poll.
func (s *feedSource[T]) poll(ctx context.Context, to *Feeder[T], list func(context.Context) ([]T, error)) error {
	for first := to.list != nil || to.initial; ; first = false {
		if err := s.wait(ctx, first); err != nil {
			return err
		}
		began := time.Now()
		to.version = s.next() // what is written from here on may not be in the list
		objs, err := s.call(ctx, list)
		if err != nil {
			return err
		}
		s.mu.Lock()
		s.due = began.Add(s.every)
		s.mu.Unlock()
		if err = to.Snapshot(objs); err == nil || errors.Is(err, errListed) {
			s.mu.Lock()
			s.listed = began
			s.mu.Unlock()
		}
		if err != nil {
			return err
		}
	}
}

// wait waits until a poll is due or wanted.
func (s *feedSource[T]) wait(ctx context.Context, now bool) error {
	s.mu.Lock()
	due := s.due
	s.mu.Unlock()
	rest := time.Until(due)
	if now || rest <= 0 {
		return context.Cause(ctx)
	}
	t := time.NewTimer(rest)
	defer t.Stop()
	select {
	case <-t.C:
	case <-s.nudge:
	case <-ctx.Done():
	}
	return context.Cause(ctx)
}

// pollPatience is how long the function of a Poll may take. A list that says nothing has as long.
const pollPatience = 90 * time.Second

var errPollHangs = fmt.Errorf("lw: Poll: the function has not returned after %v", pollPatience)

// call calls list, which has pollPatience.
func (s *feedSource[T]) call(ctx context.Context, list func(context.Context) ([]T, error)) ([]T, error) {
	ctx, cancel := context.WithTimeoutCause(ctx, pollPatience, errPollHangs)
	defer cancel()
	objs, err := list(ctx)
	if ctx.Err() != nil {
		return nil, context.Cause(ctx)
	}
	return objs, err
}
