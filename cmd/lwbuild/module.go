package main

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"io"
	"maps"
	"os"
	"path/filepath"
	"runtime"
	"runtime/debug"
	"slices"
	"strings"
)

const (
	lwPath    = "github.com/go-lw/lw"
	ownPath   = lwPath + "/cmd/lwbuild"
	hookPath  = lwPath + "/clientgo/hook"
	cachePath = clientGoPath + "/tools/cache"
)

// environment reads the environment of go.
func (b *builder) environment() error {
	cmd := b.goCommand("env", "-json", "GOMOD", "GOWORK", "GOFLAGS")
	cmd.Env = nil
	out, err := output(cmd)
	if err != nil {
		return err
	}
	if err := json.Unmarshal(out, &b.env); err != nil {
		return err
	}
	if mod := b.env["GOMOD"]; mod == "" || mod == os.DevNull {
		return errors.New("there is no go.mod here; next: cd into the folder of the program's module")
	}
	var flags []string
	for flag := range strings.FieldsSeq(b.env["GOFLAGS"]) {
		if name, _, _ := strings.Cut(strings.TrimLeft(flag, "-"), "="); name != "mod" && name != "modfile" && name != "overlay" {
			flags = append(flags, flag)
		}
	}
	vendored := strings.Contains(b.env["GOFLAGS"], "-mod=vendor") || !strings.Contains(b.env["GOFLAGS"], "-mod=")
	b.env["GOFLAGS"] = strings.Join(flags, " ")
	if _, err := os.Stat(filepath.Join(b.root(), "vendor", "modules.txt")); err != nil || !vendored {
		return nil
	}
	b.env["VENDOR"] = filepath.Join(b.root(), "vendor")
	if b.inWorkspace() {
		return nil // go work vendor has another folder
	}
	_, err = output(b.goCommand("list", "-mod=vendor", "-e", "-f", "{{.Name}}", "."))
	return err
}

func (b *builder) root() string { return filepath.Dir(b.env["GOMOD"]) }

// list returns the modules of the build, as the file of this build or the workspace has them.
func (b *builder) list(workspace bool) (mods []module, err error) {
	args := []string{"list", "-mod=mod", "-modfile=" + b.modfile(), "-m", "-json", "all"}
	cmd := b.goCommand(args...)
	if workspace {
		work, err := b.workspace()
		if err != nil {
			return nil, err
		}
		cmd = b.goCommand("list", "-m", "-json", "all")
		cmd.Env = append(cmd.Env, "GOWORK="+work)
	}
	out, err := output(cmd)
	if err != nil {
		return nil, err
	}
	return decodeAll[module](out)
}

func decodeAll[T any](data []byte) (all []T, err error) {
	for d := json.NewDecoder(bytes.NewReader(data)); ; {
		var v T
		if err := d.Decode(&v); errors.Is(err, io.EOF) {
			return all, nil
		} else if err != nil {
			return nil, err
		}
		all = append(all, v)
	}
}

// copyModule writes the go.mod of the build and its sums, those of the files of lw among them.
func (b *builder) copyModule(lwSums []string) error {
	data, err := os.ReadFile(b.env["GOMOD"])
	if err != nil {
		return err
	}
	if err := os.WriteFile(b.modfile(), data, 0o666); err != nil {
		return err
	}
	sums := []string{filepath.Join(b.root(), "go.sum")}
	var edits []string
	if b.inWorkspace() {
		sums = append(sums, filepath.Join(b.tmp, "lw.work.sum"))
		members, err := b.list(true)
		if err != nil {
			return err
		}
		edits = workspaceEdits(members, b.root())
	}
	var sum []byte
	for _, file := range append(sums, lwSums...) {
		if data, err := os.ReadFile(file); err == nil {
			sum = append(sum, data...)
		}
	}
	if err := os.WriteFile(strings.TrimSuffix(b.modfile(), ".mod")+".sum", sum, 0o666); err != nil {
		return err
	}
	return b.edit(edits)
}

// modules writes the go.mod of the build, and returns what became of the versions.
func (b *builder) modules() (versions string, err error) {
	info, _ := debug.ReadBuildInfo()
	lw, lwSums, err := lwEdits(info)
	if err != nil {
		return "", err
	}
	if err := b.copyModule(lwSums); err != nil {
		return "", err
	}
	mods, err := b.list(false)
	if err != nil {
		return "", err
	}
	at := slices.IndexFunc(mods, func(m module) bool { return m.Path == clientGoPath })
	if at < 0 {
		return "", errors.New("the module does not use " + clientGoPath + ": there are no informers to replace")
	}
	of, known := minor(mods[at].version())
	if mods[at].fork() {
		if of, known, err = b.minorOfFork(mods[at]); err != nil {
			return "", err
		}
	}
	d, err := decide(mods, mods[at], of, known, b.keep)
	if err != nil {
		return "", err
	}
	if err := b.edit(append(lw, d.edits(mods)...)); err != nil {
		return "", err
	}
	if b.cache == "" {
		user, err := os.UserCacheDir()
		if err != nil {
			return "", err
		}
		b.cache = filepath.Join(user, "lwbuild")
	}
	if err := b.bringBack(mods, d.raise); err != nil {
		return "", err
	}
	return d.says, b.patch(clientGoPath)
}

// patchManager patches controller-runtime, if one of the packages uses its cache. A program that is
// part of controller-runtime stays as it is.
func (b *builder) patchManager(pkgs []pkg) error {
	if !slices.ContainsFunc(pkgs, func(p pkg) bool { return slices.Contains(p.Deps, controllerRuntime+"/pkg/cache") }) {
		return nil
	}
	mods, err := b.list(false)
	if err != nil {
		return err
	}
	if slices.ContainsFunc(mods, func(m module) bool { return m.Path == controllerRuntime && m.Main }) {
		return nil
	}
	if err = b.patch(controllerRuntime); !errors.Is(err, errUnknown) {
		return err
	}
	fmt.Fprintf(b.stderr, "lwbuild: %v; it stays as it is, so with LW_KINDS=wait its caches need their kinds at the start\n", err)
	return nil
}

// patch replaces the module of that path by a patched copy.
func (b *builder) patch(path string) error {
	from, err := b.source(path)
	if err != nil {
		return err
	}
	dir, err := from.patched(b.cache)
	if err != nil {
		return fmt.Errorf("%s %s: %w; next: a newer lwbuild", path, from.name, err)
	}
	return b.edit([]string{"-replace=" + path + "=" + dir})
}

// lwEdits add lw: the version that lwbuild itself has, or the checkout that it was built from.
func lwEdits(info *debug.BuildInfo) (edits, sums []string, err error) {
	if info != nil && info.Main.Path == ownPath && info.Main.Sum != "" {
		for _, path := range []string{lwPath, lwPath + "/clientgo"} {
			edits = append(edits, "-require="+path+"@"+info.Main.Version)
		}
		return edits, nil, nil
	}
	_, file, _, _ := runtime.Caller(0)
	root := filepath.Dir(filepath.Dir(filepath.Dir(file)))
	if _, err := os.Stat(filepath.Join(root, "clientgo", "go.mod")); err != nil || !filepath.IsAbs(root) {
		return nil, nil, errors.New("lwbuild does not know where lw is: it was neither downloaded nor built in a checkout that is still there; next: go run " + ownPath + "@latest, or build it without -trimpath")
	}
	for path, dir := range map[string]string{lwPath: ".", lwPath + "/clientgo": "clientgo"} {
		dir = filepath.Join(root, dir)
		edits = append(edits, "-require="+path+"@v0.1.0", "-replace="+path+"="+dir)
		sums = append(sums, filepath.Join(dir, "go.sum"))
	}
	slices.Sort(edits)
	return edits, sums, nil
}

// edit changes the go.mod of the build.
func (b *builder) edit(edits []string) error {
	if len(edits) == 0 {
		return nil
	}
	_, err := output(b.goCommand(append(append([]string{"mod", "edit"}, edits...), b.modfile())...))
	return err
}

// minorOfFork tells the version of a fork by the apimachinery that it requires.
func (b *builder) minorOfFork(m module) (of int, known bool, err error) {
	if m.Replace.Dir == "" {
		if err := b.download(&m); err != nil {
			return 0, false, err
		}
	}
	out, err := output(b.goCommand("mod", "edit", "-json", filepath.Join(m.Replace.Dir, "go.mod")))
	if err != nil {
		return 0, false, err
	}
	var file struct {
		Require []struct{ Path, Version string }
	}
	if err := json.Unmarshal(out, &file); err != nil {
		return 0, false, err
	}
	for _, r := range file.Require {
		if r.Path == "k8s.io/apimachinery" {
			of, known = minor(r.Version)
		}
	}
	return of, known, nil
}

// download fetches m, and sets its folder.
func (b *builder) download(m *module) error {
	if _, err := output(b.goCommand("mod", "download", "-modfile="+b.modfile(), m.Path)); err != nil {
		return err
	}
	out, err := output(b.goCommand("list", "-mod=mod", "-modfile="+b.modfile(), "-m", "-json", m.Path))
	if err != nil {
		return err
	}
	*m = module{}
	return json.Unmarshal(out, m)
}

// source returns the module to patch, which is that of the build before the patch.
func (b *builder) source(path string) (origin, error) {
	m := module{Path: path}
	if err := b.download(&m); err != nil {
		return origin{}, err
	}
	from := origin{path: path, name: m.version(), dir: m.Dir}
	if m.fork() {
		from.name = strings.TrimSuffix(m.Replace.Path+"@"+m.Replace.Version, "@")
		fmt.Fprintf(b.stderr, "lwbuild: %s is replaced by %s: a copy of that is patched\n", path, from.name)
	}
	if b.env["VENDOR"] == "" {
		return from, nil
	}
	vendored, changed := filepath.Join(b.env["VENDOR"], path), 0
	if _, err := os.Stat(vendored); err != nil {
		return from, nil
	}
	err := eachFile(vendored, func(name string, data []byte) error {
		if original, err := os.ReadFile(filepath.Join(from.dir, filepath.FromSlash(name))); err != nil || !bytes.Equal(original, data) {
			changed++
		}
		return nil
	})
	if changed > 0 {
		from.vendor = vendored
		fmt.Fprintf(b.stderr, "lwbuild: %d files of vendor/%s differ from %s: they are used; changes to other vendored modules are not\n", changed, path, from.name)
	}
	return from, err
}

// A pkg is what go list -json says of a package.
type pkg struct {
	Dir, ImportPath, Name, ForTest     string
	GoFiles, TestGoFiles, XTestGoFiles []string
	Deps                               []string
}

const addedFile = `package %s

import (
	lwhook %q
	lwmeta "k8s.io/apimachinery/pkg/api/meta"
	lwrest "k8s.io/client-go/rest"
	lwcache %q
	lwhttp "net/http"
)

func init() {
	lwcache.LWInformer, lwcache.LWController, lwcache.LWReflector = lwhook.Informer, lwhook.Controller, lwhook.Reflector
	lwrest.LWClient = lwhook.Client
	lwhook.Start(%q, %v)
	if !lwhook.Waits() {
		return
	}
	lwcache.LWKinds = func(m lwmeta.RESTMapper, url string, client *lwhttp.Client, narrow bool) lwcache.LWMapper {
		if waits := lwhook.Kinds(m, url, client, narrow); waits != nil {
			return waits
		}
		return nil
	}
}
`

// overlay writes the added files, and returns the file for -overlay.
func (b *builder) overlay(pkgs []pkg, versions string) (string, error) {
	using := map[string]bool{} // the packages whose program or test binary has informers
	mains := 0
	for _, p := range pkgs {
		if slices.ContainsFunc(p.Deps, func(dep string) bool { return dep == cachePath || strings.HasPrefix(dep, cachePath+" ") }) {
			using[strings.TrimSuffix(p.ImportPath, ".test")] = true
		}
		if p.Name == "main" && !p.ofTest() {
			mains++
		}
	}
	files := added{dir: b.tmp, replace: map[string]string{}}
	for _, p := range pkgs {
		var err error
		switch {
		case p.ofTest() || !using[p.ImportPath]:
		case b.test && len(p.TestGoFiles)+len(p.XTestGoFiles) > 0:
			err = files.put(p.Dir, "zz_lwbuild_test.go", fmt.Sprintf(addedFile, p.Name, hookPath, cachePath, versions, true))
		case !b.test && p.Name == "main":
			err = files.program(p, versions)
		}
		if err != nil {
			return "", err
		}
	}
	switch patterns := strings.Join(b.patterns, " "); {
	case len(files.replace) > 0:
	case b.test:
		return "", fmt.Errorf("no tests of %q use informers of client-go; next: name ./..., or packages whose tests do", patterns)
	case mains == 0:
		return "", fmt.Errorf("there is no main package in %q; next: name one, such as ./cmd/manager", patterns)
	default:
		return "", fmt.Errorf("the program %q uses no informers of client-go: there is nothing to replace", patterns)
	}
	data, err := json.Marshal(map[string]any{"Replace": files.replace})
	if err != nil {
		return "", err
	}
	file := filepath.Join(b.tmp, "overlay.json")
	return file, os.WriteFile(file, data, 0o666)
}

// packages are those of the patterns, and with -test also those of their test binaries.
func (b *builder) packages() ([]pkg, error) {
	args := []string{"list", "-mod=mod", "-modfile=" + b.modfile(), "-json=Dir,ImportPath,Name,ForTest,GoFiles,TestGoFiles,XTestGoFiles,Deps"}
	if b.test {
		args = append(args, "-test")
	}
	out, err := output(b.goCommand(append(append(args, b.listFlags...), b.patterns...)...))
	if err != nil {
		return nil, err
	}
	return decodeAll[pkg](out)
}

// ofTest reports whether the package exists only in a test binary.
func (p pkg) ofTest() bool { return p.ForTest != "" || strings.HasSuffix(p.ImportPath, ".test") }

// added are the files of an overlay, which lie in dir.
type added struct {
	dir     string
	replace map[string]string // the path of the program, and where the file lies
}

func (a added) put(of, name, text string) error {
	to := filepath.Join(a.dir, fmt.Sprintf("%d_%s", len(a.replace), name))
	a.replace[filepath.Join(of, name)] = to
	return os.WriteFile(to, []byte(text), 0o666)
}

// program adds to p, a main package, the hook and the report at its ends.
func (a added) program(p pkg, versions string) error {
	err := a.put(p.Dir, "zz_lwbuild.go", fmt.Sprintf(addedFile, p.Name, hookPath, cachePath, versions, false)+
		"\nfunc lwbuildEnd() { lwhook.End() }\n\nfunc lwbuildExit(code int) int { return lwhook.Exit(code) }\n")
	for _, name := range p.GoFiles {
		if err != nil {
			return err
		}
		var src []byte
		if src, err = os.ReadFile(filepath.Join(p.Dir, name)); err != nil {
			return err
		}
		if ends, changed := atEnd(name, src); changed {
			err = a.put(p.Dir, name, string(ends))
		}
	}
	return err
}

// atEnd returns src, a file of a main package, with the report at the end of main and before
// os.Exit. No line moves.
func atEnd(name string, src []byte) (out []byte, changed bool) {
	set := token.NewFileSet()
	file, err := parser.ParseFile(set, name, src, parser.SkipObjectResolution)
	if err != nil {
		return src, false // go says what is wrong
	}
	texts := map[int]string{}
	ast.Inspect(file, func(n ast.Node) bool {
		switch n := n.(type) {
		case *ast.FuncDecl:
			if n.Name.Name == "main" && n.Recv == nil && n.Body != nil {
				texts[set.Position(n.Body.Lbrace).Offset+1] = " defer lwbuildEnd(); "
			}
		case *ast.CallExpr:
			if typeName(n.Fun) == "os.Exit" && len(n.Args) == 1 {
				texts[set.Position(n.Lparen).Offset+1] = "lwbuildExit("
				texts[set.Position(n.Rparen).Offset] = ")"
			}
		}
		return true
	})
	last := 0
	for _, at := range slices.Sorted(maps.Keys(texts)) {
		out = append(append(out, src[last:at]...), texts[at]...)
		last = at
	}
	return append(out, src[last:]...), len(texts) > 0
}
