package main

import (
	"bytes"
	"crypto/sha256"
	_ "embed"
	"encoding/hex"
	"errors"
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"maps"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"
)

// hooksFile is added to client-go's package cache, and managerFile to controller-runtime's. They end
// in .txt, since they compile only there.
//
//go:embed hooks.go.txt
var hooksFile string

//go:embed manager.go.txt
var managerFile string

// patchSource is part of the name of each patched copy: another patch makes another copy.
//
//go:embed patch.go
var patchSource string

// An insertion is text to put behind an opening brace, on its line, so that no line moves.
type insertion struct {
	file, name string // a function, a method as "T.m", or a type
	// params are the types of the parameters that the text counts on; their names are for its verbs.
	params []string
	text   func(names []string) string
}

// controllerFields are the fields of cache.InformerOptions for the parameters of the functions that
// stand for cache.NewInformerWithOptions.
var controllerFields = map[string]string{
	"ListerWatcher": "ListerWatcher", "runtime.Object": "ObjectType", "time.Duration": "ResyncPeriod",
	"ResourceEventHandler": "Handler", "Indexers": "Indexers", "TransformFunc": "Transform",
}

func controller(name string, more ...string) insertion {
	params := append([]string{"ListerWatcher", "runtime.Object", "time.Duration", "ResourceEventHandler"}, more...)
	return insertion{"tools/cache/controller.go", name, params, func(names []string) string {
		options := "lwPlain: true"
		for i, param := range params {
			options += ", " + controllerFields[param] + ": " + names[i]
		}
		return "if LWController != nil { return LWController(InformerOptions{" + options + "}) }"
	}}
}

func plain(file, name string, params []string, text string) insertion {
	return insertion{file, name, params, func(names []string) string {
		args := make([]any, len(names))
		for i, name := range names {
			args[i] = name
		}
		return fmt.Sprintf(text, args...)
	}}
}

// A patch is what is done to a module. lwPlain, a field of options, says that the caller is the hook,
// which wants the module's own.
type patch struct {
	insertions []insertion
	files      map[string]string // that are added
}

// patches are those of the modules by their paths.
var patches = map[string]patch{
	clientGoPath: {
		insertions: []insertion{
			plain("tools/cache/shared_informer.go", "SharedIndexInformerOptions", nil, "lwPlain bool"),
			plain("tools/cache/controller.go", "InformerOptions", nil, "lwPlain bool"),
			plain("tools/cache/shared_informer.go", "NewSharedIndexInformerWithOptions", []string{"ListerWatcher", "runtime.Object", "SharedIndexInformerOptions"},
				"if LWInformer != nil && !%[3]s.lwPlain { %[3]s.lwPlain = true; return LWInformer(%[1]s, %[2]s, %[3]s) }"),
			plain("tools/cache/controller.go", "NewInformerWithOptions", []string{"InformerOptions"},
				"if LWController != nil && !%[1]s.lwPlain { %[1]s.lwPlain = true; return LWController(%[1]s) }"),
			controller("NewInformer"),
			controller("NewIndexerInformer", "Indexers"),
			controller("NewTransformingInformer", "TransformFunc"),
			controller("NewTransformingIndexerInformer", "Indexers", "TransformFunc"),
			plain("tools/cache/reflector.go", "Reflector.RunWithContext", []string{"*Reflector", "context.Context"},
				"if LWReflector != nil && %[1]s.lwRun(%[2]s) { return }"),
			plain("rest/client.go", "NewRESTClient", []string{"*url.URL", "string", "ClientContentConfig", "flowcontrol.RateLimiter", "*http.Client"},
				"if LWClient != nil { %[5]s = LWClient(%[5]s) }"),
		},
		files: map[string]string{
			"tools/cache/lwbuild.go": hooksFile,
			"rest/lwbuild.go": "package rest\n\nimport \"net/http\"\n\n// LWClient is set by lwbuild's file in the main package. It returns the client in whose place it is used.\n" +
				"var LWClient func(*http.Client) *http.Client\n",
		},
	},
	controllerRuntime: {
		insertions: []insertion{
			plain("pkg/cache/cache.go", "Options", nil, "lwPlain bool"),
			plain("pkg/cache/cache.go", "New", []string{"*rest.Config", "Options"}, "if !%[2]s.lwPlain { return lwNew(%[1]s, %[2]s) }"),
		},
		files: map[string]string{"pkg/cache/lwbuild.go": managerFile},
	},
}

// errUnknown is the error of a module that its patch does not fit.
var errUnknown = errors.New("this lwbuild does not know that version")

// insert returns src, a file of a module, with the insertions of all.
func insert(file string, src []byte, all []insertion) ([]byte, error) {
	set := token.NewFileSet()
	parsed, err := parser.ParseFile(set, file, src, parser.SkipObjectResolution)
	if err != nil {
		return nil, fmt.Errorf("%w: %w", errUnknown, err)
	}
	texts := map[int]string{} // by offset
	for _, in := range all {
		brace, names, err := find(parsed, in)
		if err != nil {
			return nil, fmt.Errorf("%w: %s: %w", errUnknown, file, err)
		}
		texts[set.Position(brace).Offset+1] = " " + in.text(names)
	}
	var out bytes.Buffer
	last := 0
	for _, at := range slices.Sorted(maps.Keys(texts)) {
		out.Write(src[last:at])
		out.WriteString(texts[at])
		if src[at] != '\n' { // a body of one line
			out.WriteString("; ")
		}
		last = at
	}
	out.Write(src[last:])
	return out.Bytes(), nil
}

// find returns the opening brace of what in names, and the names of its receiver and parameters.
func find(file *ast.File, in insertion) (brace token.Pos, names []string, err error) {
	for _, decl := range file.Decls {
		switch decl := decl.(type) {
		case *ast.GenDecl:
			for _, spec := range decl.Specs {
				if t, ok := spec.(*ast.TypeSpec); ok && t.Name.Name == in.name {
					if s, ok := t.Type.(*ast.StructType); ok {
						return s.Fields.Opening, nil, nil
					}
				}
			}
		case *ast.FuncDecl:
			name, fields := decl.Name.Name, decl.Type.Params.List
			if decl.Recv != nil {
				of := typeName(decl.Recv.List[0].Type)
				name, fields = strings.TrimPrefix(of, "*")+"."+name, append(slices.Clone(decl.Recv.List), fields...)
			}
			if name != in.name || decl.Body == nil {
				continue
			}
			var params []string
			for _, field := range fields {
				for _, name := range field.Names {
					names, params = append(names, name.Name), append(params, typeName(field.Type))
				}
			}
			if !slices.Equal(params, in.params) || slices.Contains(names, "_") {
				return 0, nil, fmt.Errorf("%s has the parameters %v, not %v", name, params, in.params)
			}
			return decl.Body.Lbrace, names, nil
		}
	}
	return 0, nil, fmt.Errorf("there is no %s", in.name)
}

// typeName returns the type as source text, for those types that insertions have.
func typeName(e ast.Expr) string {
	switch e := e.(type) {
	case *ast.Ident:
		return e.Name
	case *ast.StarExpr:
		return "*" + typeName(e.X)
	case *ast.SelectorExpr:
		return typeName(e.X) + "." + e.Sel.Name
	}
	return "?"
}

// An origin is a module to patch.
type origin struct {
	path   string
	name   string // for the folder of the copy: a version, or what a fork is
	dir    string
	vendor string // the vendored module whose files count before those of dir; or ""
}

// patched returns the folder below cache with the patched copy, and makes the copy if it is not
// there.
func (o origin) patched(cache string) (string, error) {
	id := sha256.New()
	fmt.Fprint(id, patchSource)
	for _, file := range slices.Sorted(maps.Keys(patches[o.path].files)) {
		fmt.Fprint(id, patches[o.path].files[file])
	}
	if o.vendor != "" || !strings.HasPrefix(o.name, "v") {
		// What has no version of its own may change under its name.
		for _, dir := range []string{o.dir, o.vendor} {
			if err := eachFile(dir, func(name string, data []byte) error {
				_, err := fmt.Fprintf(id, "%s %d %s", name, len(data), data)
				return err
			}); err != nil {
				return "", err
			}
		}
	}
	name := strings.NewReplacer("/", "_", "\\", "_", ":", "_").Replace(o.name)
	return whole(cache, path.Base(o.path)+"@"+name+"-lw"+hex.EncodeToString(id.Sum(nil))[:12], o.write)
}

// whole returns the folder name below cache, and has write make it if it is not there. Several
// lwbuilds may do so at once: a folder appears whole, by its renaming.
func whole(cache, name string, write func(dir string) error) (string, error) {
	to := filepath.Join(cache, name)
	if _, err := os.Stat(to); err == nil {
		return to, nil
	}
	if err := os.MkdirAll(cache, 0o777); err != nil {
		return "", err
	}
	tmp, err := os.MkdirTemp(cache, "making-")
	if err != nil {
		return "", err
	}
	defer os.RemoveAll(tmp)
	whole := filepath.Join(tmp, "module")
	if err := write(whole); err != nil {
		return "", err
	}
	if err := os.Rename(whole, to); err != nil {
		if _, missing := os.Stat(to); missing != nil {
			return "", err
		}
	}
	return to, nil
}

// write writes the patched copy to dir.
func (o origin) write(dir string) error {
	byFile := map[string][]insertion{}
	for _, in := range patches[o.path].insertions {
		byFile[in.file] = append(byFile[in.file], in)
	}
	put := putIn(dir)
	for _, from := range []string{o.dir, o.vendor} {
		if err := eachFile(from, put); err != nil {
			return err
		}
	}
	for file, all := range byFile {
		at := filepath.Join(dir, filepath.FromSlash(file))
		src, err := os.ReadFile(at)
		if err != nil {
			return fmt.Errorf("%w: %w", errUnknown, err)
		}
		if src, err = insert(file, src, all); err != nil {
			return err
		}
		if err := put(file, src); err != nil {
			return err
		}
	}
	for file, text := range patches[o.path].files {
		if err := put(file, []byte(text)); err != nil {
			return err
		}
	}
	return nil
}

// putIn returns a function that writes a file of a module to dir.
func putIn(dir string) func(name string, data []byte) error {
	return func(name string, data []byte) error {
		to := filepath.Join(dir, filepath.FromSlash(name))
		if err := os.MkdirAll(filepath.Dir(to), 0o777); err != nil {
			return err
		}
		return os.WriteFile(to, data, 0o666)
	}
}

// eachFile calls f with each file of the module in dir that a build needs; dir may be "".
func eachFile(dir string, f func(name string, data []byte) error) error {
	if dir == "" {
		return nil
	}
	return filepath.WalkDir(dir, func(path string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		name, err := filepath.Rel(dir, path)
		if err != nil {
			return err
		}
		if base := d.Name(); d.IsDir() && (base == ".git" || base == "vendor" || base == "testdata") {
			return fs.SkipDir
		} else if !d.Type().IsRegular() || strings.HasSuffix(base, "_test.go") {
			return nil
		}
		data, err := os.ReadFile(path)
		if err != nil {
			return err
		}
		return f(filepath.ToSlash(name), data)
	})
}
