package wire

import (
	"encoding/json"
	"net/http"
	"strconv"
	"strings"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/go-lw/lw/bench/internal/child"
)

// A server serves a collection of objects. Informers see no difference from an API server. It sends
// MODIFIED events when a client asks for them. Only one client at a time may use it.
type server struct {
	*child.Server
	collections map[Format]*collection
	emit        chan order
}

// An order is for MODIFIED events, which the open watch must send. It brings each object in turn,
// of those that can change their status.
type order struct {
	n      int
	change string // what each event changes
}

// newServer returns a server of n objects in the formats, of which the first changing ones change.
func newServer(k kind, formats []Format, n, changing int) (*server, error) {
	s := &server{collections: map[Format]*collection{}, emit: make(chan order)}
	for _, format := range formats {
		format = answer(string(format))
		if s.collections[format] != nil {
			continue
		}
		of, encoding := k, format
		if format == protobufMetadata {
			of, encoding = metadataOf(k), Protobuf
		}
		c, err := newCollection(of, encoding, n, changing)
		if err != nil {
			return nil, err
		}
		s.collections[format] = c
	}
	mux := http.NewServeMux()
	// See streamed.
	mux.HandleFunc("GET /{streams}"+k.path, s.get)
	mux.HandleFunc("POST /emit", func(_ http.ResponseWriter, r *http.Request) {
		n, err := strconv.Atoi(r.FormValue("n"))
		if err == nil {
			s.emit <- order{n, r.FormValue("change")}
		}
	})
	s.Server = child.NewServer(mux)
	return s, nil
}

// get answers a list or a watch.
func (s *server) get(w http.ResponseWriter, r *http.Request) {
	c := s.collections[answer(r.Header.Get("Accept"))]
	if c == nil {
		http.Error(w, "the case has another encoding", http.StatusNotAcceptable)
		return
	}
	q := r.URL.Query()
	if watch, _ := strconv.ParseBool(q.Get("watch")); !watch {
		s.list(w, c, q.Get("limit"), q.Get("continue"), q.Get("resourceVersion"))
		return
	}
	initial := q.Get("sendInitialEvents") == "true"
	if initial && r.PathValue("streams") == listed {
		w.Header().Set("Content-Type", string(JSON))
		w.WriteHeader(http.StatusUnprocessableEntity)
		_ = json.NewEncoder(w).Encode(apierrors.NewInvalid(schema.GroupKind{Kind: "ListOptions"}, "", nil).ErrStatus)
		return
	}
	s.watch(w, r, c, initial)
}

// answer returns the format of the answer to an Accept header: JSON, if it is none that the server
// has.
func answer(accept string) Format {
	for _, f := range []Format{protobufMetadata, Protobuf} {
		if strings.HasPrefix(accept, string(f)) {
			return f
		}
	}
	return JSON
}

// list answers a list. For version "0", which means any version, it ignores the limit, as an API
// server does when it answers from its watch cache.
func (s *server) list(w http.ResponseWriter, c *collection, limit, from, version string) {
	first, _ := strconv.Atoi(from)
	last, next := len(c.frames), ""
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

// watch sends the events of a watch. It flushes after each Write, as an API server does.
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
		for i := range c.frames {
			if !send(c.frames[i].bytes) {
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
	states := make([]state, len(c.restarted))
	for version := len(c.frames); ; {
		select {
		case o := <-s.emit:
			if o.change == gone {
				if b, err := c.gone(); err == nil {
					send(b)
				}
				return
			}
			for i := range o.n {
				i %= len(states)
				states[i] = states[i].after(o.change)
				if !send(c.modified(i, states[i], version)) {
					return
				}
				version++
			}
		case <-r.Context().Done():
			return
		}
	}
}

// What an event changes besides the version.
const (
	changedStatus  = "status"  // the status and the managed fields of the kubelet
	changedVersion = "version" // nothing
	changedLabel   = "label"   // a label
)

// gone is the change of an order that ends the watch with 410 Gone.
const gone = "gone"

// after returns the state after a change.
func (s state) after(change string) state {
	switch change {
	case changedStatus:
		s.restarted = !s.restarted
	case changedLabel:
		s.moved = !s.moved
	}
	return s
}
