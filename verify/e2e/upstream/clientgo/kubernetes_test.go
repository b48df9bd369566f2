package clientgo

import "testing"

// A release of Kubernetes, and the client-go in it.
var (
	kubernetes         = module{"k8s.io/kubernetes", "v1.36.3"}
	kubernetesClientGo = module{"k8s.io/client-go", "v0.36.3"}
)

// TestKubernetes runs the tests of controllers of kube-controller-manager.
func TestKubernetes(t *testing.T) {
	w := workspaceFor(t, kubernetesClientGo, kubernetes)
	suites := controllers
	if *nightly {
		suites = append(suites, nightlyControllers...)
	}
	for i := range suites {
		suites[i].pkg = "k8s.io/kubernetes/pkg/controller/" + suites[i].pkg
	}
	runSuites(t, w, suites)
}

var controllers = []suite{
	{pkg: "replicaset"},
	{pkg: "deployment"},
	{pkg: "endpointslice"},
}

var nightlyControllers = []suite{
	{pkg: "bootstrap"},
	{pkg: "certificates"},
	{pkg: "certificates/rootcacertpublisher"},
	{pkg: "cronjob"},
	{pkg: "daemon"},
	{pkg: "devicetainteviction"},
	{pkg: "disruption"},
	{pkg: "endpoint"},
	{pkg: "endpointslicemirroring"},
	{pkg: "garbagecollector"},
	{pkg: "history"},
	{pkg: "job"},
	{pkg: "nodelifecycle"},
	{pkg: "podautoscaler"},
	{pkg: "podgc"},
	{pkg: "resourceclaim"},
	{pkg: "resourcepoolstatusrequest"},
	{pkg: "resourcequota"},
	{pkg: "scheduling/podgroupprotection"},
	{pkg: "serviceaccount"},
	{pkg: "servicecidrs"},
	{pkg: "statefulset"},
	{pkg: "storageversiongc"},
	{pkg: "storageversionmigrator"},
	{pkg: "tainteviction"},
	{pkg: "ttl"},
	{pkg: "ttlafterfinished"},
	{pkg: "validatingadmissionpolicystatus"},
	{pkg: "volume/attachdetach"},
	{pkg: "volume/attachdetach/populator"},
	{pkg: "volume/attachdetach/reconciler"},
	{pkg: "volume/attachdetach/statusupdater"},
	{pkg: "volume/ephemeral"},
	{pkg: "volume/expand"},
	{pkg: "volume/persistentvolume"},
	{pkg: "volume/pvcprotection"},
	{pkg: "volume/pvprotection"},
	{pkg: "volume/selinuxwarning"},
	{pkg: "volume/vacprotection"},
}
