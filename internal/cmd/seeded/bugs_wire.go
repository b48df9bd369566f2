package main

// wireBugs are of how a server writes its answers.
var wireBugs = []bug{
	{name: "a clause that comes later wins", run: "TestNegotiate", in: "./internal/wire", edits: one("internal/wire/negotiate.go",
		"	sort.Sort(byPreference(clauses))\n", "	sort.Sort(sort.Reverse(byPreference(clauses)))\n")},
	{name: "a kind that a list cannot be is passed over", run: "TestNegotiate", in: "./internal/wire", edits: one("internal/wire/negotiate.go",
		"				return Format{}, notAcceptable(fmt.Sprintf(", "				_ = notAcceptable(fmt.Sprintf(\"%s\", c.as))\n				continue\n				return Format{}, notAcceptable(fmt.Sprintf(")},
	{name: "the length of an event lacks its end", run: "TestEvents", in: "./internal/wire", edits: one("internal/wire/list.go",
		"	return len(magic) + len(kind) + fieldSize(n) + len(envelopeTail)\n", "	return len(magic) + len(kind) + fieldSize(n)\n")},
	{name: "a long field has a length of two bytes", run: "TestEvents|TestLists", in: "./internal/wire", edits: one("internal/wire/list.go",
		"	for rest := n >> 7; rest > 0; rest >>= 7 {\n		size++\n	}\n", "	if n >= 128 {\n		size++\n	}\n")},
	{name: "a list counts no commas", run: "TestLists|TestJSONList", in: "./internal/wire", edits: one("internal/wire/list.go",
		"			t.Bytes++ // the comma\n", "")},
	{name: "256 items of CBOR are none", run: "TestLists|TestCBORNumber", in: "./internal/wire", edits: one("internal/wire/cbor.go",
		"	case n <= 0xff:\n", "	case n <= 0x100:\n")},
	{name: "the end of initial events is not marked", run: "TestEvents|TestPartialEvents", in: "./internal/wire", edits: one("internal/wire/codec.go",
		"	if initialEventsEnd {\n", "	if initialEventsEnd && c.format.Encoding == CBOR {\n")},
	{name: "aggregated discovery is for those who prefer it", run: "TestDiscoveryBytes", in: "./internal/wire", edits: one("internal/wire/discovery.go",
		"c.aggregated() && c.matches(typeJSON)", "c.aggregated() && c.matches(typeJSON) && c.q == 1")},
	{name: "the model's list forgets that it was cut", run: "TestProtoListFaults", in: "./internal/apiserver", edits: one("internal/apiserver/answer.go",
		"			total.Bytes += 64 ", "			total.Bytes += 0 ")},
	{name: "who does not say what he accepts gets JSON of what has none", run: "TestNegotiateWithoutJSON", in: "./internal/wire", edits: one("internal/wire/negotiate.go",
		"		if has(Format{}) {\n", "		if true || has(Format{}) {\n")},
}
