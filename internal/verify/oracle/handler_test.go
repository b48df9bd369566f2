package oracle

import (
	"testing"
	"time"
)

// The checks of a handler.
func TestHandlerChecks(t *testing.T) {
	a2, a3, b4 := item("a", 2), item("a", 3), item("b", 4)
	again := item("a", 5, "uid-again")
	checks(t, []check{
		{"H1", "two adds", func(r *run) { r.write(a2); r.tell(r.handler(Handler{}), Add, nil, a2) },
			func(r *run) { r.write(a2); h := r.handler(Handler{}); r.tell(h, Add, nil, a2); r.tell(h, Add, nil, a2) }},
		{"H1", "update before add", func(r *run) {
			r.write(a2, a3)
			r.told(Handler{}, [2]*Item{nil, a2}, [2]*Item{a2, a3})
		}, func(r *run) { r.write(a2, a3); r.tell(r.handler(Handler{}), Update, a2, a3) }},
		{"H1", "two at once", nil, func(r *run) {
			r.write(a2, b4)
			h := r.handler(Handler{})
			end := h.Calls(Call{Kind: Add, New: a2})
			r.tell(h, Add, nil, b4)
			end()
		}},
		{"H1", "no object", nil, func(r *run) { r.tell(r.handler(Handler{}), Add, nil, nil) }},
		{"H2", "versions fall", nil, func(r *run) {
			r.write(a2, a3)
			r.told(Handler{}, [2]*Item{nil, a3}, [2]*Item{a3, a2})
		}},
		{"H3", "two UIDs", func(r *run) {
			r.write(a2)
			r.remove("a", 3)
			r.write(again)
			r.told(Handler{}, [2]*Item{nil, a2}, [2]*Item{a2, nil}, [2]*Item{nil, again})
		}, func(r *run) {
			r.write(a2)
			r.remove("a", 3)
			r.write(again)
			r.told(Handler{}, [2]*Item{nil, a2}, [2]*Item{a2, again})
		}},
		{"H4", "another old", nil, func(r *run) {
			r.write(a2, a3)
			r.told(Handler{}, [2]*Item{nil, a2}, [2]*Item{item("a", 2), a3})
		}},
		{"H5", "another last", nil, func(r *run) {
			r.write(a2)
			r.told(Handler{}, [2]*Item{nil, a2}, [2]*Item{item("a", 2), nil})
		}},
		{"H6", "fabrication", nil, func(r *run) { r.tell(r.handler(Handler{}), Add, nil, a2) }},
		{"H7", "the store is behind", func(r *run) {
			r.write(a2)
			r.handler(Handler{}).Calls(Call{Kind: Add, New: a2, Read: true, Seen: a2, Grouped: true})()
		}, func(r *run) {
			r.write(a2)
			r.handler(Handler{}).Calls(Call{Kind: Add, New: a2, Read: true, Grouped: true})()
		}},
		{"H7", "the server goes back to before a deletion", func(r *run) {
			r.write(a2)
			r.remove("a", 3)
			end := r.handler(Handler{}).Calls(Call{Kind: Add, New: a2, Read: true, Grouped: true})
			r.rewind(2)
			end()
		}, func(r *run) {
			r.write(a2, item("b", 3))
			end := r.handler(Handler{}).Calls(Call{Kind: Add, New: a2, Read: true, Grouped: true})
			r.rewind(2)
			end()
		}},
		{"H13", "a call sees a part of what was written at once", func(r *run) {
			b2 := item("b", 2)
			r.write(a2, b2)
			r.read("s", "2", a2, b2)
			r.handler(Handler{}).Calls(Call{Kind: Add, New: a2, Snapshot: true, Version: "2"})()
		}, func(r *run) {
			r.write(a2, item("b", 2))
			r.handler(Handler{}).Calls(Call{Kind: Add, New: a2, Snapshot: true, Version: "1"})()
		}},
		{"H13", "a call sees a part, at a version that is held back", func(r *run) {
			r.write(a2, item("b", 2))
			r.spoil("c", 2)
			r.handler(Handler{}).Calls(Call{Kind: Add, New: a2, Snapshot: true, Version: "1"})()
		}, func(r *run) {
			r.write(a2, item("b", 2))
			r.handler(Handler{}).Calls(Call{Kind: Add, New: a2, Snapshot: true, Version: "none"})()
		}},
		{"H7", "the index is behind", nil, func(r *run) {
			r.write(a2)
			r.handler(Handler{}).Calls(Call{Kind: Add, New: a2, Read: true, Seen: a2})()
		}},
		{"H8", "the story is not the copy", func(r *run) {
			r.write(a2)
			h := r.handler(Handler{})
			r.tell(h, Add, nil, a2)
			h.Syncs()
			r.quiet("2", a2)
		}, func(r *run) { r.write(a2); r.handler(Handler{Before: "1"}).Syncs(); r.quiet("2", a2) }},
		{"H9", "after Remove", func(r *run) { r.write(a2); h := r.handler(Handler{}); r.tell(h, Add, nil, a2); h.Removed(false) },
			func(r *run) { r.write(a2); h := r.handler(Handler{}); h.Removed(false); r.tell(h, Add, nil, a2) }},
		{"H9", "a second call after Remove", func(r *run) { r.write(a2); h := r.handler(Handler{}); h.Removed(true); r.tell(h, Add, nil, a2) },
			func(r *run) {
				r.write(a2, b4)
				h := r.handler(Handler{})
				h.Removed(true)
				r.tell(h, Add, nil, a2)
				r.tell(h, Add, nil, b4)
			}},
		{"H10", "initial", func(r *run) {
			r.write(a2)
			h := r.handler(Handler{})
			h.Calls(Call{Kind: Add, New: a2, Initial: 1})()
			h.Syncs()
		},
			func(r *run) {
				r.write(a2)
				h := r.handler(Handler{})
				h.Syncs()
				h.Calls(Call{Kind: Add, New: a2, Initial: 1})()
			}},
		{"H12", "a panic is not reported", func(r *run) { h := r.handler(Handler{}); h.Panics(); h.Recovers() },
			func(r *run) { r.handler(Handler{}).Panics() }},
		{"Z1", "no resync was asked for", func(r *run) {
			r.write(a2)
			r.told(Handler{Resync: time.Second}, [2]*Item{nil, a2}, [2]*Item{a2, a2})
		}, func(r *run) {
			r.write(a2)
			r.told(Handler{}, [2]*Item{nil, a2}, [2]*Item{a2, a2})
		}},
		{"Z2", "too often", nil, func(r *run) {
			r.write(a2)
			h := r.handler(Handler{Resync: time.Second})
			r.tell(h, Add, nil, a2)
			for range 5 {
				r.tell(h, Update, a2, a2)
			}
		}},
		{"A1", "begins with no state", func(r *run) { r.write(a2); h := r.handler(Handler{}); r.tell(h, Add, nil, a2); h.Syncs() },
			func(r *run) { r.write(a2, b4); h := r.handler(Handler{}); r.tell(h, Add, nil, b4); h.Syncs() }},
		{"A1", "begins with an older state", nil, func(r *run) {
			r.write(a2, b4)
			h := r.handler(Handler{Before: "4"})
			r.tell(h, Add, nil, a2)
			h.Syncs()
		}},
		{"A2", "misses a change", func(r *run) { late(r, true) }, func(r *run) { late(r, false) }},
		{"Y2", "synced before it was", func(r *run) { h := r.handler(Handler{}); h.Syncs(); r.Waits(Wait{Handler: h}) },
			func(r *run) { h := r.handler(Handler{}); r.Waits(Wait{Handler: h}) }},
		{"Y4", "synced twice", func(r *run) { r.handler(Handler{}).Syncs() }, func(r *run) { h := r.handler(Handler{}); h.Syncs(); h.Syncs() }},
	})
}

// late is a handler that comes when a is there, and is told of what changes then or not.
func late(r *run, told bool) {
	a2, a3 := item("a", 2), item("a", 3)
	r.write(a2)
	first := r.handler(Handler{First: true, Lossless: true})
	first.Syncs()
	r.tell(first, Add, nil, a2)
	h := r.handler(Handler{Lossless: true, Before: "2"})
	r.tell(h, Add, nil, a2)
	h.Syncs()
	r.write(a3)
	again := item("a", 4)
	r.write(again)
	r.tell(first, Update, a2, a3)
	r.tell(first, Update, a3, again)
	if told {
		r.tell(h, Update, a2, a3)
		r.tell(h, Update, a3, again)
	} else {
		r.tell(h, Update, a2, again)
	}
}

// The checks of the end, and of a quiet copy.
func TestLifeChecks(t *testing.T) {
	a2, b4 := item("a", 2), item("b", 4)
	checks(t, []check{
		{"G4", "after the end", func(r *run) { r.write(a2); r.tell(r.handler(Handler{}), Add, nil, a2); r.Stops(Stop{Copy: 1}) },
			func(r *run) { r.write(a2); h := r.handler(Handler{}); r.Stops(Stop{Copy: 1}); r.tell(h, Add, nil, a2) }},
		{"L1", "behind", func(r *run) { r.write(a2); r.quiet("2", a2) }, func(r *run) { r.write(a2); r.quiet("1") }},
		{"L1", "an old version", func(r *run) { r.write(a2); r.quiet("2", a2) }, func(r *run) { r.write(a2, b4); r.remove("b", 5); r.quiet("4", a2) }},
		{"L2", "not synced", nil, func(r *run) { r.Quiets(Quiet{Copy: 1, Version: "1"}) }},
		{"L4", "a handler is not synced", nil, func(r *run) { r.handler(Handler{}); r.quiet("1") }},
		{"L5", "something waits", nil, func(r *run) { r.Quiets(Quiet{Copy: 1, Version: "1", Synced: true, Pending: 1}) }},
		{"L5", "something waits at rest", func(r *run) { r.Rests(0) }, func(r *run) { r.Rests(1) }},
		{"L6", "too many requests", nil, func(r *run) { r.Quiets(Quiet{Copy: 1, Version: "1", Synced: true, Requests: 9, Most: 8}) }},
		{"R17", "nobody is told of a restored server", func(r *run) {
			since := r.Tick()
			r.Reports(Report{Copy: 1, Rewound: true})
			r.Quiets(Quiet{Copy: 1, Version: "1", Synced: true, Restored: since})
		}, func(r *run) {
			r.Reports(Report{Copy: 1, Rewound: true}) // of before
			since := r.Tick()
			r.Reports(Report{Copy: 2, Rewound: true})
			r.Reports(Report{Copy: 1})
			r.Quiets(Quiet{Copy: 1, Version: "1", Synced: true, Restored: since})
		}},
		{"G1", "a slow end", func(r *run) { r.Stops(Stop{Took: time.Second}) }, func(r *run) { r.Stops(Stop{Took: time.Minute}) }},
	})
}
