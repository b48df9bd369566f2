package simulate

import (
	"github.com/go-lw/lw/lwtest"
	appsv1 "k8s.io/api/apps/v1"
	autoscalingv2 "k8s.io/api/autoscaling/v2"
	batchv1 "k8s.io/api/batch/v1"
	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	eventsv1 "k8s.io/api/events/v1"
	networkingv1 "k8s.io/api/networking/v1"
	policyv1 "k8s.io/api/policy/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	schedulingv1 "k8s.io/api/scheduling/v1"
	storagev1 "k8s.io/api/storage/v1"
)

// builtin are the kinds that each server has.
var builtin = []lwtest.Resource{
	{Plural: "namespaces", Kind: "Namespace", Cluster: true, Status: true, Type: &corev1.Namespace{}},
	{Plural: "nodes", Kind: "Node", Cluster: true, Status: true, Type: &corev1.Node{}, Fields: []string{"spec.unschedulable"}},
	{Plural: "persistentvolumes", Kind: "PersistentVolume", Cluster: true, Status: true, Type: &corev1.PersistentVolume{}},
	{Plural: "persistentvolumeclaims", Kind: "PersistentVolumeClaim", Status: true, Type: &corev1.PersistentVolumeClaim{}},
	{Plural: "pods", Kind: "Pod", Status: true, Grace: true, Type: &corev1.Pod{}, Fields: []string{"spec.nodeName", "status.phase"}},
	{Plural: "podtemplates", Kind: "PodTemplate", Type: &corev1.PodTemplate{}},
	{Plural: "services", Kind: "Service", Status: true, Type: &corev1.Service{}},
	{Plural: "serviceaccounts", Kind: "ServiceAccount", Type: &corev1.ServiceAccount{}},
	{Plural: "configmaps", Kind: "ConfigMap", Type: &corev1.ConfigMap{}},
	{Plural: "secrets", Kind: "Secret", Type: &corev1.Secret{}, Fields: []string{"type"}},
	{Plural: "endpoints", Kind: "Endpoints", Type: &corev1.Endpoints{}},
	{Plural: "limitranges", Kind: "LimitRange", Type: &corev1.LimitRange{}},
	{Plural: "resourcequotas", Kind: "ResourceQuota", Status: true, Type: &corev1.ResourceQuota{}},
	{Plural: "replicationcontrollers", Kind: "ReplicationController", Status: true, Type: &corev1.ReplicationController{}},
	{Plural: "events", Kind: "Event", Type: &corev1.Event{}},
	{Group: "apps", Plural: "deployments", Kind: "Deployment", Status: true, Type: &appsv1.Deployment{}},
	{Group: "apps", Plural: "replicasets", Kind: "ReplicaSet", Status: true, Type: &appsv1.ReplicaSet{}},
	{Group: "apps", Plural: "statefulsets", Kind: "StatefulSet", Status: true, Type: &appsv1.StatefulSet{}},
	{Group: "apps", Plural: "daemonsets", Kind: "DaemonSet", Status: true, Type: &appsv1.DaemonSet{}},
	{Group: "apps", Plural: "controllerrevisions", Kind: "ControllerRevision", Type: &appsv1.ControllerRevision{}},
	{Group: "batch", Plural: "jobs", Kind: "Job", Status: true, Type: &batchv1.Job{}, Fields: []string{"status.successful"}},
	{Group: "batch", Plural: "cronjobs", Kind: "CronJob", Status: true, Type: &batchv1.CronJob{}},
	{Group: "autoscaling", Version: "v2", Plural: "horizontalpodautoscalers", Kind: "HorizontalPodAutoscaler", Status: true, Type: &autoscalingv2.HorizontalPodAutoscaler{}},
	{Group: "coordination.k8s.io", Plural: "leases", Kind: "Lease", Type: &coordinationv1.Lease{}},
	{Group: "discovery.k8s.io", Plural: "endpointslices", Kind: "EndpointSlice", Type: &discoveryv1.EndpointSlice{}},
	{Group: "events.k8s.io", Plural: "events", Kind: "Event", Type: &eventsv1.Event{}},
	{Group: "networking.k8s.io", Plural: "ingresses", Kind: "Ingress", Status: true, Type: &networkingv1.Ingress{}},
	{Group: "networking.k8s.io", Plural: "networkpolicies", Kind: "NetworkPolicy", Type: &networkingv1.NetworkPolicy{}},
	{Group: "policy", Plural: "poddisruptionbudgets", Kind: "PodDisruptionBudget", Status: true, Type: &policyv1.PodDisruptionBudget{}},
	{Group: "rbac.authorization.k8s.io", Plural: "roles", Kind: "Role", Type: &rbacv1.Role{}},
	{Group: "rbac.authorization.k8s.io", Plural: "rolebindings", Kind: "RoleBinding", Type: &rbacv1.RoleBinding{}},
	{Group: "rbac.authorization.k8s.io", Plural: "clusterroles", Kind: "ClusterRole", Cluster: true, Type: &rbacv1.ClusterRole{}},
	{Group: "rbac.authorization.k8s.io", Plural: "clusterrolebindings", Kind: "ClusterRoleBinding", Cluster: true, Type: &rbacv1.ClusterRoleBinding{}},
	{Group: "scheduling.k8s.io", Plural: "priorityclasses", Kind: "PriorityClass", Cluster: true, Type: &schedulingv1.PriorityClass{}},
	{Group: "storage.k8s.io", Plural: "storageclasses", Kind: "StorageClass", Cluster: true, Type: &storagev1.StorageClass{}},
	{Group: "storage.k8s.io", Plural: "volumeattachments", Kind: "VolumeAttachment", Cluster: true, Status: true, Type: &storagev1.VolumeAttachment{}},
}

// resources returns all that the server of a World serves.
func (w *World) resources() []lwtest.Resource {
	out := append([]lwtest.Resource(nil), w.Resources...)
	for _, b := range builtin {
		taken := false
		for _, r := range w.Resources {
			taken = taken || r.Group == b.Group && r.Plural == b.Plural
		}
		if !taken {
			out = append(out, b)
		}
	}
	return out
}
