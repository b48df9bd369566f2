package oracle

import (
	"testing"
	"time"
)

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
