package guess_test

import (
	"errors"
	"testing"

	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/go-lw/lw/internal/guess"
	"github.com/go-lw/lw/internal/verify/rig"
	"github.com/go-lw/lw/kinds"
)

var (
	version = schema.GroupVersion{Group: "example.com", Version: "v1"}
	mouse   = version.WithKind("Mouse")
	errDown = errors.New("down")
)

// A mapper knows one resource, or fails.
type mapper struct {
	meta.RESTMapper
	known *meta.RESTMapping
	err   error
}

func (m mapper) RESTMapping(gk schema.GroupKind, versions ...string) (*meta.RESTMapping, error) {
	switch {
	case m.err != nil:
		return nil, m.err
	case m.known == nil:
		return nil, &meta.NoKindMatchError{GroupKind: gk, SearchedVersions: versions}
	}
	return m.known, nil
}

// A kind that nobody serves has a resource if an informer of it was asked for, and only then. What
// the catalog does with a kind that comes is tested with the caches that have a Mapper.
func TestRESTMapping(t *testing.T) {
	root := &meta.RESTMapping{Resource: version.WithResource("mice"), GroupVersionKind: mouse, Scope: meta.RESTScopeRoot}
	pod := schema.GroupVersionKind{Version: "v1", Kind: "Pod"}
	const guessed, spaced, rooted = "mouses", meta.RESTScopeNameNamespace, meta.RESTScopeNameRoot
	for name, tt := range map[string]struct {
		below    mapper
		narrow   bool
		ask      schema.GroupVersionKind
		of       schema.GroupVersionKind
		versions []string // default: that of of
		resource string   // "": there is no mapping
		scope    meta.RESTScopeName
	}{
		"nobody asked":           {of: mouse},
		"asked for":              {ask: mouse, of: mouse, resource: guessed, scope: spaced},
		"its list":               {ask: mouse, of: version.WithKind("MouseList"), resource: guessed, scope: spaced},
		"another version":        {ask: mouse, of: mouse, versions: []string{"v2"}},
		"no version":             {ask: mouse, of: mouse, versions: []string{}},
		"an empty version":       {ask: mouse, of: mouse, versions: []string{""}},
		"a group of Kubernetes":  {ask: pod, of: pod},
		"known":                  {below: mapper{known: root}, ask: mouse, of: mouse, resource: "mice", scope: spaced},
		"known, nobody asked":    {below: mapper{known: root}, of: mouse, resource: "mice", scope: rooted},
		"known to a narrow one":  {below: mapper{known: root}, narrow: true, ask: mouse, of: mouse, resource: "mice", scope: rooted},
		"absent of a narrow one": {narrow: true, ask: mouse, of: mouse, resource: guessed, scope: spaced},
		"discovery fails":        {below: mapper{err: errDown}, ask: mouse, of: mouse},
	} {
		m := guess.New(tt.below, kinds.New("http://nowhere", nil), tt.narrow)
		m.Ask(tt.ask)
		if tt.versions == nil {
			tt.versions = []string{tt.of.Version}
		}
		got, err := m.RESTMapping(tt.of.GroupKind(), tt.versions...)
		switch {
		case err != nil && (tt.resource != "" || !meta.IsNoMatchError(err) && !errors.Is(err, errDown)):
			t.Errorf("%s: %v", name, err)
		case err == nil && (got.Resource.Resource != tt.resource || got.Scope.Name() != tt.scope):
			t.Errorf("%s: %s of scope %s, want %s of scope %s", name, got.Resource, got.Scope.Name(), tt.resource, tt.scope)
		}
	}
}

// A narrow cache is told the scope that it was told first, and what was forgotten is as if nobody
// had asked.
func TestNarrowAndForget(t *testing.T) {
	known := &meta.RESTMapping{Resource: version.WithResource("mice"), GroupVersionKind: mouse, Scope: meta.RESTScopeNamespace}
	m := guess.New(mapper{known: known}, kinds.New("http://nowhere", nil), false)
	m.Narrow(mouse)
	scope := func() meta.RESTScopeName {
		return rig.Must[*meta.RESTMapping](t)(m.RESTMapping(mouse.GroupKind(), mouse.Version)).Scope.Name()
	}
	m.Ask(mouse)
	rig.Same(t, "first", meta.RESTScopeNameNamespace, scope())
	known.Scope = meta.RESTScopeRoot
	rig.Same(t, "again", meta.RESTScopeNameNamespace, scope())
	for _, forget := range []func(){func() { m.Forget(mouse) }, m.ForgetAll} {
		m.Ask(mouse)
		forget()
		rig.Same(t, "forgotten", meta.RESTScopeNameRoot, scope())
	}
	if _, ok := m.Served(mouse); ok || m.Global(mouse) {
		t.Error("a kind that nobody knows is served")
	}
}
