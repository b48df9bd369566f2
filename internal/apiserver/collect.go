package apiserver

import (
	"context"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/go-lw/lw/internal/registry"
)

// Collect makes the next write of the garbage collector: it deletes one object whose owners are gone,
// or lets one owner go that was waiting for its dependents. It says what it has done, and "" if there
// is nothing to do.
func (s *Server) Collect(ctx context.Context) (step string, err error) {
	for {
		var kinds []*registry.Kind
		at := map[*registry.Kind]*Collection{}
		for _, c := range s.collections {
			kinds, at[c.kind] = append(kinds, c.kind), c
		}
		all := registry.NewCollector(kinds...)
		for _, c := range s.collections {
			if c.Resource.fromStored != nil {
				continue
			}
			page, err := c.history.List("", metav1.ListOptions{})
			if err != nil {
				return "", err
			}
			for _, obj := range page.Items {
				all.Set(c.kind, &objectOf(obj, obj.Version).Meta)
			}
		}
		next, ok := all.Next()
		if !ok {
			return "", nil
		}
		w, err := next.Kind.Prepare(next.Request)
		if err == nil {
			_, err = w.Run(ctx, store{at[next.Kind]})
		}
		switch {
		case err == nil:
			return next.String(), nil
		case !apierrors.IsConflict(err) && !apierrors.IsNotFound(err): // then somebody else has written meanwhile
			return "", err
		}
	}
}
