package lw

import (
	"context"
	"iter"
	"sync"
)

// An Informer keeps a typed, indexed copy of a collection in step with its [Source], and tells handlers of every change.
//
// The objects that it hands out, by reads and to handlers, are shared by all and must not be changed; copy one before.
type Informer[T Object] struct {
	hub   *hub[T]
	r     *Reflector[T]
	check *mutationDetector[T] // nil: not asked for
}

// NewInformer returns an informer of src's collection, which does nothing until [Informer.Run]. It panics if src is nil.
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

// Run follows the collection until ctx is done, and then returns nil: with all goroutines gone, after the handler calls that
// run have returned, and with no call to come. Whatever fails is tried again for as long as that. Only what can never work ends
// Run before, as cancel does, with an *[Error] that is an [ErrPermanent]: a URL or a selector that does not parse, a field to
// drop that T does not have, a T that is no pointer to a struct. Waits, Options.OnError and Status say it too. A second call
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

// Store returns the copy of the collection. It is empty until the informer has synced.
func (inf *Informer[T]) Store() Reader[T] { return inf.hub.store }

func (inf *Informer[T]) indexer() *Indexer[T] { return inf.hub.store }

// AddHandler registers h, before Run or at any time after. A handler that is added after the first list begins with the store's
// content, then is told what changes; joining takes the informer constant time. After the informer has stopped it returns a
// registration that is done. It panics on a Handler without a function.
func (inf *Informer[T]) AddHandler(h Handler[T]) *Registration { return inf.hub.addHandler(h) }

// Events returns a sequence of all changes, beginning with the content of the store (or of the first list) as Added. Each
// iteration begins anew, and goes on until ctx is done, the informer has stopped, or its loop ends. As with a handler, a loop
// that is more than 1024 changes behind sees the net effect of those that wait.
func (inf *Informer[T]) Events(ctx context.Context) iter.Seq[Delta[T]] { return inf.hub.events(ctx) }

// WaitForSync waits until a whole list of a real state is in the store. Otherwise it returns why not: what the informer was
// doing, its last failure and the cause of ctx, all of which errors.Is and errors.As find, or [ErrStopped]. It does not wait
// for handlers; see [Registration.WaitForSync].
func (inf *Informer[T]) WaitForSync(ctx context.Context) error { return inf.hub.waitForSync(ctx) }

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
	return inf.hub.waitForResourceVersion(ctx, version, inf.hub.store.ResourceVersion)
}

// Status returns what the informer is doing.
func (inf *Informer[T]) Status() Status {
	s := inf.r.Status()
	s.Objects = inf.hub.store.Len()
	s.Pending = inf.hub.pending()
	return s
}
