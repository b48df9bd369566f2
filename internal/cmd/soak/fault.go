package main

import (
	"encoding/json"
	"errors"
	"fmt"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/go-lw/lw/internal/apiserver"
)

// faults are the failures that a world injects. A client can detect each of them, so it must never
// show anything wrong, and must catch up when the faults are over.
//
// Two faults are not among them. A client cannot detect that a server leaves out an event. And an
// object that cannot be decoded stays set aside until it has a newer version.
var faults = []struct {
	name string
	do   func(w *world)
}{
	{"list refused", func(w *world) { w.inject(apiserver.List, apiserver.Fail(w.refusal())) }},
	{"watch refused", func(w *world) { w.inject(apiserver.Watch, apiserver.Fail(w.refusal())) }},
	{"stream refused", func(w *world) { w.inject(apiserver.Stream, apiserver.Fail(w.refusal())) }},
	{"stream ignored", func(w *world) { w.inject(apiserver.Stream, apiserver.IgnoreStream) }},
	{"html page", func(w *world) {
		w.inject("", apiserver.Reply(502, "text/html", "<html><title>502 Bad Gateway</title></html>"))
	}},
	{"reset", func(w *world) { w.inject("", apiserver.Reset) }},
	{"delay", func(w *world) { w.inject("", apiserver.Delay(upTo(w.rnd, w.pauses))) }},
	{"lagging replica", func(w *world) { w.inject("", apiserver.Lag(1+w.rnd.Uint64N(20))) }},
	{"replica without order", func(w *world) {
		// Only for lists that ask for a version. A watch that begins elsewhere than it was asked to
		// cannot always be detected. And a server whose newest state is older has gone back in
		// time, which is another fault.
		verb := []apiserver.Verb{apiserver.List, apiserver.Stream}[w.rnd.IntN(2)]
		w.server.Inject(apiserver.Fault{
			Verb: verb, Times: 1 + w.rnd.IntN(3),
			Match: func(r apiserver.Request) bool { return r.Options.ResourceVersion != "" },
			Do:    apiserver.All(apiserver.Lag(1+w.rnd.Uint64N(20)), apiserver.AnyVersion),
		})
	}},
	{"cut", func(w *world) { w.interrupt(apiserver.Cut) }},
	{"cut at a unit", func(w *world) { w.at(apiserver.Cut) }},
	{"broken", func(w *world) { w.interrupt(apiserver.Break) }},
	{"broken at a unit", func(w *world) { w.at(apiserver.Break) }},
	{"stalled", func(w *world) { w.interrupt(apiserver.Stall) }},
	{"stalled at a unit", func(w *world) { w.at(apiserver.Stall) }},
	{"slow at a unit", func(w *world) { w.at(apiserver.Wait(upTo(w.rnd, w.pauses))) }},
	{"error event", func(w *world) { w.interrupt(apiserver.Error(w.refusal())) }},
	{"duplicate event", func(w *world) { w.onWatch(apiserver.Replay(0)) }},
	{"old event again", func(w *world) { w.onWatch(apiserver.Replay(1 + w.rnd.IntN(3))) }},
	{"unknown event type", func(w *world) { w.onWatch(apiserver.Type("WEIRD")) }},
	{"garbage frame", func(w *world) { w.onWatch(apiserver.Frame("{\"type\":\"ADDED\",\"object\":[}\n")) }},
	{"no end bookmark", func(w *world) {
		w.inject(apiserver.Stream, apiserver.On(apiserver.IsEnd, apiserver.Drop))
	}},
	{"late end bookmark", func(w *world) {
		w.inject(apiserver.Stream, apiserver.On(apiserver.IsEnd, apiserver.Hold(1+w.rnd.IntN(3))))
	}},
	{"down", func(w *world) {
		w.server.SetDown(true)
		w.sleep(upTo(w.rnd, w.pauses))
		w.server.SetDown(false)
	}},
	{"disconnect", func(w *world) { w.server.Line.Disconnect() }},
	{"compact", func(w *world) {
		now := w.server.Line.Version()
		w.server.Line.Compact(now - min(now, w.rnd.Uint64N(20)))
	}},
	{"gap", func(w *world) {
		w.server.SetDown(true)
		w.remove()
		w.put()
		w.server.Line.Compact(w.server.Line.Version())
		w.server.SetDown(false)
	}},
	{"writes elsewhere", func(w *world) { w.server.Line.Advance(1 + w.rnd.Uint64N(100)) }},
	{"bookmark", func(w *world) { w.server.Line.Bookmark() }},
	{"backup restored", (*world).rewind},
}

// inject adds a fault for the next one to three requests.
func (w *world) inject(verb apiserver.Verb, do apiserver.Effect) {
	w.server.Inject(apiserver.Fault{Verb: verb, Times: 1 + w.rnd.IntN(3), Do: do})
}

// interrupt applies a fault to the open watches.
func (w *world) interrupt(do apiserver.UnitEffect) { w.server.Interrupt(nil, do) }

// at applies a fault to one of the next lists, streams or watches, at one of its first objects or
// events.
func (w *world) at(do apiserver.UnitEffect) {
	verb := []apiserver.Verb{apiserver.List, apiserver.Stream, apiserver.Watch}[w.rnd.IntN(3)]
	w.inject(verb, apiserver.At(w.rnd.IntN(5)-1, do))
}

// onWatch applies a fault to one of the first events of a watch. It ends the open watches, so that
// the next one comes soon.
func (w *world) onWatch(do apiserver.UnitEffect) {
	w.inject(apiserver.Watch, apiserver.At(w.rnd.IntN(4), do))
	w.server.Line.Disconnect()
}

// refusal returns one of the errors with which a server refuses a request.
func (w *world) refusal() error {
	things := schema.GroupResource{Group: "example.com", Resource: "things"}
	return []error{
		apierrors.NewInternalError(errors.New("etcd")),
		apierrors.NewServiceUnavailable("starting"),
		apierrors.NewTooManyRequests("later", 1),
		apierrors.NewResourceExpired("too old"),
		apierrors.NewTimeoutError("slow", 1),
		apierrors.NewForbidden(things, "", errors.New("no role")),
		apierrors.NewUnauthorized("no token"),
		apierrors.NewNotFound(things, ""),
	}[w.rnd.IntN(8)]
}

// rewind restores the server from a backup that is some versions old, and waits until the informers
// have noticed. It must not go on before: when the server's new writes have reached the version
// that a client has seen, the client can no longer notice that the version stands for another
// state.
func (w *world) rewind() {
	for _, h := range w.handlers {
		h.Rewound()
	}
	back := w.rnd.Uint64N(20)
	w.truth.Rewind(func() (uint64, map[string]uint64) {
		now := w.server.Line.Version()
		to := now - min(now-1, back)
		if w.server.Line.Rewind(to) != nil {
			return 0, nil // that version was compacted
		}
		state, err := w.things.StateAt(to)
		if err != nil {
			// A mistake of the test server, not of the informer.
			panic(fmt.Sprintf("soak: state at %d: %v", to, err))
		}
		objects := map[string]uint64{}
		for _, obj := range state {
			thing := &Thing{}
			if err := json.Unmarshal(obj.JSON, thing); err != nil {
				panic(err)
			}
			objects[obj.Key.String()] = hash(thing)
		}
		w.trace("server: rewound to %d", to)
		return to, objects
	})
	w.settle()
}
