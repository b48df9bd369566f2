package storage_test

import (
	"context"
	"maps"
	"slices"
	"testing"

	storagetesting "k8s.io/apiserver/pkg/storage/testing"
)

// etcdSuites are those of lists and watches, of which every one reads by module etcd.
var etcdSuites = map[string]func(ctx context.Context, t *testing.T, s *etcdStore){
	"RunTestClusterScopedWatch": plain[*etcdStore](storagetesting.RunTestClusterScopedWatch),
	"RunTestConsistentList": func(ctx context.Context, t *testing.T, s *etcdStore) {
		storagetesting.RunTestConsistentList(ctx, t, s, s.increase, false, true, false)
	},
	"RunTestDelayedWatchDelivery": plain[*etcdStore](storagetesting.RunTestDelayedWatchDelivery),
	"RunTestDeleteTriggerWatch":   plain[*etcdStore](storagetesting.RunTestDeleteTriggerWatch),
	"RunTestGetListNonRecursive": func(ctx context.Context, t *testing.T, s *etcdStore) {
		storagetesting.RunTestGetListNonRecursive(ctx, t, s.increase, s)
	},
	"RunTestGetListRecursivePrefix": plain[*etcdStore](storagetesting.RunTestGetListRecursivePrefix),
	"RunTestList": func(ctx context.Context, t *testing.T, s *etcdStore) {
		storagetesting.RunTestList(ctx, t, s, s.compact, false, storagetesting.NewKubernetesRecorder(nil))
	},
	"RunTestListContinuation": func(ctx context.Context, t *testing.T, s *etcdStore) {
		storagetesting.RunTestListContinuation(ctx, t, s, noCalls)
	},
	"RunTestListContinuationWithFilter": func(ctx context.Context, t *testing.T, s *etcdStore) {
		storagetesting.RunTestListContinuationWithFilter(ctx, t, s, noCalls)
	},
	"RunTestListInconsistentContinuation": func(ctx context.Context, t *testing.T, s *etcdStore) {
		storagetesting.RunTestListInconsistentContinuation(ctx, t, s, s.compact)
	},
	"RunTestListPaginationRareObject": func(ctx context.Context, t *testing.T, s *etcdStore) {
		storagetesting.RunTestListPaginationRareObject(ctx, t, s, noCalls)
	},
	"RunTestListPaging":                         plain[*etcdStore](storagetesting.RunTestListPaging),
	"RunTestNamespaceScopedList":                plain[*etcdStore](storagetesting.RunTestNamespaceScopedList),
	"RunTestNamespaceScopedWatch":               plain[*etcdStore](storagetesting.RunTestNamespaceScopedWatch),
	"RunTestWatch":                              plain[*etcdStore](storagetesting.RunTestWatch),
	"RunTestWatchContextCancel":                 plain[*etcdStore](storagetesting.RunTestWatchContextCancel),
	"RunTestWatchDeleteEventObjectHaveLatestRV": plain[*etcdStore](storagetesting.RunTestWatchDeleteEventObjectHaveLatestRV),
	"RunTestWatchFromNonZero":                   plain[*etcdStore](storagetesting.RunTestWatchFromNonZero),
	"RunTestWatchFromZero": func(ctx context.Context, t *testing.T, s *etcdStore) {
		storagetesting.RunTestWatchFromZero(ctx, t, s, s.compact)
	},
	"RunTestWatcherTimeout": plain[*etcdStore](storagetesting.RunTestWatcherTimeout),
	"RunOptionalTestProgressNotify": func(ctx context.Context, t *testing.T, s *etcdStore) {
		storagetesting.RunOptionalTestProgressNotify(ctx, t, s, s.increase)
	},
}

// TestEtcd runs the suites of lists and watches on an etcd of which module etcd reads.
func TestEtcd(t *testing.T) {
	for _, name := range slices.Sorted(maps.Keys(etcdSuites)) {
		t.Run(name, func(t *testing.T) {
			s := setting{cluster: settings[name].cluster}
			etcdSuites[name](t.Context(), t, newEtcdStore(t, s))
		})
	}
}
