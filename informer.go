package lw

import (
	"context"
	"iter"
	"sync"
)

// An Informer keeps a typed, indexed copy of a collection in step with its [Source], and calls
// handlers for every change.
//
// All readers and handlers share the objects. They must not be changed: copy an object first. All
// methods are safe for concurrent use.
type Informer[T Object] struct {
	hub   *hub[T]
	r     *Reflector[T]
	check *mutationDetector[T] // nil unless Options.DetectMutation is set
}

// AnyInformer is the part of an [Informer] that does not depend on the type of its objects. Every
// *Informer is one, whatever its T, so a program can keep informers of different types in one
// slice: to run all of them, to wait for them, and to report their status.
type AnyInformer interface {
	// Run is [Informer.Run].
	Run(ctx context.Context) error
	// WaitForSync is [Informer.WaitForSync].
	WaitForSync(ctx context.Context) error
	// Status is [Informer.Status]. Its field Informer has the informer's name.
	Status() Status
}

var _ AnyInformer = (*Informer[*Meta])(nil)

// NewInformer returns an informer of the collection of src. It does nothing until [Informer.Run].
// NewInformer panics if src is nil. A nil opts means the defaults.
func NewInformer[T Object](src Source[T], opts *Options) *Informer[T] {
	if isNil(src) {
		panic("lw: NewInformer: nil source")
	}
	o := opts.withDefaults(typeName[T]())
	inf := &Informer[T]{hub: newHub[T](o, new(sync.Mutex))}
	inf.hub.status = inf.Status
	if o.DetectMutation {
		inf.check = newMutationDetector[T](o)
	}
	inf.r = newReflector(src, target[T](&informerTarget[T]{hub: inf.hub, opts: o, detector: inf.check}), o)
	return inf
}

// Run follows the collection until ctx is done, and then returns nil. When it returns, all its
// goroutines are gone, no handler call is running and none will start.
//
// Whatever fails is retried as long as ctx is not done. The only exception is an [ErrPermanent] of
// the source, which no retry can mend: a URL or a selector that does not parse, a field to drop
// that T does not have, a T that is no pointer to a struct. Then Run ends as if ctx was done, and
// returns the error as an *[Error]. Waits, Options.OnError and Status report it too. A second call
// returns [ErrStarted].
func (inf *Informer[T]) Run(ctx context.Context) error {
	if !inf.hub.start() {
		return ErrStarted
	}
	if inf.check != nil {
		stop := inf.check.watch()
		defer stop()
	}
	err := inf.r.Run(ctx)
	inf.hub.close()
	return err
}

// Store returns the copy of the collection. It is empty until the informer has synced. It may be
// read at any time, also after Run has returned.
func (inf *Informer[T]) Store() Reader[T] { return inf.hub.store }

func (inf *Informer[T]) indexer() *Indexer[T] { return inf.hub.store }

// AddHandler registers h. It may be called before Run, and at any time after.
//
// A handler that is added after the first list gets the content of the store as Adds, and then the
// changes. Adding one delays the informer by a constant time. After the informer has stopped
// AddHandler returns a registration that is done. It panics on a Handler without a function, and on
// one with a negative Resync.
func (inf *Informer[T]) AddHandler(h Handler[T]) *Registration { return inf.hub.addHandler(h) }

// Events returns a sequence of all changes. It begins with the content of the store, or of the
// first list if that is still to come, as Added. Each iteration begins anew. It ends when ctx is
// done, when the informer has stopped, or when the loop ends.
//
// As with a [Handler], a loop that is more than 1024 changes behind gets the net effect of the
// changes that wait, one for each object. The loop's body may block: that delays nobody else.
func (inf *Informer[T]) Events(ctx context.Context) iter.Seq[Delta[T]] { return inf.hub.events(ctx) }

// WaitForSync waits until a whole list of a real state is in the store. Otherwise it returns an
// error that says what the informer is doing, and wraps its last failure and the cause of ctx, or
// [ErrStopped]; errors.Is and errors.As find them. It does not wait for handlers: see
// [Registration.WaitForSync].
func (inf *Informer[T]) WaitForSync(ctx context.Context) error { return inf.hub.waitForSync(ctx) }

// WaitForResourceVersion waits until the store shows the collection as it was at version or later.
// After a write, wait for the version that the write returned: then every read shows the write. It
// returns nil at once if the store is there already.
//
// Give ctx a deadline, since a version may never come. The error is
//   - the cause of ctx;
//   - [ErrStopped] if the informer has stopped;
//   - [ErrRewound] if the server went back in time meanwhile;
//   - an error if version or the versions of the server are not decimal numbers, and so have no
//     order;
//   - an error that wraps those of Status.SetAside if an object on the way could not be applied.
//
// version should be that of an object that this collection shows, as its write returned it, or that
// of a list of the collection. A server sends no event for a write that the source's selector or
// namespace leaves out, or for a write to another resource. Such a version is known to have passed
// only when something else happens in the collection, or with a bookmark. kube-apiserver sends a
// bookmark about every minute, and 2 s before the end of a watch; a short Options.WatchTimeout
// makes that sooner. A server without bookmarks shows it only with the next write.
//
// A delete returns no version to wait for. Wait until [Reader.Get] does not find the object, or
// finds one with another UID. The Delete function of a [Handler] says when to look.
func (inf *Informer[T]) WaitForResourceVersion(ctx context.Context, version string) error {
	return inf.hub.waitForResourceVersion(ctx, version, inf.hub.store.ResourceVersion)
}

// Status returns what the informer is doing at this moment.
func (inf *Informer[T]) Status() Status {
	s := inf.r.Status()
	s.Objects = inf.hub.store.Len()
	s.Pending = inf.hub.pending()
	return s
}
