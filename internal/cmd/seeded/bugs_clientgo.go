package main

const (
	fakeFile        = "listwatch_fake.go"
	clientgoPackage = "./clientgo"
	compareFile     = "clientgo/capture_compare.go"
)

// clientgoBugs are of sources of client-go's clients, and of module clientgo.
var clientgoBugs = []bug{
	{name: "a client that opts out of streams is a fake", run: "TestOptOutOfStreams", edits: one(fakeFile,
		"		fake = fake && no\n", "		fake = no\n")},
	{name: "a ListerWatcher that opts out of streams has no versions", run: "TestOptOut", in: clientgoPackage, edits: one("clientgo/source.go",
		"	h.NoStream = h.NoStream || !s.stream\n", "	h.NoStream = h.NoStream || !s.stream\n	h.Unversioned = h.Unversioned || !s.stream\n")},
	{name: "one object without a version makes a list without versions", run: "TestOptOutOfStreams", edits: one(fakeFile,
		"	} else if l.versions == noObjects {", "	} else {")},
	{name: "events without versions are never believed", run: "TestProxyWatcher", edits: one(fakeFile,
		"	case version == \"\":\n		f.versions.Store(unversioned)\n", "")},
	{name: "an event without a version is believed after others with one", run: "TestProxyWatcher", edits: one(fakeFile,
		"	case f.versions.Load() != noObjects:\n", "	case f.versions.Load() == unversioned:\n")},
	{name: "the first streamed list eats the events of a watch.ProxyWatcher", run: "TestProxyWatcher", edits: one(fakeFile,
		"		refuse = !f.noStream.Swap(true)\n", "		refuse = false\n")},
	{name: "what a ListerWatcher does to an answer is lost", run: "TestDecoderOfAListerWatcherThatChanges", in: clientgoPackage, edits: one("clientgo/capture.go",
		"		why = cmp.Or(why, changed(p, v))\n", "		changed(p, v)\n		why = cmp.Or(why)\n")},
	{name: "a watch that was wrapped is not noticed", run: "TestDecoderOfAListerWatcherThatChanges", in: clientgoPackage, edits: one(compareFile,
		"	if s.decoder.Trust {\n", "	if true {\n")},
	{name: "a captured watch.Filter leaves a goroutine", run: "TestDecoderOfAListerWatcherThatChanges", in: clientgoPackage, edits: one(compareFile,
		"	go drain(p.ctx, w)\n", "")},
	{name: "a list of which an object was changed is taken for unchanged", run: "TestDecoderOfAListerWatcherThatChanges", in: clientgoPackage, edits: one(compareFile,
		"		if !sameObject(sent[i], item) {", "		if false && !sameObject(sent[i], item) {")},
	{name: "that client-go decodes is logged for each request", run: "TestDecoderOfAListerWatcherThatChanges", in: clientgoPackage, edits: one("clientgo/capture.go",
		"if why != \"\" && !s.logged.Swap(true) {", "if why != \"\" {")},
	{name: "a query for several values does not look whether an object has moved", run: "TestLookupAny", in: clientgoPackage, edits: one("clientgo/indexer.go",
		"		same := !slices.ContainsFunc(changes, isClosed)\n", "		same := changes != nil\n")},
	{name: "a stream that is refused and its list are two failures", run: "TestRecordsOfARefusal", in: clientgoPackage, edits: one(policyFile,
		"		err := &Error{Informer: r.opts.Name, Op: o.op, Err: o.err}\n", "		err := &Error{Informer: r.opts.Name, Op: o.op, Failures: r.failures, Err: o.err}\n")},
}
