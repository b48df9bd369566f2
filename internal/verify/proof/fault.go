package proof

import (
	"errors"
	"io"
	"net"
	"syscall"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/watch"

	"github.com/go-lw/lw"
	"github.com/go-lw/lw/internal/apiserver"
)

// A proofFault is one that a server or a network may have. Ids are those of the catalogue in
// README.md. A fault that only a broken server has is refused and reported by an informer, or
// changes nothing. Those that no client can find out at once are not here, but in lwtest's tests.
type proofFault struct {
	id   string
	name string
	// inject arms the fault, for so many requests where that makes sense. Nil: the server has no
	// such fault.
	web    func(w *world, s *apiserver.Server, n int)
	direct func(w *world, d *direct, n int)
}

var partsResource = schema.GroupResource{Group: "lw.test", Resource: "parts"}

func errTooLarge() error {
	err := apierrors.NewTimeoutError("Too large resource version: 9, current: 1", 1)
	err.ErrStatus.Details.Causes = []metav1.StatusCause{{Type: metav1.CauseTypeResourceVersionTooLarge}}
	return err
}

func errRefused() error { return &net.OpError{Op: "dial", Net: "tcp", Err: syscall.ECONNREFUSED} }

// refusal is a fault that answers requests of a kind with an error.
func refusal(id, name string, verb apiserver.Verb, err func() error) proofFault {
	return proofFault{
		id: id, name: name,
		web: func(_ *world, s *apiserver.Server, n int) {
			s.Inject(apiserver.Fault{Verb: verb, Times: n, Do: apiserver.Fail(err())})
		},
		direct: func(_ *world, d *direct, n int) {
			d.inject(directFault{list: verb == apiserver.List, watch: verb == apiserver.Watch, stream: verb == apiserver.Stream, times: n, err: err()})
		},
	}
}

// inStream is a fault that sends an ERROR event in what is open, and what is opened next.
func inStream(id, name string, err func() error) proofFault {
	return proofFault{
		id: id, name: name,
		web: func(_ *world, s *apiserver.Server, n int) {
			if s.Interrupt(nil, apiserver.Error(err())) == 0 || n > 1 {
				s.Inject(apiserver.Fault{Verb: apiserver.Watch, Do: apiserver.At(apiserver.Start, apiserver.Error(err()))})
			}
		},
		direct: func(_ *world, d *direct, n int) {
			d.poke(directPoke{err: err()})
			if n > 1 {
				d.inject(directFault{watch: true, err: err()})
			}
		},
	}
}

// onEvent is a fault of the next event of a watch that is opened from now on.
func onEvent(id, name string, do apiserver.UnitEffect, mangle func(lw.WatchEvent[*Part]) []lw.WatchEvent[*Part]) proofFault {
	return proofFault{
		id: id, name: name,
		web: func(_ *world, s *apiserver.Server, n int) {
			s.Line.Disconnect()
			s.Inject(apiserver.Fault{Verb: apiserver.Watch, Do: apiserver.At(n-1, do)})
		},
		direct: func(_ *world, d *direct, n int) {
			d.lines.Disconnect()
			d.inject(directFault{watch: true, mangle: func(i int, ev lw.WatchEvent[*Part], yield func(lw.WatchEvent[*Part]) error) error {
				if i != n-1 || ev.Type == watch.Bookmark {
					return yield(ev)
				}
				for _, ev := range mangle(ev) {
					if err := yield(ev); err != nil {
						return err
					}
				}
				return nil
			}})
		},
	}
}

// onOpen is a fault of what is open.
func onOpen(id, name string, do apiserver.UnitEffect, p directPoke) proofFault {
	return proofFault{
		id: id, name: name,
		web:    func(_ *world, s *apiserver.Server, _ int) { s.Interrupt(nil, do) },
		direct: func(_ *world, d *direct, _ int) { d.poke(p) },
	}
}

// onItem is a fault of a list's answer.
func onItem(id, name string, do apiserver.Effect, mangle func(n int, ev lw.WatchEvent[*Part], yield func(lw.WatchEvent[*Part]) error) error) proofFault {
	f := proofFault{id: id, name: name}
	if do != nil {
		f.web = func(_ *world, s *apiserver.Server, n int) {
			s.Inject(apiserver.Fault{Verb: apiserver.List, Match: noProbe, Times: n, Do: do})
		}
	}
	if mangle != nil {
		f.direct = func(_ *world, d *direct, n int) { d.inject(directFault{list: true, times: n, mangle: mangle}) }
	}
	return f
}

func noProbe(r apiserver.Request) bool { return r.Options.Limit != 1 }

// onStream is a fault of a streamed list's answer.
func onStream(id, name string, do apiserver.Effect, mangle func() func(int, lw.WatchEvent[*Part], func(lw.WatchEvent[*Part]) error) error) proofFault {
	return proofFault{
		id: id, name: name,
		web: func(_ *world, s *apiserver.Server, n int) {
			s.Inject(apiserver.Fault{Verb: apiserver.Stream, Times: n, Do: do})
		},
		direct: func(_ *world, d *direct, n int) {
			for range n {
				d.inject(directFault{stream: true, mangle: mangle()})
			}
		},
	}
}

type giveEvent = func(lw.WatchEvent[*Part]) error

// breakAt ends an answer at an event or item with err.
func breakAt(at int, err error) func(int, lw.WatchEvent[*Part], giveEvent) error {
	return func(n int, ev lw.WatchEvent[*Part], yield giveEvent) error {
		if n == at {
			return err
		}
		return yield(ev)
	}
}

func with(change func(*lw.WatchEvent[*Part])) func(lw.WatchEvent[*Part]) []lw.WatchEvent[*Part] {
	return func(ev lw.WatchEvent[*Part]) []lw.WatchEvent[*Part] { change(&ev); return []lw.WatchEvent[*Part]{ev} }
}

func copied(ev lw.WatchEvent[*Part]) lw.WatchEvent[*Part] {
	if ev.Object != nil {
		p := *ev.Object
		ev.Object = &p
	}
	return ev
}

var proofFaults = []proofFault{
	refusal("F01", "list 500", apiserver.List, func() error { return apierrors.NewInternalError(errors.New("oops")) }),
	refusal("F01", "list 503", apiserver.List, func() error { return apierrors.NewServiceUnavailable("down") }),
	refusal("F01", "stream 500", apiserver.Stream, func() error { return apierrors.NewInternalError(errors.New("oops")) }),
	refusal("F02", "list 429", apiserver.List, func() error { return apierrors.NewTooManyRequests("later", 2) }),
	refusal("F02", "stream 429", apiserver.Stream, func() error { return apierrors.NewTooManyRequests("later", 2) }),
	refusal("F03", "list 403", apiserver.List, func() error { return apierrors.NewForbidden(partsResource, "", errors.New("no")) }),
	refusal("F03", "watch 401", apiserver.Watch, func() error { return apierrors.NewUnauthorized("who?") }),
	refusal("F04", "list 404", apiserver.List, func() error { return apierrors.NewNotFound(partsResource, "") }),
	refusal("F05", "list 410", apiserver.List, func() error { return apierrors.NewResourceExpired("too old") }),
	refusal("F06", "list 504", apiserver.List, errTooLarge),
	{"F07", "list reset", func(_ *world, s *apiserver.Server, n int) {
		s.Inject(apiserver.Fault{Verb: apiserver.List, Times: n, Do: apiserver.Reset})
	}, func(_ *world, d *direct, n int) {
		d.inject(directFault{list: true, times: n, err: &net.OpError{Op: "read", Net: "tcp", Err: syscall.ECONNRESET}})
	}},
	{"F07", "refused", func(w *world, s *apiserver.Server, n int) {
		s.SetDown(true)
		time.Sleep(time.Duration(n) * 5 * time.Second)
		s.SetDown(false)
	}, func(_ *world, d *direct, n int) {
		d.poke(directPoke{err: syscall.ECONNRESET})
		d.inject(directFault{list: true, watch: true, stream: true, times: n, err: errRefused()})
	}},
	{"F08", "list hangs", func(_ *world, s *apiserver.Server, _ int) {
		s.Inject(apiserver.Fault{Verb: apiserver.List, Do: apiserver.Hang})
	}, func(_ *world, d *direct, _ int) { d.inject(directFault{list: true, hang: true}) }},
	onItem("F09", "list broken", apiserver.At(1, apiserver.Break), breakAt(1, io.ErrUnexpectedEOF)),
	onItem("F09", "list cut", apiserver.At(1, apiserver.Cut), nil),
	onItem("F09", "list malformed", apiserver.Reply(200, "application/json", `{"items":[{"metadata":`), nil),
	onItem("F09", "an HTML page", apiserver.Reply(200, "text/html", "<html>login</html>"), nil),
	{"F11", "a page expires", func(w *world, s *apiserver.Server, n int) {
		s.Inject(apiserver.Fault{
			Verb: apiserver.List, Times: n, Match: func(r apiserver.Request) bool { return r.Options.Continue != "" },
			Do: apiserver.Rewrite(func(*apiserver.Request) { w.age() }),
		})
	}, func(w *world, d *direct, n int) {
		d.inject(directFault{list: true, page: true, times: n, before: w.age})
	}},
	{"F12", "limit ignored", func(_ *world, s *apiserver.Server, n int) {
		s.Inject(apiserver.Fault{
			Verb: apiserver.List, Times: n, Match: noProbe, Do: apiserver.Rewrite(func(r *apiserver.Request) { r.Options.Limit = 0 }),
		})
	}, nil},
	onItem("F13", "duplicate key", apiserver.At(0, apiserver.Replay(0)), func(n int, ev lw.WatchEvent[*Part], yield giveEvent) error {
		if n == 0 && ev.Object != nil {
			if err := yield(copied(ev)); err != nil {
				return err
			}
		}
		return yield(ev)
	}),
	{"F16", "list of a replica that lags", func(w *world, s *apiserver.Server, _ int) {
		if w.maySeeOlder() {
			s.Inject(apiserver.Fault{Verb: apiserver.List, Do: apiserver.All(apiserver.AnyVersion, apiserver.Lag(3))})
		}
	}, func(w *world, d *direct, _ int) {
		if w.maySeeOlder() {
			d.inject(directFault{list: true, lag: 3})
		}
	}},
	{"F16", "stream of a replica that lags", func(w *world, s *apiserver.Server, _ int) {
		if w.maySeeOlder() {
			s.Inject(apiserver.Fault{Verb: apiserver.Stream, Do: apiserver.All(apiserver.AnyVersion, apiserver.Lag(3))})
		}
	}, nil},
	refusal("F18", "watch 500", apiserver.Watch, func() error { return apierrors.NewInternalError(errors.New("oops")) }),
	refusal("F18", "watch 429", apiserver.Watch, func() error { return apierrors.NewTooManyRequests("later", 1) }),
	{"F18", "watch reset", func(_ *world, s *apiserver.Server, n int) {
		s.Line.Disconnect()
		s.Inject(apiserver.Fault{Verb: apiserver.Watch, Times: n, Do: apiserver.Reset})
	}, func(_ *world, d *direct, n int) {
		d.lines.Disconnect()
		d.inject(directFault{watch: true, times: n, err: syscall.ECONNRESET})
	}},
	refusal("F19", "watch 410", apiserver.Watch, func() error { return apierrors.NewResourceExpired("too old") }),
	inStream("F20", "ERROR 410", func() error { return apierrors.NewResourceExpired("too old") }),
	inStream("F21", "ERROR 500", func() error { return apierrors.NewInternalError(errors.New("oops")) }),
	inStream("F21", "ERROR 429", func() error { return apierrors.NewTooManyRequests("later", 1) }),
	inStream("F21", "ERROR 504", errTooLarge),
	inStream("F21", "ERROR 403", func() error { return apierrors.NewForbidden(partsResource, "", errors.New("no")) }),
	onOpen("F22", "clean close", apiserver.Cut, directPoke{err: io.EOF}),
	{"F23", "watches closed at once", func(_ *world, s *apiserver.Server, n int) {
		s.Line.Disconnect()
		s.Inject(apiserver.Fault{Verb: apiserver.Watch, Times: 3 * n, Do: apiserver.At(apiserver.Start, apiserver.Cut)})
	}, func(_ *world, d *direct, n int) {
		d.lines.Disconnect()
		d.inject(directFault{watch: true, times: 3 * n, err: io.EOF})
	}},
	onOpen("F24", "reset between frames", apiserver.Break, directPoke{err: io.ErrUnexpectedEOF}),
	onEvent("F24", "reset within a frame", apiserver.Break, func(lw.WatchEvent[*Part]) []lw.WatchEvent[*Part] { return nil }).webOnly(),
	onOpen("F25", "half-open", apiserver.Stall, directPoke{stall: true}),
	{"F25", "half-open from the start", func(_ *world, s *apiserver.Server, _ int) {
		s.Line.Disconnect()
		s.Inject(apiserver.Fault{Verb: apiserver.Watch, Do: apiserver.At(apiserver.Start, apiserver.Stall)})
	}, func(_ *world, d *direct, _ int) {
		d.lines.Disconnect()
		d.inject(directFault{watch: true, hang: true})
	}},
	{"F26", "slow reader", nil, func(_ *world, d *direct, n int) {
		d.lines.Disconnect()
		d.inject(directFault{watch: true, slow: time.Duration(n) * time.Second})
	}},
	{"F27", "rolling restart", func(_ *world, s *apiserver.Server, n int) {
		s.Line.Disconnect()
		s.SetDown(true)
		time.Sleep(5 * time.Second)
		s.SetDown(false)
	}, func(_ *world, d *direct, n int) {
		d.lines.Disconnect()
		d.inject(directFault{list: true, watch: true, stream: true, times: 2 * n, err: errRefused()})
	}},
	{"F28", "watch cache begins anew", func(_ *world, s *apiserver.Server, n int) {
		s.Inject(apiserver.Fault{Times: 2 * n, Do: apiserver.Fail(apierrors.NewTooManyRequests("storage is (re)initializing", 1))})
		s.Line.Disconnect()
	}, func(_ *world, d *direct, n int) {
		d.inject(directFault{list: true, watch: true, stream: true, times: 2 * n, err: apierrors.NewTooManyRequests("storage is (re)initializing", 1)})
		d.lines.Disconnect()
	}},
	onOpen("F36", "old bookmark", apiserver.Insert(apiserver.Unit{Type: watch.Bookmark, Version: 1}),
		directPoke{event: &lw.WatchEvent[*Part]{Type: watch.Bookmark, ResourceVersion: "1"}}),
	onEvent("F37", "event twice", apiserver.Replay(0), func(ev lw.WatchEvent[*Part]) []lw.WatchEvent[*Part] {
		return []lw.WatchEvent[*Part]{ev, copied(ev)}
	}),
	onOpen("F38", "event of before", apiserver.Replay(1), directPoke{event: &lw.WatchEvent[*Part]{
		Type: watch.Modified, ResourceVersion: "1", Object: oldPart("1"),
	}}),
	onEvent("F40", "unknown type", apiserver.Type("WEIRD"), with(func(ev *lw.WatchEvent[*Part]) { ev.Type = "WEIRD" })),
	onEvent("F41", "wrong metadata", apiserver.Set("metadata", "[]"), with(func(ev *lw.WatchEvent[*Part]) {
		ev.Object, ev.Err = nil, &lw.Error{Op: "decode", Err: errors.New("a Table")}
	})),
	onEvent("F42", "null", apiserver.Set("", "null"), with(func(ev *lw.WatchEvent[*Part]) { ev.Object = nil })),
	onEvent("F42", "no name", apiserver.Set("metadata.name", `""`), with(func(ev *lw.WatchEvent[*Part]) {
		*ev = copied(*ev)
		ev.Object.Name = ""
	})),
	onEvent("F42", "no version", apiserver.Type("WEIRD"), with(func(ev *lw.WatchEvent[*Part]) { ev.ResourceVersion = "" })).directOnly(),
	onEvent("F44", "malformed frame", apiserver.Frame("{]\n"), nil).webOnly(),
	onStream("F45", "no end of the initial events", apiserver.On(apiserver.IsEnd, apiserver.Drop), func() func(int, lw.WatchEvent[*Part], func(lw.WatchEvent[*Part]) error) error {
		return func(_ int, ev lw.WatchEvent[*Part], yield func(lw.WatchEvent[*Part]) error) error {
			if ev.InitialEventsEnd {
				return nil
			}
			return yield(ev)
		}
	}),
	onStream("F46", "late end of the initial events", apiserver.On(apiserver.IsEnd, apiserver.Hold(2)), lateEnd),
	onStream("F09", "stream broken", apiserver.At(1, apiserver.Break), func() func(int, lw.WatchEvent[*Part], func(lw.WatchEvent[*Part]) error) error {
		return breakAt(1, io.ErrUnexpectedEOF)
	}),
	onStream("F22", "stream cut", apiserver.At(1, apiserver.Cut), func() func(int, lw.WatchEvent[*Part], func(lw.WatchEvent[*Part]) error) error {
		return breakAt(1, io.EOF)
	}),
	onStream("F25", "stream half-open", apiserver.At(1, apiserver.Stall), func() func(int, lw.WatchEvent[*Part], func(lw.WatchEvent[*Part]) error) error {
		return breakAt(1, errStall)
	}),
	refusal("F47", "stream 422", apiserver.Stream, func() error {
		return apierrors.NewInvalid(schema.GroupKind{Kind: "ListOptions"}, "", nil)
	}),
	{"F47", "stream ignored", func(_ *world, s *apiserver.Server, n int) {
		s.Inject(apiserver.Fault{Verb: apiserver.Stream, Times: n, Do: apiserver.IgnoreStream})
	}, nil},
}

func (f proofFault) webOnly() proofFault    { f.direct = nil; return f }
func (f proofFault) directOnly() proofFault { f.web = nil; return f }

func oldPart(rv string) *Part {
	p := newPart("a", "x", 0)
	p.UID, p.ResourceVersion = "uid-of-before", rv
	return p
}

// lateEnd holds the end of the initial events back until two more events have come, and gives it
// their version.
func lateEnd() func(int, lw.WatchEvent[*Part], func(lw.WatchEvent[*Part]) error) error {
	var held *lw.WatchEvent[*Part]
	left := 2
	return func(_ int, ev lw.WatchEvent[*Part], yield func(lw.WatchEvent[*Part]) error) error {
		if ev.InitialEventsEnd {
			held = &ev
			return nil
		}
		if err := yield(ev); err != nil || held == nil {
			return err
		}
		if left--; left > 0 {
			return nil
		}
		end := *held
		end.ResourceVersion = ev.ResourceVersion
		held = nil
		return yield(end)
	}
}
