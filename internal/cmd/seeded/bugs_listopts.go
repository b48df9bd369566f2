package main

// listoptsBugs are of what a server understands of a request.
var listoptsBugs = []bug{
	{name: "a flag without a value is false", run: "TestParse", in: "./internal/listopts", edits: one("internal/listopts/listopts.go",
		"	return len(values) > 0 && values[0] != \"0\"", "	return len(values) > 0 && values[0] != \"\" && values[0] != \"0\"")},
	{name: "a limit makes any version exact", run: "TestExactAndLimit|TestListOptions",
		in: "./internal/listopts", edits: one("internal/listopts/listopts.go",
			"opts.ResourceVersion != \"\" && opts.ResourceVersion != \"0\"", "opts.ResourceVersion != \"\"")},
	{name: "a token says its namespace", run: "TestTokenIsRelative", in: "./internal/listopts", edits: one("internal/listopts/token.go",
		"strings.TrimPrefix(path, Prefix(namespace))", "strings.TrimPrefix(path, Prefix(\"\"))")},
	{name: "a forged token leads out of its collection", run: "TestForgedTokens", in: "./internal/listopts", edits: one("internal/listopts/token.go",
		"path.Clean(\"/\"+start) != \"/\"+start", "path.Clean(\"/\"+start) == \"\"")},
	{name: "a page begins with the last object of the page before", run: "TestPages", in: "./internal/history", edits: one("internal/listopts/token.go",
		" + \"\\x00\"}", " + \"\"}")},
	{name: "a selector of one namespace selects from all", run: "TestFilter$", in: "./internal/listopts", edits: one("internal/listopts/filter.go",
		"	if f.namespace != \"\" && f.namespace != o.Namespace {", "	if !f.selectors && f.namespace != \"\" && f.namespace != o.Namespace {")},
	{name: "what must not be is what must be", run: "TestFilter$", in: "./internal/listopts", edits: one("internal/listopts/filter.go",
		"(value == t.value) == t.not", "(value == t.value) != (t.not || true)")},
	{name: "a match costs an allocation", run: "TestMatchAllocates", in: "./internal/listopts", edits: one("internal/listopts/filter.go",
		"			value = field(t.field)\n", "			value = string(append([]byte(nil), field(t.field)...))\n")},
}
