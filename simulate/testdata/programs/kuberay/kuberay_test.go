// Package kuberay runs github.com/ray-project/kuberay/ray-operator 1.6.0, whose mended version the
// module proxy does not serve.
package kuberay

import (
	"context"
	"testing"
	"time"

	"github.com/go-lw/lw/simulate"
	rayapi "github.com/ray-project/kuberay/ray-operator/apis/ray/v1"
	"github.com/ray-project/kuberay/ray-operator/controllers/ray"
	"k8s.io/apimachinery/pkg/runtime"
	clientgoscheme "k8s.io/client-go/kubernetes/scheme"
	"k8s.io/client-go/rest"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/config"
	metricsserver "sigs.k8s.io/controller-runtime/pkg/metrics/server"
)

func start(ctx context.Context, c *rest.Config) error {
	scheme := runtime.NewScheme()
	_, _ = clientgoscheme.AddToScheme(scheme), rayapi.AddToScheme(scheme)
	mgr, err := ctrl.NewManager(c, ctrl.Options{Scheme: scheme, Metrics: metricsserver.Options{BindAddress: "0"}, Controller: config.Controller{SkipNameValidation: new(true)}})
	if err != nil {
		return err
	}
	if err := ray.NewRayCronJobReconciler(mgr).SetupWithManager(mgr, 1); err != nil {
		return err
	}
	return mgr.Start(ctx)
}

// One tick makes one RayJob: issue 4849.
func TestTick(t *testing.T) {
	simulate.Run(t, simulate.World{
		CRDs: simulate.ModuleDir("github.com/ray-project/kuberay/ray-operator", "config/crd/bases"), Start: start,
		Steps: func(w *simulate.W) {
			w.Apply("testdata/cron.yaml")
			w.Pass(61 * time.Minute)
		},
	})
}
