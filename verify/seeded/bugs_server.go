package main

// serverBugs are those of package serve, and module etcd.
var serverBugs = []bug{
	{"etcd: a server that is away is waited for in silence", "TestDial", "./etcd", []edit{
		{"etcd callOptions", `false`, `true`}}},
	{"etcd: a write changes the caller's object", "TestBare", "./etcd", []edit{
		{"etcd identity.bare", `o.DeepCopyObject()`, `any(o)`}}},
	{"etcd: an encrypted value is taken for JSON", "TestCodecErrors", "./etcd", []edit{
		{"etcd kubeCodec.Decode", `bytes.HasPrefix(data, encryptedMagic)`, `bytes.Equal(data, encryptedMagic)`}}},
	{"etcd: the reason why a watch was refused is not read", "TestEnds", "./etcd", []edit{
		{"etcd canceled", `strings.Contains(__)`, `reason == known.Error()`}}},
	{"etcd: an object loses its kind", "TestCodecs", "./etcd", []edit{
		{"etcd decoders.decode", `keepKind(__)`, ``}}},
	{"serve: a watch that waits for a version goes on where it was passed unseen", "TestUnseen|TestHistoryModel", "./serve", []edit{
		{"serve history.read", `__1 > 0`, `__1 > 0 && false`}}},
	{"serve: a client that stalls goes on where it was before", "TestStalledClientMissesNothing", "./serve", []edit{
		{"serve sweeper.sweep", `w.place`, `_`}}},
	{"serve: a new beginning has the gaps of before", "TestGaps|TestHistoryModel", "./serve", []edit{
		{"serve history.begin", `h.events, h.bytes, h.gaps, h.past = nil, 0, nil, nil`, `h.events, h.bytes, h.gaps, h.past = nil, 0, h.gaps, nil`}}},
	{"a version of a replaced history is waited for", "TestHistoryModel|TestRewind", "./serve", []edit{
		{"serve history.open", `__1 || version > h.here && version <= h.replaced`, `__1`}}},
	{"the history drops a part of a version's events", "TestHistoryModel|TestTrimKeepsVersionsWhole", "./serve", []edit{
		{"serve history.trimLocked", `for __1 && h.events[n].version == version { bytes -= __2; __3(); n++ }`, `for first := true; first && __1; first = false { bytes -= __2; __3(); n++ }`}}},
	{"a version of a replaced history is too old", "TestHistoryModel|TestReplaced", "./serve", []edit{
		{"serve history.missingLocked", `version <= h.replaced`, `version <= h.replaced && version > h.here`}}},
	{"a served bookmark comes before its events", "TestBookmarkFollowsEvents", "./serve", []edit{
		{"serve watcher.step", `r.wait != nil`, `r.wait == nil && len(r.events) > 0`}}},
	{"serve: what TLS has left over waits for the next event", "TestKeptComesFirst", "./serve", []edit{
		{"serve direct.offer", `len(data) > 0 || own.kept()`, `len(data) > 0`}}},
	{"serve: the version after a gap is in it", "TestUnseen|TestHistoryModel", "./serve", []edit{
		{"serve history.gapLocked", `version < g.to`, `version <= g.to`}}},
	{"a watch from a version that a relay has not reached begins where it is", "TestHistoryModel|TestOpenAhead", "./serve", []edit{
		{"serve history.open", `place{h.era, __1, version}`, `place{h.era, __1, min(version, h.here)}`}}},
	{"watches go on across a relist of what is served", "TestRelist|TestHistoryModel", "./serve", []edit{
		{"serve history.read", `p.era != h.era`, `p.era > h.era`}}},
	{"a past state is undone in the wrong order", "TestHistoryModel|TestPastStates", "./serve", []edit{
		{"serve history.at", `slices.Backward`, `slices.All`}}},
	{"serve: an empty UID before the version ends the program", "TestWithVersionInPlace", "./serve", []edit{
		{"serve withMembers", `slices.SortFunc(__)`, ``}}},
	{"serve: what nobody has seen is as it was before", "TestUnseen", "./serve", []edit{
		{"serve feed.Progress", `if f.unseen { f.history.leap(f.pending[:n], reached) } else { __1(f.pending[:n], reached) }`, `if false { f.history.leap(f.pending[:n], reached) } else { __1(f.pending[:n], reached) }`}}},
	{"a sweeper lets a watch go on before it was removed", "TestRemoveBeforeGoingOn", "./serve", []edit{
		{"serve sweeper.remove", `left[l.w] = true`, `__0; if l.next != nil { l.next() }; handoffs = nil`}}},
	{"serve: a deletion in protobuf has the version of before", "TestProtobufPassesThrough", "./serve", []edit{
		{"serve versioned", `return withVersionProto(__)`, `return data, nil`}}},
	{"serve: the version before a gap is in it", "TestUnseen|TestHistoryModel", "./serve", []edit{
		{"serve history.gapLocked", `g.from < version`, `g.from <= version`}}},
	{"a client is sent to a server that went back", "TestForwardToAnOlderServer", "./serve", []edit{
		{"serve request.elsewhere", `!stale.older`, `(!stale.older || true)`}}},
	{"an object that stops to match is not deleted for a watch", "TestStopsToMatch", "./serve", []edit{
		{"serve watcher.send", `switch { case was && is: return __1; case is: return __3; case was: return __2 }`, `switch { case was && is: return __1; case is: return __3; case was && e.new == nil: return __2 }`}}},
	{"a connection sends what it has kept last", "TestKeptComesFirst", "./serve", []edit{
		{"serve conn.Write", `len(c.rest) > 0`, `false && len(c.rest) > 0`}}},
	{"serve: a version that is no number is 0", "TestOpaqueVersions", "./serve", []edit{
		{"serve decimal", `err == nil && text != ""`, `err == nil || text != ""`}}},
	{"etcd: events that are passed over leave the position behind", "TestProgressOlder|TestIdle|TestHistory", "./etcd", []edit{
		{"etcd watcher.events", `w.position = w.seenAt`, ``}}},
	{"etcd: a transaction ends with each of its events", "TestGroups|TestHistory", "./etcd", []edit{
		{"etcd watcher.flush", `next == revision`, `false && next == revision`}}},
	{"etcd: who deletes what was never selected is told", "TestWatch$|TestHistory", "./etcd", []edit{
		{"etcd watcher.event", `was && __1`, `__1`}}},
	{"etcd: what leaves a selection is passed over", "TestWatch$|TestHistory", "./etcd", []edit{
		{"etcd watcher.event", `!is && !was`, `!is`}}},
	{"etcd: the last event of before comes again", "TestWatch$|TestHistory", "./etcd", []edit{
		{"etcd watcher.events", `__1 <= w.begun`, `__1 < w.begun`}}},
	{"lwtest: the mark of a definition ends its watches", "TestWatchOfWhatGoes", "./lwtest", []edit{
		{"internal/apiserver definition.changes", `d.Metadata.DeletionTimestamp != nil`, `false`}}},
	{"lwtest: a watch of what has just gone lasts for ever", "TestWatchOfWhatGoes", "./lwtest", []edit{
		{"internal/apiserver exchange.watch", `!x.collection.served.Load()`, `false`}}},
	{"lwtest: a kind that is gone stays in memory", "TestGoneDefinitionLeavesNothing", "./lwtest", []edit{
		{"internal/apiserver definitions.withdraw", `of.base.history.Leave()`, ``}}},
	{"history: what was forgotten counts still", "TestWindowOfBytes", "./internal/history", []edit{
		{"internal/history Collection.compactLocked", `c.countLocked()`, ``}}},
	{"lwtest: a piece of a compressed stream does not end", "TestGzipMembers", "./internal/apiserver", []edit{
		{"internal/apiserver body.endMember", `b.gz.Close()`, `error(nil)`}}},
	{"registry: a Job takes its Pods along", "TestKube", "./internal/apiserver", []edit{
		{"internal/registry Write.dependentsFinalizers", `!w.kind.orphans()`, `true`}}},
	{"registry: a definition goes before its objects", "TestCleanup", "./lwtest", []edit{
		{"internal/registry Write.finalizers", `f != ""`, `f == "none"`}}},
	{"registry: a claim that is gone is answered with a Status", "TestKube", "./internal/apiserver", []edit{
		{"internal/registry Kind.AnswersWhole", `answeredWhole.Has(k.GroupResource().String())`, `false`}}},
}
