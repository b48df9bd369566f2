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
)

// serveBugs are of package serve.
var serveBugs = []bug{
	{name: "a served watch that must end is awake until it does", run: "TestStaleWatchSleeps", in: serving, edits: one(serveWatch,
		"		w.bookmarks = false // there is no version", "		// there is no version")},
}
