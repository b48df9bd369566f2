package main

import (
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"

	"github.com/go-lw/lw/internal/golist"
)

// A workshop has the test binaries with the mutants in them.
type workshop struct {
	opts      options
	dir       string
	overlay   string
	packages  []*pkg
	mutants   []*mutant // those that are Go
	stillborn []*mutant
	suites    []*suite
	failing   []string // tests that fail in the workshop without a mutant
}

// A suite is the tests of a package, compiled.
type suite struct {
	path, dir string
	binary    string
	race      string // the same under the race detector; "": not built
	flags     []string
	reaches   map[*pkg]bool // the packages that it is built from
	tests     []*test
}

func newWorkshop(o options, packages []*pkg, chosen []*mutant) (*workshop, error) {
	dir, err := os.MkdirTemp("", "mutate")
	if err != nil {
		return nil, err
	}
	w := &workshop{opts: o, dir: dir, packages: packages}
	most := 0
	for _, m := range chosen {
		most = max(most, m.id)
	}
	replace := map[string]string{}
	for i, p := range packages {
		on := map[*mutant]bool{}
		for _, m := range chosen {
			if m.file.pkg == p {
				on[m] = true
			}
		}
		stillborn, err := p.check(on, most)
		if err != nil {
			return nil, err
		}
		w.stillborn = append(w.stillborn, stillborn...)
		for _, m := range stillborn {
			if o.verbose {
				progress("not Go: %s", m)
			}
		}
		for _, f := range p.files {
			if replace[f.path], err = w.write(fmt.Sprintf("%d_%s", i, filepath.Base(f.path)), f.render(on)); err != nil {
				return nil, err
			}
		}
		// A name that no file has: an overlay may add one.
		if replace[filepath.Join(p.dir, "zz_mutants.go")], err = w.write(fmt.Sprintf("%d_scaffold.go", i), scaffold(p.name, most)); err != nil {
			return nil, err
		}
		for _, m := range chosen {
			if on[m] {
				w.mutants = append(w.mutants, m)
			}
		}
	}
	data, err := json.Marshal(map[string]any{"Replace": replace})
	if err != nil {
		return nil, err
	}
	w.overlay, err = w.write("overlay.json", string(data))
	return w, err
}

func (w *workshop) write(name, text string) (path string, err error) {
	path = filepath.Join(w.dir, name)
	return path, os.WriteFile(path, []byte(text), 0o600)
}

func (w *workshop) close() { _ = os.RemoveAll(w.dir) }

// build compiles the tests of the mutated packages, and of all of the module that are built from
// one of them.
func (w *workshop) build(race bool) error {
	if len(w.suites) == 0 {
		if err := w.dependents(); err != nil {
			return err
		}
	}
	for i, s := range w.suites {
		progress("compile the tests of %s", s.path)
		args := []string{"test", "-c", "-vet=off", "-overlay", w.overlay, "-o", filepath.Join(w.dir, fmt.Sprintf("%d.test", i))}
		s.binary = args[len(args)-1]
		if race {
			s.race = s.binary + ".race"
			args[len(args)-1] = s.race
			args = append(args, "-race")
		}
		cmd := exec.Command("go", append(args, s.path)...)
		cmd.Dir = w.packages[0].root
		if out, err := cmd.CombinedOutput(); err != nil {
			return fmt.Errorf("go test -c %s: %w\n%s", s.path, err, out)
		}
	}
	return nil
}

// dependents finds the suites: first those of the mutated packages themselves, then, where they are
// wanted, all others.
func (w *workshop) dependents() error {
	all, err := golist.List("", append([]string{"-test", "-deps", w.packages[0].root + "/..."}, paths(w.packages)...)...)
	if err != nil {
		return err
	}
	byPath := map[string]*suite{}
	for _, l := range all {
		under, isTest := strings.CutSuffix(l.ImportPath, ".test")
		if !isTest {
			continue
		}
		s := &suite{path: under, dir: l.Dir, reaches: map[*pkg]bool{}}
		for _, p := range w.packages {
			s.reaches[p] = slices.ContainsFunc(l.Deps, func(d string) bool { return d == p.path || strings.HasPrefix(d, p.path+" [") })
			if s.reaches[p] {
				byPath[under] = s
			}
		}
	}
	for _, p := range w.packages {
		if s := byPath[p.path]; s != nil {
			w.suites = append(w.suites, s)
			delete(byPath, p.path)
		}
	}
	if w.opts.own {
		return nil
	}
	tests, err := regexp.Compile(w.opts.tests)
	if err != nil {
		return err
	}
	others := make([]string, 0, len(byPath))
	for path := range byPath {
		if tests.MatchString(path) {
			others = append(others, path)
		}
	}
	slices.Sort(others)
	for _, path := range others {
		w.suites = append(w.suites, byPath[path])
	}
	return nil
}

func paths(packages []*pkg) (out []string) {
	for _, p := range packages {
		out = append(out, p.path)
	}
	return out
}
