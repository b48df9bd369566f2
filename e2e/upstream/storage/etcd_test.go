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
	"RunTestClusterScopedWatch": func(ctx context.Context, t *testing.T, s *etcdStore) {
		storagetesting.RunTestClusterScopedWatch(ctx, t, s)
	},
	"RunTestConsistentList": func(ctx context.Context, t *testing.T, s *etcdStore) {
		storagetesting.RunTestConsistentList(ctx, t, s, s.increase, false, true, false)
	},
	"RunTestDelayedWatchDelivery": func(ctx context.Context, t *testing.T, s *etcdStore) {
		storagetesting.RunTestDelayedWatchDelivery(ctx, t, s)
	},
	"RunTestDeleteTriggerWatch": func(ctx context.Context, t *testing.T, s *etcdStore) {
		storagetesting.RunTestDeleteTriggerWatch(ctx, t, s)
	},
	"RunTestGetListNonRecursive": func(ctx context.Context, t *testing.T, s *etcdStore) {
		storagetesting.RunTestGetListNonRecursive(ctx, t, s.increase, s)
	},
	"RunTestGetListRecursivePrefix": func(ctx context.Context, t *testing.T, s *etcdStore) {
		storagetesting.RunTestGetListRecursivePrefix(ctx, t, s)
	},
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
	"RunTestListPaging": func(ctx context.Context, t *testing.T, s *etcdStore) {
		storagetesting.RunTestListPaging(ctx, t, s)
	},
	"RunTestNamespaceScopedList": func(ctx context.Context, t *testing.T, s *etcdStore) {
		storagetesting.RunTestNamespaceScopedList(ctx, t, s)
	},
	"RunTestNamespaceScopedWatch": func(ctx context.Context, t *testing.T, s *etcdStore) {
		storagetesting.RunTestNamespaceScopedWatch(ctx, t, s)
	},
	"RunTestWatch": func(ctx context.Context, t *testing.T, s *etcdStore) {
		storagetesting.RunTestWatch(ctx, t, s)
	},
	"RunTestWatchContextCancel": func(ctx context.Context, t *testing.T, s *etcdStore) {
		storagetesting.RunTestWatchContextCancel(ctx, t, s)
	},
	"RunTestWatchDeleteEventObjectHaveLatestRV": func(ctx context.Context, t *testing.T, s *etcdStore) {
		storagetesting.RunTestWatchDeleteEventObjectHaveLatestRV(ctx, t, s)
	},
	"RunTestWatchFromNonZero": func(ctx context.Context, t *testing.T, s *etcdStore) {
		storagetesting.RunTestWatchFromNonZero(ctx, t, s)
	},
	"RunTestWatchFromZero": func(ctx context.Context, t *testing.T, s *etcdStore) {
		storagetesting.RunTestWatchFromZero(ctx, t, s, s.compact)
	},
	"RunTestWatcherTimeout": func(ctx context.Context, t *testing.T, s *etcdStore) {
		storagetesting.RunTestWatcherTimeout(ctx, t, s)
	},
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
