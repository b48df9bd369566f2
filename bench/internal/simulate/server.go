// Package simulate runs thousands of real clients against a model of an API server. All of them run
// in a bubble of testing/synctest, in which time passes as soon as everybody waits. So nothing of
// the clients is modelled: their requests, backoff, timeouts and decoders are those of a program.
// The server is a model: it has cores, a link, priority and fairness, and a watch cache, and what
// its work costs are parameters.
package simulate

import (
	"slices"
	"sync"
	"sync/atomic"
	"time"
)

// A Model is what a server has, and what its work costs it.
type Model struct {
	Cores int
	Link  float64 // bytes a second
	RTT   time.Duration

	Objects int // of the collection
	Bytes   int // of an object in a response

	// The CPU time of an object in a stream, in a page and in a whole list, of a delivery of an
	// event to a watcher, of a request, and of a connection that is opened.
	StreamCPU, PageCPU, WholeCPU, EventCPU, RequestCPU, ConnectCPU time.Duration

	WatcherBytes int // of the server's memory for a watcher and its connection

	Seats    int           // of the priority level of all clients
	Queue    int           // the requests that may wait for seats
	Patience time.Duration // for which they may

	Events int // a second
}

// Kube returns a server of that many cores. The costs are those that verify/e2e/cmd measures of a
// k8s.io/apiserver that serves pods in protobuf; the seats and the queue are those of
// kube-apiserver for the priority level workload-low with its default flags.
func Kube(cores, objects int) Model {
	return Model{
		Cores: cores, Link: 1.25e9, RTT: time.Millisecond,
		Objects: objects, Bytes: 4200,
		StreamCPU: 58 * time.Microsecond, PageCPU: 41 * time.Microsecond, WholeCPU: 32 * time.Microsecond,
		EventCPU: 95 * time.Microsecond, RequestCPU: 300 * time.Microsecond, ConnectCPU: 1100 * time.Microsecond,
		WatcherBytes: 101 << 10,
		Seats:        245, Queue: 6400, Patience: 15 * time.Second,
		Events: 10,
	}
}

// A Server is a model of an API server. It is used within a bubble, by any of its goroutines.
type Server struct {
	model atomic.Pointer[Model]
	cpu   *cores
	link  *cores // with one core: bytes go one after the other
	seats *seats
	rec   recorder
	quit  chan struct{} // closed when all is over

	mu sync.Mutex
	// died is closed when the server dies, and then nil until it lives again.
	died    chan struct{}
	lives   int       // how often it has started
	ready   time.Time // when the watch cache is filled
	version uint64    // at counted
	counted time.Time
	oldest  uint64 // the oldest version from which a watch can start
	final   uint64 // the version at the last death
	clients int    // that should watch
	live    int    // that do
}

// newServer returns a server whose watch cache is filled.
func newServer(m Model) *Server {
	s := &Server{
		cpu: &cores{free: make([]time.Time, m.Cores)}, link: &cores{free: make([]time.Time, 1)}, seats: &seats{},
		quit: make(chan struct{}), died: make(chan struct{}), lives: 1, version: firstVersion, counted: time.Now(),
	}
	s.begin(m)
	return s
}

// firstVersion is the resource version of a new server.
const firstVersion = 1_000_000

// begin begins a new record, from which on the server is like m, with as many cores as before. It
// must not be called while lists are being served.
func (s *Server) begin(m Model) {
	s.model.Store(&m)
	s.cpu.reset()
	s.link.reset()
	s.seats.reset(m.Seats, m.Queue)
	s.rec.mu.Lock()
	defer s.rec.mu.Unlock()
	s.rec.start, s.rec.r, s.rec.lists = time.Now(), Record{}, 0
}

// record returns what has happened since begin.
func (s *Server) record() Record {
	s.rec.mu.Lock()
	defer s.rec.mu.Unlock()
	r := s.rec.r
	r.CPU, r.Queue = s.cpu.used(), s.seats.mostQueued()
	for k := range r.Arrivals {
		r.Arrivals[k] = slices.Clone(r.Arrivals[k])
	}
	r.Served = slices.Clone(r.Served)
	return r
}

// expect sets the number of clients that are to watch.
func (s *Server) expect(clients int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.clients = clients
}

// die breaks all connections. Until restart is called, connections are refused.
func (s *Server) die() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.countLocked()
	s.final = s.version
	close(s.died)
	s.died, s.live = nil, 0
}

// restart starts a server that has died. For as long as it fills its watch cache it answers with
// 429 and Retry-After. If lost is set, watches cannot be resumed from a version of before, as with
// a real server whose startup writes.
func (s *Server) restart(fills time.Duration, lost bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.died, s.lives, s.ready, s.counted = make(chan struct{}), s.lives+1, time.Now().Add(fills), time.Now()
	if lost {
		s.version += 5
		s.oldest = s.version
	}
}

// countLocked brings the version up to date.
func (s *Server) countLocked() {
	n := uint64(time.Since(s.counted).Seconds() * float64(s.model.Load().Events))
	if n > 0 {
		s.version += n
		s.counted = time.Now()
	}
}

// now returns the server's version, or that of its last death.
func (s *Server) now(dead bool) uint64 {
	s.mu.Lock()
	defer s.mu.Unlock()
	if dead {
		return s.final
	}
	if s.died != nil {
		s.countLocked()
	}
	return s.version
}

// watches notes that a client has begun to watch, or has stopped, in a life of the server.
func (s *Server) watches(d, life int) {
	s.mu.Lock()
	if life != s.lives || s.died == nil {
		s.mu.Unlock()
		return
	}
	s.live += d
	all := s.live == s.clients
	s.mu.Unlock()
	if d > 0 {
		s.rec.watching(all)
	}
}

// deliver lets the deliveries of events load the server's cores, until quit is closed.
func (s *Server) deliver() {
	const step = 100 * time.Millisecond
	t := time.NewTicker(step)
	defer t.Stop()
	for wait(t.C, s.quit) < 0 {
		m := s.model.Load()
		s.mu.Lock()
		n := float64(s.live) * float64(m.Events) * step.Seconds()
		s.mu.Unlock()
		if n == 0 {
			continue
		}
		// Each core has its share, as the goroutines of the watchers do.
		share := time.Duration(n * float64(m.EventCPU) / float64(m.Cores))
		for range m.Cores {
			s.cpu.done(share)
		}
	}
}
