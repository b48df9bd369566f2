package proof

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"sync/atomic"
	"time"

	"github.com/go-lw/lw"
	"github.com/go-lw/lw/internal/apiserver"
	"github.com/go-lw/lw/serve"
)

// partsPath is where a server and its relays have the parts.
const partsPath = "/apis/lw.test/v1/parts"

// A relay is an informer of a server, or of another relay, with a Handler that serves it. All its
// connections are pipes in the bubble.
type relay struct {
	upstream string
	client   *http.Client // of the upstream
	delay    *delay       // of what the upstream answers
	limits   serve.HistoryLimits
	front    *apiserver.Server // has no collections, but the connections of the relay's clients
	handler  atomic.Pointer[serve.Handler]

	cancel context.CancelFunc
	ended  chan error // has room for what ends the informer, and for what ends Serve
}

func newRelay(upstream string, client *http.Client, limits serve.HistoryLimits) *relay {
	r := &relay{upstream: upstream, limits: limits, delay: &delay{RoundTripper: client.Transport}}
	r.client = &http.Client{Transport: r.delay}
	r.front = apiserver.New(apiserver.Options{Wrap: func(http.Handler) http.Handler {
		return http.HandlerFunc(func(w http.ResponseWriter, req *http.Request) { r.handler.Load().ServeHTTP(w, req) })
	}})
	r.start()
	return r
}

// start begins a process: it knows nothing of the one before.
func (r *relay) start() {
	inf := lw.NewInformer[*serve.Object](serve.Raw(r.upstream, r.client), &lw.Options{
		Name: "relay", WatchTimeout: time.Minute, OnError: func(error) {},
	})
	h := serve.New(&serve.Options{Authorize: serve.AllowAll, BookmarkEvery: 10 * time.Second})
	ctx, cancel := context.WithCancel(context.Background())
	r.cancel, r.ended = cancel, make(chan error, 2)
	ended := r.ended
	r.handler.Store(h)
	go func() { ended <- inf.Run(ctx) }()
	go func() {
		err := serve.Serve(ctx, h, inf, serve.Resource[*serve.Object]{
			Group: "lw.test", Name: "parts", Kind: "Part", History: r.limits,
		})
		if ctx.Err() != nil {
			err = nil
		}
		ended <- err
	}()
}

// stop ends the process, as a kill does if the connections are broken before.
func (r *relay) stop() {
	r.cancel()
	for range 2 {
		if err := <-r.ended; err != nil {
			panic(fmt.Sprintf("a relay ended: %v", err))
		}
	}
}

func (r *relay) restart() {
	r.front.SetDown(true)
	r.stop()
	r.start()
	r.front.SetDown(false)
}

func (r *relay) close() {
	r.stop()
	r.front.Close()
	r.client.CloseIdleConnections()
}

// A delay lets nothing of an answer through until a time, and loses nothing.
type delay struct {
	http.RoundTripper
	until atomic.Pointer[time.Time]
}

func (d *delay) RoundTrip(req *http.Request) (*http.Response, error) {
	resp, err := d.RoundTripper.RoundTrip(req)
	if err == nil {
		resp.Body = &delayed{resp.Body, d}
	}
	return resp, err
}

// CloseIdleConnections is what an http.Client calls.
func (d *delay) CloseIdleConnections() {
	(&http.Client{Transport: d.RoundTripper}).CloseIdleConnections()
}

type delayed struct {
	io.ReadCloser
	by *delay
}

func (b *delayed) Read(p []byte) (int, error) {
	n, err := b.ReadCloser.Read(p)
	if until := b.by.until.Load(); until != nil {
		time.Sleep(time.Until(*until))
	}
	return n, err
}

// relayFaults are what goes wrong with a relay, or between it and those behind it.
var relayFaults = []proofFault{
	onRelay("V01", "relay begins anew", func(r *relay, _ int) { r.restart() }),
	onRelay("V02", "relay reset", func(r *relay, _ int) {
		r.front.SetDown(true)
		r.front.SetDown(false)
	}),
	onRelay("V03", "relay refused", func(r *relay, n int) {
		r.front.SetDown(true)
		time.Sleep(time.Duration(n) * 5 * time.Second)
		r.front.SetDown(false)
	}),
	onRelay("V05", "relay lags", func(r *relay, n int) {
		until := time.Now().Add(time.Duration(n) * 5 * time.Second)
		r.delay.until.Store(&until)
	}),
}

// relaysOf returns the relays before s.
func relaysOf(s partServer) []*relay {
	if s, ok := s.(*web); ok {
		return s.relays
	}
	return nil
}

// onRelay is a fault of one of the relays; with none it is nothing.
func onRelay(id, name string, do func(r *relay, n int)) proofFault {
	return proofFault{id: id, name: name, web: func(w *world, _ *apiserver.Server, n int) {
		if all := relaysOf(w.server); len(all) > 0 {
			do(all[n%len(all)], n)
		}
	}}
}
