package lw

import (
	"context"
	"errors"
	"fmt"
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

// WaitForSync waits until a whole list of a real state is in the store. Otherwise it returns why not: what the informer was
// doing, its last failure and the cause of ctx, all of which errors.Is and errors.As find, or [ErrStopped]. It does not wait
// for handlers; see [Registration.WaitForSync].
func (inf *Informer[T]) WaitForSync(ctx context.Context) error {
	select {
	case <-inf.synced:
		return nil
	default:
	}
	select {
	case <-inf.synced:
		return nil
	case <-inf.stopped:
		return inf.unsynced(ErrStopped)
	case <-ctx.Done():
		return inf.unsynced(context.Cause(ctx))
	}
}

// unsynced says why a wait for sync ended with cause.
func (c *informerCore) unsynced(cause error) error {
	s := c.status()
	what := s.unsynced()
	if s.Synced {
		what = fmt.Sprintf("handler not synced (%d changes pending)", s.Pending)
	}
	return &statusError{what: what, status: s, cause: cause}
}

// WaitForResourceVersion waits until the store shows the collection as it was at version or later, so that after a write, with
// the version that it returned, every read shows it. It returns nil at once if that is so. Otherwise it returns the cause of
// ctx, [ErrStopped], [ErrRewound] if the server went back in time meanwhile, an error if version or the server's versions are
// not decimal numbers and so have no order, and an error that wraps those of Status.SetAside if an object on the way could not
// be applied. Give ctx a deadline: a version may never come.
//
// It is meant for the version of an object that this collection shows, as its write returned it, or of a list of it. A server
// tells nobody of a write that his selector or namespace leaves out, nor of one to another resource. Such a version is only known
// to be passed when something else happens, or when a bookmark comes: from kube-apiserver within a minute or so, and 2 s before
// the end of a watch, which a short Options.WatchTimeout brings sooner; from a server without bookmarks not before a later write.
//
// A delete returns no version to wait for. Wait until [Reader.Get] does not find the object, or finds another UID: a Delete of
// a [Handler] says when to look.
func (inf *Informer[T]) WaitForResourceVersion(ctx context.Context, version string) error {
	if _, err := resourceversion.CompareResourceVersion(version, version); err != nil {
		return fmt.Errorf("lw: %s: cannot wait for resource version %q: %w", inf.opts.Name, version, err)
	}
	w := inf.waits.add(version)
	defer inf.waits.remove(w)
	inf.waits.moved(inf.store.ResourceVersion(), isClosed(inf.synced))
	var err error
	select {
	case err = <-w.done:
	default:
		select {
		case err = <-w.done:
		case <-inf.stopped:
			err = ErrStopped
		case <-ctx.Done():
			err = context.Cause(ctx)
		}
	}
	if err == nil {
		return nil
	}
	if errors.Is(err, errHeld) {
		err = errors.Join(append([]error{err}, inf.r.board.asideErrors()...)...)
	}
	return inf.unreached(version, err)
}

// unreached says why a wait for version ended with cause.
func (c *informerCore) unreached(version string, cause error) error {
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
