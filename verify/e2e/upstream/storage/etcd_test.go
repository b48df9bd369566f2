package storage_test

import (
	"context"
	"maps"
	"slices"
	"testing"

	storagetesting "k8s.io/apiserver/pkg/storage/testing"
)

// etcdSuites are the names of those of lists and watches, of which every one reads by module etcd.
var etcdSuites = []string{
	"RunTestClusterScopedWatch", "RunTestDelayedWatchDelivery", "RunTestDeleteTriggerWatch", "RunTestGetListNonRecursive",
	"RunTestGetListRecursivePrefix", "RunTestListContinuation", "RunTestListContinuationWithFilter",
	"RunTestListInconsistentContinuation", "RunTestListPaginationRareObject", "RunTestListPaging",
	"RunTestNamespaceScopedList",
	"RunTestNamespaceScopedWatch", "RunTestWatch", "RunTestWatchDeleteEventObjectHaveLatestRV", "RunTestWatchFromNonZero",
	"RunTestWatchFromZero", "RunTestWatcherTimeout",
}

// etcdOwn are those that expect something else of it than of package serve, or cannot run over
// HTTP.
var etcdOwn = map[string]suite{
	"RunTestConsistentList": func(ctx context.Context, t *testing.T, s subject) {
		storagetesting.RunTestConsistentList(ctx, t, s, s.increase, false, true, false)
	},
	"RunTestList": func(ctx context.Context, t *testing.T, s subject) {
		storagetesting.RunTestList(ctx, t, s, s.compact, false, storagetesting.NewKubernetesRecorder(nil))
	},
	"RunTestWatchContextCancel": plain(storagetesting.RunTestWatchContextCancel),
	"RunOptionalTestProgressNotify": func(ctx context.Context, t *testing.T, s subject) {
		storagetesting.RunOptionalTestProgressNotify(ctx, t, s, s.increase)
	},
}

// TestEtcd runs the suites of lists and watches on an etcd of which module etcd reads.
func TestEtcd(t *testing.T) {
	for _, name := range slices.AppendSeq(slices.Clone(etcdSuites), maps.Keys(etcdOwn)) {
		t.Run(name, func(t *testing.T) {
			run := etcdOwn[name]
			if run == nil {
				run = suites[name]
			}
			run(t.Context(), t, newEtcdStore(t, setting{cluster: settings[name].cluster}))
		})
	}
}
