package main

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"

	"github.com/go-lw/lw/cmd/lwenvtest/internal/early"
)

// assetsDir returns a folder with this program under the names that envtest starts. It stays in the
// user's cache and is found again by the content of the program, which "go run" deletes when it
// ends.
func assetsDir() (string, error) {
	self, err := os.Executable()
	if err != nil {
		return "", fmt.Errorf("assets: %w", err)
	}
	cache, err := os.UserCacheDir()
	if err != nil {
		cache = os.TempDir() // such as a container without a home
	}
	return installAssets(self, filepath.Join(cache, "lwenvtest"))
}

func installAssets(self, cache string) (string, error) {
	sum, err := contentOf(self)
	if err != nil {
		return "", fmt.Errorf("assets: %w", err)
	}
	dir := filepath.Join(cache, sum)
	if _, err := os.Stat(dir); err == nil {
		return dir, nil
	}
	if err := os.MkdirAll(cache, 0o755); err != nil {
		return "", fmt.Errorf("assets: %w", err)
	}
	// The folder appears whole, so several processes may do this at once.
	made, err := os.MkdirTemp(cache, "new-")
	if err != nil {
		return "", fmt.Errorf("assets: %w", err)
	}
	defer os.RemoveAll(made)
	if err := fillAssets(self, made); err != nil {
		return "", fmt.Errorf("assets: %w", err)
	}
	if err := os.Rename(made, dir); err != nil {
		if _, other := os.Stat(dir); other != nil {
			return "", fmt.Errorf("assets: %w", err)
		}
	}
	return dir, nil
}

func fillAssets(self, dir string) error {
	suffix := ""
	if runtime.GOOS == "windows" {
		suffix = ".exe"
	}
	server := filepath.Join(dir, early.Server+suffix)
	if err := copyFile(self, server); err != nil {
		return err
	}
	if etcd := filepath.Join(dir, early.Etcd+suffix); os.Link(server, etcd) != nil {
		if err := copyFile(self, etcd); err != nil {
			return err
		}
	}
	// The kubectl is that of the machine, if there is one.
	if kubectl, err := exec.LookPath("kubectl"); err == nil {
		if kubectl, err = filepath.Abs(kubectl); err == nil {
			_ = os.Symlink(kubectl, filepath.Join(dir, "kubectl"+suffix)) // a suite that uses it says so
		}
	}
	return os.Chmod(dir, 0o755)
}

func contentOf(path string) (string, error) {
	f, err := os.Open(path)
	if err != nil {
		return "", err
	}
	defer f.Close()
	h := sha256.New()
	if _, err := io.Copy(h, f); err != nil {
		return "", err
	}
	return hex.EncodeToString(h.Sum(nil)[:8]), nil
}

func copyFile(from, to string) error {
	in, err := os.Open(from)
	if err != nil {
		return err
	}
	defer in.Close()
	out, err := os.OpenFile(to, os.O_CREATE|os.O_EXCL|os.O_WRONLY, 0o755)
	if err != nil {
		return err
	}
	_, err = io.Copy(out, in)
	if e := out.Close(); err == nil {
		err = e
	}
	return err
}
