package builtin

import (
	"cmp"

	autoscalingv1 "k8s.io/api/autoscaling/v1"
	eventsv1 "k8s.io/api/events/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/kubernetes/pkg/api/legacyscheme"

	"github.com/go-lw/lw/lwtest"
)

// also has the resources by which kube-apiserver shows the objects of others a second time.
var also = map[schema.GroupResource]lwtest.Resource{
	{Resource: "events"}: {
		Group: "events.k8s.io", Plural: "events", Kind: "Event", Managed: true, Type: &eventsv1.Event{},
		Fields: []string{ // as those of cluster.Resources
			"regarding.namespace", "regarding.name", "regarding.kind", "regarding.uid", "regarding.apiVersion",
			"regarding.fieldPath", "regarding.resourceVersion", "reason", "reportingController", "type",
		},
	},
	{Group: "autoscaling", Resource: "horizontalpodautoscalers"}: {
		Group: "autoscaling", Plural: "horizontalpodautoscalers", Kind: "HorizontalPodAutoscaler",
		Status: true, Managed: true, Type: &autoscalingv1.HorizontalPodAutoscaler{},
	},
}

// Also returns r with the resource that shows its objects a second time, as change returns that.
func Also(r lwtest.Resource, change func(lwtest.Resource) lwtest.Resource) lwtest.Resource {
	other, ok := also[schema.GroupResource{Group: r.Group, Resource: r.Plural}]
	if !ok {
		return r
	}
	r.Also = []lwtest.Resource{change(other)}
	r.Convert = func(obj *unstructured.Unstructured, version string) error {
		to, err := schema.ParseGroupVersion(version)
		if err != nil {
			return err
		}
		to.Group = cmp.Or(to.Group, r.Group)
		return convert(obj, to)
	}
	return r
}

// convert makes an object one of another version, of any group.
func convert(obj *unstructured.Unstructured, to schema.GroupVersion) error {
	typed, err := legacyscheme.Scheme.New(obj.GroupVersionKind())
	if err != nil {
		return err
	}
	if err := runtime.DefaultUnstructuredConverter.FromUnstructured(obj.Object, typed); err != nil {
		return err
	}
	internal, err := legacyscheme.Scheme.ConvertToVersion(typed, runtime.InternalGroupVersioner)
	if err != nil {
		return err
	}
	out, err := legacyscheme.Scheme.ConvertToVersion(internal, to)
	if err != nil {
		return err
	}
	obj.Object, err = runtime.DefaultUnstructuredConverter.ToUnstructured(out)
	return err
}
