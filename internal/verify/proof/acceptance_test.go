package proof

import (
	"go/ast"
	"go/parser"
	"go/token"
	"path/filepath"
	"strings"
	"testing"
)

// acceptance says which test of lw stands for a test of client-go's suite (tools/cache and its
// neighbours, v0.37.2), or for a case that its suite lacks. After a colon: where the behaviour
// differs, and why it is the same or better.
var acceptance = map[string]string{
	// A reflector's life.
	"reflector TestCloseWatchChannelOnError":  "TestListWatchStopsTheWatch",
	"reflector TestRunUntil":                  "TestStopIsPromptAndComplete",
	"reflector TestReflectorWatchStopBefore":  "TestRunCancelledBefore",
	"reflector TestReflectorWatchStopAfter":   "TestStopIsPromptAndComplete",
	"reflector TestReflectorWatchHandler":     "TestWatches",
	"reflector TestReflectorListAndWatch":     "TestStreams: a list is asked for at no version, which is a consistent read, and not at \"0\"",
	"reflector …ListAndWatchWithErrors":       "TestRelistTellsWhatWasMissed",
	"reflector …ListAndWatchInitConnBackoff":  "TestWatches",
	"reflector …WithCustomBackoff":            "TestCustomBackoff",
	"reflector TestBackoffOnTooManyRequests":  "TestRetryAfter",
	"reflector TestNoRelistOnTooManyRequests": "TestWatches",
	"reflector TestRetryInternalError":        "TestWatches: an internal error is always retried from where the watch stood; the fifth in a row lists",
	"reflector TestReflectorResync":           "TestResyncPeriods: resync is a handler's, and fails nobody's watch",
	"reflector TestReflectorWatchListPage":    "TestLists",
	"reflector …NotPaginatingNotConsistent":   "TestLists: every list is a consistent read in pages, so that there is one way less",
	"reflector …PaginatingNonConsistentReads": "TestLists: the same",
	"reflector …ResyncWithResourceVersion":    "TestRelistTellsWhatWasMissed: a relist reads consistently, and refuses what is older (TestNeverBack)",
	"reflector …ExpiredExactResourceVersion":  "TestWatches: no list asks for a version, so that none can have expired",
	"reflector TestReflectorFullListIfExpire": "TestLists: the pages are begun anew once before the whole list is asked for",
	"reflector TestReflectorFullListIfTooLar": "TestWatches",
	"reflector TestWatchTimeout":              "TestWatchTimeout: shorter ones are taken as well",
	"reflector …ResourceVersionUpdate":        "TestWatches",
	"reflector TestReflectorListExtract":      "TestItemsDoNotPinTheirPage",
	"reflector …ReplacesStoreOnUnsafeDelete":  "TestWatches",
	"reflector TestReflectorRespectStoreTran": "TestTransformExactlyOnce: once, and not twice",
	"reflector TestIsUnsupportedTableObject":  "TestListTypes",

	// Streamed lists.
	"watchlist TestNewReflectorWithDisable…":  "TestFromFakeClient",
	"watchlist TestWatchListResourceVersion":  "TestStreams",
	"watchlist TestWatchList":                 "TestStreams",
	"watchlist, stopped after the sync":       "TestStreams",
	"listwatch TestToListWatcherWithWatchLi…": "TestFromFakeClient",
	"util TestPrepareWatchListOptionsFromLi…": "TestStreams",

	// Waits and names.
	"wait TestWaitFor":                "TestWaitForSyncOfMany",
	"wait TestSyncResult":             "TestSyncTellsTheTruth",
	"object-names TestObjectNames":    "TestNameDefault: keys are structs, and nothing parses them",
	"event_handler_name TestNameFor…": "TestOnPanic: a handler has the name that its Handler says",

	// The queue.
	"fifo basic":                  "TestNextReturnsAllInOrder",
	"fifo replaceWithDeleteDelta": "TestSink",
	"fifo ReplaceMakesDeletions":  "TestSink: a deletion carries the last object, and is no tombstone",
	"fifo addUpdate":              "TestSink",
	"fifo transformer":            "TestTransformExactlyOnce",
	"fifo enqueueing":             "TestSink: a deletion of what was never told is nothing",
	"fifo addReplace":             "TestSink",
	"fifo Resync":                 "TestResyncTellsWhatIsThere",
	"fifo DeleteExisting":         "TestSink",
	"fifo UpdateResyncRace":       "TestProof",
	"fifo HasSynced":              "TestHandlerLifetimes",
	"fifo detectLineJumpers":      "TestNextReturnsAllInOrder",
	"fifo PopShouldUnblock":       "TestClose",
	"fifo PopMultipleDelta":       "TestNextReturnsAllInOrder",
	"fifo ReplaceAtomic":          "TestSinkModel",

	// Processing.
	"controller Example":                   "ExampleNewInformer",
	"controller TestHammerController":      "TestStress",
	"controller TestUpdate":                "TestOneStoryPerObject",
	"controller TestTransformingInformer":  "TestTransformProjects",
	"controller …TransformingInformerRace": "TestTransformExactlyOnce",
	"controller TestDeletionHandlingObje…": "TestNoTombstones: there is nothing to unwrap",
	"controller TestDeletedObjectGet…":     "TestNoTombstones: the same",
	"controller TestReplaceEvents":         "TestRelistTellsWhatWasMissed",
	"controller TestResetWatch":            "TestRelistTellsWhatWasMissed",
	"controller TestStoreResourceVersion":  "TestWatches",
	"controller …WithNonMetaTransform":     "TestTransformStripsVersions: the version is the collection's, whatever the objects say",

	// The shared informer.
	"shared TestIndexer":                     "TestIndexOfAnInformer",
	"shared TestListenerResyncPeriods":       "TestResyncPeriods",
	"shared TestSharedInformerInitiali…":     "TestAddHandlerWhileStarting",
	"shared TestSharedInformerWatchDisr…":    "TestRelistTellsWhatWasMissed",
	"shared TestSharedInformerErrorHandling": "TestNothingIsSwallowed",
	"shared TestSharedInformerStartRace":     "TestAddHandlerWhileStarting: there is no setter to race with",
	"shared TestSharedInformerTransformer":   "TestTransformProjects",
	"shared TestSharedInformerRemoveHandler": "TestHandlerLifetimes",
	"shared …RemoveForeignHandler":           "TestTwoRegistrationsOfOneHandler: a registration removes itself, so none is foreign",
	"shared …MultipleRegistration":           "TestTwoRegistrationsOfOneHandler",
	"shared TestRemovingRemoved…":            "TestHandlerLifetimes",
	"shared TestSharedInformerHandlerAbuse":  "TestHandlerAbuse",
	"shared TestStateSharedInformer":         "TestStatusOfEachPhase",
	"shared TestAddOnStopped…":               "TestAfterTheStop",
	"shared TestRemoveOnStopped…":            "TestAfterTheStop",
	"shared TestRemoveWhileActive":           "TestHandlerLifetimes",
	"shared TestAddWhileActive":              "TestLateHandlers",
	"shared TestShutdown":                    "TestStopIsPromptAndComplete",
	"shared TestEventPanics":                 "TestOnPanic: the next call comes at once, and the sync is not lost",
	"shared …AsynchronousPanic":              "TestRemoveWhileACallRuns",
	"shared …SynchronousShutdown":            "TestRemoveWhileACallRuns",
	"shared TestShutDownEventHandler…":       "TestHandlerLifetimes",

	// Stores and indexes.
	"store TestCache":                       "TestIndexer",
	"store TestIndex":                       "TestIndexer",
	"index TestGetIndexFuncValues":          "TestMultiIndex",
	"index TestMultiIndexKeys":              "TestMultiIndex",
	"thread_safe_store …RemovesEmptySets":   "TestIndexerKeepsNothing",
	"thread_safe_store …KeepsNonEmptySet":   "TestModel",
	"thread_safe_store …WithMultipleValues": "TestMultiIndex",
	"thread_safe_store TestThreadSafeStor…": "TestIndexerIsASink",
	"listers TestListAll":                   "TestModel",

	// The typed façade.
	"typed TestTypedResourceEventHandlerFuncs": "TestHandlerWithoutSomeFunctions",
	"typed TestTypedResourceEventHandlerDe…":   "TestEvents: a handler's Synced and Event.Initial say what is of the first list",
	"typed TestTypedFilteringResourceEvent…":   "TestFilterMatrix",
	"typed TestTypedResourceEventHandlerAd…":   "TestNoTombstones",
	"typed TestTypedIndexer":                   "TestIndexer: an index is a value, so that none is unknown",

	// Overlays, tracking of sync, fakes, neighbours.
	"mutation_cache TestMutationCache…":  "TestReadYourWrites: instead of an overlay, a wait until the store shows the write",
	"mutation_detector TestMutationDet…": "TestDetectMutation: it reports a diff, and does not panic",
	"synctrack TestBasicLogic":           "TestHandlerLifetimes",
	"synctrack TestSingleFile…":          "TestPending",
	"testing TestRCNumber":               "TestMemoryWatch",
	"testing TestResetWatch":             "TestMemoryExpired",
	"main goleak":                        "TestMain: and every bubble checks its own",
	"tools/watch TestNewInformerWatcher": "TestEvents",
	"tools/watch TestRetryWatcher":       "TestWatches",
	"tools/watch TestUntilWithSync":      "TestEvents",
	"tools/pager TestListPager_…":        "TestLists",
	"dynamicinformer TestWatchListSema…": "TestFromFakeClient",

	// Cases that upstream lacks.
	"remove own handler during shutdown":             "TestCallbackStopsTheInformer",
	"stream cut before its end: backoff, fall back":  "TestStreams",
	"410 loop bounded":                               "TestBoundedRetries",
	"cancel during a stream's backoff":               "TestStreams",
	"backoff monotone in a long outage":              "TestBoundedRetries",
	"one backoff for all kinds of requests":          "TestWatches",
	"transform exactly once":                         "TestTransformExactlyOnce",
	"transform error does not lose the event":        "TestNothingIsSwallowed",
	"one bad object does not lose a snapshot":        "TestBadInput: the sync is reported, and SetAside names what is missing",
	"wrong list item type rejected":                  "TestListTypes",
	"version-stripping transform keeps updates":      "TestTransformStripsVersions",
	"unchanged objects on relist: no update":         "TestNoNoise",
	"every watch failure reaches the hook":           "TestNothingIsSwallowed",
	"drain or drop on remove and stop":               "TestRemoveWhileACallRuns: what waits is dropped; the call that runs is let finish",
	"bounded handler queue":                          "TestBlockedCursorCostsObjects",
	"writer independent of readers":                  "TestReadersDoNotWait",
	"late handler does not stall the pipeline":       "TestNobodyWaitsForASlowHandler",
	"index panic leaves store and index consistent":  "TestOnPanicInIndex",
	"store version monotone":                         "TestNeverBack",
	"duplicate keys in a list":                       "TestBadInput",
	"new UID is delete and add":                      "TestIdentityIsTheUID",
	"handler panic does not block sync":              "TestOnPanic",
	"nil handler rejected":                           "TestHandlerWithoutFunctions",
	"nil sources, sinks and functions rejected":      "TestConstructorsRefuseNil",
	"fake watchers sync at once and lose no event":   "TestFakeWatchers",
	"nil objects and nameless ones are set aside":    "TestBadInitialEvents",
	"pauses grow where only streams are allowed":     "TestStreams",
	"a loop over events ends when the informer does": "TestEventsEnd",
}

// leftOut are upstream's features that lw has not, with what a user does instead.
var leftOut = map[string]string{
	"synctrack AsyncTracker, Lazy":    "a Registration's WaitForSync says when a handler was told all; work that goes on is its queue's",
	"informer factories":              "an informer is one call, and whoever needs it is given it",
	"expiration cache, heap, undelta": "no part of keeping a collection in step",
}

// A name that stands in the table without a test would be a promise that nobody keeps.
func TestAcceptanceTable(t *testing.T) {
	tests := map[string]bool{}
	for _, pattern := range []string{"../../../*_test.go", "../../../verify/*/*_test.go", "../../*/*_test.go",
		"../*/*_test.go"} {
		files, err := filepath.Glob(pattern)
		if err != nil || len(files) == 0 {
			t.Fatalf("%s: %v", pattern, err)
		}
		for _, name := range files {
			file, err := parser.ParseFile(token.NewFileSet(), name, nil, parser.SkipObjectResolution)
			if err != nil {
				t.Fatal(err)
			}
			for _, decl := range file.Decls {
				if f, ok := decl.(*ast.FuncDecl); ok && f.Recv == nil {
					tests[f.Name.Name] = true
				}
			}
		}
	}
	for theirs, ours := range acceptance {
		if name, _, _ := strings.Cut(ours, ":"); !tests[name] {
			t.Errorf("%s: there is no %s", theirs, name)
		}
	}
	for what, instead := range leftOut {
		if instead == "" {
			t.Errorf("%s is left out without a word", what)
		}
	}
}
