package lw

import (
	"fmt"
	"time"

	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/watch"

	"github.com/go-lw/lw/internal/equal"
)

// A listBuilder collects a list: the items of its pages, or the initial events of a stream. The
// target sees nothing of it until the list is complete.
type listBuilder[T Identified] struct {
	objs    []T
	bad     map[Key]error // objects that could not be decoded or transformed, and why
	leftOut int           // objects that a Transform left out; nothing is wrong with them
	version string        // of the whole list
	began   time.Time     // when it was asked for

	// The fields below are used by a stream only.

	places map[Key]int // indexes into objs; nil until an object that was sent changes
	newest position    // the newest version that was sent
	// changes says that a change was sent, or a bookmark with a version. Then newest may be the
	// version of that, and not of an object of the list.
	changes bool

	// The fields below are used by pages only.

	pages  int
	items  int                   // objects, including bad ones and those left out
	tokens map[string]struct{}   // the continue tokens of all pages so far
	firsts map[identity]struct{} // the first object of each page
}

// An identity tells the objects of a list apart.
type identity struct {
	key Key
	uid types.UID
}

// newListBuilder returns a builder with room for a few more objects than the last list had.
func (r *Reflector[T]) newListBuilder() *listBuilder[T] {
	return &listBuilder[T]{began: time.Now(), objs: make([]T, 0, r.at.objects+r.at.objects/64)}
}

// addItem adds an item of a page. It does not look at the object; validate does that later.
func (b *listBuilder[T]) addItem(obj T, err error) {
	b.items++
	if err != nil {
		b.reject(err)
		return
	}
	b.objs = append(b.objs, obj)
}

// leaveOut counts an item that a Transform left out.
func (b *listBuilder[T]) leaveOut() {
	b.items++
	b.leftOut++
}

// checkPage refuses a page with the continue token or the first object of an earlier page: the list
// has gone back to where it was before, and would never end. The objects of the page are
// b.objs[from:]. token is the continue token that came with it.
func (b *listBuilder[T]) checkPage(token string, from int) error {
	if _, ok := b.tokens[token]; ok {
		return protocolErrorf("a page continues where an earlier one did")
	}
	if b.tokens == nil {
		b.tokens, b.firsts = map[string]struct{}{}, map[identity]struct{}{}
	}
	b.tokens[token] = struct{}{}
	if from == len(b.objs) || equal.IsZero(b.objs[from]) {
		return nil
	}
	first := identity{KeyOf(b.objs[from]), b.objs[from].GetUID()}
	if _, ok := b.firsts[first]; ok {
		return protocolErrorf("two pages begin with %s", keyString(first.key))
	}
	b.firsts[first] = struct{}{}
	return nil
}

// validate sets aside the items that cannot be in a collection. It runs once, after the last page.
// The objects have left the CPU cache by then. That costs less than it seems: in a loop that does
// nothing else, the CPU waits for many cache misses at a time. unnamed says that an object may have
// no name.
func (b *listBuilder[T]) validate(unnamed bool) {
	kept := 0
	for i, obj := range b.objs {
		if !usable(obj) && (equal.IsZero(obj) || !unnamed) {
			b.reject(unusable(obj))
			continue
		}
		if kept != i {
			b.objs[kept] = obj
		}
		kept++
	}
	clear(b.objs[kept:])
	b.objs = b.objs[:kept]
}

// checkUsable returns an error if the list has objects but none can be used. Then it is a list of
// something else, or one that nobody here can read. To show it as empty would be wrong.
func (b *listBuilder[T]) checkUsable() error {
	if len(b.objs) > 0 || b.leftOut > 0 || len(b.bad) == 0 {
		return nil
	}
	return newUselessError(b.bad)
}

// addEvent adds an object of a stream, or the reason why it cannot be used.
func (b *listBuilder[T]) addEvent(obj T, err error) {
	if err == nil {
		err = unusable(obj)
	}
	if err != nil {
		b.reject(err)
		return
	}
	if b.places != nil {
		b.places[KeyOf(obj)] = len(b.objs)
	}
	b.objs = append(b.objs, obj)
}

// reject notes that the object of err cannot be used. All objects whose key is unknown share the
// zero Key, under which their errors are collected.
func (b *listBuilder[T]) reject(err error) {
	if b.bad == nil {
		b.bad = map[Key]error{}
	}
	if isKeep(err) {
		b.leftOut++
	}
	key := keyOfError(err)
	if before := b.bad[key]; before != nil && key == (Key{}) {
		err = oneMore(before, err)
	}
	b.bad[key] = err
}

// A progress says whether an event shows that a streamed list comes nearer to its end. The stall
// timer ends a stream that shows none for too long; see watchSession.handle.
type progress int

const (
	// noProgress: the event is a change, or an ADDED event that is probably one. Its key has come
	// before, or it is newer than everything before it and a change is among that. Changes come as
	// long as the collection is in use, whether the list comes nearer to its end or not.
	noProgress progress = iota
	// someProgress: an ADDED event that is newer than all before. It is an object of the list, or
	// one that was created just now.
	someProgress
	// sureProgress: an ADDED event that is older than an earlier event. It must be an object of the
	// list, since a new object has the newest version of all.
	sureProgress
)

// applyEvent applies an event that came before the end of the initial events: an object of the
// list, or a change that happened while the objects were sent. Each key ends up in objs or in bad,
// with its latest event.
func (b *listBuilder[T]) applyEvent(ev *WatchEvent[T], h SourceHints) (made progress, err error) {
	key, older := ev.Key(), false
	if ev.Type != watch.Added {
		b.indexPlaces()
	}
	if ev.Filtered {
		b.leftOut++
	}
	if !h.Unversioned && ev.ResourceVersion != "" {
		if older, err = b.checkEvent(ev, key, h); err != nil {
			return noProgress, err
		}
	}
	made = b.progressOf(ev, older)
	if ev.Err == nil && b.places == nil && len(b.bad) == 0 {
		// The usual case: so far the stream has sent nothing but objects that can be used.
		b.addEvent(ev.Object, nil)
		return made, nil
	}
	b.indexPlaces()
	if _, known := b.places[key]; known || b.bad[key] != nil {
		made = noProgress
	}
	b.replaceEvent(ev, key)
	return made, nil
}

// progressOf returns what ev shows, if its key has not come before. older says that it is older
// than an earlier event.
func (b *listBuilder[T]) progressOf(ev *WatchEvent[T], older bool) progress {
	switch listed := ev.Type == watch.Added || ev.Filtered; {
	case !listed:
		b.changes = true
	case older:
		return sureProgress
	case !b.changes:
		return someProgress
	}
	return noProgress
}

// replaceEvent puts what ev brings in the place of what an earlier event of its key has brought.
func (b *listBuilder[T]) replaceEvent(ev *WatchEvent[T], key Key) {
	i, known := b.places[key]
	if known && ev.Err != nil && isKeep(ev.Err) {
		return
	}
	if key != (Key{}) {
		delete(b.bad, key)
	}
	gone := ev.Err == nil && ev.Type == watch.Deleted
	if known && ev.Err == nil && !gone && unusable(ev.Object) == nil {
		b.objs[i] = ev.Object
		return
	}
	if known {
		b.remove(i, key)
	}
	if !gone {
		b.addEvent(ev.Object, ev.Err)
	}
}

// remove removes the object at i, whose key is key. It moves the last object to i, so that the
// slice does not grow with the number of changes.
func (b *listBuilder[T]) remove(i int, key Key) {
	var zero T
	last := len(b.objs) - 1
	delete(b.places, key)
	if i != last {
		b.objs[i] = b.objs[last]
		b.places[KeyOf(b.objs[i])] = i
	}
	b.objs[last] = zero
	b.objs = b.objs[:last]
}

// indexPlaces fills places. It is called at the first event that may concern an object that was
// sent before, so most streams never pay for it.
func (b *listBuilder[T]) indexPlaces() {
	if b.places != nil {
		return
	}
	b.places = make(map[Key]int, len(b.objs))
	for i, obj := range b.objs {
		b.places[KeyOf(obj)] = i
	}
}

// checkEvent refuses an event that no correct server sends in a streamed list. The rules are:
//
//   - The objects of the list come as ADDED, with versions in any order.
//   - A second ADDED event of a key is newer than the object that came before.
//   - A change (MODIFIED or DELETED) is newer than everything before it, and is about an object
//     that has come.
//
// A key that came twice is only found if places is filled, which a bad object or a change causes.
// Otherwise the target finds it as a duplicate when it takes over the list.
//
// older reports whether ev is older than an earlier event.
func (b *listBuilder[T]) checkEvent(ev *WatchEvent[T], key Key, h SourceHints) (older bool, err error) {
	to, newest := positionAt(ev.ResourceVersion), b.newest
	if newer, _ := newest.before(to); newer || newest.version == "" {
		b.newest = to
	} else {
		older, _ = to.before(newest)
	}
	i, known := b.places[key]
	switch {
	case ev.Filtered || ev.Type == watch.Added && !known: // an object of the list, which a Transform may have left out
	case ev.Type == watch.Added:
		if held := positionAt(b.objs[i].GetResourceVersion()); held.covers(to) {
			err = tooOld(ev, key, held)
		}
	default:
		err = b.checkChange(ev, key, h, newest)
	}
	return older, err
}

// tooOld returns the error of an event that should be newer than at.
func tooOld[T Identified](ev *WatchEvent[T], key Key, at position) *protocolError {
	return &protocolError{msg: fmt.Sprintf("%s event of %s at resource version %s came after %s", ev.Type, keyString(key), ev.ResourceVersion, at.version)}
}

// checkChange is checkEvent for a change. newest is the newest version before.
//
// One transaction of the server's store may give several objects the same version, but not one
// object twice. An object that is not there may be one that a partial source leaves out.
//
// The change may be right although the object is unknown. The object may have come as a bad one,
// perhaps without a key, or the source may have left it out. Such a source yields a Filtered event
// instead of the object, so even there the first event of all cannot be a change.
func (b *listBuilder[T]) checkChange(ev *WatchEvent[T], key Key, h SourceHints, newest position) error {
	i, known := b.places[key]
	again := newest.version == ev.ResourceVersion && (known && b.objs[i].GetResourceVersion() != ev.ResourceVersion || !known && h.Partial)
	if !again && newest.covers(positionAt(ev.ResourceVersion)) {
		return tooOld(ev, key, newest)
	}
	first := newest.version == "" && len(b.bad) == 0
	if known || b.bad[key] != nil || b.bad[Key{}] != nil || h.Partial && !first {
		return nil
	}
	return protocolErrorf("%s event of %s, which was not there", ev.Type, keyString(key))
}

// errEmptyPages ends a list of which too many pages in a row were empty. The list is then asked for
// in one response.
var errEmptyPages = fmt.Errorf("%d pages in a row were empty", maxEmpty)
