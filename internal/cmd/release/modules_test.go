package main

import (
	"encoding/json"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// A gomod is what matters here of a go.mod file.
type gomod struct {
	Module  struct{ Path string }
	Go      string
	Require []struct{ Path, Version string }
	Replace []struct {
		Old struct{ Path string }
		New struct{ Path string }
	}
}

// Whatever a module of this repository requires of the others, it requires at the version to be
// released, and takes from the checkout. A module that is published requires none that is not.
func TestModules(t *testing.T) {
	root := filepath.Join("..", "..", "..")
	mods := map[string]gomod{} // by directory
	err := fs.WalkDir(os.DirFS(root), ".", func(file string, d fs.DirEntry, err error) error {
		if err == nil && d.IsDir() && (d.Name() == ".git" || d.Name() == ".cache" || d.Name() == "testdata") {
			return fs.SkipDir
		}
		if err != nil || d.Name() != "go.mod" {
			return err
		}
		out, err := output(t.Context(), root, nil, "go", "mod", "edit", "-json", filepath.FromSlash(file))
		if err != nil {
			return err
		}
		var m gomod
		err = json.Unmarshal([]byte(out), &m)
		mods[path.Dir(file)] = m
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	base := mods["."].Module.Path
	if len(mods["."].Replace) > 0 || base == "" {
		t.Errorf("the module %q replaces %v", base, mods["."].Replace)
	}
	ours := func(module string) bool { return module == base || strings.HasPrefix(module, base+"/") }
	isPublished := map[string]bool{}
	for _, dir := range published {
		isPublished[dir] = true
		if _, ok := mods[dir]; !ok {
			t.Errorf("there is no module in %s", dir)
		}
	}
	for dir, m := range mods {
		if want := strings.TrimSuffix(base+"/"+dir, "/."); m.Module.Path != want {
			t.Errorf("%s: module %s, want %s", dir, m.Module.Path, want)
		}
		if m.Go != mods["."].Go {
			t.Errorf("%s: go %s, want %s", dir, m.Go, mods["."].Go)
		}
		required, replaced := map[string]string{}, map[string]string{}
		for _, r := range m.Require {
			if !ours(r.Path) {
				continue
			}
			of := path.Clean("." + strings.TrimPrefix(r.Path, base))
			required[r.Path] = of
			if r.Version != version {
				t.Errorf("%s: %s %s is required, want %s", dir, r.Path, r.Version, version)
			}
			if !isPublished[of] {
				t.Errorf("%s: %s is required, and not published", dir, r.Path)
			}
		}
		for _, r := range m.Replace {
			if ours(r.Old.Path) {
				replaced[r.Old.Path] = path.Join(dir, r.New.Path)
			}
		}
		if diff := cmp.Diff(required, replaced); diff != "" {
			t.Errorf("%s: required and replaced (-want +got):\n%s", dir, diff)
		}
	}
}
