package controllerruntime

import (
	"bytes"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

// The other packages of controller-runtime whose suites make caches, mostly by managers. That of
// source makes none.
var otherPackages = []string{"cluster", "controller", "builder", "manager", "client"}

// The suites of other packages pass on lw's caches as they do on controller-runtime's: the same
// number of specs, none left out.
func TestOtherSuites(t *testing.T) {
	if !*others {
		t.Skip("run by .ci/nightly, with -others")
	}
	servers(t)
	for _, pkg := range otherPackages {
		t.Run(pkg, func(t *testing.T) {
			passed := map[int]bool{}
			for _, on := range []string{"cache.New", "NewCache", "NewCache with TellWrites"} {
				r := runOther(t, pkg, on)
				t.Logf("%d specs pass on %d caches of %s", r.passed, r.caches, on)
				// The authors of a spec say that it is pending. It is so on every cache.
				r.failed = slices.DeleteFunc(r.failed, func(f failure) bool { return f.state == "pending" })
				if r.err != nil || len(r.failed) > 0 || r.passed == 0 || r.caches == 0 {
					t.Errorf("%v: %v\n%s", r.err, r.failed, r.output)
				}
				passed[r.passed] = true
			}
			if len(passed) > 1 {
				t.Errorf("not the same specs: %v", passed)
			}
		})
	}
}

// runOther runs the tests of a package. on is the function that makes its caches.
func runOther(t *testing.T, pkg, on string) result {
	t.Helper()
	dir := t.TempDir()
	report, witness := filepath.Join(dir, "report.json"), filepath.Join(dir, "caches")
	write(t, witness, nil)
	cmd := exec.CommandContext(t.Context(), "go", "test", "-count=1", "-timeout=20m", "-modfile="+module(t),
		controllerRuntime+"/pkg/"+pkg, "-v", "-ginkgo.no-color", "-ginkgo.json-report="+report)
	cmd.Env = append(os.Environ(), "KUBEBUILDER_ASSETS="+servers(t), "LW_CACHE="+on, "LW_WITNESS="+witness, "GOWORK=off")
	r := ended(t, cmd, report, "")
	r.caches = len(read(t, witness))
	return r
}

// hookOthers changes the copy of controller-runtime so that managers, and the tests of
// otherPackages, make their caches by cache.NewOfTest, and managers their clients by
// client.NewOfTest. Each test binary has a file that sets them.
func hookOthers(t *testing.T, copied string) {
	t.Helper()
	change := func(file, from, to string, least int) {
		t.Helper()
		content := read(t, file)
		if n := bytes.Count(content, []byte(from)); n < least {
			t.Fatalf("%s has %q %d times, want %d", file, from, n, least)
		}
		write(t, file, bytes.ReplaceAll(content, []byte(from), []byte(to)))
	}
	pkgs := filepath.Join(copied, "pkg")
	write(t, filepath.Join(pkgs, "cache", "lw_hook.go"), []byte("package cache\n\nvar NewOfTest NewCacheFunc = New\n"))
	write(t, filepath.Join(pkgs, "client", "lw_hook.go"), []byte("package client\n\nvar NewOfTest NewClientFunc = New\n"))
	change(filepath.Join(pkgs, "cluster", "cluster.go"), "options.NewCache = cache.New",
		"options.NewCache = cache.NewOfTest", 1)
	change(filepath.Join(pkgs, "cluster", "cluster.go"), "options.NewClient = client.New",
		"options.NewClient = client.NewOfTest", 1)
	change(filepath.Join(pkgs, "client", "consistency_envtest_test.go"), "cache.New(", "cache.NewOfTest(", 2)
	change(filepath.Join(pkgs, "builder", "controller_test.go"), "cache.New(", "cache.NewOfTest(", 1)
	hook := string(read(t, filepath.Join("testdata", "lw_others_test.go.txt")))
	for _, pkg := range otherPackages {
		write(t, filepath.Join(pkgs, pkg, "lw_others_test.go"),
			[]byte(strings.Replace(hook, "package others_test", "package "+pkg+"_test", 1)))
	}
}
