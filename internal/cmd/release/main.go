// Release checks that the modules of this repository can be fetched once their tags are set.
//
//	go run ./internal/cmd/release
//
// It packs the files that git knows as the version to be released, into a module proxy on disk, and
// does with that what users do: an empty module gets each published module and uses it, the program
// of lwfields is installed, the quickstart runs from the proxy, and the examples are copied and
// lose their replace directives. All other modules come from the module cache, and what is not
// there from GOPROXY. The module cache does not change.
//
// CONTRIBUTING.md says what to do next.
package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"strings"

	"github.com/go-lw/lw/internal/progress"
)

// version is the version that the nested modules require of the others, and that is released next.
const version = "v0.1.0"

// published are the directories of the modules that get a tag.
var published = []string{".", "clientgo", "controllerruntime", "websocket", "prom", "etcd", "lwfields", "simulate", "cmd/lwbuild"}

// tools are those of them that are programs.
var tools = map[string]bool{"lwfields": true, "cmd/lwbuild": true}

const (
	quickstart = "github.com/go-lw/lw/examples/quickstart"
	examples   = "examples/cluster" // the module of the programs that readers copy
)

func main() {
	flag.Parse()
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	defer stop()
	if err := run(ctx); err != nil {
		fmt.Fprintln(os.Stderr, "release:", err)
		os.Exit(1)
	}
}

func run(ctx context.Context) (err error) {
	list, err := output(ctx, ".", nil, "git", "ls-files", "-z", "--full-name", ":/")
	if err != nil {
		return err
	}
	root, err := output(ctx, ".", nil, "git", "rev-parse", "--show-toplevel")
	if err != nil {
		return err
	}
	r := &release{root: strings.TrimSpace(root), files: strings.Split(strings.TrimRight(list, "\x00"), "\x00")}
	if r.dir, err = os.MkdirTemp("", "release-"); err != nil {
		return err
	}
	defer func() { err = errors.Join(err, os.RemoveAll(r.dir)) }()
	if err := r.environment(ctx); err != nil {
		return err
	}
	paths := make([]string, len(published))
	for i, dir := range published {
		done := progress.Start(os.Stderr, "publish "+dir)
		paths[i], err = r.publish(ctx, dir)
		done()
		if err != nil {
			return fmt.Errorf("publish %s: %w", dir, err)
		}
	}
	for i, path := range paths {
		done := progress.Start(os.Stderr, "go get "+path)
		get := r.get
		if tools[published[i]] {
			get = r.getTool
		}
		err := get(ctx, path)
		done()
		if err != nil {
			return fmt.Errorf("go get %s@%s: %w", path, version, err)
		}
	}
	done := progress.Start(os.Stderr, "go run "+quickstart)
	_, err = output(ctx, r.dir, r.env, "go", "run", quickstart+"@"+version)
	done()
	if err != nil {
		return fmt.Errorf("go run %s@%s: %w", quickstart, version, err)
	}
	fmt.Printf("ok  go run %s@%s\n", quickstart, version)
	done = progress.Start(os.Stderr, "a copy of "+examples)
	err = r.copied(ctx, examples)
	done()
	if err != nil {
		return fmt.Errorf("a copy of %s: %w", examples, err)
	}
	return nil
}

// A release is a version of the modules in a proxy on disk.
type release struct {
	root  string   // of the repository
	files []string // what git knows, by path from the root
	dir   string   // for everything that is made
	env   []string // of the go command, when it acts for a user
}

// environment sets env: a module cache of its own, filled from the proxy on disk and from the
// module cache of this machine.
func (r *release) environment(ctx context.Context) error {
	out, err := output(ctx, r.root, nil, "go", "env", "-json", "GOMODCACHE", "GOPROXY")
	if err != nil {
		return err
	}
	var env struct{ GOMODCACHE, GOPROXY string }
	if err := json.Unmarshal([]byte(out), &env); err != nil {
		return err
	}
	r.env = append(os.Environ(), "GOWORK=off", "GOSUMDB=off", "GOPRIVATE=", "GONOPROXY=",
		// Without the path, the build cache can be used again the next time.
		"GOFLAGS=-mod=mod -modcacherw -trimpath",
		"GOMODCACHE="+filepath.Join(r.dir, "cache"),
		"GOPROXY="+strings.Join([]string{
			fileURL(filepath.Join(r.dir, "proxy")), fileURL(filepath.Join(env.GOMODCACHE, "cache", "download")), env.GOPROXY,
		}, ","))
	return nil
}

func fileURL(path string) string { return "file://" + filepath.ToSlash(path) }

// publish puts a module into the proxy and returns its path.
func (r *release) publish(ctx context.Context, dir string) (path string, err error) {
	mod := filepath.Join(r.root, dir, "go.mod")
	out, err := output(ctx, r.root, nil, "go", "mod", "edit", "-json", mod)
	if err != nil {
		return "", err
	}
	var parsed struct{ Module struct{ Path string } }
	if err := json.Unmarshal([]byte(out), &parsed); err != nil {
		return "", err
	}
	path = parsed.Module.Path
	data, err := os.ReadFile(mod)
	if err != nil {
		return "", err
	}
	var zip bytes.Buffer
	if err := pack(&zip, os.DirFS(r.root), r.files, dir, path); err != nil {
		return "", err
	}
	at := filepath.Join(r.dir, "proxy", filepath.FromSlash(path), "@v")
	if err := os.MkdirAll(at, 0o755); err != nil {
		return "", err
	}
	for name, data := range map[string][]byte{
		"list":            []byte(version + "\n"),
		version + ".info": []byte(`{"Version":"` + version + `"}`),
		version + ".mod":  data,
		version + ".zip":  zip.Bytes(),
	} {
		if err := os.WriteFile(filepath.Join(at, name), data, 0o644); err != nil {
			return "", err
		}
	}
	return path, nil
}

// get uses a published module in a program that has nothing else.
func (r *release) get(ctx context.Context, path string) error {
	dir, err := os.MkdirTemp(r.dir, "user-")
	if err != nil {
		return err
	}
	for name, text := range map[string]string{
		"go.mod":  "module example.com/user\n\ngo 1.26.0\n",
		"main.go": fmt.Sprintf("package main\n\nimport _ %q\n\nfunc main() {}\n", path),
	} {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o644); err != nil {
			return err
		}
	}
	for _, args := range [][]string{{"get", path + "@" + version}, {"vet", "./..."}} {
		if _, err := output(ctx, dir, r.env, "go", args...); err != nil {
			return err
		}
	}
	asks, err := output(ctx, dir, r.env, "go", "list", "-m", "k8s.io/apimachinery")
	fmt.Printf("ok  go get %s@%s, with %s", path, version, asks)
	return err
}

// getTool adds a published program to a module that has nothing else and builds it, and installs it
// without a module.
func (r *release) getTool(ctx context.Context, path string) error {
	dir, err := os.MkdirTemp(r.dir, "user-")
	if err != nil {
		return err
	}
	for _, args := range [][]string{
		{"mod", "init", "example.com/user"}, {"get", "-tool", path + "@" + version}, {"build", "-o", os.DevNull, path}, {"install", path + "@" + version},
	} {
		if _, err := output(ctx, dir, append(r.env, "GOBIN="+dir), "go", args...); err != nil {
			return err
		}
	}
	fmt.Printf("ok  go get -tool and go install %s@%s\n", path, version)
	return nil
}

// copied uses the examples as their readers do: as a copy without replace directives.
func (r *release) copied(ctx context.Context, module string) error {
	dir := filepath.Join(r.dir, "copy")
	if err := os.CopyFS(dir, os.DirFS(filepath.Join(r.root, filepath.FromSlash(module)))); err != nil {
		return err
	}
	out, err := output(ctx, dir, r.env, "go", "mod", "edit", "-json")
	if err != nil {
		return err
	}
	var parsed struct {
		Replace []struct{ Old struct{ Path string } }
	}
	if err := json.Unmarshal([]byte(out), &parsed); err != nil {
		return err
	}
	for _, replace := range parsed.Replace {
		if _, err := output(ctx, dir, r.env, "go", "mod", "edit", "-dropreplace="+replace.Old.Path); err != nil {
			return err
		}
	}
	if _, err := output(ctx, dir, r.env, "go", "vet", "./..."); err != nil {
		return err
	}
	fmt.Printf("ok  a copy of %s\n", module)
	return nil
}

// output runs a command in a directory. Its error has what the command said.
func output(ctx context.Context, dir string, env []string, name string, args ...string) (string, error) {
	cmd := exec.CommandContext(ctx, name, args...)
	cmd.Dir, cmd.Env = dir, env
	var stderr bytes.Buffer
	cmd.Stderr = &stderr
	out, err := cmd.Output()
	if err != nil {
		err = fmt.Errorf("%s %s: %w\n%s", name, strings.Join(args, " "), err, stderr.Bytes())
	}
	return string(out), err
}
