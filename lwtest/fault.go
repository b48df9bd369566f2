package lwtest

import (
	"time"

	"github.com/go-lw/lw/internal/apiserver"
)

// A Fault says which requests go wrong, and how. A request that matches several faults gets the one
// that was injected first and is not used up.
type Fault struct {
	Verb   Verb   // "" matches every verb
	Plural string // the resource's plural, or with its group as in deployments.apps; "" matches every resource

	// Match narrows the fault further. It is called in the request's goroutine, without a lock, and
	// may be called by several at once. Nil matches every request.
	Match func(r Request) bool

	Skip  int // the number of matching requests to leave alone first
	Times int // how often the fault happens: 0 means once, a negative number until Clear

	// Effect is what happens to the request. The zero Effect answers the request as usual, and so
	// protects it from faults that were injected later.
	Effect Effect
}

// An Effect is what a fault does to a request. The functions of this package that return an Effect
// make them; [All] makes one of several, and [Choose] decides for each request.
type Effect struct{ do apiserver.Effect }

// Inject adds a fault for future requests.
func (s *Server) Inject(f Fault) {
	fault := apiserver.Fault{Verb: apiserver.Verb(f.Verb), Resource: f.Plural, Skip: f.Skip, Times: f.Times, Do: f.Effect.do}
	if f.Match != nil {
		fault.Match = func(r apiserver.Request) bool { return f.Match(requestOf(r)) }
	}
	s.server.Inject(fault)
}

// Clear removes all faults that are not used up. It also breaks every open connection, so that a
// watch that [StallAfter] or [Server.Stall] stalled ends as well.
func (s *Server) Clear() {
	s.server.Clear()
	s.breakAll()
}

// breakAll breaks every connection, also the stalled ones, on which no fault takes effect any more.
func (s *Server) breakAll() {
	s.server.SetDown(true)
	s.server.SetDown(false)
}

// Armed returns the number of faults that are not used up.
func (s *Server) Armed() int { return s.server.Armed() }

// Fail answers with err, an error made by k8s.io/apimachinery/pkg/api/errors: NewForbidden,
// NewTooManyRequests, NewResourceExpired. The answer has its status, and a Retry-After header if it
// suggests a delay. Any other error is answered with status 500.
func Fail(err error) Effect { return Effect{apiserver.Fail(err)} }

// Reply answers with a status code, a content type and a body, such as a proxy's HTML page.
func Reply(code int, contentType, body string) Effect {
	return Effect{apiserver.Reply(code, contentType, body)}
}

// Reset closes the connection without an answer.
func Reset() Effect { return Effect{apiserver.Reset} }

// Hang leaves the request without an answer.
func Hang() Effect { return Effect{apiserver.Hang} }

// Delay answers after d.
func Delay(d time.Duration) Effect { return Effect{apiserver.Delay(d)} }

// Until answers when the channel is closed.
func Until(released <-chan struct{}) Effect { return Effect{apiserver.Until(released)} }

// Written lets e happen after the write that the request wants, where e alone happens before it.
// Written(Reset()) loses the answer of a write that is done, Written(Fail(err)) replaces it, and
// Written(Delay(d)) and Written(Until(ch)) hold it back. A request that writes nothing is answered
// as usual.
func Written(e Effect) Effect { return Effect{apiserver.Written(e.do)} }

// All is several effects on one request: All(Trail(d), CutIn(t)) is a watch that lags, and ends. Its
// waits add up. Where more than one answers in place of the server, the first one counts; where more
// than one ends a watch after a time, the earliest.
func All(effects ...Effect) Effect {
	var all []apiserver.Effect
	for _, e := range effects {
		all = append(all, e.do)
	}
	return Effect{apiserver.All(all...)}
}

// Choose has f decide about each request, and so makes a schedule: with Times: -1 one Fault gives
// every request its own effect, by its number, its object, or a seed. The zero Effect leaves a
// request as it is. Like a Match, f is called in the request's goroutine, and by several at once.
func Choose(f func(r Request) Effect) Effect {
	return Effect{apiserver.Choose(func(r apiserver.Request) apiserver.Effect { return f(requestOf(r)).do })}
}

// Overtake has somebody else write the object first: an annotation comes and goes before an update,
// a patch or a delete. So a write with a resourceVersion meets the conflict that a real server
// answers when two write at once, with the two events that a watch then sees. A Resource's Default
// and Validate are not asked about them.
func Overtake() Effect { return Effect{apiserver.Overtake} }

// Trail has each event of a watch, and of a streamed list, come d late. Unlike those of [Slow], the
// delays do not add up: a watch that is a second late is so after 20 events too. [Lag] is what lists
// have.
func Trail(d time.Duration) Effect { return Effect{apiserver.Trail(d)} }

// Slow waits for d before each object of a list and before each event of a watch.
func Slow(d time.Duration) Effect {
	return Effect{apiserver.On(func(apiserver.Unit) bool { return true }, apiserver.Wait(d))}
}

// Lag answers lists, and the initial events of streamed lists, from a replica that is that many
// versions behind, as a real server may if the request allows an older version. A request for a
// version that the replica has not reached fails with "too large resource version".
func Lag(versions uint64) Effect { return Effect{apiserver.Lag(versions)} }

// NoStreams ignores the parameters of a streamed list and answers with an ordinary watch, as a
// server does that does not know streamed lists.
func NoStreams() Effect { return Effect{apiserver.IgnoreStream} }

// NoEnd leaves out the bookmark that ends the initial events of a streamed list.
func NoEnd() Effect { return Effect{apiserver.On(apiserver.IsEnd, apiserver.Drop)} }

// CutAfter ends the answer after n objects or events. A watch ends cleanly; a list ends within its
// JSON.
func CutAfter(n int) Effect { return Effect{apiserver.At(n, apiserver.Cut)} }

// BreakAfter breaks the connection after n objects or events, in the middle of the next one.
func BreakAfter(n int) Effect { return Effect{apiserver.At(n, apiserver.Break)} }

// StallAfter sends nothing more after n objects or events, and leaves the connection open.
func StallAfter(n int) Effect { return Effect{apiserver.At(n, apiserver.Stall)} }

// CutIn ends a watch cleanly, d after it has begun. What [Trail] holds back then never comes.
func CutIn(d time.Duration) Effect { return Effect{apiserver.In(d, apiserver.Cut)} }

// BreakIn breaks the connection of a watch d after it has begun, amid an event.
func BreakIn(d time.Duration) Effect { return Effect{apiserver.In(d, apiserver.Break)} }

// ErrorIn ends a watch d after it has begun by an ERROR event with err, such as NewResourceExpired.
// If d is 0, nothing comes before it.
func ErrorIn(d time.Duration, err error) Effect {
	return Effect{apiserver.In(d, apiserver.Error(err))}
}

// Spoil replaces a member of an object by a JSON value that does not fit its type: Spoil(0,
// "spec.size", `"big"`). The object is the one after n others. The value "" removes the member.
func Spoil(n int, path, value string) Effect {
	return Effect{apiserver.At(n, apiserver.Set(path, value))}
}

// Twice sends the event after n others two times. A correct server never does that.
func Twice(n int) Effect { return Effect{apiserver.At(n, apiserver.Replay(0))} }

// Lose leaves out the event after n others. A correct server never does that, and no client can
// detect it.
func Lose(n int) Effect { return Effect{apiserver.At(n, apiserver.Drop)} }

// Cut ends every open watch cleanly, between two events, and returns their number. It returns
// before the watches have ended; so do Break, Stall and Error.
func (s *Server) Cut() int { return s.server.Interrupt(nil, apiserver.Cut) }

// Break breaks the connection of every open watch, and returns their number.
func (s *Server) Break() int { return s.server.Interrupt(nil, apiserver.Break) }

// Stall sends nothing more on the open watches, leaves them open, and returns their number.
// [Server.Clear] ends them.
func (s *Server) Stall() int { return s.server.Interrupt(nil, apiserver.Stall) }

// Error sends err as an ERROR event on every open watch and ends the watch. It returns their
// number.
func (s *Server) Error(err error) int { return s.server.Interrupt(nil, apiserver.Error(err)) }

// Bookmark makes every open watch that allows bookmarks send one now. Without it such a watch sends
// one every minute, and one two seconds before its time is over.
func (s *Server) Bookmark() { s.server.Line.Bookmark() }

// Compact forgets all versions but the current one. A list or watch from an older version then
// fails with 410 Expired, and so does an open watch that has not yet sent all changes.
func (s *Server) Compact() { s.server.Line.Compact(s.server.Line.Version()) }

// Advance increases the resource version by n, as writes to other collections do.
func (s *Server) Advance(n uint64) { s.server.Line.Advance(n) }

// Restore returns to the state of n versions ago and ends every watch, as a server does when it is
// restored from a backup. It fails with Expired if that state was compacted.
func (s *Server) Restore(n uint64) error {
	now := s.server.Line.Version()
	return s.server.Line.Rewind(now - min(n, now-1))
}

// SetDown stops the server or starts it again. While it is down, connections are refused; those
// that are open break.
func (s *Server) SetDown(down bool) { s.server.SetDown(down) }
