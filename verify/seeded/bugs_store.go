package main

// storeBugs are those of the store, its indexes and what reads them.
var storeBugs = []bug{
	{"the model's list forgets that it was cut", "TestProtoListFaults", "./internal/apiserver", []edit{
		{"internal/apiserver answer.finish", `total.Bytes += 64`, `total.Bytes += 0`}}},
	{"graph: each value is searched in a list of all", "TestManyValues", "./internal/graph/arrange", []edit{
		{"internal/graph/arrange Arrangement.move", `if g := a.groups[v]; g != nil && g.mark == was { g.mark = stays } else { a.join(v, e) }`, `if g := a.groups[v]; g != nil && slices.Contains(old, v) { g.mark = stays } else { a.join(v, e) }`}}},
	{"graph: keys of an object stay as they were at first", "TestJoinKeys", "", []edit{
		{"internal/graph/arrange Arrangement.Put", `e.values != hash`, `e.values > hash`}}},
	{"graph: an object keeps its old keys", "TestJoinKeys", "", []edit{
		{"internal/graph/arrange Arrangement.move", `a.leave(__)`, ``}}},
	{"graph: a key that comes twice counts twice", "TestJoinKeys", "", []edit{
		{"internal/equal Distinct", `__1(values[:n], value)`, `len(values) < 0 && __1(values[:n], value)`}}},
	{"graph: a key that is not equal to itself counts", "TestDistinct", "./internal/equal", []edit{
		{"internal/equal Distinct", `value != value`, `false`}}},
	{"together: half a transaction is made", "TestModel", "./internal/history", []edit{
		{"internal/history Collection.prepare", `if err != nil && __1 { __ }`, `if err != nil && __1 { return changes, nil }`}}},
	{"together: a transaction is torn by a disconnect", "TestTransact", "./internal/history", []edit{
		{"internal/history Watch.poll", `len(w.rest) > 0`, `len(w.rest) > 0 && w.disconnects == w.c.disconnects`}}},
	{"what an object was is what it is", "TestModel", "./internal/history", []edit{
		{"internal/history Collection.At", `r.at(__)`, `r.at(c.line.now)`}}},
	{"board: a name that looks like one with a number is taken twice", "TestBoardOfEqualNames", "", []edit{
		{"internal/why/names Set.Take", `!e.taken`, `!e.taken || number > 1`}}},
	{"the items of a list are no signs of life", "TestStallTimer", "./internal/pace", []edit{
		{"internal/pace StallTimer.look", `n != s.seen`, `n != s.seen && false`}}},
	{"the sync budget is up to twice as long", "TestStreams", "", []edit{
		{"internal/pace StallTimer.look", `min(left, s.patience/looks)`, `s.patience`}}},
	{"graph: equal results are told", "TestGraphIsQuiet", "", []edit{
		{"internal/graph/settle Results.Put", `if r.rules.Same(__) { __ }`, ``},
		{"internal/graph/settle Results.Decide", `r.net.Drop(__)`, ``}}},
	{"graph: nobody takes over", "TestConflicts$", "", []edit{
		{"internal/graph/settle Results.Drop", `waiting == nil`, `waiting == nil || waiting.Len() < 2`}}},
	{"graph: the larger origin is shown", "TestConflicts$", "", []edit{
		{"internal/graph/settle Results.Put", `__1 < 0`, `__1 > 0`}}},
	{"what waits for any change is not told", "TestModel", "./internal/table/signal", []edit{
		{"internal/table/signal Set.Fire", `s.fireLocked(place[K]{any: true}, fired)`, `fired`}}},
	{"a channel is added beside its guard", "TestGuard", "./internal/table/signal", []edit{
		{"internal/table/signal Set.add", `defer guard.Unlock()`, `guard.Unlock()`}}},
	{"a closed channel leaves a function with its context", "TestReleaseLetsContextsGo", "./internal/table/signal", []edit{
		{"internal/table/signal Set.fireLocked", `fired = append(__)`, `_ = fired`}}},
	{"a channel is added after its context is done", "TestContextThatIsOver", "./internal/table/signal", []edit{
		{"internal/table/signal Set.add", `sig.over || s.closed`, `s.closed`}}},
	{"snapshot is kept after a write", "", "", []edit{
		{"internal/table Store.forgetSnapshotLocked", `if __1 { __ }`, `if __1 && s.snapshot.Load().n > 2 { return }; __0`}}},
	{"replace deletes nothing in one shard", "", "", []edit{
		{"internal/table Replacement.stageDeletions", `__1 == st.objs.Live()`, `i == 0 || __1 == st.objs.Live()`}}},
	{"sorted: readers wait for no write", "TestSessions", "./internal/table", []edit{
		{"internal/table orderDraft.lock", `d.order.mu.Lock()`, ``},
		{"internal/table orderDraft.unlock", `d.order.mu.Unlock()`, ``}}},
	{"graph: an index shows a long commit while it is made", "TestReadsDuringALongCommit", "", []edit{
		{"internal/table Groups.visibleLocked", `g.shown && b.staged`, `b.staged`},
		{"internal/table Groups.visibleGroupsLocked", `g.shown && st.next != nil`, `st.next != nil`}}},
	{"a chunk that a snapshot shows is changed", "", "", []edit{
		{"internal/table Vector.own", `c.era == v.era`, `len(v.chunks) > 0`}}},
	{"late index misses an object", "", "", []edit{
		{"internal/table Store.Add", `d.replace(__)`, `d.replace(nil, all[:len(all)/2])`}}},
	{"index keeps the old object on update", "", "", []edit{
		{"internal/table Groups.put", `g.objs(__).Set(__)`, `_ = obj`}}},
	{"relist tells of what did not change", "", "", []edit{
		{"internal/table Replacement.same", `was == is`, `was != is`}}},
	{"sorted: NaN is kept by a list", "TestModel", "./internal/table", []edit{
		{"internal/table orderDraft.replace", `value == value`, `true`}}},
	{"an index does not tell of a group that is left", "TestChanged$|TestIndexChanged|TestChangedModel", "", []edit{
		{"internal/table draftOf.noteChanges", `d.changed = append(d.changed, ms.group.value)`, `_ = ms`}}},
	{"sorted: a snapshot has the present order", "TestModel|TestSessions", "./internal/table", []edit{
		{"internal/table Order.In", `one.content.(Ordered[K, T])`, `o.Ordered()`}}},
	{"sorted: the last of a page is missing", "TestModel|TestOrder", "./internal/table", []edit{
		{"internal/table bnode.up", `min(to, len(nd.objs))`, `min(to, len(nd.objs)) - 1`}}},
	{"leaving a group removes it", "", "", []edit{
		{"internal/table Groups.leave", `last == 0`, `last >= 0`}}},
}
