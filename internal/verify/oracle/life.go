package oracle

import (
	"slices"
	"time"
)

// stopLimit is how long a copy may take to end when no callback runs.
const stopLimit = time.Second

// checkLife checks what must hold long after the last fault, and at the end of each copy: L1 to L6,
// H8, R14, R17, G1.
func (l *Log) checkLife(r *Result) {
	for _, q := range l.quiets {
		l.checkQuiet(r, q)
	}
	for _, at := range l.rests {
		r.met("L5")
		if at.pending != 0 {
			r.fail(at.seq, "L5", "%d changes wait for a handler that is free, and nothing moves", at.pending)
		}
	}
	for _, s := range l.stops {
		r.met("G1")
		if s.Took > stopLimit {
			r.fail(s.Ret, "G1", "the end took %v", s.Took)
		}
	}
}

// checkQuiet checks that at a quiet moment the copy equals the server, apart from bad objects, and
// that it has no failures, no work left, and made no needless requests.
func (l *Log) checkQuiet(r *Result, q Quiet) {
	at := l.truth.at(q.seq)
	state, bad := l.truth.state(at)
	r.met("L1")
	var got []Item
	for _, item := range q.Items {
		if !bad[item.Key] {
			got = append(got, item)
		}
	}
	if read := (&Read{Items: got}); !equal(state, read) {
		want := make([]Item, 0, len(state))
		for _, item := range state {
			want = append(want, item)
		}
		r.fail(q.seq, "L1", "the copy has not caught up: it has %s, the server at %d %s", show(got), at.version, show(want))
	}
	if version, err := ParseVersion(q.Version); err != nil || version != at.version && len(bad) == 0 {
		r.fail(q.seq, "L1", "the copy reports version %q, the server is at %d", q.Version, at.version)
	}
	r.met("L2")
	if !q.Synced || q.Failures > 0 {
		r.fail(q.seq, "L2", "synced is %v after %d failures in a row, long after the faults have ended", q.Synced, q.Failures)
	}
	r.met("L5")
	if q.Pending != 0 {
		r.fail(q.seq, "L5", "%d changes wait", q.Pending)
	}
	r.met("U2")
	if q.Ahead != 0 {
		r.fail(q.seq, "U2", "the copy was told of %d keys that it has not reached", q.Ahead)
	}
	r.met("L6")
	if q.Requests > q.Most {
		r.fail(q.seq, "L6", "%d requests since the faults have ended, at most %d are needed", q.Requests, q.Most)
	}
	if q.Restored != 0 {
		r.met("R17")
		told := slices.ContainsFunc(l.reports, func(rep Report) bool {
			return rep.Rewound && rep.Copy == q.Copy && rep.Seq > q.Restored && rep.Seq < q.seq
		})
		if !told {
			r.fail(q.seq, "R17", "the server was restored and moved past the position, and nobody was told")
		}
	}
	r.met("R14")
	aside := map[Key]bool{}
	for _, key := range q.SetAside {
		aside[key] = true
	}
	if !slices.Equal(sorted(aside), sorted(bad)) {
		r.fail(q.seq, "R14", "set aside are %v, bad are %v", sorted(aside), sorted(bad))
	}
	for _, h := range l.handlers {
		if h.Copy == q.Copy && h.Ret < q.seq && (h.removed == 0 || h.removed > q.seq) {
			l.checkNetEffect(r, q, h)
		}
	}
}

// checkNetEffect checks that the calls of a handler add up to the objects of the copy.
func (l *Log) checkNetEffect(r *Result, q Quiet, h *Handler) {
	r.met("L4")
	if len(h.synced) == 0 || h.synced[0] > q.seq {
		r.fail(q.seq, "L4", "%s was not told that it is synced", h.Name)
		return
	}
	r.met("H8")
	r.met("L3")
	told := fold(h.calls, q.seq)
	if !equal(told, &Read{Items: q.Items, Of: nil}) && h.Filter == nil || h.Filter != nil &&
		!equal(told, &Read{Items: filtered(q.Items, h.Filter)}) {
		got := make([]Item, 0, len(told))
		for _, item := range told {
			got = append(got, item)
		}
		r.fail(q.seq, "H8", "what %s was told adds up to %s, the copy has %s", h.Name, show(got), show(q.Items))
	}
}

// filtered returns the items that f selects.
func filtered(items []Item, f func(Item) bool) (out []Item) {
	for _, item := range items {
		if f(item) {
			out = append(out, item)
		}
	}
	return out
}
