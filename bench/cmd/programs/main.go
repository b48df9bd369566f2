// Programs builds real programs, unmodified, with lwbuild, runs their own tests either side, and
// prints the table of them.
//
//	go run ./cmd/programs [-readme ../README.md] [names]
//
// Each file of bench/programs is a program: its module, which comes from the module proxy, its main
// package, the packages whose tests make informers, and what they need. The baseline is the
// untouched module with its own versions. The command fails if a test has another result on lw.
package main

import (
	"bytes"
	"cmp"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"time"

	"github.com/go-lw/lw/bench/internal/foreign"
)

// A program is a file of bench/programs.
type program struct {
	Module, Version, Command, Needs string
	Tests                           []string
}

func main() {
	readme := flag.String("readme", "", "the `file` whose table is to be replaced by that of this run")
	flag.Parse()
	if err := run(*readme, flag.Args()); err != nil {
		fmt.Fprintln(os.Stderr, "programs:", err)
		os.Exit(1)
	}
}

func run(readme string, names []string) error {
	files, err := filepath.Glob("programs/*.json")
	if err != nil || len(files) == 0 {
		return cmp.Or(err, errors.New("there is no programs/*.json here: call it in bench"))
	}
	tmp, err := os.MkdirTemp("", "programs-")
	if err != nil {
		return err
	}
	defer os.RemoveAll(tmp)
	lwbuild := filepath.Join(tmp, "lwbuild")
	folder := filepath.Join("..", "cmd", "lwbuild")
	if _, _, err := foreign.Command(folder, nil, "go", "build", "-o", lwbuild, "."); err != nil {
		return err
	}
	var failed []error
	var table strings.Builder
	put := func(text string) {
		fmt.Print(text)
		table.WriteString(text)
	}
	put(header(time.Now()))
	for _, file := range files {
		name := strings.TrimSuffix(filepath.Base(file), ".json")
		if len(names) > 0 && !slices.Contains(names, name) {
			continue
		}
		var p program
		if data, err := os.ReadFile(file); err != nil {
			return err
		} else if err := json.Unmarshal(data, &p); err != nil {
			return fmt.Errorf("%s: %w", file, err)
		}
		began := time.Now()
		r, err := p.try(lwbuild, filepath.Join(tmp, name))
		if err == nil {
			put(r.row(p))
			err = r.differs()
		}
		if err != nil {
			failed = append(failed, fmt.Errorf("%s, which needs %s: %w", name, cmp.Or(p.Needs, "nothing"), err))
		}
		fmt.Fprintf(os.Stderr, "programs: %s: %v: %v\n", name, time.Since(began).Round(time.Second),
			cmp.Or(err, errors.New("ok")))
	}
	if err := errors.Join(failed...); err != nil || readme == "" {
		return err
	}
	page, err := os.ReadFile(readme)
	if err != nil {
		return err
	}
	page, err = within(page, table.String())
	if err != nil {
		return fmt.Errorf("%s: %w", readme, err)
	}
	return os.WriteFile(readme, page, 0o666)
}

// header is what is above the rows: the day, the machine, and the names of the columns.
func header(now time.Time) string {
	model := runtime.GOARCH
	if data, err := os.ReadFile("/proc/cpuinfo"); err == nil {
		if _, after, ok := strings.Cut(string(data), "model name"); ok {
			model, _, _ = strings.Cut(strings.TrimLeft(after, "\t :"), "\n")
		}
	}
	return fmt.Sprintf("On %s, %s, %d cores of %s, %s:\n\n", now.Format(time.DateOnly), runtime.GOOS, runtime.NumCPU(),
		model, runtime.Version()) +
		"| module | command | client-go | own tests that pass: untouched, `LW=off`, lw | informers they make | lines changed |\n|---|---|---|---|---|---|\n"
}

// within returns page with table between its two marks.
func within(page []byte, table string) ([]byte, error) {
	const begin, end = "<!-- programs -->\n", "<!-- /programs -->"
	before, rest, ok := bytes.Cut(page, []byte(begin))
	_, after, ended := bytes.Cut(rest, []byte(end))
	if !ok || !ended {
		return nil, fmt.Errorf("there is no place for the table between %q and %q", begin, end)
	}
	return slices.Concat(before, []byte(begin), []byte(table), []byte(end), after), nil
}

// A result is what became of a program.
type result struct {
	versions       string            // what lwbuild did with them
	plain, off, on map[string]string // what became of each test: pass, fail or skip
	informers      int
	changed        []string // files of the program
}

// try fetches, builds and tests p in dir.
func (p program) try(lwbuild, dir string) (r result, err error) {
	module, err := foreign.Fetch(p.Module, p.Version, dir)
	if err != nil {
		return r, err
	}
	defer os.RemoveAll(dir)
	binary, report := dir+".lw", dir+".report"
	_, said, err := foreign.Command(dir, nil, lwbuild, "-p", "1", "-o", binary, p.Command)
	if err != nil {
		return r, err
	}
	defer os.Remove(binary)
	r.versions = versions(string(said))
	for _, side := range []struct {
		of  *map[string]string
		env []string
		cmd []string
	}{
		{&r.plain, nil, []string{"go", "test"}},
		{&r.off, []string{"LW=off"}, []string{lwbuild, "-test"}},
		{&r.on, []string{"LW=on", "LW_REPORT=" + report}, []string{lwbuild, "-test"}},
	} {
		args := slices.Concat(side.cmd[1:], []string{"-p", "1", "-count=1", "-vet=off", "-timeout", "5m", "-json"}, p.Tests)
		// A test that fails is a result. Vet is off, since it reads all that the tests import.
		out, said, err := foreign.Command(dir, side.env, side.cmd[0], args...)
		if *side.of = outcomes(out); len(*side.of) == 0 {
			return r, cmp.Or(err, fmt.Errorf("no test has run: %s", said))
		}
	}
	lines, err := os.ReadFile(report)
	if err != nil {
		return r, fmt.Errorf("the tests make no informers: %w", err)
	}
	r.informers = bytes.Count(lines, []byte("\tlw\n"))
	r.changed, err = foreign.Changed(module, dir)
	return r, err
}

// versions returns what lwbuild says of client-go: "kept v0.37.0", or "raised v0.33.3 to v0.36.3".
func versions(said string) string {
	for line := range strings.Lines(said) {
		if _, text, ok := strings.Cut(strings.TrimSpace(line), "lwbuild: kept k8s.io/client-go "); ok {
			return "kept " + text
		} else if _, text, ok := strings.Cut(strings.TrimSpace(line), "lwbuild: raised k8s.io/client-go "); ok {
			text, _, _ = strings.Cut(text, ",")
			return "raised " + text
		}
	}
	return "?"
}

// outcomes reads what go test -json says of tests, with subtests, and of packages that fail.
func outcomes(events []byte) map[string]string {
	all := map[string]string{}
	for line := range bytes.Lines(events) {
		var e struct{ Action, Test, Package string }
		if json.Unmarshal(line, &e) != nil {
			continue
		}
		if is := e.Action; is == "pass" && e.Test != "" || is == "fail" || is == "skip" && e.Test != "" {
			all[strings.TrimSpace(e.Package+" "+e.Test)] = is
		}
	}
	return all
}

// row returns r's row of the table.
func (r result) row(p program) string {
	passed := make([]string, 3)
	for i, side := range []map[string]string{r.plain, r.off, r.on} {
		n, failed := 0, 0
		for _, is := range side {
			switch is {
			case "pass":
				n++
			case "fail":
				failed++
			}
		}
		passed[i] = fmt.Sprint(n)
		if failed > 0 {
			passed[i] += fmt.Sprintf(" (%d fail)", failed)
		}
	}
	lines := "0"
	if len(r.changed) > 0 {
		lines = strings.Join(r.changed, " ")
	}
	return fmt.Sprintf("| %s %s | `%s` | %s | %s | %d | %s |\n", p.Module, p.Version, p.Command, r.versions,
		strings.Join(passed, ", "), r.informers, lines)
}

// differs returns an error that names the tests whose result on lw is not that of the untouched
// program, and what else makes r no proof.
func (r result) differs() error {
	var text []string
	for side, got := range map[string]map[string]string{"with LW=off": r.off, "on lw": r.on} {
		for test := range r.plain {
			if want, is := r.plain[test], cmp.Or(got[test], "missing"); is != want {
				text = append(text, fmt.Sprintf("%s: %s untouched, %s %s", test, want, is, side))
			}
		}
		for test, is := range got {
			if r.plain[test] == "" {
				text = append(text, fmt.Sprintf("%s: missing untouched, %s %s", test, is, side))
			}
		}
	}
	slices.Sort(text)
	if len(r.changed) > 0 {
		text = append(text, fmt.Sprintf("lwbuild has changed %q", r.changed))
	}
	if r.informers == 0 {
		text = append(text, "no informer is lw's")
	}
	if text == nil {
		return nil
	}
	return errors.New(strings.Join(text, "\n"))
}
