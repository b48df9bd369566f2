package simulate_test

import (
	"context"
	"testing"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/client-go/rest"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/config"
	metricsserver "sigs.k8s.io/controller-runtime/pkg/metrics/server"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"github.com/go-lw/lw/simulate"
)

// TestPage runs the block of docs/simulate.md.
func TestPage(t *testing.T) {
	setup := func(mgr ctrl.Manager) error {
		return ctrl.NewControllerManagedBy(mgr).For(&corev1.ConfigMap{}).Complete(reconcile.Func(
			func(ctx context.Context, req reconcile.Request) (reconcile.Result, error) {
				m := new(corev1.ConfigMap)
				err := mgr.GetClient().Get(ctx, req.NamespacedName, m)
				if err == nil && m.Data["made"] == "" {
					m.Data["made"] = m.Data["want"]
					err = mgr.GetClient().Update(ctx, m)
				}
				return reconcile.Result{}, client.IgnoreNotFound(err)
			}))
	}
	simulate.Run(t, simulate.World{
		Start: func(ctx context.Context, c *rest.Config) error {
			mgr, err := ctrl.NewManager(c, ctrl.Options{
				Metrics:    metricsserver.Options{BindAddress: "0"},
				Controller: config.Controller{SkipNameValidation: new(true)}, // it starts again in one process
			})
			if err != nil {
				return err
			}
			if err := setup(mgr); err != nil { // the program's own
				return err
			}
			return mgr.Start(ctx)
		},
		Steps: func(w *simulate.W) {
			w.Apply("testdata/parent.yaml")
			w.Settle()
			w.Delete("testdata/parent.yaml")
		},
	})
}
