package builtin

import (
	"context"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	schedulingv1 "k8s.io/api/scheduling/v1"
	storagev1 "k8s.io/api/storage/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apiserver/pkg/authorization/authorizerfactory"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	"k8s.io/kubernetes/pkg/apis/storage/util"

	"github.com/go-lw/lw/lwtest"
	"github.com/go-lw/lw/simulate/cluster"
)

// admitted returns a client of a server with the plugins and the namespace n.
func admitted(t *testing.T) (kubernetes.Interface, *warned) {
	p, all := &Plugins{}, cluster.Resources()
	for i := range all {
		all[i] = Rules(all[i], p)
	}
	s := lwtest.NewServer(t, all...)
	w := &warned{}
	config := &rest.Config{Host: s.URL(), Transport: s.Client().Transport, WarningHandlerWithContext: w, QPS: -1}
	if err := p.Start(t.Context(), config, authorizerfactory.NewAlwaysAllowAuthorizer()); err != nil {
		t.Fatal(err)
	}
	c, err := kubernetes.NewForConfig(config)
	if err != nil {
		t.Fatal(err)
	}
	n := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: "n"}}
	if _, err := c.CoreV1().Namespaces().Create(t.Context(), n, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	return c, w
}

// What the plugins of kube-apiserver give objects, and refuse.
func TestPlugins(t *testing.T) {
	c, w := admitted(t)
	ctx, cancel := context.WithTimeout(t.Context(), 20*time.Second)
	defer cancel()
	create := metav1.CreateOptions{}
	pods, spec := c.CoreV1().Pods("n"), corev1.PodSpec{Containers: []corev1.Container{{Name: "c", Image: "i"}}}
	must := func(err error) {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
	}
	_, err := c.SchedulingV1().PriorityClasses().Create(ctx, &schedulingv1.PriorityClass{ObjectMeta: metav1.ObjectMeta{Name: "high"}, Value: 7}, create)
	must(err)
	_, err = c.CoreV1().LimitRanges("n").Create(ctx, &corev1.LimitRange{ObjectMeta: metav1.ObjectMeta{Name: "l"}, Spec: corev1.LimitRangeSpec{
		Limits: []corev1.LimitRangeItem{{Type: corev1.LimitTypeContainer, Default: corev1.ResourceList{"cpu": resource.MustParse("1")}}},
	}}, create)
	must(err)

	// The plugins see a class and a limit a moment after their creation.
	var pod *corev1.Pod
	for pod == nil || pod.Spec.Containers[0].Resources.Limits.Cpu().IsZero() {
		with := spec
		with.PriorityClassName = "high"
		pod, err = pods.Create(ctx, &corev1.Pod{ObjectMeta: metav1.ObjectMeta{GenerateName: "p-"}, Spec: with}, create)
		if apierrors.IsForbidden(err) {
			pod = nil
			continue
		}
		must(err)
	}
	var tolerated []string
	for _, toleration := range pod.Spec.Tolerations {
		tolerated = append(tolerated, toleration.Key)
	}
	if diff := cmp.Diff([]string{corev1.TaintNodeNotReady, corev1.TaintNodeUnreachable}, tolerated); diff != "" || *pod.Spec.Priority != 7 {
		t.Errorf("priority %v, tolerations %s", *pod.Spec.Priority, diff)
	}
	with := spec
	with.PriorityClassName = "none"
	if _, err = pods.Create(ctx, &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Name: "q"}, Spec: with}, create); !apierrors.IsForbidden(err) {
		t.Errorf("a Pod of no priority class: %v", err)
	}

	node, err := c.CoreV1().Nodes().Create(ctx, &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: "a"}}, create)
	if must(err); len(node.Spec.Taints) != 1 || node.Spec.Taints[0].Key != corev1.TaintNodeNotReady {
		t.Errorf("taints of a new Node: %v", node.Spec.Taints)
	}

	const zone = "topology.kubernetes.io/zone"
	_, err = c.CoreV1().Nodes().Create(ctx, &corev1.Node{ObjectMeta: metav1.ObjectMeta{
		Name: "z", Labels: map[string]string{zone: "here", "other": "x"},
	}}, create)
	must(err)
	var labels map[string]string
	for labels == nil { // the plugins see a Node a moment after its creation, too
		with := spec
		with.NodeName = "z"
		pod, err = pods.Create(ctx, &corev1.Pod{ObjectMeta: metav1.ObjectMeta{GenerateName: "z-"}, Spec: with}, create)
		must(err)
		labels = pod.Labels
	}
	if diff := cmp.Diff(map[string]string{zone: "here"}, labels); diff != "" {
		t.Errorf("labels of a Pod with a Node: %s", diff)
	}

	claims := c.CoreV1().PersistentVolumeClaims("n")
	claim, err := claims.Create(ctx, &corev1.PersistentVolumeClaim{ObjectMeta: metav1.ObjectMeta{Name: "a"}, Spec: corev1.PersistentVolumeClaimSpec{
		AccessModes: []corev1.PersistentVolumeAccessMode{corev1.ReadWriteOnce},
		Resources:   corev1.VolumeResourceRequirements{Requests: corev1.ResourceList{"storage": resource.MustParse("1Gi")}},
	}}, create)
	if must(err); claim.Status.Phase != corev1.ClaimPending || cmp.Diff([]string{"kubernetes.io/pvc-protection"}, claim.Finalizers) != "" {
		t.Errorf("a claim: %+v %v", claim.Status, claim.Finalizers)
	}
	claim.Finalizers = nil
	if claim, err = claims.Update(ctx, claim, metav1.UpdateOptions{}); err != nil || len(claim.Finalizers) != 0 {
		t.Errorf("a claim that nobody uses: %v %v", err, claim.Finalizers)
	}

	jobs := c.BatchV1().Jobs("n")
	spec.RestartPolicy = corev1.RestartPolicyNever
	job, err := jobs.Create(ctx, &batchv1.Job{ObjectMeta: metav1.ObjectMeta{Name: "a"}, Spec: batchv1.JobSpec{
		Template: corev1.PodTemplateSpec{ObjectMeta: metav1.ObjectMeta{Labels: map[string]string{"a": "b"}}, Spec: spec}}}, create)
	must(err)
	if diff := cmp.Diff(job.Spec.Template.Labels, job.Labels); diff != "" || job.Labels[batchv1.JobNameLabel] != "a" {
		t.Errorf("labels of a Job and of its template: %v, %s", job.Labels, diff)
	}
	must(jobs.Delete(ctx, "a", metav1.DeleteOptions{}))
	if job, err = jobs.Get(ctx, "a", metav1.GetOptions{}); err != nil || cmp.Diff([]string{metav1.FinalizerOrphanDependents}, job.Finalizers) != "" {
		t.Errorf("a deleted Job: %v %v", err, job.Finalizers)
	}
	//lint:ignore SA1019 it is warned of
	_, err = c.CoreV1().Endpoints("n").Create(ctx, &corev1.Endpoints{ObjectMeta: metav1.ObjectMeta{Name: "a"}}, create)
	must(err)
	want := []string{
		"child pods are preserved by default when jobs are deleted; set propagationPolicy=Background to remove them or set " +
			"propagationPolicy=Orphan to suppress this warning",
		"v1 Endpoints is deprecated in v1.33+; use discovery.k8s.io/v1 EndpointSlice",
	}
	if diff := cmp.Diff(want, w.texts); diff != "" {
		t.Errorf("warnings: %s", diff)
	}
}

// A new claim that names no class has the newest of the default classes. An empty name is one.
func TestDefaultClass(t *testing.T) {
	c, _ := admitted(t)
	ctx, cancel := context.WithTimeout(t.Context(), 20*time.Second)
	defer cancel()
	claim := func(class *string) string {
		t.Helper()
		made, err := c.CoreV1().PersistentVolumeClaims("n").Create(ctx, &corev1.PersistentVolumeClaim{
			ObjectMeta: metav1.ObjectMeta{GenerateName: "c-"},
			Spec: corev1.PersistentVolumeClaimSpec{
				AccessModes: []corev1.PersistentVolumeAccessMode{corev1.ReadWriteOnce}, StorageClassName: class,
				Resources: corev1.VolumeResourceRequirements{
					Requests: corev1.ResourceList{"storage": resource.MustParse("1Gi")},
				},
			},
		}, metav1.CreateOptions{})
		if err != nil {
			t.Fatal(err)
		}
		if made.Spec.StorageClassName == nil {
			return "none"
		}
		return *made.Spec.StorageClassName
	}
	if got := claim(nil); got != "none" {
		t.Errorf("the class of a claim where there are none: %q", got)
	}
	_, err := c.StorageV1().StorageClasses().Create(ctx, &storagev1.StorageClass{
		ObjectMeta: metav1.ObjectMeta{
			Name: "d", Annotations: map[string]string{util.IsDefaultStorageClassAnnotation: "true"},
		},
		Provisioner: "p",
	}, metav1.CreateOptions{})
	if err != nil {
		t.Fatal(err)
	}
	got := claim(nil)
	for got == "none" { // the plugins see a class a moment after its creation
		got = claim(nil)
	}
	if diff := cmp.Diff([]string{"d", "", "other"}, []string{got, claim(new("")), claim(new("other"))}); diff != "" {
		t.Errorf("classes of claims: %s", diff)
	}
}

func TestNewestDefault(t *testing.T) {
	class := func(name string, second int64, annotation string) *storagev1.StorageClass {
		return &storagev1.StorageClass{ObjectMeta: metav1.ObjectMeta{
			Name: name, CreationTimestamp: metav1.Unix(second, 0), Annotations: map[string]string{annotation: "true"},
		}}
	}
	got := newestDefault([]*storagev1.StorageClass{
		class("a", 1, util.IsDefaultStorageClassAnnotation), class("c", 2, util.IsDefaultStorageClassAnnotation),
		class("b", 2, util.BetaIsDefaultStorageClassAnnotation), class("d", 3, "other"),
	})
	if got == nil || got.Name != "b" {
		t.Errorf("the default class: %v", got)
	}
}

// A namespace with a level of security refuses Pods that are less secure.
func TestPodSecurity(t *testing.T) {
	c, _ := admitted(t)
	ctx, cancel := context.WithTimeout(t.Context(), 20*time.Second)
	defer cancel()
	create := metav1.CreateOptions{}
	if _, err := c.CoreV1().Namespaces().Create(ctx, &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{
		Name: "secure", Labels: map[string]string{"pod-security.kubernetes.io/enforce": "restricted"},
	}}, create); err != nil {
		t.Fatal(err)
	}
	pod := &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{Name: "a"},
		Spec:       corev1.PodSpec{Containers: []corev1.Container{{Name: "c", Image: "i"}}},
	}
	if _, err := c.CoreV1().Pods("n").Create(ctx, pod, create); err != nil {
		t.Errorf("in a namespace without a level: %v", err)
	}
	_, err := c.CoreV1().Pods("secure").Create(ctx, pod, create)
	const why = `violates PodSecurity "restricted:latest": allowPrivilegeEscalation != false`
	if !apierrors.IsForbidden(err) || !strings.Contains(err.Error(), why) {
		t.Errorf("in a namespace that is restricted: %v", err)
	}
}

// A quota refuses what is over it, and counts what it takes, once its status says what there is.
func TestQuota(t *testing.T) {
	c, _ := admitted(t)
	ctx, cancel := context.WithTimeout(t.Context(), 20*time.Second)
	defer cancel()
	one := corev1.ResourceList{corev1.ResourcePods: resource.MustParse("1")}
	quotas := c.CoreV1().ResourceQuotas("n")
	q, err := quotas.Create(ctx, &corev1.ResourceQuota{
		ObjectMeta: metav1.ObjectMeta{Name: "q"}, Spec: corev1.ResourceQuotaSpec{Hard: one},
	}, metav1.CreateOptions{})
	if err != nil {
		t.Fatal(err)
	}
	newPod := func() (refused string) {
		t.Helper()
		_, err := c.CoreV1().Pods("n").Create(ctx, &corev1.Pod{
			ObjectMeta: metav1.ObjectMeta{GenerateName: "p-"},
			Spec:       corev1.PodSpec{Containers: []corev1.Container{{Name: "c", Image: "i"}}},
		}, metav1.CreateOptions{})
		if err == nil {
			return ""
		}
		if !apierrors.IsForbidden(err) {
			t.Fatal(err)
		}
		_, refused, _ = strings.Cut(err.Error(), "is forbidden: ")
		return refused
	}
	if got := newPod(); got != "" {
		t.Errorf("before the quota has a status: %q", got)
	}
	none := corev1.ResourceList{corev1.ResourcePods: resource.MustParse("0")}
	q.Status = corev1.ResourceQuotaStatus{Hard: one, Used: none}
	if _, err := quotas.UpdateStatus(ctx, q, metav1.UpdateOptions{}); err != nil {
		t.Fatal(err)
	}
	got := newPod()
	for got == "" { // the plugin sees the status a moment later, and has room for one Pod then
		got = newPod()
	}
	if got != "exceeded quota: q, requested: pods=1, used: pods=1, limited: pods=1" {
		t.Errorf("a second Pod: %q", got)
	}
	if q, err = quotas.Get(ctx, "q", metav1.GetOptions{}); err != nil || q.Status.Used.Pods().Value() != 1 {
		t.Errorf("the quota: %v, %v", err, q.Status.Used)
	}
}
