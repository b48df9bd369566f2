package lw

import (
	"errors"
	"fmt"
	"slices"
	"time"

	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/watch"

	"github.com/go-lw/lw/internal/equal"
)

// Tell shows obj at once: what the server has answered to a write, a get or a patch. Every read,
// index and handler has it before the watch does. Derived collections have it with the next step of
// their graph; see [Graph.WaitForStep]. The key is then ahead. When lists and watches reach its
// version, they call no handler again. If they pass it without the object, reads go back to what
// lists and watches have seen. An obj that is older than that changes nothing.
// Status.ResourceVersion and the waits for a version do not count what was told; [WaitFor] and
// Changed do.
//
// obj may be of any type that encodes to what T is decoded from. Tell copies it, and calls the
// source's transforms and the functions of indexes, in the goroutine of the caller. Do not call
// Tell in one of these. Before the first list, the store shows obj with that list.
//
// The error wraps [ErrStopped]; errors.ErrUnsupported if the source is no [Teller], its versions
// are no decimal numbers or the collection is followed ([Follow], package serve); or the failure of
// a transform or an index. Then nothing has changed.
func (inf *Informer[T]) Tell(obj Identified) error {
	if isNil(obj) {
		return inf.untold(Key{}, errors.New("the object is nil"))
	}
	key := KeyOf(obj)
	if key.Name == "" {
		return inf.untold(key, errNoName("object"))
	}
	m := &mark[T]{version: decimal(obj.GetResourceVersion()), since: time.Now()}
	src, err := inf.teller()
	if err == nil && m.version == 0 {
		err = errUnordered
	}
	if err != nil {
		return inf.untold(key, err)
	}
	if news, err := inf.hub.isNews(key, m); err != nil || !news {
		return inf.untold(key, err)
	}
	out, stays, err := src.Told(obj)
	switch {
	case err != nil && isKeep(err):
		return nil
	case err == nil && stays:
		if err = unusable(out); err == nil && KeyOf(out) != key {
			err = fmt.Errorf("the source made %s of it", keyString(KeyOf(out)))
		}
		m.shown = out
		inf.hub.store.store.Note(out)
	}
	if err == nil {
		_, err = inf.hub.tell(key, m)
		inf.watchAge()
	}
	return inf.untold(key, err)
}

// TellDeleted hides the object of key that has that UID: the server has answered that it is
// deleted. If the object is only marked for deletion, the server answers with the object: call
// Tell. Without a UID TellDeleted hides the object that was there at version, which may come back:
// a selector has left it out. version is that of the deletion, "" if it is not known. Then the
// informer asks the server for its version, as CatchUp does, and hides the object until the copy
// has reached that. An object with another UID is not hidden. Otherwise TellDeleted is like Tell.
func (inf *Informer[T]) TellDeleted(key Key, uid types.UID, version string) error {
	m := &mark[T]{version: decimal(version), gone: uid, since: time.Now(), loose: version == ""}
	_, err := inf.teller()
	if err == nil && !m.loose && m.version == 0 {
		err = errUnordered
	}
	if err != nil {
		return inf.untold(key, err)
	}
	news, err := inf.hub.tell(key, m)
	if news && m.loose {
		inf.ask()
	}
	inf.watchAge()
	return inf.untold(key, err)
}

// teller returns the source as a Teller.
func (inf *Informer[T]) teller() (Teller[T], error) {
	src := tellerOf(inf.r.src)
	if src == nil || HintsOf(inf.r.src).Unversioned {
		return nil, errNoTeller
	}
	return src, nil
}

// untold returns err as the error of Tell; nil if it is nil.
func (inf *Informer[T]) untold(key Key, err error) error {
	if err == nil {
		return nil
	}
	e, ok := err.(*Error)
	if ok {
		c := *e // it is the source's
		e = &c
	} else {
		e = &Error{Op: opTell, Key: key, Err: err}
	}
	e.Informer = inf.r.opts.Name
	return e
}

// askPause is the pause before the server's version is asked for again, if that has failed.
const askPause = 30 * time.Second

// ask has askBounds run, while the informer does.
func (inf *Informer[T]) ask() {
	for inf.hub.beginAsking() {
		if inf.hub.spawn(inf.askBounds) {
			return
		}
		inf.hub.endAsking()
		if !inf.hub.runs() { // else Run has begun in between
			return
		}
	}
}

// askBounds asks for the server's version after deletions whose version nobody knows.
func (inf *Informer[T]) askBounds() {
	for {
		keys := inf.hub.unbound()
		if len(keys) == 0 {
			return
		}
		a := inf.query.Join(inf.r.serverVersion, inf.hub.spawn, inf.hub.stopped, ErrStopped)
		<-a.Done
		if at := decimal(a.Version); at != 0 {
			if err := inf.hub.bind(keys, at); err != nil && !errors.Is(err, ErrStopped) {
				inf.r.report(&Error{Op: opTell, Err: err})
			}
			continue
		}
		pause := time.NewTimer(askPause)
		select {
		case <-pause.C:
		case <-inf.hub.stopped:
			pause.Stop()
		}
	}
}

// watchAge has age run, while the informer does and something is ahead.
func (inf *Informer[T]) watchAge() {
	aging := &inf.hub.marks.aging
	if inf.hub.isAhead() && aging.CompareAndSwap(false, true) && !inf.hub.spawn(inf.age) {
		aging.Store(false)
	}
}

// age has the reflector list if something stays ahead at a version that the server has not reached,
// as after an unnoticed restore. In a quiet collection no list would come, and the overlay would
// hide its key for ever. mark.outlasts says what that list does.
func (inf *Informer[T]) age() {
	for wait := longest; ; {
		pause := time.NewTimer(wait + time.Second)
		select {
		case <-pause.C:
		case <-inf.hub.stopped:
			pause.Stop()
			return
		}
		version, since := inf.hub.oldest()
		if since.IsZero() {
			return
		}
		if wait = longest - time.Since(since); wait >= 0 {
			continue
		}
		wait = longest
		a := inf.query.Join(inf.r.serverVersion, inf.hub.spawn, inf.hub.stopped, ErrStopped)
		<-a.Done
		if at := decimal(a.Version); at != 0 && at < version {
			inf.r.refresher.End(errAhead)
			wait = askPause
		}
	}
}

// plan works out what g does to marked keys. An event that is older than the mark is not shown, but
// becomes the base. A key that g has passed without an event goes back to its base, as one more
// event of g. So readers see all of it at one point.
func (t *informerTarget[T]) plan(g *eventGroup[T]) {
	marks, at := &t.hub.marks, g.to.number
	t.hub.mu.Lock()
	defer t.hub.mu.Unlock()
	marks.fence = false
	t.move.fates = t.move.fates[:0]
	g.unplan()
	whole := g.whole || len(g.events)+len(g.kept) == 0
	for i := range g.events {
		t.planEventLocked(&g.events[i], at)
	}
	for _, key := range g.kept {
		if w := t.hub.demand; w != nil && !w.hidesLocked(key, at) {
			delete(w.bad, key)
		}
		if m := marks.of[key]; m != nil && !m.loose && !m.hides(at, "") {
			t.move.fates = append(t.move.fates, fate[T]{key: key, ends: true})
		}
	}
	marks.passedLocked(at, whole, func(key Key, m *mark[T]) {
		if g.of(key) == nil && (m.loose || !slices.Contains(g.kept, key)) {
			t.move.fates = append(t.move.fates, fate[T]{key: key, ends: true})
			g.addBack(key, m.base)
		}
	})
}

// planEventLocked plans the event of a group up to version at, if its key has a mark, or is wanted
// and has not been read yet.
func (t *informerTarget[T]) planEventLocked(e *groupEvent[T], at uint64) {
	if w := t.hub.demand; w != nil {
		if w.hidesLocked(e.key, at) {
			e.way, e.marked, e.existed = wayNone, true, true
			if e.ev.Err == nil {
				t.move.fates = append(t.move.fates, fate[T]{key: e.key, waits: true, base: e.object()})
			}
			return
		}
		delete(w.bad, e.key)
	}
	m := t.hub.marks.of[e.key]
	if m == nil {
		return
	}
	f := fate[T]{key: e.key}
	if at == m.version && !m.loose {
		f.since = m.since
	}
	e.marked, e.existed = true, !equal.IsZero(m.base)
	switch hidden := m.hides(at, e.uid()); {
	case hidden && e.ev.Err != nil:
		f.base = m.base
	case hidden:
		e.way, f.base = wayNone, e.object()
	case m.confirmedBy(at, e.ev.Object) && e.ev.Type != watch.Deleted:
		e.way, f.ends = wayNone, true
	case m.loose && e.ev.Err != nil: // the object is there, but cannot be used: as before
		e.way, e.back, f.ends = wayBack, m.base, true
	default:
		f.ends = true
	}
	t.move.fates = append(t.move.fates, f)
}

// withOverlay returns the objects of a list with those of the overlay in their place, where the
// list is older. Writers of the store wait.
func (t *informerTarget[T]) withOverlay(l *wholeList[T], objs []T) []T {
	h := t.hub
	h.mu.Lock()
	defer h.mu.Unlock()
	t.move.fates, t.strange = t.move.fates[:0], nil
	if h.demand != nil {
		objs = h.withWantedLocked(l, objs)
	}
	if len(h.marks.of) == 0 {
		return objs
	}
	has, over := h.marks.amongLocked(objs), map[Key]T{}
	for key, m := range h.marks.of {
		_, kept := l.keep[key]
		stays, strange := m.outlasts(decimal(l.version), has[key], l.began)
		f := fate[T]{key: key, base: has[key]}
		switch {
		case l.epoch || !stays || kept && !isClosed(h.synced) || h.demand != nil && !h.demand.InList(h.demand.UnitOf(key)):
			f = fate[T]{key: key, ends: true}
			if strange && !l.epoch {
				t.strange = append(t.strange, key)
			}
		case kept:
			// The list has an object that cannot be used. If that is another one, base is no more.
			if e, _ := errors.AsType[*Error](l.keep[key]); !m.loose || e.UID == m.gone {
				f.base = m.base
			}
		default:
			over[key] = m.shown
		}
		t.move.fates = append(t.move.fates, f)
	}
	return overlaid(objs, over)
}

// overlaid returns objs with those of over in their place. A zero one hides what objs have.
func overlaid[T Identified](objs []T, over map[Key]T) []T {
	if len(over) == 0 {
		return objs
	}
	all := make([]T, 0, len(objs)+len(over))
	for _, obj := range objs {
		if _, hidden := over[KeyOf(obj)]; !hidden {
			all = append(all, obj)
		}
	}
	for _, obj := range over {
		if !equal.IsZero(obj) {
			all = append(all, obj)
		}
	}
	return all
}
