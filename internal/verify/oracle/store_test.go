package oracle

import (
	"testing"
	"time"
)

// The checks of a read.
func TestStoreChecks(t *testing.T) {
	a2, a3, b4 := item("a", 2), item("a", 3), item("b", 4)
	checks(t, []check{
		{"S1", "content", func(r *run) { r.write(a2); r.read("s", "2", a2) }, func(r *run) { r.write(a2); r.read("s", "2") }},
		{"S1", "an older object at a newer version",
			func(r *run) { r.write(a2, a3); r.read("s", "3", a3) }, func(r *run) { r.write(a2, a3); r.read("s", "3", a2) }},
		{"S1", "objects without a version", func(r *run) { r.read("s", "") }, func(r *run) { r.write(a2); r.read("s", "", a2) }},
		{"S1", "a new copy whose version was read before its first list, at a version that wrote nothing", func(r *run) {
			r.write(a2)
			r.Moves(func() uint64 { return 5 })
			r.read("s", "5", a2)
			r.Reads(Read{Session: "t", Copy: 2, Call: r.Tick(), What: "a loop", Lower: true, Items: items([]*Item{a2})})
		}, func(r *run) {
			r.write(a2, a3)
			r.read("s", "3", a3)
			r.Reads(Read{Session: "t", Copy: 2, Call: r.Tick(), What: "a loop", Lower: true, Items: items([]*Item{a2})})
		}},
		{"S1", "a copy that holds its version back does not see that the server went back", func(r *run) {
			r.spoil("c", 2)
			r.write(a3)
			r.rewind(2)
			r.write(item("b", 3))
			r.read("s", "1", item("b", 3))
			r.Tells(Tell{Copy: 1, Key: key("e"), Version: 4, Item: item("e", 4), Phantom: true})()
			r.read("t", "1", a3, item("e", 4))
		}, func(r *run) {
			r.spoil("c", 2)
			r.write(a3)
			r.rewind(2)
			r.write(item("b", 3))
			r.read("s", "1", item("d", 3))
		}},
		{"S1", "what is bad stays as it was", func(r *run) { r.write(a2); r.spoil("a", 3); r.read("s", "3", a2) },
			func(r *run) { r.write(a2, b4); r.spoil("a", 5); r.read("s", "5", a2) }},
		{"S1", "a version that is held back", func(r *run) { r.write(a2); r.spoil("a", 3); r.write(b4); r.read("s", "2", a2, b4) },
			func(r *run) { r.write(a2, a3, b4); r.read("s", "2", a2, b4) }},
		{"S2", "index", func(r *run) {
			r.write(a2)
			r.Reads(Read{Call: r.Tick(), Version: "2", Items: items([]*Item{a2})}.Index())
		},
			func(r *run) { r.write(a2); r.Reads(Read{Call: r.Tick(), Version: "2"}.Index()) }},
		{"S4", "a session goes back", func(r *run) { r.write(a2); r.read("s", "2", a2); r.read("s", "2", a2) },
			func(r *run) { r.write(a2, a3); r.read("s", "3", a3); r.read("s", "2", a2) }},
		{"S4", "to nothing", func(r *run) { r.read("s", ""); r.write(a2); r.read("s", "2", a2) },
			func(r *run) { r.write(a2); r.read("s", "2", a2); r.read("s", "") }},
		{"S5", "another session goes back", func(r *run) {
			r.write(a2, a3)
			end := r.overlapping("t", "2", a2)
			r.read("s", "3", a3)
			end()
		}, func(r *run) { r.write(a2, a3); r.read("s", "3", a3); r.read("t", "2", a2) }},
		{"S6", "mutation", func(r *run) { i := item("a", 2); r.write(i); r.read("s", "2", i) },
			func(r *run) { i := item("a", 2); r.write(i); r.read("s", "2", i); i.Ref.(*ref).now.Content = "changed" }},
		{"S7", "twice", func(r *run) { r.write(a2); r.read("s", "2", a2) }, func(r *run) { r.write(a2); r.read("s", "2", a2, a2) }},
		{"S9", "the future", func(r *run) { r.Moves(func() uint64 { return 9 }); r.read("s", "9") }, func(r *run) { r.read("s", "9") }},
		{"S9", "no version", func(r *run) { r.read("s", "1") }, func(r *run) { r.read("s", "x") }},
		{"S11", "a held snapshot", func(r *run) {
			r.write(a2, a3)
			r.Reads(Read{Held: true, Version: "2", Items: items([]*Item{a2})})
		},
			func(r *run) {
				r.write(a2, a3)
				r.Reads(Read{Held: true, Version: "2", Items: items([]*Item{a3})})
			}},
		{"S4", "a new epoch", func(r *run) { r.write(a2, a3); r.read("s", "3", a3); r.rewind(2); r.read("s", "2", a2) },
			func(r *run) {
				r.write(a2, a3)
				r.read("s", "3", a3)
				r.rewind(2)
				r.read("s", "2", a2)
				r.read("s", "3", a3)
			}},
		{"G6", "a new copy goes back", func(r *run) { r.write(a2); r.read("s", "2", a2); r.next("2", a2) }, func(r *run) {
			r.write(a2, a3)
			r.read("s", "3", a3)
			r.next("2", a2)
		}},
		{"S5", "a copy that has stopped shows its last state", func(r *run) {
			r.write(a2)
			r.read("s", "2", a2)
			r.write(a3)
			r.next("3", a3)
			r.read("late", "2", a2)
		}, func(r *run) {
			r.write(a2, a3)
			r.read("s", "3", a3)
			r.next("3", a3)
			r.read("late", "2", a2)
		}},
		{"Y1", "synced", func(r *run) { r.read("s", ""); r.Waits(Wait{Copy: 1, Sync: true, Call: r.Tick()}) },
			func(r *run) { r.Waits(Wait{Copy: 1, Sync: true, Call: r.Tick()}); r.read("s", "") }},
		{"W1", "a wait for a version", func(r *run) {
			r.write(a2)
			r.Waits(Wait{Copy: 1, Version: 2, Call: r.Tick()})
			r.read("s", "2", a2)
		}, func(r *run) {
			r.write(a2, a3)
			r.Waits(Wait{Copy: 1, Version: 3, Call: r.Tick()})
			r.read("s", "2", a2)
		}},
		{"W1", "a version that is not there", func(r *run) { r.Waits(Wait{Version: 2, Err: errBroken}) }, func(r *run) { r.Waits(Wait{Version: 2}) }},
		{"W2", "too long", func(r *run) { r.Waits(Wait{Took: time.Second, Limit: time.Second, Err: errBroken}) },
			func(r *run) { r.Waits(Wait{Took: time.Minute, Limit: time.Second, Err: errBroken}) }},
	})
}
