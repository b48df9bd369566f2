package lwtest

import (
	"errors"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime/schema"
)

// An Outage is something that goes wrong with a server, and is over by itself after [Outage.Lasts] at most.
type Outage struct {
	Name  string
	Lasts time.Duration
	Do    func(s *Server)
}

// Outages returns what a controller should survive: each of them happens to clients of real API servers, and none loses what was
// written. A test that runs in a synctest bubble can afford all of them:
//
//	for _, outage := range lwtest.Outages() {
//		t.Run(outage.Name, func(t *testing.T) {
//			synctest.Test(t, func(t *testing.T) {
//				server := lwtest.NewServer(t, …)
//				// start the controller, let it settle
//				outage.Do(server)
//				// change something on the server
//				time.Sleep(outage.Lasts + 5*time.Minute)
//				// the controller must have done its work
//			})
//		})
//	}
//
// An informer pauses longer the longer an outage lasts, up to a minute and a half, and finds a watch that is silent for good only
// when its time is over: give it some minutes.
func Outages() []Outage {
	objects := schema.GroupResource{Resource: "objects"}
	return []Outage{
		{"the watch is closed", 0, func(s *Server) { s.Cut() }},
		{"the connection breaks", 0, func(s *Server) { s.Break() }},
		{"the watch has expired", 0, func(s *Server) {
			s.Error(apierrors.NewResourceExpired("too old resource version"))
		}},
		{"the history was compacted", time.Minute, func(s *Server) {
			// What is written while nobody watches is never told.
			s.SetDown(true)
			s.after(time.Minute, func() {
				s.Compact()
				s.SetDown(false)
			})
		}},
		{"an error ends the watch", 0, func(s *Server) {
			s.Error(apierrors.NewInternalError(errors.New("etcdserver: leader changed")))
		}},
		{"the server is down for a minute", time.Minute, func(s *Server) {
			s.SetDown(true)
			s.after(time.Minute, func() { s.SetDown(false) })
		}},
		{"reads are forbidden for a minute", time.Minute, func(s *Server) {
			s.refuseReads(time.Minute, apierrors.NewForbidden(objects, "", errors.New("the role was taken away")))
		}},
		{"the token is refused for a minute", time.Minute, func(s *Server) {
			s.refuseReads(time.Minute, apierrors.NewUnauthorized("the token has expired"))
		}},
		{"the collection is not found for a minute", time.Minute, func(s *Server) {
			s.refuseReads(time.Minute, apierrors.NewNotFound(objects, ""))
		}},
		{"requests are throttled for a minute", time.Minute, func(s *Server) {
			s.refuseReads(time.Minute, apierrors.NewTooManyRequests("the server has too many requests", 5))
		}},
		{"a proxy answers for a minute", time.Minute, func(s *Server) {
			s.breakReads(time.Minute, Reply(502, "text/html", "<html><title>502 Bad Gateway</title></html>"))
		}},
		{"answers are slow for a minute", time.Minute, func(s *Server) { s.breakReads(time.Minute, Delay(5*time.Second)) }},
		{"requests are not answered for a minute", time.Minute, func(s *Server) {
			s.breakReads(time.Minute, Hang())
			// Whoever waits for an answer that late gets none from a server that has forgotten the request.
			s.after(time.Minute, s.breakAll)
		}},
		{"the watch is silent for a minute", time.Minute, func(s *Server) {
			s.Stall()
			s.after(time.Minute, s.breakAll)
		}},
		{"lists break in the middle", time.Minute, func(s *Server) {
			s.Error(apierrors.NewResourceExpired("too old resource version"))
			s.breakReads(time.Minute, BreakAfter(1))
		}},
		{"streamed lists do not end", time.Minute, func(s *Server) {
			s.Error(apierrors.NewResourceExpired("too old resource version"))
			s.until(time.Minute, Fault{Verb: Stream, Times: -1, Effect: NoEnd()})
		}},
		{"a replica lags behind", time.Minute, func(s *Server) {
			s.Error(apierrors.NewResourceExpired("too old resource version"))
			s.until(time.Minute, Fault{Times: -1, Effect: Lag(3)})
		}},
	}
}

// until injects f, and takes it back after d.
func (s *Server) until(d time.Duration, f Fault) {
	over := time.Now().Add(d)
	match := f.Match
	f.Match = func(r Request) bool { return time.Now().Before(over) && (match == nil || match(r)) }
	s.Inject(f)
}

// breakReads does effect to the reads of the next d, to those that are open too.
func (s *Server) breakReads(d time.Duration, effect Effect) {
	for _, verb := range []Verb{List, Watch, Stream, Get} {
		s.until(d, Fault{Verb: verb, Times: -1, Effect: effect})
	}
	s.Break()
}

func (s *Server) refuseReads(d time.Duration, err error) { s.breakReads(d, Fail(err)) }
