// Package lw keeps typed, indexed, in-memory copies of Kubernetes-style collections in step with their servers, and tells typed
// handlers of every change.
//
// # Overview
//
// A [Source] is one collection of a server: [FromClient] makes one of a generated client, [HTTP] needs no client at all, and
// [Memory] is the server of a unit test. [WithListOptions] narrows a source, [Transform] changes or projects its objects.
//
// An [Informer] follows a source: [NewInformer] makes one, [Informer.Run] keeps it in step until its context is done.
// [Informer.Store] reads the copy; [NewIndex] and [NewMultiIndex] find objects in it by a value of any comparable type.
// [Informer.AddHandler] calls a [Handler] for every change, and [Informer.Events] is the same as a sequence.
// [Informer.WaitForSync] and [Informer.WaitForResourceVersion] wait, and say why when they wait in vain; [Informer.Status] says
// what goes on.
//
// The parts are usable alone: an [Indexer] is the store, a [FIFO] the way from the store to the handlers, and a [Reflector]
// keeps any [Sink] in step with a source.
//
// How all this works, and in which file, is said in docs/how-it-works.md.
//
// # Objects are shared
//
// What a store or a handler hands out is shared by all readers. It must not be changed: copy an object before you change it.
// Options.DetectMutation finds, in tests, who does.
//
// # Contract
//
// Each point is proved by the test that it names, and all of them together by TestProof of internal/proof.
//
//  1. One snapshot. Every read of the store (one Get, one List, one lookup in an index) is answered from one state that the
//     server really had, after transform and filter, and the resource version that it reports is that state's. While an object
//     is set aside (point 11) that version is a lower bound: no object is older. (TestOneSnapshot)
//  2. Never back. Once a reader has seen a state, no later read by it shows an older one. An older list (a lagging replica, a
//     restored backup) is refused and retried until it has caught up, or reported as a new epoch. It is never silently shown.
//     (TestNeverBack)
//  3. Store before handler. A handler is called by one goroutine at a time, after store and indexes reflect the change.
//     (TestStoreBeforeHandler)
//  4. One story per object. Per handler and key: (Add Update* Delete)*. Nothing is updated or deleted that was not added; old is
//     the object of the call before; resource versions rise, but for a new epoch. (TestOneStoryPerObject)
//  5. Identity is the UID. An object that was deleted and created again under the same name is Delete, then Add, never Update.
//     The store changes once, so no reader sees a gap. (TestIdentityIsTheUID)
//  6. No noise. A relist says nothing about objects whose resource version did not change. Resync is opt-in per handler.
//     (TestNoNoise)
//  7. No tombstones. Delete always carries the last object that the handler was told of. (TestNoTombstones)
//  8. Slow handlers hurt nobody. A blocked handler delays neither the store nor other handlers. While it is at most 1024 events
//     behind it is told of every change; further behind, the waiting changes of one object are told as their net effect. Memory
//     is bounded by the number of objects, never by that of events. EveryUpdate opts out. (TestSlowHandlersHurtNobody)
//  9. Late handlers get one snapshot as Adds, then exactly the changes after it. Joining costs the pipeline O(1).
//     (TestLateHandlers)
//  10. Sync tells the truth. Synced means that a whole list of a real state is in the store; a list of which no object can be used
//     has failed. A failed wait says what the informer was doing and unwraps to the API error and to the context's cause.
//     (TestSyncTellsTheTruth)
//  11. Nothing is swallowed. Every failed request, broken stream, undecodable object, failed transform reaches OnError once, and
//     Status. One bad object never hides the others: it stays as it was, is named in Status.SetAside, and is retried with its
//     next version or a relist. The resource version that is reported never passes an event that was not applied.
//     (TestNothingIsSwallowed)
//  12. Transform exactly once per version of an object, whatever the way it came in. (TestTransformExactlyOnce)
//  13. Stop is prompt and complete. Run returns within milliseconds of cancel from any state, but for a handler call that is
//     running, with all goroutines gone, and no callback runs after it. Remove may be called from inside the handler.
//     (TestStopIsPromptAndComplete)
//  14. Bounded retries. No server behaviour makes a hot loop: at most 10 requests in a second and 60 in a minute, the pages of one
//     list that bring an item counted once; exponential backoff with jitter that grows for as long as the outage lasts,
//     Retry-After respected, and reset only by progress. (TestBoundedRetries)
//  15. Read your writes. WaitForResourceVersion returns when every later read is at least as new. Resource versions are compared
//     as unbounded decimals (https://kep.k8s.io/5504), with a clear error where they are opaque. (TestReadYourWrites)
package lw
