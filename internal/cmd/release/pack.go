package main

import (
	"archive/zip"
	"fmt"
	"io"
	"io/fs"
	"path"
	"slices"
	"strings"
)

// modules returns the directories of the modules among the files of a repository.
func modules(files []string) (dirs []string) {
	for _, file := range files {
		if path.Base(file) == "go.mod" {
			dirs = append(dirs, path.Dir(file))
		}
	}
	return dirs
}

// inModule returns the files of the module in dir: not those of the modules within it.
func inModule(files []string, dir string) (in []string) {
	mods := modules(files)
	for _, file := range files {
		d := path.Dir(file)
		for !slices.Contains(mods, d) && d != "." {
			d = path.Dir(d)
		}
		if d == dir {
			in = append(in, file)
		}
	}
	return in
}

// pack writes the module in dir as the zip file that a proxy serves. As the go command does, it
// takes the repository's LICENSE if the module has none.
func pack(w io.Writer, fsys fs.FS, files []string, dir, modulePath string) error {
	z := zip.NewWriter(w)
	add := func(file, as string) error {
		data, err := fs.ReadFile(fsys, file)
		if err != nil {
			return err
		}
		f, err := z.Create(modulePath + "@" + version + "/" + as)
		if err != nil {
			return err
		}
		_, err = f.Write(data)
		return err
	}
	in := inModule(files, dir)
	if len(in) == 0 {
		return fmt.Errorf("there is no module in %s", dir)
	}
	for _, file := range in {
		if err := add(file, strings.TrimPrefix(file, dir+"/")); err != nil {
			return err
		}
	}
	if license := path.Join(dir, "LICENSE"); !slices.Contains(in, license) && slices.Contains(files, "LICENSE") {
		if err := add("LICENSE", "LICENSE"); err != nil {
			return err
		}
	}
	return z.Close()
}
