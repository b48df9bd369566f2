package clientgo

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
)

// A module is a version of a Go module.
type module struct{ Path, Version string }

// A workspace is a temporary module in which upstream's packages are built on lw.
type workspace struct {
	dir      string // has go.mod
	clientGo string // the copy of client-go
	race     bool   // build with the race detector
}

// newWorkspace makes a workspace in the empty directory dir, for the packages of clientGo and,
// unless its Path is "", of target. checkout is the directory of lw. The modules that target
// replaces by directories of its own repository are replaced by their releases, of clientGo's
// version.
func newWorkspace(ctx context.Context, dir, checkout string, clientGo, target module, race bool) (*workspace, error) {
	w := &workspace{dir: dir, clientGo: filepath.Join(dir, "client-go"), race: race}
	src, err := w.download(ctx, clientGo)
	if err != nil {
		return nil, err
	}
	if err := os.CopyFS(w.clientGo, os.DirFS(src)); err != nil {
		return nil, err
	}
	sums := []string{filepath.Join(checkout, "clientgo", "go.sum"), filepath.Join(src, "go.sum")}
	requires := []module{{"github.com/go-lw/lw", "v0.0.0"}, {"github.com/go-lw/lw/clientgo", "v0.0.0"}, clientGo}
	replaces := map[string]string{
		"github.com/go-lw/lw":          checkout,
		"github.com/go-lw/lw/clientgo": filepath.Join(checkout, "clientgo"),
		clientGo.Path:                  w.clientGo,
	}
	if target.Path != "" {
		src, err := w.download(ctx, target)
		if err != nil {
			return nil, err
		}
		staging, err := w.staging(ctx, src, clientGo)
		if err != nil {
			return nil, err
		}
		for _, path := range staging {
			if replaces[path] == "" {
				replaces[path] = path + " " + clientGo.Version
			}
		}
		requires = append(requires, target)
		sums = append(sums, filepath.Join(src, "go.sum"))
	}
	if err := w.writeModule(requires, replaces, sums); err != nil {
		return nil, err
	}
	return w, w.hook()
}

// download returns the directory of m in the module cache.
func (w *workspace) download(ctx context.Context, m module) (string, error) {
	out, err := w.command(ctx, os.TempDir(), "mod", "download", "-json", m.Path+"@"+m.Version)
	if err != nil {
		return "", err
	}
	var found struct{ Dir string }
	if err := json.Unmarshal(out, &found); err != nil {
		return "", fmt.Errorf("upstream: go mod download %s: %w", m.Path, err)
	}
	return found.Dir, nil
}

// staging returns the modules that the module in dir replaces by directories of its own, or
// requires in the version of clientGo: these are of one release, and lw asks for a newer one.
func (w *workspace) staging(ctx context.Context, dir string, clientGo module) ([]string, error) {
	out, err := w.command(ctx, dir, "mod", "edit", "-json")
	if err != nil {
		return nil, err
	}
	var mod struct {
		Require []module
		Replace []struct{ Old, New module }
	}
	if err := json.Unmarshal(out, &mod); err != nil {
		return nil, fmt.Errorf("upstream: go.mod in %s: %w", dir, err)
	}
	var paths []string
	for _, r := range mod.Replace {
		if strings.HasPrefix(r.New.Path, "./") {
			paths = append(paths, r.Old.Path)
		}
	}
	for _, m := range mod.Require {
		if strings.HasPrefix(m.Path, "k8s.io/") && m.Version == clientGo.Version {
			paths = append(paths, m.Path)
		}
	}
	return paths, nil
}

// writeModule writes go.mod, and a go.sum with the lines of the files sums. The go command adds
// what is missing in both.
func (w *workspace) writeModule(requires []module, replaces map[string]string, sums []string) error {
	var mod strings.Builder
	mod.WriteString("module lwupstream\n\ngo 1.26.0\n\nrequire (\n")
	for _, r := range requires {
		fmt.Fprintf(&mod, "\t%s %s\n", r.Path, r.Version)
	}
	mod.WriteString(")\n\nreplace (\n")
	for path, with := range replaces {
		fmt.Fprintf(&mod, "\t%s => %s\n", path, with)
	}
	mod.WriteString(")\n")
	if err := os.WriteFile(filepath.Join(w.dir, "go.mod"), []byte(mod.String()), 0o644); err != nil {
		return err
	}
	var lines []string
	for _, file := range sums {
		content, err := os.ReadFile(file)
		if errors.Is(err, os.ErrNotExist) {
			continue
		}
		if err != nil {
			return err
		}
		lines = append(lines, strings.SplitAfter(string(content), "\n")...)
	}
	slices.Sort(lines)
	return os.WriteFile(filepath.Join(w.dir, "go.sum"), []byte(strings.Join(slices.Compact(lines), "")), 0o644)
}

// hooked are the packages of client-go that link lwhook: a test binary with a generated factory, a
// dynamic one, or a clientset has one of them.
var hooked = []string{"informers", "kubernetes", "dynamic/dynamicinformer", "metadata/metadatainformer"}

// hook changes the copy of client-go so that its informers are those of lwhook.
func (w *workspace) hook() error {
	if err := os.CopyFS(filepath.Join(w.clientGo, "lwhook"), os.DirFS(filepath.Join("testdata", "lwhook"))); err != nil {
		return err
	}
	if err := w.rewrite("tools/cache/shared_informer.go", hookConstructor); err != nil {
		return err
	}
	if err := w.rewrite("tools/cache/reflector.go", hookReflector); err != nil {
		return err
	}
	for _, name := range []string{"hook", "hook_lister"} {
		if err := w.add("testdata/cache/"+name+".go", "tools/cache/lw_"+name+".go"); err != nil {
			return err
		}
	}
	for _, dir := range hooked {
		name := filepath.Base(dir)
		file := fmt.Sprintf("package %s\n\nimport _ \"k8s.io/client-go/lwhook\"\n", name)
		if err := os.WriteFile(filepath.Join(w.clientGo, dir, "lw_hook.go"), []byte(file), 0o644); err != nil {
			return err
		}
	}
	return nil
}

// rewrite changes the file of the copy of client-go.
func (w *workspace) rewrite(file string, change func(string) (string, error)) error {
	path := filepath.Join(w.clientGo, file)
	src, err := os.ReadFile(path)
	if err != nil {
		return err
	}
	changed, err := change(string(src))
	if err != nil {
		return err
	}
	return os.WriteFile(path, []byte(changed), 0o644)
}

// add copies the file from of this directory to the file of the copy of client-go.
func (w *workspace) add(from, file string) error {
	content, err := os.ReadFile(from)
	if err != nil {
		return err
	}
	return os.WriteFile(filepath.Join(w.clientGo, file), content, 0o644)
}

// build compiles the tests of the package.
func (w *workspace) build(ctx context.Context, pkg string) (*binary, error) {
	b := &binary{pkg: pkg, path: filepath.Join(w.dir, "upstream.test")}
	args := []string{"test", "-c", "-mod=mod", "-vet=off", "-ldflags=-s -w", "-o", b.path}
	if w.race {
		args = append(args, "-race")
	}
	if _, err := w.command(ctx, w.dir, append(args, pkg)...); err != nil {
		return nil, err
	}
	dir, err := w.command(ctx, w.dir, "list", "-mod=mod", "-f", "{{.Dir}}", pkg)
	if err != nil {
		return nil, err
	}
	b.dir = strings.TrimSpace(string(dir))
	return b, nil
}

// command runs the go command and returns its standard output.
func (w *workspace) command(ctx context.Context, dir string, args ...string) ([]byte, error) {
	cmd := exec.CommandContext(ctx, "go", args...)
	cmd.Dir = dir
	cmd.Env = append(os.Environ(), "GOWORK=off", "PWD="+dir)
	var stderr bytes.Buffer
	cmd.Stderr = &stderr
	out, err := cmd.Output()
	if err != nil {
		return nil, fmt.Errorf("upstream: go %s: %w\n%s", strings.Join(args, " "), err, stderr.Bytes())
	}
	return out, nil
}
