package request

import (
	"context"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/go-lw/lw/internal/decode"
)

// A Raw has the bytes of the object that a source is about to yield, as decode.Object has them.
// They are valid until yield returns. Data is nil where there are none.
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

type usageKey struct{}

// WithUsage returns a context whose source calls note with what says how much memory its objects
// take, if it knows.
func WithUsage(ctx context.Context, note func(any)) context.Context {
	return context.WithValue(ctx, usageKey{}, note)
}

// UsageOf returns the note of ctx, or nil.
func UsageOf(ctx context.Context) (note func(any)) {
	note, _ = ctx.Value(usageKey{}).(func(any))
	return note
}

// An Ask makes a request of its own for a list with opts, and calls answer with the context in
// which the source reads it.
type Ask func(ctx context.Context, opts metav1.ListOptions, answer func(ctx context.Context) error) error

type askKey struct{}

// WithAsk returns a context for a source whose requests others make, in which ask is how to make
// one more, at any time.
func WithAsk(ctx context.Context, ask Ask) context.Context {
	return context.WithValue(ctx, askKey{}, ask)
}

// AskOf returns the Ask of ctx, or nil: the source makes its requests.
func AskOf(ctx context.Context) Ask {
	ask, _ := ctx.Value(askKey{}).(Ask)
	return ask
}

// The resource versions of an object of which a read has no more than metadata, since nobody could
// read it, or since it is gone from the server. No server takes a write with them.
const (
	LetGo = "let-go"
	Gone  = "let-go-and-gone"
)
