// Command relay serves the pods and services of a cluster to the cluster's agents: each relay has
// one watch of the API server for each, and thousands of agents watch the relays. Who may read the
// pods from the API server may read them here.
//
//	go run . -kubeconfig ~/.kube/config -listen :8443 -cert tls.crt -key tls.key
//
// An agent changes the URL of its client, and nothing else. It may go from a relay to another one
// or to the API server and back at any time: resource versions mean the same everywhere.
//
// Without -kubeconfig it starts an API server in memory with two relays of it, and an agent that
// loses the relay it watches. At the end the agent has what the server has, and exits with 0.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"net"
	"net/http"
	"os"
	"os/signal"
	"syscall"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promhttp"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"

	"github.com/go-lw/lw"
	"github.com/go-lw/lw/clientgo/delegate"
	"github.com/go-lw/lw/prom"
	"github.com/go-lw/lw/prom/promserve"
	"github.com/go-lw/lw/serve"
)

func main() {
	kubeconfig := flag.String("kubeconfig", "", "relay this cluster until Ctrl-C")
	listen := flag.String("listen", "127.0.0.1:8443", "where the relay listens")
	cert, key := flag.String("cert", "", "certificate; without it the relay speaks plain HTTP"), flag.String("key", "", "its key")
	flag.Parse()
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	run := demo
	if *kubeconfig != "" {
		run = func(ctx context.Context) error { return onCluster(ctx, *kubeconfig, *listen, *cert, *key) }
	}
	if err := run(ctx); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

func onCluster(ctx context.Context, kubeconfig, listen, cert, key string) error {
	config, err := clientcmd.BuildConfigFromFlags("", kubeconfig)
	if err != nil {
		return err
	}
	client, err := rest.HTTPClientFor(config)
	if err != nil {
		return err
	}
	clientset, err := kubernetes.NewForConfig(config)
	if err != nil {
		return err
	}
	l, err := net.Listen("tcp", listen)
	if err != nil {
		return err
	}
	return relay(ctx, upstream{config.Host, client, clientset}, l, cert, key)
}

// An upstream is the API server that is relayed.
type upstream struct {
	url       string
	client    *http.Client         // for lists and watches
	clientset kubernetes.Interface // is asked who may read
}

// relay serves the upstream's pods and services on l until ctx is done.
func relay(ctx context.Context, up upstream, l net.Listener, cert, key string) error {
	board := &lw.Board{}
	h := serve.New(&serve.Options{Authorize: delegate.Authorizer(up.clientset, nil)})
	pods := lw.NewInformer(serve.Raw(up.url+"/api/v1/pods", up.client), &lw.Options{Name: "pods", Board: board})
	services := lw.NewInformer(serve.Raw(up.url+"/api/v1/services", up.client), &lw.Options{Name: "services", Board: board})
	var group lw.Group
	group.Add(pods)
	group.Add(services)
	go group.Run(ctx)
	go serve.Serve(ctx, h, pods, serve.Resource[*serve.Object]{
		Name: "pods", Kind: "Pod", ShortNames: []string{"po"},
		Fields: map[string]func(*serve.Object) string{
			"spec.nodeName": serve.Field("spec.nodeName"), "status.phase": serve.Field("status.phase"),
		},
	})
	go serve.Serve(ctx, h, services, serve.Resource[*serve.Object]{Name: "services", Kind: "Service", ShortNames: []string{"svc"}})
	if err := group.WaitForSync(ctx); err != nil {
		return err
	}

	metrics := prometheus.NewRegistry()
	metrics.MustRegister(prom.Collector(board), promserve.Collector(h))
	mux := http.NewServeMux()
	mux.Handle("/", h)
	mux.Handle("/metrics", promhttp.HandlerFor(metrics, promhttp.HandlerOpts{}))
	srv := &http.Server{Handler: mux, ReadHeaderTimeout: 10 * time.Second, Protocols: new(http.Protocols)}
	srv.Protocols.SetHTTP1(true) // for many watches HTTP/1.1 is the cheap one
	go func() {
		<-ctx.Done()
		_ = h.Close() // ends the watches, spread over two seconds
		_ = srv.Close()
	}()
	var err error
	if l = serve.Listener(l); cert != "" {
		err = srv.ServeTLS(l, cert, key)
	} else {
		err = srv.Serve(l)
	}
	if errors.Is(err, http.ErrServerClosed) {
		return nil
	}
	return err
}
