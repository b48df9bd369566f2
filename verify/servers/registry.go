package main

import (
	"cmp"
	"context"
	"fmt"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/runtime/serializer"
	utilruntime "k8s.io/apimachinery/pkg/util/runtime"
	"k8s.io/apimachinery/pkg/util/validation/field"
	"k8s.io/apiserver/pkg/registry/generic"
	"k8s.io/apiserver/pkg/registry/generic/registry"
	"k8s.io/apiserver/pkg/registry/rest"
	"k8s.io/apiserver/pkg/storage"
	"k8s.io/apiserver/pkg/storage/names"
)

// A resource is one served collection.
type resource struct {
	plural, singular string
	namespaced       bool
	object, list     func() runtime.Object
}

var resources = []resource{
	{"configmaps", "configmap", true, of[corev1.ConfigMap], of[corev1.ConfigMapList]},
	{"pods", "pod", true, of[corev1.Pod], of[corev1.PodList]},
	{"secrets", "secret", true, of[corev1.Secret], of[corev1.SecretList]},
	{"nodes", "node", false, of[corev1.Node], of[corev1.NodeList]},
	{"namespaces", "namespace", false, of[corev1.Namespace], of[corev1.NamespaceList]},
}

func of[T any, P interface {
	*T
	runtime.Object
}]() runtime.Object {
	return P(new(T))
}

var (
	scheme          = runtime.NewScheme()
	codecs          = serializer.NewCodecFactory(scheme)
	internalVersion = schema.GroupVersion{Version: runtime.APIVersionInternal}
)

func init() {
	utilruntime.Must(corev1.AddToScheme(scheme))
	// The v1 types are the internal types too. So an object already has the version that it would
	// be converted to, and the scheme needs no conversions.
	for _, r := range resources {
		scheme.AddKnownTypes(internalVersion, r.object(), r.list())
	}
	utilruntime.Must(scheme.SetVersionPriority(corev1.SchemeGroupVersion))
	utilruntime.Must(scheme.AddFieldLabelConversionFunc(corev1.SchemeGroupVersion.WithKind("Pod"), podField))
}

func podField(label, value string) (string, string, error) {
	switch label {
	case "metadata.name", "metadata.namespace", "spec.nodeName", "status.phase":
		return label, value, nil
	}
	return "", "", fmt.Errorf("field label not supported: %s", label)
}

// storages returns the REST storage of every resource by its plural.
func storages(opts generic.RESTOptionsGetter) (map[string]rest.Storage, error) {
	all := map[string]rest.Storage{}
	for _, r := range resources {
		strategy := strategy{scheme, names.SimpleNameGenerator, r.namespaced}
		attrs := attrs(r.namespaced)
		store := &registry.Store{
			NewFunc: r.object, NewListFunc: r.list,
			DefaultQualifiedResource:  schema.GroupResource{Resource: r.plural},
			SingularQualifiedResource: schema.GroupResource{Resource: r.singular},
			PredicateFunc: func(label labels.Selector, field fields.Selector) storage.SelectionPredicate {
				return storage.SelectionPredicate{Label: label, Field: field, GetAttrs: attrs}
			},
			CreateStrategy: strategy, UpdateStrategy: strategy, DeleteStrategy: deletion(strategy, r.plural),
			ReturnDeletedObject: r.plural == "pods",
			TableConvertor:      rest.NewDefaultTableConvertor(schema.GroupResource{Resource: r.plural}),
		}
		if err := store.CompleteWithOptions(&generic.StoreOptions{RESTOptions: opts, AttrFunc: attrs}); err != nil {
			return nil, fmt.Errorf("%s: %w", r.plural, err)
		}
		all[r.plural] = store
	}
	return all, nil
}

// attrs returns a function that returns the labels and fields of an object, for selectors.
func attrs(namespaced bool) storage.AttrFunc {
	return func(obj runtime.Object) (labels.Set, fields.Set, error) {
		m, err := meta.Accessor(obj)
		if err != nil {
			return nil, nil, err
		}
		set := fields.Set{"metadata.name": m.GetName()}
		if namespaced {
			set["metadata.namespace"] = m.GetNamespace()
		}
		if pod, ok := obj.(*corev1.Pod); ok {
			set["spec.nodeName"], set["status.phase"] = pod.Spec.NodeName, string(pod.Status.Phase)
		}
		return m.GetLabels(), set, nil
	}
}

// A strategy accepts every object as it is.
type strategy struct {
	runtime.ObjectTyper
	names.NameGenerator
	namespaced bool
}

// deletion returns the strategy of deletions: that of a Pod waits for its kubelet.
func deletion(s strategy, plural string) rest.RESTDeleteStrategy {
	if plural == "pods" {
		return graceful{s}
	}
	return s
}

type graceful struct{ strategy }

// CheckGracefulDelete gives the Pods that kube-apiserver gives time as much as that does.
func (graceful) CheckGracefulDelete(_ context.Context, obj runtime.Object, o *metav1.DeleteOptions) bool {
	pod := obj.(*corev1.Pod)
	seconds := int64(30)
	if given := cmp.Or(o.GracePeriodSeconds, pod.Spec.TerminationGracePeriodSeconds); given != nil {
		seconds = *given
	}
	if pod.Spec.NodeName == "" || pod.Status.Phase == corev1.PodSucceeded || pod.Status.Phase == corev1.PodFailed {
		seconds = 0
	} else if seconds < 0 {
		seconds = 1
	}
	o.GracePeriodSeconds = &seconds
	return true
}

func (s strategy) NamespaceScoped() bool                                          { return s.namespaced }
func (strategy) AllowCreateOnUpdate(context.Context) bool                         { return false }
func (strategy) AllowUnconditionalUpdate(context.Context) bool                    { return true }
func (strategy) Canonicalize(runtime.Object)                                      {}
func (strategy) PrepareForCreate(context.Context, runtime.Object)                 {}
func (strategy) PrepareForUpdate(_ context.Context, _, _ runtime.Object)          {}
func (strategy) Validate(context.Context, runtime.Object) field.ErrorList         { return nil }
func (strategy) WarningsOnCreate(context.Context, runtime.Object) []string        { return nil }
func (strategy) WarningsOnUpdate(_ context.Context, _, _ runtime.Object) []string { return nil }
func (strategy) ValidateUpdate(_ context.Context, _, _ runtime.Object) field.ErrorList {
	return nil
}
