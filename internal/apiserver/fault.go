package apiserver

import (
	"context"
	"maps"
	"net/http"
	"slices"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/go-lw/lw/internal/wire"
)

// A Fault says which requests go wrong, and how. A request meets the first injected fault that
// matches it and is not used up.
type Fault struct {
	Verb     Verb   // "": every verb
	Resource string // the plural, or with its group as in deployments.apps; "": every resource
	// Match is called in the goroutine of the request, without a lock. nil: every request.
	Match func(r Request) bool
	Skip  int // how many requests that match are left alone first
	Times int // how many requests go wrong after that; 0: one, negative: all until Clear
	// Do is what happens to the request. nil: nothing happens, not even what was injected later.
	Do Effect
}

// An Effect is what a fault does to a request. It runs in the goroutine of the request. Combine
// several with [All].
type Effect func(x *exchange)

// An armed is a fault that was injected. Server.mu guards its counts.
type armed struct {
	Fault
	skipped, done int
}

// Inject lets requests to come go wrong as f says.
func (s *Server) Inject(f Fault) {
	if f.Do == nil {
		f.Do = func(*exchange) {}
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.faults = append(s.faults, &armed{Fault: f})
}

// Clear removes all faults that are not used up. Streams that are stalled stay stalled.
func (s *Server) Clear() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.faults = nil
}

// Armed returns how many faults are not used up.
func (s *Server) Armed() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return len(s.faults)
}

// faultOf returns the effect of the first fault that matches req, or nil. It reads the body of the
// request only if a Match is to see its metadata.
func (s *Server) faultOf(x *exchange, req Request) Effect {
	s.mu.Lock()
	faults := slices.Clone(s.faults)
	s.mu.Unlock()
	// Match is a function of the user, so it is called without the lock. After that take decides
	// under the lock.
	read := false
	for _, f := range faults {
		if !f.concerns(req) {
			continue
		}
		if f.Match != nil {
			if !read {
				req.Meta, read = x.meta(), true
			}
			if !f.Match(req) {
				continue
			}
		}
		if s.take(f) {
			x.req.Meta = req.Meta
			return f.Do
		}
	}
	return nil
}

func (a *armed) concerns(r Request) bool {
	named := a.Resource == "" || a.Resource == r.Resource || a.Resource == schema.GroupResource{Group: r.Group, Resource: r.Resource}.String()
	return (a.Verb == "" || a.Verb == r.Verb) && named
}

// take counts a request that matches f. It reports whether f happens to that request.
func (s *Server) take(f *armed) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	i := slices.Index(s.faults, f)
	if i < 0 {
		return false // another request has used it up
	}
	if f.skipped < f.Skip {
		f.skipped++
		return false
	}
	f.done++
	if f.Times >= 0 && f.done >= max(f.Times, 1) {
		s.faults = slices.Delete(s.faults, i, i+1)
	}
	return true
}

// Interrupt applies effects to the open watches and streams whose requests match, between two of
// their events. It returns how many match, perhaps before the effects have happened. A nil match
// means all.
func (s *Server) Interrupt(match func(r Request) bool, do ...UnitEffect) int {
	type open struct {
		a *answer
		r Request
	}
	var streams []open
	s.mu.Lock()
	for a, r := range s.streams {
		streams = append(streams, open{a, r})
	}
	s.mu.Unlock()
	n := 0
	for _, o := range streams {
		if match != nil && !match(o.r) {
			continue
		}
		n++
		s.mu.Lock()
		o.a.pending = append(o.a.pending, do...)
		o.a.wake()
		s.mu.Unlock()
	}
	return n
}

// All applies the effects one after the other. Waits add up; of several answers in place of the
// server's, the first counts, and of several ends of a stream the earliest.
func All(effects ...Effect) Effect {
	return func(x *exchange) {
		for _, do := range effects {
			if do != nil {
				do(x)
			}
		}
	}
}

// Choose lets f decide about each request. A nil Effect leaves the request as it is.
func Choose(f func(r Request) Effect) Effect {
	return func(x *exchange) {
		if x.req.Meta == nil {
			x.req.Meta = x.meta()
		}
		if do := f(x.req); do != nil {
			do(x)
		}
	}
}

// answers has f answer in place of the server, unless another effect does so.
func (x *exchange) answers(f func()) {
	if x.instead == nil {
		x.instead = f
	}
}

// waits has the answer wait for f, after the waits that are there. f returns false if the client
// has gone.
func (x *exchange) waits(f func(ctx context.Context) bool) {
	before := x.wait
	x.wait = func(ctx context.Context) bool { return (before == nil || before(ctx)) && f(ctx) }
}

// Fail answers with the Status of err, with Retry-After if it has one. An error that is not an API
// server's is answered with 500.
func Fail(err error) Effect {
	return func(x *exchange) { x.answers(func() { x.fail(err) }) }
}

// Reply answers with a given body, such as a proxy's HTML page, or half an object. An empty
// contentType means text/plain.
func Reply(code int, contentType, body string) Effect {
	return func(x *exchange) {
		x.answers(func() {
			if contentType == "" {
				contentType = "text/plain; charset=utf-8"
			}
			wire.WriteBody(x.w, contentType, code, []byte(body))
		})
	}
}

// Header adds a header to the answer, such as Retry-After.
func Header(key, value string) Effect {
	return func(x *exchange) { x.w.Header().Set(key, value) }
}

// Reset closes the connection without an answer. If a client of net/http has used that connection
// before, it repeats the request by itself on a new one.
func Reset(x *exchange) {
	x.answers(func() {
		conn, _, err := http.NewResponseController(x.w).Hijack()
		if err != nil {
			panic(http.ErrAbortHandler) // in HTTP/2 this resets the one stream
		}
		reset(conn)
	})
}

// Hang never answers.
func Hang(x *exchange) {
	x.waits(func(ctx context.Context) bool {
		<-ctx.Done()
		return false
	})
}

// Delay answers after d. If the client goes away before that, there is no answer.
func Delay(d time.Duration) Effect {
	return func(x *exchange) { x.waits(func(ctx context.Context) bool { return sleep(ctx, d) }) }
}

// Written lets the effect happen when the write that the request wants is done, in the place of its
// answer or before it: with [Reset] the answer is lost, with [Delay] it is late, with [Fail] it is
// wrong. Effects that change the request do nothing.
func Written(do Effect) Effect {
	if do == nil {
		return nil
	}
	return func(x *exchange) { x.written = All(x.written, do) }
}

// Until answers when the channel is closed. If the client goes away before that, there is no
// answer.
func Until(released <-chan struct{}) Effect {
	return func(x *exchange) {
		x.waits(func(ctx context.Context) bool {
			select {
			case <-ctx.Done():
				return false
			case <-released:
				return true
			}
		})
	}
}

// Rewrite changes the request that the server understands. The log shows what the client has sent.
func Rewrite(f func(r *Request)) Effect { return func(x *exchange) { f(&x.req) } }

// IgnoreStream answers as a server that does not know streamed lists: it ignores their parameters,
// and answers with a plain watch.
func IgnoreStream(x *exchange) {
	if x.req.Verb == Stream {
		x.req.Verb = Watch
	}
	x.req.Options.SendInitialEvents, x.req.Options.ResourceVersionMatch = nil, ""
}

// AnyVersion answers as a server that ignores which version a read asks for. Together with [Lag] it
// is a server that goes back in time.
func AnyVersion(x *exchange) {
	o := &x.req.Options
	o.ResourceVersion, o.ResourceVersionMatch = "0", ""
	if x.req.Verb == Stream {
		o.ResourceVersionMatch = metav1.ResourceVersionMatchNotOlderThan
	}
}

// Lag answers lists, and the initial events of watches, from a replica that is n versions behind. A
// real server does that if a request accepts any version. A request for a version that the replica
// has not reached fails as too large. The events after the initial ones come from the server
// itself.
func Lag(n uint64) Effect { return func(x *exchange) { x.lag = n } }

// Overtake has somebody else write the object before the request does: an annotation comes and
// goes, in two versions, which no admission sees. It concerns updates, patches and deletions of an
// object that is there.
func Overtake(x *exchange) {
	if x.req.Name == "" || !slices.Contains([]Verb{Update, Patch, Delete}, x.req.Verb) {
		return
	}
	s := store{x.collection.storage} // no webhook is to convert it
	for _, annotate := range []func(annotations map[string]string){
		func(annotations map[string]string) { annotations[overtaken] = "true" },
		func(annotations map[string]string) { delete(annotations, overtaken) },
	} {
		old, err := s.Get(x.r.Context(), x.key())
		if err != nil || old == nil {
			return
		}
		o := *old
		o.Value, o.Meta.Annotations = nil, maps.Clone(old.Meta.Annotations)
		if o.Meta.Annotations == nil {
			o.Meta.Annotations = map[string]string{}
		}
		annotate(o.Meta.Annotations)
		if len(o.Meta.Annotations) == 0 {
			o.Meta.Annotations = nil
		}
		if _, err := s.Replace(x.r.Context(), &o, old); err != nil {
			return // somebody else was faster still
		}
	}
}

// overtaken is the annotation that [Overtake] adds, and takes away.
const overtaken = "lwtest/overtaken"

// Trail has each event of a watch come d after it has happened, and not later because others have
// come before it. A list is answered as usual.
func Trail(d time.Duration) Effect { return func(x *exchange) { x.trail += d } }

// In has an effect end a watch d after it has begun. The effect's unit is an event that is under
// way to the client, or else a bookmark of no version, of which it may send no more than a half.
func In(d time.Duration, do UnitEffect) Effect {
	return func(x *exchange) {
		if x.ends == nil || d < x.ends.in {
			x.ends = &timedEnd{in: d, do: do}
		}
	}
}

// ListMeta changes the metadata of a list, such as its resourceVersion or its continue token.
func ListMeta(f func(m *metav1.ListMeta)) Effect { return func(x *exchange) { x.listMeta = f } }

// At applies effects at unit n of a list or a stream. The first unit is 0; see also [Start].
func At(n int, do ...UnitEffect) Effect {
	return func(x *exchange) {
		x.filters = append(x.filters, filter{func(i int, _ Unit) bool { return i == n }, do})
	}
}

// On applies effects at every unit that matches.
func On(match func(u Unit) bool, do ...UnitEffect) Effect {
	return func(x *exchange) {
		x.filters = append(x.filters, filter{func(i int, u Unit) bool { return i != Start && match(u) }, do})
	}
}

// IsEnd matches the bookmark that ends the initial events of a streamed list.
func IsEnd(u Unit) bool { return u.End }
