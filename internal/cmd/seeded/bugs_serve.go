package main

const (
	serving      = "./serve"
	serveWatch   = "serve/watch.go"
	serveHistory = "serve/history.go"
	serveFeed    = "serve/feed.go"
	serveSweep   = "serve/sweep.go"
	serveItem    = "serve/item.go"
	serveList    = "serve/list.go"
	serveStamp   = "serve/stamp.go"
	serveStream  = "serve/stream.go"
)

// serveBugs are of package serve.
var serveBugs = []bug{
	{name: "serve: a process without a descriptor for a client serves nobody new", run: "TestMoreWatchersThanDescriptors", in: "./serve", edits: one("serve/conn.go",
		"	if err != nil {\n		return nil, err\n	}\n	try := trier(c)\n", "	if err != nil {\n		return nil, net.ErrClosed\n	}\n	try := trier(c)\n")},
	{name: "serve: a page is of the newest state", run: "TestPagesOfOne", in: "./serve", edits: one("serve/history.go",
		"	if i == len(h.events) {\n		defer h.mu.Unlock()\n", "	if i <= len(h.events) {\n		defer h.mu.Unlock()\n")},
	{name: "a served watch that must end is awake until it does", run: "TestStaleWatchSleeps", in: serving, edits: one(serveWatch,
		"		w.bookmarks = false // there is no version", "		// there is no version")},
	{name: "a served watch over net/http that is idle has a deadline", run: "TestWriteTimeoutOverHTTP2", in: serving, edits: one(serveStream,
		"			g.rest()\n			return gone(err)\n", "			return gone(err)\n")},
	{name: "a served watch over net/http never has a deadline", run: "TestWriteTimeoutOverHTTP2", in: serving, edits: one(serveStream,
		"func (g *guard) begin() { g.timer.Reset(g.timeout) }", "func (g *guard) begin() {}")},
	{name: "a request that is wrong is answered without Authorize", run: "TestAuthorize", in: serving, edits: one("serve/request.go",
		"if denied := h.authorize(r, q.attributes); denied != nil {", "if denied := h.authorize(r, q.attributes); denied != nil && q.served != nil {")},
	{name: "a served watch leaves out the second event of a version", run: "TestEventsOfOneVersion", in: serving, edits: one(serveWatch,
		"		if err := w.send(out, e); err != nil {\n			return r, err\n		}\n",
		"		if err := w.send(out, e); err != nil {\n			return r, err\n		}\n		w.place.after = e.version\n")},
	{name: "watches go on across a relist of what is served", run: "TestRelist|TestHistoryModel", in: serving, edits: one(serveHistory,
		"	case p.era != h.era:\n", "	case p.era > h.era:\n")},
	{name: "what is served passes what is set aside", run: "TestFeedHoldsBack", in: serving, edits: one(serveFeed,
		"for n < len(f.pending) && f.pending[n].version <= reached {", "for n < len(f.pending) {")},
	{name: "a watch from a version that a relay has not reached begins where it is", run: "TestHistoryModel|TestOpenAhead", in: serving, edits: one(serveHistory,
		"uint64(h.afterLocked(version)), version}, nil", "uint64(h.afterLocked(version)), min(version, h.here)}, nil")},
	{name: "a client is sent to a server that went back", run: "TestForwardToAnOlderServer", in: serving, edits: one("serve/request.go",
		"ok && !stale.older && h.opts.Forward", "ok && (!stale.older || true) && h.opts.Forward")},
	{name: "a served bookmark comes before its events", run: "TestBookmarkFollowsEvents", in: serving, edits: one(serveWatch,
		"case r.wait != nil && !now.Before(w.bookmark):", "case r.wait == nil && len(r.events) > 0 && !now.Before(w.bookmark):")},
	{name: "the history drops a part of a version's events", run: "TestHistoryModel|TestTrimKeepsVersionsWhole", in: serving, edits: one(serveHistory,
		"for n < len(h.events) && h.events[n].version == version {", "for first := true; first && n < len(h.events); first = false {")},
	{name: "a past state is undone in the wrong order", run: "TestHistoryModel|TestPastStates", in: serving, edits: one(serveHistory,
		"range slices.Backward(later)", "range slices.All(later)")},
	{name: "a version of another replica is accepted", run: "TestStamps|TestDerived", in: serving, edits: one(serveStamp,
		"return version%replicas == s.replica", "return true")},
	{name: "a deletion is served with the old version", run: "TestSource|TestRelist", in: serving, edits: one("serve/frame.go",
		"if typ == watch.Deleted && version != i.version {", "if false && typ == watch.Deleted && version != i.version {")},
	{name: "an object that stops to match is not deleted for a watch", run: "TestStopsToMatch", in: serving, edits: one(serveWatch,
		"	case was:\n		return out.event(e, watch.Deleted)", "	case was && e.new == nil:\n		return out.event(e, watch.Deleted)")},
	{name: "an object is served in an encoding that each client makes", run: "TestShared", in: serving, edits: one("serve/encode.go",
		"	i.keep(f, data)\n", "")},
	{name: "a sweeper lets a watch go on before it was removed", run: "TestRemoveBeforeGoingOn", in: serving, edits: one(serveSweep,
		"		left[l.w] = true\n", "		left[l.w] = true\n		if l.next != nil {\n			l.next()\n		}\n		leaving = nil\n")},
	{name: "a write that a socket took in part loses the rest", run: "TestGatherCut|TestStalledClients", in: serving, edits: one(serveSweep,
		"			return p.place, g.data()[n:p.end]\n", "			return p.place, g.data()[p.end:p.end]\n")},
	{name: "a watch of a client that sends too much is counted for ever", run: "TestPipelined", in: serving, edits: one(serveSweep,
		"		_ = c.Close()\n		done()\n", "		_ = c.Close()\n")},
	{name: "a column that panics ends the program", run: "TestColumnPanics", in: serving, edits: one("serve/table.go",
		"	defer recovered(&err)\n", "")},
	{name: "a delete of a changed object is refused", run: "TestDeleteOfAChangedObject", in: serving, edits: one("serve/write.go",
		`uid != "" && uid != old.GetUID() {`, `uid != "" {`)},
	{name: "a connection sends what it has kept last", run: "TestKeptComesFirst", in: serving, edits: one("serve/conn.go",
		"		if len(c.rest) > 0 {\n			if _, err := c.Conn.Write(c.rest)", "		if false && len(c.rest) > 0 {\n			if _, err := c.Conn.Write(c.rest)")},
	{name: "a feed keeps what it has passed on", run: "TestFeedForgets", in: serving, edits: one(serveFeed,
		"	f.pending = nil // a slice", "	f.pending = f.pending[:0] // a slice")},
	{name: "a served watch of a replaced history ends as one that is too old", run: "TestHistoryModel|TestReplaced", in: serving, edits: one(serveHistory,
		"	case p.era < h.brokenEra && h.own == nil:\n", "	case p.era < 0:\n")},
	{name: "a version of a replaced history is waited for", run: "TestHistoryModel|TestRewind", in: serving, edits: one(serveHistory,
		" || version > h.here && version <= h.replaced {", " {")},
	{name: "a version of a replaced history is too old", run: "TestHistoryModel|TestReplaced", in: serving, edits: one(serveHistory,
		"	case version <= h.replaced:\n", "	case version <= h.replaced && version > h.here:\n")},
	{name: "another object at an old version is served as a relist", run: "TestSmallScopeRelay", in: proofPackage, edits: one(serveFeed,
		"			epoch = true\n", "")},
	{name: "a list goes on in another history", run: "TestReplaced", in: serving, edits: one(serveList,
		" && !apierrors.HasStatusCause(err, listopts.CauseReplaced) {", " {")},
	{name: "a field that the objects do not have is only warned of", run: "TestFieldValidation", in: serving, edits: one("serve/write.go",
		"	if directive == metav1.FieldValidationStrict {", "	if directive == metav1.FieldValidationStrict && unknown == nil {")},
	{name: "any fieldValidation is accepted", run: "TestFieldValidation", in: serving, edits: one("serve/write.go",
		`		return apierrors.NewBadRequest(fmt.Sprintf("fieldValidation is`, `		_ = apierrors.NewBadRequest(fmt.Sprintf("fieldValidation is`)},
	{name: "the OpenAPI path of objects without a namespace has one", run: "TestOpenAPI", in: serving, edits: one("serve/openapi.go",
		`				namespace = ""`, `				namespace += ""`)},
	{name: "the OpenAPI document is not the other server's", run: "TestOpenAPI", in: serving, edits: one("serve/openapi.go",
		"if !ok || q.h.opts.Forward != nil {", "if !ok {")},
	{name: "the path of a namespace is that of all", run: "FuzzRequest", in: serving, edits: one("serve/path.go",
		"		t.namespaced, t.key.Namespace, parts = true, parts[1], parts[2:]", "		parts = parts[2:]")},
}
