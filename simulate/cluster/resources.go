// Package cluster has small models of what a cluster does beside a controller: the built-in kinds
// with the defaults that a server fills in, and actors such as the Job controller and the kubelets.
// An actor makes one write at a time. What it does depends on the objects of the server and on the
// time alone.
package cluster

//lint:file-ignore SA1019 Servers and controllers still have Endpoints.

import (
	"context"
	"fmt"

	admissionv1 "k8s.io/api/admissionregistration/v1"
	appsv1 "k8s.io/api/apps/v1"
	autoscalingv2 "k8s.io/api/autoscaling/v2"
	batchv1 "k8s.io/api/batch/v1"
	certificatesv1 "k8s.io/api/certificates/v1"
	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	eventsv1 "k8s.io/api/events/v1"
	flowcontrolv1 "k8s.io/api/flowcontrol/v1"
	networkingv1 "k8s.io/api/networking/v1"
	nodev1 "k8s.io/api/node/v1"
	policyv1 "k8s.io/api/policy/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	resourcev1 "k8s.io/api/resource/v1"
	schedulingv1 "k8s.io/api/scheduling/v1"
	storagev1 "k8s.io/api/storage/v1"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"

	"github.com/go-lw/lw/lwtest"
)

// Resources returns the built-in kinds that controllers use, with the defaults of a real server as
// far as controllers look at them. A server needs Resources of its own.
func Resources() []lwtest.Resource {
	all := []lwtest.Resource{
		{Plural: "pods", Kind: "Pod", Status: true, Grace: true, Type: &corev1.Pod{}, Fields: []string{"spec.nodeName",
			"spec.restartPolicy", "spec.schedulerName", "spec.serviceAccountName", "status.nominatedNodeName", "status.phase", "status.podIP"}},
		{Plural: "services", Kind: "Service", Status: true, Type: &corev1.Service{},
			Fields: []string{"spec.clusterIP", "spec.type"}},
		{Plural: "configmaps", Kind: "ConfigMap", Type: &corev1.ConfigMap{}},
		{Plural: "secrets", Kind: "Secret", Type: &corev1.Secret{}, Fields: []string{"type"}},
		{Plural: "serviceaccounts", Kind: "ServiceAccount", Type: &corev1.ServiceAccount{}},
		{Plural: "events", Kind: "Event", Type: &corev1.Event{}, Fields: []string{"involvedObject.namespace",
			"involvedObject.name", "involvedObject.kind", "involvedObject.uid", "involvedObject.apiVersion", "involvedObject.fieldPath",
			"involvedObject.resourceVersion", "reason", "reportingComponent", "type"}},
		{Plural: "endpoints", Kind: "Endpoints", Type: &corev1.Endpoints{}},
		{Plural: "nodes", Kind: "Node", Cluster: true, Status: true, Type: &corev1.Node{},
			Fields: []string{"spec.unschedulable"}},
		{Plural: "namespaces", Kind: "Namespace", Cluster: true, Status: true, Type: &corev1.Namespace{},
			Fields: []string{"status.phase"}},
		{Plural: "persistentvolumeclaims", Kind: "PersistentVolumeClaim", Status: true,
			Type: &corev1.PersistentVolumeClaim{}},
		{Plural: "persistentvolumes", Kind: "PersistentVolume", Cluster: true, Status: true,
			Type: &corev1.PersistentVolume{}},
		{Plural: "resourcequotas", Kind: "ResourceQuota", Status: true, Type: &corev1.ResourceQuota{}},
		{Plural: "limitranges", Kind: "LimitRange", Type: &corev1.LimitRange{}},
		{Plural: "podtemplates", Kind: "PodTemplate", Type: &corev1.PodTemplate{}},
		{Plural: "replicationcontrollers", Kind: "ReplicationController", Status: true, Scale: true,
			Type: &corev1.ReplicationController{}},
		{Group: "apps", Plural: "deployments", Kind: "Deployment", Status: true, Scale: true, Type: &appsv1.Deployment{}},
		{Group: "apps", Plural: "replicasets", Kind: "ReplicaSet", Status: true, Scale: true, Type: &appsv1.ReplicaSet{}},
		{Group: "apps", Plural: "statefulsets", Kind: "StatefulSet", Status: true, Scale: true, Type: &appsv1.StatefulSet{}},
		{Group: "apps", Plural: "daemonsets", Kind: "DaemonSet", Status: true, Type: &appsv1.DaemonSet{}},
		{Group: "apps", Plural: "controllerrevisions", Kind: "ControllerRevision", Type: &appsv1.ControllerRevision{}},
		{Group: "batch", Plural: "jobs", Kind: "Job", Status: true, Type: &batchv1.Job{},
			Fields: []string{"status.successful"}},
		{Group: "batch", Plural: "cronjobs", Kind: "CronJob", Status: true, Type: &batchv1.CronJob{}},
		{Group: "coordination.k8s.io", Plural: "leases", Kind: "Lease", Type: &coordinationv1.Lease{}},
		{Group: "discovery.k8s.io", Plural: "endpointslices", Kind: "EndpointSlice", Type: &discoveryv1.EndpointSlice{}},
		{Group: "events.k8s.io", Plural: "events", Kind: "Event", Type: &eventsv1.Event{}, Fields: []string{"regarding.name",
			"regarding.kind", "regarding.uid", "reason", "type"}},
		{Group: "networking.k8s.io", Plural: "ingresses", Kind: "Ingress", Status: true, Type: &networkingv1.Ingress{}},
		{Group: "networking.k8s.io", Plural: "networkpolicies", Kind: "NetworkPolicy", Type: &networkingv1.NetworkPolicy{}},
		{Group: "policy", Plural: "poddisruptionbudgets", Kind: "PodDisruptionBudget", Status: true,
			Type: &policyv1.PodDisruptionBudget{}},
		{Group: "autoscaling", Version: "v2", Plural: "horizontalpodautoscalers", Kind: "HorizontalPodAutoscaler",
			Status: true, Type: &autoscalingv2.HorizontalPodAutoscaler{}},
		{Group: "rbac.authorization.k8s.io", Plural: "roles", Kind: "Role", Type: &rbacv1.Role{}},
		{Group: "rbac.authorization.k8s.io", Plural: "rolebindings", Kind: "RoleBinding", Type: &rbacv1.RoleBinding{}},
		{Group: "rbac.authorization.k8s.io", Plural: "clusterroles", Kind: "ClusterRole", Cluster: true,
			Type: &rbacv1.ClusterRole{}},
		{Group: "rbac.authorization.k8s.io", Plural: "clusterrolebindings", Kind: "ClusterRoleBinding", Cluster: true,
			Type: &rbacv1.ClusterRoleBinding{}},
		{Group: "scheduling.k8s.io", Plural: "priorityclasses", Kind: "PriorityClass", Cluster: true,
			Type: &schedulingv1.PriorityClass{}},
		{Group: "storage.k8s.io", Plural: "storageclasses", Kind: "StorageClass", Cluster: true,
			Type: &storagev1.StorageClass{}},
		{Group: "storage.k8s.io", Plural: "volumeattachments", Kind: "VolumeAttachment", Cluster: true, Status: true,
			Type: &storagev1.VolumeAttachment{}},
		{Group: "storage.k8s.io", Plural: "csidrivers", Kind: "CSIDriver", Cluster: true, Type: &storagev1.CSIDriver{}},
		{Group: "storage.k8s.io", Plural: "csistoragecapacities", Kind: "CSIStorageCapacity",
			Type: &storagev1.CSIStorageCapacity{}},
		{Group: "storage.k8s.io", Plural: "volumeattributesclasses", Kind: "VolumeAttributesClass", Cluster: true,
			Type: &storagev1.VolumeAttributesClass{}},
		{Group: "resource.k8s.io", Plural: "deviceclasses", Kind: "DeviceClass", Cluster: true,
			Type: &resourcev1.DeviceClass{}},
		{Group: "resource.k8s.io", Plural: "resourceclaims", Kind: "ResourceClaim", Status: true,
			Type: &resourcev1.ResourceClaim{}},
		{Group: "resource.k8s.io", Plural: "resourceclaimtemplates", Kind: "ResourceClaimTemplate",
			Type: &resourcev1.ResourceClaimTemplate{}},
		{Group: "resource.k8s.io", Plural: "resourceslices", Kind: "ResourceSlice", Cluster: true,
			Type: &resourcev1.ResourceSlice{}, Fields: []string{"spec.driver", "spec.nodeName"}},
		{Group: "admissionregistration.k8s.io", Plural: "mutatingwebhookconfigurations", Kind: "MutatingWebhookConfiguration",
			Cluster: true, Type: &admissionv1.MutatingWebhookConfiguration{}},
		{Group: "admissionregistration.k8s.io", Plural: "validatingwebhookconfigurations",
			Kind: "ValidatingWebhookConfiguration", Cluster: true, Type: &admissionv1.ValidatingWebhookConfiguration{}},
		{Group: "admissionregistration.k8s.io", Plural: "mutatingadmissionpolicies", Kind: "MutatingAdmissionPolicy",
			Cluster: true, Type: &admissionv1.MutatingAdmissionPolicy{}},
		{Group: "admissionregistration.k8s.io", Plural: "mutatingadmissionpolicybindings",
			Kind: "MutatingAdmissionPolicyBinding", Cluster: true, Type: &admissionv1.MutatingAdmissionPolicyBinding{}},
		{Group: "admissionregistration.k8s.io", Plural: "validatingadmissionpolicies", Kind: "ValidatingAdmissionPolicy",
			Cluster: true, Status: true, Type: &admissionv1.ValidatingAdmissionPolicy{}},
		{Group: "admissionregistration.k8s.io", Plural: "validatingadmissionpolicybindings",
			Kind: "ValidatingAdmissionPolicyBinding", Cluster: true, Type: &admissionv1.ValidatingAdmissionPolicyBinding{}},
		{Group: "apiextensions.k8s.io", Plural: "customresourcedefinitions", Kind: "CustomResourceDefinition", Cluster: true,
			Status: true, Type: &apiextensionsv1.CustomResourceDefinition{}},
		{Group: "certificates.k8s.io", Plural: "certificatesigningrequests", Kind: "CertificateSigningRequest", Cluster: true,
			Status: true, Type: &certificatesv1.CertificateSigningRequest{}, Fields: []string{"spec.signerName"}},
		{Group: "flowcontrol.apiserver.k8s.io", Plural: "flowschemas", Kind: "FlowSchema", Cluster: true, Status: true,
			Type: &flowcontrolv1.FlowSchema{}},
		{Group: "flowcontrol.apiserver.k8s.io", Plural: "prioritylevelconfigurations", Kind: "PriorityLevelConfiguration",
			Cluster: true, Status: true, Type: &flowcontrolv1.PriorityLevelConfiguration{}},
		{Group: "networking.k8s.io", Plural: "ingressclasses", Kind: "IngressClass", Cluster: true,
			Type: &networkingv1.IngressClass{}},
		{Group: "networking.k8s.io", Plural: "ipaddresses", Kind: "IPAddress", Cluster: true, Type: &networkingv1.IPAddress{},
			Fields: []string{"spec.parentRef.name"}},
		{Group: "networking.k8s.io", Plural: "servicecidrs", Kind: "ServiceCIDR", Cluster: true, Status: true,
			Type: &networkingv1.ServiceCIDR{}},
		{Group: "node.k8s.io", Plural: "runtimeclasses", Kind: "RuntimeClass", Cluster: true, Type: &nodev1.RuntimeClass{}},
		{Group: "storage.k8s.io", Plural: "csinodes", Kind: "CSINode", Cluster: true, Type: &storagev1.CSINode{}},
	}
	jobs := 0
	for i := range all {
		all[i].Managed, all[i].Validate = true, immutable
		all[i].Default = func(_ context.Context, a lwtest.Admission) error {
			if a.Verb == lwtest.Delete {
				return nil
			}
			if job, ok := a.Object.(*batchv1.Job); ok && a.Verb == lwtest.Create {
				// The server selects a Job's Pods by its UID, so it must be known before the Job is stored.
				jobs++
				job.UID = types.UID(fmt.Sprintf("00000000-0000-4000-9000-%012x", jobs))
			}
			setDefaults(a.Object, a.Verb == lwtest.Create)
			return nil
		}
	}
	return all
}

// An Admission is one of a project's own webhooks, as functions: what its handlers are made of.
type Admission struct {
	Group, Plural string // of the objects; the core group is ""
	// Subresource is "" for the objects themselves, as that of most webhooks.
	Subresource string
	// Default changes a.Object. Validate refuses a write. Nil: it does nothing. Their objects have the
	// Type of the resource, or are of Object's type if that is set, or are unstructured.
	Default, Validate func(ctx context.Context, a lwtest.Admission) error
	Object            runtime.Object
}

// Admit returns resources that admit their writes by webhooks: the defaults of the schema come
// before and after those of the webhooks, and the validation of the schema before theirs.
func Admit(resources []lwtest.Resource, hooks ...Admission) []lwtest.Resource {
	out := append([]lwtest.Resource(nil), resources...)
	for i := range out {
		for _, hook := range hooks {
			if r := &out[i]; r.Group == hook.Group && r.Plural == hook.Plural {
				r.Default, r.Validate = hook.defaults(r.Default), hook.validate(r.Validate)
			}
		}
	}
	return out
}

type admit = func(ctx context.Context, a lwtest.Admission) error

func (hook Admission) defaults(schema admit) admit {
	if hook.Default == nil {
		return schema
	}
	return hook.after(schema, func(ctx context.Context, a, typed lwtest.Admission) error {
		err := hook.Default(ctx, typed)
		if err == nil && hook.Object != nil {
			err = convert(typed.Object, a.Object)
		}
		if err == nil && schema != nil {
			err = schema(ctx, a)
		}
		return err
	})
}

func (hook Admission) validate(schema admit) admit {
	if hook.Validate == nil {
		return schema
	}
	return hook.after(schema,
		func(ctx context.Context, _, typed lwtest.Admission) error { return hook.Validate(ctx, typed) })
}

// after calls schema, if there is one, and then do, with the objects of the hook's type beside
// those that are stored.
func (hook Admission) after(schema admit, do func(ctx context.Context, a, typed lwtest.Admission) error) admit {
	return func(ctx context.Context, a lwtest.Admission) error {
		if schema != nil {
			if err := schema(ctx, a); err != nil {
				return err
			}
		}
		if a.Subresource != hook.Subresource {
			return nil
		}
		typed, err := hook.typed(a)
		if err != nil {
			return err
		}
		return do(ctx, a, typed)
	}
}

// typed returns a with objects of the hook's type.
func (hook Admission) typed(a lwtest.Admission) (lwtest.Admission, error) {
	if hook.Object == nil {
		return a, nil
	}
	for _, obj := range []*runtime.Object{&a.Object, &a.Old} {
		if *obj == nil {
			continue
		}
		out := hook.Object.DeepCopyObject()
		if err := convert(*obj, out); err != nil {
			return a, err
		}
		*obj = out
	}
	return a, nil
}
