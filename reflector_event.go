package lw

import (
	"fmt"
	"time"

	"k8s.io/apimachinery/pkg/watch"
)

// event handles each event that the source yields, in the goroutine of Run. It flushes when the
// source says that no other event follows at once, or when handlers have waited long enough.
func (w *watchSession[T]) event(ev WatchEvent[T]) error {
	if !w.started {
		// The hints are read only now: a ListWatch may recognize a client-go fake by its watch.
		w.started, w.hints = true, HintsOf(w.r.src)
		w.r.recorder.decodedBy(w.hints.Decoder)
		w.noVersions = w.noVersions || w.hints.Unversioned
	}
	w.unflushed++
	w.kinds[kindOf(ev.Type)]++
	if ev.More && w.unflushed%lookEvery == 0 {
		ev.More = w.unflushed < maxUnflushed && w.r.recorder.now()-w.flushed < maxDelay
	}
	w.ev = ev
	if ev.Err != nil {
		w.r.recorder.undecoded.Add(1)
		w.ev = withoutBody(ev)
	}
	err := w.handle(&w.ev)
	if !ev.More || err != nil {
		w.flush()
	}
	return err
}

const (
	// maxUnflushed bounds how many events are applied before the handlers are woken, while the
	// source says that more follow at once. It is the limit of a cursor: with more, handlers could
	// count as slow only because nobody has woken them.
	maxUnflushed = defaultLimit
	// maxDelay bounds how long handlers wait in the same case. The clock, and the bound above, are
	// looked at every lookEvery events.
	maxDelay  = 500 * time.Microsecond
	lookEvery = 16
)

// flush does what need not be done for each event: it counts the events and wakes whoever waits for
// changes.
func (w *watchSession[T]) flush() {
	if w.unflushed == 0 {
		return
	}
	w.ev = WatchEvent[T]{} // so that w does not keep the object alive
	w.r.target.notify()
	w.flushed = w.r.recorder.heard(&w.kinds)
	w.stall.heard(w.lifeSigns)
	w.unflushed, w.lifeSigns, w.kinds = 0, 0, [eventKinds]uint64{}
}

// handle applies ev: to the list while the initial events come in, and to the target after that. It
// also counts the signs of life. On a plain watch every event is one. A streamed list must come
// nearer to its end, so a change or a bookmark is none; see progress.
func (w *watchSession[T]) handle(ev *WatchEvent[T]) error {
	if w.initial == nil {
		w.lifeSigns++
		return w.apply(ev)
	}
	r := w.r
	switch ev.Type {
	case watch.Added, watch.Modified, watch.Deleted:
		w.moved = true
		made, err := w.initial.applyEvent(ev, w.hints)
		if made == sureProgress || made == someProgress && !w.strict.Load() {
			w.lifeSigns++
		}
		return err
	case watch.Bookmark:
		if !ev.InitialEventsEnd {
			w.initial.changes = w.initial.changes || ev.ResourceVersion != ""
			return nil // no progress of the list
		}
		if newest := w.initial.newest; !w.hints.Unversioned && newest.after(ev.ResourceVersion) {
			// The store would report a version that is older than what it shows.
			return protocolErrorf("the initial events end at resource version %s, but %s came before", ev.ResourceVersion, newest.version)
		}
		// The list is whole. From here on this is a plain watch.
		w.lifeSigns++
		w.stall.heard(w.lifeSigns) // before goLive, which notes the count
		w.lifeSigns = 0
		w.initial.version = ev.ResourceVersion
		if err := r.takeOver(opStream, w.initial); err != nil {
			return err
		}
		r.streams.brokenStreams = 0
		r.streams.proved = true
		w.initial, w.op, w.moved, w.start = nil, opWatch, false, time.Now()
		w.goLive()
	default:
		return protocolErrorf("event of unknown type %q", ev.Type)
	}
	return nil
}

// withoutBody turns a DELETED event whose object could not be decoded into one that has only the
// object's identity. The content of a deleted object is not needed.
func withoutBody[T Identified](ev WatchEvent[T]) WatchEvent[T] {
	if ev.Type != watch.Deleted || ev.ResourceVersion == "" {
		return ev
	}
	key := ev.Key()
	if key.Name == "" {
		return ev
	}
	id := &Meta{Namespace: key.Namespace, Name: key.Name, ResourceVersion: ev.ResourceVersion}
	return WatchEvent[T]{Type: watch.Deleted, ResourceVersion: ev.ResourceVersion, Identity: id}
}

// apply checks one event of a plain watch, and hands it to the target.
func (w *watchSession[T]) apply(ev *WatchEvent[T]) error {
	r := w.r
	to := positionAt(ev.ResourceVersion)
	if ev.Type == watch.Bookmark {
		older, ordered := r.position.before(to)
		if ev.ResourceVersion == "" || ordered && !older {
			return nil // a bookmark that is not newer than the position says nothing new
		}
		return w.advance(ev, Key{}, to)
	}
	key := ev.Key()
	if ev.Err != nil {
		if key.Name == "" {
			// Nobody knows which object failed, so no later event could end its being set aside. It
			// would hold back the reported version until a list happens to come. A protocol error
			// makes the list come now.
			return fmt.Errorf("%w: %w", protocolErrorf("%s event of an object that cannot be told", ev.Type), ev.Err)
		}
		if ev.ResourceVersion != "" {
			if err := w.check(ev, key, to); err != nil {
				return err
			}
		}
		r.setAside.add(key, ev.Err, true, r.report)
		return w.advance(ev, key, to)
	}
	if err := w.check(ev, key, to); err != nil {
		return err
	}
	return w.advance(ev, key, to)
}

// check refuses an event that no correct server sends at this position. An event must have a known
// type and a name. Unless the source has no versions, it must also have a version, which is newer
// than the position if the two have an order.
func (w *watchSession[T]) check(ev *WatchEvent[T], key Key, to position) error {
	r := w.r
	switch ev.Type {
	case watch.Added, watch.Modified, watch.Deleted:
	default:
		return protocolErrorf("event of unknown type %q", ev.Type)
	}
	if key.Name == "" && !w.hints.Unnamed {
		return protocolErrorf("%s event of an object without a name", ev.Type)
	}
	if w.noVersions {
		return nil
	}
	if ev.ResourceVersion == "" {
		return protocolErrorf("%s event of %s without a resource version", ev.Type, keyString(key))
	}
	if older, ordered := r.position.before(to); !ordered || older {
		return nil
	}
	if ev.ResourceVersion == r.position.version {
		// One transaction of the server's store may give several objects the same version, but not
		// one object twice. An object that is not there may be one that a partial source leaves
		// out.
		held, ok := r.target.get(key)
		if ok && held.GetResourceVersion() != ev.ResourceVersion || !ok && (ev.Type == watch.Added || w.hints.Partial) {
			return nil
		}
	}
	return protocolErrorf("%s event of %s at resource version %s came after %s", ev.Type, keyString(key), ev.ResourceVersion, r.position.version)
}

// advance hands ev to the target and moves the position. It moves the reported version as well,
// unless an object is set aside whose event was not applied.
func (w *watchSession[T]) advance(ev *WatchEvent[T], key Key, to position) error {
	r := w.r
	if to.version == "" || w.hints.Unversioned {
		// The position stays. The event has no version, or one that is not a version of the
		// collection: those of a fake's objects are whatever the test wrote into them.
		to = r.position
	}
	if !w.moved {
		w.moved = true
		r.recovered()
	}
	// A goroutine that waits for this version is woken within apply, and may then look at
	// Status.SetAside. So a key that is no longer set aside is removed before.
	wasAside := false
	if ev.Type != watch.Bookmark && ev.Err == nil && !r.setAside.empty() {
		wasAside = r.setAside.remove(key)
	}
	report := to.version
	if r.setAside.holds() {
		report = ""
	}
	existed, known, err := r.target.apply(ev, key, report)
	r.position = to
	switch {
	case err != nil:
		r.setAside.add(key, err, true, r.report)
		r.target.heldBack(ev.ResourceVersion)
	// In these cases existed proves nothing about the server: the store lacked the newest version
	// of the object, cannot tell, may rightly not have the object, or was not changed.
	case wasAside || !known || w.noVersions || w.hints.Partial || ev.Err != nil || ev.Type == watch.Bookmark:
	case ev.Type == watch.Added && existed:
		// The event is true, and was applied. But it shows that earlier events were not sent, so a
		// list has to follow.
		return gapErrorf("ADDED event of %s, which was there already", keyString(key))
	case ev.Type != watch.Added && !existed:
		return gapErrorf("%s event of %s, which was not there", ev.Type, keyString(key))
	}
	return nil
}
