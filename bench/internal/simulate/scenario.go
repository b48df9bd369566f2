package simulate

import (
	"testing"
	"testing/synctest"
	"time"
)

// A Start is the start of many clients at about the same time.
type Start struct {
	Model   Model
	Clients int
	Client  Client
	Within  time.Duration // in which they start
	Wait    time.Duration // for all to watch
}

// Run returns what the server has seen until all clients watched.
func (c Start) Run(t *testing.T) (r Record) {
	synctest.Test(t, func(*testing.T) {
		s := newServer(c.Model)
		all := s.start(c.Client, c.Clients, c.Within)
		s.await(c.Wait)
		r = s.record()
		all.stop(s)
	})
	return r
}

// await returns as soon as all clients watch, and at the latest after d.
func (s *Server) await(d time.Duration) {
	for end := time.Now().Add(d); time.Now().Before(end); {
		time.Sleep(100 * time.Millisecond)
		if s.record().Watching > 0 {
			return
		}
	}
}

// A Restart is the death of a server that many clients watch, and its new start.
type Restart struct {
	Model   Model
	Clients int
	Client  Client
	Down    time.Duration // how long connections are refused
	Fills   time.Duration // how long its watch cache then takes
	Lost    bool          // whether the versions before are lost
	Wait    time.Duration // for all to watch again, since the death
	After   time.Duration // how long the record goes on after that
}

// Run returns what the server has seen since its death.
func (c Restart) Run(t *testing.T) (r Record) {
	synctest.Test(t, func(*testing.T) {
		// The clients are to have synced before. How fast does not matter, so it costs nothing.
		quick := c.Model
		quick.StreamCPU, quick.PageCPU, quick.WholeCPU, quick.RequestCPU, quick.ConnectCPU = 0, 0, 0, 0, 0
		quick.Link, quick.Seats, quick.EventCPU = 1e15, 1<<30, 0
		s := newServer(quick)
		all := s.start(c.Client, c.Clients, 30*time.Second)
		s.await(5 * time.Minute)
		// By now nobody doubts the server, and the ages of the watches differ.
		time.Sleep(time.Minute)
		s.begin(c.Model)
		s.die()
		time.Sleep(c.Down)
		s.restart(c.Fills, c.Lost)
		s.await(c.Wait - c.Down)
		time.Sleep(c.After)
		r = s.record()
		all.stop(s)
	})
	return r
}
