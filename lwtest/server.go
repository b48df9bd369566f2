package lwtest

import (
	"context"
	"fmt"
	"iter"
	"net/http"
	"strconv"
	"sync"
	"testing"
	"time"

	"github.com/go-lw/lw"
	"github.com/go-lw/lw/internal/apiserver"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// A Resource is a kind of objects that a [Server] serves.
type Resource struct {
	Group   string // "" for the core group
	Version string // default: v1
	Plural  string // as it stands in URLs: pods
	Kind    string
	Cluster bool // the objects have no namespace
	// Fields are the paths that field selectors may use beside metadata.name and metadata.namespace: spec.nodeName.
	Fields []string
}

// A Server is an API server in memory: it lists, watches, reads and writes objects over HTTP, in JSON, with the versions,
// history, pages, bookmarks, streamed lists, selectors and errors of a real one. It has no admission, validation, defaults,
// patches or subresources: an object is what was written.
//
// Faults are asked for: [Server.Inject] for requests to come, [Server.Cut] and the methods beside it for what is open. What a
// test itself reads and writes by a [Collection] never meets one. A Server is safe for concurrent use.
type Server struct {
	server *apiserver.Server
	client *http.Client
	ctx    context.Context // done when the server is closed
	cancel context.CancelFunc

	mu     sync.Mutex
	timers sync.WaitGroup // of outages that heal; started under mu, and not after cancel
}

// NewServer returns a server of resources that is closed when the test ends. Made in a synctest bubble, it lives in the bubble's
// time. It panics on a Resource without Plural or Kind.
func NewServer(t testing.TB, resources ...Resource) *Server {
	var opts apiserver.Options
	for _, r := range resources {
		opts.Resources = append(opts.Resources, apiserver.Resource{
			Group: r.Group, Version: r.Version, Resource: r.Plural, Kind: r.Kind, Cluster: r.Cluster, Custom: r.Group != "", Fields: r.Fields,
		})
	}
	s := &Server{server: apiserver.New(opts)}
	s.client = s.server.Client()
	s.ctx, s.cancel = context.WithCancel(context.Background())
	t.Cleanup(s.close)
	return s
}

func (s *Server) close() {
	s.mu.Lock()
	s.cancel()
	s.mu.Unlock()
	s.timers.Wait()
	s.server.Close()
	s.client.CloseIdleConnections()
}

// after calls f after d, unless the server is closed before that.
func (s *Server) after(d time.Duration, f func()) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.ctx.Err() != nil {
		return
	}
	s.timers.Go(func() {
		t := time.NewTimer(d)
		defer t.Stop()
		select {
		case <-t.C:
			f()
		case <-s.ctx.Done():
		}
	})
}

// Client returns a client of the server, whose connections do not leave the process. In a rest.Config its Transport is the
// Transport, and [Server.URL] the Host.
func (s *Server) Client() *http.Client { return s.client }

// URL returns where the server is for its [Server.Client].
func (s *Server) URL() string { return "http://apiserver" }

// Listen serves on a port of the loopback interface too, for programs that bring a client of their own, and returns its URL. It is
// of no use in a synctest bubble.
func (s *Server) Listen() (url string, err error) {
	url, _, err = s.server.Start("127.0.0.1:0")
	return url, err
}

// ServeHTTP answers one request.
func (s *Server) ServeHTTP(w http.ResponseWriter, r *http.Request) { s.server.ServeHTTP(w, r) }

// ResourceVersion returns the version of the last write.
func (s *Server) ResourceVersion() string { return strconv.FormatUint(s.server.Line.Version(), 10) }

// A Collection is the objects of one [Resource] on a server, for the test itself. T is any type with the JSON of the Resource's
// objects, of which the zero value of its struct can be decoded into.
type Collection[T lw.Object] struct {
	server *Server
	*typed[T]
}

// Objects returns the collection of a plural as objects of type T. It panics where the server has none.
func Objects[T lw.Object](s *Server, plural string) *Collection[T] {
	return &Collection[T]{server: s, typed: newTyped[T](s.server.Collection(plural))}
}

// URL returns where the collection is, of one namespace where that is not empty.
func (c *Collection[T]) URL(namespace string) string {
	return c.server.URL() + c.collection.URL(namespace)
}

// Source returns the collection as a source over HTTP, with all that can go wrong on the way.
func (c *Collection[T]) Source() *lw.HTTP[T] {
	return &lw.HTTP[T]{URL: c.URL(""), Client: c.server.Client(), Kind: c.collection.Resource.Kind}
}

// Create adds an object, and returns it as it is stored. It fails with AlreadyExists or Invalid.
func (c *Collection[T]) Create(obj T) (T, error) { return c.decode(c.collection.Create(obj)) }

// Update replaces an object, and returns it as it is stored. It fails with NotFound, and with Conflict where obj carries another
// resource version than that. An update that changes nothing makes no version.
func (c *Collection[T]) Update(obj T) (T, error) { return c.decode(c.collection.Update(obj)) }

// Delete removes an object at once. It fails with NotFound.
func (c *Collection[T]) Delete(key lw.Key) error {
	_, err := c.collection.Delete(key)
	return err
}

// Get returns an object. It fails with NotFound.
func (c *Collection[T]) Get(key lw.Key) (T, error) { return c.decode(c.collection.Get(key)) }

// All yields the objects as they were when the loop began, in the order of their keys. It panics where one cannot be decoded.
func (c *Collection[T]) All() iter.Seq[T] {
	return func(yield func(T) bool) {
		objs, err := c.collection.StateAt(c.server.server.Line.Version())
		if err != nil {
			panic(fmt.Sprintf("lwtest: All: %v", err)) // the present state is always there
		}
		for _, o := range objs {
			obj, err := c.decode(o, nil)
			if err != nil {
				panic(err.Error())
			}
			if !yield(obj) {
				return
			}
		}
	}
}

// A Verb is what a request wants.
type Verb string

const (
	List   Verb = "list"
	Watch  Verb = "watch"  // from a resource version on
	Stream Verb = "stream" // a watch that begins with the list
	Get    Verb = "get"
	Create Verb = "create"
	Update Verb = "update"
	Delete Verb = "delete"
)

// A Request is one that came in.
type Request struct {
	Verb      Verb
	Plural    string // of the resource
	Namespace string // "": all
	Name      string
	Options   metav1.ListOptions // of a List, Watch or Stream
	Time      time.Time
	Code      int // the HTTP status of the answer; 0 while there is none
}

func requestOf(r apiserver.Request) Request {
	return Request{
		Verb: Verb(r.Verb), Plural: r.Resource, Namespace: r.Namespace, Name: r.Name,
		Options: r.Options, Time: r.Time, Code: r.Code,
	}
}

// Requests returns the last requests, some thousands of them, of verbs, or all where there are none, in the order in which they
// came.
func (s *Server) Requests(verbs ...Verb) []Request {
	var of []apiserver.Verb
	for _, v := range verbs {
		of = append(of, apiserver.Verb(v))
	}
	var out []Request
	for _, r := range s.server.Requests(of...) {
		out = append(out, requestOf(r))
	}
	return out
}
