package main

const (
	serving      = "./serve"
	serveWatch   = "serve/watch.go"
	serveHistory = "serve/history.go"
	serveFeed    = "serve/feed.go"
	serveRequest = "serve/request.go"
	serveSweep   = "serve/sweep.go"
	serveItem    = "serve/item.go"
	serveList    = "serve/list.go"
	serveStamp   = "serve/stamp.go"
	serveStream  = "serve/stream.go"
)

// serveBugs are of package serve.
var serveBugs = []bug{
	{name: "a served watch that must end is awake until it does", run: "TestStaleWatchSleeps", in: serving, edits: one(serveWatch,
		"		w.bookmarks = false // there is no version", "		// there is no version")},
	{name: "a served watch over net/http that is idle has a deadline", run: "TestWriteTimeoutOverHTTP2", in: serving, edits: one(serveStream,
		"			g.rest()\n			return gone(err)\n", "			return gone(err)\n")},
	{name: "a served watch over net/http never has a deadline", run: "TestWriteTimeoutOverHTTP2", in: serving, edits: one(serveStream,
		"func (g *guard) begin() { g.timer.Reset(g.timeout) }", "func (g *guard) begin() {}")},
}
