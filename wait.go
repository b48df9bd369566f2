package lw

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"sync"
	"sync/atomic"

	"k8s.io/apimachinery/pkg/util/resourceversion"
)

// A Syncer is something that can be waited for. An [*Informer] and a [*Registration] are Syncers.
type Syncer interface {
	WaitForSync(ctx context.Context) error
}

// WaitForSync waits until all syncers have synced. If some do not, its error joins theirs. Give ctx
// a deadline: a server that refuses lists is asked again and again.
func WaitForSync(ctx context.Context, syncers ...Syncer) error {
	var errs []error
	for _, s := range syncers {
		// Waiting for one after the other takes no longer than waiting for all at once: they share
		// ctx, and a Syncer that has synced returns at once.
		if err := s.WaitForSync(ctx); err != nil {
			errs = append(errs, err)
		}
	}
	return errors.Join(errs...)
}

// waitForSync implements [Informer.WaitForSync].
func (c *hubCore) waitForSync(ctx context.Context) error {
	select {
	case <-c.synced:
		return nil
	default:
	}
	select {
	case <-c.synced:
		return nil
	case <-c.stopped:
		return c.unsynced(ErrStopped)
	case <-ctx.Done():
		return c.unsynced(context.Cause(ctx))
	}
}

// unsynced returns the error of a wait for sync that ended with cause. It is also that of a
// handler's wait: then the hub itself may have synced.
func (c *hubCore) unsynced(cause error) error {
	s := c.status()
	what := s.unsynced()
	if s.Synced {
		what = fmt.Sprintf("handler not synced (%d changes pending)", s.Pending)
	}
	return &statusError{what: what, status: s, cause: cause}
}

// waitForResourceVersion implements [Informer.WaitForResourceVersion]. reported returns the version
// that the store reports.
func (c *hubCore) waitForResourceVersion(ctx context.Context, version string, reported func() string) error {
	if _, err := resourceversion.CompareResourceVersion(version, version); err != nil {
		return fmt.Errorf("lw: %s: cannot wait for resource version %q: %w", c.opts.Name, version, err)
	}
	w := c.waits.add(version)
	defer c.waits.remove(w)
	// The store may have the version already. If not, the writer decides the wait later: it was
	// added before this look, so the writer finds it.
	c.waits.moved(reported(), isClosed(c.synced))
	var err error
	// A wait that is decided has its result, also if ctx is done or the hub has stopped.
	select {
	case err = <-w.done:
	default:
		select {
		case err = <-w.done:
		case <-c.stopped:
			err = ErrStopped
		case <-ctx.Done():
			err = context.Cause(ctx)
		}
	}
	if err == nil {
		return nil
	}
	if errors.Is(err, errHeld) {
		err = errors.Join(append([]error{err}, slices.Collect(maps.Values(c.status().SetAside))...)...)
	}
	return c.unreached(version, err)
}

// unreached returns the error of a wait for version that ended with cause.
func (c *hubCore) unreached(version string, cause error) error {
	s := c.status()
	what := "waiting for resource version " + version
	if s.Synced {
		what += fmt.Sprintf(" at %s, until an object of this collection or a bookmark has it (%s)", s.ResourceVersion, s.Phase)
	} else {
		what += ": " + s.unsynced()
	}
	return &statusError{what: what, status: s, cause: cause}
}

// errHeld is the cause of a wait whose version has come, but is not reported because an object is
// set aside. Nobody knows when it will be.
var errHeld = errors.New("it has come, but an object that it covers is set aside")

// versionWaits are the calls of WaitForResourceVersion that wait. The writer decides them when the
// reported version changes.
type versionWaits struct {
	// n is len(waits). The writer loads it for each event, so that an event costs no more than that
	// while nobody waits.
	n atomic.Int32

	mu    sync.Mutex
	waits []*versionWait // guarded by mu, as is unreported
	// unreported is the newest version that has come, while it is not reported because an object is
	// set aside. "": none.
	unreported string
}

// A versionWait is one call of WaitForResourceVersion.
type versionWait struct {
	version string
	done    chan error // receives the result, once; it has room for it, so the writer never waits
	decided bool       // the result was sent; guarded by versionWaits.mu
}

// any reports whether there is a wait to decide.
func (v *versionWaits) any() bool { return v.n.Load() > 0 }

// add adds a wait for version.
func (v *versionWaits) add(version string) *versionWait {
	w := &versionWait{version: version, done: make(chan error, 1)}
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

// hold notes that version has come but is not reported. "" ends that.
func (v *versionWaits) hold(version string) {
	v.mu.Lock()
	defer v.mu.Unlock()
	v.unreported = version
}

// moved decides the waits that end when the store reports version. A wait for that version or an
// older one ends well, if the store has synced. It fails if the versions have no order, or if its
// version has come but is not reported.
func (v *versionWaits) moved(version string, synced bool) {
	v.mu.Lock()
	defer v.mu.Unlock()
	for _, w := range v.waits {
		if synced {
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

// fail ends all waits with err.
func (v *versionWaits) fail(err error) {
	v.mu.Lock()
	defer v.mu.Unlock()
	for _, w := range v.waits {
		w.decideLocked(err)
	}
}

// decideLocked sends the result of w, unless it has one.
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
