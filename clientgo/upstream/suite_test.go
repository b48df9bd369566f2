package upstream

import (
	"context"
	"flag"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"
)

var (
	nightly   = flag.Bool("nightly", false, "also run what is too slow for every push")
	keep      = flag.String("keep", "", "make the workspaces in this directory, and keep them")
	baselines = flag.Bool("baselines", true, "also run every suite with client-go's informers")
)

// A suite is the tests of one of upstream's packages.
type suite struct {
	pkg string
	// tests are the names of the tests to run; nil: all. A test of another name may come and go with
	// upstream's next version; one of these may not.
	tests []string
	// excluded are tests and subtests that are not run with lw's informers, and why.
	excluded map[string]string
	// skipped are tests and subtests that skip themselves, and why.
	skipped map[string]string
	// sees are tests that must fail with broken informers, by their kind.
	sees map[string]string
	// noInformers says that tests of this suite make none.
	timeout time.Duration // of one run; 0: two minutes
}

// checkout is the directory of lw.
func checkout(t *testing.T) string {
	dir, err := filepath.Abs("../..")
	if err != nil {
		t.Fatal(err)
	}
	return dir
}

// workspaceFor makes the workspace of a test.
func workspaceFor(t *testing.T, clientGo, target module) *workspace {
	dir := t.TempDir()
	if *keep != "" {
		dir = filepath.Join(*keep, t.Name())
		if err := os.RemoveAll(dir); err != nil {
			t.Fatal(err)
		}
		if err := os.MkdirAll(dir, 0o755); err != nil {
			t.Fatal(err)
		}
	}
	w, err := newWorkspace(t.Context(), dir, checkout(t), clientGo, target, raceEnabled)
	if err != nil {
		t.Fatal(err)
	}
	return w
}

// runSuites builds the suites in one go, and runs each as a subtest.
func runSuites(t *testing.T, w *workspace, suites []suite) {
	var packages []string
	for _, s := range suites {
		packages = append(packages, s.pkg)
	}
	start := time.Now()
	binaries, err := w.build(t.Context(), packages...)
	if err != nil {
		t.Fatal(err)
	}
	t.Logf("built %d packages in %v", len(packages), time.Since(start).Round(time.Second))
	for i, s := range suites {
		t.Run(s.pkg, func(t *testing.T) { s.run(t, binaries[i]) })
	}
}

// run runs the suite: with client-go's informers all tests pass, with lw's all but the excluded
// ones, and with broken ones those of sees fail.
func (s suite) run(t *testing.T, b *binary) {
	if s.timeout == 0 {
		s.timeout = 2 * time.Minute
	}
	all, err := b.list(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	if s.tests != nil {
		for _, name := range s.tests {
			if !slices.Contains(all, name) {
				t.Errorf("%s has no %s", s.pkg, name)
			}
		}
		all = s.tests
	}
	if *baselines {
		t.Run(ofClientGo, func(t *testing.T) {
			s.expect(t, b, ofClientGo, all, nil)
		})
	}
	t.Run(ofLW, func(t *testing.T) {
		s.expect(t, b, ofLW, all, s.excluded)
	})
	for kind, test := range s.sees {
		t.Run(kind, func(t *testing.T) {
			ctx, cancel := context.WithTimeout(t.Context(), s.timeout)
			defer cancel()
			res, err := b.run(ctx, kind, []string{test}, nil, s.timeout)
			if err != nil {
				t.Fatal(err)
			}
			if !slices.Contains(res.failed, test) {
				t.Errorf("%s does not fail with %s informers: passed %v, failed %v", test, kind, res.passed, res.failed)
			}
		})
	}
}

// expect runs the tests with the informers, and checks that all but the excluded ones pass.
func (s suite) expect(t *testing.T, b *binary, informers string, tests []string, excluded map[string]string) {
	var skip []string
	for name := range excluded {
		if top, _, _ := strings.Cut(name, "/"); !slices.Contains(tests, top) {
			t.Errorf("%s has no %s to exclude", s.pkg, name)
		}
		skip = append(skip, name)
	}
	slices.Sort(skip)
	res, err := b.run(t.Context(), informers, tests, skip, s.timeout)
	if err != nil {
		t.Fatal(err)
	}
	for _, name := range res.failed {
		t.Errorf("%s fails with the informers of %s:\n%s", name, informers, res.output[name])
	}
	for _, name := range res.skipped {
		if s.skipped[name] == "" {
			t.Errorf("%s was skipped: %s", name, res.output[name])
		}
	}
	for name := range s.skipped {
		if !slices.Contains(res.skipped, name) {
			t.Errorf("%s was not skipped", name)
		}
	}
	ran := slices.Concat(res.passed, res.failed, res.skipped)
	want := 0
	for _, name := range tests {
		if excluded[name] != "" {
			continue
		}
		want++
		if !slices.Contains(ran, name) {
			t.Errorf("%s has not run", name)
		}
	}
	if res.informers == 0 {
		t.Errorf("the tests have made no informer")
	}
	passed := topLevel(res.passed)
	t.Logf("%d of %d tests of %s passed with the informers of %s (%d with subtests; %d excluded, %d skipped; %d informers) in %v",
		len(passed), len(tests), s.pkg, informers, len(res.passed), len(tests)-want, len(res.skipped), res.informers, res.took.Round(time.Second))
	for _, name := range skip {
		t.Logf("excluded: %s: %s", name, excluded[name])
	}
}
