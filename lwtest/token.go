package lwtest

import (
	"time"

	"github.com/go-lw/lw"
	"github.com/go-lw/lw/internal/registry"
	"k8s.io/apimachinery/pkg/types"
)

// A TokenRequest asks for a token of a ServiceAccount, which exists.
type TokenRequest struct {
	Account   lw.Key
	UID       types.UID
	Audiences []string // none: the server itself
	Expires   time.Time
	// BoundKind, BoundName and BoundUID are those of the object that the token ends with; "": there is
	// none.
	BoundKind, BoundName string
	BoundUID             types.UID
}

func tokenRequestOf(r *registry.TokenRequest) TokenRequest {
	m := &r.Metadata
	out := TokenRequest{
		Account: lw.Key{Namespace: m.Namespace, Name: m.Name}, UID: m.UID, Audiences: r.Spec.Audiences, Expires: r.Expires(),
	}
	if b := r.Spec.BoundObjectRef; b != nil {
		out.BoundKind, out.BoundName, out.BoundUID = b.Kind, b.Name, b.UID
	}
	return out
}
