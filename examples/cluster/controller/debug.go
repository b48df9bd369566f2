package main

import (
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/http"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/collectors"
	"github.com/prometheus/client_golang/prometheus/promhttp"

	"github.com/go-lw/lw/lwdebug"
	"github.com/go-lw/lw/prom"
)

// Debug answers with the page of the informers at / and /debug/lw, in JSON with ?format=json, and
// with the metrics of Prometheus at /metrics. The page has names of objects and texts of errors, so
// it is not for everybody, and not on the address of the probes.
func (c *Controller) Debug() http.Handler {
	// Not the registry of all packages, so that there may be several controllers in a process.
	registry := prometheus.NewRegistry()
	registry.MustRegister(
		prom.Collector(&c.board),
		collectors.NewGoCollector(),
		collectors.NewProcessCollector(collectors.ProcessCollectorOpts{}),
		prometheus.NewGaugeFunc(prometheus.GaugeOpts{
			Name: "workqueue_depth", Help: "Keys that wait for a worker.", ConstLabels: prometheus.Labels{"name": "websites"},
		}, func() float64 { return float64(c.queue.Len()) }),
	)
	mux := http.NewServeMux()
	page := lwdebug.Handler(&c.board)
	mux.Handle("/{$}", page)
	mux.Handle("/debug/lw", page)
	mux.Handle("/metrics", promhttp.HandlerFor(registry, promhttp.HandlerOpts{}))
	return mux
}

// listen listens on the address that a flag has. It returns nil if that is "".
func listen(flag, address string) (net.Listener, error) {
	if address == "" {
		return nil, nil
	}
	listener, err := net.Listen("tcp", address)
	if err != nil {
		return nil, fmt.Errorf("-%s %s: %w", flag, address, err)
	}
	return listener, nil
}

// serve serves h on listener until stop is called. It does nothing if listener is nil.
func serve(listener net.Listener, h http.Handler) (stop func()) {
	if listener == nil {
		return func() {}
	}
	server, ended := &http.Server{Handler: h}, make(chan struct{})
	go func() {
		defer close(ended)
		if err := server.Serve(listener); !errors.Is(err, http.ErrServerClosed) {
			slog.Error("nothing is served any more", "address", listener.Addr(), "error", err)
		}
	}()
	return func() {
		server.Close()
		<-ended
	}
}

// url returns where a browser on this machine finds what is served on listener.
func url(listener net.Listener) string {
	address := listener.Addr().String()
	if tcp, ok := listener.Addr().(*net.TCPAddr); ok && tcp.IP.IsUnspecified() {
		address = fmt.Sprintf("localhost:%d", tcp.Port)
	}
	return "http://" + address + "/"
}
