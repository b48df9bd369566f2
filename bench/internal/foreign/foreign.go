// Package foreign fetches programs of others, which lwbuild builds.
package foreign

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
)

// Fetch copies a module to dir, since go builds nothing inside the module cache, and returns the
// folder that it is copied from.
func Fetch(module, version, dir string) (from string, err error) {
	out, _, err := Command(os.TempDir(), nil, "go", "mod", "download", "-json", module+"@"+version)
	if err != nil {
		return "", err
	}
	var downloaded struct{ Dir string }
	if err := json.Unmarshal(out, &downloaded); err != nil {
		return "", err
	}
	return downloaded.Dir, os.CopyFS(dir, os.DirFS(downloaded.Dir))
}

// Changed returns the files that are not the same in the folders.
func Changed(before, after string) (names []string, err error) {
	for _, sides := range [][2]string{{before, after}, {after, before}} {
		err := filepath.WalkDir(sides[0], func(path string, d fs.DirEntry, err error) error {
			if err != nil || d.IsDir() {
				return err
			}
			name, err := filepath.Rel(sides[0], path)
			if err != nil {
				return err
			}
			want, err := os.ReadFile(path)
			if err != nil {
				return err
			}
			if got, err := os.ReadFile(filepath.Join(sides[1], name)); (err != nil || !bytes.Equal(want, got)) &&
				!slices.Contains(names, name) {
				names = append(names, name)
			}
			return nil
		})
		if err != nil {
			return nil, err
		}
	}
	return names, nil
}

// Command runs a program in dir, with more in its environment.
func Command(dir string, env []string, name string, args ...string) (stdout, stderr []byte, err error) {
	cmd := exec.Command(name, args...)
	var out, said bytes.Buffer
	cmd.Dir, cmd.Env, cmd.Stdout, cmd.Stderr = dir, append(os.Environ(), env...), &out, &said
	if err := cmd.Run(); err != nil {
		return out.Bytes(), said.Bytes(), fmt.Errorf("%s %s: %w: %s", name, strings.Join(args, " "), err, said.Bytes())
	}
	return out.Bytes(), said.Bytes(), nil
}
