package main

// wireBugs are those of what goes over HTTP: decoders, lists, options and WebSockets.
var wireBugs = []bug{
	{"CBOR: an item does not wait for the kind of its list", "TestCBORItemsWithoutKind", "./internal/decode", []edit{
		{"internal/decode jsonList.deliver", `len(__) > 0 || __1`, `false && __1`}}},
	{"a string that differs from the pattern's is not parsed", "TestSkipModel|TestPatternFits", "./internal/decode", []edit{
		{"internal/decode skipPattern.match", `b = stringEnd(__)`, `b += int(at.end - at.start)`}}},
	{"an object that is decoded again is whole", "TestMaskEqualsPrune|FuzzMask", "./internal/decode", []edit{
		{"internal/decode Decoder.redecodeMessage", `d.root.keep`, `mask{}`}}},
	{"parser waits beyond what it may see", "TestSharedInPieces", "./internal/decode", []edit{
		{"internal/decode parser.rawWithin", `p.data, p.src = __1, nil`, `p.data = __1`}}},
	{"kinds are not compared", "TestHTTPKind|OfAnotherKind", "", []edit{
		{"internal/decode Kinds.check", `want != "" && kind != want`, `want == "" && kind != kind`}}},
	{"changed item is taken for the old one", "TestUnchangedItem", "./internal/decode", []edit{
		{"internal/decode Decoder.unchanged", `!l.rest[i].equal(v.object, v.old)`, `false && !l.rest[i].equal(v.object, v.old)`}}},
	{"two values of a map's entry are merged", "TestProtobufEntryOfTwoValues", "./internal/decode", []edit{
		{"internal/decode wireMap.entry", `if again { __1(m.zero) }`, `if again && num < 0 { __1(m.zero) }`}}},
	{"part that comes twice is merged in protobuf", "Parts", "./internal/decode", []edit{
		{"internal/decode partLayout.messagePart", `l.came(d, i, p)`, `false && l.came(d, i, p)`}}},
	{"a Status has no words", "TestHTTPStatusWithoutWords", "", []edit{
		{"internal/decode StatusError", `s.Message == "" || __1`, `s.Message != "" && __1`}}},
	{"a projection's strings have notes", "TestProjectionIsSmall", "./internal/decode", []edit{
		{"internal/decode newPartLayout", `projection && __1`, `projection && len(l.parts) > 100 && __1`}}},
	{"a bookmark needs no version", "TestBookmarks", "./internal/decode", []edit{
		{"internal/decode Bookmark", `__1 == ""`, `__1 == "" && o.Name != ""`}}},
	{"untyped part that comes twice is noted", "Untyped", "./internal/decode", []edit{
		{"internal/decode Decoder.decodeContent", `twice || parts.unsure`, `false && (twice || parts.unsure)`}}},
	{"keys that are left out are in protobuf", "TestOnly$", "./internal/decode", []edit{
		{"internal/decode wireMap.entry", `err == nil && m.masked`, `err == nil && m.masked && m.keep.present`}}},
	{"templates for the first object", "TestNoTemplateOfFewObjects", "./internal/decode", []edit{
		{"internal/decode Decoder.templatesOf", `d.objects < templatesFrom`, `d.objects < templatesFrom && false`}}},
	{"a number that two fields have is taken", "TestProjectionErrors", "./internal/decode", []edit{
		{"internal/decode handStruct.add", `if other, ok := h.names[num]; ok { return __1 }`, `if other, ok := h.names[num]; ok && num < 0 { return __1 }`}}},
	{"a path below what decodes itself is taken", "TestWrongPaths", "./internal/decode", []edit{
		{"internal/decode follow", `specialDecoder(t) != nil`, `specialDecoder(t) != nil && path == ""`}}},
	{"buffer of a busy watch stays small", "TestWatchBuffer", "./internal/decode", []edit{
		{"internal/decode buffer.fill", `b.filled && __1`, `false && __1`}}},
	{"a map is that of the template", "TestTemplateFits", "./internal/decode", []edit{
		{"internal/decode template.matchJSON", `l.fresh`, `l.fresh && next < 0`}}},
	{"CBOR: bytes are written as text", "TestCBORItems|TestCBOREqualsJSON", "./internal/decode", []edit{
		{"internal/decode cborToJSON.value", `as = h.arg`, `as = plainText`}}},
	{"templates are made without a limit", "TestTemplatesMustPay", "./internal/decode", []edit{
		{"internal/decode templates.decode", `ts.credit < templateCost`, `ts.credit < 0`}}},
	{"templates are kept without a limit", "TestTemplatesWithoutRoom", "./internal/decode", []edit{
		{"internal/decode templates.learn", `d.templateBytes + t.size`, `t.size`}}},
	{"what is skipped is in a template", "TestNoTemplate", "./internal/decode", []edit{
		{"internal/decode structType.record", `__1 || s.members[i].dec == nil`, `__1`}}},
	{"spare object is used for all that follow", "TestSpareObject", "./internal/decode", []edit{
		{"internal/decode Decoder.newObject", `if d.spare = (pointer{}); p.addr == nil { p = __1 }`, `if p.addr == nil { p = __1 }`}}},
	{"odd value is the pattern of the next", "TestPatternOfOddValue", "./internal/decode", []edit{
		{"internal/decode Decoder.skipLike", `switch { case __2: case __1: case compact: d.learn(s, __3) }`, `switch { case __2: case __1: default: d.learn(s, __3) }`}}},
	{"an object with fewer members is taken for the last one", "TestEquals", "./internal/decode", []edit{
		{"internal/decode Decoder.mapOf", `len(__) == len(__)`, `true`}}},
	{"the mask of a member is forgotten", "TestOnlyUntyped", "./internal/decode", []edit{
		{"internal/decode mask.member", `__1 = rest`, `__1 = mask{}`}}},
	{"values are decoded into those of the template", "TestTemplateSharesNothing|TestTemplateFits", "./internal/decode", []edit{
		{"internal/decode templates.learn", `l.fresh`, `!l.fresh`}}},
	{"doubled pool does not find its strings", "TestPoolKeeps", "./internal/decode", []edit{
		{"internal/decode enlarged", `len(larger)`, `len(table)`}}},
	{"the next response may be of another kind", "TestKinds", "./internal/decode", []edit{
		{"internal/decode Kinds.check", `k.kind = kind`, `_ = kind`}}},
	{"an invalid line waits for the next one", "TestInvalidLines", "./internal/decode", []edit{
		{"internal/decode watchStream.readEvent", `b.beforeFill = w.syntaxCheck()`, ``}}},
	{"a page begins with the last object of the page before", "TestPages", "./internal/history", []edit{
		{"internal/listopts After", `__1 + "\x00"`, `__1 + ""`}}},
	{"a flag without a value is false", "TestParse", "./internal/listopts", []edit{
		{"internal/listopts flag", `len(values) > 0`, `len(values) > 0 && values[0] != ""`}}},
	{"a selector of one namespace selects from all", "TestFilter$", "./internal/listopts", []edit{
		{"internal/listopts Filter.Matches", `f.namespace != ""`, `!f.selectors && f.namespace != ""`}}},
	{"a limit makes any version exact", "TestExactAndLimit|TestListOptions", "./internal/listopts", []edit{
		{"internal/listopts Exact", `__1 && opts.ResourceVersion != "0"`, `__1`}}},
	{"the body of a watch is closed before its request ends", "TestEndsBeforeTheBody", "./internal/rest", []edit{
		{"internal/rest Response.Finish", `r.request.watching`, `false`}}},
	{"lwtest: the connection of a watch in memory is used again", "TestConnections", "./internal/apiserver", []edit{
		{"internal/apiserver exchange.answer", `stream || len(x.filters) > 0`, `len(x.filters) > 0`}}},
	{"headers follow redirects that lead back", "TestHTTPHeaderStaysAtHome", "", []edit{
		{"internal/rest Collection.confined", `away(req) || __1(__)`, `away(req) || __1(via[:1], away)`}}},
	{"an invalid header is left to the transport", "TestHTTPInvalidHeader", "", []edit{
		{"internal/rest Collection.Request", `checkHeader(__)`, `checkHeader(nil)`}}},
	{"errors of HTTP show keys of the query", "TestHTTPErrorsShowNoSecrets", "", []edit{
		{"internal/rest Redacted", `query.Del(__)`, `_ = name`}}},
	{"CBOR: the type of a stream is not known", "TestHTTPCBOR", "", []edit{
		{"internal/rest codecs", `cborStream`, `cborType`}}},
	{"CBOR: metadata is asked for without parameters", "TestAcceptCBOR", "./internal/rest", []edit{
		{"internal/rest ofMetadata", `params == "" || !cbor`, `true`}}},
	{"who does not say what he accepts gets JSON of what has none", "TestNegotiateWithoutJSON", "./internal/wire", []edit{
		{"internal/wire Negotiate", `has(Format{})`, `true || has(Format{})`}}},
	{"the end of initial events is not marked", "TestEvents|TestPartialEvents", "./internal/wire", []edit{
		{"internal/wire Codec.Bookmark", `if __2 { __3 = __1 }`, `if __2 && c.format.Encoding == CBOR { __3 = __1 }`}}},
	{"aggregated discovery is for those who prefer it", "TestDiscoveryBytes", "./internal/wire", []edit{
		{"internal/wire Discovery.Serve", `c.aggregated() && __1`, `c.aggregated() && __1 && c.q == 1`}}},
	{"the length of an event lacks its end", "TestEvents", "./internal/wire", []edit{
		{"internal/wire envelopeSize", `__1 + fieldSize(n) + len(__)`, `__1 + fieldSize(n)`}}},
	{"WebSocket: a WebSocket that is closed within a message ends cleanly", "TestMessages", "./websocket", []edit{
		{"websocket body.failed", `ok && within`, `false && within`}}},
	{"WebSocket: an event waits for the one behind it", "TestPrompt", "./websocket", []edit{
		{"websocket frames.hasMessage", `!ok || head.size() > uint64(__)`, `!ok`}}},
	{"WebSocket: Close waits for a context that is over for ever", "TestEnds", "./websocket", []edit{
		{"websocket body.Close", `b.closed.Do`, `func(f func()) { f() }`}}},
	{"WebSocket: watch=false is a watch", "TestHandshakes", "./websocket", []edit{
		{"websocket isWatch", `len(watch) > 0 && !__1`, `len(watch) > 0 || __1`}}},
	{"WebSocket: an event waits for the last frame of the one behind it", "TestPrompt", "./websocket", []edit{
		{"websocket frames.hasMessage", `head.final && __1`, `__1`}}},
	{"WebSocket: a burst over a WebSocket comes one by one", "TestMore", "./websocket", []edit{
		{"websocket body.Read", `n > 0 && !b.frames.hasMessage()`, `n > 0`}}},
	{"WebSocket: a WebSocket without an origin is served", "TestHandlerOrigin", "./websocket", []edit{
		{"websocket Handler", `r.Header.Get(__) == ""`, `false`}}},
	{"WebSocket: a choice of forms is taken for the first", "TestResponseAtOnce|TestMessages", "./websocket", []edit{
		{"websocket onlyForm", `f == nil || only != nil && f != only`, `f == nil`}}},
}
