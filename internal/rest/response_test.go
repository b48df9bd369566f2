package rest

import (
	"context"
	"io"
	"net/http"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"
)

// slowBody is a body whose first Close takes a second.
type slowBody struct{ begun, closed atomic.Bool }

func (b *slowBody) Read([]byte) (int, error) { return 0, io.EOF }

func (b *slowBody) Close() error {
	if !b.begun.Swap(true) {
		time.Sleep(time.Second)
		b.closed.Store(true)
	}
	return nil
}

// TestFinishLeavesNoGoroutine checks that Finish waits for the goroutine that closes the body because the context is done, and closes
// the body itself otherwise.
func TestFinishLeavesNoGoroutine(t *testing.T) {
	for name, cancelled := range map[string]bool{"cancelled": true, "ended": false} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				body := &slowBody{}
				ctx, cancel := context.WithCancel(t.Context())
				defer cancel()
				resp, err := send(t, ctx, answering(t, func(*http.Request) (*http.Response, error) { return response(200, "application/json", body), nil }), false)
				if err != nil {
					t.Fatal(err)
				}
				if cancelled {
					cancel()
					synctest.Wait()
				}
				resp.Finish()
				if !body.closed.Load() {
					t.Error("Finish has returned before the body was closed")
				}
			})
		})
	}
}

// A body that has begun as what was asked for is kept in no part, and is never taken for something else.
func TestExpected(t *testing.T) {
	const pod = `{"kind":"Pod","apiVersion":"v1","metadata":{"name":"a"}}`
	c := answering(t, func(*http.Request) (*http.Response, error) {
		return response(200, "application/json", io.NopCloser(strings.NewReader(strings.Repeat(pod, 20)))), nil
	})
	for _, expected := range []bool{false, true} {
		resp, err := send(t, t.Context(), c, true)
		if err != nil {
			t.Fatal(err)
		}
		for range 30 { // a server may send a few bytes at a time
			if _, err := resp.Read(make([]byte, 30)); err != nil {
				t.Fatal(err)
			}
		}
		if len(resp.begins) != maxBegins {
			t.Errorf("%d bytes are kept, want %d", len(resp.begins), maxBegins)
		}
		if expected {
			resp.Expected()
			if _, err := resp.Read(make([]byte, 30)); err != nil {
				t.Fatal(err)
			}
			if resp.begins != nil {
				t.Error("the beginning is kept")
			}
		}
		if got := strings.Contains(resp.Explain(io.ErrUnexpectedEOF).Error(), "got a Pod"); got == expected {
			t.Errorf("expected: %t; said to be a pod: %t", expected, got)
		}
		resp.Finish()
	}
}
