package registry

import (
	"maps"
	"strings"

	"k8s.io/apimachinery/pkg/util/sets"
)

// builtInGroups are Kubernetes' own groups, which kube-apiserver serves without a
// CustomResourceDefinition. Other groups that end in .k8s.io have custom resources.
var builtInGroups = sets.New(append(strings.Fields(`apps autoscaling batch policy admissionregistration.k8s.io apiextensions.k8s.io
	apiregistration.k8s.io authentication.k8s.io authorization.k8s.io certificates.k8s.io coordination.k8s.io discovery.k8s.io events.k8s.io
	flowcontrol.apiserver.k8s.io internal.apiserver.k8s.io lifecycle.k8s.io networking.k8s.io node.k8s.io rbac.authorization.k8s.io resource.k8s.io
	scheduling.k8s.io storage.k8s.io storagemigration.k8s.io`), "")...)

// BuiltIn reports whether the kinds of a group are built into Kubernetes, and so are no custom
// resources.
func BuiltIn(group string) bool { return builtInGroups.Has(group) }

// uncounted are the built-in resources whose objects have no generation. New ones of Kubernetes
// count theirs, and so does what is not known here.
var uncounted = sets.New(strings.Fields(`bindings componentstatuses configmaps endpoints events limitranges namespaces nodes persistentvolumeclaims
	persistentvolumes resourcequotas secrets serviceaccounts services controllerrevisions.apps apiservices.apiregistration.k8s.io
	horizontalpodautoscalers.autoscaling certificatesigningrequests.certificates.k8s.io clustertrustbundles.certificates.k8s.io
	podcertificaterequests.certificates.k8s.io leases.coordination.k8s.io leasecandidates.coordination.k8s.io events.events.k8s.io
	storageversions.internal.apiserver.k8s.io ipaddresses.networking.k8s.io servicecidrs.networking.k8s.io runtimeclasses.node.k8s.io
	clusterroles.rbac.authorization.k8s.io clusterrolebindings.rbac.authorization.k8s.io roles.rbac.authorization.k8s.io
	rolebindings.rbac.authorization.k8s.io resourceclaims.resource.k8s.io resourceclaimtemplates.resource.k8s.io
	resourcepoolstatusrequests.resource.k8s.io compositepodgroups.scheduling.k8s.io podgroups.scheduling.k8s.io workloads.scheduling.k8s.io
	csinodes.storage.k8s.io csistoragecapacities.storage.k8s.io storageclasses.storage.k8s.io volumeattachments.storage.k8s.io
	volumeattributesclasses.storage.k8s.io storageversionmigrations.storagemigration.k8s.io`)...)

// createdByUpdates are the built-in resources of which a PUT creates an object that is not there.
var createdByUpdates = sets.New(strings.Fields(`endpoints events limitranges services leases.coordination.k8s.io leasecandidates.coordination.k8s.io
	events.events.k8s.io runtimeclasses.node.k8s.io clusterroles.rbac.authorization.k8s.io clusterrolebindings.rbac.authorization.k8s.io
	roles.rbac.authorization.k8s.io rolebindings.rbac.authorization.k8s.io`)...)

// statusAlone are the built-in resources of which a write of the status changes nothing else. With
// others it changes metadata, too.
var statusAlone = sets.New(strings.Fields(`validatingadmissionpolicies.admissionregistration.k8s.io
	apiservices.apiregistration.k8s.io podcertificaterequests.certificates.k8s.io
	flowschemas.flowcontrol.apiserver.k8s.io prioritylevelconfigurations.flowcontrol.apiserver.k8s.io
	storageversions.internal.apiserver.k8s.io
	evictionrequests.lifecycle.k8s.io evictions.lifecycle.k8s.io servicecidrs.networking.k8s.io
	devicetaintrules.resource.k8s.io resourceclaims.resource.k8s.io resourcepoolstatusrequests.resource.k8s.io
	compositepodgroups.scheduling.k8s.io podgroups.scheduling.k8s.io volumeattachments.storage.k8s.io
	storageversionmigrations.storagemigration.k8s.io`)...)

// answeredWhole are the built-in resources of which a DELETE is answered with the object that is gone.
// Others are answered with a Status.
var answeredWhole = sets.New(strings.Fields(`namespaces persistentvolumeclaims persistentvolumes pods podtemplates resourcequotas serviceaccounts
	services deviceclasses.resource.k8s.io devicetaintrules.resource.k8s.io resourceclaims.resource.k8s.io resourceclaimtemplates.resource.k8s.io
	resourcepoolstatusrequests.resource.k8s.io resourceslices.resource.k8s.io csidrivers.storage.k8s.io csinodes.storage.k8s.io
	storageclasses.storage.k8s.io volumeattachments.storage.k8s.io volumeattributesclasses.storage.k8s.io`)...)

// AnswersWhole reports whether a DELETE is answered with the object that is gone.
func (k *Kind) AnswersWhole() bool { return answeredWhole.Has(k.GroupResource().String()) }

// orphans reports whether a DELETE that does not say what becomes of the dependents leaves them as
// orphans. These two kinds are older than the garbage collector.
func (k *Kind) orphans() bool {
	resource := k.GroupResource().String()
	return resource == "jobs.batch" || resource == "replicationcontrollers"
}

// counts reports whether the objects have a generation.
func (k *Kind) counts() bool { return !uncounted.Has(k.GroupResource().String()) }

// newGeneration reports whether o, in the place of old, has another generation.
func (k *Kind) newGeneration(o, old *Object) bool {
	if !k.counts() {
		return false
	}
	switch k.GroupResource().String() {
	case "deployments.apps": // their annotations come into the ReplicaSets
		if !maps.Equal(o.Meta.Annotations, old.Meta.Annotations) {
			return true
		}
	case "endpointslices.discovery.k8s.io":
		if !maps.Equal(o.Meta.Labels, old.Meta.Labels) {
			return true
		}
	}
	return !equal(o.Body, old.Body) || k.Versioned && !k.Status && !equalStatus(o, old)
}
