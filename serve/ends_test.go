package serve_test

import (
	"bufio"
	"bytes"
	"context"
	"crypto/tls"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"math"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/go-lw/lw"
	"github.com/go-lw/lw/internal/verify/rig"
	"github.com/go-lw/lw/serve"
)

const many = 400 // 20 MB; the buffers of a connection take 10 at most

// large returns so many objects that no connection takes all of them unread.
func large() []*Widget {
	var all []*Widget
	for n := range many {
		all = append(all, longWidget(fmt.Sprint(n), n, 50<<10))
	}
	return all
}

// No client that does not read holds up the end of a Handler, nor that of Serve: not with the state
// before the first event, and not with events. One transport after the other, and no other test at
// the same time: Close gives up after some seconds, which a busy process may need for 20 MB a
// client.
func TestEndsWithoutItsClients(t *testing.T) {
	for _, tr := range transports {
		t.Run(tr.name, func(t *testing.T) {
			opts := serve.Options{Limits: serve.Limits{WriteTimeout: time.Hour}}
			run := handleMemory(t, opts, lw.NewMemory[*Widget](), widgets).on(t, tr)
			defer run.srv.Close()
			bodies := map[string]io.ReadCloser{}
			open := func(query string) {
				t.Helper()
				resp, err := run.srv.Client().Get(run.srv.URL + path + "?watch=1&" + query)
				noErr(t, err)
				bodies[query] = resp.Body
			}
			open("resourceVersion=1")
			for _, w := range large() {
				store(t, run.m.Create, w)
			}
			rig.Met(t, patience, "not all objects are there", func() bool { return run.h.Status()[0].Objects == many })
			open("resourceVersion=0")
			open("sendInitialEvents=true&resourceVersionMatch=NotOlderThan")
			if err := run.h.Close(); err != nil { // it takes until then
				t.Error(err)
			}
			if err := <-run.ended; !errors.Is(err, http.ErrServerClosed) {
				t.Error(err)
			}
			for query, body := range bodies {
				if n, err := io.Copy(io.Discard, body); err == nil {
					t.Errorf("%s has ended cleanly after %d bytes", query, n)
				}
				_ = body.Close()
			}
		})
	}
}

// A slow client is a body that is read in small pieces.
func readSlowly(body io.Reader) (n int, err error) {
	for buf := make([]byte, 1<<10); err == nil; time.Sleep(10 * time.Millisecond) {
		var read int
		read, err = body.Read(buf)
		n += read
	}
	return n, err
}

// A client that reads slowly is told of the end of its watch when its time is over, also if it has
// not come to the end of the state, and cut off when the Handler or Serve end before that.
func TestSlowClientEnds(t *testing.T) {
	for _, tt := range []struct {
		name, query string
		end         func(h *serve.Handler, cancel func())
		least, most time.Duration
	}{
		{"in time", "&timeoutSeconds=5", nil, 5 * time.Second, 6 * time.Second},
		{"Close", "", func(h *serve.Handler, _ func()) { _ = h.Close() }, 10 * time.Second, 13500 * time.Millisecond},
		{"Serve", "", func(_ *serve.Handler, cancel func()) { cancel() }, 10 * time.Second, 11500 * time.Millisecond},
	} {
		inBubble(t, serve.Options{}, func(b *bubble) {
			m := lw.NewMemory(large()...)
			ctx, cancel := context.WithCancel(b.ctx)
			ended := make(chan time.Time, 1)
			b.serve(func(context.Context) error {
				err := serve.ServeMemory(ctx, b.h, m, widgets)
				ended <- time.Now()
				return err
			})
			began := time.Now()
			resp, err := b.client.Get("http://server" + path + "?watch=1&resourceVersion=0" + tt.query)
			noErr(t, err)
			if tt.end != nil {
				time.AfterFunc(10*time.Second, func() { tt.end(b.h, cancel) })
			}
			n, err := readSlowly(resp.Body)
			if took := time.Since(began); n == 0 || took < tt.least || took > tt.most || (err == io.EOF) != (tt.end == nil) &&
				tt.name == "in time" {
				t.Errorf("%s: it has ended after %v and %d bytes with %v", tt.name, took, n, err)
			}
			if tt.end != nil {
				if took := (<-ended).Sub(began); took < tt.least || took > tt.most {
					t.Errorf("%s: Serve has returned after %v", tt.name, took)
				}
			}
			cancel()
			_ = resp.Body.Close()
		})
	}
}

// Close does not wait for ever for a connection that it cannot cut off: the program closes it after
// Close. A watch that waits for its beginning is refused; alone it is nothing to wait for.
func TestCloseReturns(t *testing.T) {
	for _, isStuck := range []bool{false, true} {
		served(t, serve.Options{}, widgets, func(b *bubble, _ *lw.Memory[*Widget]) {
			waits := b.begin(path + "?watch=1&sendInitialEvents=true&resourceVersionMatch=NotOlderThan&resourceVersion=99")
			w := &lazy{httptest.NewRecorder(), make(chan struct{}), io.ErrClosedPipe}
			ended := make(chan any, 1)
			if isStuck {
				go func() {
					defer func() { ended <- recover() }()
					b.h.ServeHTTP(w, httptest.NewRequest("GET", path+"?watch=1&resourceVersion=0", nil))
				}()
			}
			synctest.Wait()
			began := time.Now()
			err := b.h.Close()
			if took := time.Since(began); (err != nil) != isStuck || isStuck && took != 7*time.Second || !isStuck && took > 0 {
				t.Errorf("stuck %t: after %v: %v", isStuck, took, err)
			}
			rig.Same(t, "code of a watch that waited", http.StatusTooManyRequests, (<-waits).code)
			close(w.begin)
			if isStuck && <-ended != http.ErrAbortHandler {
				t.Error("the watch has ended as if it were whole")
			}
		}, newWidget(name("a"), 1))
	}
}

// A client that has said that it sends nothing more is gone. It gets no answer to what it waited
// for, and above all none that calls its going an error of the server.
func TestGoneWhileItWaits(t *testing.T) {
	asking := make(chan struct{}, 1)
	opts := serve.Options{Authorize: func(r *http.Request, a serve.Attributes) error {
		if a.Name == "asks" {
			asking <- struct{}{}
			<-r.Context().Done()
			return errors.Join(apierrors.NewServiceUnavailable("the request has ended"), r.Context().Err())
		}
		asking <- struct{}{}
		return nil
	}}
	over(t, transports[:2], opts, widgets, func(t *testing.T, run running) {
		for _, target := range []string{
			path + "?resourceVersion=999", path + "?limit=1&resourceVersion=999&resourceVersionMatch=Exact",
			path + "?watch=1&sendInitialEvents=true&resourceVersionMatch=NotOlderThan&resourceVersion=999",
			"/apis/example.io/v1/namespaces/n/widgets/1?resourceVersion=999", "/apis/example.io/v1/namespaces/n/widgets/asks",
		} {
			c := ask(t, run.srv, target)
			<-asking
			noErr(t, c.(*net.TCPConn).CloseWrite())
			if answer, err := io.ReadAll(c); len(answer) > 0 || err != nil {
				t.Errorf("%s: %v %.300q", target, err, answer)
			}
			_ = c.Close()
		}
		// In the middle of the state, nothing is said of an error either.
		c := dial(t, run.srv, "resourceVersion=0")
		noErr(t, c.(*net.TCPConn).CloseWrite())
		<-asking
		answer, _ := io.ReadAll(c)
		if text := string(answer); strings.Contains(text, `"ERROR"`) || strings.Contains(text, "canceled") {
			t.Errorf("%.300q", text[strings.LastIndex(text, "{"):])
		}
		_ = c.Close()
	}, large()...)
}

// Who says that he sends nothing more is answered where that is not what went wrong, however long
// the authorizer takes. What its requests fail with when he goes is no refusal.
func TestAnswersWhoSendsNothingMore(t *testing.T) {
	opts := serve.Options{Authorize: func(r *http.Request, a serve.Attributes) error {
		<-r.Context().Done()
		switch a.Name {
		case "ended":
			return fmt.Errorf("asking for the right: %w", r.Context().Err())
		case "refused":
			return apierrors.NewForbidden(schema.GroupResource{}, a.Name, nil)
		}
		return nil
	}}
	over(t, transports[:2], opts, widgets, func(t *testing.T, run running) {
		for target, want := range map[string]int{
			in("n"): 200, in("n") + "/a": 200, in("n") + "/x": 404, "/none": 404, path + "?limit=x": 400,
			path + "?watch=1&resourceVersion=x": 500, in("n") + "/refused": 403, in("n") + "/ended": 0,
		} {
			c := ask(t, run.srv, target)
			noErr(t, c.(*net.TCPConn).CloseWrite())
			code := 0
			if resp, err := http.ReadResponse(bufio.NewReader(c), nil); err == nil {
				code = resp.StatusCode
			}
			rig.Same(t, "code of "+target, want, code)
			_ = c.Close()
		}
	}, newWidget(name("a"), 1))
}

// A deadline that a middleware gives a request is a timeout.
func TestDeadlineOfARequest(t *testing.T) {
	served(t, serve.Options{}, widgets, func(b *bubble, _ *lw.Memory[*Widget]) {
		ctx, cancel := context.WithTimeout(b.ctx, time.Second)
		defer cancel()
		w := httptest.NewRecorder()
		b.h.ServeHTTP(w, httptest.NewRequest("GET", path+"?resourceVersion=99", nil).WithContext(ctx))
		if w.Code != http.StatusGatewayTimeout || !strings.Contains(w.Body.String(), `"Timeout"`) {
			t.Errorf("%d %s", w.Code, w.Body)
		}
	})
}

// Durations without an end are long.
func TestEndlessDurations(t *testing.T) {
	forever := time.Duration(math.MaxInt64)
	inBubble(t, serve.Options{BookmarkEvery: forever, Limits: serve.Limits{WatchTimeout: forever, WriteTimeout: forever}},
		func(b *bubble) {
			m := b.memory(lw.NewMemory(newWidget(name("a"), 1)), widgets)
			w := b.watch("resourceVersion=0&allowWatchBookmarks=true")
			short := b.watch("resourceVersion=2&timeoutSeconds=9223372036854775807")
			time.Sleep(23 * time.Hour)
			put(t, m.Update, "a", 2)
			w.want(t, "ADDED a 2", "MODIFIED a 3")
			short.want(t, "MODIFIED a 3")
			time.Sleep(2 * time.Hour) // timeoutSeconds is a day at most
			short.want(t, "END")
			w.want(t)
			w.cancel()
		})
}

// A slowWriter is a client that takes so many bytes, and then nothing until the deadline of its
// connection. Without a deadline it takes nothing for ever.
type slowWriter struct {
	*httptest.ResponseRecorder
	takes int
	moved chan struct{} // closed when the deadline is one that is past

	mu       sync.Mutex // guards deadline
	deadline time.Time
}

var errDeadline = errors.New("the deadline is past")

func (w *slowWriter) SetWriteDeadline(t time.Time) error {
	w.mu.Lock()
	w.deadline = t
	w.mu.Unlock()
	select {
	case <-w.moved:
	default:
		if !t.IsZero() && !t.After(time.Now()) {
			close(w.moved)
		}
	}
	return nil
}

func (w *slowWriter) Write(data []byte) (int, error) {
	if w.takes -= len(data); w.takes >= 0 {
		return w.ResponseRecorder.Write(data)
	}
	w.mu.Lock()
	deadline := w.deadline
	w.mu.Unlock()
	if !deadline.IsZero() {
		time.Sleep(time.Until(deadline))
		return 0, errDeadline
	}
	<-w.moved
	return 0, errDeadline
}

// A client that takes nothing for Limits.WriteTimeout is cut off, whatever it has asked for: its
// connection is broken, not ended as if that were all. Of one that takes everything the connection
// is as it was, for its next request.
func TestSlowClients(t *testing.T) {
	const timeout = 7 * time.Second
	inBubble(t, serve.Options{Limits: serve.Limits{WriteTimeout: timeout, WatchTimeout: time.Minute, Lists: 1}},
		func(b *bubble) {
			large := longWidget("a", 1, 300<<10)
			b.memory(lw.NewMemory(large), widgets)
			for _, tt := range []struct {
				query, encoding string
			}{
				{"", "identity"}, {"", "gzip"}, {"?limit=1", "identity"},
				{"?watch=1&resourceVersion=0", ""}, {"?watch=1&resourceVersion=1", ""},
				{"?watch=1&sendInitialEvents=1&resourceVersionMatch=NotOlderThan&allowWatchBookmarks=1", ""},
			} {
				for _, takes := range []int{0, 100, 1 << 30} {
					w := &slowWriter{ResponseRecorder: httptest.NewRecorder(), takes: takes, moved: make(chan struct{})}
					r := getOf(path+tt.query, "", tt.encoding).WithContext(b.ctx)
					began, broken := time.Now(), any(nil)
					func() {
						defer func() { broken = recover() }()
						b.h.ServeHTTP(w, r)
					}()
					took := time.Since(began)
					switch isWatch := strings.Contains(tt.query, "watch"); {
					case strings.HasSuffix(tt.query, "Version=1"): // 410, which is short
					case takes < 1<<30:
						if broken != http.ErrAbortHandler || took != timeout {
							t.Errorf("%s %s, of which %d bytes are taken: ended with %v after %v", tt.query, tt.encoding, takes,
								broken, took)
						}
					case broken != nil || w.Body.Len() < 300 || isWatch && (took < time.Minute || took > 2*time.Minute) ||
						!isWatch && took > 0:
						t.Errorf("%s %s: ended with %v after %v and %d bytes", tt.query, tt.encoding, broken, took, w.Body.Len())
					case !w.deadline.IsZero():
						t.Errorf("%s %s: the deadline is left at %v", tt.query, tt.encoding, w.deadline)
					}
				}
			}
			synctest.Wait()
			rig.Same(t, "open watches", 0, b.h.Status()[0].Watches)
			b.answers(http.StatusOK, "", "GET", path, "")
		})
}

// A watch over TLS that ends says that nothing was cut off.
func TestCleanEndOverTLS(t *testing.T) {
	run := handleMemory(t, serve.Options{Limits: serve.Limits{WatchTimeout: 20 * time.Millisecond}},
		lw.NewMemory[*Widget](), widgets).on(t, transports[2])
	defer run.stop()
	under, err := net.Dial("tcp", run.srv.Listener.Addr().String())
	noErr(t, err)
	var raw bytes.Buffer
	config := configOf(run.srv)
	config.MaxVersion = tls.VersionTLS12 // whose alerts can be seen
	c := tls.Client(&copied{under, &raw}, config)
	defer c.Close()
	noErr(t, second(fmt.Fprintf(c, "GET %s?watch=1&resourceVersion=1 HTTP/1.1\r\nHost: example.com\r\n\r\n", path)))
	if data, err := io.ReadAll(c); err != nil || !strings.HasSuffix(string(data), "0\r\n\r\n") {
		t.Errorf("%v: %q", err, data)
	}
	last := byte(0) // the type of the last record
	for data := raw.Bytes(); len(data) >= 5; {
		last, data = data[0], data[min(len(data), 5+int(binary.BigEndian.Uint16(data[3:]))):]
	}
	rig.Same(t, "type of the last record, an alert", 21, last)
}

// A copied is a connection that copies what is read.
type copied struct {
	net.Conn
	to *bytes.Buffer
}

func (c *copied) Read(b []byte) (int, error) {
	n, err := c.Conn.Read(b)
	c.to.Write(b[:n])
	return n, err
}
