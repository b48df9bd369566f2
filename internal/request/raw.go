package request

import (
	"context"

	"github.com/go-lw/lw/internal/decode"
)

// A Raw has the bytes of the object that a source is about to yield, as decode.Object has them. They
// are valid until yield returns. Data is nil where there are none.
type Raw struct {
	Data     []byte
	Encoding decode.Encoding
	// Kind and APIVersion are those of the object; Filled says that they are not in Data.
	Kind, APIVersion string
	Filled           bool
}

// Set notes what o has.
func (r *Raw) Set(o *decode.Object) {
	r.Data, r.Encoding, r.Filled = o.Raw, o.RawEncoding, o.Filled
	r.Kind, r.APIVersion = o.Ident.Kind, o.Ident.APIVersion
}

type rawKey struct{}

// WithRaw returns a context whose source fills raw before it yields an object.
func WithRaw(ctx context.Context, raw *Raw) context.Context {
	return context.WithValue(ctx, rawKey{}, raw)
}

// RawOf returns the Raw of ctx, or nil.
func RawOf(ctx context.Context) *Raw {
	raw, _ := ctx.Value(rawKey{}).(*Raw)
	return raw
}
