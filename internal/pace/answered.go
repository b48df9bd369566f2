package pace

import "context"

type answeredKey struct{}

// WithAnswered returns a context for CatchUp, which calls f when the server has answered with its
// version and the wait for that begins.
func WithAnswered(ctx context.Context, f func()) context.Context {
	return context.WithValue(ctx, answeredKey{}, f)
}

// Answered calls the function of WithAnswered, if ctx has one.
func Answered(ctx context.Context) {
	if f, ok := ctx.Value(answeredKey{}).(func()); ok {
		f()
	}
}
