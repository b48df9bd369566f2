package oracle

import (
	"context"
	"errors"
	"testing"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
)

func gaveUp() error { return errors.New("a wait asks for a newer version") }

// The checks of a request or a transform.
func TestRequestChecks(t *testing.T) {
	a2, a3, b4 := item("a", 2), item("a", 3), item("b", 4)
	checks(t, []check{
		{"R1", "not from the list", func(r *run) { r.list("5"); r.watch("5", nil) },
			func(r *run) { r.list("5"); r.watch("6", nil) }},
		{"R1", "without a list", nil, func(r *run) { r.watch("5", nil) }},
		{"R1", "two at once", nil, func(r *run) { r.Requests(Request{Verb: List, Copy: 1}); r.list("5") }},
		{"R3", "not from the last event", func(r *run) { r.list("5"); r.watch("5", nil, "7"); r.watch("7", nil) },
			func(r *run) { r.list("5"); r.watch("5", nil, "7"); r.watch("5", nil) }},
		{"R3", "not from the last event before what was written at once, of which a part has come", func(r *run) {
			r.list("5")
			r.request(Request{Verb: Watch, Version: "5"}, nil, Event{Version: "7"}, Event{Version: "8", Open: true})
			r.request(Request{Verb: Watch, Version: "7"}, nil, Event{Version: "8", Open: true}, Event{Version: "8"})
			r.watch("8", nil)
		}, func(r *run) {
			r.list("5")
			r.request(Request{Verb: Watch, Version: "5"}, nil, Event{Version: "8", Open: true}, Event{Version: "8"})
			r.watch("5", nil)
		}},
		{"R1", "from what was written at once, of which a part has come", nil, func(r *run) {
			r.list("5")
			r.request(Request{Verb: Watch, Version: "5"}, nil, Event{Version: "8", Open: true})
			r.watch("8", nil)
		}},
		{"R5", "a list after a clean end", func(r *run) { r.list("5"); r.watch("5", nil, "6"); r.watch("6", nil) },
			func(r *run) { r.list("5"); r.watch("5", nil, "6"); r.list("6") }},
		{"R5", "a list after many failures, of which some are lists of bad objects alone", func(r *run) {
			r.spoil("a", 3)
			r.list("3")
			r.list("3")
			r.write(b4)
			r.list("4")
			r.watch("4", nil)
			r.watch("4", nil)
			r.list("4")
		}, func(r *run) { r.write(b4); r.list("4"); r.watch("4", nil); r.watch("4", nil); r.list("4") }},
		{"R5", "a list after many failures, of which some are older lists", func(r *run) {
			r.list("5")
			r.request(Request{Verb: Watch, Version: "5", Lost: true}, nil)
			r.list("3")
			r.list("5")
			r.watch("5", nil)
			r.request(Request{Verb: List, Limit: 1, Listed: "3"}, nil)
			r.list("5")
			r.watch("5", nil)
			r.list("5")
		}, func(r *run) {
			r.list("5")
			r.request(Request{Verb: Watch, Version: "5", Lost: true}, nil)
			r.list("5")
			r.watch("5", nil)
			r.list("5")
		}},
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
			r.write(a2, a3)
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
		{"R6", "the end of a list amid the events of one version is refused, and is no position", func(r *run) {
			r.request(Request{Verb: Stream}, nil, Event{Version: "6", Open: true}, Event{Version: "6", End: true, Refused: true})
			r.rewind(5)
			r.request(Request{Verb: Stream}, nil, Event{Version: "5", End: true})
			r.watch("5", nil)
		}, func(r *run) {
			r.request(Request{Verb: Stream}, nil, Event{Version: "6"}, Event{Version: "6", End: true})
			r.rewind(5)
			r.request(Request{Verb: Stream}, nil, Event{Version: "5", End: true})
			r.watch("5", nil)
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
		{"R8", "the pause that was asked for", func(r *run) {
			r.list("5")
			r.watch("5", apierrors.NewTooManyRequests("later", 60))
			r.Reports(Report{Copy: 1, Err: r.requests[1].Err})
			r.watch("5", nil)
		}, func(r *run) {
			r.list("5")
			r.watch("5", apierrors.NewTooManyRequests("later", 61))
			r.Reports(Report{Copy: 1, Err: r.requests[1].Err})
			r.watch("5", nil)
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
		{"R12", "a failure is reported twice, of what the copy has ended at the same moment", func(r *run) {
			r.list("5")
			r.request(Request{Verb: Watch, Version: "5", Cause: gaveUp}, errBroken)
			r.request(Request{Verb: Watch, Version: "5", Cause: gaveUp}, errBroken)
			r.Reports(Report{Copy: 1, Err: errBroken})
		}, func(r *run) {
			r.list("5")
			r.request(Request{Verb: Watch, Version: "5", Cause: gaveUp}, errBroken)
			r.Reports(Report{Copy: 1, Err: errBroken})
			r.Reports(Report{Copy: 1, Err: errBroken})
		}},
		{"R12", "an answer is not reported, of what the copy has ended at the same moment", nil, func(r *run) {
			r.list("5")
			r.request(Request{Verb: Watch, Version: "5", Lost: true, Cause: gaveUp}, apierrors.NewResourceExpired("too old"))
		}},
		{"R12", "a failure is not reported, of what had ended when the copy let go of it", nil, func(r *run) {
			r.list("5")
			r.request(Request{Verb: Watch, Version: "5", Cause: func() error { return context.Canceled }}, errBroken)
		}},
		{"R16", "a server with another history is watched from the old position", func(r *run) {
			r.list("5")
			r.request(Request{Verb: Witness, Version: "5"}, nil)
			r.list("9")
			r.watch("9", nil)
		}, func(r *run) {
			r.list("5")
			r.request(Request{Verb: Witness, Version: "5"}, nil)
			r.watch("5", nil)
		}},
		{"R13", "no sense", nil, func(r *run) { r.request(Request{Verb: List, Invalid: true}, nil) }},
		{"T1", "not transformed", func(r *run) { r.Gives(1); r.Turns(1) },
			func(r *run) { r.Gives(1); r.Gives(2); r.Turns(1) }},
		{"T1", "transformed twice", nil, func(r *run) { r.Gives(1); r.Turns(1); r.Turns(1) }},
		{"R14", "nothing says that it is bad", func(r *run) {
			r.spoil("a", 2)
			r.Quiets(Quiet{Copy: 1, Version: "1", Synced: true, SetAside: []Key{key("a")}})
		}, func(r *run) { r.spoil("a", 2); r.quiet("2") }},
	})
}
