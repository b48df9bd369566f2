// Package lwsagain runs sigs.k8s.io/lws: version 0.7.0 with -modfile=lwsagain.mod, 0.8.0 with
// -modfile=lwsagain-mended.mod.
// The webhook's defaults are in the YAML: its package does not build with this controller-runtime.
package lwsagain

import (
	"context"
	"testing"

	"github.com/go-lw/lw/simulate"
	"k8s.io/apimachinery/pkg/runtime"
	clientgoscheme "k8s.io/client-go/kubernetes/scheme"
	"k8s.io/client-go/rest"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/config"
	metricsserver "sigs.k8s.io/controller-runtime/pkg/metrics/server"
	lwsapi "sigs.k8s.io/lws/api/leaderworkerset/v1"
	"sigs.k8s.io/lws/pkg/controllers"
)

func start(ctx context.Context, c *rest.Config) error {
	scheme := runtime.NewScheme()
	_, _ = clientgoscheme.AddToScheme(scheme), lwsapi.AddToScheme(scheme)
	mgr, err := ctrl.NewManager(c, ctrl.Options{Scheme: scheme, Metrics: metricsserver.Options{BindAddress: "0"}, Controller: config.Controller{SkipNameValidation: new(true)}})
	if err != nil {
		return err
	}
	if err := controllers.SetupIndexes(mgr.GetFieldIndexer()); err != nil {
		return err
	}
	//lint:ignore SA1019 these versions take no other recorder.
	if err := controllers.NewLeaderWorkerSetReconciler(mgr.GetClient(), scheme, mgr.GetEventRecorderFor("lws")).SetupWithManager(mgr); err != nil {
		return err
	}
	if err := controllers.NewPodReconciler(mgr.GetClient(), scheme, mgr.GetEventRecorderFor("lws"), nil).SetupWithManager(mgr); err != nil {
		return err
	}
	return mgr.Start(ctx)
}

// A set is deleted, and made again with another template while a StatefulSet of the first is still
// being deleted: issue 732. It has no replicas: the status of one with Pods is wrong if their
// events are late. What else both versions do is no failure here: an apply that fails leaves one
// more equal revision, and a StatefulSet that is not being deleted yet is taken with its label.
func TestAgain(t *testing.T) {
	simulate.Run(t, simulate.World{
		CRDs: simulate.ModuleDir("sigs.k8s.io/lws", "config/crd/bases"), Start: start, Actors: simulate.Actors{simulate.StatefulSets},
		Varies: []string{"controllerrevisions", "statefulsets.metadata.labels", "statefulsets.spec.template.metadata.labels"},
		Steps: func(w *simulate.W) {
			w.Apply("testdata/set.yaml")
			w.Settle()
			w.Delete("testdata/set.yaml")
			w.Settle()
			w.Apply("testdata/other.yaml")
		},
	})
}
