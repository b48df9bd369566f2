package rest

import (
	"context"
	"io"
	"net/http"
	"reflect"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/go-lw/lw/internal/decode"
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
	d, err := decode.New(reflect.TypeFor[*metav1.PartialObjectMetadata](), decode.Options{})
	if err != nil {
		t.Fatal(err)
	}
	for name, cancelled := range map[string]bool{"cancelled": true, "ended": false} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				body := &slowBody{}
				c := &Collection{URL: "http://server/x", Objects: "X", Decoder: d, Client: &http.Client{Transport: roundTrip(func(*http.Request) (*http.Response, error) {
					return &http.Response{StatusCode: 200, Header: http.Header{"Content-Type": {"application/json"}}, Body: body}, nil
				})}}
				ctx, cancel := context.WithCancel(t.Context())
				defer cancel()
				req, err := c.Request(ctx, metav1.ListOptions{})
				if err != nil {
					t.Fatal(err)
				}
				resp, err := req.Send()
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
	d, err := decode.New(reflect.TypeFor[*metav1.PartialObjectMetadata](), decode.Options{})
	if err != nil {
		t.Fatal(err)
	}
	const pod = `{"kind":"Pod","apiVersion":"v1","metadata":{"name":"a"}}`
	c := &Collection{URL: "http://server/x", Objects: "X", Decoder: d, Client: &http.Client{Transport: roundTrip(func(*http.Request) (*http.Response, error) {
		return &http.Response{StatusCode: 200, Header: http.Header{"Content-Type": {"application/json"}}, Body: io.NopCloser(strings.NewReader(strings.Repeat(pod, 20)))}, nil
	})}}
	for _, expected := range []bool{false, true} {
		req, err := c.Request(t.Context(), metav1.ListOptions{Watch: true})
		if err != nil {
			t.Fatal(err)
		}
		resp, err := req.Send()
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
