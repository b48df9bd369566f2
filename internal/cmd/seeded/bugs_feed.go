package main

const feedFile = "feed.go"

// feedBugs are of Poll and Feed, of what a Transform keeps, and of the checks of other people's
// sources.
var feedBugs = []bug{
	{name: "poll: nil is an empty collection", run: "TestEmptyFirstAnswer|TestPollModel", edits: one(feedFile,
		"	if objs == nil {\n", "	if objs == nil && f == nil {\n")},
	{name: "poll: deletions are not told", run: "TestPoll$", edits: one(feedFile,
		"!is && !whole {", "!is && whole {")},
	{name: "poll: what is the same is told again", run: "TestPoll$", edits: one("feed.go",
		"		if is = was; !batch.whole {\n", "		if is = was; batch.whole {\n")},
	{name: "poll: differences are shown one by one", run: "TestPollTells", edits: one(feedFile,
		"		ev.Open = i < len(events)-1\n", "		ev.Open = i < 0\n")},
	{name: "poll: a wait has nothing called", run: "TestPoll$|TestProgress", edits: one(feedFile,
		"	case <-s.nudge:\n", "")},
	{name: "poll: a key that comes twice is the last of them", run: "TestPoll$", edits: one(feedFile,
		"	case twice:\n", "	case twice && at.whole:\n")},
	{name: "poll: a function that hangs is waited for", run: "TestPollHangs", edits: one(feedFile,
		"	if ctx.Err() != nil {\n		return nil, context.Cause(ctx)\n", "	if ctx.Err() != nil && err == nil {\n		return nil, context.Cause(ctx)\n")},
	{name: "poll: a hash leaves out maps", run: "TestHash", in: "./internal/equal", edits: one("internal/equal/hash.go",
		"	h.number(uint64(v.Len()))\n	h.number(sum)\n", "	h.number(uint64(v.Len()))\n")},
	{name: "feed: silence lasts for ever", run: "TestFeedIsIdle", edits: one(feedFile,
		"	if most := opts.TimeoutSeconds; most != nil && *most > 0 {", "	if most := opts.TimeoutSeconds; most != nil && *most < 0 {")},
	{name: "keep: what is kept is set aside", run: "TestKeep", edits: one(listFile,
		"		delete(others, key)\n", "")},
	{name: "keep: another object's UID is kept", run: "TestKeep$", edits: one(listFile,
		"			delete(bad, key)\n", "")},
	{name: "keep: what is kept is a witness", run: "TestKeptIsNoWitness", edits: one(transformFile,
		"; t.isKept(key) {\n", "; t.isKept(key) && had == nil {\n")},
	{name: "keep: a bad version before it stays set aside", run: "TestKeepAfter", edits: one(watchFile,
		"			w.r.setAside.remove(ev.Key())\n", "			_ = ev\n")},
	{name: "writable: a deletion looks at no version", run: "TestWritable", in: "./lwtest", edits: one("memory.go",
		"	return w.deleteIf(Meta{Namespace: key.Namespace, Name: key.Name, ResourceVersion: version})\n",
		"	version, err := w.deleteIf(Meta{Namespace: key.Namespace, Name: key.Name})\n	return version + \"0\", err\n")},
}
