//go:build !race

package http_test

import (
	"context"
	"io"
	"net/http"
	"runtime"
	"strings"
	"testing"
	"testing/synctest"

	"github.com/go-lw/lw"
	"github.com/go-lw/lw/internal/rig"
)

// TestIdleStack: an informer that waits for an event keeps a stack of 8 KiB. The runtime gives a
// goroutine half its stack back if less than a quarter is in use, so the frames from Run down to the
// body of the response must fit 4 KiB.
func TestIdleStack(t *testing.T) {
	const informers = 50
	synctest.Test(t, func(t *testing.T) {
		ctx, cancel := context.WithCancel(t.Context())
		client := &http.Client{Transport: rig.RoundTrip(func(r *http.Request) (*http.Response, error) {
			return &http.Response{
				StatusCode: http.StatusOK, Header: http.Header{"Content-Type": {"application/json"}}, Request: r,
				Body: &idleBody{strings.NewReader(`{"type":"BOOKMARK","object":{"metadata":{"resourceVersion":"5","annotations":{"k8s.io/initial-events-end":"true"}}}}` + "\n"), r.Context()},
			}, nil
		})}
		before := stackInUse()
		for range informers {
			inf := lw.NewInformer(&lw.HTTP[*rig.Widget]{URL: "http://server/apis/example.io/v1/widgets", Client: client}, nil)
			go inf.Run(ctx)
			rig.OK(t, inf.WaitForSync(ctx))
		}
		if got := (stackInUse() - before) / informers; got > 10<<10 {
			t.Errorf("an idle informer has a stack of %d bytes, want 8 KiB", got)
		}
		cancel()
		synctest.Wait()
	})
}

// stackInUse returns the bytes of stacks, after each goroutine has given back what it can.
func stackInUse() uint64 {
	synctest.Wait()
	for range 5 {
		runtime.GC()
	}
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return m.StackInuse
}

// An idleBody has what is in its Reader, and then waits, as deep in the stack as HTTP/2 does.
type idleBody struct {
	io.Reader
	ctx context.Context
}

func (b *idleBody) Read(p []byte) (int, error) {
	var frame [300]byte
	if n, err := b.Reader.Read(p); err == nil {
		return n, nil
	}
	<-b.ctx.Done()
	return copy(p, frame[:0]), b.ctx.Err()
}

func (b *idleBody) Close() error { return nil }
