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
	"github.com/go-lw/lw/internal/verify/rig"
)

// Custom resources have kind and apiVersion in lists, too, and only once in an event.
func TestFramesOfCustomResources(t *testing.T) {
	c := rig.Must[*collection](t)(newCollection(widgetKind, JSON, 3, 2))
	want := widgets.Reconciled(1)
	want.SetResourceVersion(pods.Version(78))
	labels := want.GetLabels()
	labels[pods.ZoneLabel] = "eu-west-1x"
	want.SetLabels(labels)
	var event struct {
		Type   string
		Object *unstructured.Unstructured
	}
	rig.OK(t, json.Unmarshal(c.modified(1, state{restarted: true, moved: true}, 78), &event))
	if d := cmp.Diff(want, event.Object); d != "" || event.Type != "MODIFIED" {
		t.Errorf("%s event (-want +got):\n%s", event.Type, d)
	}

	body := rig.Must[[]byte](t)(c.list(1, 3, ""))
	var list unstructured.UnstructuredList
	rig.OK(t, json.Unmarshal(body, &list))
	if d := cmp.Diff([]unstructured.Unstructured{*widgets.New(1), *widgets.New(2)}, list.Items); d != "" ||
		list.GetKind() != "WidgetList" {
		t.Errorf("%s (-want +got):\n%s", list.GetKind(), d)
	}
}

// The metadata of a pod is all of it, and nothing else.
func TestFramesOfMetadata(t *testing.T) {
	c := rig.Must[*collection](t)(newCollection(metadataOf(podKind), Protobuf, 2, 2))
	body := rig.Must[[]byte](t)(c.list(0, 2, ""))
	var unknown runtime.Unknown
	var list metav1.PartialObjectMetadataList
	rig.OK(t, errors.Join(unknown.Unmarshal(body[len("k8s\x00"):]), list.Unmarshal(unknown.Raw)))
	want := []metav1.PartialObjectMetadata{{ObjectMeta: pods.Full(0).ObjectMeta}, {ObjectMeta: pods.Full(1).ObjectMeta}}
	if d := cmp.Diff(want, list.Items); d != "" || unknown.Kind != "PartialObjectMetadataList" ||
		unknown.APIVersion != "meta.k8s.io/v1" {
		t.Errorf("%v (-want +got):\n%s", unknown.TypeMeta, d)
	}
}
