package wire

import (
	"encoding/json"
	"testing"

	"github.com/google/go-cmp/cmp"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

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
