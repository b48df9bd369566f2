// Package guess answers a cache of controller-runtime for kinds that nobody serves yet. Such a cache
// asks a mapper for the resource of a kind before it makes an informer of it.
package guess

import (
	"strings"
	"sync"

	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/go-lw/lw/kinds"
)

// A Mapper guesses the resource of a kind that nobody serves, if an informer of it was asked for:
// see Ask. It cannot tell a Get from that, and a Get alone makes no such informer.
type Mapper struct {
	meta.RESTMapper
	catalog *kinds.Catalog
	asked   sync.Map // schema.GroupVersionKind -> true: there is an informer, or will be

	// The cache has the objects of some namespaces only, of all kinds or of those of narrow.
	allNarrow bool
	narrow    sync.Map // schema.GroupVersionKind -> true
	// scopes are those that a narrow cache was told first. It has an informer for each namespace, or
	// one alone, and must read those that it has made.
	scopes sync.Map // schema.GroupVersionKind -> meta.RESTScope
}

// New returns a Mapper that is m for all other kinds. The caller runs c. narrow says that the cache
// has the objects of some namespaces only.
func New(m meta.RESTMapper, c *kinds.Catalog, narrow bool) *Mapper {
	return &Mapper{RESTMapper: m, catalog: c, allNarrow: narrow}
}

// Narrow notes that the cache has the objects of that kind in some namespaces only.
func (m *Mapper) Narrow(gvk schema.GroupVersionKind) { m.narrow.Store(gvk, true) }

// Ask notes that an informer of that kind was asked for.
func (m *Mapper) Ask(gvk schema.GroupVersionKind) { m.asked.Store(gvk, true) }

// Forget notes that there is no informer of that kind any more.
func (m *Mapper) Forget(gvk schema.GroupVersionKind) { m.asked.Delete(gvk) }

// ForgetAll is Forget for all kinds.
func (m *Mapper) ForgetAll() { m.asked.Clear() }

// gated reports whether kinds of a group may come later. The names of Kubernetes' own groups, which
// are always served, have no dot.
func gated(group string) bool { return strings.Contains(group, ".") }

// of returns the kind that an informer was asked for where a cache asks for gvk, which may be the
// kind of its list. ok is false if there is none.
func (m *Mapper) of(gvk schema.GroupVersionKind) (of schema.GroupVersionKind, ok bool) {
	if !gated(gvk.Group) {
		return gvk, false
	}
	if _, ok = m.asked.Load(gvk); ok {
		return gvk, true
	}
	gvk.Kind = strings.TrimSuffix(gvk.Kind, "List")
	_, ok = m.asked.Load(gvk)
	return gvk, ok
}

func (m *Mapper) isNarrow(gvk schema.GroupVersionKind) bool {
	_, narrow := m.narrow.Load(gvk)
	return narrow || m.allNarrow
}

// Served returns what the catalog knows of a kind that an informer of all namespaces was asked for.
// ok is false if there is none, or the kind is not served. Of such a kind RESTMapping says that it
// has namespaces.
func (m *Mapper) Served(gvk schema.GroupVersionKind) (s kinds.State, ok bool) {
	of, ok := m.of(gvk)
	if !ok || m.isNarrow(of) {
		return s, false
	}
	s = m.catalog.Served(kinds.GVK(of))
	return s, s.Served
}

// Global reports whether the kind is served without namespaces, and RESTMapping says otherwise: see
// Served.
func (m *Mapper) Global(gvk schema.GroupVersionKind) bool {
	s, ok := m.Served(gvk)
	return ok && !s.Namespaced
}

// RESTMapping returns the mapping of a kind. A plural that is a guess is replaced in each request by
// that of the gate.
func (m *Mapper) RESTMapping(gk schema.GroupKind, versions ...string) (*meta.RESTMapping, error) {
	if len(versions) == 0 || versions[0] == "" {
		return m.RESTMapper.RESTMapping(gk, versions...)
	}
	gvk := gk.WithVersion(versions[0])
	of, ok := m.of(gvk)
	if !ok {
		return m.RESTMapper.RESTMapping(gk, versions...)
	}
	found := &meta.RESTMapping{GroupVersionKind: gvk}
	var scope meta.RESTScope = meta.RESTScopeNamespace
	s := m.catalog.Served(kinds.GVK(of))
	switch {
	case s.Served && !s.Namespaced:
		found.Resource, scope = s.Resource, meta.RESTScopeRoot
	case s.Served:
		found.Resource = s.Resource
	case s.Known:
		found.Resource, _ = meta.UnsafeGuessKindToResource(of)
	default:
		known, err := m.RESTMapper.RESTMapping(gk, versions...)
		switch {
		case err == nil:
			found.Resource, scope = known.Resource, known.Scope
		case meta.IsNoMatchError(err):
			found.Resource, _ = meta.UnsafeGuessKindToResource(of)
		default:
			return nil, err
		}
	}
	// The path of all namespaces is that of a kind without. So only a narrow cache needs the scope.
	found.Scope = meta.RESTScopeNamespace
	if m.isNarrow(of) {
		first, _ := m.scopes.LoadOrStore(of, scope)
		found.Scope = first.(meta.RESTScope)
	}
	return found, nil
}
