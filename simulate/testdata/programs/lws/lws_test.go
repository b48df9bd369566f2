// Package lws runs sigs.k8s.io/lws 0.9.0. Its fault is in all versions up to this one.
package lws

import (
	"context"
	"testing"

	"github.com/go-lw/lw/lwtest"
	"github.com/go-lw/lw/simulate"
	"github.com/go-lw/lw/simulate/cluster"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/runtime"
	clientgoscheme "k8s.io/client-go/kubernetes/scheme"
	"k8s.io/client-go/rest"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/config"
	metricsserver "sigs.k8s.io/controller-runtime/pkg/metrics/server"
	lwsapi "sigs.k8s.io/lws/api/leaderworkerset/v1"
	"sigs.k8s.io/lws/pkg/controllers"
	"sigs.k8s.io/lws/pkg/webhooks"
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
	if err := controllers.NewLeaderWorkerSetReconciler(mgr.GetClient(), scheme, mgr.GetEventRecorder("lws")).SetupWithManager(mgr); err != nil {
		return err
	}
	if err := controllers.NewPodReconciler(mgr.GetClient(), scheme, mgr.GetEventRecorder("lws"), nil).SetupWithManager(mgr); err != nil {
		return err
	}
	return mgr.Start(ctx)
}

var admit = []cluster.Admission{
	{Plural: "pods", Object: &corev1.Pod{}, Default: func(ctx context.Context, a lwtest.Admission) error {
		if a.Old != nil {
			return nil
		}
		return webhooks.NewPodWebhook(nil).Default(ctx, a.Object.(*corev1.Pod))
	}},
	{Group: lwsapi.GroupVersion.Group, Plural: "leaderworkersets", Object: &lwsapi.LeaderWorkerSet{}, Default: func(ctx context.Context, a lwtest.Admission) error {
		return (&webhooks.LeaderWorkerSetWebhook{}).Default(ctx, a.Object.(*lwsapi.LeaderWorkerSet))
	}},
}

// A set of two groups comes up. A revision is made before the leaders' StatefulSet is seen, and
// each reconcile that does not see it makes one more.
func TestSet(t *testing.T) {
	simulate.Run(t, simulate.World{
		CRDs: simulate.ModuleDir("sigs.k8s.io/lws", "config/crd/bases"), Start: start, Admit: admit,
		Actors: simulate.Actors{simulate.StatefulSets, simulate.Pods},
		Steps:  func(w *simulate.W) { w.Apply("testdata/set.yaml") },
	})
}
