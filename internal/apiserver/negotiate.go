package apiserver

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/go-lw/lw/internal/wire"
)

// The formats in which the pieces of a stored object are put together.
var (
	fullJSON    = wire.Format{}
	partialJSON = wire.Format{Shape: wire.Partial}
)

// whole reports whether a list in the format says at its start how long it is, so that it can only
// be sent as a whole.
func whole(f wire.Format) bool { return f.Encoding != wire.JSON }

// has reports whether the resource has a format. Its tables have the columns that every kind has.
func (r *Resource) has(f wire.Format) bool {
	switch f.Shape {
	case wire.Full:
		return f.Encoding != wire.Protobuf || r.Proto != nil
	case wire.Table:
		return f.Encoding == wire.JSON
	}
	return true
}

// typeMeta returns the kind of the resource's objects.
func (r *Resource) typeMeta() metav1.TypeMeta {
	return metav1.TypeMeta{APIVersion: r.apiVersion(), Kind: r.Kind}
}
