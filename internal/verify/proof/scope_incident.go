package proof

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/go-lw/lw"
	"github.com/go-lw/lw/internal/verify/oracle"
)

// A scopeIncident is what goes wrong once in a small history.
type scopeIncident struct {
	name string
	do   func(w *scopeRun)
	// early: it may be there before the informer begins.
	early bool
	// triggers are what makes the informer come by it.
	triggers []string
}

const (
	justSo    = ""            // it happens by itself
	onRewatch = "+disconnect" // the watch ends
	onRelist  = "+relist"     // the watch ends, and its history is gone
	longTime  = 4 * time.Minute
)

// scopeIncidents are all faults of the proofs, and what else the proofs have as commands.
func scopeIncidents(s scopeSetup) (out []scopeIncident) {
	faults := proofFaults
	if s.relay {
		faults = slices.Concat(faults, relayFaults)
	}
	for _, f := range faults {
		if s.http && f.web == nil || !s.http && f.direct == nil {
			continue
		}
		in := scopeIncident{name: f.id + " " + f.name, early: f.id != "F16", triggers: triggersOf(f.name)}
		in.do = func(w *scopeRun) {
			switch s := w.server.(type) {
			case *direct:
				f.direct(w.world, s, 1)
			case *web:
				f.web(w.world, s.server, 1)
			}
		}
		out = append(out, in)
	}
	own := func(name string, do func(w *scopeRun)) {
		out = append(out, scopeIncident{name: name, do: do, triggers: []string{justSo}})
	}
	own("disconnect", func(w *scopeRun) { w.server.line().Disconnect() })
	own("compaction", func(w *scopeRun) { w.age() })
	own("relist", func(w *scopeRun) { w.server.line().Disconnect(); w.age() })
	own("bookmark", func(w *scopeRun) { w.server.line().Bookmark() })
	own("touch", func(w *scopeRun) { w.touch(1) })
	own("outage", func(w *scopeRun) { w.outage(false) })
	own("outage and compaction", func(w *scopeRun) { w.outage(true) })
	for back := range uint64(4) {
		own(fmt.Sprintf("rewind by %d", back+1), func(w *scopeRun) { w.settle(); w.rewind(back + 1); w.settle() })
	}
	overtakes := func(how string, back uint64, before func(w *scopeRun), rewrite func(o *overtaking)) {
		own(fmt.Sprintf("overtaken from %d back %s", back, how), func(w *scopeRun) {
			before(w)
			w.settle()
			if !w.overtake(back, back-1, rewrite) {
				w.armed = "" // it was an outage
			}
			w.settle()
		})
	}
	for back := range uint64(2) {
		// From two back b gets its version once more, with other content.
		overtakes("with the same names", back+2, func(w *scopeRun) { w.write("b"); w.write("a") },
			func(o *overtaking) { o.put("b"); o.put("a") })
		overtakes("with new names", back+1, func(*scopeRun) {},
			func(o *overtaking) { o.put("new"); o.put("newer") })
		overtakes("with the same names, forgotten", back+2, func(w *scopeRun) { w.write("b"); w.write("a") },
			func(o *overtaking) { o.put("b"); o.put("a"); o.forget() })
		overtakes("with old objects, forgotten", back+2, func(w *scopeRun) { w.write("a"); w.write("b") },
			func(o *overtaking) { o.put("new"); o.forget() })
	}
	// The answers to the next commands are told before their events come, or a list instead of these.
	own("told", func(w *scopeRun) { w.tells = tellsExact })
	own("told without versions", func(w *scopeRun) { w.tells = tellsLoose })
	own("told, and relisted", func(w *scopeRun) {
		w.tells = tellsExact
		w.later = append(w.later, func() { w.server.line().Disconnect(); w.age() })
	})
	own("told of what is left out", func(w *scopeRun) { w.lateBy.Store(int64(time.Second)); w.tellPhantom("a", "x", 2) })
	own("restart", func(w *scopeRun) { w.server.clear(); w.stop(); w.begin() })
	own("join", func(w *scopeRun) { w.join(false) })
	own("events", func(w *scopeRun) { w.doEvents(nil) })
	own("index", func(w *scopeRun) { w.doIndex(nil) })
	own("hold", func(w *scopeRun) { w.doHold(nil) })
	if s.http || s.turns {
		own("bad object", func(w *scopeRun) { w.spoil("a") })
		own("bad object of another name", func(w *scopeRun) { w.spoil("d") })
	}
	return out
}

// triggersOf says what a fault waits for: a list, a watch, or nothing.
func triggersOf(name string) []string {
	verb, rest, _ := strings.Cut(name, " ")
	switch {
	case verb == "list", verb == "stream", verb == "a", verb == "an", verb == "limit", verb == "duplicate":
		return []string{onRelist}
	case verb == "watch" && rest != "cache begins anew":
		return []string{onRewatch, onRelist}
	}
	return []string{justSo}
}

// scopeRun is a proof whose commands are words.
type scopeRun struct {
	*world
	setup  scopeSetup
	writes int
	armed  string // the incident
	tells  scopeTells
	later  []func() // when the next command is done
}

func newScopeRun(s scopeSetup, server partServer) *scopeRun {
	w := &scopeRun{setup: s, world: &world{
		server: server, log: oracle.New(), last: map[lw.Key]*Part{}, byName: map[string]*oracle.Handler{}, seq: true,
		mode: s.mode, turns: s.turns,
	}}
	if s.selector {
		w.selector = "group=x"
	}
	if s.full {
		for i, name := range []string{"a", "b", "c"} {
			w.put(name, "x", i)
		}
	}
	return w
}

// begin starts a copy, with a handler that filters beside the one that is told everything.
func (r *scopeRun) begin() {
	r.start()
	r.join(true)
}

func (r *scopeRun) join(filter bool) {
	o := oracle.Handler{Lossless: true}
	if filter {
		o.Filter = func(i oracle.Item) bool { return i.Content[len(i.Content)-1]%2 == 0 }
	}
	l := r.listen(o)
	h := l.handler()
	if filter {
		h.Filter = func(p *Part) bool { return o.Filter(*describe(p)) }
	}
	l.block()
	r.register(l, h)
	l.open()
}

// step does what a word says, and all that it leads to.
func (r *scopeRun) step(text string) {
	verb, name, _ := strings.Cut(text, " ")
	if r.tells != tellsNone && verb != "start" && verb != "time" && !strings.HasPrefix(text, "[") {
		r.tellingStep(verb, name)
		return
	}
	switch verb {
	case "start":
		r.begin()
		r.settled()
		return
	case "time":
		time.Sleep(longTime)
		r.settled()
		return
	case "create", "update":
		r.write(name)
	case "delete":
		r.remove(name)
	case "recreate":
		r.remove(name)
		r.write(name)
	default:
		r.incident(text)
		return
	}
	r.settled()
	r.after()
	r.look()
}

// A scopeTells says how the copy is told of the answers to commands.
type scopeTells int

const (
	tellsNone scopeTells = iota
	tellsExact
	tellsLoose // deletions without their versions
)

// tellingStep does what a word says, tells the copy of the answer, and looks before and after the
// event has come.
func (r *scopeRun) tellingStep(verb, name string) {
	r.lateBy.Store(int64(time.Second))
	if verb == "delete" || verb == "recreate" {
		r.tellDeleted(name, r.tells == tellsExact, false)
	}
	if verb != "delete" {
		r.write(name)
		if a := r.answers(name); a != nil {
			r.tell(a, false)
		}
	}
	r.settled()
	r.look()
	r.after()
	time.Sleep(3 * time.Second)
	r.settled()
	r.look()
}

// write writes an object in a way that no write before it did: it moves to the other group, and a
// filter and a transform that leaves some out see it come and go.
func (r *scopeRun) write(name string) {
	sizes := []int{1, 2, 3, 0}
	if r.turns {
		sizes = []int{1, sizeLeftOut, 2, sizeBad}
	}
	size := sizes[r.writes%len(sizes)]
	r.writes++
	group := "x"
	if p := r.last[partKey(name)]; p != nil && p.Group == "x" {
		group = "y"
	}
	r.put(name, group, size)
}

func (r *scopeRun) incident(text string) {
	name, trigger, _ := strings.Cut(strings.TrimPrefix(text, "["), "]")
	for _, in := range scopeIncidents(r.setup) {
		if in.name != name {
			continue
		}
		r.armed = name
		in.do(r)
		switch trigger {
		case onRewatch:
			r.server.line().Disconnect()
		case onRelist:
			r.server.line().Disconnect()
			r.age()
		}
		if r.inf != nil {
			r.settled()
		}
		return
	}
	panic("there is no incident " + text)
}

// cameBy counts the incident, but for one that nothing came by.
func (r *scopeRun) cameBy() {
	if d, ok := r.server.(*direct); ok {
		d.mu.Lock()
		defer d.mu.Unlock()
		if len(d.next) > 0 {
			return
		}
	}
	if r.armed != "" {
		r.injected = append(r.injected, r.armed)
	}
}

func (r *scopeRun) after() {
	for _, f := range r.later {
		f()
	}
	r.later = nil
}

// outage is a server that cannot be reached until the next command is done, whose history may be
// gone by then.
func (r *scopeRun) outage(gone bool) {
	r.server.down()
	r.server.line().Disconnect()
	r.later = append(r.later, func() {
		if gone {
			r.age()
		}
		r.server.clear()
	})
}

// spoil writes an object that cannot be decoded, or not be transformed.
func (r *scopeRun) spoil(name string) {
	if _, overHTTP := r.server.(*web); overHTTP {
		r.put(name, "x", sizeBroken)
	} else {
		r.put(name, "x", sizeBad)
	}
}
