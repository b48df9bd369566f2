package controllerruntime

const (
	// These are races of tests.
	ownLimit = "its client may wait for its own rate limit when the time is up, and says that"
	synced   = "its informer may be in step before the context that is cancelled is looked at; TestSuite runs it again alone"
	tooShort = "its 100 ms may be over before the first answer"
	staleSet = "where the cache of Pods is behind that of StatefulSets, its controller makes the deleted set again from the old Pod"
	tooSoon  = "it reads the revision of the leader's StatefulSet, on a fast server before the controller has written it"
)

// foreignProjects are the modules that TestForeign tests. Each suite needs port 8080 for itself, so
// they run one after the other.
var foreignProjects = []project{
	{module: controllerRuntime, version: controllerRuntimeVersion, suites: map[string]suite{
		"pkg/builder": {specs: 72}, "pkg/cache": {specs: specs, races: cancelled()}, "pkg/client": {specs: clientSpecs}, "pkg/cluster": {specs: 15},
		"pkg/controller": {specs: 32}, "pkg/controller/controllerutil": {specs: 60}, "pkg/envtest": {specs: 28},
		"pkg/handler": {specs: 96}, "pkg/manager": {specs: 107}, "pkg/source": {specs: 19}, "pkg/webhook": {specs: 8},
	}},
	{module: "sigs.k8s.io/jobset", version: "v0.12.0", suites: map[string]suite{
		"test/integration/controller": {specs: 65, races: envtestProjects["jobset"].suites["test/integration/controller"].races},
		"test/integration/webhook":    {specs: 35},
	}},
	{module: "sigs.k8s.io/lws", version: "v0.9.0", suites: map[string]suite{
		"test/integration/controllers": {specs: 52, races: map[string]string{
			"LeaderWorkerSet controller leaderWorkerSet creating or updating workerTemplate changed with maxUnavailable=2":              staleSet,
			"LeaderWorkerSet controller leaderWorkerSet creating or updating scale up and down during rolling update with maxSurge set": staleSet,
			"LeaderWorkerSet controller leaderWorkerSet creating or updating rolling update with maxUnavailable and maxSurge set":       staleSet,
			"LeaderWorkerSet controller leaderWorkerSet creating or updating resize should update the size of the replicas":             tooSoon,
		}},
		"test/integration/webhooks": {specs: 82},
	}},
	{module: "github.com/fluxcd/pkg/ssa", version: "v0.77.0", suites: map[string]suite{
		".": {tests: true, specs: 205, races: map[string]string{
			"TestWaitForSet_ErrorOnReaderError": tooShort,
			"TestWaitForSet_JobWithTTL":         ownLimit, "TestWaitForSet_JobWithTTL/NotFound_Job_without_TTL_option_is_treated_as_error": ownLimit,
		}},
		"jsondiff": {tests: true, specs: 115},
	}},
	{module: "github.com/fluxcd/pkg/runtime", version: "v0.117.0", suites: map[string]suite{
		"cel": {tests: true, specs: 117}, "client": {tests: true, specs: 47}, "controller": {tests: true, specs: 41},
		"events": {tests: true, specs: 23}, "patch": {tests: true, specs: 33}, "secrets": {tests: true, specs: 175},
	}},
	{module: "sigs.k8s.io/cluster-api", version: "v1.14.2", parts: []string{"sigs.k8s.io/cluster-api/api"}, suites: map[string]suite{
		"controllers/clustercache": {tests: true, specs: 42}, "controllers/crdmigrator": {tests: true, specs: 10},
		"core/reconcilers/clusterresourceset": {tests: true, specs: 31}, "core/reconcilers/machineset": {tests: true, specs: 240},
		"core/reconcilers/machine": {tests: true, specs: 306}, "core/reconcilers/machinehealthcheck": {tests: true, specs: 78},
		"core/reconcilers/extensionconfig": {tests: true, specs: 27}, "core/reconcilers/machinepool": {tests: true, specs: 97},
		"core/reconcilers/machinedeployment":                {tests: true, specs: 2566},
		"core/reconcilers/topology/cluster/structuredmerge": {tests: true, specs: 42},
		"core/webhooks/admission/test":                      {tests: true, specs: 44}, "internal/util/ssa/test": {tests: true, specs: 25},
		"util/patch/test": {tests: true, specs: 62},
	}},
	{module: "github.com/kedacore/keda/v2", version: "v2.21.0", suites: map[string]suite{
		"apis/eventing/v1alpha1": {specs: 3}, "apis/keda/v1alpha1": {specs: 92},
	}},
	{module: "github.com/cert-manager/trust-manager", version: "v0.25.0", suites: map[string]suite{
		"test/integration/bundle": {specs: 87}, "test/integration/clusterbundle": {specs: 81},
	}},
	{module: "github.com/open-policy-agent/gatekeeper/v3", version: "v3.23.1", own: true, suites: map[string]suite{
		"pkg/cachemanager": {tests: true, specs: 47}, "pkg/cachemanager/cachemanager_test": {tests: true, specs: 3},
		"pkg/controller/config": {tests: true, specs: 20}, "pkg/controller/connectionstatus": {tests: true, specs: 2},
		"pkg/controller/constrainttemplatestatus": {tests: true, specs: 10},
		"pkg/controller/expansion":                {tests: true, specs: 9}, "pkg/controller/externaldata": {tests: true, specs: 18},
		"pkg/controller/externaldatastatus": {tests: true, specs: 9},
		"pkg/controller/mutators/core":      {tests: true, specs: 29}, "pkg/controller/syncset": {tests: true, specs: 3},
		"pkg/controller/webhookconfig": {tests: true, specs: 26}, "pkg/readiness": {tests: true, specs: 81},
		"pkg/readiness/pruner": {tests: true, specs: 1}, "pkg/watch": {tests: true, specs: 36},
	}},
	{
		module: "github.com/cert-manager/approver-policy", version: "v0.28.0",
		folders: map[string]folder{"CERT_MANAGER_CRDS": {"github.com/cert-manager/cert-manager@v1.21.2", "deploy/crds"}},
		suites: map[string]suite{
			"pkg/internal/approver/manager":           {tests: true, specs: 9},
			"pkg/internal/approver/manager/predicate": {tests: true, specs: 44},
			"pkg/internal/controllers/test":           {specs: 50},
		},
	},
}

// cancelled returns the specs that ask for an informer by a context that is cancelled.
func cancelled() map[string]string {
	races := map[string]string{}
	for _, cache := range []string{"Informer Cache", "Informer Cache without global DeepCopy", "Multi-Namespace Informer Cache"} {
		for _, spec := range []string{
			"structured objects should allow for get informer", "structured objects should allow getting an informer by group/version/kind",
			"unstructured objects should allow for get informer", "metadata-only objects should allow for get informer",
		} {
			races[cache+" Cache test as an Informer with "+spec+" to be cancelled"] = synced
		}
	}
	return races
}
