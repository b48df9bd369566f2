package main

import (
	"encoding/json"
	"errors"
	"os"
	"path/filepath"
	"strings"
)

func (b *builder) inWorkspace() bool { return b.env["GOWORK"] != "" && b.env["GOWORK"] != "off" }

// workspace returns a copy of go.work: go writes sums next to the file that it is given.
func (b *builder) workspace() (file string, err error) {
	from, to := b.env["GOWORK"], filepath.Join(b.tmp, "lw.work")
	for old, copied := range map[string]string{from: to, from + ".sum": to + ".sum"} {
		data, err := os.ReadFile(old)
		if err == nil {
			err = os.WriteFile(copied, data, 0o666)
		}
		if err != nil && (old == from || !errors.Is(err, os.ErrNotExist)) {
			return "", err
		}
	}
	out, err := output(b.goCommand("work", "edit", "-json", from))
	if err != nil {
		return "", err
	}
	type version struct{ Path, Version string }
	var work struct {
		Use     []struct{ DiskPath string }
		Replace []struct{ Old, New version }
	}
	if err := json.Unmarshal(out, &work); err != nil {
		return "", err
	}
	args := []string{"work", "edit"}
	abs := func(path string) string {
		if filepath.IsAbs(path) {
			return path
		}
		return filepath.Join(filepath.Dir(from), filepath.FromSlash(path))
	}
	for _, use := range work.Use {
		args = append(args, "-dropuse="+use.DiskPath, "-use="+abs(use.DiskPath))
	}
	for _, r := range work.Replace {
		if r.New.Version == "" {
			args = append(args, "-replace="+strings.TrimSuffix(r.Old.Path+"@"+r.Old.Version, "@")+"="+abs(r.New.Path))
		}
	}
	_, err = output(b.goCommand(append(args, to)...))
	return to, err
}

// workspaceEdits give the build the versions of the workspace, and its members as replaces.
func workspaceEdits(mods []module, root string) (edits []string) {
	for _, m := range mods {
		switch {
		case m.Main && m.Dir != root:
			edits = append(edits, "-replace="+m.Path+"="+m.Dir)
		case m.Main:
		case m.Replace != nil && m.Replace.Version == "":
			edits = append(edits, "-require="+m.Path+"@"+m.Version, "-replace="+m.Path+"="+m.Replace.Dir)
		case m.Replace != nil:
			edits = append(edits, "-require="+m.Path+"@"+m.Version, "-replace="+m.Path+"="+m.Replace.Path+"@"+m.Replace.Version)
		default:
			edits = append(edits, "-require="+m.Path+"@"+m.Version)
		}
	}
	return edits
}
