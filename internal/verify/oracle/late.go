package oracle

import (
	"slices"
	"strings"
)

// checkLate checks the state that each handler begins with, and compares the calls of the handlers
// with each other: A1, A2, Y2, Y3, Y4, H11, M1. Whether the calls add up to the copy (H8, L3) is
// checked at quiet moments.
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

// checkSynced checks that the Synced of a handler is called once only.
func (l *Log) checkSynced(r *Result, h *Handler) {
	if len(h.synced) == 0 {
		return
	}
	r.met("Y4")
	if n := len(h.synced); n > 1 {
		r.fail(h.synced[1], "Y4", "%s was told %d times that it is synced", h.Name, n)
	}
}

// batch splits the calls of a handler: those before its Synced was called, which are its initial
// Adds, and the rest.
func (h *Handler) batch() (batch, rest []*Call) {
	for i, c := range h.calls {
		if c.call > h.synced[0] {
			return h.calls[:i], h.calls[i:]
		}
	}
	return h.calls, nil
}

// checkBatch checks that the initial Adds of a handler are one state, one that the copy may have
// had while the handler was registered.
func (l *Log) checkBatch(r *Result, h *Handler) {
	r.met("A1")
	r.met("Y2")
	batch, _ := h.batch()
	read := &Read{Copy: h.Copy, Of: h.Filter, Ret: h.synced[0]}
	for _, c := range batch {
		if c.Kind != Add {
			r.fail(c.call, "A1", "%s: %s before it was synced", h.Name, c)
			return
		}
		read.Items = append(read.Items, *c.New)
	}
	version, err := ParseVersion(h.Before)
	if err != nil {
		return // checkReads reports such a version
	}
	// The handler joined at the version that the copy had before the registration, or at any later
	// one. All of them are right, so try each.
	top := l.truth.at(read.Ret)
	for i := range top.epoch + 1 {
		for _, v := range append([]uint64{version}, l.truth.changes(i, 0, l.truth.epochs[i].top)...) {
			if p := (point{i, v}); (v >= version || top.epoch > 0) && l.truth.reached(p, read.Ret) && l.shows(nil, read, p) {
				return
			}
		}
	}
	r.fail(h.synced[0], "A1", "%s joined at %s or later and began with %s, which is no state of the server's", h.Name,
		orNone(h.Before), show(read.Items))
}

func orNone(version string) string {
	if version == "" {
		return "the start"
	}
	return version
}

// checkSame compares the calls of h with those of the first handler, key by key. h may have been
// registered later: then its calls about a key must be the end of the first handler's calls, after
// an Add that shows the object as it was at that place.
func (l *Log) checkSame(r *Result, first, h *Handler) {
	if !h.Lossless || len(first.synced) == 0 || !first.Lossless {
		return
	}
	r.met("A2")
	r.met("M1")
	keys := map[Key]bool{}
	for _, c := range slices.Concat(first.calls, h.calls) {
		keys[c.key()] = true
	}
	batch, rest := h.batch()
	began := fold(batch, l.seq)
	for _, key := range sorted(keys) {
		whole := changesOf(first.calls, key, h.Filter, nil)
		mine := changesOf(rest, key, nil, h)
		item, had := began[key]
		if had {
			mine = append([]change{{text: "add " + item.String(), now: &item}}, mine...)
		}
		if l.follows(whole, mine, had, h) {
			continue
		}
		r.fail(h.end(l), "A2", "%s was told %s of %s, the first handler %s", h.Name, text(mine), key, text(whole))
		return
	}
}

// end returns the moment of the handler's last call.
func (h *Handler) end(l *Log) int {
	if len(h.calls) == 0 {
		return l.seq
	}
	return h.calls[len(h.calls)-1].call
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

// A change is one call about a key, in a form that is equal for all handlers.
type change struct {
	text string
	now  *Item // the object after the call; nil: it does not exist
}

// text returns the last changes as text. Earlier ones do not differ between the handlers.
func text(words []change) string {
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

// changesOf returns the calls about key, without resyncs, as a handler with filter would get them:
// an Update by which the object begins to match the filter is an Add, one by which it ceases to
// match is a Delete.
func changesOf(calls []*Call, key Key, filter func(Item) bool, h *Handler) (words []change) {
	in := func(item *Item) bool { return item != nil && (filter == nil || filter(*item)) }
	for _, c := range calls {
		if c.key() != key || h.resyncs(c) {
			continue
		}
		switch was, is := in(c.Old), in(c.New); {
		case was && is:
			words = append(words, change{"update " + c.Old.String() + " to " + c.New.String(), c.New})
		case is:
			words = append(words, change{"add " + c.New.String(), c.New})
		case was:
			words = append(words, change{"delete " + c.Old.String(), nil})
		}
	}
	return words
}

// follows reports whether mine is what a handler must get that joins somewhere in whole. For every
// place i of whole: if the handler began with the object, had is set and mine begins with the Add
// of the object as it was at i; and then mine must continue as whole does after i. Either handler
// may be behind the other, so only the common length is compared.
func (l *Log) follows(whole, mine []change, had bool, h *Handler) bool {
	same := func(whole, mine []change) bool {
		n := min(len(whole), len(mine))
		return slices.EqualFunc(whole[:n], mine[:n], func(a, b change) bool { return a.text == b.text })
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
	// No place fits. That is right only if the first handler is so far behind that it has not yet
	// reached the object that this handler began with.
	return had && len(mine) > 0 && (len(whole) == 0 || whole[len(whole)-1].now == nil ||
		whole[len(whole)-1].now.Version < mine[0].now.Version) &&
		!h.caughtUp(l)
}

// caughtUp reports whether there was a quiet moment after the handler was synced. By then the first
// handler has received everything.
func (h *Handler) caughtUp(l *Log) bool {
	return slices.ContainsFunc(l.quiets, func(q Quiet) bool { return q.Copy == h.Copy && q.seq > h.synced[0] })
}

// sorted returns the keys in order.
func sorted(keys map[Key]bool) []Key {
	var all []Key
	for key := range keys {
		all = append(all, key)
	}
	slices.SortFunc(all, func(a, b Key) int { return strings.Compare(a.String(), b.String()) })
	return all
}
