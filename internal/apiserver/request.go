package apiserver

import (
	"net/http"
	"slices"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/go-lw/lw/internal/listopts"
)

// A Verb says what a request wants.
type Verb string

const (
	List   Verb = "list"
	Watch  Verb = "watch"  // from a resource version
	Stream Verb = "stream" // a watch that begins with the list: sendInitialEvents (KEP-3157)
	Get    Verb = "get"
	Create Verb = "create"
	Update Verb = "update"
	Patch  Verb = "patch"
	Delete Verb = "delete"
	// DeleteCollection deletes what a list with the same options would show.
	DeleteCollection Verb = "deletecollection"
)

// A Request is a request of a client, and how it was answered.
type Request struct {
	Verb      Verb
	Group     string
	Resource  string
	Namespace string // "": all
	Name      string
	// Subresource is "status", or "" for the object itself.
	Subresource string
	Options     metav1.ListOptions // of a list, a watch or a stream
	Query       string             // the query of the URL
	Accept      string             // the header
	UserAgent   string             // the header
	Username    string             // what [Options.Username] has returned
	Time        time.Time          // when it came
	// Code is the HTTP status of the answer. It is 0 as long as there is none, and stays 0 if the
	// connection was cut before the answer.
	Code int
	// Meta is the metadata in the body of a create, an update or a patch, for the functions of
	// faults. The log does not have it. nil: there is none, or it cannot be read.
	Meta *metav1.ObjectMeta
}

// newRequest reads r. If there is an error, the Request is still good for the log.
func newRequest(r *http.Request, t target) (*Request, error) {
	req := &Request{
		Group:       t.collection.Resource.Group,
		Resource:    t.collection.Resource.Resource,
		Namespace:   t.key.Namespace,
		Name:        t.key.Name,
		Subresource: t.subresource,
		Query:       r.URL.RawQuery,
		Accept:      r.Header.Get("Accept"),
		UserAgent:   r.UserAgent(),
		Time:        time.Now(),
	}
	switch {
	case r.Method == http.MethodPost && (t.key.Name == "" || posts[t.subresource] != nil):
		req.Verb = Create
	case r.Method == http.MethodPut && t.key.Name != "":
		req.Verb = Update
	case r.Method == http.MethodPatch && t.key.Name != "":
		req.Verb = Patch
	case r.Method == http.MethodDelete && t.key.Name != "" && t.subresource == "":
		req.Verb = Delete
	case r.Method == http.MethodDelete && t.key.Name == "" && (t.collection.Resource.Cluster || t.key.Namespace != ""):
		req.Verb = DeleteCollection
		var err error
		req.Options, err = listopts.Parse(r.URL.Query())
		return req, err
	case r.Method == http.MethodGet && t.key.Name != "":
		req.Verb = Get
	case r.Method == http.MethodGet:
		req.Verb = List
	default:
		req.Verb = Verb(r.Method)
		return req, nil
	}
	if req.Verb != List {
		return req, nil
	}
	return req, req.parse(r)
}

// parse reads the options of a list or a watch.
func (req *Request) parse(r *http.Request) error {
	o, err := listopts.Parse(r.URL.Query())
	req.Options = o
	if o.Watch {
		req.Verb = Watch
		if o.SendInitialEvents != nil && *o.SendInitialEvents {
			req.Verb = Stream
		}
	}
	return err
}

// maxLog is the number of requests that are kept. The counts go on.
const maxLog = 4096

// logRequest adds req to the log and counts it.
func (s *Server) logRequest(req *Request) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.counts[req.Verb]++
	if len(s.log) == maxLog {
		s.log = slices.Delete(s.log, 0, maxLog/2)
	}
	s.log = append(s.log, req)
}

// Requests returns the last requests, oldest first, of the given verbs, or of all verbs if none is
// given.
func (s *Server) Requests(verbs ...Verb) []Request {
	s.mu.Lock()
	defer s.mu.Unlock()
	var out []Request
	for _, req := range s.log {
		if len(verbs) == 0 || slices.Contains(verbs, req.Verb) {
			out = append(out, *req)
		}
	}
	return out
}

// Count returns the number of all requests of a verb so far.
func (s *Server) Count(verb Verb) int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.counts[verb]
}

// A recorder writes the status of an answer to the log.
type recorder struct {
	http.ResponseWriter
	server  *Server
	request *Request
}

// Unwrap gives http.ResponseController the methods of the ResponseWriter: Flush and Hijack.
func (r *recorder) Unwrap() http.ResponseWriter { return r.ResponseWriter }

// WriteHeader records the status before it sends it, so that a client that has the answer finds its
// status in the log.
func (r *recorder) WriteHeader(code int) {
	r.server.mu.Lock()
	r.request.Code = code
	r.server.mu.Unlock()
	r.ResponseWriter.WriteHeader(code)
}
