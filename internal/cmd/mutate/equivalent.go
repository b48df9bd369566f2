package main

import "strings"

// An equivalent is a mutant that somebody has looked at and that changes nothing that a test may
// look at.
type equivalent struct {
	file     string // from the root of the repository
	function string
	was, is  string // as the report prints them; is "": removed
	why      string
	// near is what stands on its line, or on the three before it. It is needed where the function
	// has the same text more than once.
	near string
}

// markEquivalents marks the mutants that are known to change nothing, and returns the entries of
// their files that fit none, or some of several lines.
func markEquivalents(all []*mutant) (stale []string) {
	type place struct{ file, function, was, is string }
	at, files := map[place][]*mutant{}, map[string]bool{}
	for _, m := range all {
		files[m.file.name] = true
		is := ""
		if m.is != "" {
			is = oneLine(m.is)
		}
		p := place{m.file.name, m.function, oneLine(m.was), is}
		at[p] = append(at[p], m)
	}
	for _, e := range equivalents {
		if !files[e.file] {
			continue
		}
		is := ""
		if e.is != "" {
			is = oneLine(e.is)
		}
		var found []*mutant
		for _, m := range at[place{e.file, e.function, oneLine(e.was), is}] {
			if strings.Contains(m.context(), e.near) {
				found = append(found, m)
			}
		}
		if len(found) == 0 || found[0].line != found[len(found)-1].line {
			stale = append(stale, e.file+" "+e.function+": "+e.was+" -> "+e.is)
		}
		for _, m := range found {
			m.equivalent = true
		}
	}
	return stale
}

const (
	speed  = "only speed: what is left out saves work, and its result is the same without it"
	memory = "only memory: what is cleared is overwritten or dropped soon, and nobody reads it before"
)

var equivalents = []equivalent{
	{"fifo.go", "(*log).wakeLocked", "clear(l.parked)", "", memory, ""},
	{"fold.go", "(*netChange).add", "1", "(1) - 1", speed, ""},
	{"http.go", "(*HTTP).put", "h.idle = d", "", speed, ""},
	{"reflector_policy.go", "(*Reflector).pause", "return", "", "a timer of no time fires at once", ""},
	{"lw.go", "(position).after", "err == nil", "true", "with an error the order is 0", ""},
	{"lw.go", "decimal", "return n", "return *new(uint64)", speed, ""},
	{"reflector_errors.go", "retryAfter", "!ok || seconds <= 0", "!ok && seconds <= 0", "without a delay the seconds are 0, and none is below", ""},
	{"reflector_errors.go", "retryAfter", "seconds <= 0", "seconds < 0", "no seconds are no pause", ""},
	{"reflector_watch.go", "(*watchSession).ended", "o.noVersions", "false", "decide looks at nothing else of a watch without versions, and the list that follows clears the doubt", ""},
	{"aggregate.go", "(*groupByOperator).countAll", "ok", "true", "what is noted of an object that was not held back is read nowhere: neither its mark, since was is false, nor its object, which is zero", ""},
	{"derived_faults.go", "sameDeeply", "if !ok || meta.Type != reflect.TypeFor[Meta]() || !meta.Anonymous || len(meta.Index) != 1 { return false }", "like := reflect.New(v.Elem().Type())", speed, ""},
	{"graph.go", "(*Graph).prune", "g.shrunk", "true", speed, ""},
	{"graph_step.go", "(*leaf).poll", "whole", "true", speed, "var position"},
	{"reflector_builder.go", "(*listBuilder).checkEvent", "older", "false", "a key that came before is no progress anyway", "held.version)\n\t\t}\n\t\treturn older, nil"},
	{"status.go", "(*handlerCounter).publish", "return", "", speed, ""},
	{"index_sorted.go", "(*SortedIndex).ordered", "seq%2 == 0", "false", speed, ""},
	{"join.go", "(*leftJoinOperator).clearFaults", `o.sides.faults.clear(fault{function: "function", key: key})`, `o.sides.faults.clear(fault{function: functionWhere, key: key})`, "neither reads what the other writes", ""},
	{"transform.go", "(*transformed).apply", `return zero, false, t.setAside(&Error{Op: opTransform, Key: key, UID: uid, Err: errNoName("result")})`, `return zero, !false, t.setAside(&Error{Op: opTransform, Key: key, UID: uid, Err: errNoName("result")})`, "with an error nobody looks at the rest", ""},
	{"transform.go", "(*transformed).apply", "if out.GetResourceVersion() != version { t.ownVersions.Store(true) }", "if out.GetUID() != uid { t.ownUIDs.Store(true) }", "neither reads what the other writes", ""},
	{"aggregate.go", "(*groupOperator).compute", "clear(o.args)", "if !ok || !named(o.faults, at, result) { return }", memory, ""},
	{"derived.go", "newDerived", "d.hub.needs = func(yield func(*hubCore) bool) { for in := range d.needs { if !yield(in.core()) { return } } }", "d.batch = d.hub.store.store.NewBatch()", "neither reads what the other writes", ""},
	{"feed.go", "(*Feeder).Snapshot", "ev.More = true", "", "nobody is told of initial events before their end", ""},
	{"graph.go", "(*Graph).remove", "!g.hasLocked(n)", "false", "nothing depends on what has gone, and it is stopped once", ""},
	{"handler.go", "(*handlerRunner).callInitial", "return false", "return !false", "a handler that was removed gets no call, and run ends at the first look", "if !r.call(&d)"},
	{"hub_handlers.go", "(*hub).addHandler", "r.sub = &subscription[T]{ opts: cursorOptions{everyUpdate: handler.EveryUpdate, timing: true}, starting: func(snap *Snapshot[T]) { r.left.Store(int64(snap.Len())) }, }", "reg.runner = r", "neither reads what the other writes", ""},
	{"join.go", "(*joinOperator).set", "o.Drop(p, was)", "delete(l.State.own, r)", "neither reads what the other writes", ""},
	{"join.go", "(*leftJoinOperator).find", "found := l.State.own.rights[:0:0]", "keys := o.leftKeys(l, &o.now)", "neither reads what the other writes", ""},
	{"union.go", "(*unionOperator).finish", "len(o.members.going) > 0", "true", speed, ""},

	{"internal/table/bitset.go", "(bitset).count", "n += bits.OnesCount64(word)", "", speed, ""},
	{"internal/table/groups.go", "(*Groups).leave", "place != last", "true", "the last member takes its own place, and is popped", ""},
	{"handler.go", "(*handlerRunner).run", "defer ticker.Stop()", "", memory, ""},
	{"internal/table/compact.go", "sparse", "spare", "(spare) + 1", speed, ""},
	{"internal/table/replace.go", "(*Replacement).fork", "room/8", "room * 8", memory, ""},
	{"internal/table/table.go", "tagOf", "0xffff", "(0xffff) / 2", speed, ""},
	{"internal/table/compact.go", "compacted", "objs.Len() > objs.Live()", "objs.Len() >= objs.Live()", speed, ""},
	{"internal/table/groups.go", "(*Groups).leave", "4*last", "4 + last", speed, ""},
	{"internal/table/groups.go", "(*Groups).stripeOf", "stripes", "(stripes) - 1", speed, ""},
	{"internal/table/groups.go", "(*Groups).stripesFor", "len(values) > m.spare(position)", "true", speed, ""},
	{"internal/table/hash.go", "word", "7", "(7) - 1", speed, "check of bounds"},
	{"internal/table/index.go", "(*draftOf).replace", "g.members[shard].are(position, values)", "false", speed, ""},
	{"internal/table/index.go", "(*draftOf).replace", "continue", "", speed, ""},
	{"internal/table/index.go", "(*draftOf).clear", "d.values[0] = none", "", memory, ""},
	{"internal/table/members.go", "(*members).spare", "1 + len(m.free)", "1 - len(m.free)", speed, ""},
	{"internal/table/replace.go", "(*Store).diff", "len(objs)/shards", "len(objs) * shards", memory, ""},
	{"internal/table/table.go", "newTable", "2", "(2) + 1", speed, ""},
	{"internal/table/vector.go", "(*Vector).ownRoot", "v.rootEra != v.era", "true", speed, ""},
	{"internal/table/compact.go", "sparse", "spare", "(spare) - 1", speed, ""},
	{"internal/table/groups.go", "(*Groups).fire", "!g.signals.Waiting()", "false", speed, ""},
	{"internal/table/hash.go", "hashText", "0", "(0) + 1", "any start will do", "h := s[0]"},
	{"internal/table/index.go", "(*Store).Add", "d.grow(cap(all))", "", speed, ""},
	{"internal/table/snapshot.go", "(*Store).Snapshot", "snap != nil", "false", speed, ""},
	{"internal/table/store.go", "(*Store).removeLocked", "sh.objs.Set(position, none)", "table.store(entry, value{})", "both are done before the lock is released", ""},
	{"internal/table/value.go", "nameOf", "long", "s", memory, ""},
	{"internal/table/vector.go", "(*Vector).Pop", "v.live -= one(v.At(v.n))", "i := v.n / chunkSize", "neither reads what the other writes", ""},

	{"serve/answer.go", "(*request).writeList", "16", "(16) - 1", speed, ""},
	{"serve/answer.go", "(*request).fail", "f.Shape == wire.Full", "true", "a Status is asked for in no other shape", ""},
	{"serve/answer.go", "(*request).writeStatus", "f.Shape == wire.Full", "true", "a Status is asked for in no other shape", ""},
	{"serve/conn.go", "(*conn).Write", "len(data) == 0", "false", "a write of nothing changes nothing", ""},
	{"serve/item.go", "(*encoders).of", "16777619", "(16777619) * 2", speed, ""},
	{"serve/item.go", "(*encoders).of", "uint32(len(e))", "(uint32(len(e))) / 2", speed, ""},
	{"serve/list.go", "(*request).page", "math.MaxInt32", "(math.MaxInt32) * 2", "no collection has so many objects", ""},
	{"serve/openapi.go", "(*request).writeOpenAPI", "body, err := json.Marshal(document)", "if err != nil { q.fail(apierrors.NewInternalError(err)) return }", "the document can always be encoded", ""},
	{"serve/history.go", "(*history).leap", "h.oldest", "h.gaps[0].to", "no gap that is kept is before the oldest version", ""},
	{"serve/list.go", "(*request).page", "p.items = make([]*item, 0, state.Len())", "", memory, ""},
	{"serve/watch.go", "(*watcher).step", "return r, errors.Join(w.sendBookmark(out, r.here), io.EOF)", "return *new(reading), errors.Join(w.sendBookmark(out, r.here), io.EOF)", "with an error nobody looks at the rest", ""},
	{"serve/path.go", "parsePath", "return t, false", "return *new(target), false", "nobody looks at what is no target", "default:"},
	{"serve/request.go", "errNotFresh", "0", "(0) + 1", "the message is replaced", ""},
	{"serve/splice.go", "find", "from == 0", "true", "only speed: no server sends an object that has a member twice", ""},
	{"serve/splice.go", "withVersion", "uFrom != 0", "true", "nothing is replaced at 0", "uFrom < vFrom"},
	{"serve/sweep.go", "(*directWatch).begin", "err == nil", "true", "a connection that has failed fails again", "w.direct.send(head, timeout)"},

	{"internal/listopts/filter.go", "(*Filter).Matches", "if !f.selectors { return true }", "for _, t := range f.fields { var value string switch { case t.field == fieldName: value = o.Name case t.field == fieldNamespace: value = o.Namespace case field != nil: value = field(t.field) } if (value == t.value) == t.not { return false } }", "without selectors there are no fields", ""},
	{"internal/listopts/listopts.go", "Parse", `if len(query["sendInitialEvents"]) > 0 { opts.SendInitialEvents = new(flag(query, "sendInitialEvents")) }`, `limit, badLimit := number(query, "limit")`, "neither reads what the other writes", ""},
	{"internal/listopts/token.go", "DecodeToken", "err == nil", "true", "with an error it is refused anyway, with another text", "path.Clean"},
	{"internal/order/order.go", "(*List).Delete", "return old, false", "return *new(V), false", "where there is nothing, old is zero", "at == len(l.chunks)"},
	{"internal/order/order.go", "(*List).Delete", "return old, false", "return *new(V), false", "where there is nothing, old is zero", "!existed"},
	{"internal/rest/begin.go", "beginsJSON", `name == "items"`, "false", "what explains a wrong answer is as good as can be", ""},
	{"internal/rest/explain.go", "(*Request).unanswered", "if done := r.http.Context().Err(); done != nil { return failed(r.url, done) }", "err = &unansweredError{r.url, err}", "neither reads what the other writes", ""},
	{"internal/rest/refusal.go", "(*Request).check", "maxErrorBody", "(maxErrorBody) / 2", "any Status fits into half of it", ""},
	{"internal/rest/request.go", "(*Collection).url", "ok", "true", "url.Parse has no other error", "errors.AsType"},
	{"internal/rest/request.go", "(*Collection).url", `if err := CheckSelectors(query.Get("labelSelector"), query.Get("fieldSelector")); err != nil { return nil, failed(u, err) }`, "u.RawQuery = query.Encode()", "the URL in the error has the selectors as well then, as its text has", ""},
	{"internal/rest/response.go", "(*Response).Explain", "!ok", "true", "what begins as an event has no kind that could be wrong", `what != ""`},
	{"websocket/frames.go", "(*frames).fill", "return f.err", "return *new(error)", "f.err is what comes next", "io.ErrNoProgress"},
	{"websocket/handler.go", "(*upgrade).WriteHeader", "u.conn = conn", "u.stop = context.AfterFunc(conn.CloseRead(context.Background()), u.gone)", "neither reads what the other writes", ""},
	{"websocket/handler.go", "(*upgrade).abort", "u.stop()", "u.conn.CloseNow()", "what is called then is called in any case", ""},
	{"prom/collector.go", "(labels).of", "l[free] = 2", "l[name] = n", "where both are one, n is 2", ""},
	{"websocket/frames.go", "(*frames).Read", "len(p) >= fullBuffer", "len(p) > fullBuffer", speed, ""},
	{"websocket/frames.go", "(*frames).fill", "f.err = err", "if n > 0 { return nil }", "a connection that has failed fails again", ""},

	{"internal/equal/distinct.go", "Distinct", "len(values) > many", "true", speed, ""},
	{"internal/equal/distinct.go", "Distinct", "len(values) > many", "false", speed, ""},
	{"internal/equal/distinct.go", "Distinct", "len(values) > many", "len(values) >= many", speed, ""},
	{"internal/equal/distinct.go", "Distinct", "seen = make(map[K]struct{}, len(values))", "", speed, ""},
	{"internal/equal/distinct.go", "Distinct", "seen != nil", "false", speed, ""},
	{"internal/signal/signal.go", "(*Set).Fire", "!s.Waiting()", "false", speed, ""},
	{"internal/signal/signal.go", "(*Set).FireWhere", "!s.Waiting()", "false", speed, ""},
	{"internal/signal/signal.go", "(*Set).fireLocked", "len(signals) == 0", "false", speed, ""},
	{"internal/signal/signal.go", "(*Set).Wait", "return make(chan struct{})", "return *new(<-chan struct{})", "from neither does anything come", ""},

	{"internal/decode/json_any.go", "(*Decoder).decodeAnyScalar", "64", "(64) * 2", "all sizes but 32 are taken for 64", "ParseFloat"},
	{"internal/decode/proto_message.go", "(*wireCompiler).field", "err == nil", "true", "with an error nobody uses the decoder", ""},
	{"internal/decode/json_parse.go", "(*parser).shortInt", "i > 1", "true", speed, ""},
	{"internal/decode/json_string.go", "(*parser).str", "size == 1", "true", speed, ""},
	{"internal/decode/proto_envelope.go", "(*Decoder).messageIdent", "err != nil", "false", "what names a broken object is as good as can be", ""},
	{"internal/decode/stream_protobuf.go", "(*protobufList).read", "err != nil", "false", "what comes next meets the same end of the stream", "io.EOF"},
	{"internal/decode/json_fields.go", "fieldsOf", "1", "(1) - 1", "the first field has the name of the first", "first, n := all[0]"},
	{"internal/decode/json_string.go", "(*parser).str", "r == utf8.RuneError && size == 1", "true", speed, ""},
	{"internal/decode/proto_repeated.go", "(*wireMap).decode", "scratch == nil", "true", speed, ""},
	{"internal/decode/stream_list.go", "(*jsonList).expect", "return b.truncated(err)", "return *new(error)", "what comes next meets the same end of the stream", ""},
	{"internal/decode/stream_watch.go", "(*watchStream).readEvent", "return false, err", "return !false, err", "with an error nobody looks at the rest", "usePool"},
	{"internal/decode/json_raw.go", "(*rawField).remember", "string(f.seen[i].bytes) == string(raw)", "true", speed, ""},
	{"internal/decode/json_skip.go", "(*parser).skipCompact", "maxCompact", "(maxCompact) / 2", speed, ""},
	{"internal/decode/reuse_parts_json.go", "(*partLayout).jsonPart", "meta && !d.last.looked", "true", "whatever version is found, only a part of the same bytes is taken from it", ""},
	{"internal/decode/reuse_parts_proto.go", "(*partLayout).untake", "0", "(0) + 1", "a sum without a size means nothing", ""},
	{"internal/decode/reuse_values.go", "(*shareField).guess", "len(rest) < n", "len(rest) <= n", speed, ""},
	{"internal/decode/json_raw.go", "(*rawField).remember", "f.last = at", "", speed, ""},
	{"internal/decode/proto_repeated.go", "(*wireCompiler).repeated", "err != nil", "false", "without bytes the loop ends at once, and returns the error", "w.bytes()"},
	{"internal/decode/stream_buffer.go", "(*buffer).fill", "100", "(100) / 2", "a reader that reads nothing fifty times will not read anything", ""},
}
