// Package clients_test makes the calls of client-go's clients on a lwtest.Server.
//
//	cd verify/e2e && go test ./upstream/clients
package clients_test

import (
	"context"
	"encoding/json"
	"fmt"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	appsv1 "k8s.io/api/apps/v1"
	autoscalingv1 "k8s.io/api/autoscaling/v1"
	corev1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	appsapply "k8s.io/client-go/applyconfigurations/apps/v1"
	coreapply "k8s.io/client-go/applyconfigurations/core/v1"
	"k8s.io/client-go/discovery"
	"k8s.io/client-go/discovery/cached/memory"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/metadata"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/restmapper"
	"k8s.io/client-go/scale"
	"k8s.io/client-go/util/retry"

	"github.com/go-lw/lw/internal/verify/rig"
	"github.com/go-lw/lw/lwtest"
)

var (
	deployments = schema.GroupVersionResource{Group: "apps", Version: "v1", Resource: "deployments"}
	widgets     = schema.GroupVersionResource{Group: "example.io", Version: "v1", Resource: "widgets"}
)

func deployment(name string) *appsv1.Deployment {
	d := &appsv1.Deployment{}
	d.Name, d.Labels = name, map[string]string{"app": name}
	d.Spec.Template.Spec.Containers = []corev1.Container{{Name: "c", Image: "i:1"}}
	return d
}

func widget(name, color string) *unstructured.Unstructured {
	return &unstructured.Unstructured{Object: map[string]any{
		"apiVersion": "example.io/v1", "kind": "Widget", "metadata": map[string]any{"name": name}, "spec": map[string]any{"color": color},
	}}
}

// says returns members of what a call has returned, or the reason of its error.
func says(obj any, err error, paths ...string) string {
	if err != nil {
		if reason := apierrors.ReasonForError(err); reason != "" {
			return string(reason)
		}
		return err.Error()
	}
	data, err := json.Marshal(obj)
	if err != nil {
		return err.Error()
	}
	var content map[string]any
	if err := json.Unmarshal(data, &content); err != nil {
		return err.Error()
	}
	var out []string
	for _, path := range paths {
		value, _, _ := unstructured.NestedFieldNoCopy(content, strings.Split(path, ".")...)
		text, _ := json.Marshal(value)
		out = append(out, strings.Trim(string(text), `"`))
	}
	return strings.Join(out, " ")
}

// The typed, dynamic, metadata and scale clients, and apply configurations, get what a cluster
// gives them, in protobuf and in JSON.
func TestClients(t *testing.T) {
	for _, contentType := range []string{"", "application/json", "application/vnd.kubernetes.protobuf"} {
		t.Run(contentType, func(t *testing.T) { clients(t, contentType) })
	}
}

func clients(t *testing.T, contentType string) {
	s := lwtest.NewServer(t,
		lwtest.Resource{Plural: "pods", Kind: "Pod", Status: true, Type: &corev1.Pod{}, Fields: []string{"spec.nodeName"}},
		lwtest.Resource{Plural: "configmaps", Kind: "ConfigMap", Type: &corev1.ConfigMap{}},
		lwtest.Resource{Group: "apps", Plural: "deployments", Kind: "Deployment", Status: true, Scale: true, Type: &appsv1.Deployment{}},
		lwtest.Resource{Group: "example.io", Plural: "widgets", Kind: "Widget", Status: true, Versions: []string{"v1beta1"}},
	)
	config := &rest.Config{Host: s.URL(), Transport: s.Client().Transport, QPS: -1, ContentConfig: rest.ContentConfig{ContentType: contentType}}
	ctx := context.Background()
	typed := rig.Must[*kubernetes.Clientset](t)(kubernetes.NewForConfig(config))
	plain := rest.CopyConfig(config)
	plain.ContentType = ""
	dyn := rig.Must[*dynamic.DynamicClient](t)(dynamic.NewForConfig(plain))
	meta := rig.Must[metadata.Interface](t)(metadata.NewForConfig(plain))
	disco := rig.Must[*discovery.DiscoveryClient](t)(discovery.NewDiscoveryClientForConfig(plain))
	cached := memory.NewMemCacheClient(disco)
	scales := rig.Must[scale.ScalesGetter](t)(scale.NewForConfig(plain, restmapper.NewDeferredDiscoveryRESTMapper(cached), dynamic.LegacyAPIPathResolverFunc, scale.NewDiscoveryScaleKindResolver(cached)))
	apps, pods := typed.AppsV1().Deployments("ns"), typed.CoreV1().Pods("ns")
	things, old := dyn.Resource(widgets).Namespace("ns"), dyn.Resource(widgets.GroupResource().WithVersion("v1beta1")).Namespace("ns")
	replicas := func(n int32) *appsapply.DeploymentApplyConfiguration {
		return appsapply.Deployment("b", "ns").WithSpec(appsapply.DeploymentSpec().WithReplicas(n).WithTemplate(
			coreapply.PodTemplateSpec().WithSpec(coreapply.PodSpec().WithContainers(coreapply.Container().WithName("c").WithImage("i")))))
	}
	owner := metav1.ApplyOptions{FieldManager: "owner"}
	other := metav1.ApplyOptions{FieldManager: "other"}
	force := metav1.ApplyOptions{FieldManager: "other", Force: true}
	var kept *appsv1.Deployment
	dryRun := []string{metav1.DryRunAll}

	for _, c := range []struct {
		call string
		do   func() string
		want string
	}{
		{"typed create", func() string {
			d, err := apps.Create(ctx, deployment("a"), metav1.CreateOptions{})
			kept = d
			return says(d, err, "metadata.name", "metadata.namespace", "metadata.generation", "spec.template.spec.containers")
		}, `a ns 1 [{"image":"i:1","name":"c","resources":{}}]`},
		{"typed create again", func() string {
			d, err := apps.Create(ctx, deployment("a"), metav1.CreateOptions{})
			return says(d, err)
		}, "AlreadyExists"},
		{"typed dry run", func() string {
			d, err := apps.Create(ctx, deployment("dry"), metav1.CreateOptions{DryRun: dryRun})
			_, gone := apps.Get(ctx, "dry", metav1.GetOptions{})
			return says(d, err, "metadata.name") + " " + string(apierrors.ReasonForError(gone))
		}, "dry NotFound"},
		{"generateName", func() string {
			d := deployment("")
			d.GenerateName = "made-"
			d, err := apps.Create(ctx, d, metav1.CreateOptions{})
			return fmt.Sprint(err, len(d.Name))
		}, "<nil> 10"},
		{"typed update of the status", func() string {
			kept.Status.Replicas, kept.Spec.Paused = 2, true
			d, err := apps.UpdateStatus(ctx, kept, metav1.UpdateOptions{})
			return says(d, err, "status.replicas", "spec.paused", "metadata.generation")
		}, "2 null 1"},
		{"typed update of an old version", func() string { d, err := apps.Update(ctx, kept, metav1.UpdateOptions{}); return says(d, err) }, "Conflict"},
		{"retry on conflict", func() string {
			err := retry.RetryOnConflict(retry.DefaultRetry, func() error {
				_, err := apps.Update(ctx, kept, metav1.UpdateOptions{})
				if apierrors.IsConflict(err) {
					kept, _ = apps.Get(ctx, "a", metav1.GetOptions{})
				}
				return err
			})
			return says(kept, err, "status.replicas")
		}, "2"},
		{"strategic merge patch", func() string {
			d, err := apps.Patch(ctx, "a", types.StrategicMergePatchType, []byte(`{"spec":{"template":{"spec":{"containers":[{"name":"d","image":"j"}]}}}}`), metav1.PatchOptions{})
			return fmt.Sprint(err, len(d.Spec.Template.Spec.Containers), d.Generation)
		}, "<nil> 2 2"},
		{"merge patch", func() string {
			d, err := apps.Patch(ctx, "a", types.MergePatchType, []byte(`{"metadata":{"labels":{"app":null,"x":"y"}}}`), metav1.PatchOptions{})
			return says(d, err, "metadata.labels")
		}, `{"x":"y"}`},
		{"JSON patch", func() string {
			d, err := apps.Patch(ctx, "a", types.JSONPatchType, []byte(`[{"op":"test","path":"/metadata/labels/x","value":"z"}]`), metav1.PatchOptions{})
			return says(d, err)
		}, "Invalid"},
		{"patch of the status", func() string {
			d, err := apps.Patch(ctx, "a", types.MergePatchType, []byte(`{"status":{"replicas":5},"spec":{"paused":true}}`), metav1.PatchOptions{}, "status")
			return says(d, err, "status.replicas", "spec.paused")
		}, "5 null"},
		{"typed scale", func() string {
			x, err := apps.GetScale(ctx, "a", metav1.GetOptions{})
			if err != nil {
				return err.Error()
			}
			x.Spec.Replicas = 4
			x, err = apps.UpdateScale(ctx, "a", x, metav1.UpdateOptions{})
			return says(x, err, "spec.replicas", "status.replicas")
		}, "4 5"},
		{"scale client", func() string {
			x, err := scales.Scales("ns").Update(ctx, deployments.GroupResource(), &autoscalingv1.Scale{ObjectMeta: metav1.ObjectMeta{Name: "a", Namespace: "ns"}, Spec: autoscalingv1.ScaleSpec{Replicas: 6}}, metav1.UpdateOptions{})
			return says(x, err, "spec.replicas")
		}, "6"},
		{"apply", func() string { d, err := apps.Apply(ctx, replicas(1), owner); return says(d, err, "spec.replicas") }, "1"},
		{"apply of another", func() string { d, err := apps.Apply(ctx, replicas(2), other); return says(d, err) }, "Conflict"},
		{"apply by force", func() string { d, err := apps.Apply(ctx, replicas(2), force); return says(d, err, "spec.replicas") }, "2"},
		{"extract and apply", func() string {
			d := rig.Must[*appsv1.Deployment](t)(apps.Get(ctx, "b", metav1.GetOptions{}))
			mine := rig.Must[*appsapply.DeploymentApplyConfiguration](t)(appsapply.ExtractDeployment(d, "other"))
			d, err := apps.Apply(ctx, mine.WithLabels(map[string]string{"l": "m"}), other)
			return says(d, err, "spec.replicas", "metadata.labels")
		}, `2 {"l":"m"}`},
		{"apply of the status", func() string {
			d, err := apps.ApplyStatus(ctx, appsapply.Deployment("b", "ns").WithStatus(appsapply.DeploymentStatus().WithReplicas(3)), owner)
			return says(d, err, "status.replicas", "spec.replicas")
		}, "3 2"},
		{"list", func() string {
			l, err := apps.List(ctx, metav1.ListOptions{LabelSelector: "l=m"})
			return fmt.Sprint(err, len(l.Items), l.Items[0].Name)
		}, "<nil> 1b"},
		{"dynamic create", func() string {
			w, err := things.Create(ctx, widget("a", "red"), metav1.CreateOptions{})
			return says(w, err, "spec.color", "kind")
		}, "red Widget"},
		{"dynamic get of another version", func() string {
			w, err := old.Get(ctx, "a", metav1.GetOptions{})
			return says(w, err, "apiVersion", "spec.color")
		}, "example.io/v1beta1 red"},
		{"dynamic update", func() string {
			w, err := things.Update(ctx, widget("a", "blue"), metav1.UpdateOptions{})
			return says(w, err, "spec.color", "metadata.generation")
		}, "blue 2"},
		{"dynamic update of nothing", func() string {
			w, err := things.Update(ctx, widget("none", "blue"), metav1.UpdateOptions{})
			return says(w, err)
		}, "NotFound"},
		{"dynamic apply", func() string {
			w, err := things.Apply(ctx, "c", widget("c", "green"), owner)
			return says(w, err, "spec.color")
		}, "green"},
		{"dynamic apply of another", func() string { w, err := things.Apply(ctx, "c", widget("c", "grey"), other); return says(w, err) }, "Conflict"},
		{"dynamic status", func() string {
			w := widget("c", "no")
			w.Object["status"] = map[string]any{"ready": true}
			w, err := things.UpdateStatus(ctx, w, metav1.UpdateOptions{})
			return says(w, err, "spec.color", "status.ready")
		}, "green true"},
		{"metadata patch", func() string {
			m, err := meta.Resource(widgets).Namespace("ns").Patch(ctx, "c", types.MergePatchType, []byte(`{"metadata":{"finalizers":["example.io/x"]}}`), metav1.PatchOptions{})
			return says(m, err, "metadata.finalizers", "metadata.name")
		}, `["example.io/x"] c`},
		{"deletion of another UID", func() string {
			uid := types.UID("other")
			return says(nil, things.Delete(ctx, "c", metav1.DeleteOptions{Preconditions: &metav1.Preconditions{UID: &uid}}))
		}, "Conflict"},
		{"deletion with a finalizer", func() string {
			err := things.Delete(ctx, "c", metav1.DeleteOptions{})
			w, _ := things.Get(ctx, "c", metav1.GetOptions{})
			return fmt.Sprint(err, w.GetDeletionTimestamp() != nil)
		}, "<nil> true"},
		{"deletecollection", func() string {
			err := things.DeleteCollection(ctx, metav1.DeleteOptions{}, metav1.ListOptions{FieldSelector: "metadata.name=a"})
			l, _ := things.List(ctx, metav1.ListOptions{})
			return fmt.Sprint(err, len(l.Items))
		}, "<nil> 1"},
		{"eviction", func() string {
			p := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Name: "p"}}
			p.Spec.Containers = []corev1.Container{{Name: "c"}}
			rig.Must[*corev1.Pod](t)(pods.Create(ctx, p, metav1.CreateOptions{}))
			evict := &policyv1.Eviction{ObjectMeta: metav1.ObjectMeta{Name: "p", Namespace: "ns"}, DeleteOptions: &metav1.DeleteOptions{DryRun: dryRun}}
			out := fmt.Sprint(pods.EvictV1(ctx, evict))
			_, err := pods.Get(ctx, "p", metav1.GetOptions{})
			out += fmt.Sprint(" ", err)
			evict.DeleteOptions = nil
			out += fmt.Sprint(" ", pods.EvictV1(ctx, evict))
			_, err = pods.Get(ctx, "p", metav1.GetOptions{})
			return out + " " + string(apierrors.ReasonForError(err))
		}, "<nil> <nil> <nil> NotFound"},
		{"watch", func() string {
			w, err := typed.CoreV1().ConfigMaps("ns").Watch(ctx, metav1.ListOptions{ResourceVersion: s.ResourceVersion()})
			rig.OK(t, err)
			defer w.Stop()
			_, err = typed.CoreV1().ConfigMaps("ns").Create(ctx, &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: "m"}, Data: map[string]string{"k": "v"}}, metav1.CreateOptions{})
			ev := <-w.ResultChan()
			return fmt.Sprint(err, " ", ev.Type, " ", ev.Object.(*corev1.ConfigMap).Data)
		}, "<nil> ADDED map[k:v]"},
		{"an object of no kind that is served", func() string {
			_, err := typed.CoreV1().Nodes().Get(ctx, "n", metav1.GetOptions{})
			return says(nil, err)
		}, "NotFound"},
	} {
		if diff := cmp.Diff(c.want, c.do()); diff != "" {
			t.Errorf("%s (-want +got):\n%s", c.call, diff)
		}
	}
}
