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
func (s Start) Run(t *testing.T) (seen Record) {
	synctest.Test(t, func(*testing.T) {
		server := newServer(s.Model)
		all := server.start(s.Client, s.Clients, s.Within)
		server.await(s.Wait)
		seen = server.record()
		all.stop(server)
	})
	return seen
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
func (r Restart) Run(t *testing.T) (seen Record) {
	synctest.Test(t, func(*testing.T) {
		// The clients are to have synced before. How fast does not matter, so it costs nothing.
		quick := r.Model
		quick.StreamCPU, quick.PageCPU, quick.WholeCPU, quick.RequestCPU, quick.ConnectCPU = 0, 0, 0, 0, 0
		quick.Link, quick.Seats, quick.EventCPU = 1e15, 1<<30, 0
		server := newServer(quick)
		all := server.start(r.Client, r.Clients, 30*time.Second)
		server.await(5 * time.Minute)
		// By now nobody doubts the server, and the ages of the watches differ.
		time.Sleep(time.Minute)
		server.begin(r.Model)
		server.die()
		time.Sleep(r.Down)
		server.restart(r.Fills, r.Lost)
		server.await(r.Wait - r.Down)
		time.Sleep(r.After)
		seen = server.record()
		all.stop(server)
	})
	return seen
}
