package main

import (
	"bufio"
	"bytes"
	"fmt"
	"io"
	"io/fs"
	"maps"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
)

// check ends the test at an error.
func check(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// must is check for a call that returns a value as well, which it returns.
func must[V any](t *testing.T) func(V, error) V {
	return func(v V, err error) V {
		t.Helper()
		check(t, err)
		return v
	}
}

// build runs lwbuild in dir, and returns what it prints.
func build(t *testing.T, dir string, args ...string) (out string, err error) {
	t.Helper()
	return buildBy(t, &builder{dir: dir}, args...)
}

// buildBy is build by b, for tests that set or look at more of it.
func buildBy(t *testing.T, b *builder, args ...string) (out string, err error) {
	t.Helper()
	var text bytes.Buffer
	b.stdout, b.stderr = &text, &text
	if err = b.parse(args); err == nil {
		err = b.run()
	}
	if b.dry {
		t.Cleanup(func() { os.RemoveAll(b.tmp) })
	}
	return text.String(), err
}

// mustBuild is build for what succeeds.
func mustBuild(t *testing.T, dir string, args ...string) (out string) {
	t.Helper()
	out, err := build(t, dir, args...)
	if err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	return out
}

// files returns the content of each file in dir, but not below it.
func files(t *testing.T, dir string) map[string]string {
	t.Helper()
	all := map[string]string{}
	entries := must[[]os.DirEntry](t)(os.ReadDir(dir))
	for _, e := range entries {
		if e.IsDir() {
			continue
		}
		data := must[[]byte](t)(os.ReadFile(filepath.Join(dir, e.Name())))
		all[e.Name()] = string(data)
	}
	return all
}

// tree returns what is in each file below dir.
func tree(t *testing.T, dir string) map[string]string {
	t.Helper()
	all := map[string]string{}
	check(t, filepath.WalkDir(dir, func(path string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return err
		}
		data, err := os.ReadFile(path)
		all[path] = string(data)
		return err
	}))
	return all
}

// write writes the files to a new folder.
func write(t *testing.T, files map[string]string) (dir string) {
	t.Helper()
	dir = t.TempDir()
	for name, text := range files {
		check(t, os.MkdirAll(filepath.Dir(filepath.Join(dir, name)), 0o777))
		check(t, os.WriteFile(filepath.Join(dir, name), []byte(text), 0o666))
	}
	return dir
}

// pods runs a server of three pods and of definitions until the test ends.
func pods(t *testing.T) (url string) {
	t.Helper()
	server := exec.Command("go", "run", "./verify/pods")
	server.Dir = filepath.Join("..", "..")
	stop := must[io.WriteCloser](t)(server.StdinPipe())
	printed := must[io.ReadCloser](t)(server.StdoutPipe())
	check(t, server.Start())
	t.Cleanup(func() {
		stop.Close()
		check(t, server.Wait())
	})
	must[int](t)(fmt.Fscanln(printed, &url))
	return url
}

// A program that is built unmodified does the same with lw and without, and its report names what
// lw does not do.
func TestProgram(t *testing.T) {
	const dir = "testdata/program"
	before := tree(t, dir)
	bin := filepath.Join(t.TempDir(), "program")
	if said, err := build(t, dir, "-o", bin, "."); err != nil || !strings.Contains(said, "kept k8s.io/client-go v0.36.0") {
		t.Fatalf("%v: %s", err, said)
	}
	if diff := cmp.Diff(before, tree(t, dir)); diff != "" {
		t.Errorf("lwbuild has changed the program (-before +after):\n%s", diff)
	}
	url := pods(t)
	run := func(side, url string) (out, report string, err error) {
		t.Helper()
		file := filepath.Join(t.TempDir(), "report")
		cmd := exec.Command(bin, url)
		if url == "" {
			cmd.Args = cmd.Args[:1]
		}
		cmd.Env = append(os.Environ(), "LW="+side, "LW_REPORT="+file)
		text, err := cmd.Output()
		page, readErr := os.ReadFile(file)
		if readErr != nil {
			t.Error(readErr)
		}
		return string(text), string(page), err
	}
	with, report, err := run("on", url)
	check(t, err)
	without, plain, err := run("off", url)
	check(t, err)
	var want string
	for _, line := range []string{"typed *v1.Pod", "dynamic *unstructured.Unstructured",
		"metadata *v1.PartialObjectMetadata", "reflector *v1.Pod", "controller *v1.Pod", "without context *v1.Pod"} {
		at := strings.LastIndex(line, " ")
		want += fmt.Sprintf("%s: default/a default/b default/c%s\n", line[:at], line[at:])
	}
	if diff := cmp.Diff([]string{want, want}, []string{with, without}); diff != "" {
		t.Errorf("on lw and off (-want +got):\n%s", diff)
	}
	for page, want := range map[string]map[string]int{
		report: {"side: lw\n": 1, "versions: kept": 1, "| lw | lw | 3 |": 4, "| lw | lw | ? |": 1,
			"| lw | client-go | 3 |": 1, "client-go decodes: ": 1, "| pods | ": 1},
		plain: {"side: client-go (LW=off)": 1, "| client-go | client-go | 3 |": 5, "| client-go | client-go | ? |": 1,
			": LW=off\n": 6, "| pods | ": 1},
	} {
		got := map[string]int{}
		for text := range want {
			got[text] = strings.Count(page, text)
		}
		if diff := cmp.Diff(want, got); diff != "" {
			t.Errorf("(-want +got):\n%s\n%s", diff, page)
		}
	}
	// os.Exit writes the report as well, and keeps the code.
	_, _, err = run("on", "")
	if exit, ok := err.(*exec.ExitError); !ok || exit.ExitCode() != 2 {
		t.Errorf("without arguments: %v", err)
	}
}

// A manager of kinds that nobody serves ends. With LW_KINDS=wait it lives, no line of it changed, and
// reconciles what comes and comes again.
func TestManager(t *testing.T) {
	if runtime.GOOS == "windows" {
		t.Skip("there is no SIGTERM to end the manager with")
	}
	bin, url := filepath.Join(t.TempDir(), "manager"), pods(t)
	mustBuild(t, "testdata/program", "-o", bin, "./manager")
	without, with := exec.Command(bin, url), exec.Command(bin, url)
	with.Env = append(os.Environ(), "LW_KINDS=wait")
	lines := bufio.NewScanner(must[io.ReadCloser](t)(with.StdoutPipe()))
	check(t, with.Start())
	defer with.Process.Kill()
	next := func(want string) {
		t.Helper()
		if !lines.Scan() || lines.Text() != want {
			t.Fatalf("the manager says %q, want %q", lines.Text(), want)
		}
	}
	next("starts")
	if out, err := without.Output(); err == nil || !strings.Contains(string(out), "ended: ") {
		t.Errorf("without LW_KINDS: %v: %s", err, out)
	}
	const definitions = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions"
	for range 2 {
		send(t, http.MethodPost, url+definitions, `{"apiVersion":"apiextensions.k8s.io/v1","kind":"CustomResourceDefinition",
			"metadata":{"name":"mice.example.com"},"spec":{"group":"example.com","scope":"Namespaced",
			"names":{"kind":"Mouse","listKind":"MouseList","plural":"mice","singular":"mouse"},
			"versions":[{"name":"v1","served":true,"storage":true,"schema":{"openAPIV3Schema":{"type":"object"}}}]}}`)
		send(t, http.MethodPost, url+"/apis/example.com/v1/namespaces/default/mice",
			`{"apiVersion":"example.com/v1","kind":"Mouse","metadata":{"name":"jerry"}}`)
		next("reconciled jerry")
		send(t, http.MethodDelete, url+definitions+"/mice.example.com", "")
		next("gone jerry")
	}
	check(t, with.Process.Signal(syscall.SIGTERM))
	if lines.Scan() {
		t.Errorf("the manager says %q at its end", lines.Text())
	}
	check(t, with.Wait())
}

// send makes a request that succeeds.
func send(t *testing.T, method, url, body string) {
	t.Helper()
	r := must[*http.Request](t)(http.NewRequestWithContext(t.Context(), method, url, strings.NewReader(body)))
	r.Header.Set("Content-Type", "application/json")
	resp := must[*http.Response](t)(http.DefaultClient.Do(r))
	defer resp.Body.Close()
	if answer := must[[]byte](t)(io.ReadAll(resp.Body)); resp.StatusCode >= 300 {
		t.Fatalf("%s %s: %s: %s", method, url, resp.Status, answer)
	}
}

// The tests of a program run on lw, and their informers are counted.
func TestTests(t *testing.T) {
	file := filepath.Join(t.TempDir(), "report")
	t.Setenv("LW_REPORT", file)
	mustBuild(t, "testdata/program", "-test", "-count=1", "./...")
	data, err := os.ReadFile(file)
	if err != nil || string(data) != "program.test\tinformer\tv1.Pod\tlw\n" {
		t.Errorf("%v: %q", err, data)
	}
}

// What lwbuild refuses has the reason and the next step, and nothing was built.
func TestRefusals(t *testing.T) {
	const program = "testdata/program"
	module := func(files map[string]string) string { return write(t, files) }
	own := files(t, program)
	vendored := maps.Clone(own)
	vendored["vendor/modules.txt"] = "# example.com/other v1.0.0\n"
	library := maps.Clone(own)
	forkOf := func(mod string, more ...string) map[string]string {
		all := maps.Clone(own)
		all["go.mod"] += "\nreplace k8s.io/client-go => ./fork\n"
		all["fork/go.mod"] = "module k8s.io/client-go\n\ngo 1.26.0\n" + mod
		for _, name := range more {
			all["fork/"+name] = "package " + filepath.Base(filepath.Dir(name)) + "\n"
		}
		return all
	}
	library["main.go"] = strings.ReplaceAll(own["main.go"], "package main", "package library")
	delete(library, "main_test.go")
	t.Setenv("CGO_ENABLED", "0")
	cache := t.TempDir() // what a refused build leaves is not the user's
	for _, tt := range []struct {
		name string
		dir  string
		args []string
		want []string
	}{
		{"cgo off", program, []string{"-race", "."}, []string{"-race requires cgo", "next: ", "CGO_ENABLED=1"}},
		{"no module", t.TempDir(), []string{"."}, []string{"no go.mod", "cd into"}},
		{"no client-go", module(map[string]string{"go.mod": "module example.com/m\n\ngo 1.26.0\n",
			"main.go": "package main\n\nfunc main() {}\n"}), []string{"."}, []string{"does not use k8s.io/client-go"}},
		{"no main package", module(library), []string{"."}, []string{"no main package", "name one"}},
		{"no tests", module(library), []string{"-test", "."}, []string{"no tests", "./..."}},
		{"vendor out of step", module(vendored), []string{"."}, []string{"inconsistent vendoring", "go mod vendor"}},
		{"a client-go without a version", module(forkOf("")), []string{"."},
			[]string{"./fork", "does not know that version", "next: go get k8s.io/client-go@"}},
		{"a client-go that the patch does not fit", module(forkOf("\nrequire k8s.io/apimachinery v0.36.0\n",
			"tools/cache/shared_informer.go", "tools/cache/controller.go", "tools/cache/reflector.go", "rest/client.go")),
			[]string{"."}, []string{"./fork", "does not know that version", "there is no ", "next: a newer lwbuild"}},
		{"a flag of lwbuild's own", program, []string{"-mod=vendor", "."}, []string{"-mod", "leave it out"}},
		{"a bench of no time", program, []string{"-bench=.", "."}, []string{"-bench=.", "next: -bench=30s"}},
		{"a bench of 0", program, []string{"-bench=0", "."}, []string{"-bench=0", "next: -bench=30s"}},
		{"a bench of less", program, []string{"-bench=-1s", "."}, []string{"-bench=-1s", "next: -bench=30s"}},
		{"a drawing of nothing", program, []string{"-svg=x.svg", "."}, []string{"-svg=x.svg", "next: -bench=30s"}},
		{"a switch that is none", program, []string{"-keep=maybe", "."}, []string{"flag -keep=maybe is neither true nor false"}},
		{"a flag without value", program, []string{"-buildvcs", "-o"}, []string{"flag -o needs a value"}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			_, err := buildBy(t, &builder{dir: tt.dir, cache: cache}, tt.args...)
			for _, want := range tt.want {
				if err == nil || !strings.Contains(err.Error(), want) {
					t.Errorf("%v, want %q in it", err, want)
				}
			}
		})
	}
	for _, e := range must[[]os.DirEntry](t)(os.ReadDir(cache)) {
		if !strings.HasPrefix(e.Name(), "client-go@v0.36.0-lw") {
			t.Errorf("a copy that was refused stays: %s", e.Name())
		}
	}
}

// What lwbuild says at its end, and its exit code: its own errors have 2. Those of go have go's code
// and words, with the next step if there is one.
func TestExit(t *testing.T) {
	if args := os.Getenv("LWBUILD_TEST_ARGS"); args != "" {
		os.Args = strings.Split(args, "|")
		main()
		os.Exit(0)
	}
	for name, tt := range map[string]struct {
		args  []string
		code  int
		says  []string
		never string
	}{
		"its own error": {[]string{"-buildvcs", "-o"}, 2, []string{"lwbuild: flag -o needs a value"}, "go"},
		"all is well": {[]string{"-n", "."}, 0, []string{"lwbuild: kept k8s.io/client-go", "go build -modfile="},
			"lwbuild: \n"},
		"go's error": {[]string{"-buildmode=none", "."}, 1, []string{"lwbuild: kept ", "buildmode=none not supported"},
			"lwbuild: \n"},
		"go's error, with a next step": {[]string{"-buildmode=requires cgo", "."}, 1,
			[]string{"buildmode=requires cgo not supported", "lwbuild: a package needs cgo: "}, "lwbuild: exit"},
	} {
		t.Run(name, func(t *testing.T) {
			cmd := exec.Command(os.Args[0], "-test.run=^TestExit$")
			cmd.Dir = "testdata/program"
			cmd.Env = append(os.Environ(), "LWBUILD_TEST_ARGS="+strings.Join(append([]string{"lwbuild"}, tt.args...), "|"),
				"TMPDIR="+t.TempDir())
			text, _ := cmd.CombinedOutput()
			said := string(text)
			if code := cmd.ProcessState.ExitCode(); code != tt.code || strings.Contains(said, tt.never) {
				t.Errorf("exit code %d, want %d: %s", code, tt.code, said)
			}
			for _, want := range tt.says {
				if !strings.Contains(said, want) {
					t.Errorf("there is no %q: %s", want, said)
				}
			}
		})
	}
}

// What go says of a mistake gets the next step.
func TestNextStep(t *testing.T) {
	for said, want := range map[string]string{
		"go: -race requires cgo; enable cgo by setting CGO_ENABLED=1":                               "CGO_ENABLED=1",
		"build constraints exclude all Go files in /x":                                              "CGO_ENABLED=1",
		"go: inconsistent vendoring in /x":                                                          "go mod vendor",
		"overlay contains a replacement for x. Files beneath GOMODCACHE (/x) must not be replaced.": "copy the program",
		"undefined: x": "",
	} {
		if got := nextStep(said, "kept"); !strings.Contains(got, want) || want == "" && got != "" {
			t.Errorf("%s: %q", said, got)
		}
	}
	if got := nextStep("k8s.io/x: undefined: y", "raised k8s.io/client-go v0.34.0 to v0.36.3"); !strings.Contains(got,
		"go get k8s.io/client-go@") {
		t.Error(got)
	}
}

// What is not lwbuild's own is go's. With -test, -bench is go's.
func TestParse(t *testing.T) {
	for _, tt := range []struct {
		args                   []string
		test                   bool
		bench                  time.Duration
		flags, patterns, after []string
		list                   []string // the flags that decide which files count
		own                    builder  // lwbuild's own flags
	}{
		{args: []string{"-bench=2s", "-race", "-o", "x", "./a", "./b", "-args", "c"}, bench: 2 * time.Second,
			flags: []string{"-race", "-o=x"}, patterns: []string{"./a", "./b"}, after: []string{"c"}},
		{args: []string{"-bench=.", "-test", "./..."}, test: true, flags: []string{"-bench=."},
			patterns: []string{"./..."}},
		{args: []string{"--test", "--bench", "x", ".", "--args", "-v"}, test: true, flags: []string{"-bench=x"},
			patterns: []string{"."}, after: []string{"-v"}},
		{args: []string{"-bench=.", "-test=true", "."}, test: true, flags: []string{"-bench=."}, patterns: []string{"."}},
		{args: []string{"-bench=2s", "-test=false", "-keep=0", "-n=t", "."}, bench: 2 * time.Second, patterns: []string{"."},
			own: builder{dry: true}},
		{args: []string{"-tags", "a,b", "-msan", "-asan=false", "-v"},
			flags: []string{"-tags=a,b", "-msan", "-asan=false", "-v"}, list: []string{"-tags=a,b", "-msan", "-asan=false"}},
		{args: []string{"-n", "-keep", "-svg", "x.svg", "-C=dir", "-bench", "1s", "."}, bench: time.Second,
			patterns: []string{"."}, own: builder{dry: true, keep: true, svg: "x.svg", dir: "dir"}},
	} {
		want := &tt.own
		want.test, want.bench, want.flags, want.patterns, want.args = tt.test, tt.bench, tt.flags, tt.patterns, tt.after
		if want.listFlags = tt.list; slices.Contains(tt.flags, "-race") {
			want.listFlags = []string{"-race"}
		}
		got := &builder{}
		check(t, got.parse(tt.args))
		if diff := cmp.Diff(fmt.Sprintf("%+v", want), fmt.Sprintf("%+v", got)); diff != "" {
			t.Errorf("%q (-want +got):\n%s", tt.args, diff)
		}
	}
}

// -n says what would be done, and does not do it.
func TestDry(t *testing.T) {
	out := filepath.Join(t.TempDir(), "program")
	b := &builder{dir: "testdata/program"}
	said, err := buildBy(t, b, "-n", "-tags", "a,b", "-o", out, ".")
	check(t, err)
	// A program may have a folder vendor/, which go takes without -mod=mod.
	want := fmt.Sprintf("\nGOWORK=off GOFLAGS=%q go build -modfile=%[2]s/lw.mod -mod=mod -overlay=%[2]s/overlay.json -tags=a,b -o=%s .\n", b.env["GOFLAGS"], b.tmp, out)
	if !strings.HasSuffix(said, want) {
		t.Errorf("%s, want at its end %s", said, want)
	}
	if _, err := os.Stat(out); err == nil {
		t.Error("-n builds")
	}
}

// The versions of a program are kept, raised or refused.
func TestDecide(t *testing.T) {
	pinned := module{Path: "k8s.io/api", Version: "v0.0.0", Replace: &module{Path: "k8s.io/api", Version: "v0.34.1"}}
	others := []module{
		{Path: "example.com/m", Main: true}, pinned, {Path: "k8s.io/kubernetes", Version: "v1.34.1"},
		{Path: "k8s.io/klog/v2", Version: "v2.130.1"},
		{Path: "k8s.io/utils", Version: "v0.0.0-20250604170112-4c0f3b243397"}, {Path: controllerRuntime, Version: "v0.22.4"},
		{Path: "sigs.k8s.io/yaml", Version: "v1.6.0"},
		{Path: "k8s.io/metrics", Version: "v0.35.0"},
	}
	fork := &module{Path: "example.com/fork", Version: "v0.1.0"}
	for _, tt := range []struct {
		name    string
		version string
		replace *module
		of      int
		unknown bool
		keep    bool
		raise   map[string]string
		want    string
	}{
		{name: "oldest kept", version: "v0.36.0", of: 36, want: "kept k8s.io/client-go v0.36.0"},
		{name: "newest kept", version: "v0.37.2", of: 37, keep: true, want: "kept k8s.io/client-go v0.37.2"},
		{name: "fork", version: "v0.37.2", replace: fork, of: 37, want: "kept k8s.io/client-go (example.com/fork v0.1.0)"},
		{name: "raised", version: "v0.34.1", of: 34, raise: map[string]string{
			clientGoPath: raisedTo, "k8s.io/api": raisedTo, "k8s.io/metrics": raisedTo, "k8s.io/kubernetes": raisedKubernetes,
			controllerRuntime: raisedController,
		}, want: "raised k8s.io/client-go v0.34.1 to v0.36.3, k8s.io/kubernetes v1.34.1 to v1.36.3, sigs.k8s.io/controller-runtime v0.22.4 to v0.24.1"},
		{name: "not to be raised", version: "v0.34.1", of: 34, keep: true,
			want: "k8s.io/client-go v0.34.1 is older than v0.36, which lw needs, and -keep forbids to raise it; next: leave out -keep, or go get k8s.io/client-go@v0.36.3"},
		{name: "fork too old", version: "v0.34.1", replace: fork, of: 34,
			want: "k8s.io/client-go (example.com/fork v0.1.0) is a fork of v0.34, and lw needs v0.36; next: rebase the fork, or build without the replace"},
		{name: "oldest raised", version: "v0.33.0", of: 33, raise: map[string]string{
			clientGoPath: raisedTo, "k8s.io/api": raisedTo, "k8s.io/metrics": raisedTo, "k8s.io/kubernetes": raisedKubernetes,
			controllerRuntime: raisedController,
		}, want: "raised k8s.io/client-go v0.33.0"},
		{name: "too old", version: "v0.32.9", of: 32,
			want: "k8s.io/client-go v0.32.9 is older than v0.33, and programs of that age do not compile with a version that lw knows; next: go get k8s.io/client-go@v0.36.3, and mend what does not compile"},
		{name: "unknown", version: "v1.5.2", unknown: true,
			want: "k8s.io/client-go v1.5.2: this lwbuild does not know that version: it has no version like v0.37.0; next: go get k8s.io/client-go@v0.36.3"},
		{name: "too new", version: "v0.38.0", of: 38,
			want: "k8s.io/client-go v0.38.0: this lwbuild does not know that version: it is newer than v0.37; next: a newer lwbuild, or go get k8s.io/client-go@v0.36.3"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			m := module{Path: clientGoPath, Version: tt.version, Replace: tt.replace}
			d, err := decide(append(slices.Clone(others), m), m, tt.of, !tt.unknown, tt.keep)
			said := d.says
			if err != nil {
				said = err.Error()
			}
			if diff := cmp.Diff(tt.raise, d.raise); diff != "" || !strings.Contains(said, tt.want) {
				t.Errorf("%q, want %q in it; raised (-want +got):\n%s", said, tt.want, diff)
			}
		})
	}
}
