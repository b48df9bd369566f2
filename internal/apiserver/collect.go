package apiserver

import (
	"context"
	"reflect"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/go-lw/lw/internal/registry"
)

// Collect makes the next write of the garbage collector: it deletes one object whose owners are
// gone, or lets one owner go that was waiting for its dependents. It says what it has done, and ""
// if there is nothing to do. An object stays whose write is refused.
func (s *Server) Collect(ctx context.Context) (step string, err error) {
	tried := map[types.UID]registry.Step{}
	for raced := true; raced; {
		raced = false
		var kinds []*registry.Kind
		at := map[*registry.Kind]*Collection{}
		for _, c := range s.all() {
			kinds, at[c.kind] = append(kinds, c.kind), c
		}
		all := registry.NewCollector(kinds...)
		for _, c := range s.all() {
			if c.storage != c {
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
		for _, uid := range all.Take() {
			next, ok := all.Step(uid)
			if !ok {
				continue
			}
			w, err := next.Kind.Prepare(next.Request)
			if err == nil {
				_, err = w.Run(ctx, store{at[next.Kind]})
			}
			switch {
			case err == nil:
				return next.String(), nil
			case ctx.Err() != nil, apierrors.ReasonForError(err) == metav1.StatusReasonInternalError:
				return "", err
			case apierrors.IsConflict(err), apierrors.IsNotFound(err):
				// Somebody else has written meanwhile, unless the same is to be done again.
				raced = raced || !reflect.DeepEqual(tried[uid], next)
				tried[uid] = next
			}
		}
	}
	return "", nil
}
