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
type Informer[T Identified] struct {
	hub   *hub[T]
	r     *Reflector[T]
	check *mutationDetector // nil without Options.DetectMutation
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
		// The detector calls o.OnError, which newReflector sets if it is nil. It does so only when
		// Run has been called.
		inf.check = newMutationDetector(o)
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
// returns an error that wraps [ErrStarted].
func (inf *Informer[T]) Run(ctx context.Context) error {
	if !inf.hub.start() {
		return startedError(inf.r.opts.Name)
	}
	defer inf.r.opts.Board.addInformer(inf.r.opts.Name, inf.Status)()
	if inf.check != nil {
		stop := inf.check.watch()
		defer stop() // it compares once more, after the last call of a handler
	}
	// close comes after the reflector, so that nothing is written to a hub that is closed.
	err := inf.r.Run(ctx)
	inf.hub.close()
	return err
}

// Store returns the copy of the collection. It is empty until the informer has synced. It may be
// read at any time, also after Run has returned.
func (inf *Informer[T]) Store() Reader[T] { return inf.hub.store }

// Fixture returns the store for writing. It is for tests: a test of a controller fills the store of
// an informer that it does not run, and the controller reads it. No handler, sequence or wait
// learns of these writes, and [Informer.Changed] does not either; [Index.Changed] does. In an
// informer that runs they would mislead the reader of the store until the server says otherwise.
func (inf *Informer[T]) Fixture() *Indexer[T] { return inf.hub.store }

func (inf *Informer[T]) indexer() *Indexer[T] { return inf.hub.store }

// AddHandler registers h. It may be called before Run, and at any time after.
//
// A handler that is added after the first list gets the content of the store as Adds, and then the
// changes. That delays the informer by a time that does not depend on the number of objects. If the
// informer has stopped, h is never called, and the channel of [Registration.Done] is closed
// already. AddHandler panics on a Handler without a function, and on one with a negative Resync.
func (inf *Informer[T]) AddHandler(h Handler[T]) *Registration { return inf.hub.addHandler(h) }

// Events returns a sequence of all changes. It begins with the content of the store as Added. If
// the first list has not come yet, it waits for that. Each loop over the sequence begins anew. A
// loop ends when ctx is done or when the informer has stopped, even if changes still wait.
//
// As with a [Handler], a loop that is more than 1024 changes behind gets the net effect of the
// changes that wait, one for each object. The loop's body may block: that delays nobody else.
func (inf *Informer[T]) Events(ctx context.Context) iter.Seq[Delta[T]] { return inf.hub.events(ctx) }

// WaitForSync waits until a whole list of one state of the server is in the store, and then returns
// nil. If ctx is done or the informer has stopped before that, it returns an error that says what
// the informer is doing. The error wraps the last failure, and the cause of ctx or [ErrStopped];
// errors.Is and errors.As find them. WaitForSync does not wait for handlers: see
// [Registration.WaitForSync].
func (inf *Informer[T]) WaitForSync(ctx context.Context) error { return inf.hub.waitForSync(ctx) }

// Synced returns a channel that is closed when the informer has synced, as WaitForSync says it. It
// is for a select; WaitForSync explains why an informer does not sync.
func (inf *Informer[T]) Synced() <-chan struct{} { return inf.hub.synced }

// Stopped returns a channel that is closed when the informer stops. The store does not change from
// then on. Handlers are removed right after it; [Informer.Run] returns when the last call has. The
// channel of an informer that does not run stays open.
func (inf *Informer[T]) Stopped() <-chan struct{} { return inf.hub.stopped }

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
// version should be that of an object of this collection, as a write of the object returned it, or
// that of a list of the collection. A server sends no event for a write that the source's selector
// or namespace leaves out, or for a write to another resource. The informer learns that such a
// version has passed from the next event of the collection, or from a bookmark. kube-apiserver
// sends a bookmark about every minute, and 2 s before the end of a watch; a short
// Options.WatchTimeout makes that sooner. A server without bookmarks shows it only with the next
// event.
//
// A delete returns no version to wait for. Use [WaitFor] to wait until there is no object, or one
// with another UID.
func (inf *Informer[T]) WaitForResourceVersion(ctx context.Context, version string) error {
	return inf.hub.waitForResourceVersion(ctx, version, inf.hub.store.ResourceVersion)
}

// Status returns what the informer is doing at this moment.
func (inf *Informer[T]) Status() Status {
	s := inf.r.Status()
	s.Reflector = false
	s.Objects = inf.hub.store.Len()
	s.Handlers, s.Pending = inf.hub.handlers()
	return s
}

// Changed returns a channel that is closed at the next change of the object of key: when an object
// is stored under key, and when it is removed. Take the channel before you read. Then what you have
// read is as it was, or the channel is closed:
//
//	for {
//		changed := pods.Changed(ctx, key)
//		show(pods.Store().Get(key))
//		select {
//		case <-changed:
//		case <-pods.Stopped():
//			return
//		case <-ctx.Done():
//			return
//		}
//	}
//
// The channel is closed when every read that begins from then on shows the change, and before a
// handler is called for it. One channel stands for any number of changes: take another one for the
// next. The first list is a change of each object that it has, and a later one of those that
// differ.
//
// The channel stays open if ctx is done or the informer stops before there is a change. It is let
// go of at both, so let ctx end no later than your interest. [WaitFor] waits for a condition, and
// does all this for you.
func (inf *Informer[T]) Changed(ctx context.Context, key Key) <-chan struct{} {
	return inf.hub.changes.Wait(ctx, key, nil)
}

// ChangedAny is like [Informer.Changed], for a change of any object. The first list is a change
// even if it is empty. A bookmark is none, although it changes the resource version.
func (inf *Informer[T]) ChangedAny(ctx context.Context) <-chan struct{} {
	return inf.hub.changes.WaitAny(ctx)
}
