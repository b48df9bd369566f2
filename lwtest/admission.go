package lwtest

import (
	"context"

	"github.com/go-lw/lw/internal/registry"
	"k8s.io/apimachinery/pkg/runtime"
)

// An Admission is a write as the functions of a [Resource] see it. Its objects are copies, of the
// Type of the Resource or unstructured ones.
type Admission struct {
	// Verb is what becomes of the object: an apply of a new one is a Create, any other patch an
	// Update.
	Verb        Verb
	Subresource string         // "status", or "" for the object itself
	Object      runtime.Object // nil for a Delete
	Old         runtime.Object // nil for a Create
	UserAgent   string         // "" for a write of the test itself
	DryRun      bool
}

// extend gives the engine of writes what the Resource says of its objects.
func (r Resource) extend(k *registry.Kind) {
	if r.ValidateName != nil {
		k.ValidateName = r.ValidateName
	}
	if r.Default != nil {
		k.Mutate = func(ctx context.Context, a *registry.Admission) error {
			open, err := admissionOf(k, a)
			if err == nil {
				err = r.Default(ctx, open)
			}
			if err == nil {
				err = k.Close(a.Object, open.Object, a.Verb == registry.Create)
			}
			return err
		}
	}
	if r.Validate != nil {
		k.Admit = func(ctx context.Context, a *registry.Admission) error {
			open, err := admissionOf(k, a)
			if err == nil {
				err = r.Validate(ctx, open)
			}
			return err
		}
	}
}

func admissionOf(k *registry.Kind, a *registry.Admission) (out Admission, err error) {
	out = Admission{Verb: Verb(a.Verb), Subresource: a.Subresource, UserAgent: a.UserAgent, DryRun: a.DryRun}
	if out.Object, err = k.Open(a.Object); err == nil {
		out.Old, err = k.Open(a.Old)
	}
	return out, err
}
