package rest

import (
	"context"
	"errors"
	"net"
	"net/http"
	"strings"
	"testing"
)

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
