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
// the label example.dev/team, and nothing else.
package main

import (
	"context"
	"flag"
	"fmt"
	"log/slog"
	"os"

	"github.com/go-logr/logr"
	"k8s.io/client-go/rest"
	ctrl "sigs.k8s.io/controller-runtime"

	"github.com/go-lw/lw/controllerruntime"
)

// newManager returns a manager with the reconciler of this example.
func newManager(config *rest.Config, opts ctrl.Options) (ctrl.Manager, error) {
	// Without this line the cache is controller-runtime's own.
	opts.NewCache = controllerruntime.NewCache

	mgr, err := ctrl.NewManager(config, opts)
	if err != nil {
		return nil, err
	}
	return mgr, (&teamReconciler{}).setup(mgr)
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
	mgr, err := newManager(config, ctrl.Options{Logger: logr.FromSlogHandler(slog.Default().Handler())})
	if err != nil {
		return err
	}
	return mgr.Start(ctx)
}
