// Package storage_test runs the tests that k8s.io/apiserver has for its stores, with its etcd and its
// watch cache, on what package serve serves, and those of lists and watches on module etcd.
package storage_test

import (
	"context"
	"flag"
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"maps"
	"os"
	"os/exec"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"k8s.io/apiserver/pkg/storage"
	storagetesting "k8s.io/apiserver/pkg/storage/testing"

	"github.com/go-lw/lw/internal/history"
	"github.com/go-lw/lw/internal/rig"
)

type suite func(ctx context.Context, t *testing.T, s *store)

// plain returns a suite that needs no more than the storage.
func plain[S storage.Interface](run func(context.Context, *testing.T, storage.Interface)) func(context.Context, *testing.T, S) {
	return func(ctx context.Context, t *testing.T, s S) { run(ctx, t, s) }
}

// suites are the tests that can run over HTTP.
var suites = map[string]suite{
	"RunSendInitialEventsBackwardCompatibility": plain[*store](storagetesting.RunSendInitialEventsBackwardCompatibility),
	"RunTestClusterScopedWatch":                 plain[*store](storagetesting.RunTestClusterScopedWatch),
	"RunTestCompactRevision": func(ctx context.Context, t *testing.T, s *store) {
		storagetesting.RunTestCompactRevision(ctx, t, s, s.increase, s.compact)
	},
	"RunTestConditionalDelete": plain[*store](storagetesting.RunTestConditionalDelete),
	"RunTestConsistentList": func(ctx context.Context, t *testing.T, s *store) {
		storagetesting.RunTestConsistentList(ctx, t, s, s.increase, s.setting.relays > 0, true, true)
	},
	"RunTestCreate": func(ctx context.Context, t *testing.T, s *store) {
		storagetesting.RunTestCreate(ctx, t, s, noCheck)
	},
	"RunTestCreateWithKeyExist":                  plain[*store](storagetesting.RunTestCreateWithKeyExist),
	"RunTestDelayedWatchDelivery":                plain[*store](storagetesting.RunTestDelayedWatchDelivery),
	"RunTestDeleteTriggerWatch":                  plain[*store](storagetesting.RunTestDeleteTriggerWatch),
	"RunTestDeleteWithConflict":                  plain[*store](storagetesting.RunTestDeleteWithConflict),
	"RunTestDeleteWithSuggestion":                plain[*store](storagetesting.RunTestDeleteWithSuggestion),
	"RunTestDeleteWithSuggestionAndConflict":     plain[*store](storagetesting.RunTestDeleteWithSuggestionAndConflict),
	"RunTestDeleteWithSuggestionOfDeletedObject": plain[*store](storagetesting.RunTestDeleteWithSuggestionOfDeletedObject),
	"RunTestGet": plain[*store](storagetesting.RunTestGet),
	"RunTestGetListNonRecursive": func(ctx context.Context, t *testing.T, s *store) {
		storagetesting.RunTestGetListNonRecursive(ctx, t, s.increase, s)
	},
	"RunTestGetListRecursivePrefix":                    plain[*store](storagetesting.RunTestGetListRecursivePrefix),
	"RunTestGuaranteedUpdateWithSuggestionAndConflict": plain[*store](storagetesting.RunTestGuaranteedUpdateWithSuggestionAndConflict),
	"RunTestList": func(ctx context.Context, t *testing.T, s *store) {
		// The recorder has no requests to etcd, and the test expects none of a server with snapshots.
		storagetesting.RunTestList(ctx, t, s, s.compact, true, storagetesting.NewKubernetesRecorder(nil))
	},
	"RunTestListContinuation": func(ctx context.Context, t *testing.T, s *store) {
		storagetesting.RunTestListContinuation(ctx, t, s, noCalls)
	},
	"RunTestListContinuationWithFilter": func(ctx context.Context, t *testing.T, s *store) {
		storagetesting.RunTestListContinuationWithFilter(ctx, t, s, noCalls)
	},
	"RunTestListInconsistentContinuation": func(ctx context.Context, t *testing.T, s *store) {
		storagetesting.RunTestListInconsistentContinuation(ctx, t, s, s.compact)
	},
	"RunTestListPaginationRareObject": func(ctx context.Context, t *testing.T, s *store) {
		storagetesting.RunTestListPaginationRareObject(ctx, t, s, noCalls)
	},
	"RunTestListPaging":                                       plain[*store](storagetesting.RunTestListPaging),
	"RunTestNamespaceScopedList":                              plain[*store](storagetesting.RunTestNamespaceScopedList),
	"RunTestNamespaceScopedWatch":                             plain[*store](storagetesting.RunTestNamespaceScopedWatch),
	"RunTestOptionalWatchBookmarksWithCorrectResourceVersion": plain[*store](storagetesting.RunTestOptionalWatchBookmarksWithCorrectResourceVersion),
	"RunTestUnconditionalDelete":                              plain[*store](storagetesting.RunTestUnconditionalDelete),
	"RunTestValidateDeletionWithOnlySuggestionValid":          plain[*store](storagetesting.RunTestValidateDeletionWithOnlySuggestionValid),
	"RunTestValidateDeletionWithSuggestion":                   plain[*store](storagetesting.RunTestValidateDeletionWithSuggestion),
	"RunTestWatch":                                            plain[*store](storagetesting.RunTestWatch),
	"RunTestWatchDeleteEventObjectHaveLatestRV":               plain[*store](storagetesting.RunTestWatchDeleteEventObjectHaveLatestRV),
	"RunTestWatchDispatchBookmarkEvents": func(ctx context.Context, t *testing.T, s *store) {
		storagetesting.RunTestWatchDispatchBookmarkEvents(ctx, t, s, true)
	},
	"RunTestWatchFromNonZero": plain[*store](storagetesting.RunTestWatchFromNonZero),
	"RunTestWatchFromZero": func(ctx context.Context, t *testing.T, s *store) {
		storagetesting.RunTestWatchFromZero(ctx, t, s, s.compact)
	},
	"RunTestWatcherTimeout":                 plain[*store](storagetesting.RunTestWatcherTimeout),
	"RunWatchListMatchSingle":               plain[*store](storagetesting.RunWatchListMatchSingle),
	"RunWatchSemanticInitialEventsExtended": plain[*store](storagetesting.RunWatchSemanticInitialEventsExtended),
	"RunWatchSemantics":                     plain[*store](storagetesting.RunWatchSemantics),
}

// leftOut are the others, and why.
var leftOut = map[string]string{
	"RunTestCreateWithTTL":                                                "objects that end by themselves: no API server has them but for events, and serve has none",
	"RunTestGuaranteedUpdateWithTTL":                                      "likewise",
	"RunTestPreconditionalDeleteWithSuggestion":                           "gives an object another UID by an update, which a server refuses",
	"RunTestPreconditionalDeleteWithOnlySuggestionPass":                   "likewise",
	"RunTestGuaranteedUpdateWithConflict":                                 "gives an object another name by an update, which a server refuses",
	"RunTestGuaranteedUpdate":                                             "wants a store whose values have a prefix in etcd that can be changed",
	"RunTestGuaranteedUpdateChecksStoredData":                             "likewise",
	"RunTestListResourceVersionMatch":                                     "likewise",
	"RunTestTransformationFailure":                                        "likewise",
	"RunTestWatchError":                                                   "likewise",
	"RunWatchErrorIsBlockingFurtherEvents":                                "likewise",
	"RunTestDeleteWithConflictAndMissingExpectedTransformOrDecodeError":   "corrupts what is stored in etcd",
	"RunTestDeleteExpectedTransformOrDecodeError":                         "likewise",
	"RunTestDeleteWithSuggestionAndMissingExpectedTransformOrDecodeError": "likewise",
	"RunTestGetListWithErrorAggregation":                                  "likewise",
	"RunTestGetListWithoutErrorAggregation":                               "likewise",
	"RunTestWatchWithUnsafeDelete":                                        "likewise",
	"RunTestStats":                                                        "about the sizes of the keys in etcd",
	"RunTestKeySchema":                                                    "about the keys in etcd",
	"RunTestWatchContextCancel":                                           "calls Watch with a context that is done: the client's own error is returned, and no request is made",
	"RunTestWatchInitializationSignal":                                    "about a value in the context of a call in the same process",
	"RunOptionalTestProgressNotify":                                       "about etcd's progress notifications, for which no client of a server can ask",
}

// settings are those of suites that need one.
var settings = map[string]setting{
	"RunTestClusterScopedWatch":           {cluster: true},
	"RunTestListPaginationRareObject":     {cluster: true},
	"RunTestListInconsistentContinuation": {newest: true},
	"RunTestList":                         {history: 7}, // from the version on at which it compacts

	"RunTestWatchDispatchBookmarkEvents":                      {bookmarks: time.Second / 4},
	"RunTestOptionalWatchBookmarksWithCorrectResourceVersion": {bookmarks: time.Second / 4},
}

// differences are parts of suites that expect what package serve does not do: after a page that is
// full, a continue token also if a selector selects nothing more. Package serve looks ahead, so that
// no client gets an empty page.
const differences = "^TestStorage$/^RunTestList$/relays/" +
	"^test_List_with_filter_returning_(only_one_item,_ensure_only_a_single_page_returned|two_items,_more_pages_possible)" +
	"(_with_current_resource_version_and_match=NotOlderThan)?$"

func TestMain(m *testing.M) {
	history.FromOne = true // some tests name versions
	flag.Parse()
	if skip := flag.Lookup("test.skip"); skip.Value.String() == "" {
		if err := skip.Value.Set(differences); err != nil {
			panic(err)
		}
	}
	os.Exit(m.Run())
}

func noCheck(context.Context, *testing.T, string) {}
func noCalls(*testing.T, uint64, uint64)          {}

// TestStorage runs each suite on a Memory, and on a relay of a relay of one.
func TestStorage(t *testing.T) {
	for _, name := range slices.Sorted(maps.Keys(suites)) {
		for _, relays := range []int{0, 2} {
			t.Run(fmt.Sprintf("%s/%d relays", name, relays), func(t *testing.T) {
				s := settings[name]
				s.relays = relays
				suites[name](t.Context(), t, newStore(t, s))
			})
		}
	}
}

// TestAllSuites: each of the suites is run, or left out for a reason.
func TestAllSuites(t *testing.T) {
	dir := rig.Must[[]byte](t)(exec.CommandContext(t.Context(), "go", "list", "-f", "{{.Dir}}", "k8s.io/apiserver/pkg/storage/testing").Output())
	product := func(f fs.FileInfo) bool { return !strings.HasSuffix(f.Name(), "_test.go") }
	//lint:ignore SA1019 build tags do not matter here
	packages := rig.Must[map[string]*ast.Package](t)(parser.ParseDir(token.NewFileSet(), strings.TrimSpace(string(dir)), product, parser.SkipObjectResolution))
	var want []string
	for _, p := range packages {
		for _, file := range p.Files {
			for _, decl := range file.Decls {
				if f, ok := decl.(*ast.FuncDecl); ok && f.Recv == nil && strings.HasPrefix(f.Name.Name, "Run") && !strings.HasPrefix(f.Name.Name, "RunBenchmark") {
					want = append(want, f.Name.Name)
				}
			}
		}
	}
	slices.Sort(want)
	got := slices.AppendSeq(slices.Collect(maps.Keys(suites)), maps.Keys(leftOut))
	slices.Sort(got)
	if diff := cmp.Diff(want, got); diff != "" || len(want) < 50 {
		t.Errorf("suites (-theirs +run or left out):\n%s", diff)
	}
}
