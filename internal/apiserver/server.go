// Package apiserver is an API server for tests and examples: package history behind HTTP, as a real one speaks it, with faults on
// demand. It lists, watches, reads and writes objects of any kind, in JSON and protobuf. It has no admission, validation, defaults,
// finalizers, patches or subresources: an object is what was written.
//
// A [Server] is an http.Handler. [Server.Start] gives it a port, [Server.Client] a client over in-memory connections, on which
// time is that of a synctest bubble. Faults are scripted with [Server.Inject], for requests to come, and [Server.Interrupt],
// for streams that are open.
package apiserver

import (
	"context"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"sync"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/go-lw/lw/internal/history"
)

// Options are what a server is made with.
type Options struct {
	Resources []Resource
	// Window is how many changes of a collection are kept for watches to resume from. 0: all, until they are compacted.
	Window int
}

// A Server serves collections that share one line of resource versions. It is safe for concurrent use.
type Server struct {
	// Line is the server's resource versions. Its methods do to all collections what happens to a real server: Compact, Rewind
	// to a backup, Wipe, Advance, Disconnect, Bookmark.
	Line        *history.Line
	collections []*Collection

	mu      sync.Mutex
	faults  []*armed
	log     []*Request // the last maxLog
	counts  map[Verb]int
	streams map[*answer]Request // the open ones, with what they answer
	fronts  []*front
	down    bool
}

// New returns a server without objects. It panics on a Resource without Resource or Kind.
func New(opts Options) *Server {
	s := &Server{
		Line:    history.NewLine(),
		counts:  map[Verb]int{},
		streams: map[*answer]Request{},
	}
	for _, res := range opts.Resources {
		if res.Resource == "" || res.Kind == "" {
			panic("apiserver: New: a Resource needs Resource and Kind")
		}
		if res.Version == "" {
			res.Version = "v1"
		}
		s.collections = append(s.collections, &Collection{
			Resource: res,
			history: history.NewCollection(s.Line, history.Options[*content]{
				Resource: res.groupResource(), Fields: res.Fields, Same: same, Window: opts.Window,
			}),
		})
	}
	return s
}

// Collection returns the collection of a plural. It panics where the server has none.
func (s *Server) Collection(resource string) *Collection {
	i := slices.IndexFunc(s.collections, func(c *Collection) bool { return c.Resource.Resource == resource })
	if i < 0 {
		panic(fmt.Sprintf("apiserver: no collection %q", resource))
	}
	return s.collections[i]
}

// A target is what a path names.
type target struct {
	collection *Collection
	key        types.NamespacedName
}

// find parses /api/v1/…, /apis/<group>/<version>/…: [namespaces/<namespace>/]<plural>[/<name>].
func (s *Server) find(path string) (t target, ok bool) {
	parts := strings.Split(strings.Trim(path, "/"), "/")
	var group string
	switch {
	case len(parts) >= 3 && parts[0] == "api":
		parts = parts[1:]
	case len(parts) >= 4 && parts[0] == "apis":
		group, parts = parts[1], parts[2:]
	default:
		return t, false
	}
	version, parts := parts[0], parts[1:]
	namespaced := len(parts) > 2 && parts[0] == "namespaces"
	if namespaced {
		t.key.Namespace, parts = parts[1], parts[2:]
	}
	if len(parts) > 2 {
		return t, false
	}
	if len(parts) == 2 {
		t.key.Name = parts[1]
	}
	for _, c := range s.collections {
		r := &c.Resource
		if r.Group == group && r.Version == version && r.Resource == parts[0] {
			t.collection = c
			return t, !(r.Cluster && namespaced)
		}
	}
	return t, false
}

// ServeHTTP answers a request, and does to it what a fault says that it matches.
func (s *Server) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	t, ok := s.find(r.URL.Path)
	if !ok {
		http.NotFound(w, r) // as a real server says it: in text
		return
	}
	req, err := newRequest(r, t)
	asked := *req
	s.note(req) // from here on the log's, which the recorder writes to
	recorder := &recorder{ResponseWriter: w, server: s, request: req}
	x := &exchange{w: recorder, r: r, req: asked, collection: t.collection}
	if err != nil {
		x.fail(err)
		return
	}
	if fault := s.faultOf(asked); fault != nil {
		fault(x)
	}
	if x.wait != nil && !x.wait(r.Context()) {
		return
	}
	if x.instead != nil {
		x.instead()
		return
	}
	x.serve(s)
}

// An exchange is a request on its way through the server, and what a fault has made of it.
type exchange struct {
	w          http.ResponseWriter
	r          *http.Request
	req        Request // as the server understands it
	collection *Collection

	wait     func(ctx context.Context) bool // before anything else; false: the client has gone
	instead  func()                         // answers instead of the server
	lag      uint64                         // how many versions the replica is behind
	listMeta func(m *metav1.ListMeta)
	filters  []filter
}

func (x *exchange) key() types.NamespacedName {
	return types.NamespacedName{Namespace: x.req.Namespace, Name: x.req.Name}
}

// negotiate returns the format of the answer, and the error of a request for another.
func (x *exchange) negotiate(partial string) (format, error) {
	f, ok := x.collection.Resource.negotiate(x.r.Header.Get("Accept"), partial)
	if !ok {
		return f, notAcceptable()
	}
	return f, nil
}

// fail answers with err's Status.
func (x *exchange) fail(err error) {
	f, _ := x.collection.Resource.negotiate(x.r.Header.Get("Accept"), "")
	writeStatus(x.w, f, statusOf(err))
}

func (x *exchange) serve(s *Server) {
	var err error
	switch x.req.Verb {
	case List:
		err = x.list()
	case Watch, Stream:
		err = x.watch(s)
	case Get:
		err = x.get()
	case Create, Update:
		err = x.put()
	case Delete:
		err = x.remove()
	default:
		err = apierrors.NewMethodNotSupported(x.collection.Resource.groupResource(), strings.ToLower(x.r.Method))
	}
	if err != nil {
		x.fail(err)
	}
}
