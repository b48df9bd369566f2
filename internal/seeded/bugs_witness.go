package main

const transformFile = "transform.go"

// witnessBugs are of what a reflector asks a server beside lists and watches: its version, and
// whether it is still the same.
var witnessBugs = []bug{
	{name: "a probe is a list for a transform", run: "TestTransformOfAProbe", edits: one(transformFile,
		"	if isProbe(ctx) {\n", "	if isProbe(ctx) && ctx == nil {\n")},
	{name: "the witness is not asked", run: "TestRestoredServer", edits: one(reflectorFile,
		"		case r.doubts():\n", "		case false && r.doubts():\n")},
	{name: "versions of a witness's new epoch are believed", run: "TestRestoredServer|TestWitness$", edits: one(listFile,
		"distrust: epoch || hints", "distrust: epoch && !r.rewound || hints")},
	{name: "a no of the witness is a list like any other", run: "TestRestoredServer", edits: one(listFile,
		"	epoch := r.listed && r.rewound", "	epoch := false && r.rewound")},
	{name: "the witness is asked about an object that is set aside", run: "TestWitness$", edits: one(probeFile,
		" && !skip(KeyOf(obj)) {", " {")},
	{name: "a witness that refuses is asked after each outage", run: "TestWitnessThatIsForbidden", edits: one(probeFile,
		"*d = doubt{askNext: time.Now().Add(askSeldom)}", "*d = doubt{}")},
	{name: "a watch waits for a witness that never answers", run: "TestWitness$", edits: one(probeFile,
		"			o.denied = r.doubt.reachable\n", "")},
	{name: "an answer of another version counts", run: "TestHadByList", edits: one("listwatch.go",
		"	case listMeta.ResourceVersion != version:", "	case listMeta.ResourceVersion == \"\":")},
	{name: "an answer about another object counts", run: "TestHadByList", edits: one("listwatch.go",
		"	case !found && other:", "	case !found && other && had:")},
	{name: "a witness is asked by the new name", run: "TestTransformOfAWitness", edits: one(transformFile,
		"	from := t.sourceKey(obj.Key())\n", "	from := obj.Key()\n")},
	{name: "a witness is asked about a version of the transform's own", run: "TestTransformOfAWitness", edits: one(transformFile,
		"		t.ownVersions.Store(true)\n", "")},
	{name: "a sink's deleted object is the newest one", run: "TestWitnessOfASink", edits: one(sinkFile,
		"		s.last = Meta{}\n	}\n", "	}\n")},
}
