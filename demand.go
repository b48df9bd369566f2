package lw

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/util/sets"

	"github.com/go-lw/lw/internal/demand"
	"github.com/go-lw/lw/internal/equal"
	"github.com/go-lw/lw/internal/pace"
	"github.com/go-lw/lw/internal/request"
)

// A KeySet is which objects of a collection somebody wants, for [Wanted]. It changes while the
// program runs. The zero value is empty. All methods are safe for concurrent use.
type KeySet struct{ set demand.Set }

// Set replaces the keys that owner wants. An object is wanted while an owner wants it. Without keys
// the owner lets go of all. Keys without a name are left out.
func (s *KeySet) Set(owner string, keys ...Key) { s.setFor(demand.Owner{Name: Key{Name: owner}}, keys) }

func (s *KeySet) setFor(owner demand.Owner, keys []Key) {
	named := make([]Key, 0, len(keys))
	for _, key := range keys {
		if key.Name != "" {
			named = append(named, key)
		}
	}
	s.set.Set(owner, named)
}

func (s *KeySet) wanted() *demand.Set { return &s.set }

// A NamespaceSet is as a [KeySet], of all objects of namespaces.
type NamespaceSet struct{ set demand.Set }

// Set replaces the namespaces that owner wants.
func (s *NamespaceSet) Set(owner string, namespaces ...string) {
	keys := make([]Key, 0, len(namespaces))
	for _, namespace := range namespaces {
		if namespace != "" {
			keys = append(keys, Key{Namespace: namespace})
		}
	}
	s.wanted().Set(demand.Owner{Name: Key{Name: owner}}, keys)
}

func (s *NamespaceSet) wanted() *demand.Set {
	s.set.SetSpaces()
	return &s.set
}

// A KeyState says how far an informer has come with an object.
type KeyState uint8

const (
	KeyUnwanted KeyState = iota // nobody wants it; see [Wanted]
	KeyComing                   // it has not been read since it is wanted
	KeyThere                    // the store has it
	KeyAbsent                   // it has been read, and there is none that can be used
)

func (s KeyState) String() string {
	switch s {
	case KeyUnwanted:
		return "unwanted"
	case KeyComing:
		return "coming"
	case KeyThere:
		return "there"
	case KeyAbsent:
		return "absent"
	}
	return fmt.Sprintf("KeyState(%d)", uint8(s))
}

// KeyState returns the state of the object of key. Without a [Wanted] everything is wanted, and
// comes with the first list.
func (inf *Informer[T]) KeyState(key Key) KeyState {
	h := inf.hub
	h.mu.Lock()
	defer h.mu.Unlock()
	coming := !isClosed(h.synced)
	if w := h.demand; w != nil {
		unit := w.UnitOf(key)
		if !w.Set.Wants(unit) {
			return KeyUnwanted
		}
		coming = coming || w.State(unit) != demand.Ready
	}
	if coming {
		return KeyComing
	}
	if _, ok := h.store.store.Get(key); ok {
		return KeyThere
	}
	return KeyAbsent
}

// WaitForKey waits until the object of key has been read since it is wanted, and then returns nil:
// every later read shows it, or there was none. Without a [Wanted] it is WaitForSync. The error
// wraps the cause of ctx, [ErrStopped], or [ErrUnwanted]; and the last failure to read the object;
// or it is why the newest version of an object that is not shown cannot be used, until there is
// another one. A wait that ends does not end that somebody wants it.
func (inf *Informer[T]) WaitForKey(ctx context.Context, key Key) error {
	h := inf.hub
	w := h.demand
	if w == nil {
		return h.waitForSync(ctx)
	}
	unit := w.UnitOf(key)
	for {
		changed, forget := w.Changed(unit)
		defer forget() // of few: a state changes a few times
		first := h.synced
		if isClosed(first) {
			first = nil
		}
		var cause error
		switch state := inf.KeyState(key); {
		case state == KeyUnwanted:
			if cause = ErrUnwanted; w.Set.LetGo(unit) {
				cause = fmt.Errorf("%w: %w", ErrUnwanted, demand.ErrLetGo)
			}
		case state == KeyThere:
			return nil
		case state == KeyAbsent:
			if cause = inf.whyAbsent(key); cause == nil {
				return nil
			}
		default:
			select {
			case <-changed:
				continue
			case <-first: // the first list has what was wanted when it began
				continue
			case <-h.stopped:
				cause = ErrStopped
			case <-ctx.Done():
				cause = context.Cause(ctx)
			}
		}
		if err := w.Err(unit); err != nil && err != cause {
			cause = errors.Join(cause, err)
		}
		s := inf.Status()
		return &statusError{what: fmt.Sprintf("waiting for %s, which has not been read (%s)", keyString(key), s.Phase), status: s, cause: cause}
	}
}

// whyAbsent returns why the object of a key that is absent cannot be used; nil if there is none.
func (inf *Informer[T]) whyAbsent(key Key) error {
	h := inf.hub
	h.mu.Lock()
	marked, bad := h.marks.of[key] != nil, h.demand.bad[key]
	h.mu.Unlock()
	switch {
	case marked: // something newer, that there is none
		return nil
	case bad != nil:
		return bad
	}
	return inf.r.recorder.aside(key)
}

const (
	// maxReads is how many reads of what is wanted may be under way.
	maxReads = 16
	// manyReads is for how many there is one list. So there is for a twentieth of the collection.
	manyReads = 500
)

// beginDemand has what is wanted be followed in a goroutine, until end is called. Requests of the
// reflector have the context that it returns.
func (inf *Informer[T]) beginDemand(ctx context.Context) (_ context.Context, end func()) {
	w := inf.hub.demand
	inf.hub.mu.Lock() // Tell may look at them already
	w.since, w.ahead, w.bad = map[Key]map[Key]sinceWanted[T]{}, map[Key]readAt{}, map[Key]error{}
	inf.hub.mu.Unlock()
	ctx, unfollow := w.Follow(ctx)
	if !w.Followed(ctx) {
		return ctx, unfollow // the first list fails
	}
	reading, cancel := context.WithCancel(ctx)
	var running sync.WaitGroup
	running.Go(func() { inf.followDemand(reading) })
	return ctx, func() {
		cancel()
		running.Wait()
		unfollow()
	}
}

// followDemand does what is to be done about what is wanted and what is not.
func (inf *Informer[T]) followDemand(ctx context.Context) {
	w, ctx := inf.hub.demand, inf.r.lend(ctx)
	defer request.MemoOf(ctx).End()
	var outage pace.Outage
	var running sync.WaitGroup
	defer running.Wait()
	ended := make(chan error, maxReads)
	pause := time.NewTimer(time.Hour) // each failure sets it anew
	defer pause.Stop()
	paused := false // until pause fires
	for underWay := 0; ; {
		gone, come := w.Changes()
		inf.failedPart(Key{}, inf.hub.drop(gone))
		if len(gone) > 0 { // nobody may tell what becomes of them
			dropped := sets.New(gone...)
			inf.r.recorder.forgetAside(func(key Key) bool { return dropped.Has(w.UnitOf(key)) })
		}
		inf.hub.expect(come)
		due, size := w.Due()
		for len(due) > 0 && underWay < maxReads && !paused {
			reads := due[:1]
			if n := len(due); n > manyReads || n > maxReads && n > size/20 {
				reads = due
			}
			due = due[len(reads):]
			w.Begin(reads)
			underWay++
			running.Go(func() { ended <- inf.readPart(ctx, reads) })
		}
		select {
		case <-w.Wake:
		case <-pause.C:
			paused = false
		case err := <-ended:
			underWay--
			if err == nil {
				outage = pace.Outage{}
			} else if ctx.Err() == nil && !paused {
				outage.Failed(sortOf(err), time.Now())
				pause.Reset(max(outage.Pause(sortOf(err), pace.RetryAfter(err), time.Now()), 0))
				paused = true
			}
		case <-ctx.Done():
			return
		}
	}
}

// failedPart reports that something wanted could not be read or shown.
func (inf *Informer[T]) failedPart(key Key, err error) {
	if err == nil || errors.Is(err, ErrStopped) {
		return
	}
	inf.r.report(&Error{Op: opList, Key: key, Err: err})
}

// readPart reads units by one list, and shows them.
func (inf *Informer[T]) readPart(ctx context.Context, reads []demand.Read) (err error) {
	w := inf.hub.demand
	units := make(map[Key]bool, len(reads))
	for _, r := range reads {
		units[r.Key] = true
	}
	opts, key := metav1.ListOptions{}, Key{}
	if len(reads) == 1 {
		key = reads[0].Key
		var selector []fields.Selector
		if key.Name != "" {
			selector = append(selector, fields.OneTermEqualSelector("metadata.name", key.Name))
		}
		if key.Namespace != "" {
			selector = append(selector, fields.OneTermEqualSelector("metadata.namespace", key.Namespace))
		}
		opts.FieldSelector = fields.AndSelectors(selector...).String()
	} else if inf.r.opts.List != ListWhole {
		opts.Limit = inf.r.opts.PageSize
	}
	got, err := inf.r.part(request.AsPart(ctx, func(namespace, name string) bool {
		return units[w.UnitOf(Key{Namespace: namespace, Name: name})]
	}), opts)
	if err == nil {
		if bad := got.bad[Key{}]; bad != nil && key.Name != "" { // the only one
			delete(got.bad, Key{})
			got.bad[key] = bad
		}
		err = inf.hub.admit(reads, got)
		inf.watchAge()
	}
	if err != nil {
		for _, r := range reads {
			w.Done(r, err)
		}
		if ctx.Err() == nil {
			inf.r.recorder.requestFailed()
			inf.failedPart(key, err)
		}
		return err
	}
	for key, bad := range got.bad {
		if !isKeep(bad) {
			inf.failedPart(key, bad)
		}
	}
	return nil
}

// expect lets units through.
func (h *hub[T]) expect(units []Key) {
	h.mu.Lock()
	defer h.mu.Unlock()
	for _, unit := range units {
		h.demand.Expect(unit)
	}
	h.marks.fence = true
}

// drop lets units through no more, and hides their objects.
func (h *hub[T]) drop(units []Key) error {
	if len(units) == 0 {
		return nil
	}
	h.mu.Lock()
	h.awaitListLocked()
	w, dropped := h.demand, map[Key]readAt{}
	w.Drop(units)
	for _, unit := range units {
		dropped[unit] = readAt{}
		delete(w.since, unit)
		delete(w.ahead, unit)
	}
	for key := range h.marks.of {
		if _, ok := dropped[w.UnitOf(key)]; ok {
			delete(h.marks.of, key)
		}
	}
	w.forgetBadLocked(func(unit Key) bool { _, ok := dropped[unit]; return ok })
	h.marks.shrunkLocked()
	h.marks.fence = true
	h.mu.Unlock()
	return h.commitOverlay(CauseWanted, func(plan []overlayWrite[T]) ([]overlayWrite[T], error) {
		if h.marks.over {
			return plan, ErrStopped
		}
		for key := range h.shownLocked(dropped) {
			plan = append(plan, overlayWrite[T]{key: key})
		}
		slices.SortFunc(plan, func(a, b overlayWrite[T]) int { return compareKeys(a.key, b.key) })
		return plan, nil
	}, func() {})
}

// withWantedLocked returns the objects of a list that somebody wants, and those of units that were
// read at a later version. It leaves out units that the list does not have whole.
func (h *hub[T]) withWantedLocked(l *wholeList[T], objs []T) []T {
	w := h.demand
	w.reachedLocked(l)
	wanted := make([]T, 0, len(objs))
	for _, obj := range objs {
		unit := w.UnitOf(KeyOf(obj))
		if _, newer := w.ahead[unit]; !newer && w.InList(unit) {
			wanted = append(wanted, obj)
		}
	}
	for key, obj := range h.shownLocked(w.ahead) {
		if m := h.marks.of[key]; m != nil {
			obj = m.base
		}
		if !equal.IsZero(obj) {
			wanted = append(wanted, obj)
		}
	}
	for key, m := range h.marks.of {
		if _, ok := w.ahead[w.UnitOf(key)]; ok && equal.IsZero(m.shown) && !equal.IsZero(m.base) {
			wanted = append(wanted, m.base)
		}
	}
	return wanted
}

// reachedLocked forgets at which version a unit was read, if a whole list has had that.
func (w *wantedUnits[T]) reachedLocked(l *wholeList[T]) {
	at := decimal(l.version)
	for unit, read := range w.ahead {
		if l.epoch || at == 0 || at >= read.version || l.began.Sub(read.since) > longest {
			delete(w.ahead, unit)
		}
	}
}

// readLocked adds to plan the objs of units that were read at a version, and what events have
// brought of them since.
func (w *wantedUnits[T]) readLocked(plan []overlayWrite[T], units map[Key]bool, objs map[Key]T, at uint64) []overlayWrite[T] {
	for key, obj := range objs {
		if unit := w.UnitOf(key); units[unit] && w.since[unit][key].at <= at {
			plan = append(plan, overlayWrite[T]{key, obj})
		}
	}
	for unit := range units {
		for key, last := range w.since[unit] {
			if last.at > at && !equal.IsZero(last.obj) {
				plan = append(plan, overlayWrite[T]{key, last.obj})
			}
		}
	}
	return plan
}

// takenLocked notes that what was read of a unit is shown, while the copy is at a position.
func (w *wantedUnits[T]) takenLocked(r demand.Read, read readAt, position uint64) {
	delete(w.since, r.Key)
	if read.version > position {
		if len(w.ahead) == 0 || read.version < w.next {
			w.next = read.version
		}
		w.ahead[r.Key] = read
	}
	w.Done(r, nil)
}

// admit shows what was read of units, and what events have brought since then.
func (h *hub[T]) admit(reads []demand.Read, got *listBuilder[T]) error {
	w, at, objs := h.demand, decimal(got.version), map[Key]T{}
	if none := got.version == "" && len(got.objs)+len(got.bad) == 0; at == 0 && !none { // none: nobody serves the kind
		return errUnordered
	}
	for _, obj := range got.objs {
		objs[KeyOf(obj)] = obj
	}
	now := time.Now()
	var taken []demand.Read
	var units map[Key]bool
	take := func() {
		w.forgetBadLocked(func(unit Key) bool { return units[unit] })
		for key, err := range got.bad {
			if unit := w.UnitOf(key); units[unit] && !isKeep(err) && w.since[unit][key].at <= at {
				w.bad[key] = err
			}
		}
		for _, r := range taken {
			w.takenLocked(r, readAt{at, now}, h.marks.at)
		}
	}
	return h.commitOverlay(CauseWanted, func(plan []overlayWrite[T]) ([]overlayWrite[T], error) {
		switch {
		case h.marks.over:
			return plan, ErrStopped
		case h.followers.Load() > 0:
			return plan, errFollowed
		}
		units, taken = map[Key]bool{}, taken[:0]
		for _, r := range reads {
			if w.Current(r) {
				taken, units[r.Key] = append(taken, r), true
			}
		}
		plan = w.readLocked(plan, units, objs, at)
		slices.SortFunc(plan, func(a, b overlayWrite[T]) int { return compareKeys(a.key, b.key) })
		return plan, nil
	}, take)
}
