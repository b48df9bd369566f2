package simulate

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"regexp"
	"slices"
	"strings"
	"testing/synctest"
	"time"

	"github.com/go-lw/lw/lwtest"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime/schema"
)

const (
	defaultQuiet = 2 * time.Minute
	// longest is how long a fault holds a watch or an answer: no server is later by minutes. As long
	// nothing happens until an actor is back.
	longest  = 30 * time.Second
	maxSteps = 20_000 // between two rests
	garbage  = "garbage"
)

// rest waits until all goroutines of the program wait, and looks at what it has done.
func (h *history) rest() {
	synctest.Wait()
	h.round++
	requests, watches := h.gate.open()
	for _, r := range requests {
		if r.round == 0 {
			r.round = h.round
		}
	}
	for _, w := range watches {
		w.mu.Lock()
		for _, ev := range w.events {
			if ev.round == 0 {
				ev.round = h.round
			}
		}
		w.mu.Unlock()
	}
	h.unsaid()
	h.look()
	h.stopped()
}

// settle lets everything happen until nothing is left to do.
func (h *history) settle() {
	quiet := h.world.Quiet
	if quiet == 0 {
		quiet = defaultQuiet
	}
	h.changed = time.Now()
	from, limit := h.changes, 400
	if h.calm != nil {
		limit += 10 * h.calm.Changes
	}
	moment, at := time.Now(), h.changes
	for n := 0; ; n++ {
		h.rest()
		if now := time.Now(); !now.Equal(moment) {
			moment, at = now, h.changes
		} else if h.changes-at >= 50 {
			time.Sleep(time.Second) // work takes time, and a program may wait for it to list again
		}
		if n > maxSteps || h.changes-from > limit {
			h.fail("no rest", "%s", h.loop(n))
		}
		if h.step() || h.last && h.release() {
			continue
		}
		calm := time.Since(h.changed)
		if calm >= longest && h.last && len(h.absent) > 0 {
			h.narrate("the actors %s are back", strings.Join(keys(h.absent), ", "))
			clear(h.absent)
			clear(h.idle)
			h.changed = time.Now()
			continue
		}
		if calm >= quiet && !h.withheld() {
			break
		}
		h.wait(longest)
	}
	if len(h.absent)+len(h.kept) > 0 {
		return // not all that should happen has happened
	}
	h.atRest(quiet)
}

// atRest looks for what must not be when nothing is left to do, and quiet has passed since.
func (h *history) atRest(quiet time.Duration) {
	// A program that cannot do its work tries again, and says so each time.
	if said := h.logged(quiet / 2); said != "" {
		if h.error = said; h.calm != nil && h.calm.Error == "" {
			h.fail("an error at rest", "%v after the last change the program still logs an error, as it does not in the calm run: %s", quiet, said)
		}
	}
	if h.world.AtRest != nil {
		if err := h.world.AtRest(h.state()); err != nil {
			h.fail("AtRest", "%v", err)
		}
	}
	h.orphans()
}

// pass lets d pass.
func (h *history) pass(d time.Duration) {
	h.user("%v pass", d)
	for till := time.Now().Add(d); ; {
		h.rest()
		if h.step() {
			continue
		}
		left := time.Until(till)
		if left <= 0 {
			return
		}
		h.wait(left)
	}
}

// wait lets time pass until the program or the server does something, at most for d.
func (h *history) wait(d time.Duration) {
	clear(h.idle) // what an actor does may depend on the time
	for _, x := range h.holds {
		d = min(d, time.Until(x.end))
	}
	requests, _ := h.gate.open()
	for _, r := range requests {
		if !r.late.IsZero() {
			d = min(d, time.Until(r.late))
		}
	}
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-h.gate.wake:
	case <-t.C:
	}
}

// withheld reports whether a fault holds a watch or an answer.
func (h *history) withheld() bool {
	requests, _ := h.gate.open()
	return len(h.holds) > 0 || slices.ContainsFunc(requests, func(r *request) bool { return !r.late.IsZero() })
}

// letGo ends what faults have held for as long as they may.
func (h *history) letGo() {
	h.holds = slices.DeleteFunc(h.holds, func(x *holding) bool {
		over := h.changes >= x.till || time.Until(x.end) <= 0
		if over {
			h.narrate("the watch of %s goes on", x.on)
			h.changed = time.Now()
		}
		return over
	})
	requests, _ := h.gate.open()
	for _, r := range requests {
		if !r.late.IsZero() && time.Until(r.late) <= 0 {
			r.late, h.changed = time.Time{}, time.Now()
		}
	}
}

// An option is one thing that may happen next.
type option struct {
	source string // what it comes from, which has a weight
	round  int
	key    string
	do     func() bool // false: nothing has happened
}

// step lets one thing happen; false: there is none.
func (h *history) step() bool {
	h.watchFaults()
	options := h.options()
	for len(options) > 0 {
		i := h.choose(options)
		if i < 0 {
			h.wait(time.Duration(1+h.rng.IntN(2000)) * time.Millisecond)
			return true
		}
		o := options[i]
		if options = slices.Delete(options, i, i+1); o.do() {
			return true
		}
	}
	if h.plan.sweep != settled {
		return false
	}
	before := h.changes
	h.watchFaults() // all actors are idle now, until time passes
	return h.changes > before
}

// choose returns the number of an option; -1: time passes.
func (h *history) choose(options []option) int {
	if h.rng == nil {
		return 0
	}
	total := 0
	for _, o := range options {
		if h.weights[o.source] == 0 {
			h.weights[o.source] = 1 << h.rng.IntN(7)
		}
		total += h.weights[o.source]
	}
	if h.rng.IntN(60) == 0 {
		return -1
	}
	n := h.rng.IntN(total)
	for i, o := range options {
		if n -= h.weights[o.source]; n < 0 {
			return i
		}
	}
	return 0
}

// options returns all that may happen, in the order of the calm run: what came first, and of what
// came at once the events first, so that the program knows what it has done.
func (h *history) options() []option {
	requests, watches := h.gate.open()
	var out []option
	for _, r := range requests {
		if r.late.IsZero() {
			out = append(out, option{"request " + r.plural, r.round, "b" + r.key(), func() bool { return h.request(r) }})
		}
	}
	for _, w := range watches {
		ev := w.held()
		if ev == nil || h.holding(w.of.plural) {
			continue
		}
		out = append(out, option{"watch " + w.of.plural, ev.round, fmt.Sprintf("a%s %06d", w.of.key(), w.number), func() bool { return h.event(w) }})
	}
	slices.SortStableFunc(out, func(a, b option) int {
		if a.round != b.round {
			return a.round - b.round
		}
		return strings.Compare(a.key, b.key)
	})
	for _, a := range h.world.Actors {
		if at, idle := h.idle[a.Name]; (!idle || at != h.changes) && !h.absent[a.Name] {
			out = append(out, option{"actor " + a.Name, 0, "", func() bool { return h.act(a) }})
		}
	}
	if at, idle := h.idle[garbage]; (!idle || at != h.changes) && !h.absent[garbage] {
		out = append(out, option{"actor " + garbage, 0, "", func() bool {
			return h.act(Actor{Name: garbage, Act: func(_ context.Context, s *lwtest.Server) (string, error) { return s.Collect(), nil }})
		}})
	}
	return out
}

func (h *history) act(a Actor) bool {
	did, err := a.Act(context.Background(), h.server)
	if err != nil {
		h.fail("the world", "the actor %s: %v", a.Name, err)
	}
	if did == "" {
		h.idle[a.Name] = h.changes
		return false
	}
	h.narrate("%s: %s", a.Name, did)
	h.look()
	return true
}

func (h *history) holding(plural string) bool {
	return slices.ContainsFunc(h.holds, func(x *holding) bool { return x.on == plural })
}

// happens marks a fault of the plan.
func (h *history) happens(i int) {
	h.used[i] = true
	h.fault[h.plan.faults[i].what]++
}

// watchFaults begins the faults of watches that are due, and ends those that are over.
func (h *history) watchFaults() {
	h.letGo()
	for i, f := range h.plan.faults {
		if h.used[i] || f.at > h.tries || f.what == stale || !onWatch(f.what) {
			continue
		}
		if f.what == foreign || f.what == keep {
			if h.foreign(f) {
				h.happens(i)
			}
			continue
		}
		h.happens(i)
		if f.what == absent {
			if !h.last {
				h.absent[f.on] = true
				h.narrate("THE ACTOR %s IS AWAY", f.on)
			}
			continue
		}
		if f.what == hold {
			h.hold(f.on, f.long)
			h.narrate("THE WATCH OF %s IS HELD", f.on)
			continue
		}
		_, watches := h.gate.open()
		for _, w := range watches {
			if w.of.plural == f.on {
				h.narrate("THE WATCH OF %s ENDS WITH 410", f.on)
				w.mu.Lock()
				w.events = nil
				w.sent.WriteString(`{"type":"ERROR","object":{"kind":"Status","apiVersion":"v1","metadata":{},"status":"Failure","message":"too old resource version","reason":"Expired","code":410}}` + "\n")
				w.mu.Unlock()
				w.end(io.EOF)
			}
		}
		h.rest() // the program may list again
	}
}

// event lets the next event of a watch pass.
func (h *history) event(w *watch) bool {
	ev := w.pass()
	h.learn(ev.bytes)
	if ev.kind == "BOOKMARK" {
		return true
	}
	what := strings.ToLower(ev.kind) + " " + w.of.plural + "/" + ev.object
	if ev.kind == "SYNCED" {
		what = "all " + w.of.plural
	}
	h.narrate("the program sees: %s, of version %s", what, ev.version)
	return true
}

// uids are those of objects, not of their owners, whichever of both members comes first.
var uids = regexp.MustCompile(`"uid":"([^"]+)","resourceVersion"|"resourceVersion":"[^"]*","uid":"([^"]+)"`)

// learn notes which objects the program may know of now.
func (h *history) learn(b []byte) {
	h.seesMarks(b)
	for _, m := range uids.FindAllSubmatch(b, -1) {
		if uid := string(m[1]) + string(m[2]); h.known[uid] == 0 {
			h.known[uid] = h.round
		}
	}
}

var errLost = errors.New("read: connection reset by peer")

// request asks the server, or gives the program its answer.
func (h *history) request(r *request) bool {
	if r.answer != nil {
		if r.slow {
			h.narrate("THE LATE ANSWER to the program's %s of %s ARRIVES: %d", r.verb, r.path(), r.answer.StatusCode)
		}
		h.give(r)
		return true
	}
	h.served(r)
	what := h.faultOf(r)
	switch what {
	case crashBefore:
		h.crash(fmt.Sprintf("BEFORE ITS %s %s", r.verb, r.path()))
		return true
	case lease:
		if h.depose(fmt.Sprintf("BEFORE ITS %s %s", r.verb, r.path())) {
			return true
		}
	case conflict:
		h.touch(r)
		h.refuse(r, apierrors.NewConflict(schema.GroupResource{Resource: r.plural}, r.name, errors.New("the object has been modified; please apply your changes to the latest version and try again")))
		return true
	case refuse:
		h.refuse(r, apierrors.NewServiceUnavailable("the server is restarting"))
		return true
	}
	if h.unstreamed(r) {
		return true
	}
	h.older(r)
	h.serve(r)
	h.answer(r, what)
	return true
}

// faultOf returns the fault that the plan has for a request, "" for none, and notes that it happens.
func (h *history) faultOf(r *request) string {
	if !r.writes() {
		return ""
	}
	f := slices.IndexFunc(h.plan.faults, func(f fault) bool { return f.at == h.tries && !onWatch(f.what) })
	h.tries++
	if f < 0 || h.used[f] || h.plan.faults[f].what == conflict && r.verb == lwtest.Create {
		return ""
	}
	h.happens(f)
	what := h.plan.faults[f].what
	for _, x := range h.holds {
		h.pairs[x.on+" held, "+what+" of "+string(r.verb)+" "+r.plural] = true
	}
	return what
}

// answer does with the server's answer what a fault says, or gives it to the program now or later.
func (h *history) answer(r *request, what string) {
	switch what {
	case crashAfter:
		h.crash(fmt.Sprintf("AFTER ITS %s %s", r.verb, r.path()))
	case lose:
		h.narrate("THE ANSWER IS LOST")
		if body, ok := r.answer.Body.(*answered); ok {
			_, uid := body.object()
			h.known[uid] = never // as far as the program knows
		}
		h.gate.drop(r, errLost)
	case slow:
		h.narrate("THE ANSWER IS LATE")
		r.late, r.slow = time.Now().Add(longest), true
	default:
		switch {
		case h.rng == nil && r.writes():
			r.round = 0 // the answer is an option of its own, and comes after the events of the write
		case h.rng == nil || h.rng.IntN(4) > 0:
			h.give(r)
		}
	}
}

func (h *history) give(r *request) {
	if body, ok := r.answer.Body.(*answered); ok {
		h.learn(body.all)
	}
	h.gate.release(r)
}

// refuse answers a request with an error.
func (h *history) refuse(r *request, err *apierrors.StatusError) {
	h.narrate("the program: %s %s IS ANSWERED WITH %d", r.verb, r.path(), err.ErrStatus.Code)
	r.answer = statusAnswer(r.http, err)
	h.gate.release(r)
}

// serve asks the server, and narrates what the program writes. What it has not seen yet is of
// before the write: the event of that comes when it does.
func (h *history) serve(r *request) {
	before, behind := h.server.ResourceVersion(), h.behind()
	r.answer = h.gate.serve(r)
	if !r.writes() {
		return
	}
	line := fmt.Sprintf("the program: %s %s", r.verb, r.path())
	if body, ok := r.answer.Body.(*answered); ok && r.answer.StatusCode == http.StatusCreated {
		name, uid := body.object()
		if h.made, h.asked = uid, r.round; r.name == "" {
			line += "/" + name
		}
	}
	switch now := h.server.ResourceVersion(); {
	case r.answer.StatusCode >= 300:
		line += fmt.Sprintf(" is refused with %d", r.answer.StatusCode)
	case now == before:
		line += " changes nothing"
	default:
		line += ", version " + now
		h.writes++
	}
	h.narrate("%s%s", line, behind)
	h.look()
	h.made = ""
	h.keepsMarks(r)
}

// behind says of which kinds the program has not seen everything.
func (h *history) behind() string {
	var out []string
	_, watches := h.gate.open()
	for _, w := range watches {
		w.mu.Lock()
		if n := len(w.events); n > 0 {
			out = append(out, fmt.Sprintf("%s up to version %s, %d events behind", w.of.plural, w.version, n))
		}
		w.mu.Unlock()
	}
	if len(out) == 0 {
		return ""
	}
	return " (it has seen " + strings.Join(out, "; ") + ")"
}

func statusAnswer(of *http.Request, err *apierrors.StatusError) *http.Response {
	w := &recorder{header: http.Header{}}
	w.status(err.Status())
	return w.response(of, &answered{all: w.body.Bytes()})
}
