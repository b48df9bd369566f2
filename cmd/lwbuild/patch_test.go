package main

import (
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// unpatched returns the files of a module that its patch fits.
func unpatched(of string) map[string]string {
	all := map[string]string{"go.mod": "module " + of + "\n", "tools/cache/store.go": "package cache\n",
		"tools/cache/store_test.go": "package cache\n", "testdata/x.go": "no Go"}
	for _, in := range patches[of].insertions {
		if all[in.file] == "" {
			all[in.file] = "package " + filepath.Base(filepath.Dir(in.file)) + "\n"
		}
		var params []string
		for i, param := range in.params {
			params = append(params, fmt.Sprintf("p%d %s", i, param))
		}
		switch of, method, ok := strings.Cut(in.name, "."); {
		case in.params == nil:
			all[in.file] += "\ntype " + of + " struct {\n}\n"
		case ok:
			all[in.file] += "\nfunc (" + params[0] + ") " + method + "(" + strings.Join(params[1:], ", ") + ") {\n}\n"
		default:
			all[in.file] += "\nfunc " + of + "(" + strings.Join(params, ", ") + ") {\n}\n"
		}
	}
	return all
}

// A patched copy has the files that a build needs, those of vendor before the module's. One that
// cannot be made whole is not there.
func TestPatched(t *testing.T) {
	for of := range patches {
		t.Run(of, func(t *testing.T) { testPatched(t, of) })
	}
}

func testPatched(t *testing.T, of string) {
	const own = "package cache\n\n// Mark is the program's own change.\nconst Mark = 1\n"
	module := unpatched(of)
	from := origin{path: of, name: "v0.36.0", dir: write(t, module),
		vendor: write(t, map[string]string{"tools/cache/store.go": own})}
	cache := t.TempDir()
	dir := must[string](t)(from.patched(cache))
	want := maps.Clone(module)
	delete(want, "tools/cache/store_test.go")
	delete(want, "testdata/x.go")
	want["tools/cache/store.go"] = own
	maps.Copy(want, patches[of].files)
	got := map[string]string{}
	for path, text := range tree(t, dir) {
		name := must[string](t)(filepath.Rel(dir, path))
		got[filepath.ToSlash(name)] = text
	}
	for _, in := range patches[of].insertions {
		if got[in.file] == module[in.file] || !strings.Contains(strings.ToLower(got[in.file]), "lw") {
			t.Errorf("%s has no patch:\n%s", in.file, got[in.file])
		}
		want[in.file] = got[in.file]
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("the copy (-want +got):\n%s", diff)
	}
	if again := must[string](t)(from.patched(cache)); again != dir {
		t.Errorf("the second is %s, the first %s", again, dir)
	}

	missing := filepath.Join(t.TempDir(), "missing")
	for name, broken := range map[string]origin{
		"the module is not there": {path: of, name: "v0.36.1", dir: missing},
		"vendor is not there":     {path: of, name: "v0.36.1", dir: from.dir, vendor: missing},
		"a file is not there":     {path: of, name: "v0.36.1", dir: from.vendor},
	} {
		cache := t.TempDir()
		if dir, err := broken.patched(cache); err == nil {
			t.Errorf("%s: %s is made", name, dir)
		}
		if left := must[[]os.DirEntry](t)(os.ReadDir(cache)); len(left) > 0 {
			t.Errorf("%s: %v stays", name, left)
		}
	}
	for _, broken := range []origin{{path: of, dir: missing}, {path: of, dir: from.dir, vendor: missing}} {
		// What cannot be read is not one that the patch does not fit, and a build without the
		// program's own changes to vendor/ is none.
		if err := broken.write(t.TempDir()); !errors.Is(err, fs.ErrNotExist) || errors.Is(err, errUnknown) {
			t.Errorf("%+v: %v", broken, err)
		}
	}
}

// A raised program finds the type that is gone from k8s.io/api. One that has it is used as it is.
func TestCompleted(t *testing.T) {
	module := func(types string) module {
		return module{Path: apiPath, Version: raisedTo, Dir: write(t, map[string]string{
			"go.mod": "module k8s.io/api\n", "core/v1/types.go": types, "core/v1/types_test.go": "package v1\n"})}
	}
	cache := t.TempDir()
	lacks, has := module("package v1\n"), module("package v1\n"+goneType+"{}\n")
	dir := must[string](t)(completed(cache, lacks))
	want := map[string]string{
		filepath.Join(dir, "go.mod"):                     "module k8s.io/api\n",
		filepath.Join(dir, "core", "v1", "types.go"):     "package v1\n",
		filepath.Join(dir, filepath.FromSlash(goneName)): goneFile,
	}
	if diff := cmp.Diff(want, tree(t, dir)); diff != "" || !strings.HasPrefix(dir, cache) {
		t.Errorf("%s (-want +got):\n%s", dir, diff)
	}
	if !strings.Contains(goneFile, goneType) {
		t.Errorf("%s has no %q", goneFile, goneType)
	}
	if got := must[string](t)(completed(cache, has)); got != has.Dir {
		t.Errorf("a copy of what has the type: %s", got)
	}
}

// The patch moves no line, and refuses what it does not know.
func TestInsert(t *testing.T) {
	const src = "package cache\n\ntype InformerOptions struct {\n\tA int\n}\n\nfunc NewInformerWithOptions(o InformerOptions) (Store, Controller) {\n\treturn nil, nil\n}\n"
	all := []insertion{patches[clientGoPath].insertions[1], patches[clientGoPath].insertions[3]}
	got, err := insert("x.go", []byte(src), all)
	want := strings.Replace(strings.Replace(src, "struct {", "struct { lwPlain bool", 1), "Controller) {",
		"Controller) { if LWController != nil && !o.lwPlain { o.lwPlain = true; return LWController(o) }", 1)
	if diff := cmp.Diff(want, string(got)); err != nil || diff != "" {
		t.Errorf("%v (-want +got):\n%s", err, diff)
	}
	for _, changed := range []string{
		strings.Replace(src, "o InformerOptions", "o *InformerOptions", 1),
		strings.Replace(src, "NewInformerWithOptions", "New", 1),
		strings.Replace(src, "type InformerOptions", "type Options", 1), "no Go", src + "\nfunc {\n",
	} {
		if _, err := insert("x.go", []byte(changed), all); err == nil || !strings.Contains(err.Error(), errUnknown.Error()) {
			t.Errorf("%v of:\n%s", err, changed)
		}
	}
}

// A folder of the cache appears whole or not at all, whoever makes it first.
func TestWhole(t *testing.T) {
	put := func(dir, text string) error { return putIn(dir)("a/x", []byte(text)) }
	of := func(cache, text string) map[string]string {
		return map[string]string{filepath.Join(cache, "m", "a", "x"): text}
	}
	for name, tt := range map[string]struct {
		write func(cache, dir string) error
		fails bool
		want  string // what is in the file; "": there is none
	}{
		"it is made":    {func(_, dir string) error { return put(dir, "own") }, false, "own"},
		"it fails":      {func(_, dir string) error { return errors.Join(put(dir, "half"), errUnknown) }, true, ""},
		"it is nothing": {func(string, string) error { return nil }, true, ""},
		"another is faster": {func(cache, dir string) error {
			return errors.Join(put(filepath.Join(cache, "m"), "other"), put(dir, "own"))
		}, false, "other"},
	} {
		t.Run(name, func(t *testing.T) {
			cache := filepath.Join(t.TempDir(), "cache")
			got, err := whole(cache, "m", func(dir string) error { return tt.write(cache, dir) })
			want := map[string]string{}
			if tt.want != "" {
				want = of(cache, tt.want)
			}
			if diff := cmp.Diff(want, tree(t, cache)); diff != "" || (err != nil) != tt.fails {
				t.Errorf("%v (-want +got):\n%s", err, diff)
			}
			if err != nil {
				return
			}
			again := must[string](t)(whole(cache, "m", func(string) error { return errUnknown }))
			if to := filepath.Join(cache, "m"); got != to || again != to {
				t.Errorf("the folder %s, again %s, want %s", got, again, to)
			}
		})
	}
}
