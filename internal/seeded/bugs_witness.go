package main

const transformFile = "transform.go"

// witnessBugs are of what a reflector asks a server beside lists and watches: its version, and
// whether it is still the same.
var witnessBugs = []bug{
	{name: "a probe is a list for a transform", run: "TestTransformOfAProbe", edits: one(transformFile,
		"	if isProbe(ctx) {\n", "	if isProbe(ctx) && ctx == nil {\n")},
}
