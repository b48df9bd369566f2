package front

import (
	"testing"

	autoscalingv1 "k8s.io/api/autoscaling/v1"
	corev1 "k8s.io/api/core/v1"
	eventsv1 "k8s.io/api/events/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
)

func newClient(t *testing.T, contentType string) kubernetes.Interface {
	t.Helper()
	s, err := New(Options{})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(s.Close)
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
