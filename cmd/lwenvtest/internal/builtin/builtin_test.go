package builtin

import (
	"context"
	"maps"
	"strings"
	"sync"
	"testing"

	"github.com/google/go-cmp/cmp"
	appsv1 "k8s.io/api/apps/v1"
	batchv1 "k8s.io/api/batch/v1"
	certificatesv1 "k8s.io/api/certificates/v1"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	apiregistrationv1 "k8s.io/kube-aggregator/pkg/apis/apiregistration/v1"

	"github.com/go-lw/lw/lwtest"
	"github.com/go-lw/lw/simulate/cluster"
)

// warned collects the warnings of answers.
type warned struct {
	mu    sync.Mutex
	texts []string
}

func (w *warned) HandleWarningHeaderWithContext(_ context.Context, _ int, _, text string) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.texts = append(w.texts, text)
}

func clients(t *testing.T) (kubernetes.Interface, *warned) {
	all := cluster.Resources()
	for i := range all {
		all[i] = Rules(all[i], nil)
	}
	s := lwtest.NewServer(t, all...)
	w := &warned{}
	c, err := kubernetes.NewForConfig(&rest.Config{
		Host: s.URL(), Transport: s.Client().Transport, WarningHandlerWithContext: w, QPS: -1,
		ContentConfig: rest.ContentConfig{ContentType: "application/vnd.kubernetes.protobuf"},
	})
	if err != nil {
		t.Fatal(err)
	}
	return c, w
}

func newDeployment() *appsv1.Deployment {
	labels := map[string]string{"app": "a"}
	return &appsv1.Deployment{
		ObjectMeta: metav1.ObjectMeta{Name: "a", Namespace: "n"},
		Spec: appsv1.DeploymentSpec{
			Selector: &metav1.LabelSelector{MatchLabels: labels},
			Template: corev1.PodTemplateSpec{
				ObjectMeta: metav1.ObjectMeta{Labels: labels},
				Spec:       corev1.PodSpec{Containers: []corev1.Container{{Name: "c", Image: "i:v1"}}},
			},
		},
		Status: appsv1.DeploymentStatus{Replicas: 7},
	}
}

// invalid fails the test unless err is Invalid with these words.
func invalid(t *testing.T, what string, err error, words string) {
	t.Helper()
	if !apierrors.IsInvalid(err) || !strings.Contains(err.Error(), words) {
		t.Errorf("%s: %v\nwant %s", what, err, words)
	}
}

func TestDeployment(t *testing.T) {
	c, _ := clients(t)
	ctx, deployments := t.Context(), c.AppsV1().Deployments("n")
	d, err := deployments.Create(ctx, newDeployment(), metav1.CreateOptions{})
	if err != nil {
		t.Fatal(err)
	}
	switch container := d.Spec.Template.Spec.Containers[0]; {
	case *d.Spec.Replicas != 1, d.Spec.Strategy.RollingUpdate.MaxSurge.StrVal != "25%", *d.Spec.ProgressDeadlineSeconds != 600,
		container.ImagePullPolicy != corev1.PullIfNotPresent, d.Spec.Template.Spec.DNSPolicy != corev1.DNSClusterFirst:
		t.Errorf("defaults: %+v", d.Spec)
	case d.Status.Replicas != 0, d.Generation != 1:
		t.Errorf("status %+v, generation %d", d.Status, d.Generation)
	}
	for what, change := range map[string]struct {
		to    func(d *appsv1.Deployment)
		words string
	}{
		"no container":      {func(d *appsv1.Deployment) { d.Spec.Template.Spec.Containers = nil }, "spec.template.spec.containers: Required value"},
		"another selector":  {func(d *appsv1.Deployment) { d.Spec.Selector.MatchLabels["app"] = "b" }, "field is immutable"},
		"negative replicas": {func(d *appsv1.Deployment) { *d.Spec.Replicas = -1 }, "spec.replicas: Invalid value: -1: must be greater than or equal to 0"},
	} {
		changed := d.DeepCopy()
		change.to(changed)
		_, err := deployments.Update(ctx, changed, metav1.UpdateOptions{})
		invalid(t, what, err, change.words)
	}
	bad := newDeployment()
	bad.Name, bad.Spec.Template.Labels = "b", nil
	_, err = deployments.Create(ctx, bad, metav1.CreateOptions{})
	invalid(t, "labels that the selector does not match", err,
		`Deployment.apps "b" is invalid: spec.template.metadata.labels: Invalid value: null: `+"`selector` does not match template `labels`")

	d.Spec.Paused, d.Status.Replicas = true, 9
	if d, err = deployments.Update(ctx, d, metav1.UpdateOptions{}); err != nil || d.Generation != 2 || d.Status.Replicas != 0 {
		t.Errorf("an update: %v %+v", err, d)
	}
	d.Status.Replicas, d.Spec.Paused = 9, false
	if d, err = deployments.UpdateStatus(ctx, d, metav1.UpdateOptions{}); err != nil || d.Generation != 2 || d.Status.Replicas != 9 || !d.Spec.Paused {
		t.Errorf("an update of the status: %v %+v", err, d)
	}
	d.Status.Replicas = -1
	_, err = deployments.UpdateStatus(ctx, d, metav1.UpdateOptions{})
	invalid(t, "a negative status", err, "status.replicas: Invalid value: -1")
	scale, err := deployments.GetScale(ctx, "a", metav1.GetOptions{})
	if err != nil {
		t.Fatal(err)
	}
	scale.Spec.Replicas = 3
	if scale, err = deployments.UpdateScale(ctx, "a", scale, metav1.UpdateOptions{}); err != nil || scale.Spec.Replicas != 3 {
		t.Errorf("a scale: %v %+v", err, scale)
	}
	if d, err = deployments.Get(ctx, "a", metav1.GetOptions{}); err != nil || d.Generation != 3 || *d.Spec.Replicas != 3 {
		t.Errorf("after the scale: %v %+v", err, d)
	}
}

func TestOtherKinds(t *testing.T) {
	c, w := clients(t)
	ctx := t.Context()
	meta := metav1.ObjectMeta{Name: "a", Namespace: "n"}
	template := newDeployment().Spec.Template
	template.Spec.RestartPolicy, template.Labels = corev1.RestartPolicyNever, nil
	job, err := c.BatchV1().Jobs("n").Create(ctx, &batchv1.Job{ObjectMeta: meta, Spec: batchv1.JobSpec{Template: template}}, metav1.CreateOptions{})
	if err != nil {
		t.Fatal(err)
	}
	if job.UID == "" || job.Spec.Selector.MatchLabels[batchv1.ControllerUidLabel] != string(job.UID) ||
		job.Spec.Template.Labels[batchv1.JobNameLabel] != "a" {
		t.Errorf("a Job: %s %+v", job.UID, job.Spec)
	}

	bad := &corev1.Pod{ObjectMeta: meta, Spec: corev1.PodSpec{Containers: []corev1.Container{{Name: "C", Image: "i"}}}}
	_, err = c.CoreV1().Pods("n").Create(ctx, bad, metav1.CreateOptions{})
	invalid(t, "a Pod", err, "spec.containers[0].name: Invalid value: \"C\": a lowercase RFC 1123 label")
	two := &corev1.Pod{ObjectMeta: meta, Spec: corev1.PodSpec{Containers: []corev1.Container{
		{Name: "c", Image: "i", Env: []corev1.EnvVar{{Name: "A"}, {Name: "A"}}},
	}}}
	if _, err := c.CoreV1().Pods("n").Create(ctx, two, metav1.CreateOptions{}); err != nil {
		t.Error(err)
	}
	want := []string{`spec.containers[0].env[1]: hides previous definition of "A", which may be dropped when using apply`}
	if diff := cmp.Diff(want, w.texts); diff != "" {
		t.Errorf("warnings: %s", diff)
	}

	yes := true
	fixed, err := c.CoreV1().ConfigMaps("n").Create(ctx, &corev1.ConfigMap{ObjectMeta: meta, Immutable: &yes}, metav1.CreateOptions{})
	if err != nil {
		t.Fatal(err)
	}
	fixed.Data = map[string]string{"a": "b"}
	_, err = c.CoreV1().ConfigMaps("n").Update(ctx, fixed, metav1.UpdateOptions{})
	invalid(t, "an immutable ConfigMap", err, "data: Forbidden: field is immutable when `immutable` is set")

	_, err = c.CertificatesV1().CertificateSigningRequests().Create(ctx, &certificatesv1.CertificateSigningRequest{
		ObjectMeta: metav1.ObjectMeta{Name: "a"}, Spec: certificatesv1.CertificateSigningRequestSpec{Request: []byte("no")},
	}, metav1.CreateOptions{})
	invalid(t, "a CertificateSigningRequest", err, "spec.request: Invalid value")
}

// Each strategy is that of a kind which the server has, and of its subresources.
func TestStrategies(t *testing.T) {
	known := map[schema.GroupResource]bool{}
	for _, r := range append(cluster.Resources(), lwtest.Definitions()...) {
		known[schema.GroupResource{Group: r.Group, Resource: r.Plural}] = true
	}
	all := asking(&Plugins{})
	maps.Copy(all, strategies)
	for resource, by := range all {
		if !known[resource] {
			t.Errorf("%v is not served", resource)
		}
		for sub, s := range by {
			if s == nil {
				t.Errorf("%v has no strategy %q", resource, sub)
			}
		}
	}
}

// The stringData of a Secret becomes data, whatever the verb, and nobody reads it.
func TestSecret(t *testing.T) {
	c, _ := clients(t)
	ctx, secrets := t.Context(), c.CoreV1().Secrets("n")
	s, err := secrets.Create(ctx, &corev1.Secret{
		ObjectMeta: metav1.ObjectMeta{Name: "a"}, Data: map[string][]byte{"a": []byte("0"), "b": []byte("1")},
		StringData: map[string]string{"a": "2"},
	}, metav1.CreateOptions{})
	if err != nil {
		t.Fatal(err)
	}
	want := &corev1.Secret{
		ObjectMeta: s.ObjectMeta, Type: corev1.SecretTypeOpaque, Data: map[string][]byte{"a": []byte("2"), "b": []byte("1")},
	}
	if diff := cmp.Diff(want, s); diff != "" {
		t.Errorf("created (-want +got):\n%s", diff)
	}
	s.StringData = map[string]string{"b": "3"}
	if s, err = secrets.Update(ctx, s, metav1.UpdateOptions{}); err != nil {
		t.Fatal(err)
	}
	want.ObjectMeta, want.Data["b"] = s.ObjectMeta, []byte("3")
	if diff := cmp.Diff(want, s); diff != "" {
		t.Errorf("updated (-want +got):\n%s", diff)
	}
	if s, err = secrets.Patch(ctx, "a", types.ApplyPatchType, []byte(`{"apiVersion":"v1","kind":"Secret","stringData":{"a":"4"}}`),
		metav1.PatchOptions{FieldManager: "m", Force: new(true)}); err != nil {
		t.Fatal(err)
	}
	want.ObjectMeta, want.Data["a"] = s.ObjectMeta, []byte("4")
	if diff := cmp.Diff(want, s); diff != "" {
		t.Errorf("applied (-want +got):\n%s", diff)
	}
}

// Tables have the columns of kube-apiserver, also of a kind that has no columns of its own.
func TestTable(t *testing.T) {
	for _, tc := range []struct {
		resource lwtest.Resource
		obj      runtime.Object
		want     []any
	}{
		{lwtest.Resource{Group: "apps", Plural: "deployments"}, &appsv1.Deployment{},
			[]any{"Name", "Ready", "Up-to-date", "Available", "Age", "Containers", "Images", "Selector"}},
		{lwtest.Resource{Plural: "configmaps"}, &corev1.ConfigMap{}, []any{"Name", "Data", "Age"}},
		{lwtest.Resource{Group: "rbac.authorization.k8s.io", Plural: "roles"}, &rbacv1.Role{}, []any{"Name", "Created At"}},
		{lwtest.Resource{Group: "apiregistration.k8s.io", Plural: "apiservices"}, &apiregistrationv1.APIService{},
			[]any{"Name", "Service", "Available", "Age"}},
	} {
		table, err := Rules(tc.resource, nil).Table(tc.obj)
		if err != nil {
			t.Fatal(err)
		}
		var got []any
		for _, c := range table.ColumnDefinitions {
			got = append(got, c.Name)
		}
		if diff := cmp.Diff(tc.want, got); diff != "" || len(table.Rows) != 1 || len(table.Rows[0].Cells) != len(got) {
			t.Errorf("%s: %d rows, columns (-want +got):\n%s", tc.resource.Plural, len(table.Rows), diff)
		}
	}
}
