// Package lw keeps typed, indexed, in-memory copies of Kubernetes-style collections in step with
// their servers, and calls typed handlers for every change.
//
// # Informers
//
// A [Source] is one collection of a server. [FromClient] makes a Source of a generated client,
// [HTTP] needs no client. An [Informer] follows a Source: [Informer.Run] keeps its copy in step.
// [Options] are its settings, [Informer.Status] says what it is doing, and a [Board] shows all. A
// [Group] runs informers together, and [Share] shares them.
//
// # Reading
//
// [Informer.Store] returns a [Reader], and [Reader.Snapshot] a state that never changes.
// [NewIndex], [NewMultiIndex] and [NewSortedIndex] find objects by a value of theirs.
//
// # Learning of changes
//
// A [Handler] is called for every change, and [Informer.Events] yields the same changes as a
// sequence. [Informer.Changed] and [Index.Changed] are channels for a select. A [Follower] gets the
// version of each state as well. docs/start.md says which is for what.
//
// # Derived collections
//
// A [Graph] keeps a [Derived] collection in step with informers: [Derive], [DeriveMany], [Join],
// [LeftJoin], [GroupBy], [GroupAll] and [NewUnion] make one.
//
// # Waiting
//
// [Informer.WaitForSync], [Informer.WaitForResourceVersion], [Informer.CatchUp] and [WaitFor]
// return the reason if a wait fails.
//
// # Sources of your own
//
// [WithListOptions] narrows a Source, [Transform] changes or projects its objects, and [Shard]
// divides them among replicas. [Poll] and [Feed] make Sources of what has no watch. The parts can
// be used alone: an [Indexer] is the store, a [FIFO] is the log of changes, and a [Reflector] keeps
// any [Sink] in step with a Source. See docs/how-it-works.md.
//
// # Tests
//
// A [Memory] is the server of a unit test. Package lwtest has an API server with faults, and tests
// of your own sources and collections.
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
// Each point has the test that it names, and TestProof of internal/verify/proof holds all of them
// together. The exceptions are below, by number.
//
//  1. One snapshot: a read (one Get, one List, one lookup in an index) shows one state that the
//     server really had, after transform and filter, and reports its resource version.
//     (TestOneSnapshot, TestTransactionsAreShownWhole)
//  2. Never back: no read shows an older state than an earlier read of the same reader.
//     (TestNeverBack, TestRestoredServer)
//  3. Store before handler: a handler is called by one goroutine at a time, after the store and its
//     indexes show the change. (TestStoreBeforeHandler)
//  4. One story per object: the calls of a handler for one key are (Add Update* Delete)*, each with
//     the object of the call before as old, and with versions that rise. (TestOneStoryPerObject)
//  5. Identity is the UID: an object that was deleted and created again is a Delete and then an
//     Add. (TestIdentityIsTheUID)
//  6. No noise: a relist calls no handler for an object whose resource version did not change.
//     (TestNoNoise)
//  7. No tombstones: Delete gets the last object that the handler was called with.
//     (TestNoTombstones)
//  8. Slow handlers hurt nobody: a handler that blocks delays neither the store nor other handlers,
//     and what waits for it is bounded by the number of objects. (TestSlowHandlersHurtNobody)
//  9. Late handlers get one snapshot as Adds, and then exactly the changes after it.
//     (TestLateHandlers)
//  10. Sync tells the truth: synced means that a whole list of a real state is in the store, and a
//     wait that fails says why. (TestSyncTellsTheTruth)
//  11. Nothing is swallowed: every failed request, broken stream, undecodable object and failed
//     transform reaches OnError once and shows in Status, and hides no other object.
//     (TestNothingIsSwallowed)
//  12. Transform runs exactly once for each version of an object. (TestTransformExactlyOnce)
//  13. Stop is prompt and complete: Run returns within milliseconds of cancel, and leaves no
//     goroutine and no callback behind. (TestStopIsPromptAndComplete)
//  14. Bounded retries: whatever a server does, an informer makes at most 10 requests in a second
//     and 60 in a minute, and none before a Retry-After is over. (TestBoundedRetries)
//  15. Read your writes: when WaitForResourceVersion returns nil, every later read is at least as
//     new. (TestReadYourWrites)
//  16. Own writes at once: when [Informer.Tell] returns nil, every later read shows of each key the
//     newer of what was told and of what lists and watches have seen. (TestTell)
//
// # Exceptions
//
//   - To 1, while an object is set aside (11): the reported version is a lower bound. No object is
//     older, and the version never passes an event that was not applied.
//   - To 1, for transactions: the events of one version are shown together if the source says which
//     they are ([WatchEvent.Open]).
//   - To 1, after Tell (16): objects passed to Tell may be newer than the reported version.
//   - To 1, with [Wanted]: only wanted objects that have been read are shown, each at least as new
//     as the reported version. To 14: each read of what becomes wanted is one request more.
//   - To 2 and 4: if Tell was given an object that the collection does not contain (a selector hides
//     it), reads return to the last state that lists and watches have seen. To 4: with
//     [Handler.SkipTold] no handler is called for what was told.
//   - To 2, in a new epoch: a server that gives an older answer four times in a row is believed,
//     and the epoch is reported as [ErrRewound]. After an outage of more than a second the informer
//     asks the server about the newest object of the copy ([SourceHints]). The answer shows a
//     restore even where the server is past the position again. A restore goes unnoticed if the
//     backup has this object, too, or if the server does not answer. Where a list follows instead,
//     an older object in it shows the restore, and in any case the copy then has what the list has.
//   - To 4, in a new epoch: versions may fall.
//   - To 6: [Handler.Resync] asks for calls without a change.
//   - To 8, beyond 1024 waiting changes: a handler is called for the net change of each object.
//     With EveryUpdate it is called for every change, and its backlog has no bound.
//   - To 10: a list of which no object can be used has failed.
//   - To 11: an object that cannot be used stays as it was. It is retried with its next version or
//     with a relist.
//   - To 12: again if a watch ended amid the events of that version, and once for each Tell.
//   - To 13: Run waits for calls of handlers that are running. Remove may be called in a handler.
//   - To 14: pages of one list that bring items count as one request, and while CatchUp or
//     TellDeleted is called there are at most ten lists of one object more in a second. Pauses are
//     random and grow to 45 s; where no connection can be made, to 12 s. Where watches are refused
//     and lists are answered, a list comes every 10 to 30 s. Only progress resets the pauses.
//   - To 15: versions are compared as unbounded decimals (https://kep.k8s.io/5504). Opaque versions
//     have no order, so the wait is an error.
package lw
