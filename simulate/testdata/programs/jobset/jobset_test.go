// Package jobset runs sigs.k8s.io/jobset: version 0.10.1, or with
// -modfile=jobset-mended.mod -tags=mended the version 0.12.0. The webhook's defaults are in the YAML.
package jobset

import (
	"context"
	"testing"

	"github.com/go-lw/lw/simulate"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	clientgoscheme "k8s.io/client-go/kubernetes/scheme"
	"k8s.io/client-go/rest"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/config"
	metricsserver "sigs.k8s.io/controller-runtime/pkg/metrics/server"
	jobsetapi "sigs.k8s.io/jobset/api/jobset/v1alpha2"
	"sigs.k8s.io/jobset/pkg/controllers"
)

func start(ctx context.Context, c *rest.Config) error {
	scheme := runtime.NewScheme()
	_ = clientgoscheme.AddToScheme(scheme)
	_ = jobsetapi.AddToScheme(scheme)
	mgr, err := ctrl.NewManager(c, ctrl.Options{Scheme: scheme, Metrics: metricsserver.Options{BindAddress: "0"}, Controller: config.Controller{SkipNameValidation: new(true)}})
	if err != nil {
		return err
	}
	if err := controllers.SetupJobSetIndexes(ctx, mgr.GetFieldIndexer()); err != nil {
		return err
	}
	if err := controllers.NewJobSetReconciler(mgr.GetClient(), scheme, recorder(mgr)).SetupWithManager(mgr); err != nil {
		return err
	}
	return mgr.Start(ctx)
}

// crds is in the module itself.
var crds = simulate.ModuleDir("sigs.k8s.io/jobset", "config/components/crd/bases")

func world(steps func(w *simulate.W)) simulate.World {
	return simulate.World{CRDs: crds, Start: start, Actors: simulate.Actors{simulate.Jobs, simulate.Pods, simulate.Endpoints}, Steps: steps}
}

// A JobSet fails, is started again once, and fails for good: issue 1193.
func TestFails(t *testing.T) {
	simulate.Run(t, world(func(w *simulate.W) { w.Apply("testdata/fails.yaml") }))
}

// One that has failed is deleted, and made again by its name: issue 1167. What counts is how the
// JobSet ends. Version 0.12.0 takes a Service by its name, too, whoever owns it, and a start that
// sees an old state deletes a Job of a JobSet that has ended.
func TestAgain(t *testing.T) {
	again := world(func(w *simulate.W) {
		w.Apply("testdata/fails.yaml")
		w.Settle()
		w.Delete("testdata/fails.yaml")
		w.Apply("testdata/works.yaml")
	})
	again.Ends = func(calm, end simulate.State) bool { return outcome(calm) == outcome(end) }
	simulate.Run(t, again)
}

func outcome(s simulate.State) string {
	for _, obj := range s.Objects {
		if obj.GetKind() == "JobSet" {
			state, _, _ := unstructured.NestedString(obj.Object, "status", "terminalState")
			return state
		}
	}
	return ""
}
