package simulate_test

import (
	"cmp"
	"context"
	"os"
	"strings"
	"testing"

	gocmp "github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/client-go/rest"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/config"
	metricsserver "sigs.k8s.io/controller-runtime/pkg/metrics/server"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"github.com/go-lw/lw/internal/verify/rig"
	"github.com/go-lw/lw/simulate"
	"github.com/go-lw/lw/simulate/cluster"
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

// TestPageKinds has the page list the built-in kinds, and no others.
func TestPageKinds(t *testing.T) {
	page := string(rig.Must[[]byte](t)(os.ReadFile("../docs/simulate.md")))
	_, table, _ := strings.Cut(page, "## Built-in kinds")
	got, want := map[string][]string{}, map[string][]string{}
	for line := range strings.Lines(table) {
		if cells := strings.Split(line, "|"); len(cells) == 4 && strings.Contains(cells[1], "`") {
			got[strings.Trim(cells[1], " `")] = strings.Split(strings.TrimSpace(cells[2]), ", ")
		}
	}
	for _, r := range cluster.Resources() {
		group := strings.TrimPrefix(r.Group+"/"+cmp.Or(r.Version, "v1"), "/")
		want[group] = append(want[group], r.Plural)
	}
	if diff := gocmp.Diff(want, got, cmpopts.SortSlices(strings.Compare)); diff != "" {
		t.Errorf("(-want +got)\n%s", diff)
	}
}
