package admission_test

import (
	"context"
	"testing"
	"time"

	authenticationv1 "k8s.io/api/authentication/v1"
	certificatesv1 "k8s.io/api/certificates/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"

	"github.com/go-lw/lw/lwtest"
)

// The typed clients of client-go, which send protobuf, use the subresources that are no objects.
func TestTypedClients(t *testing.T) {
	var asked lwtest.TokenRequest
	s := lwtest.NewServer(t,
		lwtest.Resource{Plural: "pods", Kind: "Pod", Type: &corev1.Pod{}, Status: true},
		lwtest.Resource{Plural: "namespaces", Kind: "Namespace", Type: &corev1.Namespace{}, Cluster: true, Status: true,
			Ends: true},
		lwtest.Resource{Plural: "serviceaccounts", Kind: "ServiceAccount", Type: &corev1.ServiceAccount{},
			Token: func(_ context.Context, r lwtest.TokenRequest) (string, error) {
				asked = r
				return "t", nil
			}},
		lwtest.Resource{Group: "certificates.k8s.io", Plural: "certificatesigningrequests",
			Kind: "CertificateSigningRequest", Cluster: true,
			Type: &certificatesv1.CertificateSigningRequest{}, Status: true})
	config := &rest.Config{Host: s.URL(), Transport: s.Client().Transport, ContentConfig: rest.ContentConfig{
		ContentType: "application/vnd.kubernetes.protobuf", AcceptContentTypes: "application/vnd.kubernetes.protobuf,application/json",
	}}
	clients, err := kubernetes.NewForConfig(config)
	if err != nil {
		t.Fatal(err)
	}
	ctx, core := t.Context(), clients.CoreV1()
	must := func(err error) {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
	}
	meta := metav1.ObjectMeta{Name: "a"}
	_, err = core.Namespaces().Create(ctx, &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: "n"}},
		metav1.CreateOptions{})
	must(err)
	pods := core.Pods("n")
	_, err = pods.Create(ctx, &corev1.Pod{ObjectMeta: meta, Spec: corev1.PodSpec{Containers: []corev1.Container{{Name: "c"}}}}, metav1.CreateOptions{})
	must(err)
	must(pods.Bind(ctx, &corev1.Binding{ObjectMeta: meta, Target: corev1.ObjectReference{Kind: "Node", Name: "node"}},
		metav1.CreateOptions{}))
	pod, err := pods.Get(ctx, "a", metav1.GetOptions{})
	must(err)
	if c := pod.Status.Conditions; pod.Spec.NodeName != "node" || len(c) != 1 || c[0].Type != corev1.PodScheduled || c[0].LastTransitionTime.IsZero() {
		t.Errorf("a bound Pod: %+v %+v", pod.Spec, c)
	}
	pod.Spec.EphemeralContainers = []corev1.EphemeralContainer{{EphemeralContainerCommon: corev1.EphemeralContainerCommon{Name: "d"}}}
	if pod, err = pods.UpdateEphemeralContainers(ctx, "a", pod, metav1.UpdateOptions{}); err != nil || len(pod.Spec.EphemeralContainers) != 1 {
		t.Errorf("ephemeral containers: %v %+v", err, pod)
	}

	_, err = core.ServiceAccounts("n").Create(ctx, &corev1.ServiceAccount{ObjectMeta: meta}, metav1.CreateOptions{})
	must(err)
	minutes := int64(1200)
	token, err := core.ServiceAccounts("n").CreateToken(ctx, "a",
		&authenticationv1.TokenRequest{Spec: authenticationv1.TokenRequestSpec{
			Audiences: []string{"x"}, ExpirationSeconds: &minutes, BoundObjectRef: &authenticationv1.BoundObjectReference{Kind: "Pod", Name: "a", UID: pod.UID},
		}}, metav1.CreateOptions{})
	must(err)
	if token.Status.Token != "t" || asked.Audiences[0] != "x" || asked.BoundName != "a" || asked.BoundUID != pod.UID ||
		!asked.Expires.Equal(token.Status.ExpirationTimestamp.Time) || time.Until(asked.Expires) < 19*time.Minute {
		t.Errorf("%+v\n%+v", token, asked)
	}

	csrs := clients.CertificatesV1().CertificateSigningRequests()
	csr, err := csrs.Create(ctx, &certificatesv1.CertificateSigningRequest{ObjectMeta: meta}, metav1.CreateOptions{})
	must(err)
	csr.Status.Conditions = []certificatesv1.CertificateSigningRequestCondition{{Type: certificatesv1.CertificateApproved, Status: "True"}}
	csr.Status.Certificate = []byte("no")
	if csr, err = csrs.UpdateApproval(ctx, "a", csr, metav1.UpdateOptions{}); err != nil || len(csr.Status.Conditions) != 1 || csr.Status.Certificate != nil {
		t.Errorf("approval: %v %+v", err, csr)
	}

	must(core.Namespaces().Delete(ctx, "n", metav1.DeleteOptions{}))
	ns, err := core.Namespaces().Get(ctx, "n", metav1.GetOptions{})
	must(err)
	ns.Spec.Finalizers = nil
	_, err = core.Namespaces().Finalize(ctx, ns, metav1.UpdateOptions{})
	must(err)
	if _, err = core.Namespaces().Get(ctx, "n", metav1.GetOptions{}); !apierrors.IsNotFound(err) {
		t.Errorf("a namespace that is final: %v", err)
	}
}
