package serve_test

import (
	"bytes"
	"crypto/tls"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/go-lw/lw"
	"github.com/go-lw/lw/serve"
)

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
	inBubble(t, serve.Options{Limits: serve.Limits{WriteTimeout: timeout, WatchTimeout: time.Minute, Lists: 1}}, func(b *bubble) {
		large := longWidget("a", 1, 300<<10)
		m := lw.NewMemory(large)
		b.memory(m, widgets)
		for _, tt := range []struct {
			query, encoding string
		}{
			{"", "identity"}, {"", "gzip"}, {"?limit=1", "identity"},
			{"?watch=1&resourceVersion=0", ""}, {"?watch=1&resourceVersion=1", ""},
			{"?watch=1&sendInitialEvents=1&resourceVersionMatch=NotOlderThan&allowWatchBookmarks=1", ""},
		} {
			for _, takes := range []int{0, 100, 1 << 30} {
				w := &slowWriter{ResponseRecorder: httptest.NewRecorder(), takes: takes, moved: make(chan struct{})}
				r := httptest.NewRequestWithContext(b.ctx, "GET", path+tt.query, nil)
				r.Header.Set("Accept-Encoding", tt.encoding)
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
						t.Errorf("%s %s, of which %d bytes are taken: ended with %v after %v", tt.query, tt.encoding, takes, broken, took)
					}
				case broken != nil || w.Body.Len() < 300 || isWatch && (took < time.Minute || took > 2*time.Minute) || !isWatch && took > 0:
					t.Errorf("%s %s: ended with %v after %v and %d bytes", tt.query, tt.encoding, broken, took, w.Body.Len())
				case !w.deadline.IsZero():
					t.Errorf("%s %s: the deadline is left at %v", tt.query, tt.encoding, w.deadline)
				}
			}
		}
		synctest.Wait()
		if s := b.h.Status()[0]; s.Watches != 0 {
			t.Errorf("%d watches are open", s.Watches)
		}
		b.answers(http.StatusOK, "", "GET", path, "")
	})
}

// A watch over TLS that ends says that nothing was cut off.
func TestCleanEndOverTLS(t *testing.T) {
	run := handleMemory(t, serve.Options{Limits: serve.Limits{WatchTimeout: 20 * time.Millisecond}}, lw.NewMemory[*Widget](), widgets).on(t, transports[2])
	defer run.stop()
	under, err := net.Dial("tcp", run.srv.Listener.Addr().String())
	noErr(t, err)
	var raw bytes.Buffer
	config := run.srv.Client().Transport.(*http.Transport).TLSClientConfig.Clone()
	config.ServerName, config.MaxVersion = "example.com", tls.VersionTLS12 // whose alerts can be seen
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
	if alert := byte(21); last != alert {
		t.Errorf("the last record is of the type %d, want %d", last, alert)
	}
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

// A client that goes while the informer's server does not answer is forwarded to nobody.
func TestForwardOfAClientThatIsGone(t *testing.T) {
	var forwarded atomic.Int32
	inBubble(t, serve.Options{Forward: http.HandlerFunc(func(http.ResponseWriter, *http.Request) { forwarded.Add(1) })}, func(b *bubble) {
		stuck := &stuckSource{Source: lw.NewMemory(newWidget(name("a"), 1))}
		b.relay(stuck, widgets)
		stuck.now.Store(true)
		for _, p := range []string{path, oneWidget, path + "?watch=1"} {
			b.leave(p)
		}
		time.Sleep(time.Minute)
		if n := forwarded.Load(); n != 0 {
			t.Errorf("%d requests were forwarded", n)
		}
	})
}
