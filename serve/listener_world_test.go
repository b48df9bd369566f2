package serve_test

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"pgregory.net/rapid"

	"github.com/go-lw/lw"
	"github.com/go-lw/lw/internal/verify/rig"
	"github.com/go-lw/lw/serve"
)

// patience bounds each wait of the model. It is for a busy machine.
const patience = 2 * time.Minute

// A listenerWorld is a Memory, a Handler that serves it behind a Listener, and clients.
type listenerWorld struct {
	truth
	m       *lw.Memory[*Widget]
	valve   *valve[*Widget] // before a relay; else nil
	h       *serve.Handler
	srv     *httptest.Server
	end     context.CancelFunc // of Serve
	ended   chan error
	conns   atomic.Int64 // that the server has open
	clients []*modelClient
	writes  int
	relists int // the informer of a relay has few requests at once
	names   int
}

func newListenerWorld(t *rapid.T, secure, relays bool) *listenerWorld {
	w := &listenerWorld{m: lw.NewMemory[*Widget](), ended: make(chan error, 1)}
	w.truth.kept, w.truth.maxTxn, w.truth.version = 10_000, 4, 1
	r := widgets
	if rapid.IntRange(0, 3).Draw(t, "short history") == 0 {
		r.History.Events = 40
		w.kept = 40
	}
	limits := serve.Limits{WriteTimeout: time.Hour}
	switch rapid.IntRange(0, 5).Draw(t, "limits") {
	case 0:
		limits.WatchTimeout, w.timed = 20*time.Millisecond, true
	case 1:
		limits.WriteTimeout, w.impatient = 20*time.Millisecond, true
	case 2:
		limits.Watches, w.limited = 3, true
	}
	opts := serve.Options{Authorize: serve.AllowAll, Logger: quiet, Limits: limits}
	if rapid.Bool().Draw(t, "many bookmarks") {
		opts.BookmarkEvery = time.Millisecond
	}
	w.h = serve.New(&opts)
	ctx, cancel := context.WithCancel(context.Background())
	w.end = cancel
	if relays {
		w.valve = newValve(w.m)
		r.Fresh = serve.FreshHere
		inf := lw.NewInformer[*Widget](w.valve, &lw.Options{
			Logger: quiet, Backoff: func(int) time.Duration { return time.Millisecond },
		})
		go func() {
			running, stop := context.WithCancel(context.Background())
			ran := make(chan error, 1)
			go func() { ran <- inf.Run(running) }()
			err := serve.Serve(ctx, w.h, inf, r)
			stop()
			<-ran
			w.ended <- err
		}()
	} else {
		go func() { w.ended <- serve.ServeMemory(ctx, w.h, w.m, r) }()
	}
	rig.Met(t, patience, "it is not served", func() bool { s := w.h.Status(); return len(s) > 0 && s[0].Synced })
	// Smaller than what a loopback interface sends at once they would be slow, not small.
	buffer := rapid.SampledFrom([]int{128 << 10, 1 << 20}).Draw(t, "socket buffer")
	w.srv = listening("", secure, func(l net.Listener) net.Listener {
		return serve.Listener(accepting{l, func(c *net.TCPConn) net.Conn {
			_ = c.SetWriteBuffer(buffer)
			w.conns.Add(1)
			return &countedConn{TCPConn: c, open: &w.conns}
		}})
	}).start(w.h)
	return w
}

// An accepting is a Listener that changes what it accepts.
type accepting struct {
	net.Listener
	wrap func(*net.TCPConn) net.Conn
}

func (l accepting) Accept() (net.Conn, error) {
	c, err := l.Listener.Accept()
	if err != nil {
		return nil, err
	}
	return l.wrap(c.(*net.TCPConn)), nil
}

type countedConn struct {
	*net.TCPConn
	open *atomic.Int64
	once sync.Once
}

func (c *countedConn) Close() error {
	c.once.Do(func() { c.open.Add(-1) })
	return c.TCPConn.Close()
}

// A valve is a Source that tells nothing while it is shut.
type valve[T lw.Object] struct {
	*lw.Memory[T]
	mu    sync.Mutex // guards the fields below
	open  chan struct{}
	watch context.CancelFunc // of the open watch
}

func newValve[T lw.Object](m *lw.Memory[T]) *valve[T] {
	v := &valve[T]{Memory: m, open: make(chan struct{})}
	close(v.open)
	return v
}

func (v *valve[T]) shut() {
	v.mu.Lock()
	defer v.mu.Unlock()
	v.open = make(chan struct{})
}

// goOn opens the valve.
func (v *valve[T]) goOn() {
	v.mu.Lock()
	defer v.mu.Unlock()
	close(v.open)
}

// expire opens the valve, and ends the watch: its events are not known any more.
func (v *valve[T]) expire() {
	v.mu.Lock()
	defer v.mu.Unlock()
	if v.watch != nil {
		v.watch()
	}
	close(v.open)
}

func (v *valve[T]) Watch(ctx context.Context, opts metav1.ListOptions, yield func(lw.WatchEvent[T]) error) error {
	v.mu.Lock()
	watching, cancel := context.WithCancel(ctx)
	v.watch = cancel
	v.mu.Unlock()
	defer cancel()
	err := v.Memory.Watch(watching, opts, func(ev lw.WatchEvent[T]) error {
		v.mu.Lock()
		open := v.open
		v.mu.Unlock()
		select {
		case <-open:
		case <-watching.Done():
		}
		if err := watching.Err(); err != nil {
			return err
		}
		return yield(ev)
	})
	if watching.Err() != nil && ctx.Err() == nil {
		return apierrors.NewResourceExpired("the valve was shut")
	}
	return err
}

func request(t *rapid.T, c net.Conn, target, accept string) {
	t.Helper()
	noErr(t, second(fmt.Fprintf(c, "GET %s HTTP/1.1\r\nHost: example.com\r\nAccept: %s\r\n\r\n", target, accept)))
}

func (w *listenerWorld) dial(t *rapid.T) (*gate, net.Conn) {
	c, err := net.Dial("tcp", w.srv.Listener.Addr().String())
	noErr(t, err)
	_ = c.(*net.TCPConn).SetReadBuffer(256 << 10)
	g := newGate(c.(*net.TCPConn))
	if w.srv.TLS == nil {
		return g, g
	}
	secure := tls.Client(g, configOf(w.srv))
	noErr(t, secure.Handshake())
	return g, secure
}

func (w *listenerWorld) judgeOne(t *rapid.T, c *modelClient) (done bool) {
	wrong, done := w.judge(c)
	if wrong != "" {
		code, all, ended, err := c.state()
		t.Fatalf("%s: %s\nfrom %d, code %d, ended %v, %v, told %d:\n%s", c.name, wrong, c.version, code, ended, err, len(all),
			texts(all))
	}
	return done
}

// texts shows the last events that a client was told of.
func texts(all []told) string {
	var b strings.Builder
	for _, ev := range all[max(0, len(all)-5):] {
		fmt.Fprintf(&b, "%+v\n", ev)
	}
	return b.String()
}

// reached waits until what is served is as new as the Memory.
func (w *listenerWorld) reached(t *rapid.T) {
	rig.Until(t, patience, func() string {
		if s := w.h.Status()[0]; !s.Synced || s.ResourceVersion != w.version {
			return fmt.Sprintf("what is served is at %d, want %d", s.ResourceVersion, w.version)
		}
		return ""
	})
}

// vacant waits until nothing is counted any more.
func (w *listenerWorld) vacant(t *rapid.T) {
	rig.Until(t, patience, func() string {
		if s := w.h.Status(); len(s) > 0 && s[0].Watches != 0 {
			return fmt.Sprintf("%d watches are open", s[0].Watches)
		}
		if n := w.conns.Load(); n != 0 {
			return fmt.Sprintf("%d connections are open", n)
		}
		return ""
	})
}

// stop ends everything, whatever has happened.
func (w *listenerWorld) stop() {
	for _, c := range w.clients {
		_ = c.gate.Close()
	}
	w.end()
	err := <-w.ended
	w.srv.Client().CloseIdleConnections()
	w.srv.CloseClientConnections()
	w.srv.Close()
	if !errors.Is(err, context.Canceled) && !errors.Is(err, lw.ErrStopped) && !errors.Is(err, http.ErrServerClosed) {
		panic(fmt.Sprintf("Serve has ended with %v", err))
	}
}
