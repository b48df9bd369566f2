package simulate

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/go-lw/lw/lwtest"
)

// errDown is what a program that has crashed meets: it has no network any more.
var errDown = errors.New("simulate: the program has crashed")

// A gate is all that a program sees of the server: it holds each request, each answer and each
// event until the scheduler lets it pass. Its lock is never held while something waits.
type gate struct {
	server *lwtest.Server
	wake   chan struct{} // has an item when something has come since it was last emptied

	mu       sync.Mutex
	life     int // which start of the program has a network
	requests []*request
	watches  []*watch
	opened   int // how many watches there have been
	leased   int // the start that has written a lease
	deposed  int // the one that no longer may
	// What the server has said to each list and watch that it has refused; "": it has answered once.
	refused map[string]string
}

func newGate(s *lwtest.Server) *gate {
	return &gate{server: s, wake: make(chan struct{}, 1), refused: map[string]string{}}
}

func (g *gate) ring() {
	select {
	case g.wake <- struct{}{}:
	default:
	}
}

// A request is held from when the program makes it until the program has its answer.
type request struct {
	http                         *http.Request // without its body
	body                         []byte
	life                         int
	verb                         lwtest.Verb
	group, version               string
	plural, namespace, name, sub string
	round                        int            // the rest at which the scheduler saw it first; 0: it has not
	answer                       *http.Response // what the server has said, and is held
	err                          error
	late                         time.Time // when the answer comes that a fault keeps; zero: none does
	slow                         bool      // a fault has kept the answer
	done                         chan struct{}
}

// path names the object of a request.
func (r *request) path() string {
	s := r.plural
	for _, part := range []string{r.namespace, r.name, r.sub} {
		if part != "" {
			s += "/" + part
		}
	}
	return s
}

func (r *request) key() string {
	return fmt.Sprintf("%s %s?%s %x", r.verb, r.path(), r.http.URL.RawQuery, r.body)
}

func (r *request) writes() bool {
	switch r.verb {
	case lwtest.Create, lwtest.Update, lwtest.Patch, lwtest.Delete, lwtest.DeleteCollection:
		return true
	}
	return false
}

// parse says what a request is for; false: it is for discovery.
func (r *request) parse() bool {
	parts := strings.Split(strings.Trim(r.http.URL.Path, "/"), "/")
	switch {
	case len(parts) >= 3 && parts[0] == "api":
		r.version, parts = parts[1], parts[2:]
	case len(parts) >= 4 && parts[0] == "apis":
		r.group, r.version, parts = parts[1], parts[2], parts[3:]
	default:
		return false
	}
	if len(parts) > 2 && parts[0] == "namespaces" && !(len(parts) == 3 && parts[2] == "status") {
		r.namespace, parts = parts[1], parts[2:]
	}
	for i, to := range []*string{&r.plural, &r.name, &r.sub} {
		if i < len(parts) {
			*to = parts[i]
		}
	}
	query := r.http.URL.Query()
	switch r.http.Method {
	case http.MethodGet:
		switch {
		case query.Get("watch") == "true" || query.Get("watch") == "1":
			r.verb = lwtest.Watch
		case r.name == "":
			r.verb = lwtest.List
		default:
			r.verb = lwtest.Get
		}
	case http.MethodPost:
		r.verb = lwtest.Create
	case http.MethodPut:
		r.verb = lwtest.Update
	case http.MethodPatch:
		r.verb = lwtest.Patch
	case http.MethodDelete:
		r.verb = lwtest.Delete
		if r.name == "" {
			r.verb = lwtest.DeleteCollection
		}
	}
	return true
}

// A network is the transport of one start of the program.
type network struct {
	*gate
	life int
}

// RoundTrip holds a request until the scheduler answers it.
func (n network) RoundTrip(of *http.Request) (*http.Response, error) {
	var body []byte
	if of.Body != nil {
		var err error
		body, err = io.ReadAll(of.Body)
		_ = of.Body.Close()
		if err != nil {
			return nil, err
		}
	}
	asked := of.Clone(of.Context())
	asked.Header.Del("Accept-Encoding")
	plain(asked.Header)
	query := asked.URL.Query()
	query.Del("timeoutSeconds") // a random one would end a watch at a random time
	asked.URL.RawQuery = query.Encode()
	asked.RequestURI, asked.Body = asked.URL.RequestURI(), nil
	r := &request{http: asked, body: body, life: n.life, done: make(chan struct{})}
	known := r.parse()
	n.mu.Lock()
	if n.life != n.gate.life {
		n.mu.Unlock()
		return nil, errDown
	}
	if !known || unheld[r.plural] {
		if r.plural == "leases" && r.writes() {
			n.leased = n.life + 1
		}
		refused := r.plural == "leases" && n.deposed == n.life+1
		n.mu.Unlock()
		if refused {
			return nil, errLost
		}
		return n.serve(r), nil
	}
	n.requests = append(n.requests, r)
	n.mu.Unlock()
	n.ring()
	select {
	case <-r.done:
		return r.answer, r.err
	case <-of.Context().Done():
		n.mu.Lock()
		defer n.mu.Unlock()
		n.requests = slices.DeleteFunc(n.requests, func(o *request) bool { return o == r })
		return nil, of.Context().Err()
	}
}

// refuseLease lets the program write its lease no more; false: it has none.
func (g *gate) refuseLease() bool {
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.leased != g.life+1 {
		return false
	}
	g.deposed = g.leased
	return true
}

// unheld are resources of which each request is answered at once: they describe a program, and are
// not what it does.
var unheld = map[string]bool{"events": true, "leases": true}

// plain asks for JSON where the client takes it, which stories can show.
func plain(h http.Header) {
	var accept []string
	for _, kind := range strings.Split(h.Get("Accept"), ",") {
		if strings.HasPrefix(strings.TrimSpace(kind), "application/json") {
			accept = append(accept, kind)
		}
	}
	if len(accept) == 0 {
		accept = []string{"application/json"}
	}
	h.Set("Accept", strings.Join(accept, ","))
}

// serve asks the server, and returns its answer. A watch goes on in a goroutine.
func (g *gate) serve(r *request) *http.Response {
	if r.verb == lwtest.Watch {
		return g.watch(r)
	}
	w := &recorder{header: http.Header{}, code: http.StatusOK}
	asked := r.http.Clone(context.Background())
	asked.Body = io.NopCloser(bytes.NewReader(r.body))
	asked.ContentLength = int64(len(r.body))
	if r.plural == "pods" && r.sub == "binding" {
		bind(g.server, w, r)
	} else {
		g.server.ServeHTTP(w, asked)
	}
	if r.verb == lwtest.List {
		g.lists(r, w.code, w.body.String())
	}
	return w.response(r.http, &answered{all: w.body.Bytes()})
}

// drop lets a request fail, and forgets it.
func (g *gate) drop(r *request, err error) {
	r.answer, r.err = nil, err
	g.release(r)
}

// release gives a request its answer.
func (g *gate) release(r *request) {
	g.mu.Lock()
	g.requests = slices.DeleteFunc(g.requests, func(o *request) bool { return o == r })
	g.mu.Unlock()
	close(r.done)
}

// crash takes the network from the program, and gives it to the next start of it.
func (g *gate) crash() {
	g.mu.Lock()
	g.life++
	requests, watches := g.requests, g.watches
	g.requests, g.watches = nil, nil
	g.mu.Unlock()
	for _, r := range requests {
		g.drop(r, errDown)
	}
	for _, w := range watches {
		w.end(errDown)
	}
}

// open returns what is held, in an order that does not depend on goroutines.
func (g *gate) open() ([]*request, []*watch) {
	g.mu.Lock()
	defer g.mu.Unlock()
	slices.SortStableFunc(g.requests, func(a, b *request) int { return strings.Compare(a.key(), b.key()) })
	return slices.Clone(g.requests), slices.Clone(g.watches)
}

// A recorder is the ResponseWriter of an answer that is there at once.
type recorder struct {
	header http.Header
	code   int
	body   bytes.Buffer
}

func (w *recorder) Header() http.Header         { return w.header }
func (w *recorder) WriteHeader(code int)        { w.code = code }
func (w *recorder) Write(b []byte) (int, error) { return w.body.Write(b) }
func (w *recorder) Flush()                      {}

func (w *recorder) response(of *http.Request, body io.ReadCloser) *http.Response {
	return &http.Response{
		Status: fmt.Sprintf("%d %s", w.code, http.StatusText(w.code)), StatusCode: w.code, Proto: "HTTP/1.1", ProtoMajor: 1, ProtoMinor: 1,
		Header: w.header, Body: body, ContentLength: -1, Request: of,
	}
}

// An answered is the body of an answer that is there at once.
type answered struct {
	all  []byte
	read int
}

func (a *answered) Read(b []byte) (int, error) {
	n := copy(b, a.all[a.read:])
	if a.read += n; n == 0 {
		return 0, io.EOF
	}
	return n, nil
}

func (a *answered) Close() error { return nil }

// object says which object was created.
func (a *answered) object() (name, uid string) {
	var of struct{ Metadata struct{ Name, UID string } }
	_ = json.Unmarshal(a.all, &of) // an error has no name
	return of.Metadata.Name, of.Metadata.UID
}
