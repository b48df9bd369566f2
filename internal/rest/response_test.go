package rest

import (
	"bytes"
	"context"
	"errors"
	"io"
	"net"
	"net/http"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
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

// TestFinishLeavesNoGoroutine checks that Finish waits for the goroutine that closes the body
// because the context is done, and closes the body itself otherwise.
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

// An endedBody notes at its first Close whether its request has ended.
type endedBody struct {
	io.Reader
	request *http.Request
	closes  []bool
}

func (b *endedBody) Close() error {
	b.closes = append(b.closes, b.request.Context().Err() != nil)
	return nil
}

// A request ends before its body is closed, or net/http would go on to read the body. What is left of
// a list that has ended may be read on, so that the connection can be used again.
func TestEndsBeforeTheBody(t *testing.T) {
	for _, tt := range []struct {
		name     string
		watching bool
		end      func(resp *Response, cancel func())
		want     bool // the request had ended at the first Close
	}{
		{"a watch", true, func(resp *Response, _ func()) { resp.Finish() }, true},
		{"a list", false, func(resp *Response, _ func()) { resp.Finish() }, false},
		{"a list that somebody reads", false, func(resp *Response, _ func()) { _ = resp.Close(); resp.Finish() }, true},
		{"the context is done", false, func(resp *Response, cancel func()) {
			cancel()
			synctest.Wait()
			resp.Finish()
		}, true},
	} {
		t.Run(tt.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				ctx, cancel := context.WithCancel(t.Context())
				defer cancel()
				body := &endedBody{Reader: strings.NewReader("{}")}
				client := answering(t, func(r *http.Request) (*http.Response, error) {
					body.request = r
					return response(200, "application/json", body), nil
				})
				resp, err := send(t, ctx, client, tt.watching)
				if err != nil {
					t.Fatal(err)
				}
				tt.end(resp, cancel)
				if len(body.closes) == 0 || body.closes[0] != tt.want {
					t.Errorf("the request had ended when the body was closed: %v, want first %v", body.closes, tt.want)
				}
				if body.request.Context().Err() == nil {
					t.Error("the request never ends")
				}
			})
		})
	}
}

// A body that has begun as what was asked for is kept in no part, and is never taken for something
// else.
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

// answered returns the error of a list that is answered with these.
func answered(t *testing.T, code int, contentType string, body []byte) error {
	_, err := send(t, t.Context(), answering(t, func(*http.Request) (*http.Response, error) {
		return response(code, contentType, io.NopCloser(bytes.NewReader(body))), nil
	}), false)
	if err == nil {
		t.Fatal("no error")
	}
	return err
}

// An error quotes the beginning of what came instead of an API object, as one line of UTF-8.
func TestWhatIsQuoted(t *testing.T) {
	page := []byte("<html>\r\n\t<h1>Sign  in\xff</h1>\n</html>")
	for name, err := range map[string]error{
		"200": answered(t, 200, "text/html", page),
		"502": answered(t, 502, "text/html", page),
	} {
		if want := "<html> <h1>Sign in</h1> </html>"; !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %q does not contain %q", name, err, want)
		}
	}
	long := answered(t, 502, "text/html", []byte(strings.Repeat("x", 2000)))
	if n := strings.Count(long.Error(), "x"); n < maxQuote || n > maxQuote+20 {
		t.Errorf("%d bytes are quoted: %v", n, long)
	}
	short := answered(t, 502, "text/plain", nil)
	var status apierrors.APIStatus
	if !errors.As(short, &status) || status.Status().Code != 502 || !strings.Contains(short.Error(), `("said so")`) {
		t.Errorf("nothing came: %v", short)
	}
}

// A port that speaks TLS answers plain HTTP with a hint, which the error passes on as a hint of
// ours.
func TestSpeaksTLS(t *testing.T) {
	err := answered(t, 400, "text/plain", []byte("Client sent an HTTP request to an HTTPS server.\n"))
	if !strings.Contains(err.Error(), speaksTLS) {
		t.Errorf("%v", err)
	}
}

// checkHeader refuses exactly the headers that net/http refuses to send.
func TestCheckHeader(t *testing.T) {
	dialed := errors.New("net/http dials")
	transport := &http.Transport{DialContext: func(context.Context, string, string) (net.Conn, error) { return nil, dialed }}
	sends := func(h http.Header) bool {
		r, err := http.NewRequest(http.MethodGet, "http://server/", nil)
		if err != nil {
			t.Fatal(err)
		}
		r.Header = h
		_, err = transport.RoundTrip(r)
		if !errors.Is(err, dialed) && !strings.Contains(err.Error(), "invalid header field") {
			t.Fatal(err)
		}
		return errors.Is(err, dialed)
	}
	headers := []http.Header{{}, {"": {"a"}}, {"A": {""}}, {"A": nil}, {"A": {"ä"}}, {"Ä": {"a"}}, {"A": {"a", "b\n"}}, {"a": {"a"}, "a b": {"a"}}}
	for b := range 256 {
		headers = append(headers, http.Header{"A" + string([]byte{byte(b)}): {"a"}}, http.Header{"A": {"a" + string([]byte{byte(b)}) + "a"}})
	}
	refused := 0
	for _, h := range headers {
		err := checkHeader(h)
		if want := sends(h); (err == nil) != want {
			t.Errorf("%q: error %v, sent by net/http: %v", h, err, want)
		}
		if err != nil {
			refused++
		}
	}
	if refused < 200 || refused == len(headers) {
		t.Errorf("%d of %d refused", refused, len(headers))
	}
}
