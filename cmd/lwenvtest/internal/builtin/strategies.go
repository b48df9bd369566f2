package builtin

import (
	"k8s.io/apimachinery/pkg/runtime/schema"
	apiregistration "k8s.io/kube-aggregator/pkg/apis/apiregistration/install"
	"k8s.io/kube-aggregator/pkg/registry/apiservice"
	"k8s.io/kubernetes/pkg/api/legacyscheme"

	// Kinds are known to the scheme once their group is installed.
	_ "k8s.io/kubernetes/pkg/apis/admissionregistration/install"
	_ "k8s.io/kubernetes/pkg/apis/apps/install"
	_ "k8s.io/kubernetes/pkg/apis/autoscaling/install"
	_ "k8s.io/kubernetes/pkg/apis/batch/install"
	_ "k8s.io/kubernetes/pkg/apis/certificates/install"
	_ "k8s.io/kubernetes/pkg/apis/coordination/install"
	_ "k8s.io/kubernetes/pkg/apis/core/install"
	_ "k8s.io/kubernetes/pkg/apis/discovery/install"
	_ "k8s.io/kubernetes/pkg/apis/events/install"
	_ "k8s.io/kubernetes/pkg/apis/flowcontrol/install"
	_ "k8s.io/kubernetes/pkg/apis/networking/install"
	_ "k8s.io/kubernetes/pkg/apis/node/install"
	_ "k8s.io/kubernetes/pkg/apis/policy/install"
	_ "k8s.io/kubernetes/pkg/apis/rbac/install"
	_ "k8s.io/kubernetes/pkg/apis/resource/install"
	_ "k8s.io/kubernetes/pkg/apis/scheduling/install"
	_ "k8s.io/kubernetes/pkg/apis/storage/install"

	"k8s.io/kubernetes/pkg/registry/admissionregistration/mutatingwebhookconfiguration"
	"k8s.io/kubernetes/pkg/registry/admissionregistration/validatingwebhookconfiguration"
	"k8s.io/kubernetes/pkg/registry/apps/controllerrevision"
	"k8s.io/kubernetes/pkg/registry/apps/daemonset"
	"k8s.io/kubernetes/pkg/registry/apps/deployment"
	"k8s.io/kubernetes/pkg/registry/apps/replicaset"
	"k8s.io/kubernetes/pkg/registry/apps/statefulset"
	"k8s.io/kubernetes/pkg/registry/autoscaling/horizontalpodautoscaler"
	"k8s.io/kubernetes/pkg/registry/batch/cronjob"
	"k8s.io/kubernetes/pkg/registry/batch/job"
	"k8s.io/kubernetes/pkg/registry/certificates/certificates"
	"k8s.io/kubernetes/pkg/registry/coordination/lease"
	"k8s.io/kubernetes/pkg/registry/core/configmap"
	"k8s.io/kubernetes/pkg/registry/core/endpoint"
	"k8s.io/kubernetes/pkg/registry/core/event"
	"k8s.io/kubernetes/pkg/registry/core/limitrange"
	"k8s.io/kubernetes/pkg/registry/core/namespace"
	"k8s.io/kubernetes/pkg/registry/core/node"
	"k8s.io/kubernetes/pkg/registry/core/persistentvolume"
	"k8s.io/kubernetes/pkg/registry/core/persistentvolumeclaim"
	"k8s.io/kubernetes/pkg/registry/core/pod"
	"k8s.io/kubernetes/pkg/registry/core/podtemplate"
	"k8s.io/kubernetes/pkg/registry/core/replicationcontroller"
	"k8s.io/kubernetes/pkg/registry/core/resourcequota"
	"k8s.io/kubernetes/pkg/registry/core/secret"
	"k8s.io/kubernetes/pkg/registry/core/service"
	"k8s.io/kubernetes/pkg/registry/core/serviceaccount"
	"k8s.io/kubernetes/pkg/registry/discovery/endpointslice"
	"k8s.io/kubernetes/pkg/registry/flowcontrol/flowschema"
	"k8s.io/kubernetes/pkg/registry/flowcontrol/prioritylevelconfiguration"
	"k8s.io/kubernetes/pkg/registry/networking/ingress"
	"k8s.io/kubernetes/pkg/registry/networking/ingressclass"
	"k8s.io/kubernetes/pkg/registry/networking/ipaddress"
	"k8s.io/kubernetes/pkg/registry/networking/networkpolicy"
	"k8s.io/kubernetes/pkg/registry/networking/servicecidr"
	"k8s.io/kubernetes/pkg/registry/node/runtimeclass"
	"k8s.io/kubernetes/pkg/registry/policy/poddisruptionbudget"
	"k8s.io/kubernetes/pkg/registry/rbac/clusterrole"
	"k8s.io/kubernetes/pkg/registry/rbac/clusterrolebinding"
	"k8s.io/kubernetes/pkg/registry/rbac/role"
	"k8s.io/kubernetes/pkg/registry/rbac/rolebinding"
	"k8s.io/kubernetes/pkg/registry/resource/deviceclass"
	"k8s.io/kubernetes/pkg/registry/resource/resourceslice"
	"k8s.io/kubernetes/pkg/registry/scheduling/priorityclass"
	"k8s.io/kubernetes/pkg/registry/storage/csidriver"
	"k8s.io/kubernetes/pkg/registry/storage/csinode"
	"k8s.io/kubernetes/pkg/registry/storage/csistoragecapacity"
	"k8s.io/kubernetes/pkg/registry/storage/storageclass"
	"k8s.io/kubernetes/pkg/registry/storage/volumeattachment"
	"k8s.io/kubernetes/pkg/registry/storage/volumeattributesclass"
)

// strategies are those of each kind and of its subresources, but for those that ask the server.
var strategies = map[schema.GroupResource]map[string]strategy{
	{Resource: "configmaps"}:             object(configmap.Strategy),
	{Resource: "endpoints"}:              object(endpoint.Strategy),
	{Resource: "events"}:                 object(event.Strategy),
	{Resource: "limitranges"}:            object(limitrange.Strategy),
	{Resource: "namespaces"}:             {"": namespace.Strategy, "status": namespace.StatusStrategy, "finalize": namespace.FinalizeStrategy},
	{Resource: "nodes"}:                  withStatus(node.Strategy, node.StatusStrategy),
	{Resource: "persistentvolumes"}:      withStatus(persistentvolume.Strategy, persistentvolume.StatusStrategy),
	{Resource: "persistentvolumeclaims"}: withStatus(persistentvolumeclaim.Strategy, persistentvolumeclaim.StatusStrategy),
	{Resource: "pods"}: {
		"": pod.Strategy, "status": pod.StatusStrategy, "ephemeralcontainers": pod.EphemeralContainersStrategy, "resize": pod.ResizeStrategy,
	},
	{Resource: "podtemplates"}:           object(podtemplate.Strategy),
	{Resource: "replicationcontrollers"}: withStatus(replicationcontroller.Strategy, replicationcontroller.StatusStrategy),
	{Resource: "resourcequotas"}:         withStatus(resourcequota.Strategy, resourcequota.StatusStrategy),
	{Resource: "secrets"}:                object(secret.Strategy),
	{Resource: "services"}:               withStatus(service.Strategy, service.StatusStrategy),
	{Resource: "serviceaccounts"}:        object(serviceaccount.Strategy),

	{Group: "apps", Resource: "controllerrevisions"}: object(controllerrevision.Strategy),
	{Group: "apps", Resource: "daemonsets"}:          withStatus(daemonset.Strategy, daemonset.StatusStrategy),
	{Group: "apps", Resource: "deployments"}:         withStatus(deployment.Strategy, deployment.StatusStrategy),
	{Group: "apps", Resource: "replicasets"}:         withStatus(replicaset.Strategy, replicaset.StatusStrategy),
	{Group: "apps", Resource: "statefulsets"}:        withStatus(statefulset.Strategy, statefulset.StatusStrategy),

	{Group: "autoscaling", Resource: "horizontalpodautoscalers"}: withStatus(horizontalpodautoscaler.Strategy,
		horizontalpodautoscaler.StatusStrategy),
	{Group: "batch", Resource: "cronjobs"}:                    withStatus(cronjob.Strategy, cronjob.StatusStrategy),
	{Group: "batch", Resource: "jobs"}:                        withStatus(job.Strategy, job.StatusStrategy),
	{Group: "coordination.k8s.io", Resource: "leases"}:        object(lease.Strategy),
	{Group: "discovery.k8s.io", Resource: "endpointslices"}:   object(endpointslice.Strategy),
	{Group: "events.k8s.io", Resource: "events"}:              object(event.Strategy),
	{Group: "node.k8s.io", Resource: "runtimeclasses"}:        object(runtimeclass.Strategy),
	{Group: "policy", Resource: "poddisruptionbudgets"}:       withStatus(poddisruptionbudget.Strategy, poddisruptionbudget.StatusStrategy),
	{Group: "scheduling.k8s.io", Resource: "priorityclasses"}: object(priorityclass.Strategy),

	{Group: "admissionregistration.k8s.io", Resource: "mutatingwebhookconfigurations"}:   object(mutatingwebhookconfiguration.Strategy),
	{Group: "admissionregistration.k8s.io", Resource: "validatingwebhookconfigurations"}: object(validatingwebhookconfiguration.Strategy),
	{Group: "apiregistration.k8s.io", Resource: "apiservices"}: withStatus(apiservice.NewStrategy(legacyscheme.Scheme),
		apiservice.NewStatusStrategy(legacyscheme.Scheme)),
	{Group: "certificates.k8s.io", Resource: "certificatesigningrequests"}: {
		"": certificates.Strategy, "status": certificates.StatusStrategy, "approval": certificates.ApprovalStrategy,
	},
	{Group: "flowcontrol.apiserver.k8s.io", Resource: "flowschemas"}: withStatus(flowschema.Strategy, flowschema.StatusStrategy),
	{Group: "flowcontrol.apiserver.k8s.io", Resource: "prioritylevelconfigurations"}: withStatus(prioritylevelconfiguration.Strategy,
		prioritylevelconfiguration.StatusStrategy),

	{Group: "networking.k8s.io", Resource: "ingressclasses"}:  object(ingressclass.Strategy),
	{Group: "networking.k8s.io", Resource: "ingresses"}:       withStatus(ingress.Strategy, ingress.StatusStrategy),
	{Group: "networking.k8s.io", Resource: "ipaddresses"}:     object(ipaddress.Strategy),
	{Group: "networking.k8s.io", Resource: "networkpolicies"}: object(networkpolicy.Strategy),
	{Group: "networking.k8s.io", Resource: "servicecidrs"}:    withStatus(servicecidr.Strategy, servicecidr.StatusStrategy),

	{Group: "rbac.authorization.k8s.io", Resource: "clusterrolebindings"}: object(clusterrolebinding.Strategy),
	{Group: "rbac.authorization.k8s.io", Resource: "clusterroles"}:        object(clusterrole.Strategy),
	{Group: "rbac.authorization.k8s.io", Resource: "rolebindings"}:        object(rolebinding.Strategy),
	{Group: "rbac.authorization.k8s.io", Resource: "roles"}:               object(role.Strategy),

	{Group: "resource.k8s.io", Resource: "deviceclasses"}:  object(deviceclass.Strategy),
	{Group: "resource.k8s.io", Resource: "resourceslices"}: object(resourceslice.Strategy),

	{Group: "storage.k8s.io", Resource: "csidrivers"}:              object(csidriver.Strategy),
	{Group: "storage.k8s.io", Resource: "csinodes"}:                object(csinode.Strategy),
	{Group: "storage.k8s.io", Resource: "csistoragecapacities"}:    object(csistoragecapacity.Strategy),
	{Group: "storage.k8s.io", Resource: "storageclasses"}:          object(storageclass.Strategy),
	{Group: "storage.k8s.io", Resource: "volumeattachments"}:       withStatus(volumeattachment.Strategy, volumeattachment.StatusStrategy),
	{Group: "storage.k8s.io", Resource: "volumeattributesclasses"}: object(volumeattributesclass.Strategy),
}

// The aggregator of kube-apiserver has a scheme of its own.
func init() { apiregistration.Install(legacyscheme.Scheme) }

func object(s strategy) map[string]strategy { return map[string]strategy{"": s} }

func withStatus(s, status strategy) map[string]strategy {
	return map[string]strategy{"": s, "status": status}
}
