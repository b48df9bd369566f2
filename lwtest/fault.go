package lwtest

import (
	"time"

	"github.com/go-lw/lw/internal/apiserver"
)

// A Fault says which requests go wrong, and how. A request meets the first fault that was injected, matches it and is not used up.
type Fault struct {
	Verb   Verb                 // "": every one
	Plural string               // of the resource; "": every one
	Match  func(r Request) bool // nil: every one; called in the request's goroutine, without a lock
	Skip   int                  // so many requests that match are spared first
	Times  int                  // 0: once; below 0: until Clear
	Effect Effect               // the zero Effect spares the request what was injected later
}

// An Effect is what a fault does to a request.
type Effect struct{ do apiserver.Effect }

// Inject makes requests to come go wrong.
func (s *Server) Inject(f Fault) {
	fault := apiserver.Fault{Verb: apiserver.Verb(f.Verb), Resource: f.Plural, Skip: f.Skip, Times: f.Times, Do: f.Effect.do}
	if f.Match != nil {
		fault.Match = func(r apiserver.Request) bool { return f.Match(requestOf(r)) }
	}
	s.server.Inject(fault)
}

// Clear takes back all faults that are not used up, and breaks the watches that are stalled, together with all others.
func (s *Server) Clear() {
	s.server.Clear()
	s.breakAll()
}

// breakAll breaks every connection, also those on which nothing is sent any more.
func (s *Server) breakAll() {
	s.server.SetDown(true)
	s.server.SetDown(false)
}

// Armed returns how many faults are not used up.
func (s *Server) Armed() int { return s.server.Armed() }

// Fail answers with err's Status, with a Retry-After where it has one, or with 500 where err is none of an API server. Errors are
// made by k8s.io/apimachinery/pkg/api/errors: NewForbidden, NewTooManyRequests, NewResourceExpired.
func Fail(err error) Effect { return Effect{apiserver.Fail(err)} }

// Reply answers with a body of its own, such as a proxy's page.
func Reply(code int, contentType, body string) Effect {
	return Effect{apiserver.Reply(code, contentType, body)}
}

// Reset closes the connection without an answer.
func Reset() Effect { return Effect{apiserver.Reset} }

// Hang never answers.
func Hang() Effect { return Effect{apiserver.Hang} }

// Delay answers after d.
func Delay(d time.Duration) Effect { return Effect{apiserver.Delay(d)} }

// Slow sends each object of a list, and each event of a watch, d after the one before.
func Slow(d time.Duration) Effect {
	return Effect{apiserver.On(func(apiserver.Unit) bool { return true }, apiserver.Wait(d))}
}

// Lag answers lists from a replica that is so many versions behind, as a server may that is asked for any version.
func Lag(versions uint64) Effect { return Effect{apiserver.Lag(versions)} }

// NoStreams is a server that does not know of streamed lists, and watches instead.
func NoStreams() Effect { return Effect{apiserver.IgnoreStream} }

// NoEnd leaves out the bookmark that ends the initial events of a streamed list.
func NoEnd() Effect { return Effect{apiserver.On(apiserver.IsEnd, apiserver.Drop)} }

// CutAfter ends the answer after n objects or events: a watch cleanly, a list in the middle.
func CutAfter(n int) Effect { return Effect{apiserver.At(n, apiserver.Cut)} }

// BreakAfter breaks the connection in the middle of what comes after n objects or events.
func BreakAfter(n int) Effect { return Effect{apiserver.At(n, apiserver.Break)} }

// StallAfter sends nothing after n objects or events, and leaves the connection open.
func StallAfter(n int) Effect { return Effect{apiserver.At(n, apiserver.Stall)} }

// Spoil changes a member of the object after n others to a JSON value, so that it does not fit its type: Spoil(0, "spec.size",
// `"big"`). The value "" removes it.
func Spoil(n int, path, value string) Effect {
	return Effect{apiserver.At(n, apiserver.Set(path, value))}
}

// Twice sends the event after n others two times, as no server should.
func Twice(n int) Effect { return Effect{apiserver.At(n, apiserver.Replay(0))} }

// Lose leaves out the event after n others, as no server should. No client can know.
func Lose(n int) Effect { return Effect{apiserver.At(n, apiserver.Drop)} }

// Cut ends every open watch cleanly, between two events, and returns how many these are.
func (s *Server) Cut() int { return s.server.Interrupt(nil, apiserver.Cut) }

// Break breaks the connection of every open watch, and returns how many these are.
func (s *Server) Break() int { return s.server.Interrupt(nil, apiserver.Break) }

// Stall sends nothing on the open watches any more, without an end, and returns how many these are.
func (s *Server) Stall() int { return s.server.Interrupt(nil, apiserver.Stall) }

// Error sends err as an ERROR event on every open watch, and ends it. It returns how many these are.
func (s *Server) Error(err error) int { return s.server.Interrupt(nil, apiserver.Error(err)) }

// Bookmark makes every open watch that allows bookmarks send one. By itself the server sends them once a minute and before the end.
func (s *Server) Bookmark() { s.server.Line.Bookmark() }

// Compact forgets all states but the present one, so that to list or watch from an older version is answered with 410 Expired.
func (s *Server) Compact() { s.server.Line.Compact(s.server.Line.Version()) }

// Advance moves the resource versions on by n, as writes to other collections do.
func (s *Server) Advance(n uint64) { s.server.Line.Advance(n) }

// Restore goes back to the state of n versions ago, as a server does that is restored from a backup, and ends every watch. It fails
// with Expired where that state was compacted.
func (s *Server) Restore(n uint64) error {
	now := s.server.Line.Version()
	return s.server.Line.Rewind(now - min(n, now-1))
}

// SetDown makes the server one that does not run, or runs again: connections are refused, and those that are open break.
func (s *Server) SetDown(down bool) { s.server.SetDown(down) }
