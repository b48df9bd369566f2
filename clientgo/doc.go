// Package clientgo joins lw to k8s.io/client-go. It is a module of its own, so that lw does not
// depend on client-go.
//
// # From client-go to lw
//
// [HTTP] makes a source of a rest.Config. A program with a generated client does not need it,
// because lw.FromClient(clientset.CoreV1().Pods("")) is a source. [Source] and [SourceOf] make one
// of a cache.ListerWatcher. [Enqueue], [EnqueueOwner] and [EnqueueMapped] are handlers that add to
// a queue of client-go's workqueue.
//
// # Programs that expect client-go's informers
//
// [NewInformer] and [NewInformerWithOptions] stand in for cache.NewSharedIndexInformer and
// cache.NewSharedIndexInformerWithOptions. The methods of a [Decoder] do so, too, and lw decodes
// the objects, which is most of the work. [SharedIndexInformer] is for an informer of lw's: other
// code uses it as client-go's, beside lw's own methods. [Use] makes a generated
// SharedInformerFactory hand it out. [Status] says what any of these informers is doing.
//
// [NewController] and [NewControllerWithOptions] stand in for cache.NewInformer and the like, which
// return a store and a controller; [NewReflector] and [StoreSink] for cache.NewReflector over a
// store of your own; [NewRetryWatcher] for the watch from a version of tools/watch. [UseAll] makes
// a generated factory use lw's informers for all its types; package factories has the dynamic and
// metadata ones.
//
// All methods do what client-go's do, which the tests show by running over both. The differences
// are these:
//
//   - An object that was deleted and created again under the same name is an OnDelete and then an
//     OnAdd, not an OnUpdate.
//   - OnDelete never gets a cache.DeletedFinalStateUnknown. It gets the object of the call before,
//     with the version of its deletion. No call starts after RemoveEventHandler has returned.
//   - A relist calls OnUpdate only for objects that have changed. A program that counts on the
//     others sets a resync period.
//   - A handler that is more than 1024 changes behind gets the net change of each object.
//   - Each handler has its resyncs at its own period, counted from its own first list. The period
//     is not rounded up to a multiple of one that all handlers share. An informer that was given to
//     SharedIndexInformer has no period that could forbid resyncs.
//   - A transform is called once for each version of an object, and not for deletions. If it
//     returns nil, the object is left out. If it fails, only that object is set aside, as one that
//     cannot be decoded or is not of the example's type is. They stay as they were, and are
//     reported to runtime.ErrorHandlers of apimachinery.
//   - A watch that breaks is resumed where it was, and the lists of a server that went back in time
//     are not believed at once: see the contract in package lw. An event that does not fit, such as
//     a MODIFIED one of an object that was never added, makes the informer list again.
//   - The WatchErrorHandler is called in a goroutine of its own, for failures that are followed by
//     a pause. Its *cache.Reflector has a name and a type description, and no more.
//   - A call that has panicked, where runtime.ReallyCrash is false, counts for HasSynced.
//   - Metrics: the gauges are set once a second at most. What is queued are the changes that wait
//     for the slowest handler, and the latency is that of each call of a handler. Without an
//     InformerMetricsProvider in the options the latency is not published: client-go keeps the
//     provider of the process to itself.
//   - GetIndexers returns a copy. A write through the Indexer of an informer that runs, which is as
//     faulty as with client-go, does not change the resource version of the store.
//   - A query of Index for several values is answered from one state unless the store changes as
//     fast as it is read.
//   - The texts of errors begin with "clientgo: ".
package clientgo
