package oracle

import (
	"slices"
	"strings"
)

// checkLate checks what handlers are told against the state that they began with, and against each other: A1, A2, Y2, Y3, Y4,
// H11, M1. That the calls add up to the copy (H8, L3) is checked where it is quiet.
func (l *Log) checkLate(r *Result) {
	for _, h := range l.handlers {
		l.checkSynced(r, h)
		if h.Call == 0 || len(h.synced) == 0 {
			continue
		}
		l.checkBatch(r, h)
		if i := slices.IndexFunc(l.handlers, func(o *Handler) bool { return o.First && o.Copy == h.Copy && o != h }); i >= 0 {
			l.checkSame(r, l.handlers[i], h)
		}
	}
}

// checkSynced checks that a handler hears once that it is synced, and after the copy is.
func (l *Log) checkSynced(r *Result, h *Handler) {
	if len(h.synced) == 0 {
		return
	}
	r.met("Y4")
	if n := len(h.synced); n > 1 {
		r.fail(h.synced[1], "Y4", "%s was told %d times that it is synced", h.Name, n)
	}
}

// batch are the calls before the handler was told that this was all.
func (h *Handler) batch() (batch, rest []*Call) {
	for i, c := range h.told {
		if c.call > h.synced[0] {
			return h.told[:i], h.told[i:]
		}
	}
	return h.told, nil
}

// checkBatch checks that a handler begins with one state, which the copy may have had when it was registered.
func (l *Log) checkBatch(r *Result, h *Handler) {
	r.met("A1")
	r.met("Y2")
	batch, _ := h.batch()
	read := &Read{Of: h.Filter, Ret: h.synced[0]}
	for _, c := range batch {
		if c.Kind != Add {
			r.fail(c.call, "A1", "%s: %s before it was synced", h.Name, c)
			return
		}
		read.Items = append(read.Items, *c.New)
	}
	version, err := ParseVersion(h.Before)
	if err != nil {
		return // a read says so
	}
	// The copy had its version before, and the handler came in at that or a later state; which one is the copy's to choose.
	top := l.truth.at(read.Ret)
	for i := range top.epoch + 1 {
		for _, v := range append([]uint64{version}, l.truth.changes(i, 0, l.truth.epochs[i].top)...) {
			if p := (point{i, v}); (v >= version || top.epoch > 0) && l.truth.reached(p, read.Ret) && l.shows(read, p) {
				return
			}
		}
	}
	r.fail(h.synced[0], "A1", "%s joined at %s or later and began with %s, which is no state of the server's", h.Name, orNone(h.Before), show(read.Items))
}

func orNone(version string) string {
	if version == "" {
		return "the start"
	}
	return version
}

// checkSame checks that a handler was told of each object the end of the story that the first handler was told.
func (l *Log) checkSame(r *Result, first, h *Handler) {
	if !h.Lossless || len(first.synced) == 0 || !first.Lossless {
		return
	}
	r.met("A2")
	r.met("M1")
	keys := map[Key]bool{}
	for _, c := range slices.Concat(first.told, h.told) {
		keys[c.key()] = true
	}
	batch, rest := h.batch()
	began := fold(batch, l.seq)
	for _, key := range sorted(keys) {
		whole := words(first.told, key, h.Filter, nil)
		mine := words(rest, key, nil, h)
		item, had := began[key]
		if had {
			mine = append([]word{{text: "add " + item.String(), now: &item}}, mine...)
		}
		if l.follows(whole, mine, had, h) {
			continue
		}
		r.fail(h.end(l), "A2", "%s was told %s of %s, the first handler %s", h.Name, text(mine), key, text(whole))
		return
	}
}

// end is when the handler was told last.
func (h *Handler) end(l *Log) int {
	if len(h.told) == 0 {
		return l.seq
	}
	return h.told[len(h.told)-1].call
}

func (c *Call) key() Key {
	if c.New != nil {
		return c.New.Key
	}
	if c.Old != nil {
		return c.Old.Key
	}
	return Key{}
}

// A word is one call about a key, as all handlers should be told it.
type word struct {
	text string
	now  *Item // after it
}

// text is the last words: those before them are the same for all.
func text(words []word) string {
	const most = 8
	var all []string
	if n := len(words); n > most {
		words = words[n-most:]
		all = append(all, "…")
	}
	for _, w := range words {
		all = append(all, w.text)
	}
	return "[" + strings.Join(all, "; ") + "]"
}

// words are the calls about key, but for resyncs, as a handler with filter would be told them.
func words(calls []*Call, key Key, filter func(Item) bool, h *Handler) (words []word) {
	in := func(item *Item) bool { return item != nil && (filter == nil || filter(*item)) }
	for _, c := range calls {
		if c.key() != key || h.resyncs(c) {
			continue
		}
		switch was, is := in(c.Old), in(c.New); {
		case was && is:
			words = append(words, word{"update " + c.Old.String() + " to " + c.New.String(), c.New})
		case is:
			words = append(words, word{"add " + c.New.String(), c.New})
		case was:
			words = append(words, word{"delete " + c.Old.String(), nil})
		}
	}
	return words
}

// follows reports whether mine is the end of whole, or of a beginning of it: each of the two may be behind. A handler that began
// with the object as it was after a word is told that object as an Add.
func (l *Log) follows(whole, mine []word, had bool, h *Handler) bool {
	same := func(whole, mine []word) bool {
		n := min(len(whole), len(mine))
		return slices.EqualFunc(whole[:n], mine[:n], func(a, b word) bool { return a.text == b.text })
	}
	for i := range len(whole) + 1 {
		var now *Item
		if i > 0 {
			now = whole[i-1].now
		}
		switch {
		case !had && now == nil && same(whole[i:], mine):
			return true
		case had && now != nil && now.is(*mine[0].now) && same(whole[i:], mine[1:]):
			return true
		}
	}
	// The first handler has not come as far as to what this one began with.
	return had && len(mine) > 0 && (len(whole) == 0 || whole[len(whole)-1].now == nil || whole[len(whole)-1].now.Version < mine[0].now.Version) &&
		!h.caughtUp(l)
}

// caughtUp reports whether there was a quiet moment after the handler was synced, at which the first one had been told all.
func (h *Handler) caughtUp(l *Log) bool {
	return slices.ContainsFunc(l.quiets, func(q Quiet) bool { return q.Copy == h.Copy && q.seq > h.synced[0] })
}

func sorted(keys map[Key]bool) []Key {
	var all []Key
	for key := range keys {
		all = append(all, key)
	}
	slices.SortFunc(all, func(a, b Key) int { return strings.Compare(a.String(), b.String()) })
	return all
}
