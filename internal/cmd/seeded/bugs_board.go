package main

const (
	boardFile     = "board.go"
	boardHTTPFile = "lwdebug/lwdebug.go"
	namesFile     = "internal/names/names.go"
	statesFile    = "internal/board/state.go"
	pageFile      = "internal/board/page.go"
	markupFile    = "internal/markup/markup.go"
)

// boardBugs are of what a board lists, and of how it is shown.
var boardBugs = []bug{
	{name: "board: an informer stays when its Run has returned", run: "TestBoardListsWhatRuns", edits: one("informer.go",
		"	defer inf.r.opts.Board.addInformer(inf.r.opts.Name, inf.Status, inf.hub.object)()\n",
		"	inf.r.opts.Board.addInformer(inf.r.opts.Name, inf.Status, inf.hub.object)\n")},
	{name: "board: a graph stays when its Run has returned", run: "TestBoardListsWhatRuns", edits: one(graphFile,
		"	defer g.opts.Board.addGraph(g.opts.Name, g.Status, g.object)()\n", "	g.opts.Board.addGraph(g.opts.Name, g.Status, g.object)\n")},
	{name: "board: the reflector of an informer is listed beside it", run: "TestBoardListsWhatRuns", edits: one(reflectorFile,
		"opts: opts, next: stepList, recorder:", "opts: opts, board: opts.Board, recorder:")},
	{name: "board: two have one name", run: "TestBoardOfEqualNames", edits: one(namesFile,
		"!e.taken {", "!e.taken || number == 1 {")},
	{name: "board: a name that looks like one with a number is taken twice", run: "TestBoardOfEqualNames", edits: one(namesFile,
		"!e.taken {", "!e.taken || number > 1 {")},
	{name: "board: a name looks at all others", run: "TestCostOfOneName", in: "./internal/names", edits: one(namesFile,
		"		heap.Push(&b.back, number)\n", "		b.next, b.back = 1, nil\n")},
	{name: "board: whoever comes copies the list", run: "TestBoardOfManyNames", edits: one(boardFile,
		"	r.entries[e] = struct{}{}\n	r.sorted = nil\n", "	r.entries[e] = struct{}{}\n	r.sorted = slices.Collect(maps.Keys(r.entries))\n")},
	{name: "board: name#10 comes before name#2", run: "TestBoardOfEqualNames", edits: one(boardFile,
		"cmp.Compare(e.number, other.number)", "strings.Compare(e.name, other.name)")},
	{name: "board: what ends is taken out of a list that is being read", run: "TestBoardChangesInALoop", edits: one(boardFile,
		"		delete(r.entries, e)\n		r.sorted = nil\n", "		delete(r.entries, e)\n		r.sorted = without(r.sorted, e)\n")},
	{name: "board: statuses are asked for under the lock", run: "TestBoardChangesInALoop", edits: one(boardFile,
		"		for _, e := range b.informers.list() {\n", "		b.informers.mu.Lock()\n		defer b.informers.mu.Unlock()\n		for e := range b.informers.entries {\n")},
	{name: "board: text is not escaped", run: "TestBoardIsHarmless", in: "./lwdebug", edits: one(markupFile,
		"html.EscapeString(printable(text))", "html.UnescapeString(html.EscapeString(printable(text)))")},
	{name: "board: what cannot be printed stays", run: "TestPrintable|TestEscape", in: "./internal/markup", edits: one(markupFile,
		"strconv.IsPrint(r) {", "!strconv.IsPrint(r) || true {")},
	{name: "board: the answer to HEAD has a body", run: "TestBoardMethods", in: "./lwdebug", edits: one(boardHTTPFile,
		"	if method == http.MethodGet {\n", "	if method != \"\" {\n")},
	{name: "board: every handler shows objects", run: "TestObjects", in: "./lwdebug", edits: one(boardHTTPFile,
		"	if p.objects && query.Has(\"key\") {\n", "	if query.Has(\"key\") {\n")},
	{name: "board: a key with a namespace is taken for a name", run: "TestObjects", in: "./lwdebug", edits: one(boardHTTPFile,
		"		in = lw.Key{Namespace: namespace, Name: name}\n", "		_, _ = namespace, name\n")},
	{name: "board: the first collection of a name hides those after it", run: "TestObjects", in: "./lwdebug", edits: one("graph_status.go",
		"		if obj, ok = n.object(key); ok {\n", "		if obj, ok = n.object(key); true {\n")},
	{name: "board: the page may not send its form", run: "TestObjects", in: "./lwdebug", edits: one("internal/board/page.go",
		"		forms = \"'self'\"\n", "		forms += \"\"\n")},
	{name: "board: JSON for whoever accepts it beside a page", run: "TestBoardForms", in: "./lwdebug", edits: one(boardHTTPFile,
		" && !strings.Contains(accept, \"text/html\")", "")},
	{name: "board: the page is not of the worst first", run: "TestVerdict", in: "./internal/board", edits: one(pageFile,
		"cmp.Compare(state(a).rank(), state(b).rank())", "cmp.Compare(state(b).rank(), state(a).rank())")},
	{name: "board: a minute of failures is not enough", run: "TestStates", in: "./internal/board", edits: one(statesFile,
		">= failsAfter", "> failsAfter")},
	{name: "board: a graph does not show what is wrong with its collections", run: "TestStates", in: "./internal/board", edits: one(statesFile,
		"if c.State.rank() < state.rank() {", "if c.State.rank() < state.rank() && g.Synced && false {")},
}
