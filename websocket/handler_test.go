package websocket

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/go-lw/lw"
	"github.com/go-lw/lw/internal/apiserver"
	"github.com/go-lw/lw/internal/verify/rig"
)

// serveFor calls f with clients of Handler(h), in a bubble: one that watches over WebSockets, and
// one that does not.
func serveFor(t *testing.T, h http.HandlerFunc, f func(t *testing.T, over, plain *http.Client)) {
	synctest.Test(t, func(t *testing.T) {
		s := apiserver.New(apiserver.Options{Wrap: func(http.Handler) http.Handler { return Handler(h) }})
		plain := s.Client()
		defer s.Close()
		defer plain.CloseIdleConnections()
		f(t, Client(plain), plain)
	})
}

const watchURL = "http://apiserver/api/v1/pods?watch=true"

// get returns the response to a watch, and its body with the error at its end.
func get(t *testing.T, c *http.Client, header http.Header) (*http.Response, string, error) {
	t.Helper()
	req := rig.Must[*http.Request](t)(http.NewRequestWithContext(t.Context(), http.MethodGet, watchURL, nil))
	if header != nil {
		req.Header = header
	}
	resp := rig.Must[*http.Response](t)(c.Do(req))
	defer resp.Body.Close()
	body, err := io.ReadAll(resp.Body)
	return resp, string(body), err
}

// TestHandler checks that a client over WebSockets gets what it would get without, and in messages.
func TestHandler(t *testing.T) {
	const proto = "application/vnd.kubernetes.protobuf;stream=watch"
	for name, test := range map[string]struct {
		typ      string
		code     int
		parts    []string
		upgraded bool
	}{
		"JSON":            {typ: jsonType, parts: []string{"{1}\n", "{2}\n"}, upgraded: true},
		"several at once": {typ: jsonType, parts: []string{"{1}\n{2}\n{3", "}\n"}, upgraded: true},
		"nothing":         {typ: jsonType, parts: []string{""}, upgraded: true},
		"protobuf": {typ: proto, parts: []string{"\x00\x00\x00\x02\na", "\x00\x00",
			"\x00\x02\nb\x00\x00\x00\x00"}, upgraded: true},
		"CBOR":                   {typ: "application/cbor-seq", parts: []string{"\xa0\xa0"}},
		"another type":           {typ: "text/plain", parts: []string{"x\n"}},
		"a refusal":              {typ: jsonType, code: http.StatusGone, parts: []string{`{"kind":"Status"}`}},
		"a refusal of no length": {typ: jsonType, code: http.StatusTooManyRequests},
	} {
		t.Run(name, func(t *testing.T) {
			upgrades := false
			serveFor(t, func(w http.ResponseWriter, r *http.Request) {
				for _, name := range []string{"Upgrade", "Connection", "Sec-Websocket-Key", "Sec-Websocket-Version"} {
					if r.Header.Get(name) != "" {
						t.Errorf("the handler sees the header %s", name)
					}
				}
				u, _ := w.(*upgrade)
				w.Header().Set("Content-Type", test.typ)
				w.Header().Set("X-Extra", "y")
				if test.code != 0 {
					w.WriteHeader(test.code)
				}
				for _, p := range test.parts {
					io.WriteString(w, p)
					http.NewResponseController(w).Flush()
				}
				upgrades = upgrades || u != nil && u.conn != nil
			}, func(t *testing.T, over, plain *http.Client) {
				want, wantBody, err := get(t, plain, nil)
				if err != nil || upgrades {
					t.Fatalf("without WebSockets: error %v", err)
				}
				got, gotBody, err := get(t, over, nil)
				if err != nil {
					t.Error(err)
				}
				if diff := cmp.Diff(wantBody, gotBody); diff != "" {
					t.Errorf("body (-plain +WebSocket):\n%s", diff)
				}
				if got.StatusCode != want.StatusCode || got.Header.Get("Content-Type") != test.typ ||
					got.Header.Get("X-Extra") != "y" {
					t.Errorf("%s with %v, want %s with %v", got.Status, got.Header, want.Status, want.Header)
				}
				if upgrades != test.upgraded {
					t.Errorf("a WebSocket: %t, want %t", upgrades, test.upgraded)
				}
			})
		})
	}
}

// TestHandlerEnds are streams that end otherwise than as planned.
func TestHandlerEnds(t *testing.T) {
	for name, test := range map[string]struct {
		typ  string
		do   func(w http.ResponseWriter)
		want string
		err  error
	}{
		"a panic": {jsonType, func(http.ResponseWriter) { panic(http.ErrAbortHandler) }, "{1}\n",
			io.ErrUnexpectedEOF},
		"a panic in an event": {jsonType,
			func(w http.ResponseWriter) { io.WriteString(w, "{2"); panic(http.ErrAbortHandler) }, "{1}\n", io.ErrUnexpectedEOF},
		"no line break": {jsonType, func(w http.ResponseWriter) { io.WriteString(w, "{2}") }, "{1}\n{2}\n", nil},
		"a message that is short": {protobufForm.contentType, func(w http.ResponseWriter) {
			io.WriteString(w, "\x00\x00\x00\x01\n\x00\x00\x00\x09\nab")
		}, "\x00\x00\x00\x01\n", errors.New("StatusInternalError")},
	} {
		serveFor(t, func(w http.ResponseWriter, r *http.Request) {
			w.Header().Set("Content-Type", test.typ)
			if test.typ == jsonType {
				io.WriteString(w, "{1}\n")
			}
			test.do(w)
		}, func(t *testing.T, over, _ *http.Client) {
			_, got, err := get(t, over, nil)
			if got != test.want || !errors.Is(err, test.err) &&
				(err == nil || !strings.Contains(err.Error(), test.err.Error())) {
				t.Errorf("%s: %q and error %v, want %q and %v", name, got, err, test.want, test.err)
			}
		})
	}
}

// TestHandlerOrigin checks who may open a WebSocket.
func TestHandlerOrigin(t *testing.T) {
	for origin, want := range map[string]int{
		"http://apiserver": http.StatusOK, "https://apiserver": http.StatusOK, "https://evil.example": http.StatusForbidden,
		"null": http.StatusForbidden,
	} {
		serveFor(t, func(w http.ResponseWriter, r *http.Request) {
			w.Header().Set("Content-Type", jsonType)
			n, err := io.WriteString(w, "{1}\n")
			flushed := http.NewResponseController(w).Flush()
			// Whoever writes to a client that was refused is told so, and need not go on.
			if refused := want != http.StatusOK; (err != nil) != refused || (flushed != nil) != refused || (n == 0) != refused ||
				refused && r.Context().Err() == nil {
				t.Errorf("Origin %q: the handler has written %d bytes, %v, %v; its context %v", origin, n, err, flushed,
					r.Context().Err())
			}
			if err != nil {
				panic(http.ErrAbortHandler) // as handlers do that cannot write: the refusal still arrives
			}
		}, func(t *testing.T, over, plain *http.Client) {
			if resp, body, _ := get(t, over, http.Header{"Origin": {origin}}); resp.StatusCode != want ||
				strings.Contains(body, "{1}") != (want == http.StatusOK) {
				t.Errorf("Origin %q: %s %q, want %d", origin, resp.Status, body, want)
			}
			// Without an Origin, which Client would add.
			resp, _, _ := get(t, plain, http.Header{
				"Connection": {"Upgrade"}, "Upgrade": {"websocket"}, "Sec-Websocket-Version": {"13"},
				"Sec-Websocket-Key": {"AAAAAAAAAAAAAAAAAAAAAA=="},
			})
			if resp.StatusCode != http.StatusForbidden {
				t.Errorf("without an Origin: %s", resp.Status)
			}
		})
	}
}

// TestHandlerClientGone checks that the context of a handler ends when its client has gone.
func TestHandlerClientGone(t *testing.T) {
	ended := make(chan error, 1)
	serveFor(t, func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Type", jsonType)
		io.WriteString(w, "{1}\n")
		<-r.Context().Done()
		_, err := io.WriteString(w, "{2}\n")
		ended <- err
	}, func(t *testing.T, over, _ *http.Client) {
		ctx, cancel := context.WithCancel(t.Context())
		req := rig.Must[*http.Request](t)(http.NewRequestWithContext(ctx, http.MethodGet, watchURL, nil))
		resp := rig.Must[*http.Response](t)(over.Do(req))
		defer resp.Body.Close()
		// The handler waits for its context, and not in the write of a message that nobody reads.
		rig.Must[int](t)(io.ReadFull(resp.Body, make([]byte, len("{1}\n"))))
		synctest.Wait()
		if len(ended) > 0 {
			t.Fatal("the handler has ended before the client")
		}
		cancel()
		if err := <-ended; err == nil {
			t.Error("a write after the client had gone succeeded")
		}
	})
}

// TestSlowReader checks that nothing is read ahead without end: a server whose client does not read
// waits.
func TestSlowReader(t *testing.T) {
	sent := 0
	serveFor(t, func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Type", jsonType)
		for ; sent < 100_000; sent++ {
			if _, err := io.WriteString(w, strings.Repeat(" ", 1000)+"\n"); err != nil {
				return
			}
		}
	}, func(t *testing.T, over, _ *http.Client) {
		resp := rig.Must[*http.Response](t)(over.Get(watchURL))
		rig.Sleep(time.Hour)
		// What fits into the buffers of both sides.
		if sent > 40 {
			t.Errorf("%d messages of 1 kB were taken from the server, and none of them was read", sent)
		}
		resp.Body.Close()
	})
}

// TestEmbeddedServer lists and watches over WebSockets, in both encodings and both ways to list,
// what the embedded server has.
func TestEmbeddedServer(t *testing.T) {
	for _, accept := range []string{jsonType, protoType, ""} {
		for _, mode := range []lw.ListMode{lw.ListWhole, lw.ListStream} {
			synctest.Test(t, func(t *testing.T) {
				s := apiserver.New(apiserver.Options{
					Resources: []apiserver.Resource{{Resource: "things", Kind: "Thing",
						Proto: apiserver.Proto[metav1.PartialObjectMetadata]()}},
					Wrap: Handler,
				})
				client := s.Client()
				defer s.Close()
				defer client.CloseIdleConnections()
				put := func(name string) {
					rig.Must[apiserver.Object](t)(s.Collection("things").Create([]byte(`{"metadata":{"namespace":"a","name":"` +
						name + `"}}`)))
				}
				put("first")
				src := &lw.HTTP[*metav1.PartialObjectMetadata]{
					URL: s.URL("things", ""), Client: Client(client), Accept: accept, Kind: "Thing",
				}
				var reported rig.Errors
				inf := lw.NewInformer(lw.Source[*metav1.PartialObjectMetadata](src), &lw.Options{
					List: mode, WatchTimeout: time.Minute, OnError: reported.Add,
				})
				defer rig.Begin(t, inf)()
				rig.OK(t, inf.WaitForSync(t.Context()))
				for i := range 5 {
					put(fmt.Sprint("more-", i))
					time.Sleep(time.Duration(i) * 30 * time.Second) // through time-outs
				}
				synctest.Wait()
				if n := inf.Store().Len(); n != 6 || len(reported.All()) > 0 {
					t.Errorf("Accept %q, %v: %d objects, want 6; errors %v", accept, mode, n, reported.All())
				}
			})
		}
	}
}
