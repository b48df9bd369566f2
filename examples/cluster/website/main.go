// Website is the controller of the tutorial in docs/start.md.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"log/slog"
	"net/http"
	"os"
	"os/signal"
	"syscall"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promhttp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/uuid"
	coordinationv1client "k8s.io/client-go/kubernetes/typed/coordination/v1"
	"k8s.io/client-go/tools/clientcmd"
	"k8s.io/client-go/tools/leaderelection"
	"k8s.io/client-go/tools/leaderelection/resourcelock"

	"github.com/go-lw/lw/lwdebug"
	"github.com/go-lw/lw/prom"
)

func main() {
	kubeconfig := flag.String("kubeconfig", "", "the cluster; empty: the one that this process is in")
	address := flag.String("listen", ":8081", "of the probes, the metrics and the page")
	flag.Parse()
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	if err := run(ctx, *kubeconfig, *address); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

func run(stopped context.Context, kubeconfig, address string) error {
	config, err := clientcmd.BuildConfigFromFlags("", kubeconfig)
	if err != nil {
		return err
	}
	c, err := newController(config)
	if err != nil {
		return err
	}
	leases, err := coordinationv1client.NewForConfig(config)
	if err != nil {
		return err
	}

	registry := prometheus.NewRegistry()
	registry.MustRegister(prom.Collector(&c.board))
	http.Handle("/metrics", promhttp.HandlerFor(registry, promhttp.HandlerOpts{}))
	http.Handle("/debug/lw", lwdebug.Handler(&c.board))
	http.Handle("/readyz", lwdebug.Healthy(&c.group, time.Minute))
	http.HandleFunc("/livez", func(w http.ResponseWriter, _ *http.Request) { fmt.Fprintln(w, "ok") })
	go func() { slog.Error("serve", "error", http.ListenAndServe(address, nil)) }()

	ctx, cancel := context.WithCancelCause(stopped)
	defer cancel(nil)
	go func() {
		if err := c.group.Run(ctx); err != nil {
			cancel(err) // such as a selector that does not parse; what a retry can mend is retried
		}
	}()
	leaderelection.RunOrDie(ctx, leaderelection.LeaderElectionConfig{
		Lock: &resourcelock.LeaseLock{
			LeaseMeta:  metav1.ObjectMeta{Namespace: "default", Name: "website-controller"},
			Client:     leases,
			LockConfig: resourcelock.ResourceLockConfig{Identity: string(uuid.NewUUID())},
		},
		LeaseDuration: 15 * time.Second, RenewDeadline: 10 * time.Second, RetryPeriod: 2 * time.Second,
		ReleaseOnCancel: true,
		Callbacks: leaderelection.LeaderCallbacks{
			OnStartedLeading: func(ctx context.Context) {
				if err := c.work(ctx); err != nil {
					cancel(err)
				}
			},
			OnStoppedLeading: func() { cancel(errors.New("the lease is lost")) },
		},
	})
	if stopped.Err() != nil {
		return nil
	}
	return context.Cause(ctx)
}
