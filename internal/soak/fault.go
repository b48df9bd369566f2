package main

import (
	"encoding/json"
	"errors"
	"fmt"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/go-lw/lw/internal/apiserver"
)

// faults are what goes wrong in a world. All of them can be seen by the client, so that it must show nothing wrong at any time,
// and has to catch up when they are over. Not among them are a server that leaves an event out, which cannot be seen, and objects
// that cannot be decoded, which stay set aside until there is a better version of them.
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
		// Not a watch: one that begins anew as if it were resumed cannot always be told from one that goes on. Not what asks for
		// the newest state: where that is older too, the server has gone back in time.
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

// inject makes one to three requests to come go wrong.
func (w *world) inject(verb apiserver.Verb, do apiserver.Effect) {
	w.server.Inject(apiserver.Fault{Verb: verb, Times: 1 + w.rnd.IntN(3), Do: do})
}

// interrupt makes the open watches go wrong.
func (w *world) interrupt(do apiserver.UnitEffect) { w.server.Interrupt(nil, do) }

// at makes the next list, stream or watch go wrong at one of its first units.
func (w *world) at(do apiserver.UnitEffect) {
	verb := []apiserver.Verb{apiserver.List, apiserver.Stream, apiserver.Watch}[w.rnd.IntN(3)]
	w.inject(verb, apiserver.At(w.rnd.IntN(5)-1, do))
}

// onWatch makes the next watch go wrong at one of its first events.
func (w *world) onWatch(do apiserver.UnitEffect) {
	w.inject(apiserver.Watch, apiserver.At(w.rnd.IntN(4), do))
	w.server.Line.Disconnect()
}

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

// rewind restores the server from a backup that is some versions old, and waits until that was noticed: once the server has
// come to the versions again that a client has seen, nothing tells it that they mean something else.
func (w *world) rewind() {
	for _, h := range w.handlers {
		h.Rewound()
	}
	back := w.rnd.Uint64N(20)
	w.truth.Rewind(func() (uint64, map[string]uint64) {
		now := w.server.Line.Version()
		to := now - min(now-1, back)
		if w.server.Line.Rewind(to) != nil {
			return 0, nil // compacted
		}
		state, err := w.things.StateAt(to)
		if err != nil {
			panic(fmt.Sprintf("soak: state at %d: %v", to, err)) // of the test server
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
