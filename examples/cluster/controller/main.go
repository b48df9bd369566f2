// Command controller is a controller to copy: a custom resource and its children, on lw's informers
// and client-go's queue, clients and leader election.
//
//	go run .
//
// demonstrates it on an API server in memory: objects are created, broken and deleted, and the
// connection breaks. It exits with 0 if the server has at the end what it should have.
//
//	go run . -debug :8080
//
// does so too, and shows at http://localhost:8080/ what the informers do. When all has happened,
// the controller goes on until Ctrl-C.
//
//	kubectl apply -f crd.yaml
//	go run . -kubeconfig ~/.kube/config
//
// runs it on a cluster until Ctrl-C or SIGTERM, and serves /healthz and /livez for probes. In the
// cluster, use -in-cluster; deploy.yaml has the account, its rights and the Deployment. On a
// cluster, -debug serves the same page, and /metrics for Prometheus.
//
// To make it yours: copy the directory, run go mod init and go mod tidy, put
// your types into website.go and your work into reconcile.go, and test it as controller_test.go
// does.
package main

import (
	"context"
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
)

func main() {
	kubeconfig := flag.String("kubeconfig", "", "run on the cluster of this file")
	inCluster := flag.Bool("in-cluster", false, "run on the cluster that this process is in")
	namespace := flag.String("namespace", "", "the namespace of the Websites; empty: all")
	address := flag.String("listen", ":8081", "on a cluster, the address of /healthz and /livez; empty: none")
	debugAddress := flag.String("debug", "", "the address of the page of the informers, and of /metrics; empty: none")
	flag.Parse()
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()

	// An address that is taken ends the program before anything has begun.
	debug, err := listen("debug", *debugAddress)
	switch {
	case err != nil:
	case *kubeconfig == "" && !*inCluster:
		err = demo(ctx, os.Stdout, debug)
	default:
		err = run(ctx, *kubeconfig, *namespace, *address, debug)
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

// run runs the controller on a cluster until ctx is done. An empty kubeconfig means the cluster
// that this process is in. If there is a debug listener, it serves Debug there.
func run(ctx context.Context, kubeconfig, namespace, address string, debug net.Listener) error {
	probes, err := listen("listen", address)
	if err != nil {
		return err
	}
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
	defer serve(probes, c.Handler())()
	defer serve(debug, c.Debug())()
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
			if s.Phase == "stopped" {
				http.Error(w, s.Name+" has stopped", http.StatusServiceUnavailable)
				return
			}
		}
		fmt.Fprintln(w, "ok")
	})
	return mux
}
