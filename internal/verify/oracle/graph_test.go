package oracle

import "testing"

// graph records a snapshot of a graph over the copy.
func (r *run) graph(session, version string, all ...*Item) {
	r.GraphReads(GraphRead{Session: session, Copy: 1, Call: r.Tick(), Version: version, Items: items(all)})
}

func (r *run) views(views ...View) {
	r.GraphReads(GraphRead{Copy: 1, Call: r.Tick(), Version: "1", Views: views})
}

func (r *run) atRest(version string, shown, own []*Item) {
	r.GraphReads(GraphRead{Copy: 1, Call: r.Tick(), Version: version, Items: items(shown), Rest: true, Want: items(own),
		WantVersion: version})
}

func (r *run) story(calls ...[2]*Item) *GraphHandler {
	h := r.GraphHandlers("a handler")
	for _, c := range calls {
		h.Calls(kindOf(c), c[0], c[1])
	}
	return h
}

// The checks of what a graph shows.
func TestGraphChecks(t *testing.T) {
	a2, a3, again, b4 := item("a", 2), item("a", 3), item("a", 5, "uid-again"), item("b", 4)
	number := func(all []Item) string { return string(rune('0' + len(all))) }
	every := func(Item) bool { return true }
	both := func(r *run) { r.write(a2, a3) }
	checks(t, []check{
		{"D3a", "a view", func(r *run) { r.views(View{Shows: "0", Of: number}) },
			func(r *run) { r.views(View{Shows: "1", Of: number}) }},
		{"D3b", "content", func(r *run) { both(r); r.graph("s", "3", a3) }, func(r *run) { both(r); r.graph("s", "3", a2) }},
		{"D3b", "the future", func(r *run) { r.write(a2); r.graph("s", "2", a2) },
			func(r *run) { r.write(a2); r.graph("s", "3", a2) }},
		{"D3b", "what is bad stays as it was", func(r *run) { r.write(a2); r.spoil("a", 3); r.graph("s", "3", a2) },
			func(r *run) { r.write(a2, b4); r.spoil("a", 5); r.graph("s", "5", a2) }},
		{"D3b", "no version", func(r *run) { r.graph("s", "") }, func(r *run) { r.write(a2); r.graph("s", "", a2) }},
		{"D4", "lags behind the copy, not behind itself",
			func(r *run) { both(r); r.read("s", "3", a3); r.graph("g", "2", a2) },
			func(r *run) { both(r); r.graph("g", "3", a3); r.graph("h", "2", a2) }},
		{"D4", "a session goes back but in a new epoch",
			func(r *run) { both(r); r.graph("g", "3", a3); r.rewind(2); r.graph("g", "2", a2) },
			func(r *run) { both(r); r.graph("g", "3", a3); r.graph("g", "2", a2) }},
		{"D4", "the graph of a copy that has stopped", func(r *run) {
			both(r)
			r.graph("g", "2", a2)
			r.GraphReads(GraphRead{Session: "n", Copy: 2, Call: r.Tick(), Version: "3", Items: items([]*Item{a3})})
			r.graph("late", "2", a2)
		}, func(r *run) {
			both(r)
			r.graph("g", "3", a3)
			r.GraphReads(GraphRead{Session: "n", Copy: 2, Call: r.Tick(), Version: "2", Items: items([]*Item{a2})})
		}},
		{"D4", "to nothing", func(r *run) { r.graph("g", ""); r.write(a2); r.graph("g", "2", a2) },
			func(r *run) { r.write(a2); r.graph("g", "2", a2); r.graph("g", "") }},
		{"S5", "ahead of the copy", func(r *run) { both(r); r.graph("g", "2", a2); r.read("s", "3", a3) },
			func(r *run) { both(r); r.graph("g", "3", a3); r.read("s", "2", a2) }},
		{"D5", "one snapshot", func(r *run) {
			r.views(View{Step: "1", Shows: "0", Of: number}, View{Step: "1", Shows: "0", Of: number})
		},
			func(r *run) {
				r.views(View{Step: "1", Shows: "0", Of: number}, View{Step: "2", Shows: "0", Of: number})
			}},
		{"D5", "two Gets", func(r *run) {
			r.GraphPairs(GraphPair{Before: "1", After: "1", First: a2, Second: a2, Of: every})
			r.GraphPairs(GraphPair{Before: "1", After: "2", First: a2, Second: a3, Of: every})
		}, func(r *run) { r.GraphPairs(GraphPair{Before: "1", After: "1", First: a2, Second: a3, Of: every}) }},
		{"D5", "one of two Gets", nil,
			func(r *run) { r.GraphPairs(GraphPair{Before: "1", After: "1", First: a2, Of: every}) }},
		{"D7", "a story", func(r *run) {
			r.story([2]*Item{nil, a2}, [2]*Item{a2, a3}, [2]*Item{a3, nil}, [2]*Item{nil, again}).Quiets(items([]*Item{again}))
		}, func(r *run) { r.story([2]*Item{nil, a2}, [2]*Item{nil, a3}) }},
		{"D7", "another old", nil, func(r *run) { r.story([2]*Item{nil, a2}, [2]*Item{item("a", 2), a3}) }},
		{"D7", "two UIDs", nil, func(r *run) { r.story([2]*Item{nil, a2}, [2]*Item{a2, again}) }},
		{"D7", "the end", nil, func(r *run) { r.story([2]*Item{nil, a2}).Quiets(items([]*Item{a3})) }},
		{"D8", "noise", nil, func(r *run) { r.story([2]*Item{nil, a2}, [2]*Item{a2, item("a", 2)}) }},
		{"D14", "the copy has not synced", func(r *run) { r.Waits(Wait{Graph: true, Sync: true, CopySynced: true}) },
			func(r *run) { r.Waits(Wait{Graph: true, Sync: true}) }},
		{"D14", "nothing after the sync", func(r *run) { r.Waits(Wait{Copy: 1, Sync: true}); r.graph("g", "") },
			func(r *run) {
				r.Waits(Wait{Copy: 1, Graph: true, Sync: true, CopySynced: true})
				r.graph("g", "")
			}},
		{"D15", "older than a wait", func(r *run) { both(r); r.Waits(Wait{Copy: 1, Version: 3}); r.graph("g", "2", a2) },
			func(r *run) { both(r); r.Waits(Wait{Copy: 1, Graph: true, Version: 3}); r.graph("g", "2", a2) }},
		{"D16", "behind the version of the copy", func(r *run) { r.write(a2); r.atRest("2", []*Item{a2}, []*Item{a2}) },
			func(r *run) {
				r.write(a2)
				r.GraphReads(GraphRead{Copy: 1, Call: r.Tick(), Version: "2", Items: items([]*Item{a2}), Rest: true,
					Want: items([]*Item{a2}), WantVersion: "3"})
			}},
		{"D16", "not as the copy", func(r *run) { r.write(a2); r.atRest("2", []*Item{a2}, []*Item{a2}) },
			func(r *run) { both(r); r.atRest("2", []*Item{a2}, []*Item{a3}) }},
	})
}
