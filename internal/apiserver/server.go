// Package apiserver is an API server for tests and examples: package history behind HTTP, with
// faults on demand. It lists, watches, reads and writes objects of any kind, in JSON and protobuf,
// as https://kubernetes.io/docs/reference/using-api/api-concepts/ describes. Package registry
// decides about writes, and asks the functions of a [Resource] for their admission. The garbage
// collector acts when it is told to; see [Server.Collect].
//
// Package serve answers the same requests, for programs that run. It does not stand behind this
// server, because the tests of serve would compare it with itself then, and because it sends what is
// there now, while tests ask for past versions and for faults in the middle of an answer. What both
// do stands once, in packages history, registry and wire.
//
// A [Server] is an http.Handler. [Server.Start] gives it a port. [Server.Client] returns a client
// over connections in memory, which work within a synctest bubble and its time. [Server.Inject]
// scripts faults for requests to come, and [Server.Interrupt] for streams that are open.
package apiserver

import (
	"cmp"
	"context"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"

	"github.com/go-lw/lw/internal/history"
	"github.com/go-lw/lw/internal/registry"
	"github.com/go-lw/lw/internal/wire"
)

// Options configure a server.
type Options struct {
	Resources []Resource
	// Window is the number of changes that a collection keeps for watches to resume from; of large
	// objects it may keep fewer. 0: all are kept until they are compacted.
	Window int
	// Wrap, if it is not nil, returns what answers on the connections of [Server.Start] and
	// [Server.Client] in place of the server, which it is given: as a proxy does, or a protocol
	// that the server does not speak. Faults and SetDown break the connections that it has taken
	// over, too.
	Wrap func(http.Handler) http.Handler
	// Username, if it is not nil, names the user of a request by its context.
	Username func(ctx context.Context) string
}

// A Server serves collections that share one line of resource versions. It is safe for concurrent
// use.
type Server struct {
	// Line is the server's resource versions. Its methods do to all collections what happens to a
	// real server: Compact, Rewind (to a backup), Wipe, Advance, Disconnect and Bookmark.
	Line        *history.Line
	definitions definitions
	window      int          // Options.Window
	wrapped     http.Handler // what answers on connections
	username    func(ctx context.Context) string

	mu      sync.Mutex // guards the fields below
	faults  []*armed   // those that are not used up, in the order of Inject
	log     []*Request // the last requests, at most maxLog
	counts  map[Verb]int
	streams map[*answer]Request // the open watches and streams, with the requests they answer
	fronts  []*front
	down    bool
	unshard bool // shard selectors of requests are ignored
	// collections is replaced as a whole: definitions come and go.
	collections []*Collection
}

// New returns a server without objects. It panics if a Resource has no Resource or no Kind.
func New(opts Options) *Server {
	s := &Server{
		window:   opts.Window,
		Line:     history.NewLine(),
		username: opts.Username,
		counts:   map[Verb]int{},
		streams:  map[*answer]Request{},
	}
	s.wrapped = s
	if opts.Wrap != nil {
		s.wrapped = opts.Wrap(s)
	}
	for _, res := range opts.Resources {
		if res.Resource == "" || res.Kind == "" {
			panic("apiserver: New: a Resource needs Resource and Kind")
		}
		res.complete()
		c := &Collection{
			Resource: res,
			history:  s.newHistory(&res, nil), served: new(atomic.Bool), home: s.home,
		}
		c.kind, c.storage = c.Resource.kind(), c
		c.served.Store(true)
		versions := []*Collection{c}
		for _, version := range res.Versions {
			versions = append(versions, c.inVersion(version, c.served))
		}
		for _, also := range res.Also {
			also.complete()
			also.Convert, also.selects = res.Convert, res.Fields
			versions = append(versions, c.shownAs(also, c.served))
		}
		if len(versions) > 1 {
			relate(&res, versions)
		}
		s.collections = append(s.collections, versions...)
		if res.Defines {
			s.definitions.begin(s, c)
		}
	}
	return s
}

// newHistory returns the history of the resource. field is its Options.Field.
func (s *Server) newHistory(res *Resource, field func(*stored, string) string) *history.Collection[*content] {
	opts := history.Options[*content]{
		Resource: res.groupResource(), Fields: res.Fields, Window: s.window, Field: field,
	}
	if s.window > 0 {
		opts.Size, opts.Bytes = size, 16<<20
	}
	return history.NewCollection(s.Line, opts)
}

// inVersion returns the collection in another version.
func (c *Collection) inVersion(version string, served *atomic.Bool) *Collection {
	r := c.Resource
	r.Version, r.Type, r.Proto, r.Schema = version, nil, nil, nil
	return c.shownAs(r, served)
}

// shownAs returns the collection as one of r.
func (c *Collection) shownAs(r Resource, served *atomic.Bool) *Collection {
	view := &Collection{Resource: r, storage: c, history: c.history, served: served, wrote: c.wrote, home: c.home}
	view.kind = view.Resource.kind()
	return view
}

// relate tells the engine of writes which collections are one resource.
func relate(r *Resource, versions []*Collection) {
	convert := r.ConvertManaged
	if convert == nil {
		convert = r.Convert
	}
	kinds := make([]*registry.Kind, len(versions))
	for i, c := range versions {
		kinds[i] = c.kind
	}
	registry.Relate(convert, kinds...)
}

// all returns the collections. The caller must not change the slice.
func (s *Server) all() []*Collection {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.collections
}

// Collection returns the collection of a resource, by its plural and group as kubectl names it
// ("pods", "deployments.apps"), or by the plural alone if that is clear enough: the first one has
// it. It panics if the server has none.
func (s *Server) Collection(resource string) *Collection {
	for _, names := range []func(r *Resource) string{
		func(r *Resource) string { return r.groupResource().String() },
		func(r *Resource) string { return r.Resource },
	} {
		for _, c := range s.all() {
			if c.storage == c && names(&c.Resource) == resource {
				return c
			}
		}
	}
	panic(fmt.Sprintf("apiserver: no collection %q", resource))
}

// home says why a namespace takes no new objects: if Namespaces end here, it must be one that does
// not.
func (s *Server) home(namespace string) error {
	for _, c := range s.all() {
		if !c.Resource.Ends {
			continue
		}
		ns, err := c.history.Get(types.NamespacedName{Name: namespace})
		if err == nil && ns.Value.Object.Field("status.phase") == registry.Terminating {
			err = registry.ErrTerminating
		}
		return err
	}
	return nil
}

// SetShards says whether the server selects by the shard selectors of requests, and echoes them in
// lists (https://kep.k8s.io/5866). At first it does, as Kubernetes does from 1.38 on; after
// SetShards(false) it ignores them, as older servers do, and those without the feature gate
// ShardedListAndWatch. Watches that are open do not change.
func (s *Server) SetShards(on bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.unshard = !on
}

func (s *Server) hasShards() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return !s.unshard
}

// A target is what the path of a request names. The name in key is empty for a collection, and the
// namespace for all namespaces.
type target struct {
	collection  *Collection
	key         types.NamespacedName
	subresource string
}

// find returns what a path names. t has the collection although ok is false if the subresource
// alone is unknown.
func (s *Server) find(path string) (t target, ok bool) {
	p, ok := wire.ParsePath(path)
	if !ok || p.Wrong || p.Longer || p.Verb != "" {
		return t, false
	}
	if p.Group == "" && p.Resource == bindings && p.Name == "" { // the older path, of a Binding by itself
		p.Resource, p.Subresource = "pods", registry.SubBinding
	}
	t.key, t.subresource = types.NamespacedName{Namespace: p.Namespace, Name: p.Name}, p.Subresource
	for _, c := range s.all() {
		r := &c.Resource
		if r.Group == p.Group && r.Version == p.Version && r.Resource == p.Resource && c.served.Load() && !(r.Cluster && p.Namespaced) {
			t.collection = c
			return t, t.subresource == "" || slices.Contains(c.subs(), t.subresource)
		}
	}
	return t, false
}

// ServeHTTP answers a request. If a fault matches the request, it first does to the request what
// the fault says.
func (s *Server) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	t, ok := s.find(r.URL.Path)
	if !ok && t.collection != nil {
		x := &exchange{w: w, r: r, collection: t.collection}
		err := error(apierrors.NewNotFound(t.collection.Resource.groupResource(), t.key.Name))
		if registry.BuiltIn(t.collection.Resource.Group) {
			err = routed(http.StatusNotFound)
		}
		x.fail(err)
		return
	}
	if !ok || t.collection.Resource.Review && t.key.Name != "" {
		s.other(w, r)
		return
	}
	req, err := newRequest(r, t)
	if s.username != nil {
		req.Username = s.username(r.Context())
	}
	if t.collection.Resource.Review && req.Verb != Create {
		req.Verb = Verb(r.Method)
	}
	asked := *req
	s.logRequest(req) // from here on req belongs to the log, and only the recorder writes to it
	recorder := &recorder{ResponseWriter: w, server: s, request: req}
	x := &exchange{w: recorder, r: r, req: asked, collection: t.collection}
	if !s.hasShards() {
		x.req.Options.ShardSelector = ""
	}
	if err == nil {
		err = t.collection.Resource.rename(&x.req.Options)
	}
	if err != nil {
		x.fail(err)
		return
	}
	if fault := s.faultOf(x, asked); fault != nil {
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

// other answers a request that is about no resource. No fault applies to it, and the log of
// requests does not have it.
func (s *Server) other(w http.ResponseWriter, r *http.Request) {
	core := strings.HasPrefix(r.URL.Path, "/api/")
	group, _, _ := strings.Cut(strings.TrimPrefix(r.URL.Path, "/apis/"), "/")
	switch d := (wire.Discovery{Resources: s.discovered, Version: wire.ServerVersion}); {
	case slices.Contains([]string{"/healthz", "/livez", "/readyz"}, r.URL.Path):
		wire.WriteBody(w, "text/plain; charset=utf-8", http.StatusOK, []byte("ok"))
	case r.URL.Path == "/":
		paths := append(wire.RootPaths(s.discovered()), "/healthz", "/livez", "/openapi/v2", "/openapi/v3", "/readyz", "/version")
		wire.WriteBody(w, "application/json", http.StatusOK, append(mustJSON(metav1.RootPaths{Paths: paths}), '\n'))
	case d.Serve(w, r):
	case core || group != "" && registry.BuiltIn(group):
		f, _ := wire.Negotiate(r.Header.Get("Accept"), wire.WantStatus, func(f wire.Format) bool { return f.Shape == wire.Full })
		wire.WriteStatus(w, f, wire.Status(routed(http.StatusNotFound)))
	default:
		http.NotFound(w, r) // in plain text, as kube-apiserver where no group is
	}
}

// An exchange is a request while the server answers it, with what a fault has changed. It belongs
// to the goroutine of the request.
type exchange struct {
	w          http.ResponseWriter
	r          *http.Request
	req        Request // as the server understands it, which a fault may have changed
	collection *Collection
	include    metav1.IncludeObjectPolicy // of a table

	// The effects of a fault; see Effect.
	// wait is called before anything else. It returns false if the client has gone.
	wait     func(ctx context.Context) bool
	instead  func() // answers in place of the server
	written  Effect // happens between a write and its answer
	lag      uint64 // how many versions behind the replica is that answers
	trail    time.Duration
	ends     *timedEnd
	listMeta func(m *metav1.ListMeta)
	filters  []filter
}

func (x *exchange) key() types.NamespacedName {
	return types.NamespacedName{Namespace: x.req.Namespace, Name: x.req.Name}
}

// negotiate returns the format of the answer. A write calls it before it does anything.
func (x *exchange) negotiate(want wire.Want) (wire.Format, error) {
	has := x.collection.Resource.has
	if x.req.Subresource == registry.SubScale && want == wire.WantObject {
		has = func(f wire.Format) bool { return f == fullJSON }
	}
	f, err := wire.Negotiate(x.r.Header.Get("Accept"), want, has)
	if err == nil && f.Shape == wire.Table {
		x.include, err = wire.IncludeObject(x.r.URL.Query().Get("includeObject"))
	}
	return f, err
}

// notAllowed is the error of a method that the path does not have. kube-apiserver's router refuses
// it for kinds that are built in, and names none.
func (x *exchange) notAllowed() error {
	r := &x.collection.Resource
	if registry.BuiltIn(r.Group) {
		return routed(http.StatusMethodNotAllowed)
	}
	verb := map[string]string{"POST": "create", "PUT": "update", "HEAD": "get"}[x.r.Method]
	return apierrors.NewMethodNotSupported(r.groupResource(), cmp.Or(verb, strings.ToLower(x.r.Method)))
}

// routed is an error of kube-apiserver's router, which knows the path alone.
func routed(code int) error {
	err := apierrors.NewGenericServerResponse(code, "", schema.GroupResource{}, "", "", 0, false)
	err.ErrStatus.Details = &metav1.StatusDetails{}
	return err
}

// fail answers with the Status of err.
func (x *exchange) fail(err error) {
	f, _ := x.negotiate(wire.WantStatus) // JSON if there is none
	wire.WriteStatus(x.w, f, wire.Status(err))
}

// serve answers the request as the server does.
func (x *exchange) serve(s *Server) {
	var err error
	if answer := posts[x.req.Subresource]; answer != nil {
		if err = answer(x, s); err != nil {
			x.fail(err)
		}
		return
	}
	switch x.req.Verb {
	case List:
		err = x.list()
	case Watch, Stream:
		err = x.watch(s)
	case Get:
		err = x.get()
	case Create, Update, Patch, Delete:
		err = x.write()
	case DeleteCollection:
		err = x.removeAll()
	default:
		err = x.notAllowed()
	}
	if err != nil {
		x.fail(err)
	}
}
