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

// A Syncer can be waited for; an [*Informer] and a [*Registration] are Syncers.
type Syncer interface {
	WaitForSync(ctx context.Context) error
}

// WaitForSync waits for all syncers. Its error joins those of the ones that did not sync.
func WaitForSync(ctx context.Context, syncers ...Syncer) error {
	var errs []error
	for _, s := range syncers {
		// One after the other costs nothing: all of them share ctx, and those that are synced return at once.
		if err := s.WaitForSync(ctx); err != nil {
			errs = append(errs, err)
		}
	}
	return errors.Join(errs...)
}

// waitForSync waits until the hub has its first whole content.
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

// unsynced says why a wait for sync ended with cause.
func (c *hubCore) unsynced(cause error) error {
	s := c.status()
	what := s.unsynced()
	if s.Synced {
		what = fmt.Sprintf("handler not synced (%d changes pending)", s.Pending)
	}
	return &statusError{what: what, status: s, cause: cause}
}

// waitForResourceVersion waits until reported, the version that the store reports, is version or later.
func (c *hubCore) waitForResourceVersion(ctx context.Context, version string, reported func() string) error {
	if _, err := resourceversion.CompareResourceVersion(version, version); err != nil {
		return fmt.Errorf("lw: %s: cannot wait for resource version %q: %w", c.opts.Name, version, err)
	}
	w := c.waits.add(version)
	defer c.waits.remove(w)
	c.waits.moved(reported(), isClosed(c.synced))
	var err error
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

// unreached says why a wait for version ended with cause.
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

// errHeld says that a version has come, but that the store may not report it.
var errHeld = errors.New("it has come, but an object that it covers is set aside")

// versionWaits are the waits for a resource version.
type versionWaits struct {
	n atomic.Int32 // len(waits), so that nothing is done for each event while nobody waits

	mu    sync.Mutex
	waits []*versionWait // guarded by mu, as all below
	held  string         // the newest version that has come but is not reported; "": none
}

type versionWait struct {
	version string
	done    chan error // buffered: one verdict is sent
	decided bool       // guarded by versionWaits.mu
}

func (v *versionWaits) any() bool { return v.n.Load() > 0 }

func (v *versionWaits) add(version string) *versionWait {
	w := &versionWait{version: version, done: make(chan error, 1)}
	v.mu.Lock()
	defer v.mu.Unlock()
	v.waits = append(v.waits, w)
	v.n.Store(int32(len(v.waits)))
	return w
}

func (v *versionWaits) remove(w *versionWait) {
	v.mu.Lock()
	defer v.mu.Unlock()
	v.waits = slices.DeleteFunc(v.waits, func(o *versionWait) bool { return o == w })
	v.n.Store(int32(len(v.waits)))
}

// hold notes that version has come but is not reported.
func (v *versionWaits) hold(version string) {
	v.mu.Lock()
	defer v.mu.Unlock()
	v.held = version
}

// moved decides the waits that end now that the store reports version.
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
		if c, err := resourceversion.CompareResourceVersion(v.held, w.version); err == nil && c >= 0 {
			w.decideLocked(errHeld)
		}
	}
}

// fail ends all waits.
func (v *versionWaits) fail(err error) {
	v.mu.Lock()
	defer v.mu.Unlock()
	for _, w := range v.waits {
		w.decideLocked(err)
	}
}

func (w *versionWait) decideLocked(err error) {
	if !w.decided {
		w.decided = true
		w.done <- err
	}
}

func isClosed(c <-chan struct{}) bool {
	select {
	case <-c:
		return true
	default:
		return false
	}
}
