// Package storage_test runs the tests that k8s.io/apiserver has for its stores, with its etcd and
// its watch cache, on what package serve serves, and those of lists and watches on module etcd.
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
	"github.com/go-lw/lw/internal/verify/rig"
)

type suite func(ctx context.Context, t *testing.T, s subject)

// A subject is a store, and what is done to it beside its calls.
type subject interface {
	storage.Interface
	increase(ctx context.Context, t *testing.T) int64
	compact(ctx context.Context, t *testing.T, version string)
}

// plain returns a suite that needs no more than the storage.
func plain(run func(context.Context, *testing.T, storage.Interface)) suite {
	return func(ctx context.Context, t *testing.T, s subject) { run(ctx, t, s) }
}

// suites are the tests that can run over HTTP.
var suites = map[string]suite{
	"RunSendInitialEventsBackwardCompatibility": plain(storagetesting.RunSendInitialEventsBackwardCompatibility),
	"RunTestClusterScopedWatch":                 plain(storagetesting.RunTestClusterScopedWatch),
	"RunTestCompactRevision": func(ctx context.Context, t *testing.T, s subject) {
		storagetesting.RunTestCompactRevision(ctx, t, s, s.increase, s.compact)
	},
	"RunTestConditionalDelete": plain(storagetesting.RunTestConditionalDelete),
	"RunTestConsistentList": func(ctx context.Context, t *testing.T, s subject) {
		storagetesting.RunTestConsistentList(ctx, t, s, s.increase, s.(*store).setting.relays > 0, true, true)
	},
	"RunTestCreate": func(ctx context.Context, t *testing.T, s subject) {
		storagetesting.RunTestCreate(ctx, t, s, noCheck)
	},
	"RunTestCreateWithKeyExist":                  plain(storagetesting.RunTestCreateWithKeyExist),
	"RunTestDelayedWatchDelivery":                plain(storagetesting.RunTestDelayedWatchDelivery),
	"RunTestDeleteTriggerWatch":                  plain(storagetesting.RunTestDeleteTriggerWatch),
	"RunTestDeleteWithConflict":                  plain(storagetesting.RunTestDeleteWithConflict),
	"RunTestDeleteWithSuggestion":                plain(storagetesting.RunTestDeleteWithSuggestion),
	"RunTestDeleteWithSuggestionAndConflict":     plain(storagetesting.RunTestDeleteWithSuggestionAndConflict),
	"RunTestDeleteWithSuggestionOfDeletedObject": plain(storagetesting.RunTestDeleteWithSuggestionOfDeletedObject),
	"RunTestGet": plain(storagetesting.RunTestGet),
	"RunTestGetListNonRecursive": func(ctx context.Context, t *testing.T, s subject) {
		storagetesting.RunTestGetListNonRecursive(ctx, t, s.increase, s)
	},
	"RunTestGetListRecursivePrefix":                    plain(storagetesting.RunTestGetListRecursivePrefix),
	"RunTestGuaranteedUpdateWithSuggestionAndConflict": plain(storagetesting.RunTestGuaranteedUpdateWithSuggestionAndConflict),
	"RunTestList": func(ctx context.Context, t *testing.T, s subject) {
		// The recorder has no requests to etcd, and the test expects none of a server with snapshots.
		storagetesting.RunTestList(ctx, t, s, s.compact, true, storagetesting.NewKubernetesRecorder(nil))
	},
	"RunTestListContinuation": func(ctx context.Context, t *testing.T, s subject) {
		storagetesting.RunTestListContinuation(ctx, t, s, noCalls)
	},
	"RunTestListContinuationWithFilter": func(ctx context.Context, t *testing.T, s subject) {
		storagetesting.RunTestListContinuationWithFilter(ctx, t, s, noCalls)
	},
	"RunTestListInconsistentContinuation": func(ctx context.Context, t *testing.T, s subject) {
		storagetesting.RunTestListInconsistentContinuation(ctx, t, s, s.compact)
	},
	"RunTestListPaginationRareObject": func(ctx context.Context, t *testing.T, s subject) {
		storagetesting.RunTestListPaginationRareObject(ctx, t, s, noCalls)
	},
	"RunTestListPaging":                                       plain(storagetesting.RunTestListPaging),
	"RunTestNamespaceScopedList":                              plain(storagetesting.RunTestNamespaceScopedList),
	"RunTestNamespaceScopedWatch":                             plain(storagetesting.RunTestNamespaceScopedWatch),
	"RunTestOptionalWatchBookmarksWithCorrectResourceVersion": plain(storagetesting.RunTestOptionalWatchBookmarksWithCorrectResourceVersion),
	"RunTestUnconditionalDelete":                              plain(storagetesting.RunTestUnconditionalDelete),
	"RunTestValidateDeletionWithOnlySuggestionValid":          plain(storagetesting.RunTestValidateDeletionWithOnlySuggestionValid),
	"RunTestValidateDeletionWithSuggestion":                   plain(storagetesting.RunTestValidateDeletionWithSuggestion),
	"RunTestWatch":                                            plain(storagetesting.RunTestWatch),
	"RunTestWatchDeleteEventObjectHaveLatestRV":               plain(storagetesting.RunTestWatchDeleteEventObjectHaveLatestRV),
	"RunTestWatchDispatchBookmarkEvents": func(ctx context.Context, t *testing.T, s subject) {
		storagetesting.RunTestWatchDispatchBookmarkEvents(ctx, t, s, true)
	},
	"RunTestWatchFromNonZero": plain(storagetesting.RunTestWatchFromNonZero),
	"RunTestWatchFromZero": func(ctx context.Context, t *testing.T, s subject) {
		storagetesting.RunTestWatchFromZero(ctx, t, s, s.compact)
	},
	"RunTestWatcherTimeout":                 plain(storagetesting.RunTestWatcherTimeout),
	"RunWatchListMatchSingle":               plain(storagetesting.RunWatchListMatchSingle),
	"RunWatchSemanticInitialEventsExtended": plain(storagetesting.RunWatchSemanticInitialEventsExtended),
	"RunWatchSemantics":                     plain(storagetesting.RunWatchSemantics),
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

// leftOutNext are those that came with Kubernetes 1.38, of which a beta was read, and why.
var leftOutNext = map[string]string{
	"RunTestDeleteOnce":                     "calls a method of a store in the same process, and wants errors that name the keys in etcd",
	"RunTestUpdateOnce":                     "likewise",
	"RunTestOptimisticConcurrency":          "counts requests to etcd, and wants values that have a prefix there",
	"RunTestWatchResync":                    "has a cache list anew amid a watch; a relay could do it once a release of 1.38 is what these tests are built with",
	"RunTestWatchWithoutPrevKVReverseError": "about a watch of etcd that leaves out the former values, which no client of a server can ask for",
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
// full, a continue token also if a selector selects nothing more. Package serve looks ahead, so
// that no client gets an empty page.
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

// TestAllSuites: each of the suites is run, or left out for a reason. Those of the next Kubernetes
// may be there or not.
func TestAllSuites(t *testing.T) {
	dir := rig.Must[[]byte](t)(exec.CommandContext(t.Context(), "go", "list", "-f", "{{.Dir}}",
		"k8s.io/apiserver/pkg/storage/testing").Output())
	product := func(f fs.FileInfo) bool { return !strings.HasSuffix(f.Name(), "_test.go") }
	//lint:ignore SA1019 build tags do not matter here
	packages := rig.Must[map[string]*ast.Package](t)(parser.ParseDir(token.NewFileSet(), strings.TrimSpace(string(dir)),
		product, parser.SkipObjectResolution))
	var want []string
	for _, p := range packages {
		for _, file := range p.Files {
			for _, decl := range file.Decls {
				if f, ok := decl.(*ast.FuncDecl); ok && f.Recv == nil && strings.HasPrefix(f.Name.Name, "Run") &&
					!strings.HasPrefix(f.Name.Name, "RunBenchmark") {
					want = append(want, f.Name.Name)
				}
			}
		}
	}
	want = slices.DeleteFunc(want, func(name string) bool { return leftOutNext[name] != "" })
	slices.Sort(want)
	got := slices.AppendSeq(slices.Collect(maps.Keys(suites)), maps.Keys(leftOut))
	slices.Sort(got)
	if diff := cmp.Diff(want, got); diff != "" || len(want) < 50 {
		t.Errorf("suites (-theirs +run or left out):\n%s", diff)
	}
}
