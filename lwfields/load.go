package main

import (
	"errors"
	"fmt"
	"go/ast"
	"go/build"
	"go/parser"
	"go/token"
	"go/types"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"sync"

	"golang.org/x/tools/go/packages"
	"golang.org/x/tools/go/ssa"
)

// A pkg is a package of the program or one that it needs.
type pkg struct {
	path, name string
	files      []string
	imports    map[string]*pkg // by the path in the source
	module     string          // path; "" for the standard library
	goVersion  string
	dir        string

	root    bool // the user named it
	own     bool // it is of a module of a root: its lines are the program's
	caching bool // it may make or keep objects that the program has not given it; see isCaching
	source  bool // it is analysed; of the others only declarations are read
	broken  bool // it was to be analysed and does not type-check

	syntax []*ast.File // of declarations alone; kept from round to round
	types  *types.Package
	ssa    *ssa.Package
}

// A program is what is analysed, and the declarations of what it needs.
type program struct {
	fset    *token.FileSet
	pkgs    []*pkg // each after those that it imports
	byPath  map[string]*pkg
	byTypes map[*types.Package]*pkg
	prog    *ssa.Program
	dir     string // positions are printed relative to it
	sizes   types.Sizes
}

// load finds the packages that patterns name, and all that they need. It reads no file.
func load(dir string, patterns, buildFlags []string) (*program, error) {
	cfg := &packages.Config{
		Mode: packages.NeedName | packages.NeedFiles | packages.NeedImports | packages.NeedDeps | packages.NeedModule,
		Dir:  dir,
		// Without cgo there are no files that only a C compiler explains.
		Env:        append(os.Environ(), "CGO_ENABLED=0"),
		BuildFlags: buildFlags,
	}
	roots, err := packages.Load(cfg, patterns...)
	if err != nil {
		return nil, err
	}
	abs, err := filepath.Abs(dir)
	if err != nil {
		return nil, err
	}
	p := &program{fset: token.NewFileSet(), byPath: map[string]*pkg{}, dir: abs, sizes: types.SizesFor("gc", goarch())}
	var errs []error
	packages.Visit(roots, nil, func(l *packages.Package) {
		for _, e := range l.Errors {
			errs = append(errs, e)
		}
		one := &pkg{path: l.PkgPath, name: l.Name, files: l.GoFiles, imports: map[string]*pkg{}}
		if l.Module != nil {
			one.module, one.goVersion = l.Module.Path, "go"+l.Module.GoVersion
			if l.Module.GoVersion == "" {
				one.goVersion = ""
			}
		}
		if len(l.GoFiles) > 0 {
			one.dir = filepath.Dir(l.GoFiles[0])
		}
		for path, to := range l.Imports {
			one.imports[path] = p.byPath[to.PkgPath]
		}
		one.caching = isCaching(one)
		p.pkgs = append(p.pkgs, one)
		p.byPath[one.path] = one
	})
	if len(errs) > 0 {
		return nil, errors.Join(errs[:min(len(errs), 10)]...)
	}
	if len(roots) == 0 {
		return nil, fmt.Errorf("no packages match %s", strings.Join(patterns, " "))
	}
	modules := map[string]bool{}
	for _, r := range roots {
		one := p.byPath[r.PkgPath]
		one.root = true
		modules[one.module] = true
	}
	for _, one := range p.pkgs {
		one.own = one.root || one.module != "" && modules[one.module]
		one.source = one.own || alwaysSource[one.path]
	}
	return p, nil
}

func goarch() string {
	if arch := os.Getenv("GOARCH"); arch != "" {
		return arch
	}
	return build.Default.GOARCH
}

// alwaysSource are small packages that are given parts of objects in almost every program, and some
// that are given whole ones in others and read what identifies them.
var alwaysSource = map[string]bool{
	"slices": true, "maps": true, "iter": true, "cmp": true,
	"k8s.io/apimachinery/pkg/api/meta":     true,
	"k8s.io/apimachinery/pkg/apis/meta/v1": true,
	"k8s.io/utils/ptr":                     true,
	"k8s.io/utils/pointer":                 true,
	"golang.org/x/exp/maps":                true,
	"golang.org/x/exp/slices":              true,

	"k8s.io/component-helpers/storage/ephemeral": true,
}

// isCaching reports whether a package, or one that it imports, knows how to make an object of a
// type that it was not given: by apimachinery's schemes. No other library has objects of which the
// program has not told it.
func isCaching(p *pkg) bool {
	if p.path == "k8s.io/apimachinery/pkg/runtime" || p.path == "github.com/go-lw/lw" {
		return true
	}
	for _, i := range p.imports {
		if i != nil && i.caching {
			return true
		}
	}
	return false
}

// build reads and type-checks all packages, and builds the SSA form of those with source set.
func (p *program) build() error {
	p.byTypes = map[*types.Package]*pkg{}
	errs := map[*pkg][]error{}
	infos := map[*pkg]*types.Info{}
	full := map[*pkg][]*ast.File{}
	var mu sync.Mutex
	ready := map[*pkg]chan struct{}{}
	for _, one := range p.pkgs {
		ready[one] = make(chan struct{})
	}
	slots := make(chan struct{}, max(1, runtime.GOMAXPROCS(0)))
	for _, one := range p.pkgs {
		go func() {
			defer close(ready[one])
			slots <- struct{}{}
			files, err := p.parse(one)
			<-slots
			for _, to := range one.imports {
				if to != nil {
					<-ready[to]
				}
			}
			slots <- struct{}{}
			info, errors := p.check(one, files)
			<-slots
			mu.Lock()
			defer mu.Unlock()
			errs[one], infos[one], full[one] = append(err, errors...), info, files
		}()
	}
	for _, one := range p.pkgs {
		<-ready[one]
	}
	for _, one := range p.pkgs {
		p.byTypes[one.types] = one
		if !one.source || len(errs[one]) == 0 {
			continue
		}
		if one.own {
			return errors.Join(errs[one][:min(len(errs[one]), 10)]...)
		}
		one.broken = true // it is treated as a package that cannot be read
	}
	p.prog = ssa.NewProgram(p.fset, ssa.InstantiateGenerics)
	for _, one := range p.pkgs {
		if one.source && !one.broken {
			files := full[one]
			for _, f := range files {
				if isGenerated(p.fset.File(f.FileStart).Name()) {
					dropBodies(f)
				}
			}
			one.ssa = p.prog.CreatePackage(one.types, files, infos[one], true)
		} else {
			one.ssa = p.prog.CreatePackage(one.types, nil, nil, true)
		}
	}
	for _, one := range p.pkgs {
		if one.source && !one.broken {
			one.ssa.Build()
		}
	}
	return nil
}

// parse reads a package: whole if it is analysed, and else without bodies, which makes most of it
// garbage at once.
func (p *program) parse(one *pkg) ([]*ast.File, []error) {
	if one.path == "unsafe" {
		return nil, nil
	}
	if !one.source && one.syntax != nil {
		return one.syntax, nil
	}
	var files []*ast.File
	var errs []error
	for _, name := range one.files {
		if !strings.HasSuffix(name, ".go") {
			continue
		}
		f, err := parser.ParseFile(p.fset, name, nil, parser.SkipObjectResolution)
		if err != nil {
			errs = append(errs, err)
		}
		if f == nil {
			continue
		}
		if !one.source {
			dropBodies(f)
		}
		files = append(files, f)
	}
	if !one.source {
		one.syntax = files
	}
	return files, errs
}

func dropBodies(f *ast.File) {
	for _, d := range f.Decls {
		if fn, ok := d.(*ast.FuncDecl); ok {
			fn.Body = nil
		}
	}
}

func (p *program) check(one *pkg, files []*ast.File) (*types.Info, []error) {
	if one.path == "unsafe" {
		one.types = types.Unsafe
		return nil, nil
	}
	var errs []error
	cfg := &types.Config{
		Importer:         importer(one.imports),
		IgnoreFuncBodies: !one.source,
		FakeImportC:      true,
		GoVersion:        one.goVersion,
		Sizes:            p.sizes,
		Error:            func(err error) { errs = append(errs, err) },
	}
	var info *types.Info
	if one.source {
		info = &types.Info{
			Types: map[ast.Expr]types.TypeAndValue{}, Defs: map[*ast.Ident]types.Object{}, Uses: map[*ast.Ident]types.Object{},
			Implicits: map[ast.Node]types.Object{}, Instances: map[*ast.Ident]types.Instance{}, Scopes: map[ast.Node]*types.Scope{},
			Selections: map[*ast.SelectorExpr]*types.Selection{}, FileVersions: map[*ast.File]string{},
		}
	}
	one.types, _ = cfg.Check(one.path, p.fset, files, info) // Error has had it
	return info, errs
}

type importer map[string]*pkg

func (i importer) Import(path string) (*types.Package, error) {
	if path == "unsafe" {
		return types.Unsafe, nil
	}
	if to := i[path]; to != nil && to.types != nil {
		return to.types, nil
	}
	return nil, fmt.Errorf("package %s was not loaded", path)
}

// isGenerated reports whether a file is of a generator whose functions are known by their names.
// Their bodies walk all fields, which no reader of the program asks for.
func isGenerated(file string) bool {
	base := filepath.Base(file)
	return strings.HasPrefix(base, "zz_generated") || strings.HasSuffix(base, ".pb.go")
}

// of returns the package that an object is of; nil for the universe.
func (p *program) of(t *types.Package) *pkg { return p.byTypes[t] }

// position says where pos is, as the go command does: relative to the directory of the run.
func (p *program) position(pos token.Pos) token.Position {
	at := p.fset.Position(pos)
	if rel, err := filepath.Rel(p.dir, at.Filename); err == nil && !strings.HasPrefix(rel, "..") {
		at.Filename = filepath.ToSlash(rel)
		return at
	}
	// What is outside is a library: its import path is the same on every machine.
	dir := filepath.Dir(at.Filename)
	for _, one := range p.pkgs {
		if one.dir == dir {
			at.Filename = one.path + "/" + filepath.Base(at.Filename)
			break
		}
	}
	return at
}

// lookup finds a type by its package's path and name.
func (p *program) lookup(name string) (*types.Named, error) {
	dot := strings.LastIndexByte(name, '.')
	if dot < 0 {
		return nil, fmt.Errorf("-type %s: want path.Name, such as k8s.io/api/core/v1.Pod", name)
	}
	one := p.byPath[name[:dot]]
	if one == nil {
		return nil, fmt.Errorf("-type %s: no package of the program imports %s", name, name[:dot])
	}
	obj, ok := one.types.Scope().Lookup(name[dot+1:]).(*types.TypeName)
	if !ok {
		return nil, fmt.Errorf("-type %s: %s has no such type", name, name[:dot])
	}
	named, ok := types.Unalias(obj.Type()).(*types.Named)
	if !ok {
		return nil, fmt.Errorf("-type %s: not a struct", name)
	}
	if _, ok := named.Underlying().(*types.Struct); !ok {
		return nil, fmt.Errorf("-type %s: not a struct", name)
	}
	return named, nil
}

// mains are the packages whose main function starts a program that the user named.
func (p *program) mains() []*pkg {
	return slices.DeleteFunc(slices.Clone(p.pkgs), func(one *pkg) bool { return !one.root || one.name != "main" })
}
