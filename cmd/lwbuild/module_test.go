package main

import (
	"bytes"
	stdcmp "cmp"
	"path/filepath"
	"runtime/debug"
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
		want := clientGo{name: "./fork", dir: filepath.Join(dir, "fork")}
		if name != "" {
			b.env["VENDOR"] = filepath.Join(dir, name)
		}
		if differs {
			want.vendor = filepath.Join(dir, name, "k8s.io", "client-go")
		}
		if got := must[clientGo](t)(b.source()); got != want || strings.Contains(said.String(), "differ") != differs ||
			differs && !strings.Contains(said.String(), differ) {
			t.Errorf("%q: %+v, want %+v; it says %s", name, got, want, &said)
		}
	}
	b := &builder{dir: dir, tmp: write(t, map[string]string{"lw.mod": "no module"}), env: map[string]string{}}
	if from, err := b.source(); err == nil || !strings.Contains(err.Error(), "unknown directive") {
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
