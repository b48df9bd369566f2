package main

import (
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// The copy of a workspace has its sums, and go changes neither file of the program.
func TestWorkspace(t *testing.T) {
	const work = "go 1.26.0\n\nuse (\n\t.\n\t./member\n)\n\nreplace example.com/other v0.0.0 => ./other\n"
	const sum = "example.com/x v1.0.0 h1:AAAA\n"
	for name, given := range map[string]map[string]string{
		"sums": {"go.work": work, "go.work.sum": sum},
		"none": {"go.work": work},
	} {
		t.Run(name, func(t *testing.T) {
			dir := write(t, given)
			b := &builder{dir: dir, tmp: t.TempDir(), env: map[string]string{"GOWORK": filepath.Join(dir, "go.work")}}
			file := must[string](t)(b.workspace())
			if diff := cmp.Diff(given, files(t, dir)); diff != "" {
				t.Errorf("the workspace has changed (-before +after):\n%s", diff)
			}
			copied := "go 1.26.0\n\nuse (\n\t" + dir + "\n\t" + filepath.Join(dir, "member") +
				"\n)\n\nreplace example.com/other v0.0.0 => " + filepath.Join(dir, "other") + "\n"
			want := map[string]string{filepath.Base(file): copied}
			if given["go.work.sum"] != "" {
				want[filepath.Base(file)+".sum"] = sum
			}
			if diff := cmp.Diff(want, files(t, b.tmp)); diff != "" {
				t.Errorf("the copy (-want +got):\n%s", diff)
			}
		})
	}
	b := &builder{tmp: t.TempDir(), env: map[string]string{"GOWORK": filepath.Join(t.TempDir(), "go.work")}}
	if file, err := b.workspace(); err == nil {
		t.Errorf("a workspace that is not there is %s", file)
	}
	b.env["GOWORK"] = filepath.Join(write(t, map[string]string{"go.work": "no workspace"}), "go.work")
	if file, err := b.workspace(); err == nil || !strings.Contains(err.Error(), "unknown directive") {
		t.Errorf("what is no workspace is %s, %v", file, err)
	}
}

// The members and the versions of a workspace are those of the build.
func TestWorkspaceEdits(t *testing.T) {
	got := workspaceEdits([]module{
		{Path: "m", Main: true, Dir: "/m"}, {Path: "member", Main: true, Dir: "/member"}, {Path: "a", Version: "v1.0.0"},
		{Path: "b", Version: "v1.0.0", Replace: &module{Path: "../b", Dir: "/b"}}, {Path: "c", Version: "v1.0.0",
			Replace: &module{Path: "d", Version: "v2.0.0"}},
	}, "/m")
	want := []string{"-replace=member=/member", "-require=a@v1.0.0", "-require=b@v1.0.0", "-replace=b=/b",
		"-require=c@v1.0.0", "-replace=c=d@v2.0.0"}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}
