// Command controller is a controller to copy: a custom resource and its children, on lw's informers
// and client-go's queue, clients and leader election.
//
//	go run .
//
// demonstrates it on an API server in memory: objects are created, broken and deleted, and the
// connection breaks. It exits with 0 if the server has at the end what it should have.
//
//	kubectl apply -f crd.yaml
//	go run . -kubeconfig ~/.kube/config
//
// runs it on a cluster until Ctrl-C or SIGTERM, and serves /healthz, /livez and /statusz. In the
// cluster, use -in-cluster.
//
// To make it yours: copy the directory, remove the replace lines of go.mod and run go mod tidy, put
// your types into website.go and your work into reconcile.go, and test it as controller_test.go
// does.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"os"
	"os/signal"
	"syscall"

	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"

	"github.com/go-lw/lw"
)

func main() {
	kubeconfig := flag.String("kubeconfig", "", "run on the cluster of this file")
	inCluster := flag.Bool("in-cluster", false, "run on the cluster that this process is in")
	namespace := flag.String("namespace", "", "the namespace of the Websites; empty: all")
	address := flag.String("listen", ":8080", "the address of /healthz, /livez and /statusz")
	flag.Parse()
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()

	var err error
	if *kubeconfig == "" && !*inCluster {
		err = demo(ctx, os.Stdout)
	} else {
		err = run(ctx, *kubeconfig, *namespace, *address)
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

// run runs the controller on a cluster until ctx is done. An empty kubeconfig means the cluster
// that this process is in.
func run(ctx context.Context, kubeconfig, namespace, address string) error {
	config, err := clientcmd.BuildConfigFromFlags("", kubeconfig)
	if err != nil {
		return err
	}
	// client-go's limits of requests in a second. They do not concern the informers.
	config.QPS, config.Burst = 50, 100
	config.UserAgent = rest.DefaultKubernetesUserAgent() + " website-controller"
	c, err := New(config, namespace, slog.Default())
	if err != nil {
		return err
	}
	listener, err := net.Listen("tcp", address)
	if err != nil {
		return err
	}
	server := &http.Server{Handler: c.Handler()}
	defer server.Close()
	go func() {
		if err := server.Serve(listener); !errors.Is(err, http.ErrServerClosed) {
			slog.Error("the probes are not served", "error", err)
		}
	}()
	return c.Run(ctx)
}

// Handler answers the probes.
func (c *Controller) Handler() http.Handler {
	mux := http.NewServeMux()
	// For a readiness probe and alerts: are the stores up to date?
	mux.HandleFunc("/healthz", func(w http.ResponseWriter, _ *http.Request) {
		if err := c.Healthy(); err != nil {
			http.Error(w, err.Error(), http.StatusServiceUnavailable)
			return
		}
		fmt.Fprintln(w, "ok")
	})
	// For a liveness probe: would a restart help? An API server that is down is no reason.
	mux.HandleFunc("/livez", func(w http.ResponseWriter, _ *http.Request) {
		for _, s := range c.group.Status() {
			if s.Phase == lw.PhaseStopped {
				http.Error(w, s.Informer+" has stopped", http.StatusServiceUnavailable)
				return
			}
		}
		fmt.Fprintln(w, "ok")
	})
	// For people. The same numbers make good metrics: read them when you are scraped.
	mux.HandleFunc("/statusz", func(w http.ResponseWriter, _ *http.Request) {
		for _, s := range c.group.Status() {
			fmt.Fprintf(w, "%-10s %-9s version %s: %d objects, %d changes wait, %d events, %d relists, %d failures",
				s.Informer, s.Phase, s.ResourceVersion, s.Objects, s.Pending, s.Events, s.Relists, s.Failures)
			if s.Err != nil {
				fmt.Fprintf(w, " since %s: %v", s.Since.Format("15:04:05"), s.Err)
			}
			fmt.Fprintln(w)
			for key, err := range s.SetAside {
				fmt.Fprintf(w, "  %s is not up to date: %v\n", key, err)
			}
		}
		fmt.Fprintf(w, "%d websites wait for a worker\n", c.queue.Len())
	})
	return mux
}
