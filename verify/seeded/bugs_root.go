package main

// rootBugs are those of package lw.
var rootBugs = []bug{
	{"board: an informer stays when its Run has returned", "TestBoardListsWhatRuns", "", []edit{
		{". Informer.Run", `defer __1(__2, inf.Status, inf.hub.object)()`, `__1(__2, inf.Status, inf.hub.object)`}}},
	{"catch up: a call shares a request that had begun before it", "TestCatchUp", "", []edit{
		{"internal/pace SharedQuery.run", `q.next, q.began, q.asking = nil, time.Now(), a != nil; q.mu.Unlock(); if a == nil { return }; a.end(__)`, `q.began, q.asking = time.Now(), a != nil; q.mu.Unlock(); if a == nil { return }; version, err := ask(ctx); q.mu.Lock(); q.next = nil; q.mu.Unlock(); a.end(version, err)`}}},
	{"equal versions are believed after a witness's no", "", "", []edit{
		{". Reflector.takeOver", `epoch || doubted`, `epoch && !r.server.rewound || doubted`}}},
	{"handlers sleep until there is more", "", "", []edit{
		{". watchSession.event", `!ev.More`, `ev.More`}}},
	{"part of a list is shown", "", "", []edit{
		{". Reflector.pages", `if err = __1; err == nil { got.validate(__2); err = __3; break }`, `if err = __1; err == nil || got.pages > 0 { got.validate(__2); err = __3; break }`}}},
	{"no pause after empty watches", "TestDecide|TestEmptyPages", "", []edit{
		{". decide", `verdict{unverified: o.endedEarly, failed: true, wait: true, next: stepList.when(__)}`, `verdict{unverified: o.endedEarly, failed: true, next: stepList.when((failures+1)%relistAfter == 0)}`},
		{"internal/pace every", `1100 * __1`, `__1`}}},
	{"a witness's no is followed by a watch", "", "", []edit{
		{". decide", `errors.Is(o.err, ErrRewound)`, `errors.Is(o.err, ErrRewound) && !o.asked`}}},
	{"the witness's answer is ignored", "", "", []edit{
		{". Reflector.verify", `err == nil && !is`, `err == nil && !is && had == nil`}}},
	{"a list after an outage is believed, in small", "TestSmallScope$", "./internal/verify/proof", []edit{
		{". Reflector.takeOver", `epoch || doubted`, `epoch || false && doubted`}}},
	{"every 410 after a silence is an outage", "TestReplacedHistoryOnce", "", []edit{
		{". server.watched", `pace.IsExpired(__)`, `o.err != nil && o.err == nil`}}},
	{"the time of the last request is that of all", "TestStatusCounters", "", []edit{
		{". statusRecorder.ended", `r.requests[op].Time += __1`, `r.requests[op].Time = __1`}}},
	{"status says less than the wait for the sync", "TestStatusAfterWaitForSync", "", []edit{
		{". Reflector.takeOver", `duplicates := __1(__)`, `duplicates := __1(l, report, func() {}); defer r.recorder.replaced(epoch, r.cause)`}}},
	{"equal versions are believed after a witness's no, in small", "TestSmallScope$", "./internal/verify/proof", []edit{
		{". Reflector.takeOver", `epoch || doubted`, `epoch && !r.server.rewound || doubted`}}},
	{"silent watch is never ended", "", "", []edit{
		{". overdue", `Second`, `Hour`}}},
	{"one rewind is told twice", "TestReplacedHistory$", "", []edit{
		{". Reflector.judge", `if s.rewound { return __1, __2, __3 }`, `if s.rewound { r.report(&Error{Op: op, Err: ErrRewound}); return true, false, nil }`}}},
	{"a 410 of another history is one like any other, in small", "TestSmallScopeRelay", "./internal/verify/proof", []edit{
		{". causeOf", `__1(err, __2)`, `err == nil && __1(err, __2)`}}},
	{"a 410 of another history is one like any other", "TestReplacedHistory", "", []edit{
		{". causeOf", `__1(err, __2)`, `err == nil && __1(err, __2)`}}},
	{"old events are believed before the end of the initial events", "TestBadInitialEvents|TestOldInitialEvents", "", []edit{
		{". listBuilder.checkChange", `!again && newest.covers(__)`, `again && !again`}}},
	{"together: a streamed list may end amid them", "TestStreamEndsAmid", "", []edit{
		{". watchSession.handle", `if before { return __1 }`, `if before && ev == nil { return __1 }`}}},
	{"a list after an outage is believed", "TestListAfterAnOutage|TestRestoredServerThatForgot", "", []edit{
		{". Reflector.takeOver", `epoch || doubted`, `epoch || false && doubted`}}},
	{"together: what has come of a transaction is kept when the watch ends", "TestProof$", "./internal/verify/proof", []edit{
		{". Reflector.follow", `err := r.src.Watch(__)`, `__0; if w.open { w.advance(&w.group) }`}}},
	{"list that hangs is never ended", "", "", []edit{
		{". listPatience", `Second`, `Hour`}}},
	{"a refused connection is lost where a wait ends the watch", "TestAnswersStand", "", []edit{
		{". isFinal", `__1 || pace.IsUnreachable(__) && !errors.Is(__)`, `__1`}}},
	{"the position stays before an event at which an index panics", "TestPanicInIndexMovesThePosition", "", []edit{
		{". watchSession.advance", `r.at.moveTo(to)`, `if len(g.events) == 0 || g.events[0].err == nil { r.at.moveTo(to) }`}}},
	{"keep: a bad version before it stays set aside", "TestKeepAfter", "", []edit{
		{". watchSession.event", `w.r.setAside.remove(__)`, `_ = ev`}}},
	{"an object that nobody wants holds back the version", "TestWantedIsLetGoWhileSetAside", "", []edit{
		{". setAsideObjects.holds", `maps.DeleteFunc(__)`, ``}}},
	{"streamed list that ends before its events is believed", "TestStreams", "", []edit{
		{". watchSession.handle", `!w.hints.Unversioned`, `false`}}},
	{"a witness that refuses is asked after each outage", "TestWitnessThatIsForbidden", "", []edit{
		{"internal/pace Downtime.Deny", `Downtime{askNext: time.Now().Add(__), unproved: true}`, `Downtime{unproved: true}`}}},
	{"who catches up waits for ever", "TestCatchUpStalls", "", []edit{
		{". Reflector.askVersion", `pace.NewStallTimer(__)`, `pace.NewStallTimer(cancel, 100*listPatience, errStalled)`}}},
	{"net change merges delete and add into one call", "", "", []edit{
		{". netChange.drain", `emit(__)`, `buf = append(buf, d)`}}},
	{"callback after Remove has returned", "", "", []edit{
		{". Registration.Remove", `r.removed.Store(__)`, ``}}},
	{"late handler takes its cursor after the snapshot was told", "", "", []edit{
		{". handlerRunner.run", `if !r.callInitial() { __ }`, `__0; r.sub.cursor.Close(); r.sub.cursor = r.hub.log.subscribe(r.sub.opts)`}}},
	{"resync shows what the handler was not told", "", "", []edit{
		{". handlerRunner.resync", `!r.call(&backlog[i])`, `i < 0 && !r.call(&backlog[i])`}}},
	{"panic of a handler is not reported", "", "", []edit{
		{". handlerRunner.recovering", `r.hub.opts.OnPanic(__)`, `_ = debug.Stack`}}},
	{"handlers stay after the end", "", "", []edit{
		{". hubCore.stop", `reg.Remove()`, `reg.removed.Store(true)`}}},
	{"relist tells no deletions", "", "", []edit{
		{". hub.relistedLocked", `d.Old, d.New = old, obj`, `if d.Old, d.New = old, obj; any(d.New) == any(*new(T)) { continue }`}}},
	{"relist tells nothing to handlers", "", "", []edit{
		{". hub.relistedLocked", `d.Old, d.New = old, obj`, `if d.Old, d.New = old, obj; d.Cause == CauseRelist { break }`}}},
	{"a relist closes no channel", "TestChangedByLists|TestChangedModel", "", []edit{
		{". hub.relistedLocked", `fired = h.changes.Fire(__)`, `_ = keys`}}},
	{"wait ends when the version has come, not when it is shown", "", "", []edit{
		{". versionWaits.moved", `w.decideLocked(errHeld)`, `w.decideLocked(nil)`}}},
	{"informer synced at the first request", "", "", []edit{
		{". hubCore.awaitSync", `isClosed(synced)`, `isClosed(synced) || synced == c.synced && len(c.status().Requests) > 0`}}},
	{"full buffer of one handler blocks all", "", "", []edit{
		{". log.put", `end := l.end.Load()`, `__0; for _, c := range l.cursors { if end-c.delivered.Load() > 8 { <-c.wake } }`}}},
	{"graph: Equal is called under the lock of a cursor", "TestGraphCallsHoldNoLock", "", []edit{
		{". Cursor.dropSame", `differs := __1`, `c.mu.Lock(); differs := __1; c.mu.Unlock()`}}},
	{"what is set aside is copied for each event", "TestAsideCosts", "", []edit{
		{". statusRecorder.addAside", `if r.setAside == nil { __ }`, `__0; r.setAside = maps.Clone(r.setAside)`}}},
	{"transform runs twice", "", "", []edit{
		{". transformSource.apply", `var zero U`, `__0; _, _ = t.f(obj)`}}},
	{"a transform forgets what it keeps after each page", "TestKeptAtARelist", "", []edit{
		{". transformSource.List", `err == nil && meta.Continue == ""`, `err == nil`}}},
	{"copy of a changed object is made anew", "TestReuse", "", []edit{
		{". mutationDetector.add", `if known { return }`, `if false && known { return }`}}},
	{"items that cannot be decoded are skipped", "", "", []edit{
		{". HTTP.List", `obj, err := h.object(__)`, `__0; if err != nil { return nil }`}}},
	{"long versions are cut", "TestDecimal|TestPositionOrder", "", []edit{
		{". decimal", `const fits = 19`, `const fits = 20`}}},
	{"events without versions are never believed", "TestProxyWatcher", "", []edit{
		{". fakeClient.came", `switch { case __1: case version == "": f.versions.Store(__); default: f.versions.Store(versioned) }`, `switch { case __1: default: f.versions.Store(versioned) }`}}},
	{"an answer about another object counts", "TestStillHasByList", "", []edit{
		{". StillHasByList", `!found && other`, `!found && other && had`}}},
	{"an informer that joins a running group is idle", "TestGroupModel", "", []edit{
		{". Group.join", `g.phase == started`, `g.phase == notStarted && late`}}},
	{"a release does not wait for handlers", "TestShareWhileStopping", "", []edit{
		{". Group.part", `<-m.done`, ``}}},
	{"a key of a map keeps those that begin with it and a dot", "TestFieldsKeeps", "", []edit{
		{". fieldPath.keeps", `isField(kept.name)`, `true`}}},
	{"sorted: a page ends past what an int holds", "TestSortedIndex$", "", []edit{
		{". page", `min(max(n, 0), all-from)`, `max(n, 0)`}}},
	{"graph proof: each collection is committed alone", "", "", []edit{
		{". Graph.commit", `n.commitLocked(__)`, `__0; if long { g.gate.look.Lock(); n.showLocked() }; g.gate.seq.Add(1); g.gate.look.Unlock(); if !long { g.gate.look.Lock() }; g.gate.seq.Add(1)`}}},
	{"graph proof: a new epoch is ignored", "", "", []edit{
		{". Graph.noteLocked", `__1 != version`, `(len(__1) < len(version) || len(__1) == len(version) && __1 < version)`}}},
	{"graph: a step reads beyond its cut", "TestLeafReadsUpToItsCut", "", []edit{
		{". leaf.poll", `__1 == position`, `__1 >= position`},
		{". leaf.read", `l.sub.cursor.pollTo(__)`, `l.sub.cursor.poll()`}}},
	{"graph: a wait for a version does not wait for a step", "TestGraphReadYourWrites", "", []edit{
		{". Graph.WaitForResourceVersion", `next := g.nextStep()`, `next := make(chan struct{}); close(next)`}}},
	{"tell: what a list cannot read is what was told to be gone", "TestTell$", "", []edit{
		{". informerTarget.withOverlay", `!m.loose || e.UID == m.gone`, `e != nil`}}},
	{"graph: a step misses what has just synced", "TestStepAfterSync", "", []edit{
		{". leaf.begin", `isClosed(__)`, `isClosed(l.sub.started)`}}},
	{"graph: a wait inside a function hangs", "TestWaitInsideAFunction", "", []edit{
		{". Graph.Run", `g.calls.goroutine.Store(__)`, ``}}},
	{"graph: each collection is committed alone", "TestGetsOfOneState|TestDiamond", "", []edit{
		{". Graph.commit", `n.commitLocked(__)`, `__0; if long { g.gate.look.Lock(); n.showLocked() }; g.gate.seq.Add(1); g.gate.look.Unlock(); if !long { g.gate.look.Lock() }; g.gate.seq.Add(1)`}}},
	{"graph: a step before all inputs have synced", "TestGraphSync$", "", []edit{
		{". Derived.begin", `in.stage() == waiting`, `d.varies == nil && in.stage() == waiting`}}},
	{"graph: the state before is kept until its own collection has changed", "TestReadsDuringALongCommit", "", []edit{
		{". Derived.commitLocked", `d.batch.CommitLocked(__)`, `__0; d.hub.store.before = nil`}}},
	{"graph: a late collection begins with the step before", "TestGraphs$", "", []edit{
		{". Derived.contents", `!d.op.Changed(__) && !yield(obj)`, `!yield(obj)`}}},
	{"graph: a conflict is reported again and again", "TestConflicts$|TestConflictsOfStates", "", []edit{
		{". faults.note", `!known`, `known || !known`}}},
	{"graph: a second call of Left ends the program", "TestGraphPanicsOfKeysBefore", "", []edit{
		{". sides.leftKeys", `if p := s.faults.attempt(__); p != nil { __ }; return keys`, `return list.of(s.on.Left(l.Object))`}}},
	{"graph proof: an aggregate without Remove", "", "", []edit{
		{". groupByOperator.move", `o.agg.Remove(__)`, `g.acc`}}},
	{"graph: Add panics after Remove, and the object counts no more", "TestGraphPanicsOfAggregate", "", []edit{
		{". groupByOperator.move", `!stored`, `false && !stored`}}},
	{"graph: who panics while groups are counted anew leaves its group", "TestGraphPanicsInTwoSteps", "./verify/graph", []edit{
		{". groupByOperator.countAll", `!ok && !first`, `!ok && first`}}},
	{"graph: groups that are counted anew have an old version", "TestGroupByCountsTheNewest", "", []edit{
		{". groupByOperator.countAll", `h.stuck = true`, `h.stuck = h.stuck || false`}}},
	{"graph: of members that leave during a step the later ones stay", "TestUnionMembersLeaveOneByOne", "", []edit{
		{". members.forget", `slices.Clone(__)`, `nil`}}},
	{"board: statuses are asked for under the lock", "TestBoardChangesInALoop", "", []edit{
		{". Board.Informers", `for _, e := range b.informers.list() { if __1 { return } }`, `b.informers.mu.Lock(); defer b.informers.mu.Unlock(); for e := range b.informers.entries { if __1 { return } }`}}},
	{"a hastened watch counts as failed", "TestCatchUp|TestWaitForForeign", "", []edit{
		{". isOwnEnd", `__1 || errors.Is(__, errHastened)`, `__1`}}},
	{"poll: a wait has nothing called", "TestPoll$|TestProgress", "", []edit{
		{". feedSource.wait", `select { case <-t.C: case <-s.nudge: case <-ctx.Done(): }`, `select { case <-t.C: case <-ctx.Done(): }`}}},
	{"poll: nil is an empty collection", "TestEmptyFirstAnswer|TestPollModel", "", []edit{
		{". Feeder.Snapshot", `objs == nil`, `objs == nil && f == nil`}}},
	{"a busy server puts the position in doubt", "TestDecide", "", []edit{
		{". decide", `doubted && __1`, `__1`}}},
	{"graph: a pair that never had a result sets its left aside for ever", "TestGraphPanicsOfALeftPair", "./verify/graph", []edit{
		{". joinOperator.match", `l.State.own.note(r, Key{})`, `_ = 0`}}},
	{"a handler waits for what came to nothing", "TestGraphPendingOfNothing", "./verify/graph", []edit{
		{". Cursor.dropSame", `c.unacked -= __`, ``}}},
	{"tell: an event of another object ends a mark of its version", "TestTell", "./verify/handlers", []edit{
		{". mark.passedBy", `return at > m.version || __`, `return at >= m.version`}}},
	{"tell: a write that was planned before a Tell overwrites it", "TestTellDuringAnEvent", "./verify/handlers", []edit{
		{". hub.commitOverlay", `h.marks.fence = true`, ``}}},
	{"tell: an event under a mark does not move the base", "TestTell", "./verify/handlers", []edit{
		{". markSet.settleLocked", `m.base = f.base`, `_ = f.base`}}},
	{"tell: a deletion hides what comes up to the version of a lost history", "TestTell$", "./verify/handlers", []edit{
		{". hub.tell", `v != 0 && __`, `v != 0`}}},
	{"tell: a lone bookmark passes a fence", "TestBookmarkStopsAtAFence", "", []edit{
		{". hub.progress", `if h.marks.fence { return false }`, ``}}},
	{"tell: the witness is what was told", "TestToldIsNoWitness", "", []edit{
		{". informerTarget.newest", `!marked && !yield(obj)`, `(marked || !marked) && !yield(obj)`}}},
	{"tell: who cannot ask yet says that it asks", "TestTellDeletedBeforeRun", "./verify/handlers", []edit{
		{". Informer.ask", `inf.hub.endAsking()`, ``}}},
	{"tell: a told version that comes is no measurement", "TestBehindTold", "./verify/handlers", []edit{
		{". informerTarget.planEventLocked", `f.since = m.since`, ``}}},
	{"byname: what nobody wants any more is followed", "TestByName$", "./verify/graph", []edit{
		{". ByName.begin", `cancel(); remove()`, `_ = cancel; remove()`}}},
	{"wanted: an older list undoes a read", "TestWanted$", "./verify/source", []edit{
		{". hub.withWantedLocked", `!newer && w.InList(unit)`, `(newer || !newer) && w.InList(unit)`}}},
	{"wanted: an event that a read has is shown after it", "TestWanted", "./verify/source", []edit{
		{". wantedUnits.hidesLocked", `at <= w.ahead[unit].version`, `at == 0`}}},
	{"wanted: what nobody wants any more stays", "TestWanted", "./verify/source", []edit{
		{". hub.drop", `w.Drop(units)`, ``}}},
	{"limit: an index opens what is let go as soon as it has come", "TestPackLimitIndexes", "./verify/pack", []edit{
		{". packer.pack", `fresh || p.how.body != nil`, `fresh`}}},
	{"limit: an index asks for what a list has brought", "TestPackLimitIndexes", "./verify/pack", []edit{
		{". informerTarget.coming", `t.hub.store.store.Note(obj)`, ``}}},
	{"limit: what an index has found is forgotten until the write", "TestPackLimitIndexes", "./verify/pack", []edit{
		{"internal/table Store.compute", `s.memo(obj)`, `s.memo(*new(T))`}}},
	{"limit: a restored server has what was let go", "TestPackLimitRestored", "./verify/pack", []edit{
		{". Packed.holds", `return b.sum.Load() == sumOf(raw.Data)`, `return true`}}},
	{"limit: what was let go is kept all the same", "TestPackLimit", "./verify/pack", []edit{
		{". PackLimit.dropLocked", `b.now.Store(nil)`, ``}}},
	{"limit: what is read all the time goes as well", "TestPackLimit", "./verify/pack", []edit{
		{". PackLimit.shrinkLocked", `b == but || b.hot.Swap(false)`, `b == but`}}},
	{"limit: what may be let go is no sample for a dictionary", "TestPackLimit", "./verify/pack", []edit{
		{". packer.pack", `pk.coder.Note(dict, c.packed, len(data))`, `_ = c`}}},
	{"limit: the smallest go first", "TestPackLimit", "./verify/pack", []edit{
		{". PackLimit.shrinkLocked", `cmp.Compare(b.bytes.n.Load(), a.bytes.n.Load())`, `cmp.Compare(a.bytes.n.Load(), b.bytes.n.Load())`}}},
	{"limit: another object of that name is what was let go", "TestPackLimit", "./verify/pack", []edit{
		{". packer.fetch", `got.GetUID() == p.GetUID()`, `true`}}},
	{"limit: 404 of the collection is the end of the object", "TestPackLimit", "./verify/pack", []edit{
		{". packer.fetch", `errors.New(err.Error())`, `errors.Join(err)`}}},
	{"limit: a newer version is kept as the one that was let go", "TestPackLimit", "./verify/pack", []edit{
		{". packer.fetch", `c.packed == "" || !sameVersion[Identified](obj, p)`, `c.packed == ""`}}},
	{"limit: an old version is asked for", "TestPackLimit", "./verify/pack", []edit{
		{". packer.fetchForOpen", `!b.old.Load()`, `true`}}},
	{"limit: what a relist brings counts twice", "TestPackLimit", "./verify/pack", []edit{
		{". packSource.cell", `s.pk.limit != nil && __1 && __2`, `false`}}},
	{"limit: what another version has replaced counts", "TestPackLimit", "./verify/pack", []edit{
		{". Packed.left", `p.how.body.left()`, ``}}},
	{"limit: what a late handler waits for is kept, however much", "TestPackLimitLateHandler", "./verify/pack", []edit{
		{". body.left", `now != nil && l.Bytes > 0`, `now != nil && l.Bytes > 1<<62`}}},
	{"limit: the newest of what has left the store goes first", "TestPackLimitLateHandler", "./verify/pack", []edit{
		{". PackLimit.outliveLocked", `slices.Backward(l.outlived)`, `slices.All(l.outlived)`}}},
	{"limit: a version is old when another one comes, and not when the store shows it", "TestPackLimit", "./verify/pack", []edit{
		{". packSource.cell", `return s.pk.pack(obj, raw, was, fresh)`, `if was != nil {
			was.left()
		}
		return s.pk.pack(obj, raw, was, fresh)`}}},
	{"limit: what was let go and is of no version that a server refuses", "TestPackLimit", "./verify/pack", []edit{
		{". packer.remnant", `asJSON([]byte(rest), b.rest.untyped)`, `asJSON([]byte(rest[:0]+b.rest.packed), b.rest.untyped)`}}},
}
