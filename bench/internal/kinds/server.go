package kinds

import (
	"io"
	"net/http"
	"strconv"
	"strings"
	"sync"

	"github.com/go-lw/lw/bench/internal/child"
)

// A server serves a collection of n objects for each resource that somebody asks for. Informers see
// no difference from an API server that has streamed lists. It sends MODIFIED events when a client
// asks for them.
type server struct {
	*child.Server
	n int

	mu      sync.Mutex
	watches map[chan int]bool // the open watches; a watch sends as many events as it receives
}

func newServer(n int) *server {
	s := &server{n: n, watches: map[chan int]bool{}}
	mux := http.NewServeMux()
	mux.HandleFunc("GET /apis/bench.example.com/v1/{resource}", s.collection)
	mux.HandleFunc("POST /emit", s.emit)
	s.Server = child.NewServer(mux)
	return s
}

// kindOf returns the kind of a resource: Kind7 for kind7s.
func kindOf(resource string) string {
	return "K" + strings.TrimSuffix(strings.TrimPrefix(resource, "k"), "s")
}

// emit makes each open watch send n events.
func (s *server) emit(w http.ResponseWriter, r *http.Request) {
	n, err := strconv.Atoi(r.FormValue("n"))
	if err != nil {
		http.Error(w, err.Error(), http.StatusBadRequest)
		return
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	for orders := range s.watches {
		orders <- n
	}
}

// collection answers a list or a watch.
func (s *server) collection(w http.ResponseWriter, r *http.Request) {
	kind, q := kindOf(r.PathValue("resource")), r.URL.Query()
	w.Header().Set("Content-Type", "application/json")
	if watch, _ := strconv.ParseBool(q.Get("watch")); !watch {
		_, _ = io.WriteString(w, list(kind, s.n))
		return
	}
	orders := make(chan int, 16)
	s.mu.Lock()
	s.watches[orders] = true
	s.mu.Unlock()
	defer func() {
		s.mu.Lock()
		defer s.mu.Unlock()
		delete(s.watches, orders)
	}()
	out := http.NewResponseController(w)
	send := func(event string) bool {
		_, err := io.WriteString(w, event)
		return err == nil && out.Flush() == nil
	}
	if q.Get("sendInitialEvents") == "true" {
		for i := range s.n {
			if !send(event("ADDED", object(kind, i, firstVersion+i))) {
				return
			}
		}
		if !send(bookmark(kind, firstVersion+s.n)) {
			return
		}
	} else if out.Flush() != nil {
		return
	}
	for version := firstVersion + s.n + 1; ; {
		select {
		case n := <-orders:
			for i := range n {
				if !send(event("MODIFIED", object(kind, i%s.n, version))) {
					return
				}
				version++
			}
		case <-r.Context().Done():
			return
		}
	}
}
