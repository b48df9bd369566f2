package websocket

import (
	"context"
	"crypto/sha1"
	"encoding/base64"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"testing/synctest"

	"github.com/google/go-cmp/cmp"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/go-lw/lw"
	"github.com/go-lw/lw/internal/verify/rig"
)

// answer is a response of net/http's server.
func answer(code int, header http.Header, body string) rig.RoundTrip {
	return func(req *http.Request) (*http.Response, error) {
		w := httptest.NewRecorder()
		for name, values := range header {
			w.Header()[name] = values
		}
		w.WriteHeader(code)
		io.WriteString(w, body)
		resp := w.Result()
		resp.Request = req
		return resp, nil
	}
}

// TestHandshakes says which requests become handshakes, and that others are not touched.
func TestHandshakes(t *testing.T) {
	for _, test := range []struct {
		method, query, upgrade, body string
		want                         bool
	}{
		{query: "watch=true", want: true},
		{query: "watch=1&resourceVersion=7", want: true},
		{query: "watch", want: true},
		{query: "watch=", want: true},
		{query: "sendInitialEvents=true&watch=TRUE", want: true},
		{query: ""},
		{query: "limit=1"},
		{query: "watch=false"},
		{query: "watch=False"},
		{query: "watch=0"},
		{query: "labelSelector=watch"},
		{query: "allowWatchBookmarks=true"},
		{method: http.MethodPost, query: "watch=true"},
		{method: http.MethodDelete, query: "watch=true"},
		{query: "watch=true", upgrade: "websocket"},
		{query: "watch=true", body: "x"},
	} {
		req := httptest.NewRequest(test.method, "https://u:p@example.com:8443/api/v1/pods?"+test.query, strings.NewReader(test.body))
		if test.body == "" {
			req.Body = http.NoBody
		}
		req.Header = http.Header{"Accept": {jsonType}, "Authorization": {"Bearer x"}}
		if test.upgrade != "" {
			req.Header.Set("Upgrade", test.upgrade)
		}
		before := req.Header.Clone()
		var sent *http.Request
		resp := rig.Must[*http.Response](t)((&Transport{Base: rig.RoundTrip(func(r *http.Request) (*http.Response, error) {
			sent = r
			return answer(http.StatusOK, nil, "")(r)
		})}).RoundTrip(req))
		if resp.Request != req {
			t.Errorf("%s %s: the response is of another request", test.method, test.query)
		}
		if diff := cmp.Diff(before, req.Header); diff != "" {
			t.Errorf("%s %s: the request was changed: %s", test.method, test.query, diff)
		}
		if !test.want {
			if sent != req {
				t.Errorf("%s %s: another request was sent", test.method, test.query)
			}
			continue
		}
		if sent.URL.String() != req.URL.String() || sent.Host != req.Host {
			t.Errorf("%s: sent to %s of %s", test.query, sent.URL, sent.Host)
		}
		key := sent.Header.Get("Sec-WebSocket-Key")
		want := http.Header{
			"Accept": {jsonType}, "Authorization": {"Bearer x"}, "Origin": {"https://example.com:8443"},
			"Connection": {"Upgrade"}, "Upgrade": {"websocket"}, "Sec-Websocket-Version": {"13"}, "Sec-Websocket-Key": {key},
		}
		if diff := cmp.Diff(want, sent.Header); diff != "" || len(key) != 24 {
			t.Errorf("%s: headers (-want +got):\n%s", test.query, diff)
		}
	}
}

// TestOrigin keeps an Origin that the request has.
func TestOrigin(t *testing.T) {
	req := watchOf(t, jsonType)
	req.Header.Set("Origin", "https://console.example.com")
	var got string
	resp, err := (&Transport{Base: rig.RoundTrip(func(r *http.Request) (*http.Response, error) {
		got = r.Header.Get("Origin")
		return answer(http.StatusForbidden, nil, "")(r)
	})}).RoundTrip(req)
	if err != nil || resp.StatusCode != http.StatusForbidden || got != "https://console.example.com" {
		t.Errorf("Origin %q, response %v, error %v", got, resp, err)
	}
}

// TestRefusals pass as they are, however long they are; so does a plain stream.
func TestRefusals(t *testing.T) {
	long := strings.Repeat("why not? ", 10_000)
	for _, code := range []int{200, 301, 400, 401, 403, 404, 410, 426, 429, 500, 502, 503} {
		header := http.Header{"Retry-After": {"7"}, "Content-Type": {jsonType}}
		resp := rig.Must[*http.Response](t)((&Transport{Base: answer(code, header, long)}).RoundTrip(watchOf(t, jsonType)))
		body, err := io.ReadAll(resp.Body)
		if err != nil || string(body) != long || resp.StatusCode != code {
			t.Errorf("%d: got %s, %d bytes, error %v", code, resp.Status, len(body), err)
		}
		rig.Same(t, fmt.Sprintf("%d: header", code), header, resp.Header)
	}
}

// TestErrors are those of the transport below, and of servers that do not keep to the protocol.
func TestErrors(t *testing.T) {
	refused := &net.OpError{Op: "dial", Err: errors.New("connection refused")}
	_, err := (&Transport{Base: rig.RoundTrip(func(*http.Request) (*http.Response, error) { return nil, refused })}).RoundTrip(watchOf(t, ""))
	if err != error(refused) {
		t.Errorf("error %v, want that of the transport", err)
	}
	for want, resp := range map[string]*http.Response{
		"want an io.ReadWriteCloser": {StatusCode: http.StatusSwitchingProtocols, Body: http.NoBody},
		"Sec-WebSocket-Accept": {StatusCode: http.StatusSwitchingProtocols, Body: at{silence{}}, Header: http.Header{
			"Connection": {"Upgrade"}, "Upgrade": {"websocket"}, "Sec-Websocket-Accept": {"of somebody else"},
		}},
	} {
		_, err := (&Transport{Base: rig.RoundTrip(func(*http.Request) (*http.Response, error) { return resp, nil })}).RoundTrip(watchOf(t, ""))
		if err == nil || !strings.HasPrefix(err.Error(), "websocket: ") || !strings.Contains(err.Error(), want) {
			t.Errorf("error %v, want one with %q", err, want)
		}
	}
}

// silence is a reader that must not be read.
type silence struct{}

func (silence) Read([]byte) (int, error) { panic("read") }

// TestResponseAtOnce checks that the response to a watch on which nothing comes waits only where
// the form of the events cannot be told, and then not longer than its context.
func TestResponseAtOnce(t *testing.T) {
	for _, test := range []struct {
		accept, contentType string
		waits               bool
	}{
		{jsonType, "", false},
		{"application/json;stream=watch,application/json", "", false},
		{"", "", false},
		{protoType + ";stream=watch", "", false},
		{choice, "", true},
		{"*/*", "", true},
		{choice, "application/vnd.kubernetes.protobuf;stream=watch", false},
		{"*/*", jsonType, false},
	} {
		synctest.Test(t, func(t *testing.T) {
			ctx, cancel := context.WithCancel(t.Context())
			defer cancel()
			s := &script{run: hear, header: http.Header{}}
			if test.contentType != "" {
				s.header.Set("Content-Type", test.contentType)
			}
			done := make(chan error, 1)
			go func() {
				resp, err := (&Transport{Base: s}).RoundTrip(watchOf(t, test.accept).WithContext(ctx))
				if err == nil {
					resp.Body.Close()
				}
				done <- err
			}()
			synctest.Wait()
			select {
			case err := <-done:
				if test.waits || err != nil {
					t.Errorf("Accept %q, answered with %q: returned at once, with error %v", test.accept, test.contentType, err)
				}
			default:
				if !test.waits {
					t.Errorf("Accept %q, answered with %q: it waits", test.accept, test.contentType)
				}
				cancel()
				if err := <-done; err != context.Canceled {
					t.Errorf("error %v, want that of the context", err)
				}
			}
		})
	}
}

// TestClient checks that Client keeps what its client does, and does not change it.
func TestClient(t *testing.T) {
	var hosts []string
	base := &http.Client{
		Transport: rig.RoundTrip(func(r *http.Request) (*http.Response, error) {
			hosts = append(hosts, r.URL.Host+" "+r.Header.Get("Upgrade")+" "+r.Header.Get("Authorization"))
			if r.URL.Host == "a.example" {
				return answer(http.StatusTemporaryRedirect, http.Header{"Location": {"https://b.example/pods?watch=true"}}, "")(r)
			}
			return answer(http.StatusOK, http.Header{"Content-Type": {jsonType}}, "")(r)
		}),
	}
	before := *base
	src := &lw.HTTP[*metav1.PartialObjectMetadata]{
		URL: "https://a.example/pods", Client: Client(base), Accept: jsonType, Header: http.Header{"Authorization": {"Bearer x"}},
	}
	rig.OK(t, src.Watch(t.Context(), metav1.ListOptions{}, nil))
	// The header stays with the server that it was given for, as without WebSockets.
	rig.Same(t, "requests", []string{"a.example websocket Bearer x", "b.example websocket "}, hosts)
	if fmt.Sprint(*base) != fmt.Sprint(before) {
		t.Error("the client was changed")
	}
	if c := Client(nil); c == http.DefaultClient || c.Transport.(*Transport).Base != nil {
		t.Error("Client(nil) is not over http.DefaultClient")
	}
}

// TestCloseIdleConnections reaches the transport below.
func TestCloseIdleConnections(t *testing.T) {
	base := &idle{}
	Client(&http.Client{Transport: base}).CloseIdleConnections()
	if base.closed != 1 {
		t.Errorf("called %d times", base.closed)
	}
}

type idle struct {
	http.RoundTripper
	closed int
}

func (i *idle) CloseIdleConnections() { i.closed++ }

// TestErrorsOfHTTP checks what lw.HTTP makes of refusals and ends.
func TestErrorsOfHTTP(t *testing.T) {
	status := apierrors.NewResourceExpired("too old").ErrStatus
	for name, test := range map[string]struct {
		base http.RoundTripper
		want func(error) bool
	}{
		"a refusal": {
			base: answer(http.StatusTooManyRequests, http.Header{"Retry-After": {"9"}}, "later"),
			want: func(err error) bool {
				seconds, ok := apierrors.SuggestsClientDelay(err)
				return ok && seconds == 9 && apierrors.IsTooManyRequests(err)
			},
		},
		"410": {
			base: &script{run: then(send(text(fmt.Sprintf(`{"type":"ERROR","object":{"kind":"Status","code":410,"reason":%q,"message":"too old"}}`, status.Reason))), hear)},
			want: apierrors.IsResourceExpired,
		},
		"the end":     {base: &script{run: then(send(closing(normal)), hear)}, want: func(err error) bool { return err == nil }},
		"the loss":    {base: &script{run: func(net.Conn) {}}, want: func(err error) bool { return errors.Is(err, io.ErrUnexpectedEOF) }},
		"the context": {base: &script{run: hear}, want: func(err error) bool { return errors.Is(err, context.DeadlineExceeded) }},
	} {
		synctest.Test(t, func(t *testing.T) {
			ctx, cancel := context.WithTimeout(t.Context(), 1e9)
			defer cancel()
			src := &lw.HTTP[*metav1.PartialObjectMetadata]{URL: "https://a.example/pods", Client: Client(&http.Client{Transport: test.base})}
			if err := src.Watch(ctx, metav1.ListOptions{}, nil); !test.want(err) {
				t.Errorf("%s: error %v", name, err)
			}
		})
	}
}

// TestMore checks that the events of a burst are told as one, and a single event is not held up.
func TestMore(t *testing.T) {
	event := func(name string) []byte {
		return text(`{"type":"ADDED","object":{"apiVersion":"v1","kind":"Pod","metadata":{"name":"` + name + `","resourceVersion":"1"}}}` + "\n")
	}
	synctest.Test(t, func(t *testing.T) {
		s := &script{run: func(conn net.Conn) {
			go hear(conn)
			send(event("a"), event("b"), event("c"))(conn)
			synctest.Wait()
			send(event("d"))(conn)
			synctest.Wait()
			send(closing(normal))(conn)
		}}
		src := &lw.HTTP[*metav1.PartialObjectMetadata]{
			URL: "https://a.example/pods", Client: Client(&http.Client{Transport: s}), Accept: jsonType, Kind: "Pod",
		}
		var got []string
		err := src.Watch(t.Context(), metav1.ListOptions{}, func(ev lw.WatchEvent[*metav1.PartialObjectMetadata]) error {
			got = append(got, fmt.Sprintf("%s: %t", ev.Object.Name, ev.More))
			return ev.Err
		})
		if diff := cmp.Diff([]string{"a: true", "b: true", "c: false", "d: false"}, got); diff != "" || err != nil {
			t.Errorf("error %v, events (-want +got):\n%s", err, diff)
		}
	})
}

// A script is a transport whose server agrees to each WebSocket and then does what run says. It
// keeps the requests.
type script struct {
	header   http.Header // of the response to a handshake, beside that of the protocol
	run      func(conn net.Conn)
	requests []*http.Request
}

func (s *script) RoundTrip(req *http.Request) (*http.Response, error) {
	s.requests = append(s.requests, req)
	sum := sha1.Sum([]byte(req.Header.Get("Sec-WebSocket-Key") + "258EAFA5-E914-47DA-95CA-C5AB0DC85B11"))
	header := s.header.Clone()
	if header == nil {
		header = http.Header{}
	}
	header.Set("Connection", "Upgrade")
	header.Set("Upgrade", "websocket")
	header.Set("Sec-WebSocket-Accept", base64.StdEncoding.EncodeToString(sum[:]))
	client, server := net.Pipe()
	go func() {
		defer server.Close()
		s.run(server)
	}()
	return &http.Response{StatusCode: http.StatusSwitchingProtocols, Header: header, Body: client, Request: req}, nil
}

// send writes frames as one packet, as far as a pipe has packets.
func send(frames ...[]byte) func(net.Conn) {
	return func(conn net.Conn) {
		var all []byte
		for _, f := range frames {
			all = append(all, f...)
		}
		conn.Write(all)
	}
}

// then does one after the other.
func then(steps ...func(net.Conn)) func(net.Conn) {
	return func(conn net.Conn) {
		for _, step := range steps {
			step(conn)
		}
	}
}

// hear reads, and throws away, what the client says, until it closes the connection.
func hear(conn net.Conn) { io.Copy(io.Discard, conn) }

func text(s string) []byte { return appendFrame(nil, true, 1, []byte(s)) }
func bin(s string) []byte  { return appendFrame(nil, true, 2, []byte(s)) }
func part(final bool, opcode byte, s string) []byte {
	return appendFrame(nil, final, opcode, []byte(s))
}
func closing(payload string) []byte { return appendFrame(nil, true, opcodeClose, []byte(payload)) }

const (
	normal    = "\x03\xe8"             // 1000
	goingAway = "\x03\xe9"             // 1001
	failed    = "\x03\xf3out of order" // 1011
)

// watchOf returns a watch with an Accept header.
func watchOf(t *testing.T, accept string) *http.Request {
	req := rig.Must[*http.Request](t)(http.NewRequestWithContext(t.Context(), http.MethodGet, "https://example.com/api/v1/pods?watch=true", nil))
	if accept != "" {
		req.Header.Set("Accept", accept)
	}
	return req
}

// open sends a watch to a server that does what run says.
func open(t *testing.T, accept string, run func(net.Conn)) *http.Response {
	t.Helper()
	resp := rig.Must[*http.Response](t)((&Transport{Base: &script{run: run}}).RoundTrip(watchOf(t, accept)))
	t.Cleanup(func() { resp.Body.Close() })
	return resp
}
