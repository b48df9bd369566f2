package oracle

import (
	"errors"
	"fmt"
	"slices"
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/types"
)

// ref is an object in memory.
type ref struct{ now Item }

func key(name string) Key { return Key{Namespace: "ns", Name: name} }

// item is a version of an object; its UID is that of its name's first incarnation unless uid is
// given.
func item(name string, version uint64, uid ...string) *Item {
	i := Item{Key: key(name), UID: types.UID("uid-" + name), Version: version, Content: fmt.Sprint("v", version)}
	if len(uid) > 0 {
		i.UID = types.UID(uid[0])
	}
	r := &ref{}
	i.Ref = r
	r.now = i
	return &i
}

func now(r any) Item { return r.(*ref).now }

// run is a history by hand.
type run struct {
	*Log
	at time.Time
}

func (r *run) write(i *Item) {
	w := *i
	w.Ref = nil
	r.Writes(func() []Write { return []Write{{Version: i.Version, Key: i.Key, Item: &w}} })
}

func (r *run) spoil(name string, version uint64) {
	r.Writes(func() []Write { return []Write{{Version: version, Key: key(name), Bad: true}} })
}

func (r *run) remove(name string, version uint64) {
	r.Writes(func() []Write { return []Write{{Version: version, Key: key(name)}} })
}

func (r *run) rewind(version uint64) { r.Rewinds(func() uint64 { return version }) }

func items(all []*Item) (out []Item) {
	for _, i := range all {
		out = append(out, *i)
	}
	return out
}

func (r *run) read(session, version string, all ...*Item) {
	r.Reads(Read{Session: session, Copy: 1, Call: r.Tick(), What: "a read", Version: version, Items: items(all)})
}

// next reads a second copy, which began after the first.
func (r *run) next(version string, all ...*Item) {
	r.Reads(Read{Session: "n", Copy: 2, Call: r.Tick(), Version: version, Items: items(all)})
}

// overlapping returns a read that has begun.
func (r *run) overlapping(session, version string, all ...*Item) (end func()) {
	call := r.Tick()
	return func() {
		r.Reads(Read{Session: session, Copy: 1, Call: call, What: "a read", Version: version, Items: items(all)})
	}
}

func (r *run) handler(h Handler) *Handler {
	h.Name, h.Copy = fmt.Sprint("handler ", len(r.handlers)+1), 1
	out := r.Handlers(h)
	out.Registered()
	return out
}

func (r *run) tell(h *Handler, kind Kind, old, now *Item) {
	h.Calls(Call{Kind: kind, Old: old, New: now, At: r.at})()
}

func (r *run) request(q Request, err error, events ...Event) {
	q.Copy, q.At = 1, r.at
	r.at = r.at.Add(time.Minute)
	rec := r.Requests(q)
	for _, e := range events {
		rec.Yields(e)
	}
	rec.Ends(func(q *Request) { q.Err = err })
}

func (r *run) list(version string) { r.request(Request{Verb: List, Listed: version}, nil) }
func (r *run) watch(from string, err error, versions ...string) {
	var events []Event
	for _, v := range versions {
		events = append(events, Event{Version: v})
	}
	r.request(Request{Verb: Watch, Version: from}, err, events...)
}

func (r *run) quiet(version string, all ...*Item) {
	r.Quiets(Quiet{Copy: 1, Items: items(all), Version: version, Synced: true, Most: 10})
}

var errBroken = errors.New("broken")

// TestChecks has for each check a history that keeps the promise and one that breaks it.
func TestChecks(t *testing.T) {
	a2, a3, b4 := item("a", 2), item("a", 3), item("b", 4)
	again := item("a", 5, "uid-again")
	for _, c := range []struct {
		id        string
		name      string
		good, bad func(r *run)
	}{
		{"S1", "content", func(r *run) { r.write(a2); r.read("s", "2", a2) }, func(r *run) { r.write(a2); r.read("s", "2") }},
		{"S1", "an older object at a newer version",
			func(r *run) { r.write(a2); r.write(a3); r.read("s", "3", a3) }, func(r *run) { r.write(a2); r.write(a3); r.read("s", "3", a2) }},
		{"S1", "objects without a version", func(r *run) { r.read("s", "") }, func(r *run) { r.write(a2); r.read("s", "", a2) }},
		{"S1", "a new copy whose version was read before its first list, at a version that wrote nothing", func(r *run) {
			r.write(a2)
			r.Moves(func() uint64 { return 5 })
			r.read("s", "5", a2)
			r.Reads(Read{Session: "t", Copy: 2, Call: r.Tick(), What: "a loop", Lower: true, Items: items([]*Item{a2})})
		}, func(r *run) {
			r.write(a2)
			r.write(a3)
			r.read("s", "3", a3)
			r.Reads(Read{Session: "t", Copy: 2, Call: r.Tick(), What: "a loop", Lower: true, Items: items([]*Item{a2})})
		}},
		{"S1", "a copy that holds its version back does not see that the server went back", func(r *run) {
			r.spoil("c", 2)
			r.write(a3)
			r.rewind(2)
			r.write(item("b", 3))
			r.read("s", "1", item("b", 3))
		}, func(r *run) {
			r.spoil("c", 2)
			r.write(a3)
			r.rewind(2)
			r.write(item("b", 3))
			r.read("s", "1", item("d", 3))
		}},
		{"S1", "what is bad stays as it was", func(r *run) { r.write(a2); r.spoil("a", 3); r.read("s", "3", a2) },
			func(r *run) { r.write(a2); r.write(b4); r.spoil("a", 5); r.read("s", "5", a2) }},
		{"S1", "a version that is held back", func(r *run) { r.write(a2); r.spoil("a", 3); r.write(b4); r.read("s", "2", a2, b4) },
			func(r *run) { r.write(a2); r.write(a3); r.write(b4); r.read("s", "2", a2, b4) }},
		{"S2", "index", func(r *run) {
			r.write(a2)
			r.Reads(Read{Call: r.Tick(), Version: "2", Items: items([]*Item{a2})}.Index())
		},
			func(r *run) { r.write(a2); r.Reads(Read{Call: r.Tick(), Version: "2"}.Index()) }},
		{"S4", "a session goes back", func(r *run) { r.write(a2); r.read("s", "2", a2); r.read("s", "2", a2) },
			func(r *run) { r.write(a2); r.write(a3); r.read("s", "3", a3); r.read("s", "2", a2) }},
		{"S4", "to nothing", func(r *run) { r.read("s", ""); r.write(a2); r.read("s", "2", a2) },
			func(r *run) { r.write(a2); r.read("s", "2", a2); r.read("s", "") }},
		{"S5", "another session goes back", func(r *run) {
			r.write(a2)
			r.write(a3)
			end := r.overlapping("t", "2", a2)
			r.read("s", "3", a3)
			end()
		}, func(r *run) { r.write(a2); r.write(a3); r.read("s", "3", a3); r.read("t", "2", a2) }},
		{"S6", "mutation", func(r *run) { i := item("a", 2); r.write(i); r.read("s", "2", i) },
			func(r *run) { i := item("a", 2); r.write(i); r.read("s", "2", i); i.Ref.(*ref).now.Content = "changed" }},
		{"S7", "twice", func(r *run) { r.write(a2); r.read("s", "2", a2) }, func(r *run) { r.write(a2); r.read("s", "2", a2, a2) }},
		{"S9", "the future", func(r *run) { r.Moves(func() uint64 { return 9 }); r.read("s", "9") }, func(r *run) { r.read("s", "9") }},
		{"S9", "no version", func(r *run) { r.read("s", "1") }, func(r *run) { r.read("s", "x") }},
		{"S11", "a held snapshot", func(r *run) {
			r.write(a2)
			r.write(a3)
			r.Reads(Read{Held: true, Version: "2", Items: items([]*Item{a2})})
		},
			func(r *run) {
				r.write(a2)
				r.write(a3)
				r.Reads(Read{Held: true, Version: "2", Items: items([]*Item{a3})})
			}},
		{"S4", "a new epoch", func(r *run) { r.write(a2); r.write(a3); r.read("s", "3", a3); r.rewind(2); r.read("s", "2", a2) },
			func(r *run) {
				r.write(a2)
				r.write(a3)
				r.read("s", "3", a3)
				r.rewind(2)
				r.read("s", "2", a2)
				r.read("s", "3", a3)
			}},
		{"G6", "a new copy goes back", func(r *run) { r.write(a2); r.read("s", "2", a2); r.next("2", a2) }, func(r *run) {
			r.write(a2)
			r.write(a3)
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
			r.write(a2)
			r.write(a3)
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
			r.write(a2)
			r.write(a3)
			r.Waits(Wait{Copy: 1, Version: 3, Call: r.Tick()})
			r.read("s", "2", a2)
		}},
		{"W1", "a version that is not there", func(r *run) { r.Waits(Wait{Version: 2, Err: errBroken}) }, func(r *run) { r.Waits(Wait{Version: 2}) }},
		{"W2", "too long", func(r *run) { r.Waits(Wait{Took: time.Second, Limit: time.Second, Err: errBroken}) },
			func(r *run) { r.Waits(Wait{Took: time.Minute, Limit: time.Second, Err: errBroken}) }},

		{"H1", "two adds", func(r *run) { r.write(a2); r.tell(r.handler(Handler{}), Add, nil, a2) },
			func(r *run) { r.write(a2); h := r.handler(Handler{}); r.tell(h, Add, nil, a2); r.tell(h, Add, nil, a2) }},
		{"H1", "update before add", func(r *run) {
			r.write(a2)
			r.write(a3)
			h := r.handler(Handler{})
			r.tell(h, Add, nil, a2)
			r.tell(h, Update, a2, a3)
		}, func(r *run) { r.write(a2); r.write(a3); r.tell(r.handler(Handler{}), Update, a2, a3) }},
		{"H1", "two at once", nil, func(r *run) {
			r.write(a2)
			r.write(b4)
			h := r.handler(Handler{})
			end := h.Calls(Call{Kind: Add, New: a2})
			r.tell(h, Add, nil, b4)
			end()
		}},
		{"H1", "no object", nil, func(r *run) { r.tell(r.handler(Handler{}), Add, nil, nil) }},
		{"H2", "versions fall", nil, func(r *run) {
			r.write(a2)
			r.write(a3)
			h := r.handler(Handler{})
			r.tell(h, Add, nil, a3)
			r.tell(h, Update, a3, a2)
		}},
		{"H3", "two UIDs", func(r *run) {
			r.write(a2)
			r.remove("a", 3)
			r.write(again)
			h := r.handler(Handler{})
			r.tell(h, Add, nil, a2)
			r.tell(h, Delete, a2, nil)
			r.tell(h, Add, nil, again)
		}, func(r *run) {
			r.write(a2)
			r.remove("a", 3)
			r.write(again)
			h := r.handler(Handler{})
			r.tell(h, Add, nil, a2)
			r.tell(h, Update, a2, again)
		}},
		{"H4", "another old", nil, func(r *run) {
			r.write(a2)
			r.write(a3)
			h := r.handler(Handler{})
			r.tell(h, Add, nil, a2)
			r.tell(h, Update, item("a", 2), a3)
		}},
		{"H5", "another last", nil, func(r *run) {
			r.write(a2)
			h := r.handler(Handler{})
			r.tell(h, Add, nil, a2)
			r.tell(h, Delete, item("a", 2), nil)
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
			r.write(a2)
			r.write(item("b", 3))
			end := r.handler(Handler{}).Calls(Call{Kind: Add, New: a2, Read: true, Grouped: true})
			r.rewind(2)
			end()
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
				r.write(a2)
				r.write(b4)
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
			h := r.handler(Handler{Resync: time.Second})
			r.tell(h, Add, nil, a2)
			r.tell(h, Update, a2, a2)
		}, func(r *run) {
			r.write(a2)
			h := r.handler(Handler{})
			r.tell(h, Add, nil, a2)
			r.tell(h, Update, a2, a2)
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
			func(r *run) { r.write(a2); r.write(b4); h := r.handler(Handler{}); r.tell(h, Add, nil, b4); h.Syncs() }},
		{"A1", "begins with an older state", nil, func(r *run) {
			r.write(a2)
			r.write(b4)
			h := r.handler(Handler{Before: "4"})
			r.tell(h, Add, nil, a2)
			h.Syncs()
		}},
		{"A2", "misses a change", func(r *run) { late(r, true) }, func(r *run) { late(r, false) }},
		{"Y2", "synced before it was", func(r *run) { h := r.handler(Handler{}); h.Syncs(); r.Waits(Wait{Handler: h}) },
			func(r *run) { h := r.handler(Handler{}); r.Waits(Wait{Handler: h}) }},
		{"Y4", "synced twice", func(r *run) { r.handler(Handler{}).Syncs() }, func(r *run) { h := r.handler(Handler{}); h.Syncs(); h.Syncs() }},
		{"G4", "after the end", func(r *run) { r.write(a2); r.tell(r.handler(Handler{}), Add, nil, a2); r.Stops(Stop{Copy: 1}) },
			func(r *run) { r.write(a2); h := r.handler(Handler{}); r.Stops(Stop{Copy: 1}); r.tell(h, Add, nil, a2) }},

		{"R1", "not from the list", func(r *run) { r.list("5"); r.watch("5", nil) }, func(r *run) { r.list("5"); r.watch("6", nil) }},
		{"R1", "without a list", nil, func(r *run) { r.watch("5", nil) }},
		{"R1", "two at once", nil, func(r *run) { r.Requests(Request{Verb: List, Copy: 1}); r.list("5") }},
		{"R3", "not from the last event", func(r *run) { r.list("5"); r.watch("5", nil, "7"); r.watch("7", nil) },
			func(r *run) { r.list("5"); r.watch("5", nil, "7"); r.watch("5", nil) }},
		{"R5", "a list after a clean end", func(r *run) { r.list("5"); r.watch("5", nil, "6"); r.watch("6", nil) },
			func(r *run) { r.list("5"); r.watch("5", nil, "6"); r.list("6") }},
		{"R5", "a watch after 410", nil, func(r *run) {
			r.list("5")
			r.request(Request{Verb: Watch, Version: "5", Lost: true}, nil)
			r.watch("5", nil)
		}},
		{"R6", "a list of bad objects alone is refused, and is no position", func(r *run) {
			r.write(a2)
			r.spoil("a", 3)
			r.list("3")
			r.rewind(2)
			r.list("2")
			r.watch("2", nil)
		}, func(r *run) {
			r.write(a2)
			r.write(a3)
			r.list("3")
			r.rewind(2)
			r.list("2")
			r.watch("2", nil)
		}},
		{"R6", "an older list has the version of bad objects alone in the epoch before", func(r *run) {
			r.spoil("b", 3)
			r.write(b4)
			r.list("4")
			r.rewind(2)
			r.write(a3)
			for range 4 {
				r.list("3")
			}
			r.watch("3", nil)
		}, func(r *run) {
			r.spoil("b", 3)
			r.write(b4)
			r.list("4")
			r.rewind(2)
			r.write(a3)
			r.list("3")
			r.watch("3", nil)
		}},
		{"R6", "an older list is believed", func(r *run) {
			r.list("5")
			for range 4 {
				r.list("3")
			}
			r.watch("3", nil)
		}, func(r *run) { r.list("5"); r.list("3"); r.watch("3", nil) }},
		{"R8", "too many", nil, func(r *run) {
			for range 11 {
				r.Requests(Request{Verb: List, At: r.at}).Ends(func(*Request) {})
			}
		}},
		{"R12", "a failure is not reported", func(r *run) {
			r.list("5")
			r.watch("5", errBroken)
			r.Reports(Report{Copy: 1, Err: errBroken})
			r.watch("5", nil)
		},
			func(r *run) { r.list("5"); r.watch("5", errBroken); r.watch("5", nil) }},
		{"R12", "a failure is reported twice", nil, func(r *run) {
			r.list("5")
			r.watch("5", errBroken)
			r.Reports(Report{Copy: 1, Err: errBroken})
			r.Reports(Report{Copy: 1, Err: errBroken})
		}},
		{"R13", "no sense", nil, func(r *run) { r.request(Request{Verb: List, Invalid: true}, nil) }},
		{"T1", "not transformed", func(r *run) { r.Gives(1); r.Turns(1) }, func(r *run) { r.Gives(1); r.Gives(2); r.Turns(1) }},
		{"T1", "transformed twice", nil, func(r *run) { r.Gives(1); r.Turns(1); r.Turns(1) }},

		{"L1", "behind", func(r *run) { r.write(a2); r.quiet("2", a2) }, func(r *run) { r.write(a2); r.quiet("1") }},
		{"L1", "an old version", func(r *run) { r.write(a2); r.quiet("2", a2) }, func(r *run) { r.write(a2); r.write(b4); r.remove("b", 5); r.quiet("4", a2) }},
		{"L2", "not synced", nil, func(r *run) { r.Quiets(Quiet{Copy: 1, Version: "1"}) }},
		{"L4", "a handler is not synced", nil, func(r *run) { r.handler(Handler{}); r.quiet("1") }},
		{"L5", "something waits", nil, func(r *run) { r.Quiets(Quiet{Copy: 1, Version: "1", Synced: true, Pending: 1}) }},
		{"L5", "something waits at rest", func(r *run) { r.Rests(0) }, func(r *run) { r.Rests(1) }},
		{"L6", "too many requests", nil, func(r *run) { r.Quiets(Quiet{Copy: 1, Version: "1", Synced: true, Requests: 9, Most: 8}) }},
		{"R14", "nothing says that it is bad", func(r *run) {
			r.spoil("a", 2)
			r.Quiets(Quiet{Copy: 1, Version: "1", Synced: true, SetAside: []Key{key("a")}})
		}, func(r *run) { r.spoil("a", 2); r.quiet("2") }},
		{"G1", "a slow end", func(r *run) { r.Stops(Stop{Took: time.Second}) }, func(r *run) { r.Stops(Stop{Took: time.Minute}) }},
	} {
		t.Run(c.id+" "+c.name, func(t *testing.T) {
			if c.good != nil {
				r := &run{Log: New()}
				c.good(r)
				if got := r.Check(now).Violations; len(got) > 0 {
					t.Errorf("the good history: %v", got)
				}
			}
			r := &run{Log: New()}
			c.bad(r)
			result := r.Check(now)
			if !slices.ContainsFunc(result.Violations, func(v Violation) bool { return v.ID == c.id }) {
				t.Errorf("the bad history: %v, want %s", result.Violations, c.id)
			}
		})
	}
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
