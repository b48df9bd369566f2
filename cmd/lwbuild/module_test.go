package main

import (
	"bytes"
	stdcmp "cmp"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"runtime/debug"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// The copy of go.mod has the sums of the program and those of lw.
func TestCopyModule(t *testing.T) {
	given := map[string]string{"go.mod": "module m\n", "go.sum": "example.com/x v1.0.0 h1:AAAA\n"}
	dir, lw := write(t, given), write(t, map[string]string{"go.sum": "example.com/y v1.0.0 h1:BBBB\n"})
	b := &builder{dir: dir, tmp: t.TempDir(), env: map[string]string{"GOMOD": filepath.Join(dir, "go.mod")}}
	check(t, b.copyModule([]string{filepath.Join(lw, "go.sum"), filepath.Join(lw, "none")}))
	want := map[string]string{"lw.mod": given["go.mod"], "lw.sum": given["go.sum"] + "example.com/y v1.0.0 h1:BBBB\n"}
	if diff := cmp.Diff(want, files(t, b.tmp)); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}

// An lwbuild that was downloaded adds lw of its own version, and any other the checkout.
func TestLWEdits(t *testing.T) {
	info := func(path, sum string) *debug.BuildInfo {
		return &debug.BuildInfo{Main: debug.Module{Path: path, Version: "v0.3.0", Sum: sum}}
	}
	const lw, clientgo = "-require=" + lwPath + "@", "-require=" + lwPath + "/clientgo@"
	for name, tt := range map[string]struct {
		info *debug.BuildInfo
		want []string // what is required
		sums int
	}{
		"downloaded":   {info(ownPath, "h1:x"), []string{lw + "v0.3.0", clientgo + "v0.3.0"}, 0},
		"built":        {info(ownPath, ""), []string{clientgo + "v0.1.0", lw + "v0.1.0"}, 2},
		"of a program": {info("example.com/x", "h1:x"), []string{clientgo + "v0.1.0", lw + "v0.1.0"}, 2},
		"unknown":      {nil, []string{clientgo + "v0.1.0", lw + "v0.1.0"}, 2},
	} {
		edits, sums, err := lwEdits(tt.info)
		check(t, err)
		var got []string
		for _, edit := range edits {
			if strings.HasPrefix(edit, "-require=") {
				got = append(got, edit)
			}
		}
		if diff := cmp.Diff(tt.want, got); diff != "" || len(sums) != tt.sums || len(edits) != len(got)+tt.sums {
			t.Errorf("%s: %d sums, %q (-want +got):\n%s", name, len(sums), edits, diff)
		}
	}
}

// The client-go to patch is that of the build, with the files of vendor/ if one differs.
func TestSource(t *testing.T) {
	const mod = "module m\n\ngo 1.26.0\n\nrequire k8s.io/client-go v0.36.0\n\nreplace k8s.io/client-go => ./fork\n"
	dir := write(t, map[string]string{"go.mod": mod, "fork/go.mod": "module k8s.io/client-go\n",
		"fork/a.go": "package a\n", "fork/b.go": "package b\n", "same/k8s.io/client-go/a.go": "package a\n",
		"changed/k8s.io/client-go/a.go": "package a\n", "changed/k8s.io/client-go/b.go": "package changed\n"})
	const differ = "1 files of vendor/k8s.io/client-go differ from ./fork"
	for name, differs := range map[string]bool{"": false, "none": false, "same": false, "changed": true} {
		var said bytes.Buffer
		b := &builder{dir: dir, tmp: write(t, map[string]string{"lw.mod": mod}), stderr: &said,
			env: map[string]string{}}
		want := origin{path: clientGoPath, name: "./fork", dir: filepath.Join(dir, "fork")}
		if name != "" {
			b.env["VENDOR"] = filepath.Join(dir, name)
		}
		if differs {
			want.vendor = filepath.Join(dir, name, "k8s.io", "client-go")
		}
		if got := must[origin](t)(b.source(clientGoPath)); got != want || strings.Contains(said.String(), "differ") != differs ||
			differs && !strings.Contains(said.String(), differ) {
			t.Errorf("%q: %+v, want %+v; it says %s", name, got, want, &said)
		}
	}
	b := &builder{dir: dir, tmp: write(t, map[string]string{"lw.mod": "no module"}), env: map[string]string{}}
	if from, err := b.source(clientGoPath); err == nil || !strings.Contains(err.Error(), "unknown directive") {
		t.Errorf("that of no module is %+v, %v", from, err)
	}
}

// The report is written at the end of main and before os.Exit, and no line moves.
func TestAtEnd(t *testing.T) {
	const pkg = "package main\n"
	for src, want := range map[string]string{
		pkg + "func main() {\nos.Exit(f(1))\n}\n": pkg +
			"func main() { defer lwbuildEnd(); \nos.Exit(lwbuildExit(f(1)))\n}\n",
		pkg + "func f() { os.Exit(1) }\n": pkg + "func f() { os.Exit(lwbuildExit(1)) }\n",

		pkg + "func f() { x.Exit(1) }\nfunc (t) main() {}\nfunc (t) g() {}\nfunc main()\n": "",
		pkg + "func main() { os.Exit(1 }\n":                                                "",
	} {
		out, changed := atEnd("main.go", []byte(src))
		if diff := cmp.Diff(stdcmp.Or(want, src), string(out)); diff != "" || changed != (want != "") {
			t.Errorf("%q: changed %v (-want +got):\n%s", src, changed, diff)
		}
	}
}

// A module that is raised where a replacement pins it is pinned anew.
func TestDecisionEdits(t *testing.T) {
	d := decision{raise: map[string]string{"k8s.io/api": "v0.36.3", "k8s.io/client-go": "v0.36.3"}}
	got := d.edits([]module{{Path: "m", Main: true}, {Path: "k8s.io/client-go", Version: "v0.35.0"},
		{Path: "k8s.io/api", Replace: &module{Path: "k8s.io/api", Version: "v0.35.0"}}})
	want := []string{"-require=k8s.io/client-go@v0.36.3", "-require=k8s.io/api@v0.36.3",
		"-replace=k8s.io/api=k8s.io/api@v0.36.3"}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}

// What go takes for vendoring, and what of GOFLAGS does not say which modules count.
func TestEnvironment(t *testing.T) {
	plain := write(t, map[string]string{"go.mod": "module m\n\ngo 1.26.0\n", "m.go": "package m\n"})
	vendored := write(t, map[string]string{"go.mod": "module m\n\ngo 1.26.0\n", "m.go": "package m\n",
		"vendor/modules.txt": ""})
	broken := write(t, map[string]string{"go.mod": "module m\n\ngo 1.26.0\n\nrequire example.com/x v1.0.0\n",
		"m.go": "package m\n", "vendor/modules.txt": "# example.com/other v1.0.0\n"})
	work := filepath.Join(write(t, map[string]string{"go.work": "go 1.26.0\n"}), "go.work")
	for name, tt := range map[string]struct {
		dir, flags, work string
		want             string // of GOFLAGS
		vendor           bool
		err              string
	}{
		"plain":              {dir: plain},
		"flags":              {dir: plain, flags: "-mod=mod -race --modfile=x -tags=a,b -overlay=y", want: "-race -tags=a,b"},
		"vendored":           {dir: vendored, vendor: true},
		"vendored, and said": {dir: vendored, flags: "-mod=vendor -trimpath", want: "-trimpath", vendor: true},
		"vendored, not used": {dir: vendored, flags: "-mod=mod"},
		"out of step":        {dir: broken, err: "next: vendor/ is out of step with go.mod"},
		"of a workspace":     {dir: broken, work: work, vendor: true},
		"no module":          {dir: t.TempDir(), err: "there is no go.mod here; next: cd into the folder of the program's module"},
		"no folder":          {dir: filepath.Join(plain, "none"), err: "none"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Setenv("GOENV", "off") // else an empty GOFLAGS is that of the user
			t.Setenv("GOFLAGS", tt.flags)
			t.Setenv("GOWORK", stdcmp.Or(tt.work, "off"))
			b := &builder{dir: tt.dir}
			if err := b.environment(); err != nil || tt.err != "" {
				if err == nil || tt.err == "" || !strings.Contains(err.Error(), tt.err) {
					t.Errorf("%v, want %q", err, tt.err)
				}
				return
			}
			dir := must[string](t)(filepath.EvalSymlinks(tt.dir))
			want := map[string]string{"GOFLAGS": tt.want, "GOWORK": stdcmp.Or(tt.work, "off"),
				"GOMOD": filepath.Join(dir, "go.mod")}
			if tt.vendor {
				want["VENDOR"] = filepath.Join(dir, "vendor")
			}
			if diff := cmp.Diff(want, b.env); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
		})
	}
}

// The overlay has the hook, and the ends of programs: of those packages that have informers.
func TestOverlay(t *testing.T) {
	const mod = "module m\n\ngo 1.26.0\n\nrequire k8s.io/client-go v0.36.0\n\nreplace k8s.io/client-go => ./fork\n"
	const uses = "import _ \"k8s.io/client-go/tools/cache\"\n\n"
	dir := write(t, map[string]string{"go.mod": mod, "fork/go.mod": "module k8s.io/client-go\n",
		"fork/tools/cache/cache.go": "package cache\n",
		"with/main.go":              "package main\n\n" + uses + "func main() {}\n", "with/more.go": "package main\n",
		"without/main.go": "package main\n\nfunc main() {}\n",
		"lib/lib.go":      "package lib\n\n" + uses, "lib/lib_test.go": "package lib\n",
		"ext/ext.go": "package ext\n", "ext/ext_test.go": "package ext_test\n\n" + uses,
		"plain/plain.go": "package plain\n", "plain/plain_test.go": "package plain\n",
		"untested/u.go": "package untested\n\n" + uses,
	})
	for name, tt := range map[string]struct {
		test     bool
		patterns []string
		want     []string // the files that are replaced or added
		err      string
	}{
		"a program": {false, []string{"./with"}, []string{"with/main.go", "with/zz_lwbuild.go"}, ""},
		"all":       {false, []string{"./..."}, []string{"with/main.go", "with/zz_lwbuild.go"}, ""},
		"a program without": {false, []string{"./without"}, nil,
			`the program "./without" uses no informers of client-go: there is nothing to replace`},
		"libraries": {false, []string{"./lib", "./plain"}, nil,
			`there is no main package in "./lib ./plain"; next: name one, such as ./cmd/manager`},
		"all tests": {true, []string{"./..."}, []string{"ext/zz_lwbuild_test.go", "lib/zz_lwbuild_test.go"}, ""},
		"tests without": {true, []string{"./plain"}, nil,
			`no tests of "./plain" use informers of client-go; next: name ./..., or packages whose tests do`},
		"a package not tested": {true, []string{"./untested"}, nil,
			`no tests of "./untested" use informers of client-go; next: name ./..., or packages whose tests do`},
		"what is not there": {false, []string{"./none"}, nil, "none: "},
	} {
		t.Run(name, func(t *testing.T) {
			b := &builder{dir: dir, test: tt.test, patterns: tt.patterns, env: map[string]string{},
				tmp: write(t, map[string]string{"lw.mod": mod})}
			pkgs, err := b.packages()
			var file string
			if err == nil {
				file, err = b.overlay(pkgs, "kept x")
			}
			if err != nil || tt.err != "" {
				if err == nil || tt.err == "" || !strings.Contains(err.Error(), tt.err) {
					t.Errorf("%v, want %q", err, tt.err)
				}
				return
			}
			var overlay struct{ Replace map[string]string }
			check(t, json.Unmarshal(must[[]byte](t)(os.ReadFile(file)), &overlay))
			var got []string
			for of, by := range overlay.Replace {
				got = append(got, filepath.ToSlash(must[string](t)(filepath.Rel(dir, of))))
				text := string(must[[]byte](t)(os.ReadFile(by)))
				hook := fmt.Sprintf("lwhook.Start(\"kept x\", %v)", tt.test)
				if strings.Contains(of, "zz_lwbuild") != strings.Contains(text, hook) {
					t.Errorf("%s is %s", of, text)
				}
			}
			slices.Sort(got)
			if diff := cmp.Diff(tt.want, got); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
		})
	}
}

// The version of a fork is that of the apimachinery which it requires.
func TestMinorOfFork(t *testing.T) {
	for mod, want := range map[string]int{
		"": 0, "require k8s.io/api v0.35.0\n": 0, "require k8s.io/apimachinery v0.36.1\n": 36,
		"require k8s.io/apimachinery v0.0.0\n": 0,
	} {
		dir := write(t, map[string]string{"go.mod": "module k8s.io/client-go\n\n" + mod})
		of, known, err := (&builder{env: map[string]string{}}).minorOfFork(module{Replace: &module{Dir: dir}})
		if of != want || known != (want > 0) || err != nil {
			t.Errorf("%q: %d, %v, %v", mod, of, known, err)
		}
	}
	dir := write(t, map[string]string{"go.mod": "no module"})
	if of, known, err := (&builder{env: map[string]string{}}).minorOfFork(module{Replace: &module{Dir: dir}}); err == nil {
		t.Errorf("what is no module: %d, %v", of, known)
	}
}

// What go says of a go.mod that cannot be edited is the error, and nothing is edited for nothing.
func TestEdit(t *testing.T) {
	b := &builder{tmp: write(t, map[string]string{"lw.mod": "no module"}), env: map[string]string{}}
	if err := b.edit([]string{"-go=1.26"}); err == nil || !strings.Contains(err.Error(), "unknown directive") {
		t.Errorf("no module: %v", err)
	}
	check(t, b.edit(nil))
}

// controller-runtime is patched for programs that have its cache, and not when it is the program.
func TestPatchManager(t *testing.T) {
	const mod = "module " + controllerRuntime + "\n\ngo 1.26.0\n"
	b := &builder{dir: filepath.Join(t.TempDir(), "none"), env: map[string]string{}} // where go cannot run
	uses := []pkg{{ImportPath: "a", Deps: []string{controllerRuntime + "/pkg/cache"}}}
	check(t, b.patchManager([]pkg{{ImportPath: "a", Deps: []string{controllerRuntime + "/pkg/client"}}}))
	if err := b.patchManager(uses); err == nil {
		t.Error("a program that has the cache is not looked at")
	}
	b = &builder{dir: write(t, map[string]string{"go.mod": mod}), tmp: write(t, map[string]string{"lw.mod": mod}),
		env: map[string]string{}}
	check(t, b.patchManager(uses))
	// One that the patch does not fit stays as it is, and that is said.
	const fork = "module m\n\ngo 1.26.0\n\nrequire " + controllerRuntime + " v0.24.1\n\nreplace " + controllerRuntime + " => ./fork\n"
	var said bytes.Buffer
	b = &builder{dir: write(t, map[string]string{"go.mod": fork, "fork/go.mod": mod, "fork/pkg/cache/cache.go": "package cache\n"}),
		tmp: write(t, map[string]string{"lw.mod": fork}), env: map[string]string{}, cache: t.TempDir(), stderr: &said}
	check(t, b.patchManager(uses))
	if !strings.Contains(said.String(), controllerRuntime+" ./fork: "+errUnknown.Error()) {
		t.Errorf("it says %s", &said)
	}
	if got := files(t, b.tmp)["lw.mod"]; got != fork {
		t.Errorf("the file of the build is %s", got)
	}
}

// k8s.io/api is copied only of a program of v0.35 that is raised.
func TestBringBack(t *testing.T) {
	raised := map[string]string{apiPath: raisedTo}
	for _, tt := range []struct {
		mods   []module
		raised map[string]string
		copies bool
	}{
		{nil, raised, false}, {[]module{{Path: apiPath, Version: "v0.35.2"}}, nil, false},
		{[]module{{Path: apiPath, Version: "v0.34.2"}}, raised, false},
		{[]module{{Path: apiPath, Version: "v1.35.2"}}, raised, false},
		{[]module{{Path: "m"}, {Path: apiPath, Version: "v0.35.2"}}, raised, true},
	} {
		// Where go is not to run, it would fail.
		b := &builder{dir: filepath.Join(t.TempDir(), "none"), env: map[string]string{}}
		if err := b.bringBack(tt.mods, tt.raised); (err != nil) != tt.copies {
			t.Errorf("%+v, raised %v: %v", tt.mods, tt.raised, err)
		}
	}
}

// The program does not get a k8s.io/api in which the type is missing all the same.
func TestBringBackFails(t *testing.T) {
	const mod = "module m\n\ngo 1.26.0\n\nrequire k8s.io/api v0.36.3\n\nreplace k8s.io/api => ./api\n"
	dir := write(t, map[string]string{"go.mod": mod, "api/go.mod": "module k8s.io/api\n",
		"api/core/v1/types.go": "package v1\n", "file": ""})
	mods, raised := []module{{Path: apiPath, Version: "v0.35.2"}}, map[string]string{apiPath: raisedTo}
	made, no := filepath.Join(t.TempDir(), "cache"), filepath.Join(dir, "file")
	for cache, fails := range map[string]bool{made: false, no: true} {
		b := &builder{dir: dir, tmp: write(t, map[string]string{"lw.mod": mod}), cache: cache, env: map[string]string{}}
		err := b.bringBack(mods, raised)
		used := strings.Contains(files(t, b.tmp)["lw.mod"], "replace k8s.io/api => "+cache)
		if (err != nil) != fails || used == fails {
			t.Errorf("in %s: %v, the copy is used: %t", cache, err, used)
		}
	}
}

// A file that cannot be added to the overlay ends the build, whichever it is.
func TestAddedFails(t *testing.T) {
	src := write(t, map[string]string{"main.go": "package main\n\nfunc main() {}\n"})
	for name, tt := range map[string]struct {
		dir   string
		files []string
		fails bool
	}{
		"all is there":          {t.TempDir(), []string{"main.go"}, false},
		"no file to read":       {t.TempDir(), []string{"none.go", "main.go"}, true},
		"no folder, no files":   {filepath.Join(src, "none"), nil, true},
		"no folder to write to": {filepath.Join(src, "none"), []string{"main.go"}, true},
	} {
		p := pkg{Dir: src, Name: "main", GoFiles: tt.files}
		err := added{dir: tt.dir, replace: map[string]string{}}.program(p, "kept")
		if (err != nil) != tt.fails {
			t.Errorf("%s: %v", name, err)
		}
	}
}
