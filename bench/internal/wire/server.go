package wire

import (
	"encoding/json"
	"encoding/pem"
	"net/http"
	"net/http/httptest"
	"strconv"
	"strings"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime/schema"
)

// A server serves a collection of pods. Informers see no difference from an API server. It sends
// MODIFIED events when a client asks for them. Only one client at a time may use it.
type server struct {
	plain, tls  *httptest.Server
	collections map[Format]*collection
	emit        chan order
}

// An order is for MODIFIED events, which the open watch must send. It brings each pod in turn.
type order struct {
	n      int
	status bool // another status each time, else only another version
}

func newServer(n int) (*server, error) {
	s := &server{collections: map[Format]*collection{}, emit: make(chan order)}
	for _, format := range []Format{JSON, Protobuf} {
		c, err := newCollection(format, n)
		if err != nil {
			return nil, err
		}
		s.collections[format] = c
	}
	mux := http.NewServeMux()
	// The first element of the path says whether the server supports streamed lists.
	mux.HandleFunc("GET /{streams}/api/v1/pods", s.pods)
	mux.HandleFunc("POST /emit", func(_ http.ResponseWriter, r *http.Request) {
		n, err := strconv.Atoi(r.FormValue("n"))
		if err == nil {
			s.emit <- order{n, r.FormValue("change") == changedStatus}
		}
	})
	s.plain = httptest.NewServer(mux)
	s.tls = httptest.NewUnstartedServer(mux)
	s.tls.EnableHTTP2 = true
	s.tls.StartTLS()
	return s, nil
}

func (s *server) close() {
	s.plain.CloseClientConnections()
	s.tls.CloseClientConnections()
	s.plain.Close()
	s.tls.Close()
}

// ca returns the certificate of the TLS server.
func (s *server) ca() []byte {
	return pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: s.tls.Certificate().Raw})
}

// pods answers a list or a watch.
func (s *server) pods(w http.ResponseWriter, r *http.Request) {
	c := s.collections[JSON]
	if strings.HasPrefix(r.Header.Get("Accept"), string(Protobuf)) {
		c = s.collections[Protobuf]
	}
	q := r.URL.Query()
	if watch, _ := strconv.ParseBool(q.Get("watch")); !watch {
		s.list(w, c, q.Get("limit"), q.Get("continue"), q.Get("resourceVersion"))
		return
	}
	initial := q.Get("sendInitialEvents") == "true"
	if initial && r.PathValue("streams") != streamed {
		w.Header().Set("Content-Type", string(JSON))
		w.WriteHeader(http.StatusUnprocessableEntity)
		_ = json.NewEncoder(w).Encode(apierrors.NewInvalid(schema.GroupKind{Kind: "ListOptions"}, "", nil).ErrStatus)
		return
	}
	s.watch(w, r, c, initial)
}

// list answers a list. For version "0", which means any version, it ignores the limit, as an API
// server does when it answers from its watch cache.
func (s *server) list(w http.ResponseWriter, c *collection, limit, from, version string) {
	first, _ := strconv.Atoi(from)
	last, next := len(c.items), ""
	if n, _ := strconv.Atoi(limit); n > 0 && version != "0" && first+n < last {
		last = first + n
		next = strconv.Itoa(last)
	}
	body, err := c.list(first, last, next)
	if err != nil {
		http.Error(w, err.Error(), http.StatusInternalServerError)
		return
	}
	w.Header().Set("Content-Type", string(c.format))
	_, _ = w.Write(body)
}

// watch sends the events of a watch. It flushes after each event, as an API server does.
func (s *server) watch(w http.ResponseWriter, r *http.Request, c *collection, initial bool) {
	contentType := string(c.format)
	if c.format == Protobuf {
		contentType += ";stream=watch"
	}
	w.Header().Set("Content-Type", contentType)
	out := http.NewResponseController(w)
	send := func(b []byte) bool {
		_, err := w.Write(b)
		return err == nil && out.Flush() == nil
	}
	if initial {
		for _, f := range c.frames {
			if !send(f.bytes) {
				return
			}
		}
		end, err := c.bookmark()
		if err != nil || !send(end) {
			return
		}
	} else if out.Flush() != nil {
		return
	}
	restarted := make([]bool, len(c.frames))
	for write := len(c.frames); ; {
		select {
		case o := <-s.emit:
			for i := range o.n {
				i %= len(c.frames)
				if o.status {
					restarted[i] = !restarted[i]
				}
				if !send(c.modified(i, restarted[i], write)) {
					return
				}
				write++
			}
		case <-r.Context().Done():
			return
		}
	}
}
