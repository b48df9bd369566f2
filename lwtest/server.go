package lwtest

import (
	"context"
	"fmt"
	"iter"
	"net/http"
	"reflect"
	"strconv"
	"sync"
	"testing"
	"time"

	"github.com/go-lw/lw"
	"github.com/go-lw/lw/internal/apiserver"
	"github.com/go-lw/lw/internal/registry"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
)

// A Resource is a type of objects that a [Server] serves.
type Resource struct {
	Group   string // "" for the core group
	Version string // default: v1
	Plural  string // the name in URLs, such as pods
	Kind    string
	Cluster bool // the objects have no namespace
	// ShortNames are those by which kubectl finds the resource. Nil: those of Kubernetes' own.
	ShortNames []string

	// Status says that the status is a subresource, as that of nearly every built-in resource: a
	// client changes it at the path of the object with /status after it, and nothing else there. A
	// Node and a ServiceCIDR keep the status that they are created with, as on a real server.
	Status bool
	// Scale adds the subresource scale, of spec.replicas and status.replicas, which clients of
	// client-go and kubectl know how to scale by.
	Scale bool
	// Schema is the OpenAPI schema of a custom resource, in JSON or YAML: what stands below
	// openAPIV3Schema. It says which fields there are, of a Resource without a Type, and which lists
	// have keys, and checks the values of each write, also the test's own: but for the rules of
	// x-kubernetes-validations, as a CustomResourceDefinition does. What an update leaves as it was may
	// stay wrong.
	Schema []byte
	// Versions are others in which the objects are served, as any JSON. They are stored in Version, to
	// which Fields belong. Convert makes obj one of another version. Nil: the versions differ by their
	// apiVersion alone, as those of a custom resource with the strategy None.
	Versions []string
	Convert  func(obj *unstructured.Unstructured, version string) error
	// ConvertManaged is Convert for the managers of fields, who are read in the version that they have
	// written in. A real server neither prunes nor fills in there, and fails an apply if that version's
	// schema lacks a field of the object. Nil: Convert.
	ConvertManaged func(obj *unstructured.Unstructured, version string) error
	// Also are Resources that show the same objects, with what else they say of their own: the Events
	// of events.k8s.io are those of the core group. Convert is given the version of another group with
	// that group, such as events.k8s.io/v1. The Fields are other names of this Resource's, in the same
	// order. [Objects] does not know them.
	Also []Resource
	// Type is a value of the objects' Go type, such as &corev1.Pod{}. Then clients may use protobuf
	// and strategic merge patches, and fields that the type does not have are pruned and warned of, as
	// on a real server. Nil: objects are any JSON, as those of a custom resource without a schema.
	Type runtime.Object
	// Grace is for Pods: a deleted one that is on a node and has not ended stays for its kubelet until
	// a deletion with gracePeriodSeconds=0, as on a real server. Without it a Pod is gone at once.
	Grace bool
	// Linger is how long a Pod with Grace that is gone at once is there before, with its
	// deletionTimestamp. A real server writes that to etcd first, and clients rely on seeing it.
	Linger time.Duration
	// Ends is for Namespaces: they have the finalizer and the phase of a real server's, and a deleted
	// one is Terminating until a client takes the finalizer away at /finalize, as the namespace
	// controller of a cluster does. A request that creates an object of any other Resource needs its
	// Namespace then, which must not be Terminating. Without it a namespace need not exist.
	Ends bool
	// Review says that the objects are questions, such as SubjectAccessReviews. Clients may create
	// them, and nothing else. The answer is what Default makes of the object, which needs no name and
	// is not stored.
	Review bool
	// Token is for ServiceAccounts: it makes the tokens that requests to their subresource token are
	// answered with. An error that is no APIStatus is an answer 500. Nil: there is no such subresource.
	Token func(ctx context.Context, r TokenRequest) (string, error)
	// Fields are the paths that field selectors may use, such as spec.nodeName. metadata.name and
	// metadata.namespace may always be used.
	Fields []string

	// Managed has managedFields kept from the creation of an object on, as a real server does. Else
	// they are kept from the first apply on. Versioned refuses an update without a resourceVersion, as
	// that of a custom resource.
	Managed, Versioned bool
	// ValidateName returns what is wrong with a name, or with the beginning of one. Nil: a name is a
	// DNS subdomain.
	ValidateName func(name string, prefix bool) []string
	// Default fills in what a client has left out of the object of a write, and does what else the
	// mutating admission of a server would. It may change a.Object and nothing else.
	Default func(ctx context.Context, a Admission) error
	// Validate refuses a write by an error: an APIStatus is sent as it is, and any other is Invalid
	// with the causes of a field.ErrorList.ToAggregate. It may change nothing. It is not asked about
	// an object that the Schema refuses, but for values that are out of bounds where the Schema has
	// x-kubernetes-validations: a real server asks its rules about those, and says both.
	Validate func(ctx context.Context, a Admission) error

	// Table makes the table that kubectl shows of an object: its columns, and one row, of which the
	// cells count. It is given an object that has no more than its kind where there is no row. Nil: the
	// columns are the name and the age.
	Table func(obj runtime.Object) (*metav1.Table, error)

	// Define is for the CustomResourceDefinitions of [Definitions]: it is given a definition, and
	// the resource that it defines, in the version that is stored, with the other ones in Versions.
	// What it sets of Default, Validate, ValidateName, Convert, ConvertManaged and Table counts, for
	// all versions: an object says by its apiVersion which one it is of. An object that was stored by
	// an earlier definition goes through Convert as well when it is read, also if its version is the
	// one that is wanted. Define is called again when the definition has changed, by the goroutine of
	// that write, and must not write itself. Nil: the objects have neither defaults nor rules, as
	// Definitions says.
	Define func(definition *unstructured.Unstructured, r Resource) Resource

	defines bool // see Definitions
}

// A Server is an API server in memory. It lists, watches, reads and writes objects over HTTP, in
// JSON, YAML and CBOR, and in protobuf where a Resource has a Type. It has the resource versions,
// history, pages, bookmarks, streamed lists, selectors, discovery, tables and errors of a real
// server, and its writes: patches in four forms, server-side apply with its conflicts, finalizers,
// the subresource status, dry runs and field validation. Built-in kinds validate no more than their
// metadata, and have no defaults; a Schema checks values; garbage is collected when a test says so,
// by [Server.Collect]. What else a real server answers otherwise stands in one table, in
// docs/test.md.
//
// A Server forgets changes of a resource when there are some tens of thousands: a watch from before
// gets 410, as on a real server after some minutes.
//
// The clients of client-go and controller-runtime can use a Server, as can whatever else takes a
// rest.Config. They send built-in types as protobuf unless the config says otherwise, so it must
// for a Resource without a Type:
//
//	&rest.Config{
//		Host:          server.URL(),
//		Transport:     server.Client().Transport,
//		ContentConfig: rest.ContentConfig{ContentType: "application/json"},
//	}
//
// A Server fails only when a test makes it fail. [Server.Inject] adds faults for future requests;
// [Server.Cut], [Server.Break], [Server.Stall] and [Server.Error] act on open watches. The methods
// of a [Collection], which the test itself uses, never meet a fault. A Server is safe for
// concurrent use.
type Server struct {
	server *apiserver.Server
	client *http.Client
	ctx    context.Context // done when the server is closed
	cancel context.CancelFunc

	// The goroutines that end outages. They are started under mu and not after cancel, so that
	// Close can wait for all of them.
	mu     sync.Mutex
	timers sync.WaitGroup
}

// NewServer returns a server of resources, and closes it when the test ends. A server that is made
// in a synctest bubble uses the bubble's clock. NewServer panics on a Resource without Plural or
// Kind, whose Type is no pointer to a struct, or whose Schema is none.
func NewServer(t testing.TB, resources ...Resource) *Server {
	s := StartServer(resources...)
	t.Cleanup(s.Close)
	return s
}

// window is how many changes of each resource the server remembers at least, if they are not large:
// of more than 16 MiB the last hundred. A collection that went on for ever would take all memory.
const window = 10_000

// StartServer is NewServer for a program that is no test, such as a demonstration. Close the server
// when it is not needed any more.
func StartServer(resources ...Resource) *Server {
	opts := apiserver.Options{Window: window, Username: func(ctx context.Context) string { return UserOf(ctx).Username }}
	for _, r := range resources {
		opts.Resources = append(opts.Resources, r.served())
	}
	s := &Server{server: apiserver.New(opts)}
	s.client = s.server.Client()
	s.ctx, s.cancel = context.WithCancel(context.Background())
	return s
}

// served returns the Resource as the server has it.
func (r Resource) served() apiserver.Resource {
	res := apiserver.Resource{
		Group: r.Group, Version: r.Version, Resource: r.Plural, Kind: r.Kind, ShortNames: r.ShortNames, Cluster: r.Cluster,
		Custom: !registry.BuiltIn(r.Group), Status: r.Status, Grace: r.Grace, Linger: r.Linger, Ends: r.Ends,
		Review: r.Review, Fields: r.Fields, Versions: r.Versions, Schema: r.Schema, Managed: r.Managed,
		Versioned: r.Versioned, Extend: r.extend, Defines: r.defines,
	}
	res.Convert, res.ConvertManaged = r.converter(r.Convert), r.converter(r.ConvertManaged)
	if r.Table != nil {
		res.Table = r.table
	}
	if r.Define != nil {
		res.Define = r.define
	}
	if r.Token != nil {
		res.Token = func(ctx context.Context, of *registry.TokenRequest) (string, error) {
			return r.Token(ctx, tokenRequestOf(of))
		}
	}
	if r.Scale {
		res.Scale = &registry.Scale{
			Replicas: ".spec.replicas", StatusReplicas: ".status.replicas", Selector: ".status.selector",
		}
	}
	for _, also := range r.Also {
		if len(also.Fields) != len(r.Fields) {
			panic(fmt.Sprintf("lwtest: %s: Also has %d Fields, want %d", r.Plural, len(also.Fields), len(r.Fields)))
		}
		res.Also = append(res.Also, also.served())
	}
	if r.Type != nil {
		var err error
		if res.Type, err = registry.TypeOf(reflect.TypeOf(r.Type)); err != nil {
			panic(fmt.Sprintf("lwtest: %s: %v", r.Plural, err))
		}
	}
	return res
}

// Close ends the server and breaks its connections. It returns when no request is being answered
// any more. A second call does nothing. A server that NewServer made need not be closed.
func (s *Server) Close() {
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

// Client returns an HTTP client whose connections go to the server, within the process.
func (s *Server) Client() *http.Client { return s.client }

// URL returns the server's URL. Only the [Server.Client] reaches it.
func (s *Server) URL() string { return "http://apiserver" }

// Listen makes the server reachable on a port of the loopback interface too, for programs that have
// their own client, and returns its URL. It cannot be used in a synctest bubble.
func (s *Server) Listen() (url string, err error) {
	url, _, err = s.server.Start("127.0.0.1:0")
	return url, err
}

// ServeHTTP answers one request. It makes a Server an [http.Handler].
func (s *Server) ServeHTTP(w http.ResponseWriter, r *http.Request) { s.server.ServeHTTP(w, r) }

// SetServed stops or starts to serve a resource, which is named as by [Objects]. A server does so
// whose CustomResourceDefinition is deleted and created again. When it stops, all objects of the
// resource are deleted, whatever finalizers they have; the watches see that and end; and a request
// gets 404 until the resource is served again. Every resource is served at first. SetServed panics
// if the server has no such resource.
func (s *Server) SetServed(resource string, served bool) {
	s.server.Collection(resource).SetServed(served)
}

// SetShards says whether the server selects by the shard selectors of requests, and echoes them in
// the ShardInfo of lists. At first it does, as a Kubernetes server does from 1.38 on. After
// SetShards(false) it ignores them, as older servers do: [lw.Shard] then selects by itself. Watches
// that are open do not change.
func (s *Server) SetShards(on bool) { s.server.SetShards(on) }

// Collect makes one write of Kubernetes' garbage collector, and says which: it deletes an object
// whose owners are all gone, or lets an owner go that is deleted in the foreground or leaves
// orphans. It returns "" when there is nothing to do but what a Validate refuses. Owners are looked
// for among the Server's resources; an object with an owner of another kind stays.
func (s *Server) Collect() (step string) {
	step, err := s.server.Collect(s.ctx)
	if err != nil && s.ctx.Err() == nil {
		panic(fmt.Sprintf("lwtest: Collect: %v", err)) // a function of a Resource has failed
	}
	return step
}

// ResourceVersion returns the resource version of the last write.
func (s *Server) ResourceVersion() string { return strconv.FormatUint(s.server.Line.Version(), 10) }

// A Collection reads and writes the objects of one [Resource] directly, for the test itself: no
// request is made and no fault is met. T is a pointer to a struct that encoding/json can read the
// Resource's objects into and write them from.
type Collection[T lw.Object] struct {
	server *Server
	*typed[T]
}

// Objects returns the collection of a resource, as objects of type T. The resource is named by its
// plural, or as kubectl does with its group, where two have one plural: "events.events.k8s.io".
// Objects panics if the server has no such resource, or if T is not a pointer to a struct.
func Objects[T lw.Object](s *Server, resource string) *Collection[T] {
	return &Collection[T]{server: s, typed: newTyped[T](s.server.Collection(resource))}
}

// URL returns the URL of the collection, limited to a namespace unless that is "".
func (c *Collection[T]) URL(namespace string) string {
	return c.server.URL() + c.collection.URL(namespace)
}

// Source returns a source that reads the collection over HTTP. Its requests meet the injected
// faults.
func (c *Collection[T]) Source() *lw.HTTP[T] {
	return &lw.HTTP[T]{URL: c.URL(""), Client: c.server.Client(), Kind: c.collection.Resource.Kind}
}

// Create adds an object and returns it as it is stored. It fails with AlreadyExists or Invalid.
func (c *Collection[T]) Create(obj T) (T, error) { return c.decode(c.collection.Create(obj)) }

// Update replaces an object, with its status, and returns it as it is stored. An update that
// changes nothing makes no new version. It fails with NotFound, and with Conflict if obj has a
// resource version that is not the stored object's.
func (c *Collection[T]) Update(obj T) (T, error) { return c.decode(c.collection.Update(obj)) }

// Delete removes an object at once, or marks one that has finalizers with a deletionTimestamp: it
// goes with its last finalizer. It fails with NotFound.
func (c *Collection[T]) Delete(key lw.Key) error {
	_, err := c.collection.Delete(key)
	return err
}

// Get returns an object. It fails with NotFound.
func (c *Collection[T]) Get(key lw.Key) (T, error) { return c.decode(c.collection.Get(key)) }

// ChangedSince reports whether an object was created, updated or deleted after a resource version,
// such as [Server.ResourceVersion] was. What depends on the objects need not be made again until
// then. It is true, too, of what is no resource version, or an old one.
func (c *Collection[T]) ChangedSince(resourceVersion string) bool {
	version, err := strconv.ParseUint(resourceVersion, 10, 64)
	return err != nil || c.collection.ChangedSince(version)
}

// All yields the objects as they were when the loop began, in the order of their keys. It panics if
// one of them cannot be decoded into a T.
func (c *Collection[T]) All() iter.Seq[T] {
	return func(yield func(T) bool) {
		objs, err := c.collection.StateAt(c.server.server.Line.Version())
		if err != nil {
			// The current version is never compacted.
			panic(fmt.Sprintf("lwtest: All: %v", err))
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

// A Verb is the kind of a request.
type Verb string

const (
	List   Verb = "list"
	Watch  Verb = "watch"  // a watch from a resource version
	Stream Verb = "stream" // a streamed list: a watch that begins with the list
	Get    Verb = "get"
	Create Verb = "create"
	Update Verb = "update"
	Patch  Verb = "patch" // of any form, so an apply as well
	Delete Verb = "delete"
	// DeleteCollection is a deletion of all objects that a list would show.
	DeleteCollection Verb = "deletecollection"
)

// A Request is a request that the server received.
type Request struct {
	Verb      Verb
	Group     string // the resource's; "" for the core group
	Plural    string // the resource's plural
	Namespace string // "" for all namespaces
	Name      string
	// Subresource is "status", or "" for the object itself.
	Subresource string
	Options     metav1.ListOptions // for List, Watch, Stream and DeleteCollection
	UserAgent   string
	Username    string // see WithUser
	Time        time.Time
	Code        int // the HTTP status of the answer; 0 until there is one

	// Meta is the metadata in the body of a Create, an Update or a Patch, for the functions of a
	// Fault alone: the name or the generateName of what is created, the resourceVersion that a
	// conflict would be about. It must not be changed. Nil: there is none, or it cannot be read.
	Meta *metav1.ObjectMeta
}

func requestOf(r apiserver.Request) Request {
	return Request{
		Verb: Verb(r.Verb), Group: r.Group, Plural: r.Resource, Namespace: r.Namespace, Name: r.Name, Subresource: r.Subresource,
		Options: r.Options, UserAgent: r.UserAgent, Username: r.Username, Time: r.Time, Code: r.Code, Meta: r.Meta,
	}
}

// Requests returns the requests with one of verbs, or all requests if there are no verbs, in the
// order in which they came. The server remembers some thousands of the last ones.
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
