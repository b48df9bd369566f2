package front

import (
	"testing"

	"github.com/google/go-cmp/cmp"
	autoscalingv1 "k8s.io/api/autoscaling/v1"
	corev1 "k8s.io/api/core/v1"
	eventsv1 "k8s.io/api/events/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
)

func newServer(t *testing.T) *Server {
	t.Helper()
	s, err := New(Options{})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(s.Close)
	return s
}

func newClient(t *testing.T, contentType string) kubernetes.Interface {
	t.Helper()
	s := newServer(t)
	c, err := kubernetes.NewForConfig(&rest.Config{
		Host: s.server.URL(), Transport: s.server.Client().Transport, QPS: -1, ContentConfig: rest.ContentConfig{ContentType: contentType},
	})
	if err != nil {
		t.Fatal(err)
	}
	return c
}

// An Event is one object, in whichever group it is written and read.
func TestEvents(t *testing.T) {
	for _, contentType := range []string{"application/json", "application/vnd.kubernetes.protobuf"} {
		c, ctx := newClient(t, contentType), t.Context()
		core, events := c.CoreV1().Events("default"), c.EventsV1().Events("default")
		watch, err := core.Watch(ctx, metav1.ListOptions{FieldSelector: "involvedObject.name=b"})
		if err != nil {
			t.Fatal(err)
		}
		defer watch.Stop()
		about := func(name string) corev1.ObjectReference {
			return corev1.ObjectReference{Kind: "Pod", Namespace: "default", Name: name}
		}
		if _, err := core.Create(ctx, &corev1.Event{
			ObjectMeta: metav1.ObjectMeta{Name: "a"}, InvolvedObject: about("a"), Reason: "Old", Message: "of core",
		}, metav1.CreateOptions{}); err != nil {
			t.Fatal(err)
		}
		if _, err := events.Create(ctx, &eventsv1.Event{
			ObjectMeta: metav1.ObjectMeta{Name: "b"}, Regarding: about("b"), Reason: "New", Note: "of events", EventTime: metav1.NowMicro(),
			ReportingController: "x.y/z", ReportingInstance: "i", Action: "Act", Type: "Normal",
		}, metav1.CreateOptions{}); err != nil {
			t.Fatal(err)
		}
		if got, err := events.List(ctx, metav1.ListOptions{FieldSelector: "regarding.name=a"}); err != nil || len(got.Items) != 1 ||
			got.Items[0].Note != "of core" || got.Items[0].Regarding.Name != "a" {
			t.Errorf("%s: of the core group: %v %v", contentType, got, err)
		}
		if seen := (<-watch.ResultChan()).Object; seen.(*corev1.Event).Message != "of events" {
			t.Errorf("%s: of events.k8s.io: %v", contentType, seen)
		}
		patch := []byte(`{"series":{"count":2,"lastObservedTime":"2026-01-02T03:04:05.000000Z"}}`)
		if _, err := events.Patch(ctx, "b", types.StrategicMergePatchType, patch, metav1.PatchOptions{}); err != nil {
			t.Errorf("%s: %v", contentType, err)
		}
		if got, err := core.Get(ctx, "b", metav1.GetOptions{}); err != nil || got.Series == nil || got.Series.Count != 2 || got.InvolvedObject.Name != "b" {
			t.Errorf("%s: %v %v", contentType, got, err)
		}
		if _, err := events.List(ctx, metav1.ListOptions{FieldSelector: "involvedObject.name=a"}); err == nil {
			t.Errorf("%s: events.k8s.io has a field of the core group", contentType)
		}
		if err := events.Delete(ctx, "a", metav1.DeleteOptions{}); err != nil {
			t.Errorf("%s: %v", contentType, err)
		}
		if got, err := core.List(ctx, metav1.ListOptions{}); err != nil || len(got.Items) != 1 {
			t.Errorf("%s: after a deletion: %v %v", contentType, got, err)
		}
	}
}

// Autoscalers are served in version v1, too.
func TestAutoscalers(t *testing.T) {
	c, ctx := newClient(t, "application/vnd.kubernetes.protobuf"), t.Context()
	percent := int32(80)
	scaler := &autoscalingv1.HorizontalPodAutoscaler{ObjectMeta: metav1.ObjectMeta{Name: "a"}, Spec: autoscalingv1.HorizontalPodAutoscalerSpec{
		ScaleTargetRef: autoscalingv1.CrossVersionObjectReference{APIVersion: "apps/v1", Kind: "Deployment", Name: "d"},
		MaxReplicas:    3, TargetCPUUtilizationPercentage: &percent,
	}}
	if _, err := c.AutoscalingV1().HorizontalPodAutoscalers("default").Create(ctx, scaler, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	got, err := c.AutoscalingV2().HorizontalPodAutoscalers("default").Get(ctx, "a", metav1.GetOptions{})
	if err != nil || len(got.Spec.Metrics) != 1 || *got.Spec.Metrics[0].Resource.Target.AverageUtilization != percent {
		t.Fatalf("%v %v", got, err)
	}
	got.Spec.MaxReplicas = 4
	if _, err := c.AutoscalingV2().HorizontalPodAutoscalers("default").Update(ctx, got, metav1.UpdateOptions{}); err != nil {
		t.Fatal(err)
	}
	old, err := c.AutoscalingV1().HorizontalPodAutoscalers("default").Get(ctx, "a", metav1.GetOptions{})
	if err != nil || old.Spec.MaxReplicas != 4 || *old.Spec.TargetCPUUtilizationPercentage != percent {
		t.Errorf("%v %v", old, err)
	}
}

// An APIService of another server gets its port, and says who has written it. A local one is
// available at once.
func TestAPIServices(t *testing.T) {
	s := newServer(t)
	config := &rest.Config{Host: s.server.URL(), Transport: s.server.Client().Transport, QPS: -1}
	open, err := dynamic.NewForConfig(config)
	if err != nil {
		t.Fatal(err)
	}
	services := open.Resource(schema.GroupVersionResource{
		Group: "apiregistration.k8s.io", Version: "v1", Resource: "apiservices",
	})
	create := func(name, spec string) (*unstructured.Unstructured, error) {
		u := &unstructured.Unstructured{}
		text := `{"apiVersion":"apiregistration.k8s.io/v1","kind":"APIService","metadata":{"name":"` + name + `"},` +
			`"spec":` + spec + `}`
		if err := u.UnmarshalJSON([]byte(text)); err != nil {
			t.Fatal(err)
		}
		return services.Create(t.Context(), u, metav1.CreateOptions{FieldManager: "me"})
	}
	const spec = `{"group":"a.example.com","version":"v1","groupPriorityMinimum":100,"versionPriority":100,` +
		`"insecureSkipTLSVerify":true,"service":{"namespace":"n","name":"s"}}`
	made, err := create("v1.a.example.com", spec)
	if err != nil {
		t.Fatal(err)
	}
	port, _, _ := unstructured.NestedInt64(made.Object, "spec", "service", "port")
	if managers := made.GetManagedFields(); port != 443 || len(managers) != 1 || managers[0].Manager != "me" {
		t.Errorf("port %d, managers %v", port, managers)
	}
	_, err = create("other", spec)
	want := `APIService.apiregistration.k8s.io "other" is invalid: metadata.name: Invalid value: "other": must be ` +
		"`spec.version+\".\"+spec.group`: \"v1.a.example.com\""
	if err == nil || cmp.Diff(want, err.Error()) != "" {
		t.Errorf("a wrong name: %v", err)
	}
	made.Object["status"] = map[string]any{"conditions": []any{map[string]any{
		"type": "Available", "status": "True", "lastTransitionTime": "2026-01-02T03:04:05Z",
	}}}
	if made, err = services.UpdateStatus(t.Context(), made, metav1.UpdateOptions{}); err != nil || !available(made) {
		t.Errorf("a status: %v %v", err, made)
	}

	local, err := create("v1.b.example.com",
		`{"group":"b.example.com","version":"v1","groupPriorityMinimum":100,"versionPriority":100}`)
	if err != nil || !available(local) {
		t.Errorf("a local one: %v %v", err, local)
	}
}

// available reports whether the first condition of an APIService is that it is available.
func available(u *unstructured.Unstructured) bool {
	conditions, _, _ := unstructured.NestedSlice(u.Object, "status", "conditions")
	if len(conditions) == 0 {
		return false
	}
	first, _ := conditions[0].(map[string]any)
	return first["type"] == "Available" && first["status"] == "True"
}
