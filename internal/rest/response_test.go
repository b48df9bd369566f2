package rest

import (
	"context"
	"io"
	"net/http"
	"reflect"
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
