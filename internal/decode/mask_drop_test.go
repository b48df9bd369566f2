package decode

import (
	"reflect"
	"testing"

	"github.com/google/go-cmp/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	carp "k8s.io/apimachinery/pkg/apis/testapigroup/v1"
)

func TestDrop(t *testing.T) {
	d := newDecoder[*pod](t, Options{Drop: []string{
		"metadata.managedFields", "metadata.labels.app.example/label-1", "spec.containers.env", "status.containerStatuses.state.running", "spec.volumes",
	}})
	got := mustDecode[*pod](t, d, podJSON(1))
	want := &pod{}
	if err := unmarshal(podJSON(1), want); err != nil {
		t.Fatal(err)
	}
	want.TypeMeta = metav1.TypeMeta{}
	want.ManagedFields, want.Spec.Volumes = nil, nil
	delete(want.Labels, "app.example/label-1")
	for i := range want.Spec.Containers {
		want.Spec.Containers[i].Env = nil
	}
	for i := range want.Status.ContainerStatuses {
		want.Status.ContainerStatuses[i].State.Running = nil
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
	for _, path := range []string{"spec.containerz", "spec.nodeName.x", "x", "metadata.creationTimestamp.time", ""} {
		if _, err := New(reflect.TypeFor[*pod](), Options{Drop: []string{path}}); err == nil {
			t.Errorf("%q was taken for a field", path)
		}
	}
}

func TestProtobufDrop(t *testing.T) {
	d := newDecoder[*carp.Carp](t, Options{Drop: []string{"metadata.managedFields", "metadata.labels.app", "spec.nodeSelector", "status.conditions.lastProbeTime"}})
	o := messageOf(d, mustMarshal(t, newCarp(1)))
	want := wantCarp(1)
	want.ManagedFields, want.Spec.NodeSelector = nil, nil
	delete(want.Labels, "app")
	for i := range want.Status.Conditions {
		want.Status.Conditions[i].LastProbeTime = metav1.Time{}
	}
	if diff := cmp.Diff(want, o.Value); o.Err != nil || diff != "" {
		t.Errorf("error %v (-want +got):\n%s", o.Err, diff)
	}
}
