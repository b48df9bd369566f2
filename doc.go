// Package lw keeps typed, indexed, in-memory copies of Kubernetes-style collections in step with
// their servers, and calls typed handlers for every change.
//
// # Overview
//
// A [Source] is one collection of a server. [FromClient] makes a Source of a generated client,
// [HTTP] needs no client, and [Memory] is the server of a unit test. [WithListOptions] narrows a
// Source, [Transform] changes or projects its objects, and [Shard] divides them among replicas.
//
// An [Informer] follows a Source: [Informer.Run] keeps its copy in step, and [Informer.Store] reads
// it. [NewIndex] and [NewMultiIndex] find objects in it by a value of any comparable type. A
// [Handler] is called for every change, and [Informer.Events] yields the same changes as a sequence.
// [Informer.WaitForSync], [Informer.WaitForResourceVersion] and [WaitFor] wait, and return the
// reason if the wait fails. A [Group] runs informers together, and [Share] shares them.
// [Informer.Status] says what one is doing, a [Board] shows all. A [Graph] keeps collections that
// are derived from others.
//
// The parts can be used alone. An [Indexer] is the store, a [FIFO] is the log of changes, and a
// [Reflector] keeps any [Sink] in step with a Source. See docs/how-it-works.md.
//
// # Objects are shared
//
// All readers and handlers share the objects. Do not change an object that you got from a store or
// a handler: copy it first. In tests, Options.DetectMutation reports objects that were changed.
//
// The versions of one object may share parts, too: those that an event does not change. So a
// forbidden change shows in other versions, old and new. HTTP.Whole turns this off.
//
// # Contract
//
// Each point is proved by the test that it names, and all of them together by TestProof of
// internal/proof.
//
//  1. One snapshot. Every read of the store (one Get, one List, one lookup in an index) is answered
//     from one state that the server really had, after transform and filter, and the resource
//     version that the read reports is the version of that state. While an object is set aside
//     (point 11) that version is a lower bound: no object is older. (TestOneSnapshot) The events of
//     one version, as those of a transaction, are shown together if the source says which they are:
//     see WatchEvent.Open. (TestTransactionsAreShownWhole)
//  2. Never back. After a reader has seen a state, no later read by it shows an older one. An older
//     list, from a lagging replica or a restored backup, is refused and retried until it has caught
//     up, or is reported as a new epoch. It is never shown silently. (TestNeverBack) A restored
//     server that is past the position again is told by the newest object of the copy, about which
//     it is asked after an outage of more than a second; see SourceHints. Not seen is one that still
//     has this object at the position, because the backup is newer than it, or because it got the
//     same version once more; nor one that does not answer, and goes on from the position. One of
//     whose history so much is gone that a list follows is seen if the list has an older object
//     than the copy; in any case the copy then has what the list has. (TestRestoredServer)
//  3. Store before handler. One goroutine at a time calls a handler, after the store and its
//     indexes show the change. (TestStoreBeforeHandler)
//  4. One story per object. The calls of a handler for one key are (Add Update* Delete)*. No object
//     is updated or deleted that was not added; old is the object of the call before; resource
//     versions rise, except in a new epoch. (TestOneStoryPerObject)
//  5. Identity is the UID. An object that was deleted and created again under the same name is a
//     Delete and then an Add, never an Update. The store changes once, so no reader sees a gap.
//     (TestIdentityIsTheUID)
//  6. No noise. A relist calls no handler for an object whose resource version did not change.
//     Resync is opt-in per handler. (TestNoNoise)
//  7. No tombstones. Delete always gets the last object that the handler was called with.
//     (TestNoTombstones)
//  8. Slow handlers hurt nobody. A blocked handler delays neither the store nor other handlers. It
//     is called for every change if it is at most 1024 events behind, and else for the net effect
//     of the waiting changes of each object. Memory is bounded by the number of objects, never by
//     the number of events. EveryUpdate opts out.
//     (TestSlowHandlersHurtNobody)
//  9. Late handlers get one snapshot as Adds, and then exactly the changes after it. Joining costs
//     the pipeline O(1). (TestLateHandlers)
//  10. Sync tells the truth. Synced means that a whole list of a real state is in the store. A list
//     of which no object can be used has failed. The error of a failed wait says what the informer
//     was doing, and unwraps to the API error and to the cause of the context.
//     (TestSyncTellsTheTruth)
//  11. Nothing is swallowed. Every failed request, broken stream, undecodable object and failed
//     transform reaches OnError once, and shows in Status. One bad object never hides the others:
//     it stays as it was, is named in Status.SetAside, and is retried with its next version or with
//     a relist. The reported resource version never passes an event that was not applied.
//     (TestNothingIsSwallowed)
//  12. Transform runs exactly once per version of an object, whichever way the object came; again
//     if a watch has ended amid the events of that version. (TestTransformExactlyOnce)
//  13. Stop is prompt and complete. Run returns within milliseconds of cancel from any state,
//     except that it waits for handler calls that are running. All its goroutines are gone then,
//     and no callback runs after it. Remove may be called from inside the handler.
//     (TestStopIsPromptAndComplete)
//  14. Bounded retries. No behaviour of a server causes a hot loop. An informer makes at most 10
//     requests in a second and 60 in a minute; the pages of one list that bring items count
//     together as one. While CatchUp is called it also makes at most ten lists of one object in a
//     second. Its pauses after failures are random, and never shorter than a Retry-After.
//     They grow with the failures in a row, to 45 s. Two sorts of failures are counted apart: where
//     no connection could be made the pauses grow with the outage, to 12 s; where a busy server has
//     sent a Retry-After they grow from the ninth answer on. Only progress resets them.
//     (TestBoundedRetries)
//  15. Read your writes. When WaitForResourceVersion returns nil, every later read is at least as
//     new. Resource versions are compared as unbounded decimals (https://kep.k8s.io/5504). For
//     versions that are opaque the wait returns a clear error. (TestReadYourWrites)
package lw
