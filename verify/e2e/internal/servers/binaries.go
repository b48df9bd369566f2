package servers

import (
	"context"
	"crypto/sha256"
	"embed"
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
	"syscall"
	"time"
)

// A Kind is an API server and its etcd, both built from module
// verify/servers.
type Kind struct {
	Name     string
	module   string // its folder within modules, with what it is built from
	server   binary
	etcd     binary
	etcdArgs []string // before etcd's own arguments
}

// A binary is the result of one go build.
type binary struct {
	name, pkg, ldflags string
}

// Generic is a k8s.io/apiserver v0.37.2 generic server that serves core/v1 and CRDs, with etcd
// v3.7.0 in the same binary. It authenticates nobody, validates nothing of core/v1, and restarts in
// half a second.
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

// BuildCommand returns the command that builds the binaries of k. It is run in
// verify/e2e.
func (k Kind) BuildCommand() string { return "go run ./cmd build " + k.Name }

// Binaries returns the directory of the binaries of k. If they are not built it returns an error
// that wraps fs.ErrNotExist.
func (k Kind) Binaries() (string, error) {
	_, dir, err := k.dirs()
	if err != nil {
		return "", err
	}
	for _, b := range []binary{k.server, k.etcd} {
		if _, err := os.Stat(filepath.Join(dir, b.name)); err != nil {
			return "", fmt.Errorf("servers: %s is not built, run in verify/e2e: %s: %w", k.Name, k.BuildCommand(), err)
		}
	}
	return dir, nil
}

// Build builds the binaries of k that are missing, and returns their directory. It works in
// whatever directory it is called. A build of another process is waited for. parallel is the
// largest number of compilations at once; 0 means the default of the go command. Build needs the go
// command, and minutes of CPU time when the build cache is empty.
func (k Kind) Build(ctx context.Context, parallel int, log io.Writer) (string, error) {
	files, dir, err := k.dirs()
	if err != nil {
		return "", err
	}
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return "", err
	}
	unlock, err := Lock(ctx, dir)
	if err != nil {
		return "", fmt.Errorf("servers: waiting for another build of %s: %w", k.Name, err)
	}
	defer unlock()
	src := ""
	for _, b := range []binary{k.server, k.etcd} {
		path := filepath.Join(dir, b.name)
		if _, err := os.Stat(path); err == nil {
			continue
		}
		if src == "" {
			if src, err = write(files); err != nil {
				return "", fmt.Errorf("servers: build %s: %w", b.name, err)
			}
			defer os.RemoveAll(src)
		}
		// Build under another name first: an interrupted build must not look like a finished one.
		unfinished := path + "." + strconv.Itoa(os.Getpid())
		args := []string{"build", "-ldflags", b.ldflags, "-o", unfinished}
		if parallel > 0 {
			args = append(args, "-p", strconv.Itoa(parallel))
		}
		cmd := exec.CommandContext(ctx, "go", append(args, b.pkg)...)
		cmd.Dir, cmd.Stdout, cmd.Stderr = src, log, log
		// What a program sets for its own module, such as -mod=vendor, is not for this one. With another
		// compiler flag, or without cgo, all would be compiled again that the tests of this module need, too.
		ofModule := func(flag string) bool { return strings.HasPrefix(flag, "-mod") }
		flags := slices.DeleteFunc(strings.Fields(os.Getenv("GOFLAGS")), ofModule)
		cmd.Env = append(os.Environ(), "GOWORK=off", "GOFLAGS="+strings.Join(flags, " "))
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

// modules are copies of module verify/servers: with its go.mod, and with its kube.mod in that place.
// The zip of module verify/e2e does not have that module, and a program outside of a checkout has
// that zip alone. TestModules holds the copies to the originals.
//
//go:embed modules
var modules embed.FS

// A source is a file of a module.
type source struct {
	name    string
	content []byte
}

// sources returns the files of the module of k, in the order of their names.
func (k Kind) sources() ([]source, error) {
	dir := "modules/" + k.module
	entries, err := modules.ReadDir(dir)
	if err != nil {
		return nil, err
	}
	var files []source
	for _, e := range entries {
		content, err := modules.ReadFile(dir + "/" + e.Name())
		if err != nil {
			return nil, err
		}
		files = append(files, source{strings.TrimSuffix(e.Name(), ".txt"), content})
	}
	return files, nil
}

// write writes files into a new directory.
func write(files []source) (dir string, err error) {
	if dir, err = os.MkdirTemp("", "lw-e2e-src-"); err != nil {
		return "", err
	}
	for _, f := range files {
		if err := os.WriteFile(filepath.Join(dir, f.name), f.content, 0o644); err != nil {
			return "", errors.Join(err, os.RemoveAll(dir))
		}
	}
	return dir, nil
}

// Lock waits until no other process builds in dir, which exists.
func Lock(ctx context.Context, dir string) (unlock func(), err error) {
	f, err := os.OpenFile(filepath.Join(dir, "lock"), os.O_CREATE|os.O_RDWR, 0o644)
	if err != nil {
		return nil, err
	}
	tick := time.NewTicker(100 * time.Millisecond)
	defer tick.Stop()
	for {
		err := syscall.Flock(int(f.Fd()), syscall.LOCK_EX|syscall.LOCK_NB)
		if err == nil {
			return func() { f.Close() }, nil
		}
		if err != syscall.EWOULDBLOCK && err != syscall.EINTR {
			f.Close()
			return nil, err
		}
		select {
		case <-tick.C:
		case <-ctx.Done():
			f.Close()
			return nil, ctx.Err()
		}
	}
}

// dirs returns the files of the module that builds k, and the directory of its binaries. The
// latter's name is a hash of everything that the binaries are built from.
func (k Kind) dirs() (files []source, bin string, err error) {
	if files, err = k.sources(); err != nil {
		return nil, "", err
	}
	hash := sha256.New()
	fmt.Fprintln(hash, runtime.Version(), runtime.GOOS, runtime.GOARCH, k.server, k.etcd)
	for _, f := range files {
		fmt.Fprintln(hash, f.name, len(f.content))
		hash.Write(f.content)
	}
	cache, err := os.UserCacheDir()
	if err != nil {
		return nil, "", err
	}
	return files, filepath.Join(cache, "lw-e2e", fmt.Sprintf("%x", hash.Sum(nil))), nil
}
