package servers

import (
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"strconv"
	"strings"
)

// A Kind is an API server and its etcd, both built from a Go module in e2e.
type Kind struct {
	Name     string
	module   string // the module's directory within e2e
	server   binary
	etcd     binary
	etcdArgs []string // before etcd's own arguments
}

// A binary is the result of one go build.
type binary struct {
	name, pkg, ldflags string
}

// Generic is a k8s.io/apiserver v0.37.2 generic server that serves core/v1, with etcd v3.7.0 in the
// same binary. It authenticates nobody, validates nothing, and restarts in half a second.
var Generic = Kind{
	Name:     "generic",
	module:   "apiserver",
	server:   binary{"apiserver", ".", "-s -w"},
	etcd:     binary{"apiserver", ".", "-s -w"},
	etcdArgs: []string{"etcd"},
}

// Kube is kube-apiserver v1.36.3 with etcd v3.6.8.
var Kube = Kind{
	Name:   "kube",
	module: "kube",
	server: binary{"kube-apiserver", "k8s.io/kubernetes/cmd/kube-apiserver", "-s -w" +
		" -X k8s.io/component-base/version.gitVersion=v1.36.3" +
		" -X k8s.io/component-base/version.gitMajor=1" +
		" -X k8s.io/component-base/version.gitMinor=36"},
	etcd: binary{"etcd", "go.etcd.io/etcd/server/v3", "-s -w"},
}

// Kinds are all kinds.
var Kinds = []Kind{Generic, Kube}

// BuildCommand returns the command that builds the binaries of k. It is run in e2e/.
func (k Kind) BuildCommand() string { return "go run ./cmd/build " + k.Name }

// Binaries returns the directory of the binaries of k. If they are not built it returns an error
// that wraps fs.ErrNotExist.
func (k Kind) Binaries() (string, error) {
	_, dir, err := k.dirs()
	if err != nil {
		return "", err
	}
	for _, b := range []binary{k.server, k.etcd} {
		if _, err := os.Stat(filepath.Join(dir, b.name)); err != nil {
			return "", fmt.Errorf("servers: %s is not built, run in e2e: %s: %w", k.Name, k.BuildCommand(), err)
		}
	}
	return dir, nil
}

// Build builds the binaries of k that are missing, and returns their directory. parallel is the
// largest number of compilations at once; 0 means the default of the go command. Build needs the go
// command, and minutes of CPU time when the build cache is empty.
func (k Kind) Build(ctx context.Context, parallel int, log io.Writer) (string, error) {
	src, dir, err := k.dirs()
	if err != nil {
		return "", err
	}
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return "", err
	}
	for _, b := range []binary{k.server, k.etcd} {
		path := filepath.Join(dir, b.name)
		if _, err := os.Stat(path); err == nil {
			continue
		}
		// Build under another name first: an interrupted build must not look like a finished one.
		unfinished := path + "." + strconv.Itoa(os.Getpid())
		args := []string{"build", "-ldflags", b.ldflags, "-o", unfinished}
		if parallel > 0 {
			args = append(args, "-p", strconv.Itoa(parallel))
		}
		cmd := exec.CommandContext(ctx, "go", append(args, b.pkg)...)
		cmd.Dir, cmd.Stdout, cmd.Stderr = src, log, log
		cmd.Env = append(os.Environ(), "CGO_ENABLED=0", "GOWORK=off")
		if err := cmd.Run(); err != nil {
			os.Remove(unfinished)
			return "", fmt.Errorf("servers: build %s: %w", b.name, err)
		}
		if err := os.Rename(unfinished, path); err != nil {
			return "", err
		}
	}
	return dir, nil
}

// dirs returns the directory of the module that builds k, and the directory of its binaries. The
// latter's name is a hash of everything that the binaries are built from.
func (k Kind) dirs() (src, bin string, err error) {
	root, err := moduleRoot()
	if err != nil {
		return "", "", err
	}
	src = filepath.Join(root, k.module)
	files, err := filepath.Glob(filepath.Join(src, "*.go"))
	if err != nil {
		return "", "", err
	}
	files = append(files, filepath.Join(src, "go.mod"), filepath.Join(src, "go.sum"))
	slices.Sort(files)
	hash := sha256.New()
	fmt.Fprintln(hash, runtime.Version(), runtime.GOOS, runtime.GOARCH, k.server, k.etcd)
	for _, file := range files {
		content, err := os.ReadFile(file)
		if err != nil {
			return "", "", err
		}
		fmt.Fprintln(hash, filepath.Base(file), len(content))
		hash.Write(content)
	}
	cache, err := os.UserCacheDir()
	if err != nil {
		return "", "", err
	}
	return src, filepath.Join(cache, "lw-e2e", fmt.Sprintf("%x", hash.Sum(nil))), nil
}

// moduleRoot returns the directory of the e2e module. It looks in the working directory and above
// it.
func moduleRoot() (string, error) {
	dir, err := os.Getwd()
	if err != nil {
		return "", err
	}
	for {
		content, err := os.ReadFile(filepath.Join(dir, "go.mod"))
		if err == nil && strings.HasPrefix(string(content), "module github.com/go-lw/lw/e2e\n") {
			return dir, nil
		}
		if filepath.Dir(dir) == dir {
			return "", errors.New("servers: not called within the e2e module")
		}
		dir = filepath.Dir(dir)
	}
}
