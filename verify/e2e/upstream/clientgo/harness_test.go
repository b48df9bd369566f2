package clientgo

import (
	"cmp"
	"crypto/sha256"
	"flag"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"testing"
	"time"

	"github.com/go-lw/lw/internal/verify/rig"
	"github.com/go-lw/lw/verify/e2e/internal/servers"
)

var (
	nightly = flag.Bool("nightly", false, "also run what is too slow for every push")
	keep    = flag.String("keep", "", "make the workspaces in this directory, and keep them")
)

// workspaceFor makes the workspace of a test. All tests of a checkout have it in the same directory,
// one after the other: what is compiled there depends on the directory.
func workspaceFor(t *testing.T, clientGo, target module) *workspace {
	t.Helper()
	checkout := rig.Must[string](t)(filepath.Abs("../../../.."))
	cache := rig.Must[string](t)(os.UserCacheDir())
	own := filepath.Join(cache, "lw-e2e", fmt.Sprintf("upstream-%x", sha256.Sum256([]byte(checkout)))[:30])
	rig.OK(t, os.MkdirAll(own, 0o755))
	t.Cleanup(rig.Must[func()](t)(servers.Lock(t.Context(), own)))
	dir := filepath.Join(own, "workspace")
	if *keep != "" {
		dir = filepath.Join(*keep, t.Name())
	} else {
		t.Cleanup(func() { rig.OK(t, os.RemoveAll(dir)) })
	}
	rig.OK(t, os.RemoveAll(dir))
	rig.OK(t, os.MkdirAll(dir, 0o755))
	return rig.Must[*workspace](t)(newWorkspace(t.Context(), dir, checkout, clientGo, target, raceEnabled))
}

// runSuites runs each suite as a subtest.
func runSuites(t *testing.T, w *workspace, suites []suite) {
	t.Helper()
	for _, s := range suites {
		t.Run(s.pkg, func(t *testing.T) { runSuite(t, w, s) })
	}
}

// runSuite builds and runs the suite: with client-go's informers all tests pass, with lw's all but
// the excluded ones, and with broken ones those of sees fail.
func runSuite(t *testing.T, w *workspace, s suite) {
	start := time.Now()
	b := rig.Must[*binary](t)(w.build(t.Context(), s.pkg))
	t.Logf("built in %v", time.Since(start).Round(time.Second))
	if s.timeout == 0 {
		s.timeout = 5 * time.Minute
	}
	tests := rig.Must[[]string](t)(b.list(t.Context()))
	if s.tests != nil {
		if names := missing(s.tests, tests); len(names) > 0 {
			t.Fatalf("%s has no test of the name %q", s.pkg, names)
		}
		tests = s.tests
	}
	t.Run(ofClientGo, func(t *testing.T) {
		res := expectPass(t, s, b, ofClientGo, tests, nil)
		if names := missing(slices.Collect(maps.Keys(s.excluded)), res.ended()); len(names) > 0 {
			t.Errorf("%s has no test of the name %q to exclude", s.pkg, names)
		}
	})
	t.Run(ofLW, func(t *testing.T) { expectPass(t, s, b, ofLW, tests, s.excluded) })
	for kind, name := range s.sees {
		t.Run(kind, func(t *testing.T) { expectFailure(t, s, b, kind, name) })
	}
}

// expectPass runs the tests with the informers. All that are not excluded must pass.
func expectPass(t *testing.T, s suite, b *binary, informers string, tests []string,
	excluded map[string]string) *result {
	skip := slices.Sorted(maps.Keys(excluded))
	res := rig.Must[*result](t)(b.run(t.Context(), informers, tests, skip, s.timeout))
	for _, problem := range s.problems(res, tests, excluded) {
		t.Error(problem)
	}
	t.Logf("%s with informers of %s: %d of %d tests pass (with their subtests %d; %d skipped; %d informers; %v)",
		s.pkg, informers,
		len(topLevel(res.passed)), len(tests), len(res.passed), len(res.skipped), res.informers,
		res.took.Round(100*time.Millisecond))
	for _, name := range skip {
		t.Logf("excluded: %s: %s", name, excluded[name])
	}
	return res
}

// expectFailure runs the test with broken informers. It must fail; or, if it is "", some test must.
func expectFailure(t *testing.T, s suite, b *binary, kind, name string) {
	var run []string
	if name != "" {
		run = append(run, name)
	} else {
		s.timeout = min(s.timeout, time.Minute) // some tests of the package wait for ever then
	}
	res := rig.Must[*result](t)(b.run(t.Context(), kind, run, nil, s.timeout))
	if name == "" && len(res.failed) == 0 || name != "" && !slices.Contains(res.failed, name) {
		t.Errorf("%s passes with %s informers", cmp.Or(name, s.pkg), kind)
	}
	t.Logf("%s informers: these fail: %q", kind, res.failed)
}
