package request_test

import (
	"context"
	"runtime"
	"testing"
	"weak"

	"github.com/go-lw/lw/internal/request"
)

// TestRecall: each source has a memory of its own for each reflector, and none without one.
func TestRecall(t *testing.T) {
	fresh := func() *int { return new(int) }
	one, other := request.WithMemo(context.Background()), request.WithMemo(context.Background())
	if m := request.Recall(context.Background(), "a", fresh); m != nil {
		t.Errorf("without a reflector: %v", m)
	}
	*request.Recall(one, "a", fresh) = 1
	for _, tt := range []struct {
		ctx    context.Context
		source string
		want   int
	}{{one, "a", 1}, {one, "b", 0}, {other, "a", 0}} {
		ctx, cancel := context.WithCancel(tt.ctx)
		if got := *request.Recall(ctx, tt.source, fresh); got != tt.want {
			t.Errorf("%s: %d, want %d", tt.source, got, tt.want)
		}
		cancel()
	}
}

// TestOwnKeepsNobody: what is remembered of a write keeps no informer that was told of it.
func TestOwnKeepsNobody(t *testing.T) {
	teller := new(request.Teller)
	request.Own{}.Note("uid", "1", []*request.Teller{teller})
	kept := weak.Make(teller)
	teller = nil
	if runtime.GC(); kept.Value() != nil {
		t.Error("the informer is kept")
	}
}
