package lwtest

import (
	"errors"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime/schema"
)

// An Outage is a failure of a server that ends by itself.
type Outage struct {
	Name  string
	Lasts time.Duration   // the failure is over at most so long after Do
	Do    func(s *Server) // starts the failure, and returns at once
}

// Outages returns the failures that a controller should survive. Each of them happens to clients of
// real API servers, and in none is a write lost. In a synctest bubble time costs nothing, so a test
// can run all of them:
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
// Give the controller some minutes after an outage. An informer's pauses between requests grow
// with the length of the outage, up to a minute and a half. And it notices a silent watch only
// when the watch's time is over.
func Outages() []Outage {
	objects := schema.GroupResource{Resource: "objects"}
	return []Outage{
		{"the watch is closed", 0, func(s *Server) { s.Cut() }},
		{"the connection breaks", 0, func(s *Server) { s.Break() }},
		{"the watch has expired", 0, func(s *Server) {
			s.Error(apierrors.NewResourceExpired("too old resource version"))
		}},
		{"the history was compacted", time.Minute, func(s *Server) {
			// No watch can resume: the versions of the minute without a connection are gone.
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
			// After the minute nobody answers the requests that hang, so their clients would wait
			// for ever. Break their connections, as a server does that restarts.
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

// until injects f for d. Afterwards the fault stays in the server's list, but matches nothing.
func (s *Server) until(d time.Duration, f Fault) {
	over := time.Now().Add(d)
	match := f.Match
	f.Match = func(r Request) bool { return time.Now().Before(over) && (match == nil || match(r)) }
	s.Inject(f)
}

// breakReads applies effect to all reads for d. It breaks the open watches, so that they are
// requested again and meet the effect too.
func (s *Server) breakReads(d time.Duration, effect Effect) {
	for _, verb := range []Verb{List, Watch, Stream, Get} {
		s.until(d, Fault{Verb: verb, Times: -1, Effect: effect})
	}
	s.Break()
}

// refuseReads answers all reads with err for d.
func (s *Server) refuseReads(d time.Duration, err error) { s.breakReads(d, Fail(err)) }
