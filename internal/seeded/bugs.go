package main

import "slices"

// A bug is one mistake, and where the tests are that should find it.
type bug struct {
	name  string
	id    string // in the catalogue's list of seeded bugs; "": not there
	run   string // the tests; "": the proofs
	in    string // their package; "": that of the proofs where run is "", else the root
	edits []edit // most often one
}

// An edit changes what stands in a file exactly once.
type edit struct{ file, old, new string }

const (
	proofs       = "^TestProof"
	proofPackage = "./internal/proof"
)

func (b bug) tests() string {
	if b.run == "" {
		return proofs
	}
	return b.run
}

func (b bug) pkg() string {
	switch {
	case b.in != "":
		return b.in
	case b.run == "":
		return proofPackage
	}
	return "."
}

func one(file, old, new string) []edit { return []edit{{file, old, new}} }

const (
	handlerFile   = "handler.go"
	hubFile       = "hub.go"
	hubHandlers   = "hub_handlers.go"
	targetFile    = "informer_target.go"
	watchFile     = "reflector_watch.go"
	eventFile     = "reflector_event.go"
	partsFile     = "internal/decode/reuse_parts.go"
	partsJSON     = "internal/decode/reuse_parts_json.go"
	partsProto    = "internal/decode/reuse_parts_proto.go"
	untypedFile   = "internal/decode/reuse_untyped.go"
	lastFile      = "internal/decode/reuse_last.go"
	limitFile     = "reflector_limit.go"
	sinkFile      = "reflector_sink.go"
	probeFile     = "reflector_probe.go"
	versionFile   = "version.go"
	reflectorFile = "reflector.go"
	listFile      = "reflector_list.go"
	gatherFile    = "reflector_builder.go"
	asideFile     = "reflector_setaside.go"
	policyFile    = "reflector_policy.go"
	recorderFile  = "status_recorder.go"
	healthyFile   = "status_healthy.go"
	groupsFile    = "internal/table/groups.go"
	indexFile     = "internal/table/index.go"
	replaceFile   = "internal/table/replace.go"
	storeFile     = "internal/table/store.go"
	vectorFile    = "internal/table/vector.go"
	snapshotFile  = "internal/table/snapshot.go"
	tableFile     = "internal/table/table.go"
	kindFile      = "internal/decode/kind.go"
	shareFile     = "internal/decode/reuse_values.go"
	messageFile   = "internal/decode/proto_message.go"
	handFile      = "internal/decode/proto_projection.go"
	streamFile    = "internal/decode/stream_watch.go"
)

var bugs = append([]bug{
	// The store and its indexes.
	{name: "index keeps the old object on update", id: "B01", edits: one(groupsFile,
		"g.objs(ms.group).Set(int(ms.place), obj)", "_ = obj")},
	{name: "leaving a group removes it", id: "B02", edits: one(groupsFile,
		"if last == 0 {", "if last >= 0 {")},
	{name: "snapshot without the writers' locks", id: "B03", run: "TestSessions", in: "./internal/table", edits: one(snapshotFile,
		"	s.lock()\n	defer s.unlock()\n	return s.SnapshotLocked()", "	return s.SnapshotLocked()")},
	{name: "update overwrites the object in place", id: "B04", edits: append(one(storeFile,
		"	if known {\n		sh.objs.Set(position, obj)",
		"	if known && !s.boxed {\n		reflect.ValueOf(old).Elem().Set(reflect.ValueOf(obj).Elem())\n		obj = old\n	}\n	if known {\n		sh.objs.Set(position, obj)"),
		edit{storeFile, "import (\n", "import (\n	\"reflect\"\n"})},
	{name: "replace deletes nothing in one shard", id: "B05", edits: one(replaceFile,
		"if st.seen.count() == st.objs.Live() {", "if i == 0 || st.seen.count() == st.objs.Live() {")},
	{name: "snapshot is kept after a write", edits: one(storeFile,
		"func (s *Store[T]) forgetSnapshotLocked() {", "func (s *Store[T]) forgetSnapshotLocked() {\n	if s.snapshot.Load() != nil && s.snapshot.Load().n > 2 {\n		return\n	}")},
	{name: "a chunk that a snapshot shows is changed", edits: one(vectorFile,
		"	if c.era == v.era {\n		return c\n	}\n	v.ownRoot()", "	if len(v.chunks) > 0 {\n		return c\n	}\n	v.ownRoot()")},
	{name: "version identities are lost when a table is rebuilt", run: "TestModel", in: "./internal/table", edits: one(tableFile,
		"			next.records[to] = t.records[from]\n", "			next.records[to].hash = t.records[from].hash\n")},
	{name: "one key twice in a batch of a replace", run: "TestDuplicateOfOneBatch", in: "./internal/table", edits: one(replaceFile,
		" || entry < 0 && st.forked && st.table.position(^entry) >= 0 {", " {")},
	{name: "long names are taken for one another", run: "TestNameLengths", in: "./internal/table", edits: one("internal/table/value.go",
		"	if short == longName {", "	if false {")},
	{name: "version identity of the version before", edits: one(storeFile,
		"		table.setVersionID(position, id)\n", "")},
	{name: "version identities are believed of another epoch", run: "TestVersionsOfAnotherEpoch", edits: one(replaceFile,
		"is.Version != 0 && !c.Distrust {", "is.Version != 0 {")},
	{name: "versions of what was kept are believed in another epoch", run: "TestVersionsOfAnotherEpoch", edits: one(targetFile,
		"		t.distrusted = keep\n", "		_ = keep\n")},
	{name: "late index misses an object", edits: one(indexFile,
		"	d.replace(nil, all)\n	s.lock()", "	d.replace(nil, all[:len(all)/2])\n	s.lock()")},
	{name: "value that no map finds stays in an index", run: "TestIndexOfNaN", edits: one("internal/equal/distinct.go",
		"		if value != value {\n			continue\n		}\n", "")},
	{name: "object at which an index panicked goes with the next list", run: "TestPanicInIndex", edits: one(targetFile,
		"		keep[key] = err\n", "		_ = err\n")},

	// From the store to the handlers.
	{name: "net change merges delete and add into one call", id: "B06", edits: one("fold.go",
		"emit(d, func(d Delta[T]) { buf = append(buf, d) })", "buf = append(buf, d)")},
	{name: "batch newest first", id: "B07", edits: one(handlerFile,
		"if !r.call(&part[i]) {", "if !r.call(&part[len(part)-1-i]) {")},
	{name: "relist tells no deletions", id: "B08", edits: one(hubFile,
		"			d.Old, d.New = c.old, c.new\n			emit(d, h.log.put)",
		"			if d.Old, d.New = c.old, c.new; any(d.New) == any(*new(T)) {\n				continue\n			}\n			emit(d, h.log.put)")},
	{name: "update across UIDs", id: "B18", edits: append(one("delta.go",
		"case d.Old.GetUID() == d.New.GetUID():", "case !equal.Same(d.Old, d.New):"),
		edit{hubFile, "if existed && identical {", "if identical || existed {"})},
	{name: "informer synced at the first request", id: "B20", edits: one("wait.go",
		"	select {\n	case <-c.synced:\n		return nil\n	default:\n	}",
		"	if c.status().Lists+c.status().Watches > 0 {\n		return nil\n	}")},
	{name: "handler synced when the informer is", id: "B21", edits: one(handlerFile,
		"	case <-r.done:\n		return r.hub.unsynced(ErrStopped)",
		"	case <-r.hub.synced:\n		return nil\n	case <-r.done:\n		return r.hub.unsynced(ErrStopped)")},
	{name: "late handler takes its cursor after the snapshot was told", id: "B22", edits: one(handlerFile,
		"	var resync <-chan time.Time\n", "	r.sub.cursor.Close()\n	r.sub.cursor = r.hub.log.subscribe(r.sub.opts)\n	var resync <-chan time.Time\n")},
	{name: "callback after Remove has returned", id: "B23", edits: one(handlerFile,
		"	r.removed.Store(true)\n", "")},
	{name: "full buffer of one handler blocks all", id: "B24", edits: one("fifo.go",
		"	end := q.end.Load()\n	if end == q.tail.end() {",
		"	end := q.end.Load()\n	for _, c := range q.cursors {\n		if end-c.delivered.Load() > 8 {\n			<-c.wake\n		}\n	}\n	if end == q.tail.end() {")},
	{name: "handlers sleep after a broken promise of more", run: "TestMore", edits: one(watchFile,
		"	w.flush()\n	if !errors.Is(err", "	if !errors.Is(err")},
	{name: "handlers sleep as long as more is promised", run: "TestMore", edits: one(eventFile,
		"		ev.More = w.unflushed < maxUnflushed &&", "		ev.More = true ||")},
	{name: "handlers sleep until there is more", edits: one(eventFile,
		"	if !ev.More || err != nil {\n		w.flush()", "	if ev.More || err != nil {\n		w.flush()")},
	{name: "what a handler was handed counts as told", run: "TestPending", edits: one("cursor.go",
		"c.unreadLocked() + c.unacked, c.foldings\n", "c.unreadLocked(), c.foldings\n")},
	{name: "resync shows what the handler was not told", id: "B25", edits: one(handlerFile,
		"	for i := range backlog {\n		if !r.call(&backlog[i]) {", "	for i := range backlog {\n		if i < 0 && !r.call(&backlog[i]) {")},
	{name: "content and log position of two points", run: "TestCut|TestReadToCut", edits: one(hubFile,
		"	h.mu.Lock()\n	defer h.mu.Unlock()\n	return cut[T]{h.store.snapshotLocked(), h.log.position()}",
		"	at := cut[T]{h.store.Snapshot(), 0}\n	at.position = h.log.position()\n	return at")},
	{name: "a cut is left where the log was folded past it", run: "TestReadToCut", edits: one(hubFile,
		"		if delivered == at.position {", "		if delivered >= at.position {")},
	{name: "old is new in an update", id: "B26", edits: one(handlerFile,
		"r.h.Update(d.Old, d.New)", "r.h.Update(d.New, d.New)")},
	{name: "deletion is told before the store shows it", id: "B27", edits: one(hubFile,
		"	old, existed = h.store.store.Remove(key, report, func(old T) {\n		if h.changes.Waiting() {\n			fired = h.changes.Fire(key)\n		}\n		h.log.put(",
		"	if was, ok := h.store.Get(key); ok {\n		h.log.push(Delta[T]{Type: Deleted, Cause: CauseWatch, Old: was, ResourceVersion: version})\n		time.Sleep(1)\n	}\n"+
			"	old, existed = h.store.store.Remove(key, report, func(old T) {\n		_ = (")},
	{name: "filter tells an update for an add", edits: one(handlerFile,
		"		case is:\n			typ = Added", "		case is:\n			typ = Updated\n			if d.Type == Added {\n				d.Old = d.New\n			}")},
	{name: "filter ignores what went out", edits: one(handlerFile,
		"		case was:\n			typ = Deleted", "		case was:\n			return")},
	{name: "relist tells of what did not change", edits: one(replaceFile,
		"		return was == is\n", "		return was != is\n")},
	{name: "relist tells nothing to handlers", edits: one(hubFile,
		"		for _, c := range changes {\n			d.Old, d.New", "		for _, c := range changes[:0] {\n			d.Old, d.New")},
	{name: "net change for a handler that wants every update", edits: one("fifo.go",
		"	case opts.everyUpdate:", "	case opts.everyUpdate && opts.limit > 0:")},
	{name: "net change forgets the object before", edits: one("fold.go",
		"		d.Old = before.Old\n", "")},
	{name: "handlers stay after the end", id: "B28", edits: one(hubHandlers,
		"	for _, reg := range regs {\n		reg.Remove()\n	}", "	for _, reg := range regs {\n		reg.removed.Store(true)\n	}")},
	{name: "panic of a handler is not reported", edits: one(handlerFile,
		"r.hub.opts.OnPanic(&Panic{Informer: r.hub.opts.Name, Handler: r.h.Name, Key: key, Value: v, Stack: debug.Stack()})", "_ = debug.Stack")},
	{name: "panic of a handler ends it", edits: one(handlerFile,
		"			more = true\n", "")},
	{name: "call of a handler that its filter has removed", run: "TestRemoveInAFilter", edits: one(handlerFile,
		"		case r.removed(): // Filter has removed it\n			return false\n", "")},
	{name: "second call of a filter that has removed its handler", run: "TestRemoveInAFilter", edits: one(handlerFile,
		"		if typ == Updated && r.removed() {\n			return false\n		}\n", "")},

	// What waits and Status say.
	{name: "status says less than the wait for the sync", run: "TestStatusAfterWaitForSync", edits: append(one(targetFile,
		"		Done:      l.done,\n", ""),
		edit{targetFile, "	for _, c := range changes {\n		t.leave(c.old)\n	}\n	for _, key := range dup", "	defer l.done()\n	for _, c := range changes {\n		t.leave(c.old)\n	}\n	for _, key := range dup"})},
	{name: "failures outlive a whole list", run: "TestListEndsFailures", edits: one(recorderFile,
		"b.phase = true, PhaseWatching\n	b.recoveredLocked()\n", "b.phase = true, PhaseWatching\n")},
	{name: "a poll is a failure", run: "TestPollingSource", edits: one(policyFile,
		"return verdict{relist: true, failed: o.err != nil, wait: o.err != nil}", "return verdict{relist: true, failed: true, wait: true}")},
	{name: "a poll ends no failures", run: "TestPollEndsFailures", edits: one(watchFile,
		"|| !o.endedEarly || o.noVersions && err == nil", "|| !o.endedEarly")},
	{name: "a list that is due for long is healthy", run: "TestStatusHealthyWhileAListIsDue", edits: one(policyFile,
		"		r.recorder.listDue()\n", "")},
	{name: "a blip is no health", run: "TestStatusHealthy", edits: one(healthyFile,
		"const staleAfter = time.Minute", "const staleAfter = time.Second")},
	{name: "bookmark wakes nobody who waits for its version", run: "TestWhatEndsAWait", edits: one(targetFile,
		"	if err == nil {\n		t.reportProgress(", "	if err == nil && ev.Type != watch.Bookmark {\n		t.reportProgress(")},
	{name: "list passes what it could not bring in", run: "TestVersionOfAListWithABadObject|TestPanicInIndex", edits: one(listFile,
		"; !epoch && (hold || there) {", "; !epoch && hold && there {")},
	{name: "version passes an object at which an index panicked", run: "TestPanicInIndex", edits: one(eventFile,
		"		r.setAside.add(key, err, true, r.report)\n", "		r.setAside.add(key, err, false, r.report)\n")},

	// What the reflector makes of answers.
	{name: "watch from the last item's version", id: "B09", edits: one(listFile,
		"	r.position, r.expected = positionAt(got.version), len(objs)",
		"	r.position, r.expected = positionAt(got.version), len(objs)\n	if len(objs) > 0 {\n		r.position = positionAt(objs[len(objs)-1].GetResourceVersion())\n	}")},
	{name: "watch from one version too far", id: "B10", edits: append(one(watchFile,
		"opts.ResourceVersion = r.position.version", "opts.ResourceVersion = strconv.FormatUint(r.position.number+1, 10)"),
		edit{watchFile, "	\"math/rand/v2\"\n", "	\"math/rand/v2\"\n	\"strconv\"\n"})},
	{name: "pages of two versions", id: "B11", edits: append(one(listFile,
		"			return errMixedPages", "			got.version = meta.ResourceVersion"),
		edit{listFile, "		meta, err := r.page(ctx, opList, opts, got, g)\n		if err != nil {",
			"		meta, err := r.page(ctx, opList, opts, got, g)\n		if isExpired(err) && opts.Continue != \"\" {\n			opts.Continue = \"\"\n			continue\n		}\n		if err != nil {"})},
	{name: "deletion does not move the position", id: "B16", edits: one(eventFile,
		"	r.position = to\n", "	if ev.Type != watch.Deleted {\n		r.position = to\n	}\n")},
	{name: "older list is believed", id: "B17", edits: one(listFile,
		"	maxRefused = 3", "	maxRefused = 0")},
	{name: "no pause after empty watches", id: "B29", run: "TestDecide|TestEmptyPages", edits: []edit{
		{policyFile, "return verdict{verify: o.endedEarly, failed: true, wait: true,", "return verdict{verify: o.endedEarly, failed: true,"},
		{limitFile, "requestEvery = 1100 * time.Millisecond", "requestEvery = time.Millisecond"},
	}},
	{name: "no bound on requests that bring a little", run: "TestBoundedRetries", edits: one(limitFile,
		"requestEvery = 1100 * time.Millisecond", "requestEvery = time.Millisecond")},
	{name: "undecodable event is skipped", id: "B31", edits: one(eventFile,
		"		r.setAside.add(key, ev.Err, true, r.report)\n", "")},
	{name: "undecodable item is skipped", edits: one(gatherFile,
		"	g.bad[key] = err\n", "	_ = err\n")},
	{name: "version passes what is set aside", run: "TestNothingIsSwallowed", edits: one(eventFile,
		"	if r.setAside.holds() {\n		report = \"\"", "	if false {\n		report = \"\"")},
	{name: "wait ends when the version has come, not when it is shown", id: "B32", edits: one("wait.go",
		"w.decideLocked(errHeld)", "w.decideLocked(nil)")},
	{name: "waits go on in a new epoch", run: "TestReadYourWrites|TestNeverBack", edits: one(targetFile,
		"		t.hub.waits.fail(ErrRewound)", "		_ = ErrRewound")},
	{name: "waits for the end of the initial events for ever", id: "B34", run: "TestDefaultSyncBudget|TestStreamedList", edits: one(watchFile,
		"newStallTimer(cancel, r.opts.SyncBudget, errNoEnd)", "newStallTimer(cancel, 1<<60, errNoEnd)")},
	{name: "old events are believed", id: "B14", edits: one(eventFile,
		"	return protocolErrorf(\"%s event of %s at resource version %s came after %s\"", "	if key.Name != \"\" {\n		return nil\n	}\n	return protocolErrorf(\"%s event of %s at resource version %s came after %s\"")},
	{name: "old bookmarks are believed", id: "B14", edits: one(eventFile,
		"if ev.ResourceVersion == \"\" || ordered && !older {", "if ev.ResourceVersion == \"\" || ordered && older && false {")},
	{name: "transform runs twice", id: "B30", edits: one("transform.go",
		"	var zero U\n	if out, err = t.f(obj); err != nil {", "	var zero U\n	_, _ = t.f(obj)\n	if out, err = t.f(obj); err != nil {")},
	{name: "version before the content", id: "B33", edits: one(targetFile,
		"	case ev.Err != nil:\n	case ev.Type == watch.Bookmark:", "	case ev.Type == watch.Deleted && version != \"\" && t.hub.store.Len() > 1:\n		t.hub.progress(version)\n		return true, true, nil\n	case ev.Err != nil:\n	case ev.Type == watch.Bookmark:")},
	{name: "unknown type of event is skipped", id: "B35", run: "TestBadInput", edits: one(eventFile,
		"	switch ev.Type {\n	case watch.Added, watch.Modified, watch.Deleted:\n	default:\n		return protocolErrorf(",
		"	switch ev.Type {\n	case watch.Added, watch.Modified, watch.Deleted:\n	default:\n		ev.Type = watch.Bookmark\n		if key := ev.Key(); key.Name != \"\" {\n			return nil\n		}\n		return protocolErrorf(")},
	{name: "part of a list is shown", id: "B36", edits: one(listFile,
		"if err = r.collect(ctx, size, got); err == nil {", "if err = r.collect(ctx, size, got); err == nil || got.pages > 0 {")},
	{name: "deletion before the end of the initial events is ignored", id: "B37", run: "TestChangesWithinAStreamedList", edits: one(gatherFile,
		"	case known:\n		g.remove(i, key)", "	case known && ev.Type != watch.Deleted:\n		g.remove(i, key)")},
	{name: "old events are believed before the end of the initial events", run: "TestBadInitialEvents|TestOldInitialEvents", edits: one(gatherFile,
		"	if before && !again {", "	if before && !again && false {")},
	{name: "initial events may begin with a change", run: "TestOldInitialEvents", edits: one(gatherFile,
		"|| h.Partial && !first {", "|| h.Partial || first {")},
	{name: "expired watch is resumed", id: "B38", edits: one(policyFile,
		"return verdict{relist: true, failed: true, wait: o.relistDidNotHelp}", "return verdict{failed: true, wait: true}")},
	{name: "failure is not reported", edits: one(policyFile,
		"			r.recorder.fail(r.failures, err)\n		}\n		r.opts.OnError(err)", "			r.recorder.fail(r.failures, err)\n		}")},
	{name: "Retry-After is ignored", run: "TestBoundedRetries", edits: one(policyFile,
		"r.opts.Backoff(r.failures), retryAfter(o.err))", "r.opts.Backoff(r.failures), retryAfter(nil))")},
	{name: "silent watch is never ended", edits: one(watchFile,
		"	overdue = 30 * time.Second", "	overdue = 30 * time.Hour")},
	{name: "list that hangs is never ended", edits: one(listFile,
		"	listPatience = 90 * time.Second", "	listPatience = 90 * time.Hour")},
	{name: "server's version is never asked for", edits: one(policyFile,
		"	r.probe = r.probe || v.probe\n", "")},
	{name: "version stays held back", edits: one(asideFile,
		"	delete(a.holding, key)\n	a.recorder", "	a.recorder")},
	{name: "relist reports a version past a bad event", run: "TestHeldVersion", edits: one(listFile,
		"		if r.setAside.holds() {\n			return r.target.version()", "		if false {\n			return r.target.version()")},
	{name: "version of before holds in another epoch", run: "TestHeldVersion", edits: one(listFile,
		"	if epoch {\n		r.setAside.release()", "	if false {\n		r.setAside.release()")},
	{name: "sink's version passes what is set aside", run: "TestAsideBehindASink", edits: one(sinkFile,
		"		unversioned.ResourceVersion = \"\"\n", "")},
	{name: "sink loses what is set aside by a relist", run: "TestAsideBehindASink", edits: one(sinkFile,
		"if obj, ok := g.Get(key); ok {", "if obj, ok := g.Get(key); ok && false {")},
	{name: "sink is told of what cannot be read", run: "TestAsideBehindASink", edits: one(sinkFile,
		"	if ev.Err != nil {\n		return false, false, nil", "	if false {\n		return false, false, nil")},
	{name: "what is set aside is copied for each event", run: "TestAsideCosts", edits: one(recorderFile,
		"	b.setAside[key] = err\n", "	b.setAside = maps.Clone(b.setAside)\n	b.setAside[key] = err\n")},
	{name: "list of which nothing can be used is a sync", run: "TestUseless", edits: one(listFile,
		"	if err := got.checkUsable(); err != nil {", "	if err := got.checkUsable(); err != nil && false {")},
	{name: "changes are progress of a streamed list", run: "TestBusyStreamWithoutAnEnd", edits: one(gatherFile,
		"	made := noProgress\n", "	made := sureProgress\n")},
	{name: "new objects are progress of a streamed list", run: "TestBusyStreamWithoutAnEnd", edits: one(gatherFile,
		"	case listed && !g.changes:\n		made = someProgress", "	case listed:\n		made = sureProgress")},
	{name: "stream that fails for no known reason is tried for ever", run: "TestStreamedList", edits: one(listFile,
		"|| isNetwork(o.err) && !o.progress:", "|| !isStatus(o.err) && !o.progress:")},
	{name: "cut streams are counted for life", run: "TestStreamIsRemembered", edits: one(eventFile,
		"		r.streams.brokenStreams = 0\n", "")},
	{name: "refused question is asked again at once", run: "TestWatchWithoutTheRightToList", edits: one(probeFile,
		"	r.askNext = time.Now().Add(min(askAgain<<min(r.denials, 10), askSeldom))\n", "")},
	{name: "refused question is not asked again", run: "TestWatchWithoutTheRightToList", edits: one(policyFile,
		"		r.probe, r.verify = false, true // later", "		r.probe, r.verify = false, false")},
	{name: "pages that alternate are followed for ever", run: "TestEndlessPages", edits: one(gatherFile,
		"	g.tokens[token] = struct{}{}\n", "")},
	{name: "pages that are the same are followed for ever", run: "TestEndlessPages", edits: one(gatherFile,
		"	g.firsts[first] = struct{}{}\n", "")},
	{name: "empty pages are a hot loop", run: "TestEndlessPages", edits: one(listFile,
		"		r.pause(ctx, r.limiter.wait(time.Now()))\n", "")},
	{name: "what a transform leaves out makes a page empty", run: "TestEmptyPages", edits: one("transform.go",
		"			leftOut()\n			return nil\n		}\n", "			return nil\n		}\n")},
	{name: "list is cut after ten seconds", run: "TestSlowLists", edits: one(listFile,
		"	listPatience = 90 * time.Second", "	listPatience = 10 * time.Second")},
	{name: "list is cut although items come", run: "TestSlowLists", edits: one(listFile,
		"		g.heard(1)\n		got.addItem(obj, err)", "		got.addItem(obj, err)")},
	{name: "sum of a part is not compared", run: "Parts", in: "./internal/decode", edits: one(partsFile,
		"if sum != *l.sum(old, i) {", "if false && sum != *l.sum(old, i) {")},
	{name: "size of a part is kept and its sum is not", run: "Parts", in: "./internal/decode", edits: one(partsFile,
		"= sum, uint32(len(raw))", "= *l.sum(d.last.object, i), uint32(len(raw))")},
	{name: "part that comes twice is merged in JSON", run: "Parts", in: "./internal/decode", edits: one(partsJSON,
		"if l.came(d, i, p) {", "if false && l.came(d, i, p) {")},
	{name: "part that comes twice is merged in protobuf", run: "Parts", in: "./internal/decode", edits: one(partsProto,
		"if l.came(d, i, p) {", "if false && l.came(d, i, p) {")},
	{name: "null behind a part leaves its note", run: "Parts", in: "./internal/decode", edits: one(partsJSON,
		"if l.came(d, i, p) {", "if d.p.next() != 'n' && l.came(d, i, p) {")},
	{name: "part behind a number is taken", run: "Parts", in: "./internal/decode", edits: one(partsFile,
		"return l.isNoted(d, i) || l.parts[i].typ.Kind() != reflect.Struct && !p.isNil()", "return l.isNoted(d, i)")},
	{name: "number behind packed ones leaves their note", run: "Parts", in: "./internal/decode", edits: one(partsProto,
		"if typ != wireBytes && !l.isNoted(d, i) {", "if typ != wireBytes {")},
	{name: "name of an untyped part cancels its value", run: "Untyped|Parts", in: "./internal/decode", edits: one(untypedFile,
		"maphash.String(nameSeed, name)", "maphash.String(seed, name)")},
	{name: "untyped object has a note too many", run: "Untyped", in: "./internal/decode", edits: one(untypedFile,
		"case len(metaParts)+parts.members >= maxParts:", "case len(metaParts)+parts.members > maxParts:")},
	{name: "run of a slice that goes on is cut", run: "Parts", in: "./internal/decode", edits: one(partsProto,
		"case n > 0 && run && hasTag(rest[n:], tag):", "case false && n > 0 && run && hasTag(rest[n:], tag):")},
	{name: "append to a version writes into the last one", run: "Parts", in: "./internal/decode", edits: one(partsFile,
		"value.cap = value.len", "value.cap += 8")},
	{name: "last version is kept alive", run: "Parts", in: "./internal/decode", edits: one("internal/decode/reuse_buffers.go",
		"d.last = lastVersion{}", "d.last.looked = false")},
	{name: "name behind a part is not looked for", run: "Parts", in: "./internal/decode", edits: one(partsJSON,
		"d.readAhead()", "_ = d.readAhead")},
	{name: "changed item is taken for the old one", run: "TestUnchangedItem", in: "./internal/decode", edits: one(lastFile,
		"if !l.rest[i].equal(v.object, v.old) {", "if false && !l.rest[i].equal(v.object, v.old) {")},
	{name: "event is taken for the old object", run: "TestUnchangedItem", in: "./internal/decode", edits: one(lastFile,
		"if d.listing && d.unchanged() {", "if d.unchanged() {")},
	{name: "spare object is not empty", run: "TestSpareObject", in: "./internal/decode", edits: one(lastFile,
		"d.spare.value(d.root.layout.noted).SetZero()", "")},
	{name: "spare object is used for all that follow", run: "TestSpareObject", in: "./internal/decode", edits: one(lastFile,
		"if d.spare = (pointer{}); p.addr == nil {", "if p.addr == nil {")},
	{name: "untyped part of another name is taken", run: "Untyped", in: "./internal/decode", edits: one(untypedFile,
		"maphash.String(nameSeed, name), drop", "0, drop")},
	{name: "untyped part that comes twice is noted", run: "Untyped", in: "./internal/decode", edits: one(untypedFile,
		"if twice || parts.unsure {", "if false && (twice || parts.unsure) {")},
	{name: "object of a test is lent to the decoder", run: "TestReuse", edits: one(targetFile,
		"if !ok || t.hub.store.foreign.Load() {", "if !ok {")},
	{name: "copy of a changed object is made anew", run: "TestReuse", edits: one("mutation.go",
		"if known {", "if false && known {")},
	{name: "HTTP.Whole has no effect", run: "TestReuse", edits: one("http.go",
		"if !h.Whole {", "if true {")},
	{name: "streamed list that ends before its events is believed", run: "TestStreamEndsBeforeItsEvents", edits: one(eventFile,
		"!w.hints.Unversioned && newest.after(ev.ResourceVersion)", "false && newest.after(ev.ResourceVersion)")},
	{name: "bookmark without a version is progress", run: "TestNoProgress", edits: one(eventFile,
		"if ev.ResourceVersion == \"\" || ordered && !older {", "if ordered && !older {")},
	{name: "short watches are progress", run: "TestNoProgress", edits: one(watchFile,
		"o.progress = w.moved || took >= healthyAfter || !o.endedEarly", "o.progress = true")},
	{name: "object that is added twice is believed", run: "TestBadInput", edits: one(eventFile,
		"	case ev.Type == watch.Added && existed:", "	case false:")},
	{name: "long versions are cut", run: "TestDecimal|TestPositionOrder", edits: one(versionFile,
		"	const fits = 19", "	const fits = 20")},
	{name: "no bound on requests while waiting", run: "TestNoBackoffIsBounded", edits: one(policyFile,
		"		pause = max(pause, r.opts.Backoff(r.failures)", "		pause = max(r.opts.Backoff(r.failures)")},
	{name: "each failure is logged", run: "TestLogOfLastingFailures", edits: one("reflector_log.go",
		"	default:\n		return false, again", "	default:\n		return true, again")},
	{name: "recovery is not logged", run: "TestLog", edits: one("reflector.go",
		"	r.log.recovered()\n", "")},
	{name: "items that cannot be decoded are skipped", edits: one("http.go",
		"			obj, err := h.object(o)\n", "			obj, err := h.object(o)\n			if err != nil {\n				return nil\n			}\n")},

	// What HTTP sends and says.
	{name: "what can never work is tried again", run: "TestRunEndsWithWhatCanNeverWork", edits: one(reflectorFile,
		"		if errors.Is(done.err, ErrPermanent) {", "		if errors.Is(done.err, ErrStarted) {")},
	{name: "a bad selector is left to the server", run: "TestRunEndsWithWhatCanNeverWork", edits: one("listwatch.go",
		"	if err := rest.CheckSelectors(opts.LabelSelector, opts.FieldSelector); err != nil {", "	if err := rest.CheckSelectors(\"\", opts.FieldSelector); err != nil {")},
	{name: "an invalid header is left to the transport", run: "TestHTTPInvalidHeader", edits: one("internal/rest/request.go",
		"	if err := checkHeader(r.Header); err != nil {", "	if err := checkHeader(nil); err != nil {")},
	{name: "headers follow redirects to other hosts", run: "TestHTTPHeaderStaysAtHome", edits: one("internal/rest/redirect.go",
		"				if name != \"Accept\" {", "				if false {")},
	{name: "headers follow redirects that lead back", run: "TestHTTPHeaderStaysAtHome", edits: one("internal/rest/redirect.go",
		"slices.ContainsFunc(via, away)", "slices.ContainsFunc(via[:1], away)")},
	{name: "errors of HTTP show passwords", run: "TestHTTPErrorsShowNoSecrets", edits: one("internal/rest/explain.go",
		"	return u.Redacted()", "	return u.String()")},
	{name: "errors of HTTP show keys of the query", run: "TestHTTPErrorsShowNoSecrets", edits: one("internal/rest/explain.go",
		"			query.Del(name)", "			_ = name")},

	// What the small scopes find: each needs a few commands, in one order, and one fault at one
	// place.
	{name: "list that takes the last object away is not believed", run: "TestSmallScope$", in: proofPackage, edits: one(listFile,
		"	objs := got.objs\n", "	objs := got.objs\n	if len(objs) == 0 && r.listed {\n		r.position, r.relist = positionAt(got.version), false\n		return nil\n	}\n")},
	{name: "event that comes twice is believed twice", run: "TestSmallScope$", in: proofPackage, edits: one(eventFile,
		"ok && held.GetResourceVersion() != ev.ResourceVersion || !ok", "ok && any(held) != any(*new(T)) || !ok")},

	// Groups and shards.
	{name: "a release stops the informer of other users", run: "TestShare$", edits: one("group_share.go",
		"last := m.users == 0", "last := m.users >= 0")},
	{name: "a release does not wait for handlers", run: "TestShareWhileStopping", edits: one("group.go",
		"		<-m.done\n	case m.key", "	case m.key")},
	{name: "a key is kept after its last release", run: "TestGroupModel", edits: one("group_share.go",
		"		delete(g.shared, m.key)\n	}\n	g.mu.Unlock()", "	}\n	g.mu.Unlock()")},
	{name: "an informer that joins a running group is idle", run: "TestGroupModel", edits: one("group.go",
		"	if g.phase == started {\n", "	if g.phase == notStarted && late {\n")},
	{name: "a part believes that its server selects", run: "TestShardsAreDisjointAndComplete", edits: one("shard.go",
		"	return !s.part.Contains(", "	return uid == \"\" && !s.part.Contains(")},
	{name: "a watch has no shard selector", run: "TestShardSelector", edits: one("shard.go",
		"	opts.ShardSelector = s.selector\n	return s.src.Watch(", "	return s.src.Watch(")},
	{name: "a part keeps the key that another part has taken", run: "TestShardLosesKey", edits: one("shard.go",
		"	ev.Type, ev.Object, ev.Err = watch.Deleted, zero, nil\n", "	ev.Type, ev.Object, ev.Err, ev.Identity = watch.Bookmark, zero, nil, nil\n")},

	// What the bytes become.
	{name: "kinds are not compared", run: "TestHTTPKind|OfAnotherKind", edits: one(kindFile,
		"	if want != \"\" && kind != want {", "	if want == \"\" && kind != kind {")},
	{name: "parser keeps the buffer of a list", run: "TestIdleDecoder", in: "./internal/decode", edits: one(streamFile,
		"		w.d.releaseInput()\n		if !more", "		if !more")},
	{name: "watch keeps the buffer of a list", run: "TestIdleDecoder", in: "./internal/decode", edits: one(streamFile,
		"	w.d.buf.shrink(idleBuffer, watchBuffer)", "	w.d.buf.shrink(listBuffer, watchBuffer)")},
	{name: "buffer of a busy watch stays small", run: "TestWatchBuffer", in: "./internal/decode", edits: one("internal/decode/stream_buffer.go",
		"b.filled && cap(b.data) <", "false && cap(b.data) <")},
	{name: "pool of strings grows with what never comes again", run: "TestPoolGrows", in: "./internal/decode", edits: one("internal/decode/reuse_strings.go",
		"c.displaced <= crowded*slots || slots >= mostSlots", "c.displaced <= slots/64 || slots >= mostSlots")},
	{name: "pool of strings stays small", run: "TestPoolGrows", in: "./internal/decode", edits: one("internal/decode/reuse_strings.go",
		"c.displaced <= crowded*slots || slots", "c.displaced > 0 || slots")},
	{name: "doubled pool does not find its strings", run: "TestPoolKeeps", in: "./internal/decode", edits: one("internal/decode/reuse_strings.go",
		"larger[hashOf(e)%uint64(len(larger))] = e", "larger[hashOf(e)%uint64(len(table))] = e")},
	{name: "calm log grows", run: "TestCalmLog", edits: one("fifo.go",
		"if q.restartLocked(end) {", "if false && q.restartLocked(end) {")},
	{name: "log begins anew over what a consumer works on", run: "TestCalmLog", edits: one("fifo.go",
		"	if len(q.parked) < len(q.cursors) {\n		return false\n	}\n	for", "	for")},
	{name: "a bookmark's kind is not compared", run: "TestInformerOfAnotherKind", edits: one("internal/decode/stream_watch.go",
		"		Object:           Object{Ident: Ident{APIVersion: o.APIVersion, Kind: o.Kind}},\n", "")},
	{name: "the next response may be of another kind", run: "TestKinds", in: "./internal/decode", edits: one(kindFile,
		"		k.kind = kind\n", "		_ = kind\n")},
	{name: "the next response may be of another group", run: "TestKinds", in: "./internal/decode", edits: one(kindFile,
		"			k.group = &group\n", "			_ = group\n")},
	{name: "a kept number begins a longer one", run: "TestSameAsApimachinery", in: "./internal/decode", edits: one(shareFile,
		"c != '{' && c != '[' && c != '\"' {", "c == 0 {")},
	{name: "what comes twice is replaced where it is shared", run: "TestSameAsApimachinery", in: "./internal/decode", edits: one(shareFile,
		"			return errMerge\n		}\n		if f.gaveUp {", "			p.set(t, sliceHeader{})\n		}\n		if f.gaveUp {")},
	{name: "a message that comes twice is replaced where it is shared", run: "TestMessageTwice", in: "./internal/decode", edits: one(shareFile,
		"			return errMerge\n		}\n		start := *w", "			p.set(t, sliceHeader{})\n		}\n		start := *w")},
	{name: "what comes twice is merged into what others share", run: "TestShareMerges|TestSharedRunGoesOn", in: "./internal/decode", edits: one(shareFile,
		"			return errMerge\n		}\n		n, end", "			return inner(d, w, typ, p)\n		}\n		n, end")},
	{name: "two values of a map's entry are merged", run: "TestProtobufEntryOfTwoValues", in: "./internal/decode", edits: one("internal/decode/proto_repeated.go",
		"			if again { //", "			if again && num < 0 { //")},
	{name: "protobuf nests without end", run: "TestProtobufNesting", in: "./internal/decode", edits: one("internal/decode/proto_message.go",
		"d.depth >= maxDepth {", "d.depth < 0 {")},
	{name: "a field without a number is left out", run: "TestProjectionErrors", in: "./internal/decode", edits: one(handFile,
		`return tag, false, errors.New("no protobuf tag, `, `return tag, false, nil //`)},
	{name: "a number that two fields have is taken", run: "TestProjectionErrors", in: "./internal/decode", edits: one(handFile,
		"h.names[num]; ok {", "h.names[num]; ok && num < 0 {")},
	{name: "a format that does not fit is taken", run: "TestProjectionErrors", in: "./internal/decode", edits: one(handFile,
		"		err = tag.fits(sf.Type)\n", "		err = nil\n")},
	{name: "the order of a projection's fields is that of the numbers", run: "TestProjections", in: "./internal/decode", edits: one(messageFile,
		"		num := tag.num\n", "		num := tag.num\n		if hand != nil {\n			num = i + 1\n		}\n")},
	{name: "the numbers of a projection are not compared", run: "TestProjectionDiffers", in: "./lwtest", edits: one("internal/decode/proto_compare.go",
		"case !c.numbers || f.number == of.number:", "case !c.numbers || f.number != \"\":")},
	{name: "the Unmarshal of the metadata is that of the object", run: "TestNoProjection", in: "./internal/decode", edits: one(handFile,
		`file != "<autogenerated>" {`, `file != "" {`)},
	{name: "a projection's strings have notes", run: "TestProjectionIsSmall", in: "./internal/decode", edits: one(partsFile,
		"dropped || projection && ", "dropped || projection && len(drop) > 100 && ")},
	{name: "an error tells all of its path", run: "TestDeepErrors|TestPath", in: "./internal/decode", edits: one("internal/decode/path.go",
		"e.outerSize > maxPath/2; e.elided = true {", "e.outerSize < 0; e.elided = true {")},
	{name: "a large object is decoded to its end", run: "TestStopWhen", in: "./internal/decode", edits: one("internal/decode/abort.go",
		"p.ticks%tickEvery != 0 {", "p.ticks > 0 {")},
	{name: "what a large object needed is kept", run: "TestWorkingMemory", in: "./internal/decode", edits: one("internal/decode/reuse_buffers.go",
		"	if cap(d.pairStack) > maxKeptStack {", "	if cap(d.pairStack) < 0 {")},
	{name: "the bytes of a large object are kept", run: "TestWorkingMemory", in: "./internal/decode", edits: one("internal/decode/reuse_buffers.go",
		"func (d *Decoder) releaseInput() { d.p.data = nil }", "func (d *Decoder) releaseInput() {}")},
	{name: "an invalid line waits for the next one", run: "TestInvalidLines", in: "./internal/decode", edits: one("internal/decode/stream_watch.go",
		"	b.beforeFill = w.syntaxCheck()\n", "")},
	{name: "any annotation ends the initial events", run: "TestBookmarks", in: "./internal/decode", edits: one("internal/decode/stream_watch.go",
		"o.Annotations[metav1.InitialEventsAnnotationKey] == \"true\",", "o.Annotations[metav1.InitialEventsAnnotationKey] != \"\",")},
	{name: "a bookmark needs no version", run: "TestBookmarks", in: "./internal/decode", edits: one("internal/decode/stream_watch.go",
		"	if o.ResourceVersion == \"\" {\n", "	if o.ResourceVersion == \"\" && o.Name != \"\" {\n")},
	{name: "an object with fewer members is taken for the last one", run: "TestEqualsModel|TestUntypedPartsModel", in: "./internal/decode", edits: one("internal/decode/reuse_elements.go",
		"		return ok && err == nil && n == len(old)\n	case '[':", "		return ok && err == nil\n	case '[':")},
	{name: "a member that comes twice is counted twice", run: "TestEquals", in: "./internal/decode", edits: one("internal/decode/reuse_elements.go",
		" || n > 0 && string(name) <= last {", " {")},
	{name: "a string that differs from the pattern's is not parsed", run: "TestSkipModel|TestPatternFits", in: "./internal/decode", edits: one("internal/decode/json_pattern.go",
		"			b = stringEnd(data, b)\n", "			b += int(at.end - at.start)\n")},
	{name: "patterns are kept without a limit", run: "TestPatternsAreBounded", in: "./internal/decode", edits: one("internal/decode/json_pattern.go",
		" || d.patternBytes+size > maxPatterns {", " {")},
	{name: "a list may end inside a field", run: "TestProtobufListEndsInField", in: "./internal/decode", edits: one("internal/decode/stream_protobuf.go",
		"	if b.offset() > end {\n", "	if end < 0 {\n")},
	{name: "a Status has no words", run: "TestHTTPStatusWithoutWords", edits: one("internal/decode/status.go",
		"	if s.Message == \"\" || s.Status", "	if s.Message != \"\" && s.Status")},
	{name: "a Status has no code", run: "TestHTTPStatusWithoutWords", edits: one("internal/rest/response.go",
		"status.ErrStatus.Code == 0 {", "status.ErrStatus.Code < 0 {")},
}, slices.Concat(changedBugs, graphBugs, boardBugs, simulateBugs, websocketBugs, cborBugs, metricsBugs, witnessBugs)...)
