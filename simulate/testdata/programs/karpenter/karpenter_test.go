// Package karpenter runs sigs.k8s.io/karpenter 1.14.0 with its kwok provider. Its fault is in all
// versions up to this one.
package karpenter

import (
	"context"
	"strings"
	"testing"
	"time"

	"github.com/go-lw/lw/simulate"
	"github.com/prometheus/client_golang/prometheus"
	"github.com/samber/lo"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	storagev1 "k8s.io/api/storage/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/rest"
	"k8s.io/utils/clock"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/config"
	"sigs.k8s.io/controller-runtime/pkg/metrics"
	metricsserver "sigs.k8s.io/controller-runtime/pkg/metrics/server"
	kwok "sigs.k8s.io/karpenter/kwok/cloudprovider"
	kwokoptions "sigs.k8s.io/karpenter/kwok/options"
	v1 "sigs.k8s.io/karpenter/pkg/apis/v1"
	"sigs.k8s.io/karpenter/pkg/cloudprovider/overlay"
	"sigs.k8s.io/karpenter/pkg/controllers"
	"sigs.k8s.io/karpenter/pkg/controllers/nodeclaim/consistency"
	"sigs.k8s.io/karpenter/pkg/controllers/nodeoverlay"
	"sigs.k8s.io/karpenter/pkg/controllers/state"
	"sigs.k8s.io/karpenter/pkg/events"
	"sigs.k8s.io/karpenter/pkg/operator/options"
)

func start(ctx context.Context, c *rest.Config) error {
	ctx = kwokoptions.ToContext(ctx, &kwokoptions.Options{InstanceTypesFilePath: "testdata/types.json"})
	ctx = options.ToContext(ctx, &options.Options{BatchMaxDuration: 10 * time.Second, BatchIdleDuration: time.Second, CPURequests: 1000, IgnoreDRARequests: true,
		PreferencePolicy: options.PreferencePolicyRespect, MinValuesPolicy: options.MinValuesPolicyStrict, FeatureGates: options.DefaultFeatureGates()})
	metrics.Registry = prometheus.NewRegistry() // it starts again in one process
	mgr := lo.Must(ctrl.NewManager(c, ctrl.Options{BaseContext: func() context.Context { return ctx },
		Metrics: metricsserver.Options{BindAddress: "0"}, Controller: config.Controller{SkipNameValidation: new(true)}}))
	class := "spec.nodeClassRef.group spec.nodeClassRef.kind spec.nodeClassRef.name "
	for object, fields := range map[client.Object]string{&corev1.Pod{}: "spec.nodeName", &storagev1.VolumeAttachment{}: "spec.nodeName", &corev1.Node{}: "spec.providerID",
		&v1.NodeClaim{}: class + "status.providerID", &v1.NodePool{}: strings.ReplaceAll(class, "spec.", "spec.template.spec.")} {
		for field := range strings.FieldsSeq(fields) {
			lo.Must0(mgr.GetFieldIndexer().IndexField(ctx, object, field, func(o client.Object) []string {
				value, _, _ := unstructured.NestedString(lo.Must(runtime.DefaultUnstructuredConverter.ToUnstructured(o)), strings.Split(field, ".")...)
				return []string{value}
			}))
		}
	}
	for _, o := range []client.Object{&appsv1.DaemonSet{}, &corev1.Namespace{}, &corev1.PersistentVolume{}, &corev1.PersistentVolumeClaim{}, &policyv1.PodDisruptionBudget{}, &storagev1.CSINode{}, &storagev1.StorageClass{}} {
		lo.Must(mgr.GetCache().GetInformer(ctx, o)) // else it starts while a mutex is held
	}
	inner, store, real := kwok.NewCloudProvider(ctx, mgr.GetClient(), lo.Must(kwok.ConstructInstanceTypes(ctx))), nodeoverlay.NewInstanceTypeStore(), clock.RealClock{}
	provider := overlay.Decorate(inner, mgr.GetClient(), store)
	cluster, recorder := state.NewCluster(real, mgr.GetClient(), provider), events.NewRecorder(mgr.GetEventRecorderFor("karpenter"))
	for _, c := range controllers.NewControllers(ctx, mgr, real, mgr.GetClient(), recorder, provider, inner, cluster, store) {
		// That of consistency waits with a timer for a cache to forget, which here is never in time.
		if _, is := c.(*consistency.Controller); !is {
			lo.Must0(c.Register(ctx, mgr))
		}
	}
	return mgr.Start(ctx)
}

// A Pod gets a node. After a crash the provider makes another one, and forgets the first, or none.
// The order of requirements is that of a map. A crash hides when a Pod was put on its node.
func TestPool(t *testing.T) {
	simulate.Run(t, simulate.World{
		CRDs: simulate.ModuleDir("sigs.k8s.io/karpenter", "kwok"), Start: start, Actors: simulate.Actors{simulate.Nodes, simulate.Pods},
		Steps: func(w *simulate.W) { w.Apply("testdata/pool.yaml") }, Varies: []string{"nodeclaims.spec.requirements", "nodeclaims.status.lastPodEventTime"},
		Ends: func(_, end simulate.State) bool {
			return lo.CountBy(end.Objects, func(o *unstructured.Unstructured) bool { return o.GetKind() == "Node" }) != 2
		},
	})
}
