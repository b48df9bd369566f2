package lw

import (
	"context"

	"github.com/go-lw/lw/internal/reuse"
)

// A source that decodes objects decodes less of one whose last version it knows; see
// internal/decode/reuse_parts.go. The informer's store has the last version, so the reflector lends
// the source what it has. It does so only where no object can be another than the source decoded.

// lend returns ctx with the last versions of the objects for the source, if the target has what the
// source has decoded, and nothing else. A user's Sink may have anything.
func (r *Reflector[T]) lend(ctx context.Context) context.Context {
	to, ok := r.target.(interface {
		lend(namespace, name string) any
	})
	if !ok || !reuses(r.src) {
		return ctx
	}
	return reuse.With(ctx, to.lend)
}
