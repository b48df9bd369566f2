package lw

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"runtime"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"k8s.io/apimachinery/pkg/util/resourceversion"
)

// WaitForSync waits until all syncers have synced, and then returns nil. If some have not when ctx
// is done, the error joins what the WaitForSync of each of them has returned. Give ctx a deadline.
func WaitForSync(ctx context.Context, syncers ...Syncer) error {
	var errs []error
	for _, s := range syncers {
		// Waiting for one after the other takes no longer than waiting for all at once: they share
		// ctx, and a Syncer that has synced returns at once.
		errs = append(errs, s.WaitForSync(ctx))
	}
	return errors.Join(errs...)
}

// waitForSync implements [Informer.WaitForSync].
func (c *hubCore) waitForSync(ctx context.Context) error {
	return c.awaitSync(ctx, c.synced, c.stopped)
}

// awaitSync waits until synced is closed, which is that of the hub or of one of its handlers. It
// fails when over is closed, when ctx is done, or when the hub cannot sync any more.
func (c *hubCore) awaitSync(ctx context.Context, synced, over <-chan struct{}) error {
	// What has synced stays synced, also if ctx is done or the hub has stopped. A select with
	// several ready channels would choose at random.
	if isClosed(synced) {
		return nil
	}
	if !isClosed(c.synced) { // else it is a handler that is waited for
		if err := c.cannotWait(); err != nil {
			return c.unsynced(err)
		}
	}
	// A derived collection syncs after the informers that it needs. One of them may have stopped.
	var informers []*hubCore
	c.eachUnsynced(func(before *hubCore) bool {
		if before.needs == nil {
			informers = append(informers, before)
		}
		return true
	})
	for _, inf := range informers {
		select {
		case <-inf.synced:
		case <-inf.stopped:
			if !isClosed(inf.synced) {
				return c.unsynced(ErrStopped)
			}
		case <-over:
			return c.unsynced(ErrStopped)
		case <-ctx.Done():
			return c.unsynced(context.Cause(ctx))
		}
	}
	select {
	case <-synced:
		return nil
	case <-over:
		return c.unsynced(ErrStopped)
	case <-ctx.Done():
		return c.unsynced(context.Cause(ctx))
	}
}

// cannotWait returns an error if the calling goroutine is the one that would have to end the wait.
func (c *hubCore) cannotWait() error {
	if c.refuses == nil {
		return nil
	}
	return c.refuses()
}

// goroutineNumber returns the number that the calling goroutine has in stack traces; 0 if that is
// not known. It takes a microsecond. Only the errors of waits depend on it, which would never end.
func goroutineNumber() (n uint64) {
	var text [40]byte
	for _, c := range bytes.TrimPrefix(text[:runtime.Stack(text[:], false)], []byte("goroutine ")) {
		if c < '0' || c > '9' {
			break
		}
		n = 10*n + uint64(c-'0')
	}
	return n
}

// eachUnsynced calls visit once for each hub that the hub waits for and that has not synced, and
// for those that this one waits for if visit returns true. Several ways may lead to a hub: it
// counts once, or a chain of joins would cost two to the power of its length.
func (c *hubCore) eachUnsynced(visit func(before *hubCore) (deeper bool)) {
	seen := map[*hubCore]bool{}
	var walk func(c *hubCore)
	walk = func(c *hubCore) {
		if c.needs == nil {
			return
		}
		for before := range c.needs {
			if isClosed(before.synced) || seen[before] {
				continue
			}
			seen[before] = true
			if visit(before) {
				walk(before)
			}
		}
	}
	walk(c)
}

// unsynced returns the error of a wait for sync that cause has ended. It is also called for the
// wait of a handler, which may be behind although the hub has synced.
func (c *hubCore) unsynced(cause error) error {
	if c.explain != nil {
		return c.explain(cause)
	}
	s := c.status()
	what := s.unsynced()
	if s.Synced {
		what = fmt.Sprintf("handler not synced (%d changes pending)", s.Pending)
	}
	return &statusError{what: what, status: s, cause: cause}
}

// An asking says when a wait for a version asks for it: when it has left it to the collection's own
// events for that long, and again after pauses, of which this is the first. The other fields say
// what it means that a store has no version.
type asking struct {
	after, pause time.Duration
	// unversioned: the versions of the source mean nothing, and the wait fails. Else a store has none
	// from the end of a kind until its next list, and the wait goes on.
	unversioned bool
	// unserved, if it is set, reports whether nobody serves the collection. Then the wait ends with
	// errUnserved. It is called under versionWaits.mu.
	unserved func() bool
}

var (
	// asks is for a source of which a watch has to be ended, progressAsks for one with
	// SourceHints.Progress.
	asks         = asking{after: 200 * time.Millisecond, pause: 3 * time.Second}
	progressAsks = asking{after: 50 * time.Millisecond, pause: 250 * time.Millisecond}
)

// askMost is the longest pause. The pauses double: perhaps the version never comes.
const askMost = time.Minute

// waitForResourceVersion implements [Informer.WaitForResourceVersion]. reported returns the version
// that the store reports. At the times of ask it has the reflector ask for a bookmark.
func (c *hubCore) waitForResourceVersion(ctx context.Context, version string, ask asking, reported func() string) error {
	if _, err := resourceversion.CompareResourceVersion(version, version); err != nil {
		return fmt.Errorf("lw: %s: cannot wait for resource version %q: %w", c.opts.Name, version, err)
	}
	w := c.waits.add(version, ask)
	defer c.waits.remove(w)
	// The store may report the version already. If not, the writer decides the wait later. No
	// version is missed between the two: the wait was added before this look at the store. If the
	// look comes before the writer's change, the writer finds the wait after its change.
	c.waits.moved(reported(), isClosed(c.synced))
	err := c.await(ctx, w, ask)
	if err == nil || err == errUnserved {
		return err
	}
	if errors.Is(err, errHeld) {
		err = errors.Join(append([]error{err}, slices.Collect(maps.Values(c.status().SetAside))...)...)
	}
	return c.unreached(version, err)
}

// await returns the result of w, or why there is none.
func (c *hubCore) await(ctx context.Context, w *versionWait, when asking) error {
	// A result that is there counts, also if ctx is done or the hub has stopped.
	select {
	case err := <-w.done:
		return err
	default:
	}
	ask, pause := time.NewTimer(when.after), when.pause
	defer ask.Stop()
	for {
		select {
		case err := <-w.done:
			return err
		case <-c.stopped:
			return ErrStopped
		case <-ctx.Done():
			return context.Cause(ctx)
		case <-ask.C:
			// Another wait may have asked just now. Its answer will do for this one as well.
			again := pause
			if c.hasten != nil && isClosed(c.synced) {
				if again = c.hasten(w.version); again == 0 {
					again, pause = pause, min(2*pause, askMost)
				}
			}
			ask.Reset(again)
		}
	}
}

// notCaughtUp returns the error of a CatchUp that ended with cause.
func (c *hubCore) notCaughtUp(cause error) error {
	return &statusError{what: "catching up with the server", status: c.status(), cause: cause}
}

// unreached returns the error of a wait for version that ended with cause.
func (c *hubCore) unreached(version string, cause error) error {
	s := c.status()
	what := "waiting for resource version " + version
	if s.Synced {
		what += fmt.Sprintf(" at %s, until an object of this collection or a bookmark has it (%s)",
			cmp.Or(s.ResourceVersion, "no version"), s.Phase)
	} else {
		what += ": " + s.unsynced()
	}
	return &statusError{what: what, status: s, cause: cause}
}

// errHeld ends a wait whose version has come, but is not reported because an object is set aside.
// Nobody knows when the version will be reported, so the wait fails at once.
var errHeld = errors.New("it has come, but an object that it covers is set aside")

// errUnserved ends a wait with asking.unserved.
var errUnserved = errors.New("nobody serves the collection")

// versionWaits are the calls of WaitForResourceVersion that wait. The writer decides them when the
// reported version changes.
type versionWaits struct {
	// n is len(waits). The writer loads it after each event. While nobody waits, an event costs no
	// more than this load.
	n atomic.Int32

	mu    sync.Mutex
	waits []*versionWait // guarded by mu, as is unreported
	// unreported is the newest version that has come, if it is not reported because an object is
	// set aside. "": the newest version is reported.
	unreported string
}

// A versionWait is one call of WaitForResourceVersion.
type versionWait struct {
	version string
	ask     asking
	done    chan error // receives the result, once; it has room for it, so the writer never waits
	decided bool       // the result was sent; guarded by versionWaits.mu
}

// any reports whether there is a wait to decide.
func (v *versionWaits) any() bool { return v.n.Load() > 0 }

// add adds a wait for version.
func (v *versionWaits) add(version string, ask asking) *versionWait {
	w := &versionWait{version: version, ask: ask, done: make(chan error, 1)}
	v.mu.Lock()
	defer v.mu.Unlock()
	v.waits = append(v.waits, w)
	v.n.Store(int32(len(v.waits)))
	return w
}

// remove removes a wait that is over.
func (v *versionWaits) remove(w *versionWait) {
	v.mu.Lock()
	defer v.mu.Unlock()
	v.waits = slices.DeleteFunc(v.waits, func(o *versionWait) bool { return o == w })
	v.n.Store(int32(len(v.waits)))
}

// hold notes that version has come but is not reported. "" says that all that came is reported.
func (v *versionWaits) hold(version string) {
	v.mu.Lock()
	defer v.mu.Unlock()
	v.unreported = version
}

// moved decides the waits that end when the store reports version. The writer calls it after a
// change, and a new wait once. If the store has synced, a wait for that version or an older one
// succeeds, and a wait fails if the versions have no order. A wait also fails if its version has
// come but is not reported. All others go on.
func (v *versionWaits) moved(version string, synced bool) {
	v.mu.Lock()
	defer v.mu.Unlock()
	for _, w := range v.waits {
		switch {
		case !synced:
		case version == "" && !w.ask.unversioned:
			if w.ask.unserved != nil && w.ask.unserved() {
				w.decideLocked(errUnserved)
			}
		default:
			if c, err := resourceversion.CompareResourceVersion(version, w.version); err != nil {
				w.decideLocked(fmt.Errorf("the collection is at %q: %w", version, err))
				continue
			} else if c >= 0 {
				w.decideLocked(nil)
				continue
			}
		}
		if c, err := resourceversion.CompareResourceVersion(v.unreported, w.version); err == nil && c >= 0 {
			w.decideLocked(errHeld)
		}
	}
}

// fail ends all present waits with err.
func (v *versionWaits) fail(err error) {
	v.mu.Lock()
	defer v.mu.Unlock()
	for _, w := range v.waits {
		w.decideLocked(err)
	}
}

// decideLocked sends err as the result of w, unless w has a result.
func (w *versionWait) decideLocked(err error) {
	if !w.decided {
		w.decided = true
		w.done <- err
	}
}

// isClosed reports whether c is closed. Nothing is ever sent on c.
func isClosed(c <-chan struct{}) bool {
	select {
	case <-c:
		return true
	default:
		return false
	}
}

// lookAndWait returns the object of key if it meets cond. If not, it waits for the next change of
// the object. An error is the cause why it has not waited for that.
func lookAndWait[T Identified](ctx context.Context, h *hub[T], key Key, cond func(T) bool) (obj T, met bool, cause error) {
	changed, forget := h.changes.Take(key)
	defer forget()
	obj, _ = h.store.Get(key)
	if cond(obj) {
		return obj, true, nil
	}
	if err := h.cannotWait(); err != nil {
		return obj, false, err
	}
	select {
	case <-changed:
		return obj, false, nil
	case <-h.stopped:
		return obj, false, ErrStopped
	case <-ctx.Done():
		return obj, false, context.Cause(ctx)
	}
}

// unmet returns the error of a wait for a condition of the object of key, which cause has ended.
func (c *hubCore) unmet(key Key, exists bool, cause error) error {
	s := c.status()
	state := "does not exist"
	if exists {
		state = "does not meet it"
	}
	if err := s.SetAside[key]; err != nil {
		cause = errors.Join(cause, err) // there is a newer version, which could not be used
	}
	what := fmt.Sprintf("waiting for a condition of %s, which %s at %s (%s)", keyString(key), state, s.ResourceVersion, s.Phase)
	if c.doing != nil {
		what += c.doing()
	}
	return &statusError{what: what, status: s, cause: cause}
}

// Changed is as [Informer.Changed], for the next object with the value key that comes, changes or
// goes, or gets or loses that value. It ignores a stop.
func (ix *Index[K, T]) Changed(ctx context.Context, key K) <-chan struct{} {
	return ix.groups.Changed(ctx, key)
}

// A Syncer can be waited for: an [*Informer], [*Registration], [*Group], [*Graph] or [*Derived].
type Syncer interface {
	WaitForSync(ctx context.Context) error
}

// A Runner is what a [Group] runs: an [AnyInformer], a [Graph], or another Group.
type Runner interface {
	Syncer
	Run(ctx context.Context) error
}

// AnyInformer is the part of an [Informer] that does not depend on the type of its objects. Every
// *Informer is one, and describes the methods.
type AnyInformer interface {
	Runner
	WaitForResourceVersion(ctx context.Context, version string) error
	Status() Status
}
