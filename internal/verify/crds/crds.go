// Package crds has a server of CustomResourceDefinitions for the tests of what waits for them.
package crds

import (
	"net/http"
	"slices"
	"strings"
	"sync"
	"testing"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/go-lw/lw"
	"github.com/go-lw/lw/lwtest"
)

// Group is the one of the kinds that Define defines, and Version theirs.
const Group, Version = "example.com", "v1"

// A Server notes the requests that go through its Transport.
type Server struct {
	*lwtest.Server
	t testing.TB

	mu   sync.Mutex
	urls []string // guarded by mu
}

// New returns a server that has more besides definitions. It ends with the test.
func New(t testing.TB, more ...lwtest.Resource) *Server {
	return &Server{Server: lwtest.NewServer(t, append(lwtest.Definitions(), more...)...), t: t}
}

// RoundTrip sends a request to the server.
func (s *Server) RoundTrip(r *http.Request) (*http.Response, error) {
	s.mu.Lock()
	s.urls = append(s.urls, r.URL.Path)
	s.mu.Unlock()
	return s.Client().Transport.RoundTrip(r)
}

// Asked returns how many requests there were of paths with part.
func (s *Server) Asked(part string) (n int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, u := range s.urls {
		if strings.Contains(u, part) {
			n++
		}
	}
	return n
}

// Paths returns those of the requests that have part, each once.
func (s *Server) Paths(part string) (paths []string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, u := range s.urls {
		if strings.Contains(u, part) {
			paths = append(paths, u)
		}
	}
	slices.Sort(paths)
	return slices.Compact(paths)
}

// Definition returns a CustomResourceDefinition of a kind, which is Namespaced or Cluster.
func Definition(plural, kind, scope string) *unstructured.Unstructured {
	return &unstructured.Unstructured{Object: map[string]any{
		"apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition",
		"metadata": map[string]any{"name": plural + "." + Group},
		"spec": map[string]any{
			"group": Group, "scope": scope,
			"versions": []any{map[string]any{"name": Version, "served": true, "storage": true}},
			"names":    map[string]any{"plural": plural, "kind": kind, "listKind": kind + "List"},
		},
	}}
}

func (s *Server) definitions() *lwtest.Collection[*unstructured.Unstructured] {
	return lwtest.Objects[*unstructured.Unstructured](s.Server, "customresourcedefinitions")
}

// Define creates a Definition.
func (s *Server) Define(plural, kind, scope string) {
	s.t.Helper()
	if _, err := s.definitions().Create(Definition(plural, kind, scope)); err != nil {
		s.t.Fatal(err)
	}
}

// Undefine deletes the definition of a plural, with all objects.
func (s *Server) Undefine(plural string) {
	s.t.Helper()
	if err := s.definitions().Delete(lw.Key{Name: plural + "." + Group}); err != nil {
		s.t.Fatal(err)
	}
}

// Create creates an object of a kind that is served.
func (s *Server) Create(plural, kind, namespace, name string) {
	s.t.Helper()
	o := &unstructured.Unstructured{Object: map[string]any{"apiVersion": Group + "/" + Version, "kind": kind}}
	o.SetNamespace(namespace)
	o.SetName(name)
	s.CreateObject(plural, o)
}

// CreateObject creates o, which Create would not make.
func (s *Server) CreateObject(plural string, o *unstructured.Unstructured) {
	s.t.Helper()
	if _, err := lwtest.Objects[*unstructured.Unstructured](s.Server, plural).Create(o); err != nil {
		s.t.Fatal(err)
	}
}
