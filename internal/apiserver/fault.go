package apiserver

import (
	"context"
	"net/http"
	"slices"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// A Fault says which requests go wrong, and how. A request meets the first fault that was injected, matches it and is not used up.
type Fault struct {
	Verb     Verb                 // "": every one
	Resource string               // "": every one
	Match    func(r Request) bool // nil: every one; called without a lock, in the request's goroutine
	Skip     int                  // so many requests that match are spared first
	Times    int                  // 0: once; below 0: until Clear
	Do       Effect               // nil: nothing, which spares the request what was injected later
}

// An Effect is what a fault does to a request. Combine several with [All].
type Effect func(x *exchange)

// armed is a fault with what it has seen; the counts are guarded by Server.mu.
type armed struct {
	Fault
	skipped, done int
}

// Inject makes requests to come go wrong.
func (s *Server) Inject(f Fault) {
	if f.Do == nil {
		f.Do = func(*exchange) {}
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.faults = append(s.faults, &armed{Fault: f})
}

// Clear takes back all faults that are not used up. Streams that are stalled stay so.
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

// faultOf returns what the first fault that matches req does, or nil.
func (s *Server) faultOf(req Request) Effect {
	s.mu.Lock()
	faults := slices.Clone(s.faults)
	s.mu.Unlock()
	// Match is a caller's function, so it is called without the lock; take decides under it.
	for _, f := range faults {
		if f.matches(req) && s.take(f) {
			return f.Do
		}
	}
	return nil
}

func (f *armed) matches(r Request) bool {
	return (f.Verb == "" || f.Verb == r.Verb) && (f.Resource == "" || f.Resource == r.Resource) && (f.Match == nil || f.Match(r))
}

// take counts a request that matches f, and reports whether f is what happens to it.
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

// All does one effect after the other.
func All(effects ...Effect) Effect {
	return func(x *exchange) {
		for _, do := range effects {
			do(x)
		}
	}
}

// Fail answers with err: its Status, with Retry-After where it has one, or 500 for an error that is none of an API server.
func Fail(err error) Effect {
	return func(x *exchange) { x.instead = func() { x.fail(err) } }
}

// Reply answers with a body of its own: a proxy's HTML page, or half an object. Content-Type is text/plain if contentType is "".
func Reply(code int, contentType, body string) Effect {
	return func(x *exchange) {
		x.instead = func() {
			if contentType == "" {
				contentType = "text/plain; charset=utf-8"
			}
			writeBody(x.w, contentType, code, []byte(body))
		}
	}
}

// Header adds a header to the answer, such as a Retry-After.
func Header(key, value string) Effect {
	return func(x *exchange) { x.w.Header().Set(key, value) }
}

// Reset closes the connection without an answer. A client of net/http tries again by itself on a new connection where it had
// used this one before.
func Reset(x *exchange) {
	x.instead = func() {
		conn, _, err := http.NewResponseController(x.w).Hijack()
		if err != nil {
			panic(http.ErrAbortHandler) // HTTP/2: its streams are reset one by one
		}
		reset(conn)
	}
}

// Hang never answers.
func Hang(x *exchange) {
	x.wait = func(ctx context.Context) bool {
		<-ctx.Done()
		return false
	}
}

// Delay answers after d, or with nothing if the client goes before that.
func Delay(d time.Duration) Effect {
	return func(x *exchange) { x.wait = func(ctx context.Context) bool { return sleep(ctx, d) } }
}

func sleep(ctx context.Context, d time.Duration) bool {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-ctx.Done():
		return false
	case <-t.C:
		return true
	}
}

// Rewrite makes the server understand another request than was sent. The log shows what was sent.
func Rewrite(f func(r *Request)) Effect { return func(x *exchange) { f(&x.req) } }

// IgnoreStream is a server that does not know of streamed lists: it ignores the parameters, and watches.
func IgnoreStream(x *exchange) {
	if x.req.Verb == Stream {
		x.req.Verb = Watch
	}
	x.req.Options.SendInitialEvents, x.req.Options.ResourceVersionMatch = nil, ""
}

// AnyVersion is a server that ignores what version a read asks for: with [Lag], one that goes back in time.
func AnyVersion(x *exchange) {
	o := &x.req.Options
	o.ResourceVersion, o.ResourceVersionMatch = "0", ""
	if x.req.Verb == Stream {
		o.ResourceVersionMatch = metav1.ResourceVersionMatchNotOlderThan
	}
}

// Lag answers lists, and the initial events of watches, from a replica that is n versions behind, as a server may that is
// asked for any version. What it has not got to is too large for it. The events after them are those of the server itself.
func Lag(n uint64) Effect { return func(x *exchange) { x.lag = n } }

// ListMeta changes the metadata of a list: its resourceVersion, its continue token.
func ListMeta(f func(m *metav1.ListMeta)) Effect { return func(x *exchange) { x.listMeta = f } }

// At does something to the unit number n of a list or a stream: the first is 0. See [Start].
func At(n int, do ...UnitEffect) Effect {
	return func(x *exchange) {
		x.filters = append(x.filters, filter{func(i int, _ Unit) bool { return i == n }, do})
	}
}

// Start is the place before the first unit, at which also an answer without units can be cut, stalled or added to.
const Start = -1

// On does something to every unit that matches.
func On(match func(u Unit) bool, do ...UnitEffect) Effect {
	return func(x *exchange) {
		x.filters = append(x.filters, filter{func(i int, u Unit) bool { return i != Start && match(u) }, do})
	}
}

// IsEnd matches the bookmark that ends the initial events of a streamed list.
func IsEnd(u Unit) bool { return u.End }
