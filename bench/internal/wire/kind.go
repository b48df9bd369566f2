package wire

import (
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/go-lw/lw/bench/internal/pods"
	"github.com/go-lw/lw/bench/internal/widgets"
)

// A kind is a sort of objects that the server has.
type kind struct {
	gvk  schema.GroupVersionKind
	path string // of the collection, after the server's URL
	// empty returns an object without content. object returns object i, restarted the same with
	// another status. Each call makes a new object.
	empty             func() object
	object, restarted func(i int) object
}

type object interface {
	runtime.Object
	metav1.Object
}

var podKind = kind{
	gvk:       corev1.SchemeGroupVersion.WithKind("Pod"),
	path:      "/api/v1/pods",
	empty:     func() object { return &corev1.Pod{} },
	object:    func(i int) object { return pods.Full(i) },
	restarted: func(i int) object { return pods.Restarted(i) },
}

// mixedKind has pods of many shapes.
var mixedKind = kind{
	gvk:       podKind.gvk,
	path:      podKind.path,
	empty:     podKind.empty,
	object:    func(i int) object { return pods.Mixed(i) },
	restarted: func(i int) object { return pods.MixedRestarted(i) },
}

var widgetKind = kind{
	gvk:       widgets.Kind,
	path:      "/apis/" + widgets.Resource.GroupVersion().String() + "/widgets",
	empty:     func() object { return widgets.Empty() },
	object:    func(i int) object { return widgets.New(i) },
	restarted: func(i int) object { return widgets.Reconciled(i) },
}

// metadataOf returns the kind that servers answer with if only the metadata of k's objects is asked
// for.
func metadataOf(k kind) kind {
	metadata := func(whole func(int) object) func(int) object {
		return func(i int) object {
			obj := whole(i)
			return &metav1.PartialObjectMetadata{ObjectMeta: metav1.ObjectMeta{
				Name: obj.GetName(), GenerateName: obj.GetGenerateName(), Namespace: obj.GetNamespace(), UID: obj.GetUID(),
				ResourceVersion: obj.GetResourceVersion(), Generation: obj.GetGeneration(),
				CreationTimestamp: obj.GetCreationTimestamp(),
				Labels:            obj.GetLabels(), Annotations: obj.GetAnnotations(), OwnerReferences: obj.GetOwnerReferences(),
				Finalizers: obj.GetFinalizers(), ManagedFields: obj.GetManagedFields(),
			}}
		}
	}
	return kind{
		gvk:       metav1.SchemeGroupVersion.WithKind("PartialObjectMetadata"),
		path:      k.path,
		empty:     func() object { return &metav1.PartialObjectMetadata{} },
		object:    metadata(k.object),
		restarted: metadata(k.restarted),
	}
}
