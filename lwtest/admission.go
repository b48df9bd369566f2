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
	Verb Verb
	// Subresource is "status" or another one, or "" for the object itself. An eviction of a Pod is an
	// Update of its "eviction", and not a Delete besides.
	Subresource string
	Object      runtime.Object // nil for a Delete
	Old         runtime.Object // nil for a Create
	// Name is that of the request. It is "" for a Create whose name comes from generateName.
	Name      string
	UserAgent string // "" for a write of the test itself
	User      User   // see WithUser
	DryRun    bool
	// Options are the CreateOptions, UpdateOptions or DeleteOptions of the request.
	Options runtime.Object

	warn func(text string)
}

// Warn adds a warning to the answer of the write, as an admission webhook does. It must be called
// before the function that was given the Admission returns, and by one goroutine at a time.
func (a Admission) Warn(text string) {
	if a.warn != nil {
		a.warn(text)
	}
}

// A User is who makes a request.
type User struct {
	Username string
	UID      string
	Groups   []string
	Extra    map[string][]string
}

type userKey struct{}

// WithUser returns a context of requests of u. A handler that authenticates gives it to the request
// before [Server.ServeHTTP] does; then it is the User of an [Admission].
func WithUser(ctx context.Context, u User) context.Context {
	return context.WithValue(ctx, userKey{}, u)
}

// UserOf returns the user that WithUser has put into ctx, or the zero User.
func UserOf(ctx context.Context) User {
	u, _ := ctx.Value(userKey{}).(User)
	return u
}

// extend gives the engine of writes what the Resource says of its objects.
func (r Resource) extend(k *registry.Kind) {
	if r.ValidateName != nil {
		k.ValidateName = r.ValidateName
	}
	if r.Default != nil {
		k.Mutate = func(ctx context.Context, a *registry.Admission) error {
			open, err := admissionOf(ctx, k, a)
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
			open, err := admissionOf(ctx, k, a)
			if err == nil {
				err = r.Validate(ctx, open)
			}
			return err
		}
	}
}

func admissionOf(ctx context.Context, k *registry.Kind, a *registry.Admission) (out Admission, err error) {
	out = Admission{
		Verb: Verb(a.Verb), Subresource: a.Subresource, Name: a.Name, UserAgent: a.UserAgent, User: UserOf(ctx), DryRun: a.DryRun,
		Options: a.Options, warn: a.Warn,
	}
	if out.Object, err = k.Open(a.Object); err == nil {
		out.Old, err = k.Open(a.Old)
	}
	return out, err
}
