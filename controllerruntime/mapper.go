package controllerruntime

import (
	"fmt"
	"net/http"
	"strings"

	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/client/apiutil"

	"github.com/go-lw/lw/kinds"
)

// Mapper returns a MapperProvider of manager.Options whose mapper knows a kind as soon as c does, and
// forgets it with c. controller-runtime's own keeps what it has read, such as the scope of a kind that
// is gone, and each event of an object whose owner's kind is absent is a request of discovery. This
// one answers without a request once c knows of the kind.
// Groups whose names have no dot, kinds of which c knows nothing yet, and questions about resources
// are controller-runtime's mapper's. A client keeps the plural of a kind that it has used, so it does
// not follow a new one. Mapper panics if c is nil. Give c to Options.Kinds as well, which runs it.
//
//	var served kinds.Catalog
//	ctrl.Options{
//		NewCache:       controllerruntime.NewCacheWith(controllerruntime.Options{Kinds: &served}),
//		MapperProvider: controllerruntime.Mapper(&served),
//	}
func Mapper(c *kinds.Catalog) func(*rest.Config, *http.Client) (meta.RESTMapper, error) {
	if c == nil {
		panic("controllerruntime: Mapper: nil Catalog")
	}
	return func(config *rest.Config, httpClient *http.Client) (meta.RESTMapper, error) {
		m, err := apiutil.NewDynamicRESTMapper(config, httpClient)
		if err != nil {
			return nil, fmt.Errorf("controllerruntime: Mapper: %w", err)
		}
		return &catalogMapper{m, c}, nil
	}
}

// A catalogMapper is the mapper of Mapper.
type catalogMapper struct {
	meta.RESTMapper
	catalog *kinds.Catalog
}

// RESTMapping returns the mapping of the first of the versions that is served; without versions, of
// any.
func (m *catalogMapper) RESTMapping(gk schema.GroupKind, versions ...string) (*meta.RESTMapping, error) {
	if !strings.Contains(gk.Group, ".") { // Kubernetes' own
		return m.RESTMapper.RESTMapping(gk, versions...)
	}
	names := versions
	if len(names) == 0 {
		names = []string{""}
	}
	for _, version := range names {
		s := m.catalog.Served(kinds.GVK(gk.WithVersion(version)))
		if !s.Known {
			return m.RESTMapper.RESTMapping(gk, versions...)
		}
		if !s.Served {
			continue
		}
		found := &meta.RESTMapping{Resource: s.Resource, GroupVersionKind: gk.WithVersion(s.Resource.Version), Scope: meta.RESTScopeRoot}
		if s.Namespaced {
			found.Scope = meta.RESTScopeNamespace
		}
		return found, nil
	}
	return nil, &meta.NoKindMatchError{GroupKind: gk, SearchedVersions: versions}
}
