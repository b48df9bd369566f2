// Command manager is a controller-runtime manager whose cache is lw's: see the one line in
// newManager.
//
//	go run .
//
// runs it on an API server in memory, and exits with 0 if the server has at the end what it should
// have.
//
//	go run . -kubeconfig ~/.kube/config
//
// runs it on a cluster until Ctrl-C or SIGTERM. It writes a ConfigMap into each namespace that has
// the label example.dev/team, and nothing else. http://localhost:8080/debug/lw shows what the cache
// does, and /metrics there has its series.
package main

import (
	"context"
	"flag"
	"fmt"
	"log/slog"
	"net/http"
	"os"

	"github.com/go-logr/logr"
	"github.com/prometheus/client_golang/prometheus"
	"k8s.io/client-go/rest"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/metrics"
	metricsserver "sigs.k8s.io/controller-runtime/pkg/metrics/server"

	"github.com/go-lw/lw"
	"github.com/go-lw/lw/controllerruntime"
	"github.com/go-lw/lw/lwdebug"
)

// newManager returns a manager with the reconciler of this example. board shows what its cache
// does, and registry gets the series of that.
func newManager(config *rest.Config, opts ctrl.Options, board *lw.Board, registry prometheus.Registerer) (ctrl.Manager, error) {
	// Without this line the cache is controller-runtime's own. With NewCache alone nobody sees what
	// it does.
	options := controllerruntime.Options{Board: board, Metrics: registry, Reasons: true}
	opts.NewCache = controllerruntime.NewCacheWith(options)

	mgr, err := ctrl.NewManager(config, opts)
	if err != nil {
		return nil, err
	}
	return mgr, (&teamReconciler{}).setup(mgr, options)
}

func main() {
	// controller-runtime has defined the flag -kubeconfig.
	flag.Parse()
	ctx := ctrl.SetupSignalHandler()
	var err error
	if flag.Lookup("kubeconfig").Value.String() == "" {
		err = demo(ctx, os.Stdout)
	} else {
		err = run(ctx)
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

// run runs the manager on the cluster of -kubeconfig until ctx is done.
func run(ctx context.Context) error {
	config, err := ctrl.GetConfig()
	if err != nil {
		return err
	}
	var board lw.Board
	mgr, err := newManager(config, ctrl.Options{
		Logger: logr.FromSlogHandler(slog.Default().Handler()),
		// The manager's own server has the page, beside /metrics. The page has names of objects and
		// texts of errors: it is for those who may see these, and so is this address.
		Metrics: metricsserver.Options{
			BindAddress:   "localhost:8080",
			ExtraHandlers: map[string]http.Handler{"/debug/lw": lwdebug.Handler(&board)},
		},
	}, &board, metrics.Registry)
	if err != nil {
		return err
	}
	return mgr.Start(ctx)
}
