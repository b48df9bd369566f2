package wire

import (
	"encoding/json"
	"errors"
	"testing"

	"github.com/google/go-cmp/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"

	"github.com/go-lw/lw/bench/internal/pods"
	"github.com/go-lw/lw/bench/internal/widgets"
)

// Custom resources have kind and apiVersion in lists, too, and only once in an event.
func TestFramesOfCustomResources(t *testing.T) {
	c, err := newCollection(widgetKind, JSON, 3, 2)
	if err != nil {
		t.Fatal(err)
	}
	want := widgets.Reconciled(1)
	want.SetResourceVersion(pods.Version(78))
	labels := want.GetLabels()
	labels[pods.ZoneLabel] = "eu-west-1x"
	want.SetLabels(labels)
	var event struct {
		Type   string
		Object *unstructured.Unstructured
	}
	if err := json.Unmarshal(c.modified(1, state{restarted: true, moved: true}, 78), &event); err != nil {
		t.Fatal(err)
	}
	if d := cmp.Diff(want, event.Object); d != "" || event.Type != "MODIFIED" {
		t.Errorf("%s event (-want +got):\n%s", event.Type, d)
	}

	body, err := c.list(1, 3, "")
	if err != nil {
		t.Fatal(err)
	}
	var list unstructured.UnstructuredList
	if err := json.Unmarshal(body, &list); err != nil {
		t.Fatal(err)
	}
	if d := cmp.Diff([]unstructured.Unstructured{*widgets.New(1), *widgets.New(2)}, list.Items); d != "" || list.GetKind() != "WidgetList" {
		t.Errorf("%s (-want +got):\n%s", list.GetKind(), d)
	}
}

// The metadata of a pod is all of it, and nothing else.
func TestFramesOfMetadata(t *testing.T) {
	c, err := newCollection(metadataOf(podKind), Protobuf, 2, 2)
	if err != nil {
		t.Fatal(err)
	}
	body, err := c.list(0, 2, "")
	if err != nil {
		t.Fatal(err)
	}
	var unknown runtime.Unknown
	var list metav1.PartialObjectMetadataList
	if err := errors.Join(unknown.Unmarshal(body[len("k8s\x00"):]), list.Unmarshal(unknown.Raw)); err != nil {
		t.Fatal(err)
	}
	want := []metav1.PartialObjectMetadata{{ObjectMeta: pods.Full(0).ObjectMeta}, {ObjectMeta: pods.Full(1).ObjectMeta}}
	if d := cmp.Diff(want, list.Items); d != "" || unknown.Kind != "PartialObjectMetadataList" || unknown.APIVersion != "meta.k8s.io/v1" {
		t.Errorf("%v (-want +got):\n%s", unknown.TypeMeta, d)
	}
}
