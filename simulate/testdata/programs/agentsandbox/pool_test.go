// Package agentsandbox runs sigs.k8s.io/agent-sandbox: version 0.5.3, or with
// -modfile=agentsandbox-mended.mod -tags=mended the version 0.5.6.
package agentsandbox

import (
	"context"
	"testing"

	"github.com/go-lw/lw/simulate"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	clientgoscheme "k8s.io/client-go/kubernetes/scheme"
	"k8s.io/client-go/rest"
	sandboxapi "sigs.k8s.io/agent-sandbox/api/v1beta1"
	"sigs.k8s.io/agent-sandbox/controllers"
	extensionsapi "sigs.k8s.io/agent-sandbox/extensions/api/v1beta1"
	extensions "sigs.k8s.io/agent-sandbox/extensions/controllers"
	"sigs.k8s.io/agent-sandbox/extensions/controllers/queue"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/config"
	metricsserver "sigs.k8s.io/controller-runtime/pkg/metrics/server"
)

type noTracer struct{}

func (noTracer) StartSpan(ctx context.Context, _ metav1.Object, _ string, _ map[string]string) (context.Context, func()) {
	return ctx, func() {}
}
func (noTracer) GetTraceContext(context.Context) string                    { return "" }
func (noTracer) AddEvent(_ context.Context, _ string, _ map[string]string) {}
func (noTracer) IsRecording(context.Context) bool                          { return false }

func start(ctx context.Context, c *rest.Config) error {
	scheme := runtime.NewScheme()
	_, _, _ = clientgoscheme.AddToScheme(scheme), sandboxapi.AddToScheme(scheme), extensionsapi.AddToScheme(scheme)
	mgr, err := ctrl.NewManager(c, ctrl.Options{Scheme: scheme, Metrics: metricsserver.Options{BindAddress: "0"}, Controller: config.Controller{SkipNameValidation: new(true)}})
	if err != nil {
		return err
	}
	if err := (&controllers.SandboxReconciler{Client: mgr.GetClient(), Scheme: scheme, Tracer: noTracer{}}).SetupWithManager(mgr, 1); err != nil {
		return err
	}
	if err := (&extensions.SandboxWarmPoolReconciler{Client: mgr.GetClient(), Scheme: scheme}).SetupWithManager(mgr, 1); err != nil {
		return err
	}
	claims := &extensions.SandboxClaimReconciler{Client: mgr.GetClient(), Scheme: scheme, Tracer: noTracer{}, WarmSandboxQueue: queue.NewSimpleSandboxQueue()}
	if err := claims.SetupWithManager(mgr, 1); err != nil {
		return err
	}
	return mgr.Start(ctx)
}

// A pool of three is filled: issue 1215.
func TestPool(t *testing.T) {
	simulate.Run(t, simulate.World{
		CRDs: simulate.ModuleDir("sigs.k8s.io/agent-sandbox", "k8s/crds"), Start: start, Actors: simulate.Actors{simulate.Pods},
		Steps: func(w *simulate.W) { w.Apply("testdata/pool.yaml") },
	})
}

// Two claims of an empty pool make their own sandboxes. Both versions are clean: in 0.5.3 a claim
// says that its sandbox already exists (issue 1367), and binds when it sees it. The one of 0.5.6
// drops each conflict, since an event follows, and notes a first time unless its view is old.
func TestClaims(t *testing.T) {
	simulate.Run(t, simulate.World{
		CRDs: simulate.ModuleDir("sigs.k8s.io/agent-sandbox", "k8s/crds"), Start: start, Actors: simulate.Actors{simulate.Pods},
		Steps:  func(w *simulate.W) { w.Apply("testdata/claims.yaml") },
		Varies: []string{"sandboxclaims.metadata.annotations.agents.x-k8s.io/claim-first-ready-at"},
	})
}
