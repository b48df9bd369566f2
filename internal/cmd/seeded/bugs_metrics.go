package main

const (
	causesFile = "status_recorder.go"
	countsFile = "status.go"
)

// metricsBugs are of the counters of Status.
var metricsBugs = []bug{
	{name: "a call is not counted", run: "TestHandlerStatusCounts", edits: one(handlerFile,
		"	case typ == Deleted && r.h.Delete != nil:\n		r.counter.call(typ)\n", "	case typ == Deleted && r.h.Delete != nil:\n")},
	{name: "the last calls before a handler waits are not published", run: "TestHandlerStatusCounts", edits: one(handlerFile,
		"		r.counter.publish()\n		part, _, err", "		part, _, err")},
	{name: "a panic is not counted", run: "TestHandlerStatusCounts", edits: one(handlerFile,
		"			r.counter.panics.Add(1)\n", "")},
	{name: "what is folded is not counted", run: "TestHandlerStatusOfABlockedHandler", edits: one("cursor.go",
		"		c.foldings += uint64(len(part))\n", "")},
	{name: "the lag is that of the handler's own call alone", run: "TestHandlerStatusLag", edits: one(handlerFile,
		"time.Since(r.hub.log.clock) - timed[0].arrival", "0")},
	{name: "of folded changes none is timed", run: "TestHandlerStatusLag", edits: one("fold.go",
		"			n.timed = append(n.timed, timedDelta{place, arrival})\n", "			_, _ = place, arrival\n")},
	{name: "the name of a removed handler stays taken", run: "TestHandlerStatusOfEqualNames", edits: one(hubHandlers,
		"		c.names.Release(reg.base, reg.alike)\n", "")},
	{name: "a gap counts as a protocol error", run: "TestStatusListCauses", edits: one(policyFile,
		"errors.As(o.err, &proto) && proto.gap", "errors.As(o.err, &proto) && false")},
	{name: "a list after a failed watch counts as expired", run: "TestStatusListCauses", edits: one(policyFile,
		"	return listFailing\n", "	return listExpired\n")},
	{name: "a list of an older state counts as the first one", run: "TestStatusListCausesOfSources", edits: one("reflector_restore.go",
		"r.wantList(listOlder)", "r.relist = true")},
	{name: "a server makes up codes", run: "TestStatusOfMadeUpCodes", edits: one(causesFile,
		"code >= 100 && code < 600", "true")},
	{name: "a pause is not counted", run: "TestStatusCounters", edits: one("reflector_policy.go",
		"r.recorder.paused(r.recorder.now() - begun)", "_ = begun")},
	{name: "the requests of a Status are shared", run: "TestStatusCounters", edits: one(recorderFile,
		"slices.Clone(r.requests)", "r.requests")},
	{name: "a bound of a histogram is not in its bucket", run: "TestHistogram", edits: one(countsFile,
		"lag > histogramBounds[i]", "lag >= histogramBounds[i]")},
}
